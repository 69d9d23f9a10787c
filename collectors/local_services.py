"""Services that run on this machine, found by themselves: what was found once stays a target.

A service that vanished stays as a target that is down, so that its end is seen and not only missed.
"""

import ipaddress
import json
import socket
from collections.abc import Collection, Sequence
from pathlib import Path

import aiohttp

from collectors.local_probe import FIRST_LOOK_SECONDS, Address, Found, probe
from collectors.local_table import SERVICES, Service
from collectors.targets import Target, TargetBuilder
from db.scrape_settings import GlobalConfig, ScrapeConfig, TargetGroup

__all__ = ["SERVICES", "Found", "LocalServices", "Service", "probe"]

LOOK_EVERY_SECONDS = 15.0
LOOK_AGAIN_SECONDS = 3.0  # after something took the connection and stayed silent: it may be starting
LATER_LOOK_SECONDS = 3.0  # a busy server may need longer than the first look allows
FULL_LOOK_ROUNDS = 8  # known services are asked again this seldom: they are being scraped anyway
# Ray's metrics port is chosen at random unless set; Ray writes the one it took into this file.
RAY_FILE = Path("/tmp/ray/prom_metrics_service_discovery.json")  # noqa: S108 - Ray's own documented path
_MAX_RAY_ADDRESSES = 16
_MAX_RAY_FILE_BYTES = 1024 * 1024


class LocalServices:
    """Finds services on `host` and keeps their targets.

    session: `collectors.fetch.new_session`. defaults: interval and timeout of the targets.
    own_ports: ports of Strata itself, never asked. ray_file: None leaves Ray's file alone.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        defaults: GlobalConfig,
        *,
        host: str = "127.0.0.1",
        services: Sequence[Service] = SERVICES,
        own_ports: Collection[int] = (),
        ray_file: Path | None = RAY_FILE,
    ) -> None:
        self._session = session
        self._defaults = defaults
        self._host = host
        self._services = services
        self._own = frozenset((host, port) for port in own_ports)
        self._ray_file = ray_file
        self._known: dict[Address, Found] = {}
        self._listed: tuple[Found, ...] = ()
        self._targets: tuple[Target, ...] = ()
        self._rounds = 0

    @property
    def interval_seconds(self) -> float:
        """How long to wait until the next `refresh`."""
        return LOOK_AGAIN_SECONDS if any(found.silent for found in self._listed) else LOOK_EVERY_SECONDS

    def found(self) -> tuple[Found, ...]:
        """Everything that answered: scraped services first, then what is only listed."""
        return (*self._known.values(), *self._listed)

    def targets(self) -> tuple[Target, ...]:
        return self._targets

    async def refresh(self) -> bool:
        """Look once; is there a new target?"""
        full = self._rounds % FULL_LOOK_ROUNDS == 0
        answered = await probe(
            self._session,
            self._host,
            services=self._services,
            extra=_ray_addresses(self._ray_file),
            skip=self._own if full else self._own | self._known.keys(),
            timeout_seconds=FIRST_LOOK_SECONDS if self._rounds == 0 else LATER_LOOK_SECONDS,
        )
        self._rounds += 1
        known = {**self._known, **{found.address: found for found in answered if found.job}}
        self._listed = tuple(found for found in answered if not found.job and found.address not in known)
        if known == self._known:
            return False
        self._known = known
        self._targets = tuple(target for found in known.values() for target in self._build(found))
        return True

    def _build(self, found: Found) -> tuple[Target, ...]:
        host, port = found.address
        config = ScrapeConfig(
            job_name=found.job,
            metrics_path=found.path,
            follow_redirects=False,  # nothing outside this machine is asked
            fallback_scrape_protocol="PrometheusText0.0.4",
            static_configs=(TargetGroup(targets=(f"{f'[{host}]' if ':' in host else host}:{port}",)),),
        )
        return TargetBuilder(config.resolved(self._defaults, Path("/"))).build(config.static_configs).targets


def _ray_addresses(file: Path | None) -> list[Address]:
    """Addresses of this machine in Ray's discovery file; nothing when there is no usable file.

    Anyone may write in /tmp, so addresses of other machines are not taken from there.
    """
    if file is None:
        return []
    try:
        if file.stat().st_size > _MAX_RAY_FILE_BYTES:
            return []
        groups = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return []
    found: list[Address] = []
    for group in groups if isinstance(groups, list) else []:
        targets = group.get("targets") if isinstance(group, dict) else None
        for target in targets if isinstance(targets, list) else []:
            host, _, port = str(target).rpartition(":")
            if port.isascii() and port.isdigit() and 0 < int(port) < 65536 and _is_own_address(host):
                found.append((host.strip("[]"), int(port)))
    return found[:_MAX_RAY_ADDRESSES]


def _is_own_address(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe_socket:
        try:
            probe_socket.bind((str(address), 0))
        except OSError:
            return False
    return True
