"""Signals as figures: bounds, gaps, lone points and hostile names."""

import numpy as np

from app.charts.layers import LayerTrace, heat_map, layer_lines

NAN = float("nan")
TIMES = np.array([0, 15_000, 30_000, 45_000], dtype=np.int64)


def trace(name="m", values=(1.0, 2.0, 3.0, 4.0), bounds=(0, 0, 0, 0)):
    return LayerTrace(name, np.array(values), np.array(bounds))


def lines(*traces, unit="seconds"):
    return layer_lines(TIMES, traces, unit, 0, 45_000)


def heat(names, unit="ratio"):
    values = np.array([[0.5, NAN, 1.0, 0.0]] * len(names), dtype=np.float32)
    return heat_map(TIMES, names, values, unit)


def test_the_same_lines_give_the_same_bytes():
    assert lines(trace()).to_json() == lines(trace()).to_json()
    assert heat(["a"]).to_json() == heat(["a"]).to_json()


def test_gaps_stay_gaps():
    [drawn] = lines(trace(values=(1.0, NAN, 3.0, 4.0))).data
    assert drawn.connectgaps is False
    assert np.isnan(drawn.y[1])
    [matrix] = heat(["a"]).data
    assert np.isnan(matrix.z[0][1])


def test_a_point_between_gaps_is_a_dot():
    [drawn] = lines(trace(values=(1.0, NAN, 3.0, NAN))).data
    assert drawn.mode == "lines+markers"
    assert drawn.marker.size.tolist() == [5, 0, 5, 0]
    assert lines(trace()).data[0].mode == "lines"


def test_what_is_only_a_bound_is_a_dashed_step():
    [drawn] = lines(trace(bounds=(-1, -1, -1, -1))).data
    assert (drawn.line.dash, drawn.line.shape) == ("dash", "hv")
    assert set(drawn.customdata) == {"at most "}


def test_a_line_that_stops_being_known_goes_on_dashed_in_its_colour():
    known, bound = lines(trace(bounds=(0, 0, -1, 1))).data
    assert np.isnan(known.y).tolist() == [False, False, True, True]
    assert np.isnan(bound.y).tolist() == [True, False, False, False]
    assert known.line.color == bound.line.color
    assert bound.showlegend is False
    assert list(bound.customdata) == ["", "", "at most ", "at least "]


def test_a_line_that_becomes_known_begins_dashed():
    known, bound = lines(trace(bounds=(-1, -1, 0, 0))).data
    assert np.isnan(known.y).tolist() == [True, True, False, False]
    assert np.isnan(bound.y).tolist() == [False, False, False, True]


def test_a_legend_comes_on_top_of_the_chart():
    alone, many = lines(trace()), lines(*(trace(f"model number {number}") for number in range(12)))
    assert alone.layout.showlegend is False
    drawn = [figure.layout.height - figure.layout.margin.b for figure in (alone, many)]
    assert drawn[0] == drawn[1]


def test_a_label_cannot_be_markup():
    name = '<a href="http://evil">x</a>'
    assert "<" not in lines(trace(name)).data[0].name
    assert "<" not in heat([name]).data[0].y[0]


def test_quotes_in_a_label_are_quotes():
    assert lines(trace("""say "it's" """)).data[0].name == """say "it's" """


def test_rows_of_one_name_are_told_apart():
    assert heat(["x" * 100, "x" * 100]).data[0].y[1].endswith("(2)")


def test_a_share_has_the_same_colours_tomorrow():
    [matrix] = heat(["a"]).data
    assert (matrix.zmin, matrix.zmax) == (0, 100)
    assert matrix.z[0][0] == 50
    assert heat(["a"], "watts").data[0].zmax is None


def test_ten_thousand_gpus_are_no_higher_than_a_screen():
    assert heat([f"n{number}" for number in range(400)]).layout.height <= 500
    assert len(heat([f"n{number}" for number in range(400)]).layout.yaxis.tickvals) < 30
