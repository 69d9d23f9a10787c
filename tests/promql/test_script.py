"""Prometheus's test scripts as commands."""

import re

import pytest

from tests.promql.script import Broken, Clear, Eval, Load, Message, commands


def only(text: str) -> Eval:
    [case] = commands(text)
    assert isinstance(case, Eval), case
    return case


def test_a_script_is_a_sequence_of_commands():
    found = list(
        commands("# comment\nload 5m\n  a 1 2\n\tb{c='d'} 3\n\nclear\neval instant at 50m a\n  a 1\n# more\n")
    )
    assert [type(one) for one in found] == [Load, Clear, Eval]
    load = found[0]
    assert isinstance(load, Load)
    assert (load.line, load.step_ms, load.with_nhcb) == (2, 300_000, False)
    assert [(dict(one.labels), one.items) for one in load.series] == [
        ({"__name__": "a"}, (1.0, 2.0)),
        ({"__name__": "b", "c": "d"}, (3.0,)),
    ]
    assert found[2].line == 7


def test_a_series_named_twice_in_a_load_is_what_was_said_last():
    [load] = commands("load 1m\n a 1\n a 2")
    assert isinstance(load, Load)
    assert [one.items for one in load.series] == [(2.0,)]


def test_load_with_nhcb_and_start_timestamps_are_recognised():
    [load] = commands('load_with_nhcb 1m\n @st -1m\n a_bucket{le="1"}@st -5s+1sx2\n a_bucket{le="1"} 1 2 3')
    assert isinstance(load, Load)
    assert load.with_nhcb
    assert load.start_times == ((), (("__name__", "a_bucket"), ("le", "1")))
    assert len(load.series) == 1


def test_an_instant_case():
    case = only('eval instant at 1h1m sum by (x) (up @ 5 [5m])\n  {x="1"} 3\n  {x="2"} NaN\n')
    assert (case.at_ms, case.expression) == (3_660_000, "sum by (x) (up @ 5 [5m])")
    assert [position for position, _ in case.series.values()] == [1, 2]
    assert case.scalar is None
    assert case.fail is None


def test_a_range_case():
    case = only("eval range from 1m to 10m step 30s up\n  up 1 _ 3x2")
    assert (case.at_ms, case.start_ms, case.end_ms, case.step_ms) == (None, 60_000, 600_000, 30_000)
    assert list(case.series.values()) == [(1, (1.0, None, 3.0, 3.0, 3.0))]


@pytest.mark.parametrize(
    ("text", "expected"), [("5", 5.0), ("0x1F", 31.0), ("-Inf", float("-inf")), ("1e3", 1000.0)]
)
def test_a_number_ends_the_case(text: str, expected: float):
    found = list(commands(f"eval instant at 0 1\n  {text}\nclear"))
    assert isinstance(found[0], Eval)
    assert found[0].scalar == expected
    assert isinstance(found[1], Clear)


def test_expectations_of_today():
    case = only(
        "eval instant at 0 up\nexpect ordered\nexpect warn msg: some words\n"
        "expect info regex: a(b|c)\nexpect info"
    )
    assert case.ordered
    assert case.warn == [Message("some words")]
    assert [one.pattern for one in case.info] == [re.compile("a(b|c)"), None]
    silent = only("eval instant at 0 up\n expect no_warn\n expect no_info\n expect fail msg:no")
    assert (silent.no_warn, silent.no_info, silent.fail) == (True, True, Message("no"))


def test_expectations_of_old():
    assert only("eval_ordered instant at 0 up").ordered
    assert only("eval_warn instant at 0 up").warn == [Message()]
    assert only("eval_info range from 0 to 1m step 1m up").info == [Message()]
    assert only("eval_fail instant at 0 up").fail == Message()
    assert only("eval_fail instant at 0 up\n expected_fail_message is wrong").fail == Message("is wrong")
    pattern = only("eval_fail instant at 0 up\n expected_fail_regexp is (w|W)rong").fail
    assert pattern is not None
    assert pattern.fits("this is wrong.")
    assert not pattern.fits("this is right")


def test_strings_and_range_vectors():
    assert only('eval instant at 0 "a"\n  expect string "a\\n"').text == "a\n"
    case = only("eval instant at 1m up[1m]\n expect range vector from 10s to 1m step 10s\n up 1 2")
    assert (case.at_ms, case.start_ms, case.step_ms, case.range_vector) == (60_000, 10_000, 10_000, True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("evil instant at 0 up", "not a command"),
        ("load\n a 1", "invalid load"),
        ("load 5\n a 1", "not a duration"),
        ("load 5m\n a 1 oops", "not a value"),
        ("eval instant up", "invalid evaluation"),
        ("eval range from 5m to 1m step 1m up", "before the start"),
        ("eval instant at 0 up\n up 1 2", "multiple values"),
        ("eval instant at 0 up\n expect warn\n expect no_warn", "both expected and excluded"),
        ("eval instant at 0 up\n expect fail\n expect fail", "multiple expect fail"),
        ("eval instant at 0 up\n expect nothing", "invalid expect"),
        ("eval instant at 0 up\n expect warn regex: (", "unterminated"),
    ],
)
def test_a_line_that_is_not_understood_breaks_its_own_command_only(text: str, why: str):
    broken, clear = commands(f"{text}\n\nclear")
    assert isinstance(broken, Broken)
    assert why in broken.why
    assert broken.line == 1
    assert isinstance(clear, Clear)
