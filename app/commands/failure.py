"""How every command ends: a result, or one sentence on stderr and an exit status. Never a traceback.

Status 1: it failed. Status 2: the input was bad. With STRATA_DEBUG=1 an unexpected error shows its
traceback; otherwise the details go to a file and the sentence says which.
"""

import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import typer

from db.errors import StoreError
from db.logs import printable

DEBUG_VARIABLE = "STRATA_DEBUG"  # for those who mend Strata; no setting
FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
_LOG_BYTES = 1 << 20  # the newest details matter; older ones are dropped beyond this


class CommandError(Exception):
    """Ends a command with one sentence; `status` is its exit status."""

    def __init__(self, sentence: str, status: int = FAILED) -> None:
        super().__init__(sentence)
        self.status = status


def guarded(command: Callable[[], int], environ: Mapping[str, str]) -> int:
    """Run a command and turn every way in which it can fail into a sentence and an exit status."""
    try:
        return command()
    except CommandError as error:
        return _say(str(error), error.status)
    except typer.TyperException as error:  # the command line itself was wrong
        context = getattr(error, "ctx", None)
        where = f" (see {context.command_path} --help)" if context is not None else ""
        return _say(error.format_message().rstrip(".") + where, error.exit_code)
    except StoreError as error:
        return _say(str(error), FAILED)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:  # `strata collect ... | head`: the reader has seen enough
        # What is still buffered must not be flushed into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:  # noqa: BLE001 - the last resort: nobody outside may see a traceback
        from db.config_errors import SettingsError  # brings pydantic along, which `--help` does without

        if isinstance(error, SettingsError):
            return _say(str(error), BAD_INPUT)
        return _unexpected(error, environ)


def _unexpected(error: Exception, environ: Mapping[str, str]) -> int:
    if environ.get(DEBUG_VARIABLE) == "1":
        traceback.print_exception(error)
        return FAILED
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    written = _write_details(error, environ)
    where = f"details in {written}" if written else f"{DEBUG_VARIABLE}=1 shows the details"
    return _say(f"unexpected error: {what} ({where})", FAILED)


def _write_details(error: Exception, environ: Mapping[str, str]) -> Path | None:
    state_home = environ.get("XDG_STATE_HOME") or str(
        Path(environ.get("HOME", "/nonexistent")) / ".local/state"
    )
    for folder in (Path(state_home) / "strata", Path(tempfile.gettempdir()) / f"strata-{os.getuid()}"):
        path = folder / "errors.log"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if folder.stat().st_uid != os.getuid():
                continue  # someone else made it in the shared folder first
            # 0600: command lines and paths are nobody else's business. NOFOLLOW: nor is our target.
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            descriptor = os.open(path, flags, 0o600)
            with os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace") as file:
                if file.tell() > _LOG_BYTES:
                    file.truncate(0)
                file.write(f"--- {datetime.now(UTC).isoformat(timespec='seconds')} {sys.argv!r}\n")
                file.write("".join(traceback.format_exception(error)))
        except OSError:
            continue  # read-only or full: the next place
        return path
    return None


def _say(sentence: str, status: int) -> int:
    print(f"strata: {printable(sentence)}", file=sys.stderr)
    return status
