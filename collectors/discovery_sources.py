"""Where target groups come from: files and URLs, re-read as they change; a broken one keeps its last good."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import aiohttp
from pydantic import TypeAdapter, ValidationError

from collectors.fetch import FetchError, fetch
from collectors.http_options import document_options
from db.config_errors import first_error
from db.prometheus_config import glob_last
from db.scrape_settings import FileSdConfig, HttpSdConfig, TargetGroup
from db.yaml_lines import Document, YamlError, parse_yaml

FILE_POLL_SECONDS = 3.0
MIN_INTERVAL_SECONDS = 1.0
MAX_DOCUMENT_BYTES = 64 * 1024 * 1024

# prometheus/prometheus, discovery/http: anything else is refused
_JSON_TYPE = re.compile(r'application/json(;\s*charset=("utf-8"|utf-8))?', re.IGNORECASE)
_GROUPS: TypeAdapter[list[TargetGroup]] = TypeAdapter(list[TargetGroup])


class BadGroups(ValueError):
    """A document that holds no target groups; the message says where and why."""


class GroupSource(Protocol):
    """Target groups that change; after a failed refresh the last good ones stay."""

    interval_seconds: float

    @property
    def config(self) -> FileSdConfig | HttpSdConfig: ...

    @property
    def groups(self) -> Sequence[TargetGroup]: ...

    @property
    def errors(self) -> Sequence[tuple[str, str]]:
        """(where, reason) of everything that is wrong now."""
        ...

    async def refresh(self) -> bool:
        """Look again; did groups or errors change? Never raises for what is wrong with the source."""
        ...


@dataclass(frozen=True, slots=True)
class _File:
    stamp: tuple[int, int, int] | None  # mtime, size, inode; None: could not be read
    groups: tuple[TargetGroup, ...]
    error: str


class FileSource:
    """The files of one file_sd_config: looked at every few seconds, parsed only when they changed."""

    def __init__(self, config: FileSdConfig, poll_seconds: float = FILE_POLL_SECONDS) -> None:
        self.config = config
        self.interval_seconds = min(poll_seconds, config.refresh_interval or poll_seconds)
        self._patterns = [Path(name) for name in config.files]
        self._files: dict[Path, _File] = {}
        self._unmatched: tuple[str, ...] = ()

    @property
    def groups(self) -> Sequence[TargetGroup]:
        return [group for file in self._files.values() for group in file.groups]

    @property
    def errors(self) -> Sequence[tuple[str, str]]:
        broken = [(str(path), file.error) for path, file in self._files.items() if file.error]
        return broken + [(pattern, "there is no such file yet") for pattern in self._unmatched]

    async def refresh(self) -> bool:
        before = self._files, self._unmatched
        self._files, self._unmatched = await asyncio.to_thread(self._read)
        return (self._files, self._unmatched) != before

    def _read(self) -> tuple[dict[Path, _File], tuple[str, ...]]:
        files: dict[Path, _File] = {}
        unmatched = []
        for pattern in self._patterns:
            paths = glob_last(pattern)
            if not paths:
                unmatched.append(str(pattern))
            for path in paths:
                files[path] = _read_file(path, self._files.get(path))
        return files, tuple(unmatched)


class HttpSource:
    """The URL of one http_sd_config."""

    def __init__(self, config: HttpSdConfig, session: aiohttp.ClientSession) -> None:
        self.interval_seconds = max(config.refresh_interval, MIN_INTERVAL_SECONDS)
        self.config = config
        self._session = session
        self._groups: tuple[TargetGroup, ...] = ()
        self._error = ""

    @property
    def groups(self) -> Sequence[TargetGroup]:
        return self._groups

    @property
    def errors(self) -> Sequence[tuple[str, str]]:
        return [(_without_credentials(self.config.url), self._error)] if self._error else []

    async def refresh(self) -> bool:
        before = self._groups, self._error
        try:
            self._groups, self._error = await self._fetch(), ""
        except (FetchError, BadGroups) as error:
            self._error = str(error)
        return (self._groups, self._error) != before

    async def _fetch(self) -> tuple[TargetGroup, ...]:
        options = document_options(self.config, MAX_DOCUMENT_BYTES)
        page = await fetch(self._session, self.config.url, options, self.interval_seconds)
        if not _JSON_TYPE.fullmatch(page.content_type.strip()):
            raise BadGroups(
                f"answered with content type {page.content_type!r}, which is not application/json"
            )
        groups = await asyncio.to_thread(_parse_json, page.body)
        return _labelled(groups, "__meta_url", self.config.url)


def _without_credentials(url: str) -> str:
    """The URL as it may be shown: `http://user:password@host/` keeps no user and no password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _read_file(path: Path, before: _File | None) -> _File:
    """The file as it is now, or its last good groups with what is wrong."""
    groups = before.groups if before is not None else ()
    try:
        status = path.stat()
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if before is not None and before.stamp == stamp:
            return before
        if status.st_size > MAX_DOCUMENT_BYTES:
            return _File(stamp, groups, f"is larger than {MAX_DOCUMENT_BYTES >> 20} MiB")
        content = path.read_bytes()
    except OSError as error:
        return _File(None, groups, f"cannot be read: {error.strerror or error}")
    try:
        parse = _parse_json if path.suffix.lower() == ".json" else _parse_yaml
        return _File(stamp, _labelled(parse(content), "__meta_filepath", str(path)), "")
    except BadGroups as error:
        return _File(stamp, groups, str(error))


def _labelled(groups: list[TargetGroup], name: str, value: str) -> tuple[TargetGroup, ...]:
    return tuple(group.model_copy(update={"labels": {**group.labels, name: value}}) for group in groups)


def _parse_json(content: bytes) -> list[TargetGroup]:
    """Raises BadGroups."""
    try:
        data = json.loads(content)
    except json.JSONDecodeError as error:
        raise BadGroups(f"line {error.lineno}: not valid JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise BadGroups("not UTF-8 text") from error
    except RecursionError as error:
        raise BadGroups("not valid JSON: nested too deeply") from error
    return _checked(data, None)


def _parse_yaml(content: bytes) -> list[TargetGroup]:
    """Raises BadGroups."""
    try:
        document = parse_yaml(content.decode("utf-8-sig"))
    except YamlError as error:
        raise BadGroups(f"line {error.line}: {error.reason}") from error
    except UnicodeDecodeError as error:
        raise BadGroups("not UTF-8 text") from error
    return _checked(document.data, document)


def _checked(data: Any, document: Document | None) -> list[TargetGroup]:
    try:
        return _GROUPS.validate_python([] if data is None else data)
    except ValidationError as error:
        path, reason = first_error(error, document.line if document is not None else _group_number)
        place = f"line {document.line(path)}" if document is not None else f"group {_group_number(path) + 1}"
        raise BadGroups(f"{place if path else 'the document'}: {reason}") from error


def _group_number(path: tuple[str | int, ...]) -> int:
    return path[0] if path and isinstance(path[0], int) else 0
