"""What scraped targets report: of this machine, so that its own collectors stay silent on it, and which GPU
models there are, which the table of hardware knows more about."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from threading import Lock

from collectors.target_series import SeriesOrder

_GPU_METRIC = "DCGM_FI_"
_HOST_METRIC = "node_uname_info"
# dcgm-exporter's label is UUID, or uuid with its old-namespace flag.
_GPU_LABELS = ("UUID", "uuid")
# Where exporters say a GPU's model, by the beginnings of their metrics: dcgm-exporter, nvidia_gpu_exporter,
# all-smi, AMD's device-metrics-exporter, whose prefix is the user's choice and whose card_model may be a part
# number, and nvitop. vLLM's model_name is another thing.
_MODEL_LABELS = {
    _GPU_METRIC: ("modelName", "model_name"),
    "nvidia_smi_gpu_info": ("name",),
    "all_smi_gpu_": ("gpu",),
    "amd_": ("card_series", "card_model"),
    "gpu_": ("card_series", "card_model", "devicename"),
}
_MODEL_METRICS = tuple(_MODEL_LABELS)
MAX_MODELS = 200
MAX_MODEL_LENGTH = 200


@dataclass(frozen=True, slots=True)
class _Reported:
    gpu_uuids: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()


_NOTHING = _Reported()


@dataclass(slots=True)
class Exposed:
    """GPUs and hosts by the target that reports them. A target that fails reports nothing; GPU models are
    remembered, since what they can do and cost does not end with it.

    Written by page threads and the event loop, read by collectors in threads of their own. A target is any
    object that stands for one scraper's life.
    """

    _by_target: dict[Hashable, _Reported] = field(default_factory=dict)
    _all: _Reported = field(default_factory=_Reported)
    _models: frozenset[str] = frozenset()
    _lock: Lock = field(default_factory=Lock)

    def update(self, target: Hashable, order: SeriesOrder) -> None:
        """A page of this target was read, with these series."""
        uuids: set[str] = set()
        hosts: set[str] = set()
        models: set[str] = set()
        # A GPU has the same labels on each metric: reading all of them was a tenth of a first page's cost.
        read: set[tuple[str, str]] = set()
        for index, key in enumerate(order.keys):
            text = str(key)
            if text.startswith(_MODEL_METRICS):
                name, _, rest = text.partition("{")
                start = next(start for start in _MODEL_METRICS if name.startswith(start))
                if (start, rest) in read:
                    continue
                read.add((start, rest))
                labels = dict(order.labels(index))
                if text.startswith(_GPU_METRIC):
                    uuids.update(labels[name] for name in _GPU_LABELS if name in labels)
                models.update(_models_in(text, labels))
            elif text.startswith(_HOST_METRIC):
                hosts.add(dict(order.labels(index)).get("nodename", ""))
        self._set(target, _Reported(frozenset(uuids), frozenset(hosts - {""})))
        self.add_gpu_models(models)

    def forget(self, target: Hashable) -> None:
        """This target failed or is gone."""
        self._set(target, _Reported())

    def gpu_uuids(self) -> frozenset[str]:
        """UUIDs of the GPUs that some target reports."""
        return self._all.gpu_uuids

    def add_gpu_models(self, names: Iterable[str]) -> None:
        """GPUs of these models were seen, by a target or by a collector of this machine."""
        usable = {name for name in names if 0 < len(name) <= MAX_MODEL_LENGTH}
        if usable <= self._models:
            return
        with self._lock:
            fresh = sorted(usable - self._models)
            self._models |= frozenset(fresh[: MAX_MODELS - len(self._models)])

    def gpu_models(self) -> frozenset[str]:
        """Names of GPU models as drivers and exporters gave them, since this process started."""
        return self._models

    def reports_host(self, nodename: str) -> bool:
        """Does some target report the host of this name?"""
        return nodename in self._all.hosts

    def _set(self, target: Hashable, reported: _Reported) -> None:
        with self._lock:
            if reported == self._by_target.get(target, _NOTHING):
                return
            self._by_target.pop(target, None)
            if reported != _NOTHING:
                self._by_target[target] = reported
            # Replaced as a whole: readers take no lock.
            self._all = _Reported(
                frozenset().union(*(item.gpu_uuids for item in self._by_target.values())),
                frozenset().union(*(item.hosts for item in self._by_target.values())),
            )


def _models_in(metric: str, labels: dict[str, str]) -> set[str]:
    return {
        labels[name]
        for start, names in _MODEL_LABELS.items()
        if metric.startswith(start)
        for name in names
        if name in labels
    }
