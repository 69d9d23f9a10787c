"""The parameters of a request: from the URL and from a form in the body, checked, with Prometheus's words for
what is wrong."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from app.api.errors import ApiError, bad_parameter
from app.api.times import FIRST_MS, LAST_MS, parse_milliseconds, parse_seconds, parse_time
from db.promql.ast import VectorSelector
from db.promql.errors import QueryError
from db.promql.parse import parse
from db.records import Matcher
from db.regex import fullmatch

Selector = tuple[Matcher, ...]

NO_MATCHER = "match[] must contain at least one non-empty matcher"
# What the parser, which has no match[], says of the same.
_ONLY_EMPTY = "must contain at least one non-empty matcher"
# Go's limit of a form in a body.
_MOST_BYTES = 10 << 20
# More than any client sends; the five million that fit a form would stop the pages for ten seconds.
_MOST_PARAMETERS = 10_000
_FORM = "application/x-www-form-urlencoded"
_WHOLE = re.compile(r"[+-]?[0-9]+")
_MOST_WHOLE = 2**63 - 1


class Parameters:
    """What a request asks for."""

    def __init__(self, values: Mapping[str, Sequence[str]], path: Mapping[str, str] | None = None) -> None:
        """path: what the route took out of the path."""
        self._values = values
        self.path = path or {}

    def all(self, name: str) -> Sequence[str]:
        return self._values.get(name, ())

    def text(self, name: str) -> str:
        """ "" where it is not given."""
        return next(iter(self.all(name)), "")

    def time(self, name: str, default_ms: int | None = None) -> int:
        """Milliseconds UTC. Without a default it has to be given. Raises ApiError."""
        text = self.text(name)
        if default_ms is not None and not text:
            return default_ms
        try:
            return parse_time(text)
        except ValueError as error:
            prefix = "" if default_ms is None else f"Invalid time value for '{name}': "
            raise bad_parameter(name, f"{prefix}{error}") from error

    def window(self) -> tuple[int, int]:
        """start and end of the calls that list series; all of time where they are not given."""
        return self.time("start", FIRST_MS), self.time("end", LAST_MS)

    def seconds(self, name: str) -> float:
        """Raises ApiError."""
        try:
            return parse_seconds(self.text(name))
        except ValueError as error:
            raise bad_parameter(name, error) from error

    def milliseconds(self, name: str) -> int:
        """Raises ApiError."""
        try:
            return parse_milliseconds(self.text(name))
        except ValueError as error:
            raise bad_parameter(name, error) from error

    def timeout(self, most_seconds: float) -> float:
        """Seconds, at most what the server allows. Raises ApiError."""
        if not self.text("timeout"):
            return most_seconds
        return min(most_seconds, max(0.0, self.seconds("timeout")))

    def lookback_ms(self) -> int | None:
        """Raises ApiError."""
        text = self.text("lookback_delta")
        if not text:
            return None
        try:
            lookback_ms = parse_milliseconds(text)
        except ValueError as error:
            raise ApiError("bad_data", f"error parsing lookback delta duration: {error}") from error
        return lookback_ms if lookback_ms > 0 else None

    def limit(self) -> int:
        """How many series or names at most, 0 for all of them. Raises ApiError."""
        text = self.text("limit")
        if not text:
            return 0
        limit = _whole(text)
        if limit is None:
            raise bad_parameter("limit", f'strconv.Atoi: parsing "{text}": invalid syntax')
        if limit < 0:
            raise bad_parameter("limit", "limit must be non-negative")
        return limit

    def count(self, name: str) -> int:
        """Of the calls whose limits are worded otherwise; -1 for all. Raises ApiError."""
        text = self.text(name)
        count = _whole(text) if text else -1
        if count is None:
            raise ApiError("bad_data", f"{name} must be a number")
        return count

    def selectors(self) -> list[Selector]:
        """What match[] says, one by one. Raises ApiError."""
        found = [selector(text) for text in self.all("match[]")]
        for matchers in found:
            if all(_meets_nothing(matcher) for matcher in matchers):
                raise ApiError("bad_data", NO_MATCHER)
        return found


async def parameters_of(request: Request) -> Parameters:
    """A form's values come before the URL's of the same name. Raises ApiError."""
    values: dict[str, list[str]] = {}
    pairs = _pairs(request.url.query)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method == "POST" and media_type == _FORM:
        pairs = _pairs(await _body(request)) + pairs
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return Parameters(values, request.path_params)


def selector(text: str) -> Selector:
    """The matchers of a selector such as `up{job="x"}`. Raises ApiError."""
    if not text.strip():
        raise ApiError("bad_data", "1:1: parse error: unexpected end of input")
    try:
        expression = parse(text)
    except QueryError as error:
        said = str(error)
        if said.endswith(_ONLY_EMPTY):
            said = NO_MATCHER
        raise ApiError("bad_data", said) from error
    if not isinstance(expression, VectorSelector) or expression.offset_ms or expression.at is not None:
        raise ApiError("bad_data", '1:1: parse error: only a metric selector such as up{job="x"} is taken')
    return expression.matchers


def _pairs(text: str) -> list[tuple[str, str]]:
    if text.count("&") >= _MOST_PARAMETERS:
        raise ApiError("bad_data", f"error parsing form values: more than {_MOST_PARAMETERS:,} parameters")
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict")
    except ValueError as error:  # of another encoding than UTF-8
        raise ApiError("bad_data", f"error parsing form values: {error}") from error


async def _body(request: Request) -> str:
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > _MOST_BYTES:
                raise ApiError("bad_data", f"error parsing form values: more than {_MOST_BYTES} bytes")
            parts.append(part)
    except ClientDisconnect as error:
        raise ApiError("canceled", "the request was cut short") from error
    return b"".join(parts).decode("utf-8", "replace")


def _whole(text: str) -> int | None:
    if not _WHOLE.fullmatch(text) or len(text) > 20:
        return None
    value = int(text)
    return value if abs(value) <= _MOST_WHOLE else None


def _meets_nothing(matcher: Matcher) -> bool:
    """Does it take series without the label?"""
    if matcher.operator in ("=", "!="):
        return (matcher.value == "") == (matcher.operator == "=")
    return fullmatch(matcher.value, "") == (matcher.operator == "=~")
