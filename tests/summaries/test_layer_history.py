"""Which lines a panel draws, and what is known about them."""

import numpy as np

from app.summaries.layer_history import (
    MAX_LINES,
    SignalRead,
    chosen_only,
    panel_history,
    series_name,
)
from db.catalog.load import load_catalog
from db.catalog.read_range import SignalSteps
from db.catalog.signal import Missing

NAN = float("nan")
TIMES = np.array([0, 15_000, 30_000], dtype=np.int64)
CATALOG = load_catalog()
RUNNING, P95 = CATALOG.signal("requests_running"), CATALOG.signal("ttft_p95")


def steps(model: str, *values: float, bounds=None, observations=None) -> SignalSteps:
    return SignalSteps(
        (("model", model),),
        np.array(values),
        None if bounds is None else np.array(bounds, dtype=np.int8),
        None if observations is None else np.array(observations, dtype=np.float64),
    )


def history(*series: SignalSteps, first="highest", signal=RUNNING):
    return panel_history(TIMES, [SignalRead(signal, "", tuple(series))], [], ("model",), first)


def names(found) -> list[str]:
    return [line.name for line in found.lines]


def test_the_highest_now_come_first_whatever_they_were():
    found = history(steps("a", 9, 9, 1), steps("b", 0, 0, 3), steps("c", 2, 2, 2))
    assert names(found) == ["b", "c", "a"]


def test_the_lowest_come_first_where_that_is_what_matters():
    assert names(history(steps("a", 1, 1, 1), steps("b", 1, 1, 0.5), first="lowest")) == ["b", "a"]


def test_what_has_no_value_now_comes_last_and_what_never_had_one_is_no_line():
    found = history(steps("gone", 9, 9, NAN), steps("never", NAN, NAN, NAN), steps("here", 1, 1, 0))
    assert names(found) == ["here", "gone"]
    assert found.total == 2


def test_no_more_lines_than_can_be_told_apart():
    found = history(*(steps(f"m{number:02d}", 0, 0, number) for number in range(40)))
    assert len(found.lines) == MAX_LINES
    assert found.total == 40
    assert names(found)[0] == "m39"


def test_signals_of_one_thing_stay_together():
    """A p99 without its p50 says little."""
    reads = [
        SignalRead(P95, name, tuple(steps(f"m{number}", 0, 0, number * factor) for number in range(9)))
        for name, factor in (("p50", 1), ("p95", 2), ("p99", 3))
    ]
    found = panel_history(TIMES, reads, [], ("model",), "highest")
    assert names(found) == [f"m{number} {name}" for number in (8, 7, 6, 5) for name in ("p50", "p95", "p99")]
    assert found.total == 27


def test_a_line_of_bounds_alone_is_told_from_one_with_some():
    always = steps("a", NAN, 0.3, 0.3, bounds=[0, -1, -1], observations=[0, 7, 9])
    sometimes = steps("b", 0.4, 0.3, 0.3, bounds=[0, -1, -1], observations=[5, 5, 5])
    found = {line.name: line for line in history(always, sometimes, signal=P95).lines}
    assert found["a"].never_exact
    assert found["a"].observations == 9
    assert not found["b"].never_exact


def test_observations_are_those_of_the_last_value():
    one = steps("a", 0.3, 0.3, NAN, bounds=[-1, -1, 0], observations=[4, 6, 0])
    [line] = history(one, signal=P95).lines
    assert (line.last, line.observations) == (1, 6)


def test_what_is_missing_and_what_failed_are_kept_apart():
    missing = CATALOG.resolve("requests_waiting", frozenset())
    assert isinstance(missing, Missing)
    found = panel_history(
        TIMES, [SignalRead(RUNNING, "", error="timed out")], [missing], ("model",), "highest"
    )
    assert found.sources == 1
    assert found.error == "timed out"
    [item] = found.missing
    assert item.title == "Requests waiting"
    assert any(way.startswith("vLLM: ") for way in item.ways)


def test_names_read_like_things():
    assert series_name((("gpu", "3"), ("node", "n1")), ("node", "gpu")) == "n1 GPU 3"
    assert series_name((("gpu", "3"),), ("node", "gpu")) == "GPU 3"
    assert series_name((("instance", "a:1"), ("model", "m")), ("model", "instance")) == "m · a:1"
    assert series_name((), ("model",)) == "no model"
    assert series_name((), ()) == "all"


def test_a_choice_is_of_the_whole_value():
    series = [steps("a", 1, 1, 1), steps("ab", 1, 1, 1)]
    assert [one.labels for one in chosen_only(series, "model", "a")] == [(("model", "a"),)]
    assert len(chosen_only(series, "model", "")) == 2
