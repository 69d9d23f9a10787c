"""A rendered page says the same as the families: to prometheus_client's parser and to promtool."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from collectors.expose import render
from collectors.types import Family, MetricType, Sample
from tests.promtool_lint import lints

names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True)
label_names = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,6}", fullmatch=True)
# What UTF-8 can carry; control characters, quotes and backslashes included.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values = st.floats() | st.integers(-(2**63), 2**63).map(float)


@st.composite
def plain_families(draw: st.DrawFn) -> list[Family]:
    families = []
    for name in draw(st.lists(names, unique=True, max_size=4)):
        type_: MetricType = draw(st.sampled_from(["counter", "gauge", "unknown"]))
        if type_ == "counter":
            name += "_total"  # the oracle adds it to a counter that has none
        labels = draw(st.lists(label_names, unique=True, max_size=3))
        samples = tuple(
            Sample(
                name,
                tuple((label, draw(texts)) for label in labels),
                draw(values),
                draw(st.none() | st.integers(0, 2**42)),
            )
            for _ in range(draw(st.integers(1, 3)))
        )
        families.append(Family(name, type_, draw(texts), samples))
    return families


def _bits(value: float) -> bytes:
    return struct.pack("<d", math.nan if math.isnan(value) else value)


def _key(name: str, labels: dict[str, str], value: float, timestamp: float | None) -> tuple[object, ...]:
    milliseconds = -1 if timestamp is None else round(timestamp * 1000)
    return name, tuple(sorted(labels.items())), _bits(value), milliseconds


@given(plain_families())
def test_page_parses_back_to_the_same_samples(families: list[Family]):
    expected = sorted(
        _key(s.name, dict(s.labels), s.value, None if s.timestamp_ms is None else s.timestamp_ms / 1000)
        for f in families
        for s in f.samples
    )
    parsed = sorted(
        _key(s.name, s.labels, s.value, None if s.timestamp is None else float(s.timestamp))
        for f in text_string_to_metric_families(render(families))
        for s in f.samples
    )
    assert parsed == expected


def _one(type_: MetricType, *names_and_values: tuple[str, float], name: str = "x", help: str = "H") -> Family:
    return Family(name, type_, help, tuple(Sample(n, (), v) for n, v in names_and_values))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0.0"),
        (1e6, "1000000"),
        (0.1, "0.1"),
        (1e22, "1e+22"),
        (2.0**63, "9.223372036854776e+18"),
        (5e-324, "5e-324"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_number_is_written_as_short_as_it_reads_back(value: float, text: str):
    assert render([_one("gauge", ("x", value))]) == f"# HELP x H\n# TYPE x gauge\nx {text}\n"


def test_hostile_text_stays_inside_its_quotes():
    hostile = 'a"} 1\n# TYPE y counter\ny 2\\'
    page = render([Family("x", "gauge", "line\nbreak \\", (Sample("x", (("l", hostile),), 1.0),))])
    assert page == (
        '# HELP x line\\nbreak \\\\\n# TYPE x gauge\nx{l="a\\"} 1\\n# TYPE y counter\\ny 2\\\\"} 1\n'
    )


def test_half_a_character_does_not_spoil_the_page():
    page = render([Family("x", "gauge", "", (Sample("x", (("path", "bad\udcff"),), 1.0),))])
    assert page.encode() == b'# TYPE x gauge\nx{path="bad?"} 1\n'


def test_name_that_would_break_the_page_is_refused_with_its_name():
    with pytest.raises(ValueError, match="'x 1' is no metric name"):
        render([_one("gauge", ("x 1", 1))])
    with pytest.raises(ValueError, match="'a-b' is no label name"):
        render([Family("x", "gauge", "", (Sample("x", (("a-b", "v"),), 1.0),))])


def test_families_of_one_name_become_one_block_at_the_place_of_the_first():
    a = Family("x", "gauge", "first", (Sample("x", (("from", "a"),), 1.0),))
    b = _one("counter", ("y_total", 2), name="y_total")
    c = Family("x", "gauge", "second", (Sample("x", (("from", "c"),), 3.0),))
    assert render([a, b, c]) == (
        '# HELP x first\n# TYPE x gauge\nx{from="a"} 1\nx{from="c"} 3\n'
        "# HELP y_total H\n# TYPE y_total counter\ny_total 2\n"
    )


def test_family_without_samples_or_help_prints_no_empty_lines():
    assert render([_one("gauge")]) == ""
    assert render([_one("gauge", ("x", 1), help="")]) == "# TYPE x gauge\nx 1\n"


def test_openmetrics_counter_is_named_after_its_series():
    page = render([_one("counter", ("x_total", 1), ("x_created", 1.5e9))])
    assert (
        page == "# HELP x_total H\n# TYPE x_total counter\nx_total 1\n"
        "# HELP x_created H\n# TYPE x_created gauge\nx_created 1500000000\n"
    )


@pytest.mark.parametrize(
    ("type_", "series", "headings"),
    [
        ("unknown", ["x"], ["x untyped"]),
        ("info", ["x_info"], ["x_info gauge"]),
        ("stateset", ["x"], ["x gauge"]),
        ("histogram", ["x_bucket", "x_sum", "x_count", "x_created"], ["x histogram", "x_created gauge"]),
        ("summary", ["x", "x_sum", "x_count"], ["x summary"]),
        (
            "gaugehistogram",
            ["x_bucket", "x_gsum", "x_gcount"],
            ["x histogram", "x_gsum gauge", "x_gcount gauge"],
        ),
    ],
)
def test_every_type_has_a_heading_that_the_format_knows(
    type_: MetricType, series: list[str], headings: list[str]
):
    page = render([_one(type_, *((name, 1.0) for name in series))])
    assert [line.removeprefix("# TYPE ") for line in page.splitlines() if "TYPE" in line] == headings


def test_promtool_reads_a_page_with_every_type():
    def labelled(name: str, value: float, **labels: str) -> Sample:
        return Sample(name, tuple(labels.items()), value)

    families = [
        _one("counter", ("a_total", 1), name="a"),
        _one("gauge", ("b_bytes", math.nan), ("b_bytes", 1), name="b_bytes"),
        _one("unknown", ("c", -math.inf), name="c"),
        Family("d", "info", "H", (labelled("d_info", 1, version='1"\\\n'),)),
        Family("e", "stateset", "H", (labelled("e", 1, e="on"), labelled("e", 0, e="off"))),
        Family(
            "f_seconds",
            "histogram",
            "H",
            (
                labelled("f_seconds_bucket", 1, le="0.1"),
                labelled("f_seconds_bucket", 2, le="+Inf"),
                labelled("f_seconds_sum", 3),
                labelled("f_seconds_count", 2),
            ),
        ),
        Family(
            "g_seconds",
            "summary",
            "H",
            (
                labelled("g_seconds", 1, quantile="0.5"),
                labelled("g_seconds_sum", 3),
                labelled("g_seconds_count", 2),
            ),
        ),
        Family("h", "gaugehistogram", "H", (labelled("h_bucket", 1, le="+Inf"), labelled("h_gcount", 1))),
    ]
    assert lints(render(families)) == frozenset()


def test_lint_of_promtool_is_told_by_metric():
    assert ("x", 'counter metrics should have "_total" suffix') in lints(render([_one("counter", ("x", 1))]))


def test_page_that_promtool_cannot_parse_fails_the_comparison():
    with pytest.raises(AssertionError, match="promtool: error while linting"):
        lints("x{ 1\n")
