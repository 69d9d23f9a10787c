"""The expressions of PromQL as `db.promql.parse` gives them. Durations are whole milliseconds."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from db.records import Matcher


class ValueType(Enum):
    SCALAR = "scalar"
    VECTOR = "vector"
    MATRIX = "matrix"
    STRING = "string"


# `@ 1700000000.5` in milliseconds, `@ start()`, `@ end()`.
At = int | Literal["start", "end"]
Cardinality = Literal["one-to-one", "many-to-one", "one-to-many", "many-to-many"]


@dataclass(frozen=True, slots=True)
class _Node:
    """start: where in the query's text it begins, for what is said of it: of calls, aggregations and their
    arguments; None of others and of what no text gives. Equal expressions may stand at different places."""

    start: int | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Number(_Node):
    value: float


@dataclass(frozen=True, slots=True)
class Text(_Node):
    value: str


@dataclass(frozen=True, slots=True)
class VectorSelector(_Node):
    """matchers: all of them, the metric name's as a Matcher of `__name__`. name: the name if the text gives
    one, for messages. offset_ms: how far back, negative for the future."""

    matchers: tuple[Matcher, ...]
    name: str | None = None
    offset_ms: int = 0
    at: At | None = None


@dataclass(frozen=True, slots=True)
class MatrixSelector(_Node):
    """The samples of the window (t - range_ms, t]; offset and `@` are the selector's."""

    selector: VectorSelector
    range_ms: int


@dataclass(frozen=True, slots=True)
class Subquery(_Node):
    """step_ms: None where the text gives none."""

    expression: "Expression"
    range_ms: int
    step_ms: int | None = None
    offset_ms: int = 0
    at: At | None = None


@dataclass(frozen=True, slots=True)
class Negated(_Node):
    """Unary minus; unary plus is left out by the parser."""

    expression: "Expression"


@dataclass(frozen=True, slots=True)
class Matching:
    """How the series of two vectors meet. on: by these labels only, else by all but them (and the name).
    include: labels that group_left or group_right takes from the one side."""

    cardinality: Cardinality = "one-to-one"
    on: bool = False
    labels: tuple[str, ...] = ()
    include: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Binary(_Node):
    """op: + - * / % ^ atan2 == != > < >= <= and or unless. returns_bool: the `bool` modifier."""

    op: str
    left: "Expression"
    right: "Expression"
    returns_bool: bool = False
    matching: Matching = Matching()


@dataclass(frozen=True, slots=True)
class Aggregate(_Node):
    """op: sum avg count min max group stddev stdvar topk bottomk quantile count_values. without: the labels
    are those that go; without=False and no labels: one group of everything."""

    op: str
    expression: "Expression"
    parameter: "Expression | None" = None
    labels: tuple[str, ...] = ()
    without: bool = False


@dataclass(frozen=True, slots=True)
class Call(_Node):
    function: str
    arguments: "tuple[Expression, ...]"


Expression = Number | Text | VectorSelector | MatrixSelector | Subquery | Negated | Binary | Aggregate | Call

# Functions whose value is not an instant vector.
_SCALARS = frozenset({"scalar", "time", "pi"})


def value_type(expression: Expression) -> ValueType:
    match expression:
        case Number():
            return ValueType.SCALAR
        case Text():
            return ValueType.STRING
        case MatrixSelector() | Subquery():
            return ValueType.MATRIX
        case Negated(inner):
            return value_type(inner)
        case Binary(_, left, right):
            scalars = value_type(left) is ValueType.SCALAR and value_type(right) is ValueType.SCALAR
            return ValueType.SCALAR if scalars else ValueType.VECTOR
        case Call(function):
            return ValueType.SCALAR if function in _SCALARS else ValueType.VECTOR
        case _:
            return ValueType.VECTOR
