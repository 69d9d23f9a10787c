"""`/api/v1/status/*`: what this server is, how it was started, and how large its index is."""

import os
import socket
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any

import numpy as np
from starlette.requests import Request

from app.api.errors import ApiError
from app.api.evaluator import LOOKBACK_MS, TIMEOUT_SECONDS
from app.api.parameters import Parameters
from app.api.replies import Reply
from app.api.targets import rfc3339
from app.api.threads import Threads
from db.config_types import format_duration
from db.index_statistics import read_statistics
from db.promql.limits import Limits
from db.scrape_text import scrape_config_text
from db.settings import Settings, SettingsError
from db.store import SampleStore

# Whose answers these are. Clients decide by it what they may ask for: Grafana, for one, sends match[] with
# label names only from 2.24 on.
SPOKEN_VERSION = "3.5.0"
_LISTED = 10
_MOST_LISTED = 10_000
# prometheus/prometheus, tsdb/head.go: what an empty head says.
_NO_FIRST_MS, _NO_LAST_MS = np.iinfo(np.int64).max, np.iinfo(np.int64).min


class StatusCalls:
    """The endpoints; each raises ApiError or StoreError."""

    def __init__(
        self,
        store: Callable[[], SampleStore],
        settings: Settings,
        now_ms: Callable[[], int],
        threads: Threads,
    ) -> None:
        self._store = store
        self._settings = settings
        self._now_ms = now_ms
        self._threads = threads
        self._started_ms = now_ms()

    async def build(self, _request: Request, _asked: Parameters) -> Reply:
        """version is that of the Prometheus whose API this is; revision says which Strata."""
        return Reply(
            {
                "version": SPOKEN_VERSION,
                "revision": f"strata {version('strata')}",
                "branch": "",
                "buildUser": "",
                "buildDate": "",
                "goVersion": "",
            }
        )

    async def runtime(self, _request: Request, _asked: Parameters) -> Reply:
        """Fields that mean Go's own runtime are empty."""
        return Reply(
            {
                "startTime": rfc3339(self._started_ms),
                "CWD": str(self._settings.data),
                "hostname": socket.gethostname(),
                "serverTime": rfc3339(self._now_ms()),
                "reloadConfigSuccess": True,
                "lastConfigTime": rfc3339(self._started_ms),
                "corruptionCount": 0,
                "goroutineCount": 0,
                "GOMAXPROCS": os.cpu_count() or 1,
                "GOMEMLIMIT": 0,
                "GOGC": "",
                "GODEBUG": "",
                "storageRetention": format_duration(self._settings.storage.retention),
            }
        )

    async def flags(self, _request: Request, _asked: Parameters) -> Reply:
        """The settings that Prometheus has flags for, under its names."""
        settings = self._settings
        size = settings.storage.retention_size
        return Reply(
            {
                "config.file": "" if settings.prometheus_config is None else str(settings.prometheus_config),
                "log.format": settings.log.format,
                "log.level": settings.log.level,
                "query.lookback-delta": format_duration(LOOKBACK_MS / 1000),
                "query.max-samples": str(Limits().samples),
                "query.timeout": format_duration(TIMEOUT_SECONDS),
                "storage.tsdb.path": str(settings.samples_path),
                "storage.tsdb.retention.size": "0B" if size is None else f"{size}B",
                "storage.tsdb.retention.time": format_duration(settings.storage.retention),
                "web.enable-remote-write-receiver": "true",
                "web.listen-address": f"{settings.web.host}:{settings.web.port}",
            }
        )

    async def config(self, _request: Request, _asked: Parameters) -> Reply:
        try:
            text = await self._threads.run(lambda: scrape_config_text(self._settings))
        except SettingsError as error:
            raise ApiError("internal", str(error)) from error
        return Reply({"yaml": text})

    async def tsdb(self, _request: Request, asked: Parameters) -> Reply:
        """headStats are of everything that is kept: only the last minutes are apart, and not in memory."""
        limit = asked.count("limit") if asked.text("limit") else _LISTED
        if not 1 <= limit <= _MOST_LISTED:
            raise ApiError("bad_data", f"limit must be a number from 1 to {_MOST_LISTED}")
        found = await self._threads.run(lambda: read_statistics(self._store().engine, limit))
        return Reply(
            {
                "headStats": {
                    "numSeries": found.series,
                    "numLabelPairs": found.label_pairs,
                    "chunkCount": found.blocks,
                    "minTime": int(_NO_FIRST_MS) if found.first_ms is None else found.first_ms,
                    "maxTime": int(_NO_LAST_MS) if found.last_ms is None else found.last_ms,
                },
                "seriesCountByMetricName": _listed(found.series_by_metric),
                "labelValueCountByLabelName": _listed(found.values_by_label),
                "memoryInBytesByLabelName": _listed(found.bytes_by_label),
                "seriesCountByLabelValuePair": _listed(found.series_by_pair),
            }
        )


def _listed(counts: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"name": name, "value": count} for name, count in counts]
