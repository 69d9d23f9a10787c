"""`/api/v1/series`, `/labels` and `/label/NAME/values`."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from starlette.requests import Request

from app.api.errors import ApiError, bad_parameter
from app.api.parameters import Parameters
from app.api.query import TRUNCATED
from app.api.replies import Reply
from app.api.threads import Threads
from app.api.times import quoted
from db.lookups import find_series, label_names, label_values
from db.store import SampleStore

if TYPE_CHECKING:
    from db.joined_source import JoinedSource

Found = TypeVar("Found")

_ESCAPED = "U__"
_ESCAPES = re.compile(r"__|_([0-9a-fA-F]{1,6})_")


class SeriesCalls:
    """The endpoints; each raises ApiError or StoreError."""

    def __init__(self, store: "Callable[[], SampleStore | JoinedSource]", threads: Threads) -> None:
        self._store = store
        self._threads = threads

    async def series(self, _request: Request, asked: Parameters) -> Reply:
        if not asked.all("match[]"):
            raise ApiError("bad_data", "no match[] parameter provided")
        limit = asked.limit()
        window = asked.window()
        try:
            selectors = asked.selectors()
        except ApiError as error:
            raise bad_parameter("match[]", error) from error

        def find() -> Reply:
            found = find_series(self._store(), selectors, *window)
            return _limited([dict(labels) for labels in found], limit)

        return await self._threads.run(find)

    async def names(self, _request: Request, asked: Parameters) -> Reply:
        limit = asked.limit()
        window = asked.window()
        selectors = asked.selectors()
        return await self._threads.run(
            lambda: _limited(label_names(self._store(), selectors, *window), limit)
        )

    async def values(self, _request: Request, asked: Parameters) -> Reply:
        name = unescaped(asked.path["name"])
        if name == "":
            raise ApiError("bad_data", f"invalid label name: {quoted(name)}")
        limit = asked.limit()
        window = asked.window()
        selectors = asked.selectors()
        return await self._threads.run(
            lambda: _limited(label_values(self._store(), name, selectors, *window), limit)
        )


def unescaped(name: str) -> str:
    """A label name out of a URL: `U__http_2e_status` is `http.status`; other names stay as they are. What is
    not such an escape stays, too."""
    if not name.startswith(_ESCAPED):
        return name
    rest = name.removeprefix(_ESCAPED)
    parts = []
    at = 0
    while at < len(rest):
        if rest[at] != "_":
            parts.append(rest[at])
            at += 1
            continue
        match = _ESCAPES.match(rest, at)
        if match is None:
            return name
        if match[1] is None:
            parts.append("_")
        else:
            code = int(match[1], 16)
            if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                return name
            parts.append(chr(code))
        at = match.end()
    return "".join(parts)


def _limited(found: list[Found], limit: int) -> Reply:
    if limit and len(found) > limit:
        return Reply(found[:limit], (TRUNCATED,))
    return Reply(found)
