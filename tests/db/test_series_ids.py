"""Remembered ids never differ from what the file says."""

from contextlib import suppress

import pytest

from db.engine import open_samples, writing
from db.errors import WriteRefused
from db.index import forget_series, intern_series
from db.labels import labels_from
from db.series_ids import SeriesIds

A, B, C, D = (labels_from({"job": "x"}, name) for name in "abcd")


@pytest.fixture
def engine(tmp_path):
    engine = open_samples(tmp_path / "samples.db")
    yield engine
    engine.dispose()


def ids(engine, remembered, *series):
    remembered.begin()
    with writing(engine) as connection:
        found = remembered.of(connection, series).tolist()
    remembered.keep()
    return found


def stored(engine, *series):
    with writing(engine) as connection:
        return intern_series(connection, series).tolist()


def test_they_are_those_of_the_file(engine):
    remembered = SeriesIds()
    assert ids(engine, remembered, A, B) == stored(engine, A, B)
    assert ids(engine, remembered, C, A, C, B) == stored(engine, C, A, C, B)
    assert ids(engine, remembered) == []


def test_what_was_rolled_back_was_never_given(engine):
    remembered = SeriesIds()
    remembered.begin()
    with suppress(WriteRefused), writing(engine) as connection:
        remembered.of(connection, [A, B])
        connection.exec_driver_sql("SELECT no_such_column FROM series")
    (of_b,) = stored(engine, B)
    assert ids(engine, remembered, C) == stored(engine, C)
    assert ids(engine, remembered, A, B) == stored(engine, A, B)
    assert stored(engine, B) == [of_b]


def test_series_that_were_forgotten_get_new_ids(engine):
    remembered = SeriesIds()
    first = ids(engine, remembered, A, B)
    with writing(engine) as connection:
        forget_series(connection, remembered.of(connection, [A]))
    again = ids(engine, remembered, A, B)
    assert again == stored(engine, A, B)
    assert again[0] not in first
    assert again[1] == first[1]


def test_their_number_is_bounded(engine):
    remembered = SeriesIds(known=2)
    for series in ([A, B], [C], [D], [A, B, C, D], [A]):
        assert ids(engine, remembered, *series) == stored(engine, *series)
        assert len(remembered._known) <= 2
