"""Reading a page as the previous one with new values decides and yields what reading it whole does."""

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.exposition import Format, Page, PageParser, ParseError
from tests.collectors.pages import FIXTURES


def outcome(parser: PageParser, body: bytes, page_format: Format) -> tuple[object, ...]:
    """All that a parse gives, comparable bit by bit; anything but ParseError flies."""
    try:
        page: Page = parser.parse(body, page_format)
    except ParseError as error:
        return (str(error),)
    assert page.values.dtype == np.float64
    times = None if page.timestamps is None else page.timestamps.tolist()
    return page.layout.keys, page.layout.metadata, page.values.tobytes(), times


def check_sequence(bodies: list[bytes], page_format: Format, strict: bool) -> int:
    """Parse one after the other and each one fresh; returns how many were not read whole."""
    parser = PageParser(strict=strict)
    for body in bodies:
        expected = outcome(PageParser(strict=strict), body, page_format)
        assert outcome(parser, body, page_format) == expected
    return len(bodies) - parser.whole_parses


def start_of(path: str, lines: int) -> str:
    return "".join((FIXTURES / path).read_text().splitlines(keepends=True)[:lines])


OPENMETRICS = """\
# TYPE requests counter
# HELP requests with "quotes"
requests_total{path="/a",q="\\"x"} 5 # {trace="b"} 0.5 17
requests_created{path="/a",q="\\"x"} 1700000000.5
# TYPE sizes histogram
sizes_bucket{le="0.1"} 1
sizes_bucket{le="1.0"} 2 # {trace="c"} 0.7
sizes_bucket{le="+Inf"} 3
sizes_count 3
sizes_sum 2.5
# TYPE depth gaugehistogram
depth_bucket{le="1"} 2
depth_bucket{le="+Inf"} 4
depth_gcount 4
depth_gsum 7
# TYPE lag summary
lag{quantile="0.5"} 0.1
lag_count 3
lag_sum 0.2
# TYPE mode stateset
mode{mode="on"} 1
mode{mode="off"} 0
# TYPE build info
build_info{version="1"} 1
# TYPE temperature_celsius gauge
# UNIT temperature_celsius celsius
temperature_celsius{gpu="0"} 55.5
temperature_celsius{gpu="1"} NaN
# EOF
"""
TIMED = "# TYPE a gauge\na 1 1\na 2 2\nb 1 1.5\n# EOF\n"
PAGES: list[tuple[Format, str]] = [
    ("openmetrics", OPENMETRICS),
    ("openmetrics", TIMED),
    ("text", start_of("vllm-live/1795257131314.prom", 18)),
    ("text", start_of("dcgm/a100-mig-mixed.prom", 6)),
    ("text", start_of("prometheus-common/text.prom", 10)),
    ("text", start_of("node_exporter/textfile-client_side_timestamp.prom", 2)),
    (
        "text",
        "# HELP a x\n# TYPE a summary\n"
        'a{quantile="0.5",p="C:\\\\x"} NaN\na_sum\t3\n a_count 7 \n{"b c"} +Inf\n',
    ),
]
TOKENS = [
    *("0", "1", "2", "3", "4", "-1", "0.5", "1e3", "-0", "-0.0", "-0e1", "+7", "007", ".5", "5.", "1e-999"),
    *("1e999", "-1e999", "9223372036854775807", "18446744073709551616", "1" * 400, "0.1" + "3" * 60),
    *("NaN", "nan", "-nan", "+NaN", "Inf", "+Inf", "-inf", "infinity", "-Infinity", "+InF"),
    *(
        "1_0",
        "0x1",
        "0x1p4",
        "\u0663",
        "1\u00a0",
        "true",
        "null",
        "[1]",
        "1,2",
        "1, 2",
        "{}",
        "",
        " ",
        "x",
        '"',
    ),
    *(
        "1 2",
        "1 1700000000",
        "1 -5",
        " 1",
        "1 ",
        "\t1",
        "1\t",
        "1\x0b",
        "1\x1c",
        "1\r",
        "1\0",
        "1\ufeff",
        "1\x85",
    ),
    *('1 # {a="b"} 1', '1 # {a="b"} 1 5', "1 # {} nan", "1 # {} 1 x", '1 5 # {a="b"} 1', "1 #", "1 # {a}"),
]
CHARACTERS = st.sampled_from('ab01 \t"\\{},=#\n\r\0_:.é\ufeff-+nN')
Edit = tuple[str, int, str]
VALUE_EDITS = st.tuples(st.just("value"), st.integers(0, 99), st.sampled_from(TOKENS))
GOOD_EDITS = st.tuples(st.just("value"), st.integers(0, 99), st.sampled_from(TOKENS[:11]))
OTHER_EDITS = st.one_of(
    st.tuples(st.just("insert"), st.integers(0, 9999), CHARACTERS),
    st.tuples(st.just("delete"), st.integers(0, 9999), st.just("")),
    st.tuples(st.just("double"), st.integers(0, 99), st.just("")),
    st.tuples(st.just("drop"), st.integers(0, 99), st.just("")),
    st.tuples(st.just("swap"), st.integers(0, 99), st.just("")),
    st.tuples(st.just("cut"), st.integers(0, 9999), st.just("")),
)
EDITS = st.one_of(GOOD_EDITS, VALUE_EDITS, OTHER_EDITS)


def edited(text: str, edits: list[Edit]) -> str:
    for kind, place, payload in edits:
        lines = text.split("\n")
        line, spot = place % len(lines), place % (len(text) + 1)
        if kind == "value":
            series, space, _ = lines[line].rpartition(" ")
            lines[line] = series + space + payload
        elif kind == "double":
            lines.insert(line, lines[line])
        elif kind == "drop":
            del lines[line]
        elif kind == "swap":
            lines[line], lines[line - 1] = lines[line - 1], lines[line]
        text = "\n".join(lines)
        if kind == "insert":
            text = text[:spot] + payload + text[spot:]
        elif kind == "delete":
            text = text[:spot] + text[spot + 1 :]
        elif kind == "cut":
            text = text[:spot]
    return text


@settings(max_examples=600, deadline=None)
@given(
    page=st.sampled_from(PAGES),
    steps=st.lists(st.lists(EDITS, max_size=3), min_size=1, max_size=4),
    onward=st.booleans(),
    strict=st.booleans(),
)
def test_a_sequence_of_damaged_pages_reads_as_each_one_alone(
    page: tuple[Format, str], steps: list[list[Edit]], onward: bool, strict: bool
):
    page_format, text = page
    bodies = [text.encode()]
    for edits in steps:
        changed = edited(text, edits)
        bodies.append(changed.encode())
        text = changed if onward else text
    check_sequence(bodies, page_format, strict)


@settings(max_examples=400, deadline=None)
@given(page=st.sampled_from(PAGES), edits=st.lists(VALUE_EDITS, min_size=1, max_size=6), strict=st.booleans())
def test_a_page_with_other_values_reads_as_alone(page: tuple[Format, str], edits: list[Edit], strict: bool):
    page_format, text = page
    check_sequence([text.encode(), edited(text, edits).encode(), text.encode()], page_format, strict)


@settings(max_examples=300, deadline=None)
@given(body=st.binary(max_size=200), page_format=st.sampled_from(["text", "openmetrics"]))
def test_arbitrary_bytes_raise_nothing_but_parse_error(body: bytes, page_format: Format):
    check_sequence([b"a 1\n# EOF\n", body, body], page_format, strict=True)


@settings(max_examples=300, deadline=None)
@given(
    text=st.text(
        st.sampled_from('ab{}=",\\ \t\n#1.5eEnNaNHELPTYPOFcounterhistogram_bucketle+I'), max_size=80
    ),
    page_format=st.sampled_from(["text", "openmetrics"]),
    strict=st.booleans(),
)
def test_near_exposition_raises_nothing_but_parse_error(text: str, page_format: Format, strict: bool):
    check_sequence([text.encode(), text.encode()], page_format, strict)


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("strict", [True, False])
def test_every_kind_of_value_on_every_line(token: str, strict: bool):
    for page_format, text in PAGES:
        for line in range(text.count("\n")):
            changed = edited(text, [("value", line, token)])
            check_sequence([text.encode(), changed.encode()], page_format, strict)


# What breaks a rule about values only: the series and comments are those of the page before.
BROKEN_VALUES = [
    ("requests_total{path", "5 #", "-5 #", "cannot be negative"),
    ("sizes_bucket", '"0.1"} 1', '"0.1"} NaN', "cannot be NaN"),
    ("sizes_bucket", '"0.1"} 1', '"0.1"} 1.5', "whole number"),
    ("sizes_bucket", '"0.1"} 1', '"0.1"} 3', "less than the bucket before"),
    ("sizes_count", "sizes_count 3", "sizes_count 4", "differs from the +Inf bucket"),
    ("sizes_sum", "sizes_sum 2.5", "sizes_sum -2.5", "cannot be negative"),
    ("depth_gsum", "depth_gsum 7", "depth_gsum -7", "cannot be negative"),
    ("lag{quantile", '"0.5"} 0.1', '"0.5"} -0.1', "cannot be negative"),
    ("lag_count", "lag_count 3", "lag_count 3.5", "whole number"),
    ("mode{", '"on"} 1', '"on"} 2', "must be 0 or 1"),
    ("build_info", '"1"} 1', '"1"} 0', "must be 1"),
]


@pytest.mark.parametrize(("series", "old", "new", "reason"), BROKEN_VALUES)
def test_a_value_against_openmetrics_rules_is_refused_on_the_next_page_too(
    series: str, old: str, new: str, reason: str
):
    parser = PageParser()
    parser.parse(OPENMETRICS.encode(), "openmetrics")
    changed = OPENMETRICS.replace(old, new, 1)
    assert changed != OPENMETRICS
    with pytest.raises(ParseError, match=re.escape(reason)) as error:
        parser.parse(changed.encode(), "openmetrics")
    assert changed.split("\n")[error.value.line - 1].startswith(series)
    assert outcome(PageParser(), changed.encode(), "openmetrics") == (str(error.value),)


def test_openmetrics_with_exemplars_that_come_and_go_is_not_read_whole():
    moved = re.sub(r' # \{trace="c"\} 0\.7', "", OPENMETRICS).replace('"b"} 0.5 17', '"other"} 1.5')
    assert (
        check_sequence([OPENMETRICS.encode(), moved.encode(), OPENMETRICS.encode()], "openmetrics", True) == 2
    )


def test_captured_pages_in_a_row():
    pages = [path.read_bytes() for path in sorted((FIXTURES / "vllm-live-mfu").iterdir())]
    for pair in pairwise(pages):
        check_sequence(list(pair), "text", True)
    assert check_sequence(pages, "text", True) == len(pages) - 2


@pytest.mark.parametrize("page_format", ["text", "openmetrics"])
@pytest.mark.parametrize(
    "text",
    [
        'a{b="' + '\\"' * 1_000_000,
        'a{b="' + "\\" * 1_000_001,
        "a{" + 'b="c",' * 200_000,
        "a " + "1" * 1_000_000 + "x\n",
        "a 1" + " # " * 300_000,
        "# HELP a " + "\\" * 1_000_000,
        '"' * 1_000_000,
        "\0" * 1_000_000,
        "# TYPE a histogram\na {count:[" + "1," * 500_000,
    ],
    ids=lambda text: text[:12],
)
@pytest.mark.timeout(20)  # a pattern that backtracks would take hours
def test_a_line_of_a_megabyte_takes_linear_time(text: str, page_format: Format):
    with pytest.raises(ParseError):
        PageParser().parse(text.encode(), page_format)


def test_a_body_of_numbers_longer_than_any_float_is_read():
    body = ("a 0." + "1" * 1_000_000 + "\n").encode()
    assert check_sequence([body, body], "text", True) == 1


@pytest.mark.parametrize(("page_format", "text"), PAGES)
def test_a_line_that_became_blank_is_not_taken_for_the_one_before(page_format: Format, text: str):
    lines = text.split("\n")
    for at in range(len(lines)):
        blanked = "\n".join([*lines[:at], "", *lines[at + 1 :]])
        check_sequence([text.encode(), blanked.encode()], page_format, strict=True)


@pytest.mark.parametrize("glued", ["b5 ", "b5", "b 5 ", "b\t5", "b  5", "bb 5", "b{} 5", "c 5"])
def test_a_line_that_only_begins_like_the_series_is_not_taken_for_it(glued: str):
    check_sequence(
        [b"a 1\nb 1\n", f"a 2\n{glued}\n".encode(), f"{glued}\nb 2\n".encode()], "text", strict=True
    )


def test_openmetrics_timestamps_that_vanish_put_the_buckets_into_one_histogram():
    timed = (
        "# TYPE a histogram\n"
        'a_bucket{le="1"} 1 1\na_bucket{le="+Inf"} 1 1\n'
        'a_bucket{le="2"} 1 2\na_bucket{le="+Inf"} 1 2\n'
        "# EOF\n"
    )
    untimed = re.sub(r" [12]\n", "\n", timed)
    parser = PageParser()
    parser.parse(timed.encode(), "openmetrics")
    with pytest.raises(ParseError, match="out of order"):
        parser.parse(untimed.encode(), "openmetrics")
