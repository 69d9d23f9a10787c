"""What a remote engine changes for the collector process: what is collected, and where it goes."""

import logging
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from collectors.clock import Clock
from collectors.commit import SampleWriter
from collectors.enabled import BuiltIn
from collectors.engine import INTERVAL_SECONDS, EngineCollector
from collectors.engine_models import EngineModels
from collectors.hardware_facts import HardwareCollector
from collectors.remote_write_request import WriteEndpoint
from collectors.remote_write_sender import RemoteWriteSender, SenderState
from collectors.sources import Plan
from db.config_errors import SettingsError
from db.outgoing_queue import FOLDER, all_waiting
from db.queued_store import KeptQueue
from db.remote_settings import PrometheusSettings
from db.settings import CollectorSettings, Jobs, Settings
from db.store import SampleStore

log = logging.getLogger(__name__)

_WRITER = "collect"


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """state: shared by who sends and who reports on it."""

    settings: PrometheusSettings
    data: Path
    state: SenderState = field(default_factory=SenderState)

    @classmethod
    def of(cls, settings: Settings) -> "EnginePlan | None":
        """None without an engine."""
        engine = settings.store.prometheus
        return None if engine is None else cls(engine, settings.data)

    @property
    def is_read_only(self) -> bool:
        return not self.settings.is_written

    @property
    def built_in(self) -> BuiltIn:
        """The engine itself as a source."""
        return BuiltIn(
            "engine",
            lambda _hostname, _exposed: EngineCollector(self.settings, self.data, self.state),
            lambda _settings: CollectorSettings(interval=INTERVAL_SECONDS),
        )

    @property
    def hardware(self) -> BuiltIn:
        """What the engine's GPUs can do and cost."""
        return BuiltIn(
            "hardware",
            lambda _hostname, _exposed: HardwareCollector(EngineModels(self.settings)),
            lambda settings: settings.collectors.hardware,
        )

    def plan(self, settings: Settings) -> Plan:
        """Of an engine that is only read: it has what there is to collect, but for what GPUs can do and cost,
        which stays here."""
        return Plan(settings, Jobs((), ()), [self.built_in, self.hardware], discover=False)

    def writer(self, store: SampleStore, clock: Clock) -> SampleWriter:
        """Raises WriteRefused."""
        return KeptQueue(lambda: store, self.data, _WRITER, self.settings, clock.now_ms)()

    def sender(self, clock: Clock, session: aiohttp.ClientSession) -> RemoteWriteSender:
        endpoint = WriteEndpoint(self.settings, session)
        most = self.settings.max_samples_per_send
        return RemoteWriteSender(self.data, endpoint, most, clock, self.state)


def tell_left_over(data: Path) -> None:
    """Say it when samples wait for an engine that nothing is written to any more."""
    try:
        samples = sum(one.samples for one in all_waiting(data))
    except OSError as error:
        log.warning("%s: cannot be read: %s", data / FOLDER, error.strerror)
        return
    if samples:
        log.warning(
            "%d samples wait in %s for an engine that is no longer written to; set "
            "store.prometheus.remote_write_url again to send them, or delete the folder",
            samples,
            data / FOLDER,
        )


def refuse_change(before: Settings, after: Settings) -> None:
    """Raises SettingsError: where samples go is settled when the process starts."""
    if before.store != after.store:
        raise SettingsError("store", "cannot change while Strata runs; restart it")
