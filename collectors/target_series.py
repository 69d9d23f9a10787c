"""From what one target exposed to what the store takes: labels, limits, slots, staleness.

A target's series get slots in an order that only grows; an unchanged page then costs a few NumPy calls.
Semantics follow prometheus/prometheus, scrape/scrape.go (append, report, staleness, limits).
"""

import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from collectors.exposition import NO_TIMESTAMP
from collectors.series_text import TEXT_GRAMMAR, read_series
from collectors.types import Metadata
from db.labels import METRIC_NAME, Labels, labels_from
from db.nan import ABSENT, STALE, BoolArray, FloatArray, IntArray
from db.records import DenseAppend, SparseAppend

REPORT_METRICS = (
    "up",
    "scrape_duration_seconds",
    "scrape_samples_scraped",
    "scrape_samples_post_metric_relabeling",
    "scrape_series_added",
)
# A new order is begun once this many slots hold ended series, and they are the larger part.
_DEAD_SLOTS = 1_000
# prometheus/prometheus, scrape/scrape.go (maxAheadTime). Retention would never reach such a sample.
_AHEAD_MS = 600_000
_ORDERS = itertools.count()


class SeriesOrder(Protocol):
    """The series of one page, in its order; the same object again means "nothing changed"."""

    @property
    def keys(self) -> Sequence[Hashable]: ...
    @property
    def metadata(self) -> Sequence[Metadata]: ...
    def labels(self, index: int) -> Labels: ...


@dataclass(frozen=True, slots=True)
class SeriesLimits:
    """Limits of a job as Prometheus names them; 0 means none."""

    sample_limit: int = 0
    label_limit: int = 0
    label_name_length_limit: int = 0
    label_value_length_limit: int = 0


class LimitExceeded(Exception):
    """The page is refused as a whole; the message names the limit and what exceeded it."""


@dataclass(slots=True)
class _Mapping:
    """Where the series of a page go. slots: int64[page], -1 where dropped; kept: which are not;
    first: which of them are not the repetition of a series that the page already had."""

    order: SeriesOrder
    slots: IntArray
    kept: BoolArray
    first: BoolArray


@dataclass(slots=True)
class TargetSeries:
    """The series of one target or collector over its life.

    labels: the target's own (job, instance, ...). metric_relabel: maps a series' labels, None drops it.
    duplicates, too_far_ahead: how many lines of the last page were left out for that.
    """

    name: str
    labels: Labels
    honor_labels: bool = False
    honor_timestamps: bool = True
    metric_relabel: Callable[[dict[str, str]], dict[str, str] | None] | None = None
    limits: SeriesLimits = field(default_factory=SeriesLimits)
    duplicates: int = 0
    too_far_ahead: int = 0
    _key: str = field(init=False)
    _length: int = 0
    _added: int = 0
    _forget: bool = False
    _slot_of: dict[int, int] = field(default_factory=dict)
    _fresh: list[Labels] = field(default_factory=list)
    _mapping: _Mapping | None = None
    _present: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    def __post_init__(self) -> None:
        self._key = self._new_key()

    def _new_key(self) -> str:
        # Never the same twice in a process: the store takes a known key for the order it knows.
        return f"{self.name}#{next(_ORDERS)}"

    def scraped(
        self,
        order: SeriesOrder,
        values: FloatArray,
        timestamps: IntArray | None,
        at_ms: int,
        duration_seconds: float,
    ) -> list[DenseAppend | SparseAppend]:
        """A page that was read: its samples, the report series with up = 1, and markers for what ended.

        values: float64[len(order.keys)]; timestamps: int64 ms, NO_TIMESTAMP where the page gives none.
        Raises LimitExceeded; then call `failed`.
        """
        self._forget_if_told()
        appends: list[DenseAppend | SparseAppend] = []
        if self._is_crowded():
            appends.append(self._end_order(order, at_ms))
        mapping = self._map(order)
        kept = mapping.first
        repeated = mapping.kept & ~mapping.first
        own_time: BoolArray | None = None
        self.too_far_ahead = 0
        if timestamps is not None and self.honor_timestamps:
            # Repetitions, too: a page may give several samples of one series if each has its own time.
            own_time = mapping.kept & (timestamps != NO_TIMESTAMP)
            kept, repeated = kept & ~own_time, repeated & ~own_time
            # Before 1970 is as wrong as far ahead: a page's 1e300 or a wrong unit.
            too_far_ahead = own_time & ((timestamps > at_ms + _AHEAD_MS) | (timestamps < 0))
            self.too_far_ahead = int(np.count_nonzero(too_far_ahead))
            own_time = own_time & ~too_far_ahead
        self.duplicates = int(np.count_nonzero(repeated))
        added, self._added = self._added, 0
        row = np.full(self._length, ABSENT)
        row[mapping.slots[kept]] = values[kept]
        present = np.zeros(self._length, dtype=np.bool_)
        present[mapping.slots[kept]] = True
        counts = (float(len(order.keys)), float(np.count_nonzero(mapping.kept)), float(added))
        appends.append(self._row(row, present, at_ms, (1.0, duration_seconds, *counts)))
        if own_time is not None and timestamps is not None and own_time.any():
            at = np.flatnonzero(own_time)
            labels = [self._final_labels(order, index) or () for index in at.tolist()]
            appends.append(SparseAppend(labels, timestamps[at], values[at]))
        return appends

    def failed(self, at_ms: int, duration_seconds: float, samples: int = 0) -> list[DenseAppend]:
        """A scrape that failed: up = 0, and every series that was there has ended."""
        self._forget_if_told()
        row, present = self._blank()
        return [self._row(row, present, at_ms, (0.0, duration_seconds, float(samples), 0.0, 0.0))]

    def vanished(self, at_ms: int) -> list[DenseAppend]:
        """The target itself is gone: everything ends, the report series too, and the order with them."""
        self._forget_if_told()
        if self._length == 0:
            return []
        row, present = self._blank()
        row[: len(REPORT_METRICS)] = STALE
        append = self._append(row, present, at_ms, ends=True)
        self._new_order()
        return [append]

    def forget_order(self) -> None:
        """Begin a new order with the next page: the store lost an append of the present one.

        Only noted here, since another thread may be placing a page at this moment.
        """
        self._forget = True

    def _forget_if_told(self) -> None:
        if self._forget:
            self._forget = False
            self._new_order()

    def _new_order(self) -> None:
        self._key = self._new_key()
        self._length = 0
        self._slot_of = {}
        self._fresh = []
        self._mapping = None
        self._present = np.zeros(0, dtype=np.bool_)

    @property
    def order(self) -> SeriesOrder | None:
        """The page's order that was mapped last; None where the next page begins a new one."""
        return None if self._forget or self._mapping is None else self._mapping.order

    def _blank(self) -> tuple[FloatArray, BoolArray]:
        self._reserve_report_slots()
        return np.full(self._length, ABSENT), np.zeros(self._length, dtype=np.bool_)

    def _row(self, row: FloatArray, present: BoolArray, at_ms: int, report: tuple[float, ...]) -> DenseAppend:
        row[: len(REPORT_METRICS)] = report
        present[: len(REPORT_METRICS)] = True
        return self._append(row, present, at_ms)

    def _append(self, row: FloatArray, present: BoolArray, at_ms: int, ends: bool = False) -> DenseAppend:
        before = np.flatnonzero(self._present)
        row[before[~present[before]]] = STALE
        self._present = present
        fresh, self._fresh = self._fresh, []
        return DenseAppend(self._key, fresh, at_ms, row, ends)

    def _is_crowded(self) -> bool:
        """Do ended series fill most of the order?"""
        if self._mapping is None:
            return False
        dead = self._length - len(REPORT_METRICS) - int(np.count_nonzero(self._mapping.first))
        return dead > _DEAD_SLOTS and dead > self._length // 2

    def _end_order(self, order: SeriesOrder, at_ms: int) -> DenseAppend:
        """Leave the present order: the last thing it says is which of its series the new page lacks."""
        mapping = self._map(order)
        row = np.full(self._length, ABSENT)
        present = np.zeros(self._length, dtype=np.bool_)
        present[mapping.slots[mapping.kept]] = True
        present[: len(REPORT_METRICS)] = True
        append = self._append(row, present, at_ms, ends=True)
        self._new_order()
        return append

    def _reserve_report_slots(self) -> None:
        if self._length == 0:
            for metric in REPORT_METRICS:
                self._slot(labels_from((*self.labels, (METRIC_NAME, metric))))

    def _slot(self, labels: Labels) -> int:
        key = hash(labels)
        slot = self._slot_of.get(key)
        if slot is None:
            slot = self._slot_of[key] = self._length
            self._length += 1
            self._fresh.append(labels)
        return slot

    def _map(self, order: SeriesOrder) -> _Mapping:
        old = self._mapping
        if old is not None and old.order is order:
            return old
        known: dict[Hashable, int] = {}
        if old is not None:
            known = dict(zip(old.order.keys, old.slots.tolist(), strict=True))
        placed: list[Labels | int | None] = []
        kept = 0
        for index, key in enumerate(order.keys):
            slot = known.get(key)
            if slot is None:
                labels = self._final_labels(order, index)
                placed.append(labels)
                kept += labels is not None
            else:
                placed.append(slot)
                kept += slot >= 0
        if self.limits.sample_limit and kept > self.limits.sample_limit:
            raise LimitExceeded(
                f"the page has {kept} samples, more than sample_limit {self.limits.sample_limit}; "
                "raise it or drop series with metric_relabel_configs"
            )
        # Only now, with the page accepted, may the order grow.
        self._reserve_report_slots()
        slots = np.full(len(placed), -1, dtype=np.int64)
        first = np.zeros(len(placed), dtype=np.bool_)
        taken: set[int] = set(range(len(REPORT_METRICS)))
        before = self._length
        for index, item in enumerate(placed):
            if item is None or item == -1:
                continue
            slot = item if isinstance(item, int) else self._slot(item)
            slots[index] = slot
            if slot not in taken:  # the first of a page wins, as in Prometheus
                taken.add(slot)
                first[index] = True
        self._added = self._length - before
        self._mapping = _Mapping(order, slots, slots >= 0, first)
        return self._mapping

    def _final_labels(self, order: SeriesOrder, index: int) -> Labels | None:
        """Target labels, relabelling and label limits; None drops the series."""
        merged = dict(order.labels(index))
        honored = merged.keys() | _emptied(order.keys[index]) if self.honor_labels else frozenset()
        for name, value in self.labels:
            if name in honored:
                continue
            if name in merged:
                merged[_free_name(merged, name)] = merged[name]
            merged[name] = value
        if self.metric_relabel is not None:
            relabelled = self.metric_relabel(merged)
            if not relabelled:
                return None
            merged = relabelled
            if not merged.get(METRIC_NAME):
                raise LimitExceeded("metric_relabel_configs leave a series without a metric name; fix them")
        labels = labels_from(merged)
        self._check_label_limits(labels)
        return labels

    def _check_label_limits(self, labels: Labels) -> None:
        limits = self.limits
        if limits.label_limit and len(labels) > limits.label_limit:
            raise LimitExceeded(
                f"{dict(labels)[METRIC_NAME][:80]} has {len(labels)} labels, more than label_limit "
                f"{limits.label_limit}"
            )
        if not (limits.label_name_length_limit or limits.label_value_length_limit):
            return
        for name, value in labels:
            if limits.label_name_length_limit and len(name.encode()) > limits.label_name_length_limit:
                raise LimitExceeded(
                    f"label name {name[:80]!r} is longer than label_name_length_limit "
                    f"{limits.label_name_length_limit}"
                )
            if limits.label_value_length_limit and len(value.encode()) > limits.label_value_length_limit:
                raise LimitExceeded(
                    f"the value of label {name[:80]!r} is longer than label_value_length_limit "
                    f"{limits.label_value_length_limit}"
                )


def _emptied(key: Hashable) -> frozenset[str]:
    """Labels that a page gives as empty: with honor_labels they take the target's own away, which is how
    Pushgateway says that a group has no instance."""
    if not isinstance(key, str) or '""' not in key:
        return frozenset()
    return frozenset(name for name, value in read_series(key, 1, TEXT_GRAMMAR).pairs if not value)


def _free_name(labels: dict[str, str], name: str) -> str:
    """The name under which a scraped label survives that clashes with a target label."""
    name = f"exported_{name}"
    while name in labels:
        name = f"exported_{name}"
    return name
