"""Which waiting question goes to which free process."""

from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from db.promql.question import Question, answer
from db.promql.running import Running
from db.promql.worker_keeper import _PASSED_OVER, Keeper
from db.promql.worker_wire import Opening
from db.store import SampleStore


class Child:
    """A free process that has answered these texts."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def knows(self, text: str) -> bool:
        return text in self.texts


def waiting(text: str) -> Running:
    return Running(Question(text, 0, 0), 60.0, 0.0, lambda: None, lambda running: None)


@pytest.fixture
def keeper(tmp_path: Path):
    made = Keeper(Opening(partial(SampleStore.open, tmp_path / "s.db"), answer, 1 << 30), 2, 0)
    yield made
    made._end_all()


def matched(keeper: Keeper, *idle: Child) -> tuple[Any, str]:
    child, running = keeper._matched(cast(Any, list(idle)))
    return child, running.question.text


def test_the_oldest_goes_to_the_process_used_last_when_nobody_knows_anything(keeper: Keeper) -> None:
    keeper._waiting.extend([waiting("a"), waiting("b")])
    former, last = Child(), Child()
    assert matched(keeper, former, last) == (last, "a")


def test_who_knows_a_question_gets_it(keeper: Keeper) -> None:
    keeper._waiting.extend([waiting("a"), waiting("b")])
    former, last = Child("a"), Child("c")
    assert matched(keeper, former, last) == (former, "a")
    assert matched(keeper, Child("b"))[1] == "b"


def test_the_oldest_is_not_passed_over_for_ever(keeper: Keeper) -> None:
    keeper._waiting.extend([waiting("a"), waiting("b")])
    child = Child("b")
    assert [matched(keeper, child)[1] for _ in range(_PASSED_OVER + 1)] == ["b"] * _PASSED_OVER + ["a"]


def test_what_was_cancelled_is_not_chosen(keeper: Keeper) -> None:
    known = waiting("b")
    known.cancel()
    keeper._waiting.extend([waiting("a"), known])
    assert matched(keeper, Child("b"))[1] == "a"
