"""What scraped targets already report about this machine, so that its own collectors stay silent on it."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Lock

from collectors.target_series import SeriesOrder

_GPU_METRIC = "DCGM_FI_"
_HOST_METRIC = "node_uname_info"
# dcgm-exporter's label is UUID, or uuid with its old-namespace flag.
_GPU_LABELS = ("UUID", "uuid")


@dataclass(frozen=True, slots=True)
class _Reported:
    gpu_uuids: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()


_NOTHING = _Reported()


@dataclass(slots=True)
class Exposed:
    """GPUs and hosts by the target that reports them. A target that fails reports nothing.

    Written by page threads and the event loop, read by collectors in threads of their own. A target is any
    object that stands for one scraper's life.
    """

    _by_target: dict[Hashable, _Reported] = field(default_factory=dict)
    _all: _Reported = field(default_factory=_Reported)
    _lock: Lock = field(default_factory=Lock)

    def update(self, target: Hashable, order: SeriesOrder) -> None:
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

    def forget(self, target: Hashable) -> None:
        """This target failed or is gone."""
        self._set(target, _Reported())

    def gpu_uuids(self) -> frozenset[str]:
        """UUIDs of the GPUs that some target reports."""
        return self._all.gpu_uuids

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
