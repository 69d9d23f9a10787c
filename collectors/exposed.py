"""What scraped targets already report about this machine, so that its own collectors stay silent on it."""

from dataclasses import dataclass, field

from collectors.target_series import SeriesOrder

_GPU_METRIC = "DCGM_FI_"
_HOST_METRIC = "node_uname_info"
# dcgm-exporter's label is UUID, or uuid with its old-namespace flag.
_GPU_LABELS = ("UUID", "uuid")


@dataclass(frozen=True, slots=True)
class _Reported:
    gpu_uuids: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()


@dataclass(slots=True)
class Exposed:
    """GPUs and hosts by the target that reports them. A target that fails reports nothing."""

    _by_target: dict[str, _Reported] = field(default_factory=dict)
    _gpu_uuids: frozenset[str] = frozenset()

    def update(self, target: str, order: SeriesOrder) -> None:
        """A page of this target was read, with these series."""
        uuids: set[str] = set()
        hosts: set[str] = set()
        for index, key in enumerate(order.keys):
            text = str(key)
            if text.startswith(_GPU_METRIC):
                labels = dict(order.labels(index))
                uuids.update(labels[name] for name in _GPU_LABELS if name in labels)
            elif text.startswith(_HOST_METRIC):
                hosts.add(dict(order.labels(index)).get("nodename", ""))
        self._set(target, _Reported(frozenset(uuids), frozenset(hosts - {""})))

    def forget(self, target: str) -> None:
        """This target failed or is gone."""
        self._set(target, _Reported())

    def gpu_uuids(self) -> frozenset[str]:
        """UUIDs of the GPUs that some target reports."""
        return self._gpu_uuids

    def reports_host(self, nodename: str) -> bool:
        """Does some target report the host of this name?"""
        return any(nodename in reported.hosts for reported in self._by_target.values())

    def _set(self, target: str, reported: _Reported) -> None:
        if reported == self._by_target.get(target, _Reported()):
            return
        self._by_target[target] = reported
        # Replaced as a whole: collectors read it from threads of their own.
        self._gpu_uuids = frozenset().union(*(item.gpu_uuids for item in self._by_target.values()))
