"""What goes wrong in the simulated cluster, and when: by a schedule on the seed, or as the user orders it.

`--fault KIND@AFTER[+DURATION]:PLACE` orders one, for example `throttle@60s:node3`, `xid@5m:node3/2`,
`kv@30s+2m:node1:8000`. A place is a node, one GPU of it, or a replica by its instance; a fault of another
kind of place than its own takes the first of that kind there. Faults touch what a real one touches:

    throttle  a node's cooling fails: temperature, clock, throttle reasons, slower work
    xid       a GPU reports an error; by the code: ECC, row remapping, NVLink errors, a crash, or a GPU that
              is gone
    slow      something takes a node's processors: pressure, load, and everything that its GPUs do waits
    kv        a replica gets long requests: its KV cache fills, requests wait and are preempted
    stuck     a replica's engine hangs: requests wait, no token leaves, its GPUs spin without working
    dying     a target's pages break off, then it is silent, then it is back with its counters at zero
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from collectors.demo_cluster import Cluster, seeded
from db.config_types import parse_duration
from db.nan import BoolArray, FloatArray

DEFAULT_SECONDS = 240
CRASH_SECONDS = 75  # a model server that died: started again, weights loaded
FIRST_SECONDS = 45  # into a demo, so that its first minutes show one
GAP_SECONDS = 80.0
NODES_PER_FAULT = 40  # a large cluster has more of them at a time
SHORTEST_GAP_SECONDS = 5.0
_LONGEST_SECONDS = 300

COOLING_LOST = 5.5  # thermal resistance of a node without its fans, times the usual
SLOWED = 1.7  # everything takes so much longer where the processors are taken
LONG_REQUESTS = 3.0


class Kind(StrEnum):
    """In which order a round of the schedule begins."""

    THROTTLE = "throttle"
    KV = "kv"
    XID = "xid"
    SLOW = "slow"
    STUCK = "stuck"
    DYING = "dying"


@dataclass(frozen=True, slots=True)
class XidEffect:
    """What an XID code does besides being reported."""

    crash: bool = False
    double_bit: int = 0
    remapped: int = 0
    nvlink_errors: int = 0
    gone: bool = False


# NVIDIA's XID catalogue: 31 page fault of an application, 48 uncorrectable ECC error, 63 row remapping
# recorded, 74 NVLink error, 79 fallen off the bus.
XIDS: dict[int, XidEffect] = {
    31: XidEffect(crash=True),
    48: XidEffect(crash=True, double_bit=1, remapped=1),
    63: XidEffect(remapped=1),
    74: XidEffect(nvlink_errors=40),
    79: XidEffect(crash=True, gone=True),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One of them. start: seconds since the simulation's start. node, gpu, replica: -1 where not meant."""

    kind: Kind
    start: int
    seconds: int
    node: int = -1
    gpu: int = -1
    replica: int = -1
    xid: int = 0

    def active(self, second: int) -> bool:
        return self.start <= second < self.start + self.seconds

    @property
    def silent_from(self) -> int:
        """A dying target's pages break off in the first third, and then it answers no more."""
        return self.start + self.seconds // 3


class BadFault(ValueError):
    """An ordered fault that cannot be understood; the message says why and what would do."""


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """The faults of one second, by what they do. breaking: targets whose pages break off now."""

    cooling: FloatArray  # per node, times the usual thermal resistance
    slowed: FloatArray  # per node, times the usual duration
    node_up: BoolArray
    lengths: FloatArray  # per replica, times the usual prompt and answer
    stuck: BoolArray  # per replica
    replica_up: BoolArray
    gpu_present: BoolArray
    halted: BoolArray  # per GPU: its process died
    xids: tuple[tuple[int, int], ...]  # (GPU, code) reported now
    breaking_nodes: frozenset[int]
    breaking_replicas: frozenset[int]


class FaultSchedule:
    """Which faults are active at a second: those ordered, and one after the other where `chosen`."""

    def __init__(self, cluster: Cluster, *, ordered: Iterable[Fault] = (), chosen: bool = True) -> None:
        self._cluster = cluster
        self._ordered = tuple(ordered)
        self._chosen = chosen
        gap = GAP_SECONDS / max(1.0, len(cluster.nodes) / NODES_PER_FAULT)
        self._gap = max(SHORTEST_GAP_SECONDS, gap)
        self._known: dict[int, Fault] = {}

    def active(self, second: int) -> list[Fault]:
        found = [fault for fault in self._ordered if fault.active(second)]
        if self._chosen and second >= FIRST_SECONDS:
            last = int((second - FIRST_SECONDS) / self._gap)
            first = max(0, last - int(_LONGEST_SECONDS / self._gap) - 1)
            for number in [known for known in self._known if known < first]:
                del self._known[number]
            found += [fault for fault in self._numbered(first, last) if fault.active(second)]
        return found

    def effects(self, second: int) -> Effects:
        """What the faults of this second do."""
        cluster = self._cluster
        nodes, replicas = len(cluster.nodes), len(cluster.replicas)
        cooling, slowed, lengths = np.ones(nodes), np.ones(nodes), np.ones(replicas)
        node_up, replica_up = np.ones(nodes, bool), np.ones(replicas, bool)
        stuck, present = np.zeros(replicas, bool), np.ones(cluster.gpus, bool)
        halted = np.zeros(cluster.gpus, bool)
        xids: list[tuple[int, int]] = []
        breaking_nodes, breaking_replicas = set(), set()
        for fault in self.active(second):
            if fault.kind is Kind.THROTTLE:
                cooling[fault.node] = COOLING_LOST
            elif fault.kind is Kind.SLOW:
                slowed[fault.node] = SLOWED
            elif fault.kind is Kind.KV:
                lengths[fault.replica] = LONG_REQUESTS
            elif fault.kind is Kind.STUCK:
                stuck[fault.replica] = True
            elif fault.kind is Kind.XID:
                effect = XIDS[fault.xid]
                if second == fault.start:
                    xids.append((fault.gpu, fault.xid))
                present[fault.gpu] &= not effect.gone
                if effect.crash:
                    halted[fault.gpu] = True
                    down = effect.gone or second < fault.start + CRASH_SECONDS
                    if (replica := cluster.gpu_replica[fault.gpu]) >= 0 and down:
                        replica_up[replica] = False
            elif fault.replica >= 0:
                if second >= fault.silent_from:
                    replica_up[fault.replica] = False
                else:
                    breaking_replicas.add(fault.replica)
            elif second >= fault.silent_from:
                node_up[fault.node] = False
            else:
                breaking_nodes.add(fault.node)
        if not node_up.all():
            replica_up &= np.array([bool(node_up[one.node]) for one in cluster.replicas], dtype=bool)
        return Effects(
            cooling,
            slowed,
            node_up,
            lengths,
            stuck,
            replica_up,
            present,
            halted,
            tuple(xids),
            frozenset(breaking_nodes),
            frozenset(breaking_replicas),
        )

    def _numbered(self, first: int, last: int) -> Iterator[Fault]:
        for number in range(first, last + 1):
            if number not in self._known:
                self._known[number] = self._fault(number)
            yield self._known[number]

    def _fault(self, number: int) -> Fault:
        """The schedule's fault of this number: a round has one of each kind, in an order of its own."""
        cluster = self._cluster
        kinds = [kind for kind in Kind if cluster.replicas or kind not in (Kind.KV, Kind.STUCK)]
        turn, place = divmod(number, len(kinds))
        if turn:  # the first round as listed: what shows most comes first
            order = seeded(cluster.seed, 2**36 + turn).permutation(kinds)
            kinds = [Kind(str(name)) for name in order]
        kind = kinds[place]
        random = seeded(cluster.seed, 2**37 + number)
        start = FIRST_SECONDS + int(number * self._gap)
        seconds = int(random.integers(150, _LONGEST_SECONDS))
        # A fault shows where work is done.
        working = np.flatnonzero(cluster.gpu_work >= 2)
        gpu = int(random.choice(working if len(working) else cluster.gpus))
        node = int(cluster.gpu_node[gpu])
        if kind in (Kind.KV, Kind.STUCK) or (kind is Kind.DYING and cluster.replicas and turn % 2 == 0):
            return Fault(kind, start, seconds, replica=int(random.integers(len(cluster.replicas))))
        if kind is Kind.XID:
            return Fault(kind, start, seconds, gpu=gpu, xid=int(random.choice(list(XIDS))))
        return Fault(kind, start, seconds, node=node)


_ORDER = re.compile(
    r"(?P<kind>[a-z]+)(?P<xid>\d+)?@(?P<after>[0-9a-z]+)(\+(?P<for>[0-9a-z]+))?:(?P<place>.+)"
)


def parse_faults(texts: Sequence[str], cluster: Cluster) -> list[Fault]:
    """Faults as ordered on the command line. Raises BadFault."""
    return [_parse(text, cluster) for text in texts]


def _parse(text: str, cluster: Cluster) -> Fault:
    match = _ORDER.fullmatch(text)
    if match is None:
        raise BadFault(f"{text!r} is not KIND@AFTER[+DURATION]:PLACE, such as throttle@60s+3m:node1")
    try:
        kind = Kind(match["kind"])
    except ValueError:
        raise BadFault(f"{text!r}: there is no kind {match['kind']!r}; there are {', '.join(Kind)}") from None
    try:
        start = int(parse_duration(match["after"]))
        seconds = int(parse_duration(match["for"])) if match["for"] else DEFAULT_SECONDS
    except ValueError as error:
        raise BadFault(f"{text!r}: {error}") from error
    if seconds < 1:
        raise BadFault(f"{text!r}: lasts less than a second; give a longer duration after the +")
    xid = int(match["xid"] or 79)
    if match["xid"] and kind is not Kind.XID:
        raise BadFault(f"{text!r}: only xid takes a number, such as xid48@60s:node1")
    if xid not in XIDS:
        raise BadFault(f"{text!r}: XID {xid} is not simulated; there are {', '.join(map(str, XIDS))}")
    node, gpu, replica = _place(text, match["place"], cluster)
    if kind in (Kind.KV, Kind.STUCK) and replica < 0:
        replica = next((at for at, one in enumerate(cluster.replicas) if one.node == node), -1)
        if replica < 0:
            raise BadFault(f"{text!r}: no model is served on {cluster.nodes[node].name}; name another place")
    if kind in (Kind.THROTTLE, Kind.SLOW):
        return Fault(kind, start, seconds, node=node)
    if kind is Kind.XID:
        return Fault(kind, start, seconds, gpu=gpu, xid=xid)
    if kind is Kind.DYING and replica < 0:
        return Fault(kind, start, seconds, node=node)
    return Fault(kind, start, seconds, replica=replica)


def _place(text: str, place: str, cluster: Cluster) -> tuple[int, int, int]:
    """(node, GPU, replica or -1) that a place means. Raises BadFault."""
    for number, one in enumerate(cluster.replicas):
        if one.instance == place:
            return one.node, one.gpus.start, number
    name, slash, index = place.partition("/")
    for number, node in enumerate(cluster.nodes):
        if node.name == name:
            if not slash:
                return number, node.gpus.start, -1
            if index.isascii() and index.isdigit() and int(index) < len(node.gpus):
                return number, node.gpus.start + int(index), -1
            raise BadFault(f"{text!r}: {name} has the GPUs 0 to {len(node.gpus) - 1}")
    last = cluster.nodes[-1].name
    raise BadFault(f"{text!r}: there is no {place!r}; nodes are node1 to {last}, replicas like node1:8000")
