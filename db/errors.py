"""What may go wrong with stored data, in one tree.

::

    StoreError             root; str() is one sentence that names the file or server, and the mend
    +-- StoreUnreachable   the file or server cannot be opened or read, or is no place for data
    +-- NewerDatabase      written by a newer Strata
    +-- WriteRefused       a write was not taken (disk full, read-only); nothing of it was stored
    +-- Unstorable         these data cannot be stored, however often it is tried; nothing of it was
    +-- BadMatcher         a label condition that cannot be evaluated
"""


class StoreError(Exception):
    """Root of every error that the store raises on purpose."""


class StoreUnreachable(StoreError):
    """The database cannot be opened or read; trying again may help."""


class NewerDatabase(StoreError):
    """The database was written by a newer version."""


class WriteRefused(StoreError):
    """Nothing of this write was stored; it may be tried again."""


class Unstorable(StoreError):
    """The fault is in what was to be written: trying again will not help."""


class BadMatcher(StoreError):
    """A label condition that cannot be evaluated."""
