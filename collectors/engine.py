"""The remote engine as a source of its own: does it answer, and does it take what is sent to it?"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from collectors.remote_write_sender import SenderState
from collectors.types import Family, MetricType, Sample
from db.outgoing_queue import Waiting, all_waiting
from db.promql.errors import QueryError
from db.remote_settings import PrometheusSettings

INTERVAL_SECONDS = 15.0
READ_ONLY = "it is only read: nothing is scraped here, and this machine's own collectors are off"


class EngineCollector:
    """Asks the engine for a sign of life, and tells how the queue stands."""

    name = "engine"
    job = "strata"

    def __init__(
        self,
        settings: PrometheusSettings,
        data: Path,
        state: SenderState,
        check: Callable[[], None] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """check: raises QueryError; what asks the engine by default."""
        self._settings = settings
        self._data = data
        self._state = state
        self._check = check
        self._now = now
        self.note = ""
        self.trouble = ""

    def collect(self) -> Iterable[Family]:
        began, self.trouble = time.monotonic(), ""
        try:
            self._ask()
        except QueryError as error:
            self.trouble = str(error)
        families = [
            _family("strata_engine_up", "gauge", "Does the engine answer queries.", float(not self.trouble)),
            _family(
                "strata_engine_check_duration_seconds",
                "gauge",
                "How long the engine took to answer.",
                time.monotonic() - began,
            ),
        ]
        address = f"reads {self._settings.query_url}"
        if not self._settings.is_written:
            self.note = f"{address}; {READ_ONLY}"
            return families
        waiting = all_waiting(self._data)
        self.note = f"{address}, writes {self._settings.remote_write_url}{self._words(waiting)}"
        self.trouble = self._state.trouble or self.trouble
        return [*families, *_sending(self._state, waiting)]

    def _ask(self) -> None:
        """Raises QueryError."""
        if self._check is None:
            # The client takes a tenth of a second to import: not for those who have no engine.
            from db.remote import RemoteEngine

            self._check = RemoteEngine(self._settings).check
        self._check()

    def _words(self, waiting: list[Waiting]) -> str:
        words = ""
        samples, dropped = sum(one.samples for one in waiting), sum(one.dropped for one in waiting)
        oldest = min((one.oldest_ms for one in waiting if one.oldest_ms is not None), default=None)
        if samples and oldest is not None:
            words += f"; {samples:,} samples wait on disk, the oldest for {self._now() - oldest / 1000:.0f} s"
        if dropped:
            words += f"; {dropped:,} were dropped because the queue was full or they were too old"
        if self._state.rejected:
            words += f"; {self._state.rejected:,} were refused: {self._state.rejection}"
        return words


def _sending(state: SenderState, waiting: list[Waiting]) -> list[Family]:
    prefix = "strata_remote_write_"
    gauges = [
        ("pending_samples", "Samples that wait on disk.", float(sum(one.samples for one in waiting))),
        ("queue_bytes", "What the queue takes on disk.", float(sum(one.bytes for one in waiting))),
    ]
    if state.last_success_ms is not None:
        gauges.append(
            ("last_success_timestamp_seconds", "When a request was answered.", state.last_success_ms / 1000)
        )
    if state.highest_timestamp_ms is not None:
        gauges.append(
            (
                "highest_timestamp_seconds",
                "The newest sample that was sent.",
                state.highest_timestamp_ms / 1000,
            )
        )
    counters = [
        ("samples_total", "Samples that the engine took.", state.sent),
        ("bytes_total", "Compressed bytes that the engine took.", state.sent_bytes),
        ("requests_total", "Requests sent.", state.requests),
        ("retries_total", "Requests sent again.", state.retries),
        ("samples_rejected_total", "Samples that the engine refused for good.", state.rejected),
        (
            "samples_dropped_total",
            "Samples that the queue's size or age has cost.",
            sum(one.dropped for one in waiting),
        ),
    ]
    return [
        *(_family(prefix + name, "gauge", text, value) for name, text, value in gauges),
        *(_family(prefix + name, "counter", text, float(value)) for name, text, value in counters),
    ]


def _family(name: str, kind: MetricType, text: str, value: float) -> Family:
    return Family(name, kind, text, (Sample(name, (), value),))
