"""How Go writes texts and numbers, for messages that have to be Prometheus's to the letter."""

import math
import re

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def quoted(text: str) -> str:
    """Go's %q: in double quotes, what cannot be printed as an escape. Bytes that are not UTF-8 are those of
    Python's "surrogateescape"."""
    return f'"{"".join(map(_escaped, text))}"'


def label_name(name: str) -> str:
    """As it is where it is a word, else quoted."""
    return name if _WORD.fullmatch(name) else quoted(name)


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def general(value: float) -> str:
    """Go's %g: as few digits as tell the number from every other, an exponent from 1e+06 and below 1e-04."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(float(value)).removesuffix(".0")
    if "e" in text or abs(value) < 1e6:
        return text
    digits = len(text.lstrip("-").replace(".", "").rstrip("0"))
    return f"{value:.{digits - 1}e}"
