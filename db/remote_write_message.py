"""Remote-write 1.0 as it is sent: the protobuf message prometheus.WriteRequest, from columns to bytes.

Its counterpart is `app.api.write_request`. Nearly all samples take 18 bytes and are laid out by NumPy; the
labels of a series are made into bytes once, when it is first met.
"""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from db.labels import Labels
from db.nan import FloatArray, IntArray

# A Sample inside a TimeSeries: field 2, 16 bytes; value: field 1, 64 bits; timestamp: field 2, varint.
_SAMPLE = np.dtype([("head", "u1", 3), ("value", "<f8"), ("tag", "u1"), ("time", "u1", 6)])
_HEAD, _TIME_TAG = (0x12, 0x10, 0x09), 0x10
# From 1971 to 2109 a timestamp is a varint of six bytes.
_SIX_BYTES_FIRST, _SIX_BYTES_END = 1 << 35, 1 << 42
_UINT64 = (1 << 64) - 1


def label_bytes(labels: Labels) -> bytes:
    """The labels of a TimeSeries, in their order. Raises UnicodeEncodeError."""
    return b"".join([_label(name, value) for name, value in labels])


@lru_cache(maxsize=65_536)
def _label(name: str, value: str) -> bytes:
    return _field(0x0A, _field(0x0A, name.encode()) + _field(0x12, value.encode()))


def write_request(
    labels: Mapping[int, bytes], ids: IntArray, timestamps: IntArray, values: FloatArray
) -> bytes:
    """The message, uncompressed. labels: of each id as `label_bytes` gives them. ids, timestamps (ms UTC),
    values: parallel columns; the samples of one series keep their order."""
    if not len(ids):
        return b""
    order = np.argsort(ids, kind="stable")
    ids, timestamps, values = ids[order], timestamps[order], values[order]
    starts = np.flatnonzero(np.diff(ids, prepend=ids[0] - 1))
    ends = np.append(starts[1:], len(ids))
    runs = zip(ids[starts].tolist(), starts.tolist(), ends.tolist(), strict=True)
    usual = (timestamps >= _SIX_BYTES_FIRST) & (timestamps < _SIX_BYTES_END)
    if not usual.all():
        each = [_sample(*pair) for pair in zip(timestamps.tolist(), values, strict=True)]
        return b"".join(_series(labels[one], b"".join(each[start:end])) for one, start, end in runs)
    samples = _laid_out(timestamps, values)
    size = _SAMPLE.itemsize
    return b"".join([_series(labels[one], samples[start * size : end * size]) for one, start, end in runs])


def _laid_out(timestamps: IntArray, values: FloatArray) -> bytes:
    samples = np.empty(len(values), dtype=_SAMPLE)
    samples["head"], samples["tag"], samples["value"] = _HEAD, _TIME_TAG, values
    for place in range(6):
        more = 128 if place < 5 else 0
        samples["time"][:, place] = (timestamps >> (7 * place)) & 127 | more
    return samples.tobytes()


def _sample(timestamp: int, value: np.float64) -> bytes:
    return _field(
        0x12, b"\x09" + np.asarray(value, dtype="<f8").tobytes() + b"\x10" + _varint(timestamp & _UINT64)
    )


def _series(labels: bytes, samples: bytes) -> bytes:
    return b"\x0a" + _varint(len(labels) + len(samples)) + labels + samples


def _field(tag: int, data: bytes) -> bytes:
    return bytes((tag,)) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    if value < 128:
        return bytes((value,))
    if value < 16_384:
        return bytes((value & 127 | 128, value >> 7))
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)
