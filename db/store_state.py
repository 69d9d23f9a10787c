"""The one row that says which other rows count: read in every snapshot, changed with what it orders."""

from dataclasses import dataclass

from sqlalchemy import Connection

from db.engine import driver

_READ = (
    "SELECT sealed_seq, coalesce(sealing_seq, -1), last_seq, series_epoch, places_version, next_series_id "
    "FROM store_state WHERE id = 1"
)
_NEWEST = (
    "SELECT max(sealed_seq, last_seq, (SELECT coalesce(max(seq), 0) FROM head_dense), "
    "(SELECT coalesce(max(seq), 0) FROM head_sparse)) FROM store_state WHERE id = 1"
)


@dataclass(frozen=True, slots=True)
class StoreState:
    """sealed_seq: head rows up to it do not count. sealing_seq: blocks of that `ord` do not count yet, -1 for
    none. The versions tell caches when series were forgotten, and when some got a place in a layout or a
    bundle."""

    sealed_seq: int
    sealing_seq: int
    last_seq: int
    series_epoch: int
    places_version: int
    next_series_id: int


def read_state(connection: Connection) -> StoreState:
    """As of the connection's snapshot."""
    return StoreState(*driver(connection).execute(_READ).fetchone())


def newest_seq(connection: Connection) -> int:
    """The last number given out in the order of writing; to be called inside a write transaction."""
    return int(connection.exec_driver_sql(_NEWEST).scalar_one())


def places_changed(connection: Connection) -> None:
    """Tell those who remember where series are: in dense rows or in bundles."""
    connection.exec_driver_sql("UPDATE store_state SET places_version = places_version + 1 WHERE id = 1")


def begin_load(connection: Connection) -> int:
    """Take a place in the order of writing for a bulk load; no sealing will reach across it."""
    seq = newest_seq(connection) + 1
    connection.exec_driver_sql("UPDATE store_state SET last_seq = ? WHERE id = 1", (seq,))
    connection.exec_driver_sql("INSERT INTO load (seq) VALUES (?)", (seq,))
    return seq
