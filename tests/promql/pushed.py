"""Samples into a real Prometheus, by remote-write, which keeps staleness markers bit for bit."""

import struct
import urllib.request
from collections.abc import Sequence

import cramjam
import numpy as np

from tests.bench.store_wire import HEADERS, field, varint
from tests.promql.samples import Samples

# A head takes samples up to an hour older than its newest; in requests of this span, in order of time,
# nothing is refused.
_SPAN_MS = 600_000


def push(url: str, series: Sequence[Samples]) -> None:
    """Returns when all is acknowledged."""
    first = min(int(one.timestamps[0]) for one in series)
    last = max(int(one.timestamps[-1]) for one in series)
    for start in range(first, last + 1, _SPAN_MS):
        body = b"".join(_time_series(one, start, start + _SPAN_MS) for one in series)
        packed = bytes(cramjam.snappy.compress_raw(body))
        request = urllib.request.Request(f"{url}/api/v1/write", packed, HEADERS)
        with urllib.request.urlopen(request, timeout=60):
            pass


def _time_series(one: Samples, start_ms: int, end_ms: int) -> bytes:
    """The samples in [start_ms, end_ms); nothing where there are none."""
    begin, end = np.searchsorted(one.timestamps, (start_ms, end_ms))
    if begin == end:
        return b""
    content = b"".join(
        field(1, field(1, name.encode()) + field(2, value.encode())) for name, value in one.labels
    )
    bits = one.values[begin:end].view(np.uint64).tolist()
    for time, value in zip(one.timestamps[begin:end].tolist(), bits, strict=True):
        content += field(2, b"\x09" + struct.pack("<Q", value) + b"\x10" + varint(time))
    return field(1, content)
