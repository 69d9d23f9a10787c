"""One process of a kind works on a data folder: two collectors would count everything twice."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from db.errors import StoreError


class FolderTaken(StoreError):
    """The folder cannot be claimed; str() is one sentence with the mend."""


@contextmanager
def claimed_folder(data: Path, command: str) -> Iterator[None]:
    """Hold the folder for one `strata COMMAND`; the kernel lets go of it however we end.

    Raises FolderTaken when the folder cannot be written or another `strata COMMAND` holds it.
    """
    try:
        data.mkdir(parents=True, exist_ok=True)
        # Append: opening must not wipe the number of the one that holds it.
        handle = (data / f"{command}.lock").open("a+", encoding="ascii")
    except OSError as error:
        raise FolderTaken(
            f"the data folder {data} cannot be used: {error.strerror}; choose another with --data"
        ) from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            handle.seek(0)
            holder = handle.read(32).strip() or "unknown"
            raise FolderTaken(
                f"another strata {command} (pid {holder}) runs on the data folder {data}; "
                "stop it, or choose another with --data"
            ) from error
        except OSError as error:  # a file system without locks
            raise FolderTaken(
                f"the data folder {data} cannot be locked: {error.strerror}; use a local disk"
            ) from error
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        yield
