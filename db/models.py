"""Tables of the two databases: the samples file (SQLite only) and the state (SQLite or PostgreSQL)."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

# Alembic needs names for constraints that SQLite would leave unnamed.
NAMING = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class SamplesBase(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)


class StateBase(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)


class SeriesRow(SamplesBase):
    """A series that was ever stored. `labels` is the canonical JSON of its sorted pairs; `hash` its
    64-bit BLAKE2b, so that the long text needs no index of its own."""

    __tablename__ = "series"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    hash: Mapped[int] = mapped_column(BigInteger, index=True)
    labels: Mapped[str] = mapped_column(String)


class LabelPairRow(SamplesBase):
    """A distinct (label name, label value)."""

    __tablename__ = "label_pair"
    __table_args__ = (UniqueConstraint("name", "value"),)
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str] = mapped_column(String)
    value: Mapped[str] = mapped_column(String)


class PostingRow(SamplesBase):
    """Which series carry a label pair: the ids with the same id >> 16, packed (`db.postings`). Rows with a
    negative chunk are the values of a label as text, for regular expressions (`db.value_pages`), and which
    series is a value's only one (`db.sole_series`)."""

    __tablename__ = "posting"
    __table_args__ = ({"sqlite_with_rowid": False},)
    pair_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    chunk: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    ids: Mapped[bytes] = mapped_column(LargeBinary)


class LayoutRow(SamplesBase):
    """A fixed series order of one target; only ever extended at its end.

    ended: nobody appends to it any more.
    """

    __tablename__ = "layout"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    key: Mapped[str] = mapped_column(String)
    ended: Mapped[bool] = mapped_column(Boolean)


class LayoutSlotRow(SamplesBase):
    """Where a series sits in the layouts that hold it."""

    __tablename__ = "layout_slot"
    __table_args__ = (
        Index("ix_layout_slot_layout_id", "layout_id"),
        {"sqlite_with_rowid": False},
    )
    series_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    layout_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    slot: Mapped[int] = mapped_column(Integer)


class HeadDenseRow(SamplesBase):
    """One scrape: float64 values, little-endian, in the layout's order. `seq` is the order of writing."""

    __tablename__ = "head_dense"
    __table_args__ = (Index("ix_head_dense_layout_ts", "layout_id", "ts"),)
    seq: Mapped[int] = mapped_column(Integer, primary_key=True)
    layout_id: Mapped[int] = mapped_column(Integer)
    ts: Mapped[int] = mapped_column(BigInteger)
    data: Mapped[bytes] = mapped_column(LargeBinary)


class HeadSparseRow(SamplesBase):
    """Samples with timestamps of their own: three parallel columns of int64, int64 and float64."""

    __tablename__ = "head_sparse"
    __table_args__ = (Index("ix_head_sparse_ts_max", "ts_max"),)
    seq: Mapped[int] = mapped_column(Integer, primary_key=True)
    ts_min: Mapped[int] = mapped_column(BigInteger)
    ts_max: Mapped[int] = mapped_column(BigInteger)
    series_ids: Mapped[bytes] = mapped_column(LargeBinary)
    timestamps: Mapped[bytes] = mapped_column(LargeBinary)
    data: Mapped[bytes] = mapped_column(LargeBinary)


class StoreStateRow(SamplesBase):
    """One row that says how to read the others.

    sealed_seq: head rows up to this one are in blocks and count no more. sealing_seq: the `ord` of blocks
    that are being written and do not count yet. last_seq: given out at least up to here. next_series_id,
    next_timeline_id: ids are never given twice. series_epoch rises when series were forgotten, places_version
    when one got a place in a layout or a bundle.
    """

    __tablename__ = "store_state"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    sealed_seq: Mapped[int] = mapped_column(BigInteger)
    sealing_seq: Mapped[int | None] = mapped_column(BigInteger)
    last_seq: Mapped[int] = mapped_column(BigInteger)
    next_series_id: Mapped[int] = mapped_column(BigInteger)
    next_timeline_id: Mapped[int] = mapped_column(BigInteger)
    series_epoch: Mapped[int] = mapped_column(BigInteger)
    places_version: Mapped[int] = mapped_column(BigInteger)


class LoadRow(SamplesBase):
    """The place of a bulk load in the order of writing: no sealing may reach across it."""

    __tablename__ = "load"
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)


class BundleRow(SamplesBase):
    """Up to 64 series of one metric that are stored together; `size` of its places are given away."""

    __tablename__ = "bundle"
    __table_args__ = (Index("ix_bundle_group_id_metric", "group_id", "metric"),)
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    group_id: Mapped[int] = mapped_column(Integer)
    metric: Mapped[str] = mapped_column(String)
    size: Mapped[int] = mapped_column(Integer)


class BundleMemberRow(SamplesBase):
    """Where the blocks of a series are."""

    __tablename__ = "bundle_member"
    __table_args__ = (
        Index("ix_bundle_member_bundle_id", "bundle_id"),
        {"sqlite_with_rowid": False},
    )
    series_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    bundle_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    place: Mapped[int] = mapped_column(Integer)


class BlockRow(SamplesBase):
    """Samples of some series of one bundle in one window (`db.block_format`).

    level: 0 sealed head, 1 two hours, 2 a day. window_ms: where its window begins; start_ms, end_ms: its
    first and last sample. ord: its place in the order of writing. members: bit i = the bundle's place i.
    lanes: bit i = lane i of its timeline.
    """

    __tablename__ = "block"
    __table_args__ = (
        # All that decides whether a block is read: looking at the rows would read a page of each.
        Index(
            "ix_block_bundle_id_window_ms",
            *("bundle_id", "window_ms", "members", "start_ms", "end_ms", "ord", "timeline_id", "lanes"),
        ),
        Index("ix_block_level_window_ms", "level", "window_ms", "bundle_id", "ord"),
        Index("ix_block_end_ms", "end_ms"),
        Index("ix_block_timeline_id", "timeline_id"),
        {"sqlite_autoincrement": True},  # readers remember blocks by id
    )
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    bundle_id: Mapped[int] = mapped_column(Integer)
    level: Mapped[int] = mapped_column(Integer)
    window_ms: Mapped[int] = mapped_column(BigInteger)
    start_ms: Mapped[int] = mapped_column(BigInteger)
    end_ms: Mapped[int] = mapped_column(BigInteger)
    ord: Mapped[int] = mapped_column(BigInteger)
    members: Mapped[int] = mapped_column(BigInteger)
    timeline_id: Mapped[int] = mapped_column(Integer)
    lanes: Mapped[int] = mapped_column(BigInteger)
    data: Mapped[bytes] = mapped_column(LargeBinary)


class TimelineRow(SamplesBase):
    """Timestamp vectors that blocks share; lanes: bit i = it holds the vector of lane i."""

    __tablename__ = "timeline"
    __table_args__ = ({"sqlite_with_rowid": False},)
    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    part: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    lanes: Mapped[int] = mapped_column(BigInteger)
    data: Mapped[bytes] = mapped_column(LargeBinary)


class MetadataRow(SamplesBase):
    """TYPE, HELP and UNIT as some source declared them; sources may disagree, so all four are the key."""

    __tablename__ = "metadata"
    __table_args__ = ({"sqlite_with_rowid": False},)
    metric: Mapped[str] = mapped_column(String, primary_key=True)
    type: Mapped[str] = mapped_column(String, primary_key=True)
    help: Mapped[str] = mapped_column(String, primary_key=True)
    unit: Mapped[str] = mapped_column(String, primary_key=True)


class SourceRow(SamplesBase):
    """The last attempt on each target and collector. It lives beside the samples because it is
    written in the same commit: a page never shows a scrape whose samples are not there."""

    __tablename__ = "source"
    kind: Mapped[str] = mapped_column(String, primary_key=True)
    pool: Mapped[str] = mapped_column(String, primary_key=True)
    instance: Mapped[str] = mapped_column(String, primary_key=True)
    url: Mapped[str] = mapped_column(String, primary_key=True)
    state: Mapped[str] = mapped_column(String)
    interval_seconds: Mapped[float] = mapped_column(Float)
    last_attempt_ms: Mapped[int | None] = mapped_column(BigInteger)
    last_success_ms: Mapped[int | None] = mapped_column(BigInteger)
    duration_seconds: Mapped[float | None] = mapped_column(Float)
    samples: Mapped[int | None] = mapped_column(Integer)
    error: Mapped[str] = mapped_column(String)
    note: Mapped[str] = mapped_column(String)
    labels: Mapped[str] = mapped_column(String)


class ProcessRow(StateBase):
    """One of Strata's own processes, as it and its supervisor last reported it."""

    __tablename__ = "process"
    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    pid: Mapped[int | None] = mapped_column(Integer)
    state: Mapped[str] = mapped_column(String(32))
    started_ms: Mapped[int | None] = mapped_column(BigInteger)
    beat_ms: Mapped[int | None] = mapped_column(BigInteger)
    restarts: Mapped[int] = mapped_column(Integer)
    detail: Mapped[str] = mapped_column(String)
