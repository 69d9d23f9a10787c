"""Where an evaluator's samples come from: the store, a remote engine, or both."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeGuard

from db.ragged import Ragged
from db.records import Latest, Matcher, Rectangle, Steps
from db.series_set import SeriesSet

if TYPE_CHECKING:
    from db.promql.answer import Answer
    from db.promql.engine import Options


class Source(Protocol):
    """Every method may raise db.errors.StoreError or a QueryError. The same selection gives, as long as no
    series is added, the same SeriesSet object: what is made of its labels is remembered with it."""

    def rectangles(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> tuple[SeriesSet, list[Rectangle]]:
        """Every matching series, and the samples in [start_ms, end_ms], both ends included; each series is
        in one rectangle at most."""

    def at_steps(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, step_ms: int, lookback_ms: int
    ) -> Steps:
        """What every matching series is at each step: its newest sample in (step - lookback_ms, step] unless
        it has ended there."""

    def latest_columns(self, matchers: Sequence[Matcher], at_ms: int, lookback_ms: int) -> Latest:
        """The same for one step, with the samples' own timestamps."""


class RaggedSource(Protocol):
    """A source that gives short stretches of very many targets in a quicker form than rectangles."""

    def ragged(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> tuple[SeriesSet, Ragged | list[Rectangle]]:
        """The samples that `Source.rectangles` gives."""


class Answering(Protocol):
    """A source that answers whole queries itself, since a part of its samples is elsewhere."""

    def instant(self, text: str, at_ms: int, options: "Options") -> "Answer": ...
    def ranged(self, text: str, start_ms: int, end_ms: int, step_ms: int, options: "Options") -> "Answer": ...


# By one attribute: isinstance() looks at all of a protocol's, for tens of microseconds.
def answers_itself(source: object) -> TypeGuard[Answering]:
    return hasattr(source, "instant")


def gives_ragged(source: object) -> TypeGuard[RaggedSource]:
    return hasattr(source, "ragged")
