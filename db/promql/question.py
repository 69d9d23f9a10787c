"""A query as it is asked of another process: plain data, so that it can be sent."""

from dataclasses import dataclass, field

from db.promql.answer import Answer
from db.promql.engine import Options, instant, ranged
from db.promql.source import Source


@dataclass(frozen=True, slots=True)
class Question:
    """step_ms: None for an instant query at start_ms. options: its limits hold where they are tighter than
    those of whoever answers. seconds: of wall time until there is an answer, waiting for a free process
    included; None for what the limits say."""

    text: str
    start_ms: int
    end_ms: int
    step_ms: int | None = None
    options: Options = field(default_factory=Options)
    seconds: float | None = None


def answer(source: Source, question: Question) -> Answer:
    """Raises QueryError."""
    if question.step_ms is None:
        return instant(source, question.text, question.start_ms, question.options)
    return ranged(
        source, question.text, question.start_ms, question.end_ms, question.step_ms, question.options
    )
