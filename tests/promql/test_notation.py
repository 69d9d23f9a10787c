"""The series notation of Prometheus's test scripts."""

import math

import numpy as np
import pytest

from db.nan import STALE_BITS
from tests.promql.notation import BadNotation, Item, Native, duration_ms, series, unquoted, values

NATIVE = Native.SAMPLE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("1 2.5 -3 +4 .5 1e3 -1.5E-2", [1.0, 2.5, -3.0, 4.0, 0.5, 1000.0, -0.015]),
        ("0+10x3", [0.0, 10.0, 20.0, 30.0]),
        ("5-2x2", [5.0, 3.0, 1.0]),
        ("-1-2x1", [-1.0, -3.0]),
        ("1e2+1e1x1", [100.0, 110.0]),
        ("7x2", [7.0, 7.0, 7.0]),
        ("1x0", [1.0]),
        ("_ 1 _x3 2", [None, 1.0, None, None, None, 2.0]),
        ("Inf -Inf +Inf inf", [math.inf, -math.inf, math.inf, math.inf]),
        ("{{}}", [NATIVE]),
        ("1 {{schema:1 sum:15 count:10 buckets:[3 2 5]}} _", [1.0, NATIVE, None]),
        ("{{count:1}}x2", [NATIVE] * 3),
        ("{{count:0}}+{{count:1 sum:2}}x1 4", [NATIVE, NATIVE, 4.0]),
        ("{{count:9}}-{{count:1}}x2", [NATIVE] * 3),
    ],
)
def test_a_sequence_is_written_out(text: str, expected: list[Item]):
    assert list(values(text)) == expected


def test_repeated_additions_round_as_prometheus_rounds():
    assert list(values("0+0.1x3")) == [0.0, 0.1, 0.2, 0.1 + 0.1 + 0.1]


def test_markers_and_nan_keep_their_bits_when_repeated():
    found = np.array(list(values("stale stalex1 NaN nanx1")))
    assert (found[:3].view(np.uint64) == STALE_BITS).all()
    assert np.isnan(found).all()
    assert (found[3:].view(np.uint64) != STALE_BITS).all()


@pytest.mark.parametrize("text", ["abc", "1y2", "x3", "1+x3", "_x", "{{schema:1", "1+2", "stales", "0x10+1"])
def test_what_is_no_value_is_refused(text: str):
    with pytest.raises(BadNotation):
        list(values(text))


@pytest.mark.parametrize(
    ("line", "labels"),
    [
        ("up 1", {"__name__": "up"}),
        ("a:b_c{} 1", {"__name__": "a:b_c"}),
        ('up{job="x", instance = "y",}\t1', {"__name__": "up", "job": "x", "instance": "y"}),
        ("{} 1", {}),
        ('{a="b"} 1', {"a": "b"}),
        ('{"na me", "la.bel"="x y"} 1', {"__name__": "na me", "la.bel": "x y"}),
        ('{__name__="up", gone=""} 1', {"__name__": "up"}),
        (
            'up{a=\'it"s\', b=`raw\\n`, c="}{ 1"} 1',
            {"__name__": "up", "a": 'it"s', "b": "raw\\n", "c": "}{ 1"},
        ),
    ],
)
def test_labels_are_read(line: str, labels: dict[str, str]):
    found = series(line)
    assert dict(found.labels) == labels
    assert found.items == (1.0,)


def test_a_native_histogram_is_no_label_list():
    assert series("up {{count:1}}").items == (NATIVE,)


@pytest.mark.parametrize("line", ['{a="b"', "{a=b} 1", "{a} 1", '"up" 1', '{a="b" c="d"} 1', "5up 1"])
def test_a_broken_series_is_refused(line: str):
    with pytest.raises(BadNotation):
        series(line)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r'"a\n\t\"\\"', 'a\n\t"\\'),
        (r'"é\303\251\xc3\xa9\u00e9\U000000e9"', "ééééé"),
        (r'"a\xc5z"', "a\udcc5z"),
        (r"`a\n`", r"a\n"),
    ],
)
def test_strings_are_unquoted_as_go_does(text: str, expected: str):
    assert unquoted(text) == expected


def test_what_is_no_string_is_refused():
    with pytest.raises(BadNotation):
        unquoted("abc")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("15ms", 15),
        ("2w1d", 1_296_000_000),
        ("1y", 31_536_000_000),
    ],
)
def test_durations(text: str, expected: int):
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "5", "m", "1m1h", "-5m", "1.5h"])
def test_what_is_no_duration_is_refused(text: str):
    with pytest.raises(BadNotation):
        duration_ms(text)
