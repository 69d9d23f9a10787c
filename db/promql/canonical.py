"""Prometheus's PromQL as the plain text that `promql_parser` reads the same way.

Names, strings, numbers, durations and whole `{...}` become placeholders that count: `rate ( m1 [ 1s ] )`. So
the parser has only structure and types to decide, in which it agrees with Prometheus, and the values stay
exact. The walk over the tokens follows Prometheus's grammar without priorities: it knows at which token a
text stops making sense, which the parser does not tell.
"""

from dataclasses import dataclass, field

from db.promql.ast import VectorSelector
from db.promql.names import (
    AGGREGATIONS,
    EXPERIMENTAL,
    EXPERIMENTAL_AGGREGATIONS,
    EXPERIMENTAL_KEYWORDS,
    EXPERIMENTAL_MODIFIERS,
    FUNCTIONS,
    METRIC_KEYWORDS,
    NEVER_METRICS,
    OPERATORS,
)
from db.promql.scan import Cursor, Kind, Token, is_unicode, parse_error
from db.promql.selector_text import read_selector
from db.promql.time_text import read_duration, read_timestamp, refuse_arithmetic
from db.promql.wording import quoted

# Calls and operators on the way from a leaf to the root: the evaluation calls itself for each.
MAX_DEPTH = 200
# Parentheses open at once. The parser's stack takes 1000 of both; 5000 operators in a row end the process.
MAX_OPEN = 400


@dataclass(frozen=True, slots=True)
class Canonical:
    """pieces: the text in words. plus: where among them unary plus stands. spans: (first piece, piece after
    the last, index in the original text) of parts that are expressions by themselves, inner ones first.

    calls: of each call and aggregation, as they begin in the text, where it begins and where its arguments
    do, without the parentheses around them.

    The others: what the placeholders stand for; they count from 1, so that the parser's -1 differs from 1.
    times: durations and times of `@`, milliseconds.
    """

    pieces: list[str] = field(default_factory=list)
    plus: list[int] = field(default_factory=list)
    spans: list[tuple[int, int, int]] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    strings: list[str] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    calls: list[list[int]] = field(default_factory=list)
    selectors: list[VectorSelector] = field(default_factory=list)


def canonical(text: str) -> Canonical:
    """Raises BadQuery."""
    return _Walk(text).run()


@dataclass(slots=True)
class _Group:
    """What is open: the text itself, parentheses, or the arguments of a call or aggregation.

    piece, start: where it begins, among the pieces and in the text; argument_, operand_: where the current
    argument and the last operand in it begin. operators, below: of the current argument, how many operators
    it has and how deep its groups are. deepest: the same of the arguments before it. inner: where what is in
    parentheses begins, of the last operand if it is that. grouped: an aggregation whose labels have come, or
    anything else. starts: see Canonical.calls.
    """

    kind: str
    piece: int
    start: int
    grouped: bool = True
    argument_piece: int = 0
    argument_start: int = 0
    operand_piece: int = 0
    operand_start: int = 0
    operators: int = 0
    below: int = 0
    deepest: int = 0
    inner: int | None = None
    starts: list[int] = field(default_factory=list)


class _Walk(Cursor):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._out = Canonical()
        self._open = [_Group("text", 0, 0)]

    def run(self) -> Canonical:
        if self.now.kind is Kind.END:
            raise parse_error(self.text, 0, "no expression found in input")
        self._begin_argument()
        while True:
            if self._operand():
                while self._suffix() or self._closing():
                    pass
                if not self._operator():
                    return self._out

    def _emit(self, *pieces: str) -> None:
        self._out.pieces.extend(pieces)

    # Arguments, of which the whole text is one, and operands.

    def _begin_argument(self) -> None:
        group = self._open[-1]
        group.argument_piece, group.argument_start = len(self._out.pieces), self.now.start
        group.operators = group.below = 0

    def _end_argument(self) -> None:
        group = self._open[-1]
        inner = None if group.operators else group.inner
        group.starts.append(group.argument_start if inner is None else inner)
        group.deepest = max(group.deepest, group.operators + group.below)
        self._out.spans.append((group.argument_piece, len(self._out.pieces), group.argument_start))

    def _operand(self) -> bool:
        """Read an operand; False if a group began, whose first operand is next."""
        while self.now.kind is Kind.SYMBOL and self.now.text in ("+", "-"):
            if self.now.text == "+":
                self._out.plus.append(len(self._out.pieces))
            self._emit(self.take().text)
            self._open[-1].operators += 1
        token, group, out = self.now, self._open[-1], self._out
        group.operand_piece, group.operand_start, group.inner = len(out.pieces), token.start, None
        match token.kind:
            case Kind.NUMBER | Kind.DURATION:
                out.numbers.append(self.take().number)
                self._emit(str(len(out.numbers)))
            case Kind.STRING:
                out.strings.append(self.take().string)
                self._emit(f'"{len(out.strings)}"')
            case Kind.WORD:
                return self._named()
            case _ if token.text == "(":
                return self._enter("parentheses", token)
            case _ if token.text == "{":
                self._selector()
            case _:
                self.unexpected()
        return True

    def _named(self) -> bool:
        """A metric, a function or an aggregation; most keywords may be metrics."""
        token, word = self.now, self.word
        after = self.after.text.lower()
        called = after == "("
        grouping = after in ("by", "without")
        if (called and word in EXPERIMENTAL_KEYWORDS) or (grouping and word in EXPERIMENTAL_AGGREGATIONS):
            self.refuse(f"{word}()")
        if word in AGGREGATIONS and (called or grouping):
            self._emit(word)
            self.take()
            if grouping:
                self._labels(self.take().text.lower())
            if self.now.text != "(":
                self.unexpected("aggregation")
            return self._enter("aggregation", token, grouped=grouping)
        if word in NEVER_METRICS:
            self.unexpected()
        if called and ":" not in word and word not in METRIC_KEYWORDS:
            self._check_function(token)
            self._emit(self.take().text)
            return self._enter("call", token)
        self._selector()
        return True

    def _check_function(self, token: Token) -> None:
        if token.text == "holt_winters":
            mend = "Prometheus 3 calls it double_exponential_smoothing()"
            self.refuse("holt_winters()", mend)
        if token.text in EXPERIMENTAL:
            self.refuse(f"{token.text}()")
        if token.text not in FUNCTIONS:
            self.fail(token, f"unknown function with name {quoted(token.text)}")

    def _selector(self) -> None:
        self._out.selectors.append(read_selector(self))
        self._emit(f"m{len(self._out.selectors)}")

    def _enter(self, kind: str, token: Token, grouped: bool = True) -> bool:
        """At "("; True if it is a call without arguments, which makes it a whole operand."""
        self._emit("(")
        self.take()
        if len(self._open) > MAX_OPEN:
            self.fail(token, f"more than {MAX_OPEN} parentheses are open")
        self._open.append(_Group(kind, self._open[-1].operand_piece, token.start, grouped))
        if kind != "parentheses":
            self._open[-1].starts.append(token.start)
            self._out.calls.append(self._open[-1].starts)
        self._begin_argument()
        if kind == "parentheses" or self.now.text != ")":
            return False
        self._close()
        return True

    def _closing(self) -> bool:
        if self.now.text != ")" or len(self._open) == 1:
            return False
        self._end_operand()
        self._end_argument()
        self._close()
        return True

    def _close(self) -> None:
        self._emit(self.take().text)
        group = self._open.pop()
        if not group.grouped and self.word in ("by", "without"):
            self._labels(self.take().text.lower())
        outer = self._open[-1]
        outer.below = max(outer.below, group.deepest + (group.kind != "parentheses"))
        outer.operand_piece, outer.operand_start = group.piece, group.start
        outer.inner = group.starts[0] if group.kind == "parentheses" else None

    def _end_operand(self) -> None:
        group = self._open[-1]
        self._out.spans.append((group.operand_piece, len(self._out.pieces), group.operand_start))

    def _operator(self) -> bool:
        """After an operand: read an operator or a comma; False at the end of the text."""
        token, word, group = self.now, self.word, self._open[-1]
        self._end_operand()
        if token.kind is Kind.END and len(self._open) == 1:
            self._end_argument()
            if group.deepest > MAX_DEPTH:
                message = f"the expression is more than {MAX_DEPTH} deep; record parts of it with rules"
                self.fail(self.tokens[0], message)
            return False
        if word in OPERATORS:
            self._emit(word)
            self.take()
            group.operators += 1
            self._matching(token)
        elif word == "," and group.kind in ("call", "aggregation"):
            self._end_argument()
            self._emit(self.take().text)
            if self.now.text == ")":
                self.fail(token, "trailing commas not allowed in function call args")
            self._begin_argument()
        elif word in EXPERIMENTAL_MODIFIERS:
            self.refuse(f"the modifier {word}")
        elif word in (")", "]"):
            kind = "parenthesis" if word == ")" else "bracket"
            self.fail(token, f"unexpected right {kind} '{word}'")
        else:
            self.unexpected()
        return True

    # What stands behind operators and operands.

    def _matching(self, operator: Token) -> None:
        if self.word == "bool":
            self._emit(self.take().text.lower())
        if self.word in ("on", "ignoring"):
            on = self.word == "on"
            labels = set(self._labels(self.take().text.lower()))
            if self.word in ("group_left", "group_right"):
                word = self.take().text.lower()
                if self.now.text == "(":
                    both = [label for label in self._labels(word) if label in labels]
                    if on and both:
                        message = f"label {quoted(both[0])} must not occur in ON and GROUP clause at once"
                        self.fail(operator, message)
                else:
                    self._emit(word)

    def _labels(self, word: str) -> list[str]:
        """The labels in parentheses behind `by`, `on`, `group_left`, ..."""
        if self.now.text != "(":
            self.unexpected("grouping opts", '"("')
        self._emit(word, self.take().text)
        found: list[str] = []
        while self.now.text != ")":
            token = self.now
            if token.kind not in (Kind.WORD, Kind.STRING) or self.word == "without":
                self.unexpected("grouping opts", "label")
            self.take()
            label = token.string if token.kind is Kind.STRING else token.text
            if not label or not is_unicode(label):
                self.fail(token, f"invalid label name for grouping: {quoted(label)}")
            self._out.strings.append(label)
            self._emit(f"l{len(self._out.strings)}", ",")
            found.append(label)
            if self.now.text == ",":
                self.take()
            elif self.now.text != ")":
                self.unexpected("grouping opts", '"," or ")"')
        self._emit(self.take().text)
        return found

    def _suffix(self) -> bool:
        token = self.now
        if token.text == "[":
            self._emit(
                self.take().text,
                self._time(read_duration(self, "subquery or range selector")) + "s",
            )
            if self.now.text == ":":
                self._emit(self.take().text)
                self._open[-1].operators += 1
                if self.now.text != "]":
                    self._emit(self._time(read_duration(self, "subquery selector")) + "s")
            if self.now.text != "]":
                refuse_arithmetic(self)
                self.unexpected("subquery or range", '":" or "]"')
            self._emit(self.take().text)
        elif self.word == "offset":
            self.take()
            self._emit("offset", self._time(read_duration(self, "offset", positive=False)) + "s")
        elif token.text == "@":
            self.take()
            at = read_timestamp(self)
            self._emit("@", *((at, "(", ")") if isinstance(at, str) else (self._time(at),)))
        else:
            return False
        return True

    def _time(self, milliseconds: int) -> str:
        self._out.times.append(milliseconds)
        return str(len(self._out.times))
