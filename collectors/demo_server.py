"""Serves the simulated cluster's pages over HTTP, and the list of its targets as Prometheus's http_sd.

GET only, and nothing can be changed over it: faults are ordered on the command line. All targets share one
address; their paths tell them apart, and their `instance` label is what a real one's would be. `/targets`
lists them all, `/targets/dcgm`, `/targets/node` and `/targets/vllm` one kind each.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from collectors.demo_model import Simulation
from collectors.demo_page_dcgm import DcgmPages
from collectors.demo_page_node import NodePages
from collectors.demo_page_vllm import VllmPages

LOOPBACK = "127.0.0.1"
JOBS: Mapping[str, str] = {"dcgm": "dcgm-exporter", "node": "node-exporter", "vllm": "vllm"}
"""Kind of target -> the job under which it is scraped."""
_PORTS = {"dcgm": 9400, "node": 9100}
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
_ERROR = b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n"
_MAX_REQUEST_BYTES = 16 * 1024
_BREAKS_EVERY_SECONDS = 20  # a page that breaks off does so in the second half of these


class BrokenOff(Exception):
    """The target sends so much of its page, and closes the connection. sent: those bytes."""

    def __init__(self, sent: bytes) -> None:
        super().__init__()
        self.sent = sent


@dataclass(frozen=True, slots=True)
class SimulatedTarget:
    """kind: a key of JOBS. number: of the node or replica. instance: as a real one's label."""

    kind: str
    number: int
    instance: str

    @property
    def path(self) -> str:
        return f"/{self.kind}/{self.instance}/metrics"


class ClusterPages:
    """What a path answers. now_seconds: the wall clock, to which the simulation is brought first."""

    def __init__(self, simulation: Simulation, now_seconds: Callable[[], float]) -> None:
        self._simulation = simulation
        self._now_seconds = now_seconds
        cluster = simulation.cluster
        self.targets = tuple(
            SimulatedTarget(kind, number, f"{node.name}:{port}")
            for kind, port in _PORTS.items()
            for number, node in enumerate(cluster.nodes)
        ) + tuple(
            SimulatedTarget("vllm", number, one.instance) for number, one in enumerate(cluster.replicas)
        )
        self._of_path = {target.path: target for target in self.targets}
        self._dcgm = DcgmPages(cluster)
        self._node = NodePages(cluster)
        self._vllm = VllmPages(cluster)
        self._shown = simulation.second

    def groups(self, address: Callable[[SimulatedTarget], str], kind: str | None = None) -> bytes:
        """The http_sd document; address: where a target is reached."""
        return json.dumps(
            [
                {
                    "targets": [address(target)],
                    "labels": {
                        "instance": target.instance,
                        "job": JOBS[target.kind],
                        "__metrics_path__": target.path,
                    },
                }
                for target in self.targets
                if kind in (None, target.kind)
            ]
        ).encode()

    def page(self, path: str) -> bytes | None:
        """The page of a target; None where the path names none. Raises BrokenOff."""
        target = self._of_path.get(path)
        if target is None:
            return None
        simulation = self._simulation
        simulation.advance(self._now_seconds())
        if simulation.second != self._shown:
            self._shown = simulation.second
            self._dcgm.forget()
            self._vllm.forget()
        effects = simulation.effects
        if target.kind == "vllm":
            if not effects.replica_up[target.number]:
                raise BrokenOff(b"")
            page = self._vllm.page(target.number, simulation.serving)
            breaks = target.number in effects.breaking_replicas
        else:
            if not effects.node_up[target.number]:
                raise BrokenOff(b"")
            breaks = target.number in effects.breaking_nodes
            if target.kind == "dcgm":
                page = self._dcgm.page(target.number, simulation.gpus)
            else:
                seconds = simulation.start_seconds + simulation.second
                page = self._node.page(target.number, simulation.hosts, seconds)
        if breaks and simulation.second % _BREAKS_EVERY_SECONDS >= _BREAKS_EVERY_SECONDS // 2:
            raise BrokenOff(_OK % (_TEXT, len(page)) + page[: len(page) // 2])
        return page


class ClusterServer:
    """One HTTP server for the whole cluster.

    spread: give every target an address of its own within 127.0.0.0/8, as a load generator does: then a
    scraper keeps as many connections as it would in a real cluster. Linux only.
    """

    def __init__(self, pages: ClusterPages, *, spread: bool = False) -> None:
        self._pages = pages
        self._hosts = [LOOPBACK]
        if spread:
            self._hosts += [f"127.1.{at >> 8}.{at & 255}" for at in range(1, len(pages.targets) + 1)]
        self._at = {target: self._hosts[at if spread else 0] for at, target in enumerate(pages.targets, 1)}
        self._servers: tuple[asyncio.Server, ...] = ()
        self._open: set[asyncio.Transport] = set()
        self.port = 0

    async def start(self, port: int = 0) -> None:
        """Listen; 0 takes a free port, which `port` then has. Raises OSError."""
        # The port may be kept for us by who started us: see app.commands.demo.
        servers = [await self._listen([LOOPBACK], port)]
        self.port = servers[0].sockets[0].getsockname()[1]
        if len(self._hosts) > 1:
            servers.append(await self._listen(self._hosts[1:], self.port))
        self._servers = tuple(servers)

    async def _listen(self, hosts: Sequence[str], port: int) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(
            lambda: _Connection(self._answer, self._open), hosts, port, reuse_port=True, backlog=1024
        )

    def close(self) -> None:
        """Listen no more, and end what is open."""
        for server in self._servers:
            server.close()
        for transport in tuple(self._open):
            transport.abort()

    def _address(self, target: SimulatedTarget) -> str:
        return f"{self._at[target]}:{self.port}"

    def _answer(self, request: bytes) -> bytes:
        """The whole answer to a request's head. Raises BrokenOff."""
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0].decode("latin-1")
        if method != b"GET":
            return _ERROR % b"405 Method Not Allowed"
        listing, _, kind = path.removeprefix("/").partition("/")
        if listing == "targets" and (not kind or kind in JOBS):
            body = self._pages.groups(self._address, kind or None)
            return _OK % (b"application/json", len(body)) + body
        page = self._pages.page(path)
        if page is None:
            return _ERROR % b"404 Not Found"
        return _OK % (_TEXT, len(page)) + page


class _Connection(asyncio.Protocol):
    """One client; its requests one after the other. answer: from a request's head to the whole answer."""

    def __init__(self, answer: Callable[[bytes], bytes], opened: set[asyncio.Transport]) -> None:
        self._answer = answer
        self._opened = opened
        self._received = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._opened.add(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._opened.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while not self._transport.is_closing():
            head, end, rest = self._received.partition(b"\r\n\r\n")
            if not end:
                if len(head) > _MAX_REQUEST_BYTES:
                    self._transport.close()
                return
            self._received = rest
            try:
                self._transport.write(self._answer(head))
            except BrokenOff as broken:
                self._transport.write(broken.sent)
                self._transport.close()

    def pause_writing(self) -> None:
        """The client does not read: take no more requests from it."""
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._transport.resume_reading()
