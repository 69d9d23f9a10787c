"""One target's scrapes: fetch, parse, place, submit. Whatever goes wrong is that target's own."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import aiohttp

from collectors.clock import Clock
from collectors.commit import Scraped
from collectors.exposed import Exposed
from collectors.exposition import Page, PageParser, ParseError, format_of
from collectors.fetch import MEDIA_TYPES, FetchedPage, FetchError, FetchOptions, fetch
from collectors.http_options import scrape_options
from collectors.relabel import Relabeller
from collectors.target_series import LimitExceeded, SeriesLimits, TargetSeries
from collectors.targets import Target
from db.records import DenseAppend, MetricMetadata, SourceReport, SparseAppend
from db.scrape_settings import ScrapeConfig

log = logging.getLogger(__name__)

# Above this a page is read in a thread, so that the other targets' scrapes start on time meanwhile.
_INLINE_BYTES = 256 * 1024
# A page that broke its format will break it again; it is held to it anew only this seldom.
_STRICT_EVERY = 100


@dataclass(slots=True)
class ScrapeJob:
    """What the targets of one job share, worked out once."""

    config: ScrapeConfig
    metric_relabel: Relabeller
    limits: SeriesLimits
    _options: FetchOptions | None = None

    @classmethod
    def of(cls, config: ScrapeConfig) -> "ScrapeJob":
        limits = SeriesLimits(
            config.sample_limit,
            config.label_limit,
            config.label_name_length_limit,
            config.label_value_length_limit,
        )
        return cls(config, Relabeller(config.metric_relabel_configs), limits)

    def options(self) -> FetchOptions:
        """How its targets are asked. Raises FetchError for TLS files that cannot be used, and tries them
        again the next time."""
        if self._options is None:
            self._options = scrape_options(self.config)
        return self._options


@dataclass(frozen=True, slots=True)
class _Read:
    """What a page came to."""

    appends: list[DenseAppend | SparseAppend]
    samples: int
    metadata: tuple[MetricMetadata, ...]
    note: str


@dataclass(slots=True)
class ScrapeWorld:
    """What every target's scraper is given: network, time, where results go."""

    session: aiohttp.ClientSession
    clock: Clock
    submit: Callable[[Scraped], None]
    room: Callable[[], Awaitable[None]]
    exposed: Exposed
    threads: Executor


class TargetScraper:
    """Scrapes one target, over and over."""

    def __init__(self, target: Target, job: ScrapeJob, world: ScrapeWorld, note: str = "") -> None:
        self.target = target
        self._job = job
        self._world = world
        self._note = note
        # What a page without Content-Type is taken for.
        self._fallback = MEDIA_TYPES.get(target.config.fallback_scrape_protocol or "", "")
        self._strict = PageParser()
        self._tolerant: PageParser | None = None
        self._tolerant_scrapes = 0
        self._deviation = ""
        self._announced: object = None
        self._reading: asyncio.Future[_Read] | None = None
        self._series = TargetSeries(
            name=target.key,
            labels=target.labels,
            honor_labels=target.config.honor_labels,
            honor_timestamps=target.config.honor_timestamps,
            metric_relabel=job.metric_relabel if job.metric_relabel else None,
            limits=job.limits,
        )
        self.report = SourceReport(
            kind="scrape",
            pool=target.job,
            instance=target.instance,
            url=target.url,
            state="waiting",
            interval_seconds=target.interval_seconds,
            note=note,
            labels=target.labels,
        )

    @property
    def wait_seconds(self) -> float:
        """Until the next attempt."""
        return self.target.interval_seconds

    async def attempt(self) -> None:
        """One attempt, from request to submission; never raises for what the target does."""
        clock, world = self._world.clock, self._world
        at_ms, started = clock.now_ms(), clock.monotonic()
        try:
            page = await fetch(
                world.session, self.target.url, self._job.options(), self.target.timeout_seconds
            )
            elapsed = clock.monotonic() - started
            if self._series.order is None:
                await world.room()
            if len(page.body) > _INLINE_BYTES:
                loop = asyncio.get_running_loop()
                self._reading = loop.run_in_executor(world.threads, self._read, page, at_ms, elapsed)
                # Shielded: the thread reads on when this task is cancelled, and `end` has to wait for it.
                read = await asyncio.shield(self._reading)
            else:
                read = self._read(page, at_ms, elapsed)
        except (FetchError, ParseError, LimitExceeded) as error:
            self._failed(at_ms, clock.monotonic() - started, str(error))
            return
        except Exception as error:  # a defect that one page brings to light must not end this target's task
            log.exception("the scraper of %s is broken", self.target.url)
            reason = f"Strata could not read this page: {type(error).__name__}: {error}"[:300]
            self._failed(at_ms, clock.monotonic() - started, reason)
            return
        if self.report.state == "down":
            log.info("target answers again", extra={"job": self.target.job, "url": self.target.url})
        self.report = replace(
            self.report,
            state="up",
            last_attempt_ms=at_ms,
            last_success_ms=at_ms,
            duration_seconds=elapsed,
            samples=read.samples,
            error="",
            note=read.note,
        )
        self._submit(read.appends, read.metadata)

    def end(self) -> None:
        """The target is gone from the configuration, and its task cancelled: end its series."""
        if self._reading is not None and not self._reading.done():
            self._reading.add_done_callback(self._end_after)
        else:
            self._end()

    def close(self) -> None:
        """The process ends, and the task is cancelled: a page that is still being read is left."""
        if self._reading is not None:
            self._reading.cancel()

    def _end_after(self, reading: asyncio.Future[_Read]) -> None:
        if not reading.cancelled() and reading.exception() is None:
            # The order has grown by it: what ends it would not fit without.
            self._world.submit(Scraped(reading.result().appends, None))
        self._end()

    def _end(self) -> None:
        self._world.exposed.forget(self)
        appends = self._series.vanished(self._world.clock.now_ms())
        if appends:
            self._world.submit(Scraped(appends, None))

    def _parse(self, page: FetchedPage) -> tuple[Page, str]:
        """Strictly by the format's specification; a page that only Prometheus's own reading accepts is read
        that way and the deviation noted. Raises ParseError."""
        if not page.framed and not page.body.endswith(b"\n"):
            line = page.body.count(b"\n") + 1
            raise ParseError(line, "the page ends in the middle of a line, so its end may be missing")
        format = format_of(page.content_type or self._fallback)
        if self._tolerant is not None and self._tolerant_scrapes > 0:
            self._tolerant_scrapes -= 1
            return self._tolerant.parse(page.body, format), self._deviation
        try:
            parsed = self._strict.parse(page.body, format)
        except ParseError as deviation:
            tolerant = self._tolerant or PageParser(strict=False)
            parsed = tolerant.parse(page.body, format)
            self._tolerant, self._tolerant_scrapes = tolerant, _STRICT_EVERY
            self._strict = PageParser()
            self._deviation = f"breaks its format, and is read as Prometheus reads it: {deviation}"
            return parsed, self._deviation
        self._tolerant = None
        return parsed, ""

    def _read(self, page: FetchedPage, at_ms: int, elapsed: float) -> _Read:
        """Parse and place a page. Raises ParseError or LimitExceeded."""
        parsed, note = self._parse(page)
        appends = self._series.scraped(parsed.layout, parsed.values, parsed.timestamps, at_ms, elapsed)
        metadata: tuple[MetricMetadata, ...] = ()
        if self._announced is not parsed.layout:
            self._announced = parsed.layout
            self._world.exposed.update(self, parsed.layout)
            metadata = tuple(
                MetricMetadata(item.family, item.type, item.help, item.unit)
                for item in parsed.layout.metadata
            )
        notes = [self._note, note]
        if self._series.duplicates:
            notes.append(
                f"{self._series.duplicates} lines repeat a series of the same page; the first counts"
            )
        if self._series.too_far_ahead:
            notes.append(
                f"{self._series.too_far_ahead} samples have timestamps more than 10 minutes ahead of this "
                "machine's clock and are left out; timestamps are in milliseconds"
            )
        return _Read(appends, len(parsed.values), metadata, "; ".join(item for item in notes if item))

    def _failed(self, at_ms: int, elapsed: float, reason: str) -> None:
        if self.report.state != "down" or self.report.error != reason:
            extra = {"job": self.target.job, "url": self.target.url, "reason": reason}
            log.warning("target could not be scraped", extra=extra)
        self._world.exposed.forget(self)
        self.report = replace(
            self.report,
            state="down",
            last_attempt_ms=at_ms,
            duration_seconds=elapsed,
            samples=0,
            error=reason,
            note=self._note,
        )
        # What the page shows has to be announced anew once the target is back.
        self._announced = None
        self._submit(self._series.failed(at_ms, elapsed), ())

    def _submit(
        self,
        appends: list[DenseAppend] | list[DenseAppend | SparseAppend],
        metadata: tuple[MetricMetadata, ...],
    ) -> None:
        self._world.submit(Scraped(appends, self.report, metadata, self._lost))

    def _lost(self) -> None:
        """The store could not take a scrape."""
        self._series.forget_order()
        self._announced = None
