"""The runner over a real store: what passes, what fails and what is left out."""

from pathlib import Path

import pytest

from tests.promql.__main__ import main
from tests.promql.results import almost_equal
from tests.promql.runner import Outcome, run
from tests.promql.script import commands

LOAD = """
load 1m
  a{x="1"} 0+1x10
  a{x="2"} 0+2x10
  h {{count:1}}x10
  mixed 1 1 {{count:1}} {{count:1}} 1 1 1 1 1 1 1
"""


def outcomes(script: str) -> list[Outcome]:
    return list(run(list(commands(f"{LOAD}\n{script}")), "f.test"))


def status(script: str) -> str:
    [one] = outcomes(script)
    return one.status


@pytest.mark.parametrize(
    "script",
    [
        'eval instant at 5m a\n  a{x="2"} 10\n  a{x="1"} 5',
        'eval instant at 5m a\n  a{x="2"} 10.000001\n  a{x="1"} 5',
        "eval instant at 5m sum(a)\n  {} 15",
        "eval instant at 5m sum(sum_over_time(a[3m:1m]))\n  {} 36",
        "eval instant at 5m 1 + 1\n  2",
        'eval instant at 5m "x"\n  expect string "x"',
        'eval range from 0 to 2m step 1m a{x="1"}\n  a{x="1"} 0 1 2',
        'eval range from 9m to 17m step 4m a{x="1"}\n  a{x="1"} 9 10 _',
        "eval instant at 5m none",
        "eval instant at 5m a * on() a\n  expect fail",
        "eval instant at 5m a * on() a\n  expect fail regex: duplicate",
        'eval instant at 5m sort_desc(a)\n  expect ordered\n  a{x="2"} 10\n  a{x="1"} 5',
        'eval instant at 5m a{x="1"}[2m]\n  expect range vector from 4m to 5m step 1m\n  a{x="1"} 4 5',
        "eval instant at 5m sum(rate(a[5m]))\n  expect info\n  expect no_warn\n  {} 0.05",
        "eval instant at 5m time()\n  300",
        "eval instant at 8m mixed\n  mixed 1",
        "eval instant at 1m mixed\n  mixed 1",
    ],
)
def test_what_is_right_passes(script: str):
    assert [str(one) for one in outcomes(script) if one.status != "passed"] == []


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('eval instant at 5m a\n  a{x="2"} 10', "expected"),
        ('eval instant at 5m a{x="1"}\n  a{x="1"} 5.1', "5.0"),
        ('eval instant at 5m a{x="1"}\n  a{x="1"} 5\n  a{x="3"} 5', 'x="3"'),
        ("eval instant at 5m 1 + 1\n  3", "scalar 2.0"),
        ("eval instant at 5m 1 + 1\n  {} 2", "a vector or matrix"),
        ("eval instant at 5m sum(a)\n  15", "scalar 15.0"),
        ('eval instant at 5m "x"\n  expect string "y"', "'y'"),
        ('eval range from 0 to 2m step 1m a{x="1"}\n  a{x="1"} 0 1', "2.0"),
        ('eval range from 0 to 2m step 1m a{x="1"}\n  a{x="1"} 0 _ 2', "1.0"),
        ('eval range from 0 to 2m step 1m a{x="1"}\n  a{x="1"} 0 1 2 3', "4 points"),
        ("eval range from 0 to 2m step 1m sum(a)", "no series"),
        ('eval range from 0 to 1m step 1m a{x="1"}\n  a{x="1"} 0 1\n  b 1', "b 1.0"),
        ("eval instant at 5m a * on() a", "the error"),
        ("eval instant at 5m a * on() a\n  expect fail msg: other", "'other'"),
        ("eval instant at 5m a\n  expect fail", "an answer"),
        ('eval instant at 5m sort_desc(a)\n  expect ordered\n  a{x="1"} 5\n  a{x="2"} 10', "in this order"),
        ("eval instant at 5m sum(rate(a[5m]))\n  expect no_info\n  {} 0.05", "no info"),
        ("eval instant at 5m sum(rate(a[5m]))\n  expect info msg: other\n  {} 0.05", "info 'other'"),
        ("eval instant at 5m sum(a)\n  expect warn\n  {} 15", "warning any"),
        ("eval nothing", "cannot be read"),
        ("eval instant at 5m a[1m]\n  expect range vector from 4m to 5m step 1m\n  a 4 5", "5.0"),
        # Right at its own time, but not the same from elsewhere: what is known of `@` and ranges is checked.
        ("eval instant at 5m sum(count_over_time(a[2m])) * (1 + 0 * minute())\n  {} 3", "4.0"),
    ],
)
def test_what_is_wrong_fails_and_says_what(script: str, said: str):
    [one] = outcomes(script)
    assert one.status == "failed"
    assert said in one.detail
    assert str(one).startswith("f.test:8: failed: ")
    assert "\n" not in str(one)


def test_an_instant_case_is_asked_as_a_step_of_a_range_query_and_from_other_times():
    """`@ end( )` means another time in each; written so, the official runner's pattern does not except it."""
    case = 'eval instant at 5m a{x="1"} @ end( )\n  a{x="1"} 5'
    [in_range] = outcomes(case)
    assert in_range.status == "failed"
    assert in_range.detail.endswith('got a{x="1"} 6.0 (as a range query)')
    [moved] = outcomes(case + "\n  expect ordered")
    assert moved.status == "failed"
    assert "(asked as " in moved.detail
    assert status(case.replace("( )", "()") + "\n  expect ordered") == "failed"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("eval instant at 5m h\n  h {{count:1}}", "native histogram: expected"),
        ("eval instant at 5m count(h)\n  {} 1", "native histogram: h"),
        ("eval instant at 5m rate(h[5m])", "native histogram: h"),
        ("eval range from 0 to 5m step 1m sum({__name__=~'a|h'})", "native histogram: h"),
        ("eval instant at 3m mixed\n  mixed 1", "native histogram: mixed"),
        ("eval instant at 5m sum_over_time(mixed[5m])\n  {} 4", "native histogram: mixed"),
        ("eval instant at 5m limitk(1, a)\n  a 1", "not supported: limitk"),
        ("eval instant at 5m limitk(1, a)\n  expect fail", "not supported: limitk"),
    ],
)
def test_only_native_histograms_and_experiments_are_left_out(script: str, reason: str):
    [one] = outcomes(script)
    assert one.status == "skipped"
    assert reason in one.detail


def test_converted_histograms_are_left_out_and_their_classic_series_are_not():
    script = """
load_with_nhcb 1m
  c_bucket{le="1"} 1x10
  c_bucket{le="+Inf"} 2x10
  c_count 2x10
  c_sum 3x10

eval instant at 5m histogram_quantile(0.5, c_bucket)
  {} 1

eval instant at 5m histogram_quantile(0.5, c)
  {} 1

eval instant at 5m c_sum / c_count
  {} 1.5
"""
    assert [one.status for one in outcomes(script)] == ["passed", "skipped", "passed"]


def test_clear_forgets_everything():
    assert status("clear\neval instant at 5m a") == "passed"
    assert status("clear\neval instant at 5m h") == "passed"


def test_loads_add_up():
    script = 'load 1m\n  b 7x10\n\neval instant at 5m b + on() a{x="1"}\n  {} 12'
    assert status(script) == "passed"


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1.0, 1.0 + 1e-7, True),
        (1.0, 1.0 + 1e-5, False),
        (0.0, 1e-300, False),
        (float("nan"), float("nan"), True),
        (float("nan"), 1.0, False),
        (float("inf"), float("inf"), True),
        (float("inf"), float("-inf"), False),
        (1e308, 1.5e308, False),
        (-0.0, 0.0, True),
    ],
)
def test_numbers_are_compared_as_prometheus_does(one: float, other: float, equal: bool):
    assert almost_equal(one, other) is equal
    assert almost_equal(other, one) is equal


def test_the_command_counts_and_exits(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    good, bad = tmp_path / "good.test", tmp_path / "bad.test"
    good.write_text(LOAD + "\neval instant at 5m sum(a)\n  {} 15\n\neval instant at 5m h\n")
    bad.write_text(LOAD + '\neval instant at 5m count_values("a\\xc5z", a)\n')
    assert main([str(good)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{good}:11: skipped: h: native histogram: h",
        "1 passed, 0 failed, 1 skipped",
    ]
    assert main([str(good), str(bad)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 1 failed, 1 skipped"
    assert main([]) == 2
    assert main([str(tmp_path / "none.test")]) == 2
    assert "none.test: No such file" in capsys.readouterr().err
