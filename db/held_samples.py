"""Tells the pages what the collector process keeps in memory while the store refuses it.

The store cannot tell it: its disk is full, or it is damaged. So it is told in a small file of the data
folder that is written once at the start and then only overwritten, in place, which takes no space. (A file
system that writes every change to a new place, such as ZFS, may refuse even that; then the log alone tells.)
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from db.errors import WriteRefused

NAME = "held.status"
# Under 2 KiB btrfs keeps a file among its metadata, which have space when the data have none.
_BYTES = 1_024
_REASON_CHARACTERS = 400
# It is told anew at every try, at most some fifteen seconds apart; older words are of a process that ended.
STALE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Held:
    """What waits in the collector process's memory.

    since_ms: when the store refused first. told_ms: when this was said. bytes, bound_bytes: how much waits,
    and how much may before all of it is dropped. dropped: scrapes lost since then. reason: the store's words.
    """

    since_ms: int
    told_ms: int
    bytes: int
    bound_bytes: int
    dropped: int
    reason: str


class HeldFile:
    """The side of the collector process."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def tell(self, held: Held | None) -> None:
        """None: nothing waits; to be told once at the start, to take the space. Raises WriteRefused."""
        text = b"" if held is None else _written(held)
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.pwrite(descriptor, text.ljust(_BYTES), 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise WriteRefused(
                f"{self._path}: cannot be written, so pages cannot show what waits: {error.strerror}"
            ) from error


def read_held(folder: Path, now_ms: int) -> Held | None:
    """What waits in memory now, as far as it was told; None when nothing does or nobody says so."""
    try:
        held = Held(**json.loads((folder / NAME).read_bytes()))
    except (OSError, ValueError, TypeError):  # none, blank, or of another version
        return None
    return held if abs(now_ms - held.told_ms) <= STALE_MS else None


def _written(held: Held) -> bytes:
    fields = asdict(held)
    fields["reason"] = held.reason[:_REASON_CHARACTERS]
    while len(text := json.dumps(fields).encode()) > _BYTES:  # ASCII: a character may take twelve
        fields["reason"] = fields["reason"][:-20]
    return text
