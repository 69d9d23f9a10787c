"""Remote-write requests as bytes, in every spelling that protobuf allows, and Google's reading of them."""

import struct
from collections.abc import Iterable, Mapping, Sequence

import cramjam
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

Sample = tuple[float | None, int | None]

HEADERS = {
    "content-type": "application/x-protobuf",
    "content-encoding": "snappy",
    "x-prometheus-remote-write-version": "0.1.0",
}


def varint(value: int) -> bytes:
    value %= 1 << 64
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def chunk(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def label(name: str | bytes | None, value: str | bytes | None) -> bytes:
    def text(number: int, part: str | bytes | None) -> bytes:
        if part is None:
            return b""
        return chunk(number, part.encode() if isinstance(part, str) else part)

    return chunk(1, text(1, name) + text(2, value))


def sample(value: float | None, at_ms: int | None, *, time_first: bool = False) -> bytes:
    """None leaves a field out."""
    first = b"" if value is None else b"\x09" + struct.pack("<d", value)
    second = b"" if at_ms is None else b"\x10" + varint(at_ms)
    return chunk(2, second + first if time_first else first + second)


def series(labels: Mapping[str, str] | Iterable[tuple[str, str]], samples: Sequence[Sample]) -> bytes:
    """One usual TimeSeries, as Prometheus writes it."""
    pairs = sorted(labels.items()) if isinstance(labels, Mapping) else labels
    body = b"".join(label(name, value) for name, value in pairs)
    return chunk(1, body + b"".join(sample(value, at_ms) for value, at_ms in samples))


def compressed(message: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(message))


class Template:
    """The same series with new samples at each `fill`; a client that costs little, for benchmarks."""

    def __init__(self, labels: Sequence[Mapping[str, str]], samples: int) -> None:
        blank = b"\x12\x10\x09" + bytes(8) + b"\x10" + bytes(6)
        out = bytearray()
        starts = []
        for pairs in labels:
            front = b"".join(label(name, value) for name, value in sorted(pairs.items()))
            out += b"\x0a" + varint(len(front) + len(blank) * samples) + front
            starts.append(len(out))
            out += blank * samples
        self._bytes = np.frombuffer(bytes(out), dtype=np.uint8).copy()
        at = (np.array(starts)[:, None] + len(blank) * np.arange(samples)).ravel()
        self._values = (at[:, None] + 3 + np.arange(8)).ravel()
        self._times = (at[:, None] + 12 + np.arange(6)).ravel()

    def fill(self, timestamps: np.ndarray, values: np.ndarray) -> bytes:
        """A compressed request; both arrays are [series, samples]."""
        self._bytes[self._values] = np.ascontiguousarray(values, dtype="<f8").view(np.uint8).ravel()
        shifted = timestamps.ravel().astype(np.uint64)[:, None] >> (7 * np.arange(6, dtype=np.uint64))
        digits = (shifted & np.uint64(127)).astype(np.uint8)
        digits[:, :5] |= 128
        self._bytes[self._times] = digits.ravel()
        return compressed(self._bytes.tobytes())


def _write_request() -> type:
    """prometheus.WriteRequest as Google's library reads it."""
    file = descriptor_pb2.FileDescriptorProto(name="remote.proto", package="t", syntax="proto3")

    def message(name: str, *fields: tuple[str, int, int, str]) -> None:
        made = file.message_type.add(name=name)
        for field, number, kind, of in fields:
            one = made.field.add(name=field, number=number, type=kind, label=3 if of.startswith("*") else 1)
            if kind == 11:
                one.type_name = ".t." + of.lstrip("*")

    double, int64, int32, string, nested = 1, 3, 5, 9, 11
    message("Label", ("name", 1, string, ""), ("value", 2, string, ""))
    message("Sample", ("value", 1, double, ""), ("timestamp", 2, int64, ""))
    message("Histogram", ("sum", 3, double, ""))
    texts = [("name", 2, string, ""), ("help", 4, string, ""), ("unit", 5, string, "")]
    message("Metadata", ("type", 1, int32, ""), *texts)
    parts = [("labels", 1, nested, "*Label"), ("samples", 2, nested, "*Sample")]
    message("Series", *parts, ("hist", 4, nested, "*Histogram"))
    message("Request", ("series", 1, nested, "*Series"), ("metadata", 3, nested, "*Metadata"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Request"))


_REQUEST = _write_request()


def oracle(message: bytes):
    """(samples, metadata, histograms) in the message's order, or None where it is malformed."""
    try:
        request = _REQUEST.FromString(message)
    except DecodeError:
        return None
    samples = [
        ([(pair.name, pair.value) for pair in one.labels], item.timestamp, struct.pack("<d", item.value))
        for one in request.series
        for item in one.samples
    ]
    metadata = [(item.name, item.type, item.help, item.unit) for item in request.metadata]
    return samples, metadata, sum(len(one.hist) for one in request.series)
