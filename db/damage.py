"""Says of stored bytes that cannot be decoded where they are and what to do, as of any fault of a file."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

from db.block_format import BadBlock
from db.engine import place
from db.errors import StoreUnreachable
from db.sqlite_engine import RESTORE


@contextmanager
def naming_damage(engine: Engine) -> Iterator[None]:
    """Raises StoreUnreachable for a BadBlock inside."""
    try:
        yield
    except BadBlock as error:
        raise StoreUnreachable(
            f"{place(engine)}: is damaged: a block cannot be read, {error}; restore a backup: {RESTORE}"
        ) from error
