"""Whatever a file looks like, an import stores what reading it line by line would give, bit for bit."""

import gzip
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from collectors import backfill
from collectors.backfill import ImportStopped
from db.labels import labels_from
from db.records import MetricMetadata
from tests.collectors.backfill_files import NOW_MS, Memory, bits, expected, imported

KEYS = [
    "foo",
    "foo_bar",
    "inf",
    "e",
    'foo{a="1"}',
    'foo{a="1",b="2"}',
    'foo{b="2",a="1"}',
    'foo{b="2",a="1",}',
    'foo{a=" 1 2"}',
    'foo{a="}\\" 3 # {"}',
    'foo{a=""}',
    '{"sp ace",a="é"}',
]
VALUES = [
    *("0", "-0", "-0.0", "1", "-17", "+5", "007", ".5", "5.", "1e3", "1.0267820369e+10", "1E-400", "5e-324"),
    *(
        "NaN",
        "nan",
        "+Inf",
        "-Inf",
        "inf",
        "9007199254740993",
        "18446744073709551616",
        "123456789012345678901",
    ),
    *("0.1", "51.182", "1.7976931348623157e308", "2.2250738585072011e-308", "0.30000000000000004"),
]
TIMES = [
    *("0", "0.000", "1", "1700000000", "1700000000.5", "1700215884.373", "1700215884.3739", "1.7e9"),
    *("1700215884.3736", "1700215884.3735", "1700215884.37349996", "1799999999.999", "1800000600", "+12"),
]
EXTRAS = ["", "", "", ' # {trace="x y"} 4 5', " # {} 4"]


@st.composite
def files(draw):
    """Lines in series-major, page-major or no order, with comments, oddities and repeated times."""
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=6))
    rounds = draw(st.integers(1, 12))
    order = [key for key in keys for _ in range(rounds)] if draw(st.booleans()) else keys * rounds
    value = st.one_of(st.sampled_from(VALUES), st.floats().map(repr))
    plain = draw(st.booleans())
    lines = []
    for key in order:
        if not plain and draw(st.integers(0, 9)) == 0:
            key = draw(st.sampled_from(KEYS))
        time = draw(st.sampled_from(TIMES) | st.integers(0, NOW_MS).map(lambda ms: f"{ms / 1000:.3f}"))
        extra = "" if plain else draw(st.sampled_from(EXTRAS))
        lines.append(f"{key} {draw(value)} {time}{extra}")
        if not plain and draw(st.integers(0, 9)) == 0:
            lines.append(
                draw(st.sampled_from(["# TYPE foo counter", "# HELP foo What 1 2", "# TYPE e gauge"]))
            )
    return lines


@settings(max_examples=300, deadline=None)
@given(files(), st.integers(1, 40), st.sampled_from([40, 150, 1 << 19]))
@example(["foo 1 1", "foo 2 2", "# TYPE foo gauge", "foo 3 3"], 100, 1 << 19)
@example(["foo 1 1", "foo_bar 2 1", "foo 1 2", "foo_bar 2 2", "foo 1 3", "foo{} 2 3"], 100, 1 << 19)
def test_an_import_is_what_its_lines_say(lines, batch, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backfill, "_BLOCK_BYTES", block)
        sink, done = imported("\n".join([*lines, "# EOF\n"]), batch=batch)
    wanted = expected(lines)
    assert sink.samples == wanted
    assert done.series == len({labels for labels, _ in wanted})
    times = [at_ms for _, at_ms in wanted]
    assert (done.start_ms, done.end_ms) == (min(times), max(times))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(), st.integers(0, NOW_MS)), min_size=1, max_size=60))
def test_numbers_are_read_together_as_float_reads_them(samples):
    lines = [f"foo {value!r} {at_ms / 1000!r}" for value, at_ms in samples]
    sink, _ = imported("\n".join([*lines, "# EOF"]))
    assert sink.samples == expected(lines)


def test_a_second_of_the_same_series_and_time_wins_across_batches():
    lines = ["foo 1 5", "foo 2 6", "foo 3 5", "bar 1 5", "foo 4 5"]
    for batch in (1, 2, 3, 100):
        sink, _ = imported("\n".join([*lines, "# EOF"]), batch=batch)
        assert sink.samples[labels_from({}, "foo"), 5000] == bits(4.0)


def test_series_beyond_the_bound_are_forgotten_and_met_again(monkeypatch):
    monkeypatch.setattr(backfill, "_KNOWN_SERIES", 3)
    monkeypatch.setattr(backfill, "_BLOCK_BYTES", 30)
    lines = [f"foo{number % 7} {number} {number}" for number in range(50)]
    sink, done = imported("\n".join([*lines, "# EOF"]))
    assert sink.samples == expected(lines)
    assert done.series == 7


def test_metadata_is_stored_as_a_scrape_stores_it():
    text = (
        '# TYPE foo_seconds counter\n# HELP foo_seconds Says \\"it\\".\n# UNIT foo_seconds seconds\n'
        "foo_seconds_total 1 5\n# HELP bare No type.\nbare 2 5\n# EOF\n"
    )
    sink, _ = imported(text)
    assert sink.metadata == [
        MetricMetadata("foo_seconds", "counter", 'Says "it".', "seconds"),
        MetricMetadata("bare", "unknown", "No type.", ""),
    ]


def test_gzip_is_read_as_it_comes():
    text = "foo 1 5\n# EOF\n"
    sink, done = imported(gzip.compress(text.encode()))
    assert (done.samples, len(sink.samples)) == (1, 1)


def test_a_file_without_samples():
    sink, done = imported("# EOF")
    assert (done.samples, done.series, done.start_ms, done.end_ms, sink.loads) == (0, 0, None, None, 0)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("foo 1", "no timestamp"),
        ('foo{a="b c"} 1', "no timestamp"),
        ("foo", "expected a value"),
        ("foo {count:1,sum:2,schema:0,zero_threshold:0,zero_count:0}", "a native histogram"),
        ("foo x 5", "expected a number as value"),
        ("foo 1_0 5", "expected a number as value"),
        ("foo 1 x", "expected a timestamp in seconds"),
        ("foo 1 NaN", "expected a timestamp in seconds"),
        ("foo 1 -5", "before 1970"),
        ("foo 1 1800000600.001", "more than 10 minutes ahead"),
        ("foo 1 1700000000000", "more than 10 minutes ahead"),
        ("foo 1 5 6", "expected one space"),
        ("foo  1 5", "expected one space"),
        ("foo 1 5 ", "expected one space"),
        ("foo\t1 5", "cannot follow"),
        ("foo 1 5\r", "lines end with a line feed alone"),
        ('foo{a="1",a="2"} 1 5', "given twice"),
        ('foo{a="1} 1 5', "expected a quoted value"),
        ('{a="1"} 1 5', "no metric name"),
        ("foo 1e999 5", "expected a number as value"),
        ("# TYPE foo nonsense", "expected one of"),
        ("# a comment", "only HELP, TYPE, UNIT and EOF"),
        ("", "a blank line"),
        ("# EOF", "text after # EOF"),
        ('foo 1 5 # {a="b} 1', "in the exemplar"),
        (b'foo{a="\xff"} 1 5', "not UTF-8"),
        (b"foo \xff 5", "not UTF-8"),
        (b"# HELP foo \xff", "not UTF-8"),
    ],
)
@pytest.mark.parametrize("around", ["alone", "pages", "series", "blocks"])
def test_a_bad_line_ends_the_import_and_is_named(bad, said, around, monkeypatch):
    good = [f"foo {n}.5 {n}" for n in range(70)] if around == "series" else []
    if around in ("pages", "blocks"):
        good = [f"{name} 1 {n}" for n in range(30) for name in ("foo", "bar", 'foo{a="b"}')]
    if around == "blocks":
        monkeypatch.setattr(backfill, "_BLOCK_BYTES", 64)
    text = "\n".join(good).encode() + (b"\n" if good else b"")
    text += (bad.encode() if isinstance(bad, str) else bad) + b"\nfoo 9 9\n# EOF\n"
    sink = Memory()
    with pytest.raises(ImportStopped) as stopped:
        imported(text, batch=50, sink=sink)
    # Behind the end mark it is the next line that is too much.
    assert stopped.value.line == len(good) + (2 if bad == "# EOF" else 1)
    assert said in stopped.value.reason
    assert stopped.value.stored.samples == len(good) == len(sink.samples)
    assert sink.samples == expected(good)


@pytest.mark.parametrize("text", ["", "foo 1 5\n", "foo 1 5", "foo 1 5\n# EO"])
def test_a_file_without_its_end_was_cut_short(text):
    with pytest.raises(ImportStopped):
        imported(text)


def test_a_damaged_archive_keeps_what_stood_before():
    lines = "\n".join(f"foo {math.sin(n)} {n}" for n in range(200_000))
    with pytest.raises(ImportStopped, match="damaged or cut short"):
        imported(gzip.compress(lines.encode())[:-100_000])


def test_an_endless_line_is_refused_without_being_held(monkeypatch):
    monkeypatch.setattr(backfill, "_LINE_BYTES", 1 << 16)
    monkeypatch.setattr(backfill, "_BLOCK_BYTES", 1 << 12)
    with pytest.raises(ImportStopped, match="a line of more than") as stopped:
        imported(b"foo 1 5\n" + b"x" * 1_000_000)
    assert stopped.value.line == 2
