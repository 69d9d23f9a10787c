from datetime import timedelta, timezone

import numpy as np

from app.charts.series import Trace, time_series

NAN = float("nan")
TIMES = np.array([0, 5_000, 10_000], dtype=np.int64)


def figure(name="box", values=(0.1, NAN, 0.3), unit="ratio", **changes):
    return time_series([Trace(name, TIMES, np.array(values))], unit, 0, 10_000, **changes)


def test_the_same_lines_give_the_same_bytes():
    assert figure().to_json() == figure().to_json()


def test_gaps_stay_gaps():
    trace = figure().data[0]
    assert trace.connectgaps is False
    assert np.isnan(trace.y[1])


def test_values_are_in_the_unit_of_the_axis():
    assert figure().data[0].y[0] == 10.0
    assert figure(unit="seconds", values=(0.004, NAN, 1.0)).data[0].y[0] == 4.0


def test_lines_are_drawn_as_svg():
    assert figure().data[0].type == "scatter"


def test_a_label_cannot_be_markup():
    assert "<" not in figure(name='<a href="http://evil">x</a><b>').data[0].name


def test_a_long_label_is_cut():
    assert len(figure(name="x" * 10_000).data[0].name) <= 60


def test_the_axis_shows_the_chosen_zone():
    berlin = timezone(timedelta(hours=2))
    assert figure(zone=berlin).data[0].x.tolist() == [7_200_000, 7_205_000, 7_210_000]
    assert list(figure(zone=berlin).layout.xaxis.range) == [7_200_000, 7_210_000]
