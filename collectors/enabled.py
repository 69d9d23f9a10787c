"""The built-in collectors, listed. A new one is a file and a row here."""

from collections.abc import Callable
from dataclasses import dataclass

from collectors.exposed import Exposed
from collectors.hardware_facts import HardwareCollector
from collectors.host import HostCollector
from collectors.nvml import NvmlCollector
from collectors.slurm import SlurmCollector
from collectors.types import Collector
from db.settings import CollectorSettings, Settings


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """How a collector is made, and which settings are its own."""

    name: str
    make: Callable[[str, Exposed], Collector]
    settings: Callable[[Settings], CollectorSettings]


BUILT_IN: tuple[BuiltIn, ...] = (
    BuiltIn(
        "host",
        lambda hostname, exposed: HostCollector(suppressed=lambda: exposed.reports_host(hostname)),
        lambda settings: settings.collectors.host,
    ),
    BuiltIn(
        "nvml",
        lambda hostname, exposed: NvmlCollector(
            hostname, suppressed_uuids=exposed.gpu_uuids, tell_models=exposed.add_gpu_models
        ),
        lambda settings: settings.collectors.nvml,
    ),
    BuiltIn(
        "slurm",
        lambda _hostname, _exposed: SlurmCollector(),
        lambda settings: settings.collectors.slurm,
    ),
    BuiltIn(
        "hardware",
        lambda _hostname, exposed: HardwareCollector(exposed.gpu_models),
        lambda settings: settings.collectors.hardware,
    ),
)
