"""Blocks and timelines that were read lately, parsed and decompressed: pages ask for the same day again at
every tick, and a block never changes."""

import json
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from threading import Lock
from typing import Generic, TypeVar

from sqlalchemy import Connection

from db.block_format import Block
from db.engine import driver
from db.nan import IntArray

# Of a reader's 300 MB; a day of some 8,000 series of small integers.
CACHE_BYTES = 64 * 1024 * 1024

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")

_DATA = "SELECT id, data FROM block WHERE id IN (SELECT value FROM json_each(?))"


class _Lru(Generic[_K, _V]):
    """Forgets what was not used for longest; safe for threads."""

    def __init__(self, at_most_bytes: int) -> None:
        self._limit = at_most_bytes
        self._held: OrderedDict[_K, tuple[_V, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def find(self, keys: Iterable[_K]) -> dict[_K, _V]:
        found = {}
        with self._lock:
            for key in keys:
                held = self._held.get(key)
                if held is not None:
                    self._held.move_to_end(key)
                    found[key] = held[0]
        return found

    def keep(self, key: _K, value: _V, size: int) -> None:
        with self._lock:
            if key in self._held or size > self._limit // 8:
                return
            self._held[key] = (value, size)
            self._bytes += size
            while self._bytes > self._limit:
                _, (_, gone) = self._held.popitem(last=False)
                self._bytes -= gone


class BlockCache:
    """For one samples file. Neither ids of blocks nor of timelines are ever given twice."""

    def __init__(self, at_most_bytes: int = CACHE_BYTES) -> None:
        self._blocks: _Lru[int, Block] = _Lru(at_most_bytes * 3 // 4)
        self._timelines: _Lru[tuple[int, int], IntArray] = _Lru(at_most_bytes // 4)

    def fetch_blocks(self, connection: Connection, ids: list[int]) -> dict[int, Block | bytes]:
        """The blocks with these ids: those that are held, of the others their bytes, for `keep_block`."""
        found: dict[int, Block | bytes] = {**self._blocks.find(ids)}
        missing = [block_id for block_id in ids if block_id not in found]
        if missing:
            found.update(driver(connection).execute(_DATA, (json.dumps(missing),)).fetchall())
        return found

    def keep_block(self, block_id: int, data: bytes) -> Block:
        """Parse a block and hold it. Raises BadBlock."""
        block = Block(data)
        block.keeps_planes = True
        self._blocks.keep(block_id, block, block.decoded_bytes())
        return block

    def find_timelines(self, keys: Iterable[tuple[int, int]]) -> dict[tuple[int, int], IntArray]:
        """Of (timeline id, lane), those that are held."""
        return self._timelines.find(keys)

    def keep_timeline(self, key: tuple[int, int], timestamps: IntArray) -> None:
        """Hold a vector; it may not be changed any more."""
        timestamps.flags.writeable = False
        self._timelines.keep(key, timestamps, timestamps.nbytes)
