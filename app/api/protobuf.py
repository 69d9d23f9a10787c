"""The protobuf wire format, as much of it as one message needs: no schema, no code generation.

Hostile bytes: every length is checked against what is there, nothing is copied more than once a level, and
the work is linear in the bytes.
"""

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_VARINT_BYTES = 10
_NUMBERS = (1 << 29) - 1
_UINT64 = 1 << 64
_INT64_SIGN = 1 << 63


class BadMessage(ValueError):
    """Not the wire format; one clause says where it fails."""


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """An unsigned 64-bit number at `at`, and where it ends. Raises BadMessage."""
    if at < end and data[at] < 128:
        return data[at], at + 1
    if at + 1 < end and data[at + 1] < 128:
        return data[at] & 127 | data[at + 1] << 7, at + 2
    value = shift = 0
    for place in range(at, min(end, at + _VARINT_BYTES)):
        byte = data[place]
        value |= (byte & 127) << shift
        if byte < 128:
            if value >= _UINT64:
                break
            return value, place + 1
        shift += 7
    else:
        if end < at + _VARINT_BYTES:
            raise BadMessage("it ends within a number")
    raise BadMessage("a number has more than 64 bits")


def int64(value: int) -> int:
    """The signed number that a varint stands for."""
    return value - _UINT64 if value >= _INT64_SIGN else value


def fields(data: bytes, at: int = 0) -> Iterator[tuple[int, int, int, bytes, int]]:
    """Every field from `at` on: its number, wire type, value as a number (VARINT) or as bytes (all others),
    and where it ends. Raises BadMessage.
    """
    end = len(data)
    while at < end:
        tag, at = varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        if not 0 < number <= _NUMBERS:
            raise BadMessage(f"a field has the number {number}")
        if kind == VARINT:
            value, at = varint(data, at, end)
            yield number, kind, value, b"", at
            continue
        if kind == BYTES:
            size, at = varint(data, at, end)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise BadMessage(f"field {number} has the wire type {kind}, which is not used")
        if at + size > end:
            raise BadMessage(f"it ends within field {number}")
        yield number, kind, 0, data[at : at + size], at + size
        at += size


def expect(kind: int, wanted: int) -> None:
    """Raises BadMessage when a known field does not have its wire type."""
    if kind != wanted:
        raise BadMessage(f"a field has the wire type {kind} instead of {wanted}")


def text_of(data: bytes, what: str) -> str:
    """A string field. Raises BadMessage."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadMessage(f"{what} is not UTF-8 text") from None
