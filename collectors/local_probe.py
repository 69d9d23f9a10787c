"""One quick look at this machine's usual ports: what answers, and which service its metric names show.

Only GET, only to the addresses given, no redirect is followed: nothing outside the machine is contacted.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import aiohttp

from collectors.local_table import SERVICES, Service

FIRST_LOOK_SECONDS = 0.8
PREFIX_BYTES = 256 * 1024  # every known service shows its own names well before this

Address = tuple[str, int]

_SAMPLE = re.compile(rb"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{[^\n]*\})?[ \t]+[-+0-9.NI]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Found:
    """Something that answers. job: "" when it is listed only; note: then why, in one sentence.

    silent: it took the connection and said nothing in time; it may be starting.
    """

    service: str
    url: str
    job: str
    note: str
    address: Address
    path: str
    silent: bool = False


@dataclass(frozen=True, slots=True)
class _Answer:
    """What one URL gave. state "refused": nothing listens there."""

    state: Literal["refused", "silent", "broken", "answered"]
    status: int = 0
    body: bytes = b""


async def probe(
    session: aiohttp.ClientSession,
    host: str = "127.0.0.1",
    *,
    services: Sequence[Service] = SERVICES,
    extra: Iterable[Address] = (),
    skip: Collection[Address] = (),
    timeout_seconds: float = FIRST_LOOK_SECONDS,
) -> list[Found]:
    """Ask all ports of `services` on `host`, and `extra` addresses, at the same time; sorted by address.

    skip: addresses not to touch (Strata's own, and what is known already). Never raises for what answers.
    """
    paths: dict[Address, set[str]] = {}
    for service in services:
        for port in service.ports:
            wanted = {service.path, service.version_path} - {""}
            paths.setdefault((host, port), set()).update(wanted)
    for address in extra:
        paths.setdefault(address, set()).add("/metrics")
    looks = [
        _look(
            session,
            address,
            sorted(wanted, key=lambda path: (path != "/metrics", path)),
            services,
            timeout_seconds,
        )
        for address, wanted in sorted(paths.items())
        if address not in skip
    ]
    return [found for found in await asyncio.gather(*looks) if found is not None]


async def _look(
    session: aiohttp.ClientSession,
    address: Address,
    paths: Sequence[str],
    services: Sequence[Service],
    timeout_seconds: float,
) -> Found | None:
    urls = [address_url(address, path) for path in paths]
    answers = await asyncio.gather(*(_get(session, url, timeout_seconds) for url in urls))
    for path, url, answer in zip(paths, urls, answers, strict=True):
        service = recognise(answer.body, services) if answer.status == 200 else None
        if service is not None:
            return Found(service.name, url, service.name, "", address, path)
    if all(answer.state == "refused" for answer in answers):
        return None
    by_version = _by_version(address, dict(zip(paths, answers, strict=True)), services)
    if by_version is not None:
        return by_version
    silent = all(answer.state in ("silent", "refused") for answer in answers)
    note = (
        f"port {address[1]} takes connections, but {paths[0]} did not answer in time"
        if silent
        else _note(address[1], paths[0], answers, services)
    )
    return Found("", urls[0], "", note, address, paths[0], silent)


async def _get(session: aiohttp.ClientSession, url: str, timeout_seconds: float) -> _Answer:
    body = bytearray()
    status = 0
    try:
        async with (
            asyncio.timeout(timeout_seconds),
            session.get(
                url,
                allow_redirects=False,
                headers={
                    "Accept": "text/plain,*/*;q=0.1",
                    "Accept-Encoding": "identity",
                    "User-Agent": "Strata",
                },
            ) as response,
        ):
            status = response.status
            while len(body) < PREFIX_BYTES and (
                chunk := await response.content.read(PREFIX_BYTES - len(body))
            ):
                body += chunk
    except TimeoutError:
        return _Answer("answered", status, bytes(body)) if body else _Answer("silent")
    except aiohttp.ClientConnectorError:
        return _Answer("refused")
    except (aiohttp.ClientError, OSError, ValueError):
        return _Answer("answered", status, bytes(body)) if body else _Answer("broken")
    return _Answer("answered", status, bytes(body))


def recognise(page: bytes, services: Iterable[Service] = SERVICES) -> Service | None:
    """The service most of whose names a page has, if any."""
    names = _names(page)
    counts = Counter(
        {
            service: sum(name.startswith(service.signs) for name in names)
            for service in services
            if service.signs
        }
    )
    best = counts.most_common(1)
    return best[0][0] if best and best[0][1] else None


def _names(page: bytes) -> set[str]:
    return {match[1].decode("ascii") for match in _SAMPLE.finditer(page)}


def _by_version(address: Address, answers: dict[str, _Answer], services: Sequence[Service]) -> Found | None:
    for service in services:
        answer = answers.get(service.version_path) if address[1] in service.ports else None
        if answer is None or answer.status != 200:
            continue
        try:
            document = json.loads(answer.body)
        except (ValueError, RecursionError):
            continue
        version = document.get("version") if isinstance(document, dict) else None
        if isinstance(version, str):
            known = version if re.fullmatch(r"[\w.+-]{1,40}", version) else ""
            note = f"{service.title} {known}".rstrip() + " found; it exposes no metrics"
            url = address_url(address, service.version_path)
            return Found(service.name, url, "", note, address, service.version_path)
    return None


def _note(port: int, path: str, answers: Sequence[_Answer], services: Sequence[Service]) -> str:
    if any(answer.status == 200 and _names(answer.body) for answer in answers):
        return (
            f"port {port} answers with metrics of an unknown service; to scrape it, add it to scrape_configs"
        )
    if any(answer.status in (401, 403) for answer in answers):
        return f"port {port} asks for credentials; to scrape it, add it to scrape_configs with authorization"
    if answers[0].state == "broken":
        return f"port {port} answers, but does not speak HTTP"
    switches = [
        f"{service.title} needs {service.needs}"
        for service in services
        if port in service.ports and service.needs
    ]
    hint = f" ({', '.join(switches)})" if switches else ""
    return f"port {port} answers, but {path} is not an exporter page{hint}"


def address_url(address: Address, path: str) -> str:
    host, port = address
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
