"""Simulated GPUs: from what they work on to power, from power to heat, from heat to the clock and back.

Power is the idle draw and what the memory interface and the tensor cores add, up to the board's limit.
Temperature follows power with the delay of a heat sink. Above its limit the GPU lowers its clock, which the
work on it feels in the next second.
"""

import numpy as np

from collectors.demo_cluster import Cluster, Work
from collectors.demo_faults import XIDS, Effects
from db.nan import BoolArray, FloatArray, IntArray

_AIR_CELSIUS = 26.0
_KELVIN_PER_WATT = 0.058  # 700 W settle at 67 degrees
_HEAT_SINK_SECONDS = 22.0
_MEMORY_WARMER_CELSIUS = 9.0
THROTTLE_CELSIUS = 87.0
_HARD_THROTTLE_CELSIUS = 91.0
_RELEASE_CELSIUS = 83.0
_CLOCK_DOWN, _CLOCK_UP, _LOWEST_CLOCK = 0.03, 0.012, 0.3
# Of CLOCKS_EVENT_REASONS, dcgm_fields.h.
REASON_IDLE, REASON_POWER_CAP, REASON_THERMAL, REASON_HARD_THERMAL = 0x1, 0x4, 0x20, 0x40
_NVLINK_BYTES_PER_SECOND = 150e9  # of a training step at full pace
_NANOSECONDS = 1e9


class Gpus:
    """The state of every GPU; arrays are per GPU. energy_joules and the like count since the driver began."""

    def __init__(self, cluster: Cluster, random: np.random.Generator) -> None:
        count = cluster.gpus
        self._cluster = cluster
        self._idle_watts = cluster.per_gpu("idle_watts")
        self._tdp_watts = cluster.per_gpu("tdp_watts")
        self._full_clock = cluster.per_gpu("max_clock_mhz")
        self._idle_clock = cluster.per_gpu("idle_clock_mhz")
        self.memory_clock_mhz = cluster.per_gpu("memory_clock_mhz")
        self.reserved_mib = cluster.per_gpu("reserved_mib")
        self._memory_mib = cluster.per_gpu("memory_mib") - self.reserved_mib
        # No two boards are alike: neither in what they draw nor in the air that reaches them.
        self._draw = random.normal(1.0, 0.015, count)
        self._air = _AIR_CELSIUS + random.normal(0.0, 1.5, count)
        self.node = cluster.gpu_node
        self.present = np.ones(count, dtype=bool)
        self.clock_share = np.ones(count)
        self.celsius = self._air + self._idle_watts * _KELVIN_PER_WATT
        self.watts = self._idle_watts.copy()
        self.energy_joules = np.floor(random.uniform(1e9, 6e9, count))
        self.busy, self.tensor, self.memory = np.zeros(count), np.zeros(count), np.zeros(count)
        self.sm = np.zeros(count)
        self.clock_mhz = self._idle_clock.copy()
        self.nvlink_bytes = np.zeros(count)
        self.pcie_sent, self.pcie_received = np.zeros(count), np.zeros(count)
        self.reasons = np.zeros(count)
        self.xid = np.zeros(count)
        self.corrected = np.floor(random.gamma(0.3, 4.0, count))
        self.double_bit = np.zeros(count)
        self.remapped = np.zeros(count)
        self.remap_pending = np.zeros(count)
        self.nvlink_errors = np.zeros(count)
        self.pcie_replays = np.floor(random.gamma(0.4, 3.0, count))
        self.power_violation_ns = np.floor(random.uniform(0, 5e12, count))
        self.thermal_violation_ns = np.zeros(count)
        held = cluster.gpu_work == Work.HELD
        fixed = np.where(held, random.uniform(0.15, 0.6, count), 0.0)
        fixed = np.where(cluster.gpu_work == Work.TRAIN, random.uniform(0.82, 0.94, count), fixed)
        self._memory_share = np.where(cluster.gpu_work == Work.SERVE, 0.905, fixed)
        self.used_mib = np.zeros(count)

    @property
    def free_mib(self) -> FloatArray:
        return self._memory_mib - self.used_mib

    def step(
        self,
        random: np.random.Generator,
        busy: FloatArray,
        tensor: FloatArray,
        memory: FloatArray,
        nvlink: FloatArray,
        running: BoolArray,
        effects: Effects,
    ) -> None:
        """One second. busy, tensor, memory, nvlink: shares of the time, 0..1. running: has a process."""
        count = len(busy)
        noise = random.normal(1.0, 0.02, count)
        self.present = effects.gpu_present & effects.node_up[self.node]
        on = np.where(self.present, 1.0, 0.0)
        self.busy = np.clip(busy * on, 0.0, 1.0)
        self.tensor = np.clip(tensor * on * noise, 0.0, 1.0)
        self.memory = np.clip(memory * on * noise, 0.0, 1.0)
        self.sm = np.clip(self.busy * (0.2 + 0.55 * self.memory + 0.6 * self.tensor), 0.0, 1.0)
        self._draw_power(noise)
        self._warm(effects.cooling[self.node])
        self.nvlink_bytes = nvlink * on * _NVLINK_BYTES_PER_SECOND * noise
        self.pcie_sent = on * (2e5 + 4e8 * self.tensor * noise)
        self.pcie_received = on * (3e5 + 9e8 * self.tensor * noise)
        self.used_mib = np.floor(self._memory_share * self._memory_mib * (running & self.present))
        self.corrected += random.random(count) < 2e-6
        for gpu, code in effects.xids:
            self._report(gpu, code)
        returned = np.flatnonzero(~self.present & (self.xid > 0))
        self.xid[returned] = 0.0  # the driver that finds it again has seen nothing yet

    def _draw_power(self, noise: FloatArray) -> None:
        work = 0.1 * self.busy + 0.5 * self.memory + 0.85 * self.tensor
        wanted = self._idle_watts + (self._tdp_watts - self._idle_watts) * work * self._draw * noise
        wanted *= 0.15 + 0.85 * self.clock_share**2
        capped = wanted > self._tdp_watts
        self.watts = np.where(capped, self._tdp_watts, np.maximum(wanted, self._idle_watts * 0.9))
        self.watts *= self.present
        self.energy_joules += self.watts
        share = np.where(capped, np.sqrt(self._tdp_watts / np.maximum(wanted, 1.0)), 1.0) * self.clock_share
        idle = self.busy < 0.01
        self.clock_mhz = np.where(idle, self._idle_clock, np.rint(self._full_clock * share / 15) * 15)
        self.power_violation_ns += capped * _NANOSECONDS
        self._capped, self._is_idle = capped, idle

    def _warm(self, cooling: FloatArray) -> None:
        settled = self._air + self.watts * _KELVIN_PER_WATT * cooling
        self.celsius += (settled - self.celsius) / _HEAT_SINK_SECONDS
        hot = self.celsius > THROTTLE_CELSIUS
        cool = self.celsius < _RELEASE_CELSIUS
        down = _CLOCK_DOWN * (1.0 + self.celsius - THROTTLE_CELSIUS)  # the hotter, the faster
        change = np.where(hot, -down, np.where(cool, _CLOCK_UP, 0.0))
        self.clock_share = np.clip(self.clock_share + change, _LOWEST_CLOCK, 1.0)
        slowed = self.clock_share < 1.0
        self.thermal_violation_ns += slowed * _NANOSECONDS * (1.0 - self.clock_share)
        reasons: IntArray = np.where(self._is_idle, REASON_IDLE, 0)
        reasons |= np.where(self._capped, REASON_POWER_CAP, 0)
        reasons |= np.where(slowed, REASON_THERMAL, 0)
        reasons |= np.where(self.celsius > _HARD_THROTTLE_CELSIUS, REASON_HARD_THERMAL, 0)
        self.reasons = reasons.astype(np.float64)

    @property
    def memory_celsius(self) -> FloatArray:
        return self.celsius + _MEMORY_WARMER_CELSIUS * (0.4 + self.memory)

    def restart(self, gpus: BoolArray) -> None:
        """Their node was started again: what the driver counts begins at zero; remapped rows are for ever."""
        for values in (
            self.energy_joules,
            self.xid,
            self.corrected,
            self.double_bit,
            self.remap_pending,
            self.nvlink_errors,
            self.pcie_replays,
            self.power_violation_ns,
            self.thermal_violation_ns,
        ):
            values[gpus] = 0.0

    def _report(self, gpu: int, code: int) -> None:
        effect = XIDS[code]
        self.xid[gpu] = code
        self.double_bit[gpu] += effect.double_bit
        self.remapped[gpu] += effect.remapped
        self.remap_pending[gpu] = max(self.remap_pending[gpu], float(effect.remapped > 0))
        self.nvlink_errors[gpu] += effect.nvlink_errors
