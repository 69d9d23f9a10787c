"""What a page yields: layouts, values, timestamps, labels, metadata, and the words of an error."""

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from collectors.exposition import NO_TIMESTAMP, Format, Page, PageParser, ParseError, format_of
from collectors.types import Metadata
from db.labels import Labels, labels_from
from db.nan import NORMAL_BITS, has_bits
from tests.collectors.pages import FIXTURES, format_of_file, name_of, real_pages


def parse(text: str, page_format: Format = "text") -> Page:
    return PageParser().parse(text.encode(), page_format)


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("text/plain; version=0.0.4; charset=utf-8", "text"),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", "openmetrics"),
        ("Application/OpenMetrics-Text", "openmetrics"),
        ("application/json", "text"),
        ("", "text"),
    ],
)
def test_format_by_content_type(content_type: str, expected: Format):
    assert format_of(content_type) == expected


def test_keys_values_and_labels():
    page = parse('up 1\nhttp_requests_total{code="200", method = "get" , empty=""} 1.5e3\n')
    assert page.layout.keys == ("up", 'http_requests_total{code="200", method = "get" , empty=""}')
    assert page.values.tolist() == [1.0, 1500.0]
    assert page.timestamps is None
    assert page.layout.labels(0) == (("__name__", "up"),)
    assert page.layout.labels(1) == (
        ("__name__", "http_requests_total"),
        ("code", "200"),
        ("method", "get"),
    )


def test_labels_are_unescaped_and_unknown_escapes_stay():
    page = parse(r'a{x="q\"b\\n\nz\t"} 1' + "\n")
    assert page.layout.labels(0) == (("__name__", "a"), ("x", 'q"b\\n\nz\\t'))


def test_quoted_names():
    page = parse('{"a.b","c d"="1",e="2"} 1\n')
    assert page.layout.labels(0) == (("__name__", "a.b"), ("c d", "1"), ("e", "2"))


def test_metadata_in_page_order():
    text = "# HELP b two\\nlines \\\\ \\x\n# TYPE b counter\nb 1\n# TYPE a untyped\n# HELP c only help\n"
    assert parse(text).layout.metadata == (
        Metadata("b", "counter", "two\nlines \\ \\x", ""),
        Metadata("a", "unknown", "", ""),
        Metadata("c", "unknown", "only help", ""),
    )


def test_openmetrics_metadata_has_the_unit():
    text = '# HELP a_seconds said \\"so\\"\n# TYPE a_seconds gauge\n# UNIT a_seconds seconds\n# EOF\n'
    assert parse(text, "openmetrics").layout.metadata == (
        Metadata("a_seconds", "gauge", 'said "so"', "seconds"),
    )


def test_every_nan_has_the_bits_that_prometheus_stores():
    parser = PageParser()
    for body in (b"a NaN\nb nan\nc 1\n", b"a 1\nb NAN\nc NaN\n"):
        values = parser.parse(body, "text").values
        assert np.array_equal(np.isnan(values), has_bits(values, NORMAL_BITS))
        assert np.isnan(values).sum() == 2


def test_text_timestamps_are_milliseconds():
    page = parse("a 1 1700000000123\nb 2\nc 3 -5\n")
    assert page.timestamps is not None
    assert page.timestamps.tolist() == [1700000000123, NO_TIMESTAMP, -5]


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [
        ("1700215884.373", 1700215884373),  # times 1000 it is ...372.9999 in float64
        ("1.1", 1100),
        ("0.0019", 1),
        ("-1.5", -1500),
        ("12345678901234567890.1234567890", 2**63 - 1),
    ],
)
def test_openmetrics_timestamps_are_cut_to_milliseconds(seconds: str, milliseconds: int):
    page = parse(f"a 1 {seconds}\n# EOF\n", "openmetrics")
    assert page.timestamps is not None
    assert page.timestamps.tolist() == [milliseconds]


def test_a_repeated_series_keeps_both_lines():
    page = parse('a{x="1"} 1\na{x="1"} 2\n')
    assert page.layout.keys == ('a{x="1"}', 'a{x="1"}')
    assert page.values.tolist() == [1.0, 2.0]


def test_exemplars_and_native_histograms_yield_no_sample_of_their_own():
    page = parse(
        "# TYPE a counter\n"
        'a_total 5 # {trace_id="x"} 0.5 1700000000\n'
        "# TYPE h histogram\n"
        "h {count:4,sum:6,schema:3,zero_threshold:2.9e-39,zero_count:1,"
        "positive_spans:[0:1,7:1],positive_deltas:[1,0]}\n"
        "# EOF\n",
        "openmetrics",
    )
    assert page.layout.keys == ("a_total",)
    assert page.values.tolist() == [5.0]


def test_the_layout_stays_the_same_object_while_series_and_order_stay():
    parser = PageParser()
    first = parser.parse(b'# TYPE a gauge\na{x="1"} 1\nb 2\n', "text").layout
    assert parser.parse(b'# TYPE a gauge\na{x="1"} 7\nb NaN\n', "text").layout is first
    assert parser.parse(b'# TYPE a gauge\na{x="1"}  7\nb 2 17\n', "text").layout is first  # read whole
    assert parser.parse(b'# TYPE a gauge\nb 2\na{x="1"} 1\n', "text").layout is not first
    assert parser.parse(b'# TYPE a counter\nb 2\na{x="1"} 1\n', "text").layout.metadata[0].type == "counter"


def test_only_a_page_that_is_not_the_previous_one_with_new_values_is_read_whole():
    parser = PageParser()
    pages = [path.read_bytes() for path in sorted((FIXTURES / "vllm-live").iterdir())]
    layouts = {id(parser.parse(page, "text").layout) for page in pages}
    assert parser.whole_parses == len(layouts) == 2


def test_the_last_good_page_is_remembered_across_a_bad_one():
    parser = PageParser()
    layout = parser.parse(b"a 1\nb 2\n", "text").layout
    with pytest.raises(ParseError):
        parser.parse(b"a 1\nb x\n", "text")
    page = parser.parse(b"a 3\nb 4\n", "text")
    assert page.layout is layout
    assert page.values.tolist() == [3.0, 4.0]


def test_an_error_names_the_line_and_quotes_shortened():
    text = "".join(f'a{{i="{i}"}} {i}\n' for i in range(3999)) + "a{x=" + "\x1b[2J" * 1000 + "\n"
    with pytest.raises(ParseError) as error:
        parse(text)
    assert error.value.line == 4000
    assert error.value.reason.startswith("expected a quoted value of label 'x', got '\\x1b[2J")
    assert len(str(error.value)) < 400
    assert str(error.value) == f"line 4000: {error.value.reason}"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"a 1\nb\n", "line 2: expected a value after the series 'b'"),
        (b"a 1\r\n", "line 1: expected a number as value, got '1\\r' (lines end with a line feed alone"),
        (b"a 1\n\x1f\x8b\x08", "line 2: not UTF-8 text: byte 0x8b at offset 5"),
        (b"a 1 2.5\n", "line 1: expected nothing but a timestamp in milliseconds after the value"),
        (
            b"a 1 99999999999999999999\n",
            "line 1: the timestamp in ' 1 99999999999999999999' is no 64-bit number",
        ),
        (b'a{b="1"', "line 1: expected a label name, got nothing"),
        (b"a.b 1\n", "line 1: '.b 1' cannot follow the metric name 'a'"),
        (b"# TYPE a foo\n", "line 1: expected counter, gauge, histogram, summary or untyped, got ' foo'"),
        (b"a 1\nb 2", "line 2: the page does not end with a line feed: it may have been cut short"),
        (b"<!DOCTYPE html>\n<html>\n", "line 1: expected a metric name, got '<!DOCTYPE html>'"),
    ],
)
def test_error_sentences(body: bytes, message: str):
    with pytest.raises(ParseError) as error:
        PageParser().parse(body, "text")
    assert str(error.value).startswith(message)


# prometheus_client refuses a sum beside negative buckets.
BOTH_READ = [path for path in real_pages() if name_of(path) != "prometheus/alltypes.5mfs.om.txt"]


@pytest.mark.parametrize("path", BOTH_READ, ids=name_of)
def test_labels_and_values_equal_those_of_prometheus_client(path):
    text, page_format = path.read_text(), format_of_file(path)
    page = PageParser(strict=False).parse(text.encode(), page_format)
    families = list((read_openmetrics if page_format == "openmetrics" else read_text)(text))
    expected: list[tuple[Labels, float]] = []
    for family in families:
        for sample in family.samples:
            # prometheus_client renames a text page's counter to end in _total
            name = sample.name if sample.name in text else sample.name.removesuffix("_total")
            expected.append((labels_from(sample.labels, name), float(sample.value)))
    found = [(page.layout.labels(at), value) for at, value in enumerate(page.values.tolist())]
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
