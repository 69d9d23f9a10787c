"""Remote-write as a client sends it: protobuf whose bytes are laid out once and patched for every request.

Every request of a run has the same series and the same number of samples, and a sample always takes 18 bytes
(float64 and a six-byte varint of milliseconds, enough until the year 2109), so that NumPy scatters the values
into a fixed message. Encoding is not part of what the benchmark measures; this keeps it short.
"""

from collections.abc import Sequence

import cramjam
import numpy as np

from db.labels import Labels
from db.nan import FloatArray, IntArray

HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
# A Sample inside a TimeSeries: field 2, 16 bytes; value: field 1, 64 bit; timestamp: field 2, varint.
_SAMPLE = b"\x12\x10\x09" + b"\0" * 8 + b"\x10" + b"\0" * 6
_VALUE_AT, _TIME_AT, _TIME_BYTES = 3, 12, 6


class WriteRequest:
    """`samples` samples of each series in one message."""

    def __init__(self, series: Sequence[Labels], samples: int) -> None:
        message = bytearray()
        starts = []
        for labels in series:
            described = b"".join(
                field(1, field(1, name.encode()) + field(2, value.encode())) for name, value in labels
            )
            message += b"\x0a" + varint(len(described) + len(_SAMPLE) * samples) + described
            starts.append(len(message))
            message += _SAMPLE * samples
        at = (np.array(starts)[:, None] + len(_SAMPLE) * np.arange(samples)).ravel()
        self._message = np.frombuffer(bytes(message), dtype=np.uint8).copy()
        self._values_at = (at[:, None] + _VALUE_AT + np.arange(8)).ravel()
        self._times_at = (at[:, None] + _TIME_AT + np.arange(_TIME_BYTES)).ravel()

    def encoded(self, timestamps: IntArray, values: FloatArray) -> bytes:
        """The request's body; both arrays are [series, samples]."""
        self._message[self._values_at] = np.ascontiguousarray(values, dtype="<f8").view(np.uint8).ravel()
        shifted = timestamps.ravel()[:, None] >> (7 * np.arange(_TIME_BYTES))
        parts = (shifted & 0x7F).astype(np.uint8)
        parts[:, :-1] |= 0x80
        self._message[self._times_at] = parts.ravel()
        return bytes(cramjam.snappy.compress_raw(self._message.tobytes()))


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(content)) + content


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
