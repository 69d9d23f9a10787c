"""Which pages are accepted: the conformance cases, every captured page, what Prometheus's scraper reads."""

import json
from pathlib import Path
from typing import Any

import pytest

from collectors.exposition import Format, PageParser, ParseError
from tests.collectors.pages import FIXTURES, format_of_file, name_of, real_pages

Case = tuple[str, Format, bool]


def cases_of(path: str) -> Any:
    return json.loads((FIXTURES / path).read_text(encoding="utf-8"))


def openmetrics_suite() -> list[Any]:
    return [
        pytest.param((case["text"], "openmetrics", case["shouldParse"]), id=case["name"])
        for case in cases_of("openmetrics-parsers/cases.json")
    ]


def prometheus_common() -> list[Any]:
    return [
        pytest.param((case["text"], "text", case["parses"]), id=case["name"])
        for case in cases_of("prometheus-common/corpus.json")
    ]


def client_python() -> list[Any]:
    files: dict[str, Format] = {
        "tests/test_parser.py": "text",
        "tests/openmetrics/test_parser.py": "openmetrics",
    }
    return [
        pytest.param(
            (case["text"], page_format, case["parses_in_client_python"]),
            id=f"{page_format}-{number}-{case['test']}",
        )
        for file, page_format in files.items()
        for number, case in enumerate(cases_of("client_python/parser-cases.json")[file])
    ]


def accepts(text: str, page_format: Format, *, strict: bool = True) -> bool:
    try:
        PageParser(strict=strict).parse(text.encode(), page_format)
    except ParseError:
        return False
    return True


@pytest.mark.parametrize("case", openmetrics_suite())
def test_openmetrics_suite_verdict(case: Case):
    text, page_format, expected = case
    assert accepts(text, page_format) is expected


@pytest.mark.parametrize("case", prometheus_common())
def test_prometheus_common_verdict(case: Case):
    text, page_format, expected = case
    assert accepts(text, page_format) is expected


@pytest.mark.parametrize("case", client_python())
def test_client_python_verdict(case: Case):
    text, page_format, expected = case
    assert accepts(text, page_format) is expected


def test_no_case_is_left_out():
    assert len(openmetrics_suite()) == 211
    assert len(prometheus_common()) == 26
    assert len(client_python()) == 39 + 237


# Prometheus's own benchmark page keeps a sum beside negative buckets and a negative summary sum. The suite's
# bad_histograms_3 and bad_counter_values_17 refuse exactly that, Prometheus's scraper reads it.
ONLY_AS_THE_SCRAPER = {"prometheus/alltypes.5mfs.om.txt": "a sum, which negative buckets forbid"}


@pytest.mark.parametrize("path", real_pages(), ids=name_of)
def test_every_captured_page_is_read(path: Path):
    body, page_format = path.read_bytes(), format_of_file(path)
    sample_lines = sum(1 for line in body.splitlines() if line.strip() and not line.startswith(b"#"))
    assert len(PageParser(strict=False).parse(body, page_format).values) == sample_lines
    if name_of(path) in ONLY_AS_THE_SCRAPER:
        with pytest.raises(ParseError, match=ONLY_AS_THE_SCRAPER[name_of(path)]):
            PageParser().parse(body, page_format)
    else:
        assert len(PageParser().parse(body, page_format).values) == sample_lines


@pytest.mark.parametrize(
    ("name", "message", "scraper_reads_it"),
    [
        ("a100-mig-4-active", "line 1: expected a metric name, got '4 Active Workloads'", False),
        ("a100-mig-disabled", "line 1: expected a number as value, got 'mig'", False),
        ("a100-mig-mixed", "line 1: expected a number as value, got '2*1g.5gb'", False),
        ("t4x2-k8s-fraction", "line 76: the page does not end with a line feed", True),
    ],
)
def test_pages_with_a_stray_header_or_no_end_name_the_line(name: str, message: str, scraper_reads_it: bool):
    body = (FIXTURES / f"dcgm/raw-with-stray-header/{name}.ini").read_bytes()
    with pytest.raises(ParseError) as error:
        PageParser().parse(body, "text")
    assert str(error.value).startswith(message)
    assert accepts(body.decode(), "text", strict=False) is scraper_reads_it


# What the conformance data refuse and Prometheus's scraper accepts (tried with Prometheus 2.42).
REFUSED_ONLY_WHEN_STRICT: list[tuple[str, Format]] = [
    ("a 1", "text"),
    ("a 1\n# bye", "text"),
    ("# HELP a x\n# HELP a y\na 1\n", "text"),
    ("# TYPE a gauge\n# TYPE a counter\na 1\n", "text"),
    ("a 1\n# TYPE a gauge\n", "text"),
    ('# TYPE a histogram\na_bucket{le="x"} 1\n', "text"),
    ('# TYPE a summary\na{quantile="x"} 1\n', "text"),
    ("# TYPE a counter\na 1\n# EOF\n", "openmetrics"),
    ("# TYPE a counter\na_total -1\n# EOF\n", "openmetrics"),
    ("# TYPE a gauge\n# TYPE a gauge\n# EOF\n", "openmetrics"),
    ('# TYPE a histogram\na_bucket{le="1"} 1\n# EOF\n', "openmetrics"),
    ("a 1\nb 1\na 2\n# EOF\n", "openmetrics"),
]


@pytest.mark.parametrize(("text", "page_format"), REFUSED_ONLY_WHEN_STRICT)
def test_rules_that_the_scraper_does_not_know_are_given_up_when_not_strict(text: str, page_format: Format):
    assert not accepts(text, page_format)
    assert accepts(text, page_format, strict=False)


# Verdicts of Prometheus 2.42's scraper: is a target that shows this page up?
SCRAPER_VERDICTS: list[tuple[str, bool]] = [
    ("", True),
    ("\n", True),
    ("a 1\n\n   \nb 2\n", True),
    ("a 1 \n", True),
    ("a\t1\n", True),
    ("a 1 5\n", True),
    ("a 1 5 \n", True),
    ("a 1 +5\n", False),
    ("a 1 5.0\n", False),
    ("a 1 9223372036854775807\n", True),
    ("a 1 9223372036854775808\n", False),
    ("a 1 99999999999999999999\n", False),
    ("a +5\n", True),
    ("a .5\n", True),
    ("a 5.\n", True),
    ("a 0x10\n", False),
    ("a 0x1p4\n", False),
    ("a 1_0\n", False),
    ("a ٣\n", False),
    ("a inf\n", True),
    ("a -iNf\n", True),
    ("a Infinity\n", True),
    ("a infi\n", False),
    ("a NAN\n", True),
    ("a -nan\n", False),
    ("a +nan\n", False),
    ("a 1e999\n", False),
    ("a 1e-999\n", True),
    ("a 1\r\n", False),
    ("# TYPE a gauge\r\na 1\n", False),
    ("# HELP a x\r\na 1\n", True),
    ("\ufeffa 1\n", False),
    ('a{b="c",} 1\n', True),
    ('a{b="c",,} 1\n', False),
    ('a{,b="c"} 1\n', False),
    ('a{b="c" d="e"} 1\n', True),
    ('a{b="c"}1\n', True),
    ("a1\n", False),
    ('a{b="c"} 1 # {x="y"} 1\n', False),
    (r'a{b="\x"} 1' + "\n", True),
    ('a{b="c",b="d"} 1\n', False),
    ('a{__name__="b"} 1\n', False),
    ('{__name__="b"} 1\n', False),
    ("{} 1\n", False),
    ('a {b="c"} 1\n', True),
    ('a{b="é"} 1\n', True),
    ("é 1\n", False),
    ('a{é="x"} 1\n', False),
    ('a{b:c="d"} 1\n', False),
    ("# TYPE a\n", False),
    ("# TYPE a GAUGE\n", False),
    ("# TYPE a unknown\n", False),
    ("# TYPE a gauge \n", False),
    ("# TYPE a.b gauge\n", False),
    ("# HELP a.b x\n", True),
    ("# HELP 3a x\n", False),
    ("# HELP\n", True),
    ("#TYPE 3 x\n", True),
    ("# EOF\na 1\n", True),
    ("# UNIT a x\na 1\n", True),
    ("a 1\na 2\n", True),
    ("  # TYPE a gauge\n", True),
    ('a{b="x\0y"} 1\n', True),
    ("# HELP a x\0y\na 1\n", True),
    ("a\0 1\n", False),
    ("a 1\0\n", False),
    # Not followed: the scraper stops reading at a NUL that starts a line and loses the rest in silence; it
    # reads a line break inside a label value (prometheus/common's error_2 refuses it) and bytes that are not
    # UTF-8 in a comment that is neither HELP nor TYPE.
]


@pytest.mark.parametrize(("text", "up"), SCRAPER_VERDICTS)
@pytest.mark.parametrize("strict", [True, False])
def test_text_verdict_is_that_of_prometheus_scraper(text: str, up: bool, strict: bool):
    assert accepts(text, "text", strict=strict) is up


# Accepted because a conformance case demands it, although Prometheus 2.42's scraper refuses it.
ACCEPTED_FOR_THE_DATA: list[tuple[str, Format]] = [
    ("# TYPE  a  counter\na 1\n", "text"),  # client_python test_extra_whitespace
    ("a{,} 1\n", "text"),  # client_python test_commas
    ("a 1 -5\n", "text"),  # prometheus/common from_test_parse_3
    ("# HELP \n", "text"),  # same
    ('{"a.b",x="y"} 1\n', "text"),  # Prometheus 3
    ('# TYPE "a.b" gauge\n', "text"),  # Prometheus 3
    ('{"a.b", x="y"} 1\n# EOF\n', "openmetrics"),  # client_python test_utf8_histogram_float_values
    (  # client_python test_native_histogram
        "# TYPE a histogram\na {count:1,sum:1,schema:0,zero_threshold:0,zero_count:1}\n# EOF\n",
        "openmetrics",
    ),
]


@pytest.mark.parametrize(("text", "page_format"), ACCEPTED_FOR_THE_DATA)
def test_accepted_beyond_the_scraper(text: str, page_format: Format):
    assert accepts(text, page_format)
    assert accepts(text, page_format, strict=False)


# Rules the suites state only together with another fault, alone here.
RULES: list[tuple[str, str]] = [
    ('# TYPE a gauge\na{b="1"} 0\na{b="2"} 0\na{b="1"} 0\n', "not in one piece"),
    (
        '# TYPE a gaugehistogram\na_bucket{le="+Inf"} 1\na_gcount 1\na_gsum -1\n',
        "'a_gsum' cannot be negative",
    ),
    ('# TYPE a histogram\na_bucket{le="+Inf"} 1\na_count 2\na_sum 1\n', "'a_count' differs from the \\+Inf"),
    ('# TYPE a histogram\na_bucket{le="+Inf"} Inf\n', "whole number"),
    ('# TYPE a histogram\na_bucket{le="1_0"} 1\na_bucket{le="+Inf"} 1\n', "number or \\+Inf as le"),
    (
        '# TYPE a histogram\na_bucket{b="1",le="1"} 1\na_bucket{b="2",le="+Inf"} 1\n',
        "has no \\+Inf bucket",
    ),
    ("# TYPE a histogram\na {count:x,sum:1,schema:0,zero_threshold:0,zero_count:1}\n", "native histogram"),
    ("# TYPE a gauge\na {count:1,sum:1,schema:0,zero_threshold:0,zero_count:1}\n", "outside a histogram"),
    ('# TYPE a counter\na_total{b="\\"",c="1"} 1\na_total{b="\\"",c="1"} -1\n', "cannot be negative"),
    ("a 1 1\na 1\n", "with and without timestamp"),
    ("a 1 2\na 1 1\n", "go back"),
]


@pytest.mark.parametrize(("text", "message"), RULES)
def test_openmetrics_rule(text: str, message: str):
    with pytest.raises(ParseError, match=message):
        PageParser().parse(f"{text}# EOF\n".encode(), "openmetrics")


def test_a_bucket_given_twice_is_no_part_of_the_histogram():
    text = '# TYPE a histogram\na_bucket{le="1"} 1\na_bucket{le="1"} 7\na_bucket{le="+Inf"} 2\n# EOF\n'
    assert accepts(text, "openmetrics")


def test_reordered_labels_and_escapes_are_the_same_group():
    text = 'a{b="1",c="\\""} 1\nb 1\n# EOF\n'
    assert accepts(text, "openmetrics")
    assert not accepts('a{b="1",c="2"} 1\na{b="2",c="2"} 1\na{c="2",b="1"} 1\n# EOF\n', "openmetrics")
