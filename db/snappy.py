"""Snappy's block format, in which remote-write messages travel. The one importer of cramjam."""

import cramjam


class NotSnappy(ValueError):
    """The bytes are not a block of snappy's."""


def compressed(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def decompressed(block: bytes) -> bytes:
    """Raises NotSnappy. The caller has looked at how large it says it is."""
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError:
        raise NotSnappy("not compressed with snappy's block format") from None
