"""What an expression is evaluated over, as the functions of PromQL see it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from db.nan import FloatArray, IntArray
from db.promql.ast import Expression, Text
from db.promql.limits import Budget
from db.promql.scan import place
from db.promql.source import Source
from db.promql.vector import Scalar, String, Vector
from db.promql.windows import Windows

Value = Scalar | String | Vector | Windows
Kind = TypeVar("Kind", Scalar, String, Vector, Windows)


# Of warnings and of infos, as many as Prometheus's HTTP API gives.
_MOST_NOTES = 10


@dataclass(frozen=True, slots=True)
class Notes:
    """What the answer's reader should know, as Prometheus words it; each once. query: the text. start: where
    in it the expression begins of which is spoken, None when it is nowhere."""

    query: str = ""
    start: int | None = None
    _warnings: dict[str, None] = field(default_factory=dict)
    _infos: dict[str, None] = field(default_factory=dict)

    def at(self, expression: Expression) -> "Notes":
        """The same notes; what is added here is said of this expression."""
        return replace(self, start=expression.start)

    def warn(self, text: str) -> None:
        self._warnings.setdefault(f"PromQL warning: {text}{self._place()}")

    def info(self, text: str) -> None:
        self._infos.setdefault(f"PromQL info: {text}{self._place()}")

    @property
    def warnings(self) -> tuple[str, ...]:
        """The first ten, and how many more there are."""
        return _first(self._warnings, "warning")

    @property
    def infos(self) -> tuple[str, ...]:
        return _first(self._infos, "info")

    def _place(self) -> str:
        return "" if self.start is None else f" ({place(self.query, self.start)})"


def _first(notes: dict[str, None], kind: str) -> tuple[str, ...]:
    shown = tuple(notes)[:_MOST_NOTES]
    left = len(notes) - len(shown)
    return (*shown, f"{left} more {kind} annotations omitted") if left else shown


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """grid: int64[steps], ms UTC, the times at which the expression is evaluated, one at least. start_ms,
    end_ms: of the whole query, what `@ start()` and `@ end()` mean. default_step_ms: of subqueries that give
    none."""

    source: Source
    grid: IntArray
    start_ms: int
    end_ms: int
    lookback_ms: int
    default_step_ms: int
    notes: Notes
    budget: Budget
    evaluate: "Callable[[Context, Expression], Value]"

    @property
    def steps(self) -> int:
        return len(self.grid)

    def at(self, grid: IntArray) -> "Context":
        """The same query at other times."""
        return replace(self, grid=grid)

    def vector(self, expression: Expression) -> Vector:
        return self._typed(expression, Vector)

    def scalar(self, expression: Expression) -> FloatArray:
        """float64[steps]"""
        return self._typed(expression, Scalar).values

    def windows(self, expression: Expression) -> Windows:
        return self._typed(expression, Windows)

    def text(self, expression: Expression) -> str:
        return expression.value if isinstance(expression, Text) else self._typed(expression, String).value

    def _typed(self, expression: Expression, kind: type[Kind]) -> Kind:
        value = self.evaluate(self, expression)
        # The parser has checked the types; this is for the reader and the type checker.
        assert isinstance(value, kind), f"{kind.__name__} expected"  # noqa: S101
        return value
