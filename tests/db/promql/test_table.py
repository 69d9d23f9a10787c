"""What a table of labels remembers: shared by threads, and gone with the table."""

import gc
from weakref import ref

from db.labels import labels_from
from db.promql.table import SeriesTable


class Hurried:
    """A key at whose look-up another thread has just thrown away everything."""

    def __init__(self, table: SeriesTable) -> None:
        self._table = table

    def __hash__(self) -> int:
        self._table._memory.clear()
        return 1


def table() -> SeriesTable:
    return SeriesTable.of([labels_from({"a": str(number)}) for number in range(4)])


def test_what_another_thread_throws_away_meanwhile_is_made_again() -> None:
    one = table()
    key = Hurried(one)
    assert [one.remembered(key, lambda: "made") for _ in range(2)] == ["made", "made"]


def test_nothing_that_is_remembered_keeps_its_table() -> None:
    held = [table()]
    assert held[0].remembered("itself", lambda: held[0]) is held[0]
    assert held[0].remembered("itself", table) is held[0]
    gone = ref(held[0])
    gc.disable()
    try:
        held.clear()
        assert gone() is None
    finally:
        gc.enable()


def test_what_was_made_with_a_table_that_is_gone_goes_with_it() -> None:
    one, gone, still_there = table(), table(), table()
    made = [one.remembered(("match", ref(other), "on"), SeriesTable.single) for other in (gone, still_there)]
    lives = [ref(each) for each in made]
    made.clear()
    del gone
    one.remembered("more", SeriesTable.single)
    assert lives[0]() is None
    assert one.remembered(("match", ref(still_there), "on"), SeriesTable.single) is lives[1]()
