"""Simulated hosts: processors, memory, disks, networks and pressure that go with what their GPUs do."""

import numpy as np

from collectors.demo_cluster import Cluster, Work, totals
from db.nan import BoolArray, FloatArray

PROCESSORS = 32
MODES = ("idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user")
MEMORY_BYTES = 2.0 * 2**40
DISK_BYTES = 3.84e12
INFINIBAND_PORTS = 8
INFINIBAND_BYTES_PER_SECOND = 50e9  # 400 Gb/s
_UPTIME_SECONDS = (2 * 86400, 60 * 86400)
_TASK_BYTES = 24 * 2.0**30  # of a process that drives a GPU
_BASE_BYTES = 18 * 2.0**30
# What each counter rose by in a usual second before the simulation: bytes, seconds, ticks, switches.
USUAL = {
    "disk_read": 4e7,
    "disk_written": 6e6,
    "disk_busy": 0.02,
    "received": 1e5,
    "sent": 2e5,
    "fabric_received": 2e9,
    "fabric_sent": 2e9,
    "fabric_wait": 2e3,
    "cpu_waiting": 0.002,
    "io_waiting": 0.004,
    "io_stalled": 0.002,
    "memory_waiting": 1e-5,
    "memory_stalled": 5e-6,
    "switches": 2e5,
}


class Hosts:
    """The state of every node; arrays are per node, counters since its start."""

    def __init__(self, cluster: Cluster, start_seconds: float, random: np.random.Generator) -> None:
        count = len(cluster.nodes)
        self._start = start_seconds
        self._node = cluster.gpu_node
        self._gpus = totals(self._node, count)
        self._trains = totals(self._node, count, cluster.gpu_work == Work.TRAIN) > 0
        self.up = np.ones(count, dtype=bool)
        uptime = np.floor(random.uniform(*_UPTIME_SECONDS, count))
        self.boot = start_seconds - uptime
        self.processor_seconds = np.zeros((count, len(MODES)))
        self.processor_seconds[:, MODES.index("idle")] = uptime * 0.92
        self.processor_seconds[:, MODES.index("user")] = uptime * 0.07
        self.processor_seconds[:, MODES.index("system")] = uptime * 0.01
        # How the work is spread over the processors: nearly evenly, or some would be more than busy.
        self._spread = random.dirichlet(np.full(PROCESSORS, 2000.0), count) * PROCESSORS
        self.counters = {
            name: np.floor(uptime * usual * random.uniform(0.5, 1.5, count)) for name, usual in USUAL.items()
        }
        self.loads = np.zeros((count, 3))
        self.available_bytes = np.full(count, MEMORY_BYTES - _BASE_BYTES)
        self.disk_used = random.uniform(0.25, 0.8, count) * DISK_BYTES
        self.root_used = random.uniform(0.2, 0.5, count)

    def step(
        self,
        random: np.random.Generator,
        second: int,
        busy: FloatArray,
        running: BoolArray,
        tokens: FloatArray,
        fabric: FloatArray,
        checkpoint: FloatArray,
        slowed: FloatArray,
        up: BoolArray,
    ) -> None:
        """One second. busy, running: per GPU; the rest per node: tokens per second, share of the fabric in
        use, share of the second that writes a checkpoint, times the usual duration of everything."""
        fresh = up & ~self.up
        if fresh.any():
            self._restart(second, fresh)
        count = len(up)
        noise = random.normal(1.0, 0.05, count)
        works = totals(self._node, count, busy) / np.maximum(self._gpus, 1)
        tasks = totals(self._node, count, running)
        taken = np.clip(slowed - 1.0, 0.0, 1.0)  # by whatever does not belong there
        user = np.clip(0.01 + 0.15 * works * noise + 0.66 * taken, 0.0, 0.82)
        system = np.clip(0.005 + 0.03 * works + 2e-6 * tokens + 0.03 * taken, 0.0, 0.05)
        waiting = np.minimum(0.003 + 0.05 * checkpoint, 0.009)
        shares = np.zeros((count, len(MODES)))
        shares[:, MODES.index("user")] = user
        shares[:, MODES.index("system")] = system
        shares[:, MODES.index("iowait")] = waiting
        shares[:, MODES.index("softirq")] = 0.0005 + 1e-7 * tokens
        shares[:, MODES.index("idle")] = np.maximum(0.0, 1.0 - shares.sum(axis=1))
        alive = up.astype(np.float64)
        self.processor_seconds += shares * alive[:, None]
        runnable = PROCESSORS * (user + system) * (1.0 + 0.8 * taken) + waiting
        for column, seconds in enumerate((60.0, 300.0, 900.0)):
            self.loads[:, column] += (runnable - self.loads[:, column]) / seconds
        self.available_bytes = MEMORY_BYTES - _BASE_BYTES - tasks * _TASK_BYTES * (1.0 + 0.01 * noise)
        reading = np.where(self._trains, 2.2e8 * works, 2e4) * noise
        writing = 4e5 * noise + 3.5e9 * checkpoint
        moved = {
            "disk_read": np.floor(reading),
            "disk_written": np.floor(writing),
            "disk_busy": np.minimum(1.0, (reading + writing) / 5e9),
            "received": np.floor(6e4 * noise + 9.0 * tokens),
            "sent": np.floor(1.5e5 * noise + 14.0 * tokens),
            "fabric_received": np.floor(fabric * INFINIBAND_BYTES_PER_SECOND * noise),
            "fabric_sent": np.floor(fabric * INFINIBAND_BYTES_PER_SECOND * noise),
            "fabric_wait": np.floor(fabric * 4e4 * slowed**2),
            "cpu_waiting": np.clip(0.002 * works + 0.62 * taken, 0.0, 1.0),
            "io_waiting": np.clip(0.001 + 0.3 * checkpoint, 0.0, 1.0),
            "io_stalled": np.clip(0.0004 + 0.12 * checkpoint, 0.0, 1.0),
            "memory_waiting": np.full(count, 1e-5),
            "memory_stalled": np.full(count, 5e-6),
            "switches": np.floor(4e4 + 3e5 * works + 6e5 * taken),
        }
        for name, amount in moved.items():
            self.counters[name] += np.maximum(0.0, amount) * alive
        self.disk_used = np.minimum(self.disk_used + 0.002 * writing * alive, 0.93 * DISK_BYTES)
        self.up = up.copy()

    def of_processors(self, node: int) -> FloatArray:
        """Seconds in each mode, PROCESSORS x MODES."""
        seconds: FloatArray = self._spread[node][:, None] * self.processor_seconds[node]
        seconds[:, 0] = self.processor_seconds[node].sum() - seconds[:, 1:].sum(axis=1)
        return seconds

    def _restart(self, second: int, fresh: BoolArray) -> None:
        self.boot[fresh] = self._start + second
        self.processor_seconds[fresh] = 0.0
        self.loads[fresh] = 0.0
        for values in self.counters.values():
            values[fresh] = 0.0
