"""A Prometheus-compatible engine as a source of samples: Prometheus, VictoriaMetrics, Mimir, Thanos.

The one importer of prometheus-api-client. Of the client only those methods are called that take a query as it
is; what it lacks (whole answers, milliseconds, limits, sentences) its session has: `db.remote_http`.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import numpy as np
from prometheus_api_client import PrometheusConnect

from db.labels import METRIC_NAME, Labels
from db.nan import FloatArray, IntArray
from db.promql.answer import Answer
from db.promql.errors import ExecutionError, LimitExceeded, QueryTimeout, SourceUnavailable
from db.promql.printer import duration, selector_text
from db.records import Latest, Matcher, MetricMetadata, Rectangle, Steps
from db.remote_decode import Decoded, Points, SeriesMemory, answer, decoded_by, matrix
from db.remote_http import RemoteSession
from db.remote_settings import PrometheusSettings
from db.series_set import SeriesSet

# prometheus/prometheus, web/api/v1/api.go: more points of a series are refused.
POINTS = 11_000
LOOKBACK_MS = 300_000
# Raw samples that one answer is meant to bring, and how far back the first one of a selection looks.
_CHUNK_SAMPLES = 1_000_000
_FIRST_CHUNK_MS = 3_600_000
_LEAST_CHUNK_MS = 60_000
_SAMPLES = 50_000_000
_TIME_LABEL = "strata_time"
_LAST_MS = 4_102_444_800_000  # the year 2100
# Its start and end are rounded to seconds by the client; the parameters beside them replace them.
_UNUSED = datetime(2000, 1, 1, tzinfo=UTC)


class RemoteEngine:
    """One engine; safe for threads. Every method raises a QueryError whose sentence names the engine.

    It is a `db.promql.source.Source`. Staleness markers never leave an engine: raw samples come without.
    """

    def __init__(self, settings: PrometheusSettings) -> None:
        """Raises SourceUnavailable for TLS files that cannot be used. Nothing is asked yet."""
        session = RemoteSession(settings)
        self.name = settings.query_url
        self._client = PrometheusConnect(url=settings.query_url, session=session, method="POST")
        # The client has put an adapter of its own there, which retries.
        session.mount(settings.query_url, session.adapter)
        self._memory = SeriesMemory()
        # VictoriaMetrics would move start and end to multiples of the step unless it is told not to.
        self._usual = {"timeout": f"{settings.timeout:g}s", "nocache": "1"}

    def close(self) -> None:
        self._client.close()

    def check(self) -> None:
        """Does it answer queries?"""
        self._instant("vector(1)", 0, LOOKBACK_MS)

    def instant(self, text: str, at_ms: int, lookback_ms: int = LOOKBACK_MS) -> Answer:
        """The engine's own answer to a query."""
        return answer(self._instant(text, at_ms, lookback_ms), at_ms)

    def ranged(
        self, text: str, start_ms: int, end_ms: int, step_ms: int, lookback_ms: int = LOOKBACK_MS
    ) -> Answer:
        """The same for the steps start_ms, start_ms + step_ms, ... up to end_ms, however many they are."""
        grid = np.arange(start_ms, end_ms + 1, step_ms, dtype=np.int64)
        return answer(self._ranged(text, grid, step_ms, lookback_ms), end_ms, grid)

    def rectangles(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> tuple[SeriesSet, list[Rectangle]]:
        """The raw samples in [start_ms, end_ms], fetched in parts of about a million; series that have none
        there are left out."""
        parts = self._raw(selector_text(matchers), start_ms, end_ms)
        points = sorted(_joined(parts), key=lambda point: point.labels)
        series = self._memory.of(("raw", tuple(matchers)), [point.labels for point in points])
        alike: dict[bytes, list[int]] = {}
        for row, point in enumerate(points):
            alike.setdefault(point.timestamps.tobytes(), []).append(row)
        rectangles = [
            Rectangle(
                np.array(rows, dtype=np.int64),
                points[rows[0]].timestamps,
                np.stack([points[row].values for row in rows]),
            )
            for rows in alike.values()
        ]
        return series, rectangles

    def at_steps(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, step_ms: int, lookback_ms: int
    ) -> Steps:
        return self.steps_of(selector_text(matchers), start_ms, end_ms, step_ms, lookback_ms)

    def steps_of(self, text: str, start_ms: int, end_ms: int, step_ms: int, lookback_ms: int) -> Steps:
        """What an expression, evaluated by the engine, is at each step."""
        grid = np.arange(start_ms, end_ms + 1, step_ms, dtype=np.int64)
        found = self._ranged(text, grid, step_ms, lookback_ms)
        points = sorted(found.points, key=lambda point: point.labels)
        series = self._memory.of(text, [point.labels for point in points])
        return Steps(series, grid, matrix(points, grid)[0])

    def latest_columns(self, matchers: Sequence[Matcher], at_ms: int, lookback_ms: int) -> Latest:
        text = selector_text(matchers)
        both = f'{text} or label_replace(timestamp({text}), "{_TIME_LABEL}", "1", "", "")'
        try:
            found = self._instant(both, at_ms, lookback_ms)
        except ExecutionError:
            # timestamp() drops the names, by which alone some of the series differ.
            return self.latest_of(text, at_ms, lookback_ms)
        samples, times = [], {}
        for point in found.points:
            if (_TIME_LABEL, "1") in point.labels:
                times[_without(point.labels, _TIME_LABEL)] = round(float(point.values[0]) * 1000)
            else:
                samples.append(point)
        stamps = [times.get(_without(point.labels, METRIC_NAME), at_ms) for point in samples]
        return self._latest(text, samples, np.array(stamps, dtype=np.int64))

    def latest_of(self, text: str, at_ms: int, lookback_ms: int) -> Latest:
        """What an expression, evaluated by the engine, is at one time."""
        points = self._instant(text, at_ms, lookback_ms).points
        return self._latest(text, points, np.full(len(points), at_ms, dtype=np.int64))

    def label_names(self, *selectors: Sequence[Matcher], start_ms: int, end_ms: int) -> list[str]:
        """Of the series that any of the selectors matches, of all without one."""
        found = self._client.get_label_names(_choice(selectors, start_ms, end_ms))
        return sorted(self._texts(found))

    def label_values(self, name: str, *selectors: Sequence[Matcher], start_ms: int, end_ms: int) -> list[str]:
        params = _choice(selectors, start_ms, end_ms)
        return sorted(self._texts(self._client.get_label_values(quote(name, safe=""), params)))

    def series(self, *selectors: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Labels]:
        """The label sets that have samples between the times, as far as the engine looks at them."""
        start, end = (datetime.fromtimestamp(_within(at_ms) / 1000, UTC) for at_ms in (start_ms, end_ms))
        found = self._client.get_series(start, end, _choice(selectors, start_ms, end_ms))
        try:
            return sorted(
                tuple(sorted((str(key), str(value)) for key, value in one.items())) for one in found
            )
        except (TypeError, AttributeError) as error:
            raise self._unreadable("series", error) from error

    def metadata(self, metric: str = "", limit: int = 0) -> list[MetricMetadata]:
        """TYPE, HELP and UNIT as the engine's targets declared them."""
        try:
            found = self._client.get_metric_metadata(metric, limit or None)
            return [MetricMetadata(*(str(item[key]) for key in _METADATA)) for item in found]
        except (TypeError, AttributeError, KeyError) as error:
            raise self._unreadable("metadata", error) from error

    def targets(self) -> list[dict[str, Any]]:
        """The engine's active targets, as its API has them; none where the engine scrapes nothing."""
        try:
            return [dict(target) for target in self._client.get_targets("active").get("activeTargets") or ()]
        except (TypeError, AttributeError, ValueError) as error:
            raise self._unreadable("targets", error) from error

    def _instant(self, text: str, at_ms: int, lookback_ms: int) -> Decoded:
        params = {**self._usual, **_lookback(lookback_ms), "time": _seconds(at_ms)}
        return decoded_by(self.name, self._client.custom_query(text, params))

    def _ranged(self, text: str, grid: IntArray, step_ms: int, lookback_ms: int) -> Decoded:
        """Any number of steps, in requests that the engine takes."""
        found = []
        for first in range(0, len(grid), POINTS):
            part = grid[first : first + POINTS]
            span = {"start": _seconds(int(part[0])), "end": _seconds(int(part[-1]))}
            params = {**self._usual, **_lookback(lookback_ms), **span, "step": _seconds(step_ms)}
            document = self._client.custom_query_range(text, _UNUSED, _UNUSED, "", params)
            found.append(decoded_by(self.name, document))
        if len(found) == 1:
            return found[0]
        warnings = tuple(dict.fromkeys(text for part in found for text in part.warnings))
        infos = tuple(dict.fromkeys(text for part in found for text in part.infos))
        return Decoded("matrix", _joined([part.points for part in found]), warnings, infos)

    def _raw(self, selector: str, start_ms: int, end_ms: int) -> list[Sequence[Points]]:
        """From the newest part to the oldest, each as long as the one before it suggests."""
        parts: list[Sequence[Points]] = []
        chunk, total, end = _FIRST_CHUNK_MS, 0, end_ms
        while end >= start_ms:
            begin = max(start_ms, end - chunk + 1)
            try:
                text = f"{selector}[{duration(end - begin + 1)}]"
                found = self._instant(text, end, LOOKBACK_MS)
            except (ExecutionError, QueryTimeout):
                if end - begin < _LEAST_CHUNK_MS:
                    raise
                chunk = max(_LEAST_CHUNK_MS, (end - begin + 1) // 4)
                continue
            inside = [_between(point, begin, end) for point in found.points]
            count = sum(len(point.timestamps) for point in inside)
            total += count
            if total > _SAMPLES:
                raise LimitExceeded(
                    f"the query needs more than {_SAMPLES:,} samples of {self.name}; "
                    "select fewer series or a shorter time"
                )
            parts.append(inside)
            end = begin - 1
            chunk = int(chunk * min(8.0, max(0.125, _CHUNK_SAMPLES / max(count, 1))))
            chunk = max(chunk, _LEAST_CHUNK_MS)
        return parts[::-1]

    def _latest(self, text: str, points: Sequence[Points], timestamps: IntArray) -> Latest:
        order = sorted(range(len(points)), key=lambda row: points[row].labels)
        series = self._memory.of(text, [points[row].labels for row in order])
        values: FloatArray = np.array([points[row].values[0] for row in order], dtype=np.float64)
        return Latest(series, timestamps[order] if order else timestamps, values)

    def _texts(self, found: Any) -> list[str]:
        if found is None:
            return []
        if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
            raise self._unreadable("labels", TypeError("not a list of texts"))
        return found

    def _unreadable(self, what: str, error: Exception) -> SourceUnavailable:
        return SourceUnavailable(f"{self.name} gave {what} that cannot be read: {error}")


_METADATA = ("metric_name", "type", "help", "unit")


def _choice(selectors: Sequence[Sequence[Matcher]], start_ms: int, end_ms: int) -> dict[str, Any]:
    params: dict[str, Any] = {"start": _seconds(_within(start_ms)), "end": _seconds(_within(end_ms))}
    if selectors:
        params["match[]"] = [selector_text(matchers) for matchers in selectors]
    return params


def _within(at_ms: int) -> int:
    """As far from now as engines can count; the store's own bounds are farther."""
    return min(max(at_ms, 0), _LAST_MS)


def _lookback(lookback_ms: int) -> Mapping[str, str]:
    """The engine has its own unless it is told; Prometheus takes the parameter since 2.40."""
    return {} if lookback_ms == LOOKBACK_MS else {"lookback_delta": _seconds(lookback_ms)}


def _seconds(milliseconds: int) -> str:
    sign = "-" if milliseconds < 0 else ""
    whole, rest = divmod(abs(milliseconds), 1000)
    return f"{sign}{whole}.{rest:03}"


def _without(labels: Labels, name: str) -> Labels:
    return tuple(pair for pair in labels if pair[0] not in (name, METRIC_NAME))


def _between(point: Points, start_ms: int, end_ms: int) -> Points:
    """Prometheus 2 gives the sample at the beginning of a window, too."""
    inside = (point.timestamps >= start_ms) & (point.timestamps <= end_ms)
    if inside.all():
        return point
    return Points(point.labels, point.timestamps[inside], point.values[inside])


def _joined(parts: Sequence[Sequence[Points]]) -> list[Points]:
    """Parts that follow each other in time, series by series; those without samples are left out."""
    found: dict[Labels, list[Points]] = {}
    for part in parts:
        for point in part:
            if len(point.timestamps):
                found.setdefault(point.labels, []).append(point)
    return [
        held[0]
        if len(held) == 1
        else Points(
            labels,
            np.concatenate([point.timestamps for point in held]),
            np.concatenate([point.values for point in held]),
        )
        for labels, held in found.items()
    ]
