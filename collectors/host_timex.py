"""Is this machine's clock disciplined, and how far off may it be (adjtimex).

Runs on many machines are compared by their timestamps; a node whose clock drifts makes a healthy collective
look slow and a slow one look healthy.
"""

import ctypes
import os
from collections.abc import Callable, Iterable

from collectors.host_reading import FamilyTable, Metric
from collectors.types import Family

NANOSECONDS_FLAG = 0x2000  # STA_NANO: offset and jitter are in nanoseconds, not microseconds
UNSYNCHRONISED = 5  # TIME_ERROR, the state that adjtimex returns
MICRO = 1e6
NANO = 1e9
PPM_16TH = 1e6 * 65536  # frequencies are parts per million with 16 fractional bits


class Timex(ctypes.Structure):
    """struct timex of <sys/timex.h>."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("seconds", ctypes.c_long),
        ("microseconds", ctypes.c_long),
        ("tick", ctypes.c_long),
        ("ppsfreq", ctypes.c_long),
        ("jitter", ctypes.c_long),
        ("shift", ctypes.c_int),
        ("stabil", ctypes.c_long),
        ("jitcnt", ctypes.c_long),
        ("calcnt", ctypes.c_long),
        ("errcnt", ctypes.c_long),
        ("stbcnt", ctypes.c_long),
        ("tai", ctypes.c_int),
        ("reserved", ctypes.c_int * 11),
    ]


def read_timex() -> tuple[int, Timex]:
    """(clock state, values); with modes 0 it only reads, which every user may.

    Raises OSError.
    """
    values = Timex()
    state: int = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(values))
    if state < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return state, values


class TimexSubject:
    name = "timex"

    def __init__(self, read: Callable[[], tuple[int, Timex]] = read_timex) -> None:
        self._read = read

    def families(self) -> Iterable[Family]:
        state, now = self._read()
        fraction = NANO if now.status & NANOSECONDS_FLAG else MICRO
        table = FamilyTable()
        for metric, value in (
            (_SYNC, state != UNSYNCHRONISED),
            (_OFFSET, now.offset / fraction),
            (_FREQUENCY, 1 + now.freq / PPM_16TH),
            (_MAXERROR, now.maxerror / MICRO),
            (_ESTIMATED, now.esterror / MICRO),
            (_STATUS, now.status),
            (_CONSTANT, now.constant),
            (_TICK, now.tick / MICRO),
            (_PPS_FREQUENCY, now.ppsfreq / PPM_16TH),
            (_PPS_JITTER, now.jitter / fraction),
            (_PPS_SHIFT, now.shift),
            (_PPS_STABILITY, now.stabil / PPM_16TH),
            (_PPS_JITTERS, now.jitcnt),
            (_PPS_CALIBRATIONS, now.calcnt),
            (_PPS_ERRORS, now.errcnt),
            (_PPS_EXCEEDED, now.stbcnt),
            (_TAI, now.tai),
        ):
            table.add(metric, value)
        return table.families()


def _gauge(name: str, text: str) -> Metric:
    return Metric(f"node_timex_{name}", "gauge", text)


def _counter(name: str, text: str) -> Metric:
    return Metric(f"node_timex_{name}", "counter", f"Pulse per second count of {text}.")


_SYNC = _gauge("sync_status", "Is clock synchronized to a reliable server (1 = yes, 0 = no).")
_OFFSET = _gauge("offset_seconds", "Time offset in between local system and reference clock.")
_FREQUENCY = _gauge("frequency_adjustment_ratio", "Local clock frequency adjustment.")
_MAXERROR = _gauge("maxerror_seconds", "Maximum error in seconds.")
_ESTIMATED = _gauge("estimated_error_seconds", "Estimated error in seconds.")
_STATUS = _gauge("status", "Value of the status array bits.")
_CONSTANT = _gauge("loop_time_constant", "Phase-locked loop time constant.")
_TICK = _gauge("tick_seconds", "Seconds between clock ticks.")
_PPS_FREQUENCY = _gauge("pps_frequency_hertz", "Pulse per second frequency.")
_PPS_JITTER = _gauge("pps_jitter_seconds", "Pulse per second jitter.")
_PPS_SHIFT = _gauge("pps_shift_seconds", "Pulse per second interval duration.")
_PPS_STABILITY = _gauge(
    "pps_stability_hertz", "Pulse per second stability, average of recent frequency changes."
)
_PPS_JITTERS = _counter("pps_jitter_total", "jitter limit exceeded events")
_PPS_CALIBRATIONS = _counter("pps_calibration_total", "calibration intervals")
_PPS_ERRORS = _counter("pps_error_total", "calibration errors")
_PPS_EXCEEDED = _counter("pps_stability_exceeded_total", "stability limit exceeded events")
_TAI = _gauge("tai_offset_seconds", "International Atomic Time (TAI) offset.")
