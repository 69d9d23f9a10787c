"""The simulated cluster as a whole: one load moves everything that its exporters show.

A second goes in one direction: faults, arrivals, what the servers make of them at the clocks their GPUs have,
what that and the training jobs ask of the GPUs, power, heat, clocks, hosts. Each second draws from a random
generator of its own, so the state after second t follows from seed, start and t, whoever asked when.
"""

from dataclasses import dataclass

import numpy as np

from collectors.demo_cluster import SERVED, Cluster, Work, seeded, totals
from collectors.demo_faults import Effects, FaultSchedule
from collectors.demo_gpus import Gpus
from collectors.demo_hosts import Hosts
from collectors.demo_serving import Serving
from db.nan import BoolArray, FloatArray

WARM_UP_SECONDS = 150  # before the start: queues are filled and heat sinks warm
# A machine that slept has more to make up for than one page may wait for.
LONGEST_STEP_SECONDS = 300
_CHECKPOINT_EVERY_SECONDS = 420
_CHECKPOINT_SECONDS = 25
_BURST_WINDOW_SECONDS = 90
_BURST_SHARE = 0.12
_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True, eq=False)
class _Training:
    """What the training jobs do in one second; per job."""

    tensor: FloatArray
    memory: FloatArray
    fabric: FloatArray
    writing: BoolArray
    alive: BoolArray


class Simulation:
    """Call `advance` with the wall clock before reading. start_seconds: Unix time of second 0."""

    def __init__(self, cluster: Cluster, start_seconds: float, faults: FaultSchedule) -> None:
        self.cluster = cluster
        self.start_seconds = start_seconds
        self.second = -WARM_UP_SECONDS
        """Seconds before this one are done."""
        self._faults = faults
        random = self._random(2**34)
        self.serving = Serving(cluster, start_seconds, self.second)
        self.gpus = Gpus(cluster, random)
        self.hosts = Hosts(cluster, start_seconds, random)
        self._phases = random.uniform(0, 2 * np.pi, (len(SERVED), 3))
        self._pace = random.uniform(0.9, 1.08, max(1, cluster.jobs))
        self._model = np.array([one.model for one in cluster.replicas], dtype=np.int64)
        self._usual = cluster.per_replica("requests_per_second")
        self._serves = np.flatnonzero(cluster.gpu_replica >= 0)
        self._replica = cluster.gpu_replica[self._serves]
        self._trains = np.flatnonzero(cluster.gpu_job >= 0)
        self._job = cluster.gpu_job[self._trains]
        self._tensor_parallel = cluster.per_replica("tensor_parallel")
        self._replica_node = np.array([one.node for one in cluster.replicas], dtype=np.int64)
        self.effects: Effects = faults.effects(self.second)
        while self.second < 0:
            self._step()

    def advance(self, now_seconds: float) -> None:
        """Simulate every whole second up to now, a part of them when there are very many."""
        wanted = int(now_seconds - self.start_seconds)
        for _ in range(min(wanted - self.second, LONGEST_STEP_SECONDS)):
            self._step()

    def _random(self, number: int) -> np.random.Generator:
        return seeded(self.cluster.seed, number)

    def _step(self) -> None:
        second, cluster = self.second, self.cluster
        random = self._random(second)
        was_up = self.effects.node_up
        self.effects = effects = self._faults.effects(second)
        back = effects.node_up & ~was_up
        if back.any():
            self.gpus.restart(back[cluster.gpu_node])
        clock = np.minimum.reduceat(self.gpus.clock_share[self._serves], self._first_of_replicas())
        speed = clock / effects.slowed[self._replica_node]
        self.serving.step(random, second, self._arrivals(second), speed, effects)
        training = self._train(random, second)
        self._load_gpus(random, training)
        self._load_hosts(random, training)
        self.second += 1

    def _first_of_replicas(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.searchsorted(self._replica, np.arange(len(self._model)))

    def _arrivals(self, second: int) -> FloatArray:
        """Requests per second for each replica: its model's traffic, shared by those that are up."""
        at = self.start_seconds + second
        day = 1.0 + 0.35 * np.sin(2 * np.pi * (at % _DAY_SECONDS / _DAY_SECONDS - 0.375))
        waves = np.sin(2 * np.pi * at / np.array([1_740.0, 310.0, 67.0]) + self._phases)
        per_model = day * (1.0 + waves @ np.array([0.18, 0.1, 0.06]))
        window = self._random(2**35 + int(at) // _BURST_WINDOW_SECONDS)
        per_model = per_model * np.where(window.random(len(SERVED)) < _BURST_SHARE, 1.35, 1.0)
        asked = totals(self._model, len(SERVED), self._usual) * per_model
        up = self.effects.replica_up
        share = totals(self._model, len(SERVED), self._usual * up)
        arrivals: FloatArray = asked[self._model] * self._usual * up / np.maximum(share, 1e-9)[self._model]
        return arrivals

    def _train(self, random: np.random.Generator, second: int) -> _Training:
        """Training is in step: the slowest GPU of a job sets its pace, a lost one ends it."""
        jobs, effects = max(1, self.cluster.jobs), self.effects
        node = self.cluster.gpu_node[self._trains]
        lost = effects.halted[self._trains] | ~effects.gpu_present[self._trains] | ~effects.node_up[node]
        alive = totals(self._job, jobs, lost) == 0
        pace = np.ones(jobs)
        np.minimum.at(pace, self._job, self.gpus.clock_share[self._trains] / effects.slowed[node])
        offset = np.arange(jobs) * 97
        writing = (int(self.start_seconds) + second + offset) % _CHECKPOINT_EVERY_SECONDS
        writes = writing < _CHECKPOINT_SECONDS
        works = alive & ~writes
        noise = random.normal(1.0, 0.015, jobs)
        return _Training(
            tensor=0.56 * pace * self._pace[:jobs] * works * noise,
            memory=0.42 * pace * self._pace[:jobs] * works * noise,
            fabric=0.35 * pace * works,
            writing=writes & alive,
            alive=alive,
        )

    def _load_gpus(self, random: np.random.Generator, training: _Training) -> None:
        count, load = self.cluster.gpus, self.serving.load
        busy, tensor, memory, nvlink = (np.zeros(count) for _ in range(4))
        running = self.cluster.gpu_work == Work.HELD
        serves, trains = self._serves, self._trains
        busy[serves] = load.busy[self._replica]
        tensor[serves] = load.tensor[self._replica]
        memory[serves] = load.memory[self._replica]
        several = np.where(self._tensor_parallel > 1, 0.25 + 0.05 * self._tensor_parallel, 0.0)
        nvlink[serves] = (several * (load.memory + load.tensor))[self._replica]
        running[serves] = self.effects.replica_up[self._replica]
        # The share of cycles, of fewer cycles: a GPU whose clock is low stays as busy as the others are.
        clock = self.gpus.clock_share[trains]
        busy[trains] = np.where(training.writing, 0.12, 0.99)[self._job] * training.alive[self._job]
        tensor[trains] = training.tensor[self._job] / clock
        memory[trains] = training.memory[self._job]
        nvlink[trains] = training.fabric[self._job] / 0.35
        running[trains] = training.alive[self._job]
        self.gpus.step(random, busy, tensor, memory, nvlink, running, self.effects)
        self._running = running

    def _load_hosts(self, random: np.random.Generator, training: _Training) -> None:
        nodes = len(self.cluster.nodes)
        tokens = totals(self._replica_node, nodes, self.serving.load.tokens_per_second)
        of_trains = self.cluster.gpu_node[self._trains]
        size = np.maximum(1, totals(self.cluster.gpu_node, nodes))
        fabric = totals(of_trains, nodes, training.fabric[self._job]) / size
        writing = totals(of_trains, nodes, training.writing[self._job]) / size
        self.hosts.step(
            random,
            self.second,
            self.gpus.busy,
            self._running,
            tokens,
            fabric,
            writing,
            self.effects.slowed,
            self.effects.node_up,
        )
