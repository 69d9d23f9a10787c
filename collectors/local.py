"""This machine's own collectors, run like targets: on time, each in a thread of its own, measured."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from threading import Thread

import numpy as np

from collectors.clock import Clock
from collectors.commit import Committer, Scraped
from collectors.target_series import TargetSeries
from collectors.types import (
    Collector,
    CollectorError,
    Configured,
    Family,
    LabelPairs,
    Metadata,
    NoData,
    Remarks,
    Unsupported,
)
from db.labels import Labels, labels_from
from db.nan import NORMAL
from db.records import MetricMetadata, SourceReport
from db.settings import Settings

log = logging.getLogger(__name__)

# A driver call that hangs: the collector is reported as down, and asked again once the call has returned.
STUCK_SECONDS = 10.0
# Nothing here changes within a scrape interval when the driver or the hardware is not there.
UNSUPPORTED_RETRY_SECONDS = 300.0


@dataclass(frozen=True, eq=False, slots=True)
class FamilyOrder:
    """The series of a collection, in its order."""

    keys: tuple[tuple[str, LabelPairs], ...]
    metadata: tuple[Metadata, ...]

    def labels(self, index: int) -> Labels:
        name, pairs = self.keys[index]
        return labels_from(((key, _utf8(value)) for key, value in pairs), name)


class LocalCollector:
    """Runs one collector over and over and submits what it yields."""

    def __init__(
        self,
        collector: Collector,
        instance: str,
        interval_seconds: float,
        clock: Clock,
        committer: Committer,
        stuck_seconds: float = STUCK_SECONDS,
    ) -> None:
        self._collector = collector
        self._clock = clock
        self._committer = committer
        self._stuck_seconds = stuck_seconds
        self._running: Future[list[Family]] | None = None
        self._order: FamilyOrder | None = None
        instance = _utf8(instance)
        labels = labels_from({"job": collector.job, "instance": instance})
        self._series = TargetSeries(name=f"collector:{collector.name}", labels=labels)
        self.report = SourceReport(
            kind="collector",
            pool=collector.name,
            instance=instance,
            url="",
            state="waiting",
            interval_seconds=interval_seconds,
            labels=labels,
        )

    def configure(self, settings: Settings) -> None:
        """The settings, at the start and whenever they change."""
        if isinstance(self._collector, Configured):
            self._collector.configure(settings)

    @property
    def wait_seconds(self) -> float:
        """Until the next attempt."""
        if self.report.state == "unsupported":
            return max(self.report.interval_seconds, UNSUPPORTED_RETRY_SECONDS)
        return self.report.interval_seconds

    async def attempt(self) -> None:
        """One attempt; never raises for what the collector does."""
        at_ms, started = self._clock.now_ms(), self._clock.monotonic()
        try:
            families = await self._families()
        except NoData as error:
            self._silent(at_ms, "suppressed", str(error))
            return
        except Unsupported as error:
            self._silent(at_ms, "unsupported", str(error))
            return
        except CollectorError as error:
            self._failed(at_ms, self._clock.monotonic() - started, str(error))
            return
        except Exception as error:  # a defect of one collector must not end the others
            log.exception("collector %s is broken", self._collector.name)
            reason = f"this collector is broken: {type(error).__name__}: {error}"
            self._failed(at_ms, self._clock.monotonic() - started, reason)
            return
        elapsed = self._clock.monotonic() - started
        order, values = self._arrange(families)
        appends = self._series.scraped(order, values, None, at_ms, elapsed)
        remarks = self._collector if isinstance(self._collector, Remarks) else None
        trouble = remarks.trouble if remarks is not None else ""
        if trouble and self.report.error != trouble:
            log.warning("collector %s: %s", self._collector.name, trouble)
        self.report = replace(
            self.report,
            state="down" if trouble else "up",
            last_attempt_ms=at_ms,
            last_success_ms=self.report.last_success_ms if trouble else at_ms,
            duration_seconds=elapsed,
            samples=len(values),
            error=trouble,
            note=remarks.note if remarks is not None else "",
        )
        metadata = tuple(MetricMetadata(m.family, m.type, m.help, m.unit) for m in order.metadata)
        self._committer.submit(Scraped(appends, self.report, metadata, self._series.forget_order))

    def end(self) -> None:
        """The collector is switched off: end its series."""
        appends = self._series.vanished(self._clock.now_ms())
        if appends:
            self._committer.submit(Scraped(appends, None))

    async def _families(self) -> list[Family]:
        if self._running is not None and not self._running.done():
            raise CollectorError("the last reading has still not returned; the driver or a mount hangs")
        self._running = running = Future[list[Family]]()
        running.set_running_or_notify_cancel()
        # A thread of its own, and a daemon: the interpreter's exit waits for those of an executor, and a
        # driver call that hangs would keep the process from ending.
        Thread(target=self._collect, args=(running,), name=self._collector.name, daemon=True).start()
        waiting = asyncio.wrap_future(running)
        try:
            async with asyncio.timeout(self._stuck_seconds):
                # Shielded: a reading that hangs cannot be cancelled, only waited for.
                return await asyncio.shield(waiting)
        except TimeoutError as error:
            raise CollectorError(f"did not return within {self._stuck_seconds:g} s") from error
        except asyncio.CancelledError:
            waiting.cancel()  # the loop may be closed by the time it returns
            raise

    def _collect(self, running: "Future[list[Family]]") -> None:
        try:
            running.set_result(list(self._collector.collect()))
        except BaseException as error:  # noqa: BLE001 - handed to the task that waits for it
            running.set_exception(error)

    def _arrange(
        self, families: Sequence[Family]
    ) -> tuple[FamilyOrder, np.ndarray[tuple[int], np.dtype[np.float64]]]:
        keys = tuple((sample.name, sample.labels) for family in families for sample in family.samples)
        values = np.array(
            [sample.value for family in families for sample in family.samples], dtype=np.float64
        )
        values[np.isnan(values)] = NORMAL
        if self._order is None or self._order.keys != keys:
            metadata = tuple(Metadata(item.name, item.type, item.help, item.unit) for item in families)
            self._order = FamilyOrder(keys, metadata)
        return self._order, values

    def _silent(self, at_ms: int, state: str, note: str) -> None:
        """Nothing to report, on purpose: its series end, and it is neither up nor down."""
        if self.report.state != state or self.report.note != note:
            log.info("collector %s: %s", self._collector.name, note)
        self.report = replace(
            self.report,
            state="unsupported" if state == "unsupported" else "suppressed",
            last_attempt_ms=at_ms,
            samples=0,
            error="",
            note=note,
        )
        appends = self._series.vanished(at_ms)
        self._order = None
        self._committer.submit(Scraped(appends, self.report))

    def _failed(self, at_ms: int, elapsed: float, reason: str) -> None:
        if self.report.error != reason:
            log.warning("collector %s: %s", self._collector.name, reason)
        self.report = replace(
            self.report,
            state="down",
            last_attempt_ms=at_ms,
            duration_seconds=elapsed,
            samples=0,
            error=reason,
        )
        appends = self._series.failed(at_ms, elapsed)
        self._committer.submit(Scraped(appends, self.report, (), self._series.forget_order))


def _utf8(text: str) -> str:
    """Names of devices and hosts are bytes to the kernel; what is not UTF-8 in them becomes "?"."""
    return text.encode(errors="replace").decode()
