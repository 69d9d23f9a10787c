"""PromQL text as tokens that know where they stand, read as Prometheus 3 reads it.

The parser's own lexer differs from Prometheus's in details (underscores in numbers, escapes, keywords as
names), and its tree has no positions. So we read the text ourselves, refuse here what has no meaning, and
hand the parser only what it understands (`db.promql.canonical`).
"""

import math
import re
from enum import Enum
from typing import NamedTuple, NoReturn

from db.promql.errors import BadQuery
from db.promql.names import AGGREGATIONS, KEYWORDS, OPERATORS
from db.promql.wording import quoted

# Longest in real use are the regular expressions of dashboards that list every instance.
MAX_CHARACTERS = 128 * 1024
# Prometheus counts durations in int64 nanoseconds.
_MAX_DURATION_MS = (2**63 - 1) // 1_000_000
_LARGEST_INTEGER = 2**63 - 1


class Kind(Enum):
    NUMBER = "number"
    DURATION = "duration"
    STRING = "string"
    WORD = "identifier"
    SYMBOL = "symbol"
    END = "end of input"


class Token(NamedTuple):
    """text: as written. start: its first character's index. number: a number's value, or a duration in
    seconds. string: a string's value; bytes that are not UTF-8, which escapes may give, as lone surrogates
    (Python's "surrogateescape")."""

    kind: Kind
    text: str
    start: int
    number: float = 0.0
    string: str = ""


def place(text: str, start: int) -> str:
    """Line and column as Prometheus gives them: from 1, the column in bytes of UTF-8."""
    line_start = text.rfind("\n", 0, start) + 1
    column = len(text[line_start:start].encode(errors="surrogatepass")) + 1
    return f"{text.count(chr(10), 0, start) + 1}:{column}"


def parse_error(text: str, start: int, message: str) -> BadQuery:
    return BadQuery(f"{place(text, start)}: parse error: {message}")


def not_supported(text: str, start: int, what: str, mend: str) -> BadQuery:
    return BadQuery(f"not supported: {what} at {place(text, start)}: {mend}")


def is_unicode(text: str) -> bool:
    """False for a token's string that holds bytes which are not UTF-8."""
    return _SURROGATES.search(text) is None


def described(token: Token) -> str:
    """As Prometheus's messages name what they did not expect."""
    word = token.text.lower()
    shown = quoted(token.text if len(token.text) <= 10 else token.text[:10])
    shown += "..." if len(token.text) > 10 else ""
    if token.kind is Kind.END:
        return "end of input"
    if token.kind is Kind.WORD:
        if word in KEYWORDS:
            return f"<{token.text}>"
        if word in AGGREGATIONS:
            return f"<aggr:{token.text}>"
        if word not in OPERATORS:
            kind = "metric identifier" if ":" in word else "identifier"
            return f"{kind} {quoted(token.text)}"
    if word in OPERATORS or word in ("=~", "!~", "@"):
        return f"<op:{token.text}>"
    return shown if token.kind is Kind.SYMBOL else f"{token.kind.value} {shown}"


class Cursor:
    """Walks over the tokens of a text. Raises BadQuery where the text is refused."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = scan(text)
        self.at = 0

    @property
    def now(self) -> Token:
        return self.tokens[self.at]

    @property
    def word(self) -> str:
        """The token in lower case: keywords are the same in either."""
        return self.tokens[self.at].text.lower()

    @property
    def after(self) -> Token:
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    def take(self) -> Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def fail(self, token: Token, message: str) -> NoReturn:
        raise parse_error(self.text, token.start, message)

    def unexpected(self, where: str = "", expected: str = "") -> NoReturn:
        if self.now.kind is Kind.END and self._unclosed():
            self.fail(self.now, "unclosed left parenthesis")
        message = f"unexpected {described(self.now)}" + (f" in {where}" if where else "")
        self.fail(self.now, message + (f", expected {expected}" if expected else ""))

    def refuse(self, what: str, mend: str = "it is experimental in Prometheus 3") -> NoReturn:
        raise not_supported(self.text, self.now.start, what, mend)

    def _unclosed(self) -> bool:
        texts = [token.text for token in self.tokens]
        return texts.count("(") > texts.count(")")


_SPACE = r"(?P<space>[ \t\n\r]+|\#[^\n\r]*)"
_STRING = r"""(?P<string>"(?:[^"\\\n]|\\[^\n])*+"|'(?:[^'\\\n]|\\[^\n])*+'|`[^`]*+`)"""
_NUMBER = r"(?P<number>\.?[0-9](?:[eE][+-]|[0-9A-Za-z_.])*+)"

# What follows differs inside {} and [], as in Prometheus.
_OUTSIDE = re.compile(
    rf"{_SPACE}|{_STRING}|{_NUMBER}|(?P<word>[A-Za-z_:][A-Za-z0-9_:]*)|(?P<symbol>[=!<>]=|[-+*/%^<>=(),{{}}\[\]@])"
)
_IN_BRACES = re.compile(rf"{_SPACE}|{_STRING}|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<symbol>[=!]~|!=|[=,}}])")
_IN_BRACKETS = re.compile(rf"{_SPACE}|{_NUMBER}|(?P<word>[A-Za-z_]+)|(?P<symbol>[-+*/%^(),:\]])")

_DIGITS = "[0-9]+(?:_[0-9]+)*"
_DECIMAL = re.compile(rf"(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_HEXADECIMAL = re.compile(r"0[xX]_?[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*")
_OCTAL = re.compile("0[0-7_]+")
# A hexadecimal number or one without an exponent ends before a sign: `0xe+1`, `3e` is no number anyway.
_SIGN_AFTER_HEX = re.compile(r"0[xX][0-9a-fA-F_]*(?=[+-])")
# In this order, as in Go's model.ParseDuration; in milliseconds.
_UNITS = (31_536_000_000, 604_800_000, 86_400_000, 3_600_000, 60_000, 1_000, 1)
_DURATION = re.compile("".join(f"(?:([0-9]+){unit})?" for unit in ("y", "w", "d", "h", "m", "s", "ms")))
_LIKE_DURATION = re.compile("(?:[0-9]+(?:ms|[smhdwy]))+")
_IN_STEPS = re.compile(r"[0-9.]+i")


def scan(text: str) -> list[Token]:
    """The tokens of a text, the last one END; comments and white space are left out.

    Raises BadQuery.
    """
    if len(text) > MAX_CHARACTERS:
        raise BadQuery(
            f"parse error: the query has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read"
        )
    tokens: list[Token] = []
    pattern, at = _OUTSIDE, 0
    while at < len(text):
        match = pattern.match(text, at)
        if match is None:
            raise _unreadable(text, at, pattern)
        at = match.end()
        if match.lastgroup != "space":
            tokens.append(_token(text, match, pattern))
            at = match.start() + len(tokens[-1].text)
            pattern = _AFTER.get(tokens[-1].text, pattern)
    if pattern is _IN_BRACES:
        raise parse_error(text, at, "unexpected end of input inside braces")
    if pattern is _IN_BRACKETS:
        raise parse_error(text, at, "unclosed left bracket")
    tokens.append(Token(Kind.END, "", len(text)))
    return tokens


_AFTER = {"{": _IN_BRACES, "}": _OUTSIDE, "[": _IN_BRACKETS, "]": _OUTSIDE}


def _token(text: str, match: re.Match[str], pattern: re.Pattern[str]) -> Token:
    found, start = match.group(), match.start()
    match match.lastgroup:
        case "number":
            return _number(text, start, found)
        case "string":
            return _string(text, start, found)
        case "word" if pattern is _OUTSIDE and found.lower() in ("inf", "nan"):
            return Token(Kind.NUMBER, found, start, number=float(found))
        case "word":
            return Token(Kind.WORD, found, start)
    if found == "=" and pattern is _OUTSIDE and text.startswith("~", start + 1):
        raise parse_error(text, start, "unexpected character after '=': '~'")
    return Token(Kind.SYMBOL, found, start)


def _number(text: str, start: int, found: str) -> Token:
    hexadecimal = _SIGN_AFTER_HEX.match(found)
    if hexadecimal is not None:
        found = hexadecimal.group()
    if _DECIMAL.fullmatch(found) or _HEXADECIMAL.fullmatch(found):
        return Token(Kind.NUMBER, found, start, number=_value(text, start, found))
    match = _DURATION.fullmatch(found)
    if match is not None:
        # Twenty digits are out of range; Python would refuse to read thousands.
        counts = [int(count.lstrip("0")[:20] or "0") for count in match.groups("0")]
        milliseconds = sum(count * unit for count, unit in zip(counts, _UNITS, strict=True))
        if milliseconds > _MAX_DURATION_MS:
            raise parse_error(text, start, "duration out of range")
        return Token(Kind.DURATION, found, start, number=milliseconds / 1000)
    if _IN_STEPS.fullmatch(found):
        raise not_supported(text, start, f"the duration {found}", "write it in seconds, minutes, ...")
    if _LIKE_DURATION.fullmatch(found):
        raise parse_error(text, start, f"not a valid duration string: {quoted(found[:40])}")
    raise parse_error(text, start, f"bad number or duration syntax: {quoted(found[:40])}")


def _value(text: str, start: int, found: str) -> float:
    """As Go's ParseInt with base 0 or, if that fails, ParseFloat: 017 is 15, but 018 is 18."""
    try:
        if found[:2] in ("0x", "0X"):
            whole = int(found.replace("_", ""), 16)
            if whole <= _LARGEST_INTEGER:
                return float(whole)
        else:
            if _OCTAL.fullmatch(found) and (whole := int(found.replace("_", ""), 8)) <= _LARGEST_INTEGER:
                return float(whole)
            value = float(found)
            if not math.isinf(value):
                return value
    except ValueError:  # more digits than Python reads
        pass
    raise parse_error(text, start, f"error parsing number: {quoted(found[:40])} is out of range")


_ESCAPE = re.compile(
    r"\\(?:(?P<letter>[abfnrtv\\\"'])|(?P<octal>[0-7]{3})|x(?P<byte>[0-9a-fA-F]{2})"
    r"|u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<unknown>.?))",
    re.DOTALL,
)
_LETTERS = dict(zip("abfnrtv\\\"'", "\a\b\f\n\r\t\v\\\"'", strict=True))
_SURROGATES = re.compile("[\ud800-\udfff]")


def _string(text: str, start: int, found: str) -> Token:
    inner = found[1:-1]
    if not is_unicode(inner) or "\ufffd" in inner:  # which is how Go reads what is not UTF-8
        raise parse_error(text, start, "invalid UTF-8 rune")
    if "\\" not in inner or found[0] == "`":
        return Token(Kind.STRING, found, start, string=inner)
    raw = bytearray()  # an escape may give one byte of a character
    at = 0
    for match in _ESCAPE.finditer(inner):
        raw += inner[at : match.start()].encode()
        raw += _unescaped(text, start, match, found[0])
        at = match.end()
    raw += inner[at:].encode()
    return Token(Kind.STRING, found, start, string=raw.decode(errors="surrogateescape"))


def _unescaped(text: str, start: int, match: re.Match[str], quote: str) -> bytes:
    written = match.group(match.lastgroup or "")
    match match.lastgroup:
        case "letter" if written not in "\"'" or written == quote:
            return _LETTERS[written].encode()
        case "octal" if int(written, 8) < 256:
            return bytes([int(written, 8)])
        case "byte":
            return bytes([int(written, 16)])
        case "short" | "long" if (code := int(written, 16)) <= 0x10FFFF and not 0xD800 <= code < 0xE000:
            return chr(code).encode()
        case "octal" | "short" | "long":
            raise parse_error(text, start, "escape sequence is an invalid Unicode code point")
        case _ if written in tuple("01234567xuU"):
            raise parse_error(text, start, f"escape sequence \\{written} not terminated")
        case _:
            raise parse_error(text, start, f"unknown escape sequence U+{ord(written):04X} {written!r}")


def _unreadable(text: str, at: int, pattern: re.Pattern[str]) -> BadQuery:
    character = text[at]
    if pattern is _IN_BRACKETS:
        return parse_error(text, at, f"unexpected character in duration expression: {character!r}")
    if character in "\"'":
        return parse_error(text, at, "unterminated quoted string")
    if character == "`":
        return parse_error(text, at, "unterminated raw string")
    where = ""
    if pattern is _IN_BRACES:
        if character == "{":
            if text.startswith("{{", at - 1):
                return not_supported(text, at - 1, "a native histogram", "only floats are evaluated")
            return parse_error(text, at, "unexpected left brace '{'")
        where = " inside braces"
    if character == "!":
        after = text[at + 1 : at + 2]
        return parse_error(text, at, f"unexpected character after '!'{where}: {after!r}")
    return parse_error(text, at, f"unexpected character{where}: {character!r}")
