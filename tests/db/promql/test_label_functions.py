import pytest

from db.promql.errors import ExecutionError
from tests.db.promql.function_calls import called, labels, shown, vector

TWO = {
    labels("m", src="source-value-10", dst="original"): [0.0],
    labels("m", src="source-value-20", dst="original"): [1.0],
}


def replaced(series, *texts, grid=(0,)):
    return shown(called("label_replace", vector(series), *texts, grid=grid)[0])


def one(replacement, source_text, pattern):
    """The label that a series with src="..." gets."""
    [found] = replaced({labels("m", src=source_text): [1.0]}, "dst", replacement, "src", pattern)
    return dict(found).get("dst")


def destinations(found):
    return [dict(row).get("dst") for row in found]


# Prometheus's functions.test.
def test_the_whole_text_has_to_match():
    assert destinations(replaced(TWO, "dst", "to-$1", "src", "source-value-(.*)")) == ["to-10", "to-20"]
    assert replaced(TWO, "dst", "to-$1", "src", "value-(.*)") == shown(vector(TWO))


def test_only_matching_series_are_changed():
    found = replaced(TWO, "dst", "to-$1", "src", "source-value-(1.)")
    assert destinations(found) == ["to-10", "original"]
    assert list(found.values()) == [[0.0], [1.0]]


def test_a_missing_source_is_an_empty_text():
    assert destinations(replaced(TWO, "dst", "to-$1", "none", "x(.*)")) == ["original", "original"]
    assert destinations(replaced(TWO, "dst", "to-$1", "none", "(.*)")) == ["to-", "to-"]


def test_an_empty_replacement_removes_the_label():
    assert destinations(replaced(TWO, "dst", "", "dst", ".*")) == [None, None]


def test_an_emptied_label_is_none():
    series = {labels("m", a="1"): [1.0], labels("m"): [2.0]}
    with pytest.raises(ExecutionError, match="same labelset"):
        replaced(series, "a", "", "a", "1")
    with pytest.raises(ExecutionError, match="same labelset"):
        called("label_join", vector(series), "a", "", "none")


def test_a_label_may_be_its_own_source_and_the_name_may_be_either():
    assert one("$1", "a.b", r".*\.(.*)") == "b"
    found = replaced({labels("m", src="x"): [1.0]}, "__name__", "${1}_total", "__name__", "(.*)")
    assert found == {labels("m_total", src="x"): [1.0]}
    assert replaced({labels("m", src="x"): [1.0]}, "__name__", "", "src", "x") == {labels(src="x"): [1.0]}


def test_texts_that_were_there_and_new_ones_are_one_text():
    series = {labels("m", src="a", dst="b"): [1.0], labels("m", src="b", dst="c"): [2.0]}
    found = replaced(series, "dst", "c", "src", "a")
    assert destinations(found) == ["c", "c"]
    with pytest.raises(ExecutionError):
        replaced({labels("m", src="a"): [1.0], labels("m", src="b"): [2.0]}, "src", "b", "src", "a")


def test_series_that_become_equal_are_joined_unless_they_meet():
    apart = {labels("m", src="a"): [1.0, None], labels("m", src="b"): [None, 2.0]}
    assert replaced(apart, "src", "", "src", ".*", grid=(0, 1)) == {labels("m"): [1.0, 2.0]}
    with pytest.raises(ExecutionError, match=r"^vector cannot contain metrics with the same labelset$"):
        replaced(TWO, "src", "", "", "")


# What Prometheus answers to the same templates.
@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("[$1x]", "[]"),
        ("[${1}x]", "[ABx]"),
        ("[$first]", "[AB]"),
        ("[${first}s]", "[ABs]"),
        ("[$firsts]", "[]"),
        ("$$1", "$1"),
        ("$", "$"),
        ("a$-b", "a$-b"),
        ("${", "${"),
        ("${1", "${1"),
        ("${}", "${}"),
        ("${1-}", "${1-}"),
        ("$0", "AB"),
        ("$01", None),
        ("$2|$3|$99999999999", "||"),
        ("$1$1", "ABAB"),
        ("$é", None),
        ("$1.$1", "AB.AB"),
    ],
)
def test_templates_are_expanded_as_go_does(template, expected):
    assert one(template, "AB", "(?P<first>.*?)(x)?") == expected


def test_groups_by_name_may_be_in_other_letters():
    assert one("${größe}", "AB", "(?P<größe>.*)") == "AB"


def test_a_dot_matches_a_newline():
    assert one("<$1>", "a\nb", "a(.)b") == "<\n>"


@pytest.mark.parametrize(
    ("destination", "pattern", "message"),
    [
        ("dst", "(.*", r"^invalid regular expression in label_replace\(\): \(\.\*$"),
        ("dst", "(?=x)", r"^invalid regular expression"),
        ("", ".*", r"^invalid destination label name in label_replace\(\): $"),
        ("\udcff", ".*", r"^invalid destination label name in label_replace\(\): \\udcff$"),
    ],
)
def test_bad_patterns_and_names_are_refused(destination, pattern, message):
    with pytest.raises(ExecutionError, match=message):
        replaced(TWO, destination, "x", "src", pattern)


def test_any_utf8_text_is_a_labels_name():
    assert dict(next(iter(replaced(TWO, "a b.ü", "x", "src", ".*10"))))["a b.ü"] == "x"


def test_asking_again_gives_the_same_and_another_text_another():
    given = vector(TWO)
    first, again, other = (
        shown(called("label_replace", given, "dst", text, "src", "(.*)")[0]) for text in ("$1", "$1", "x$1")
    )
    assert first == again
    assert destinations(other) == ["xsource-value-10", "xsource-value-20"]


def joined(series, *texts):
    return shown(called("label_join", vector(series), *texts)[0])


THREE = {
    labels("m", src="a", src1="b", src2="c", dst="old"): [0.0],
    labels("m", src="d", src1="e", src2="f", dst="old"): [1.0],
}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("-", "src", "src1", "src2"), ["a-b-c", "d-e-f"]),
        (("-", "src2", "src", "src"), ["c-a-a", "f-d-d"]),
        (("-", "src", "src3", "src1"), ["a--b", "d--e"]),
        (("-", "src", "dst"), ["a-old", "d-old"]),
        (("", "none", "none1"), [None, None]),
        ((", ",), [None, None]),
    ],
)
def test_labels_are_joined_in_order(texts, expected):
    found = joined(THREE, "dst", *texts)
    assert destinations(found) == expected
    assert list(found.values()) == [[0.0], [1.0]]


def test_different_labels_may_be_joined_to_one_text():
    series = {
        labels("m", a="x", b="yz", c="1"): [1.0],
        labels("m", a="xy", b="z", c="2"): [2.0],
    }
    assert destinations(joined(series, "dst", "", "a", "b")) == ["xyz", "xyz"]


def test_joining_to_equal_labels_is_refused():
    dup = {labels("m", label="a", this="a"): [1.0], labels("m", label="b", this="a"): [1.0]}
    with pytest.raises(ExecutionError, match=r"^vector cannot contain metrics with the same labelset$"):
        joined(dup, "label", "", "this")


def test_joining_checks_the_names():
    with pytest.raises(ExecutionError, match=r"^invalid source label name in label_join\(\): $"):
        joined(THREE, "dst", "-", "src", "")
    with pytest.raises(ExecutionError, match=r"^invalid destination label name in label_join\(\): $"):
        joined(THREE, "", "-", "src")


def test_no_series_is_no_error():
    nothing = vector({labels("m"): [None]}).without_empty()
    assert shown(called("label_join", nothing, "dst", "-", "a")[0]) == {}
    assert shown(called("label_replace", nothing, "dst", "$1", "src", "(.*)")[0]) == {}


@pytest.mark.parametrize("pattern", ["(.+)", "(.*)"])
@pytest.mark.parametrize(
    "series",
    [
        [{"src": "a"}, {"src": "b"}],
        [{"src": "a"}, {}],
        [{"src": "a", "dst": "x"}, {"dst": "y"}],
        [{"dst": "x"}, {"dst": "y"}],
        [{"src": "a\nb", "dst": "x"}, {"src": "é", "dst": "y"}],
    ],
)
def test_a_label_taken_whole_is_what_the_regular_expression_gives(pattern, series):
    """The short cut answers as the long way, which a pattern that means the same takes."""
    given = {labels("m", n=str(number), **own): [1.0] for number, own in enumerate(series)}
    long = f"({pattern[1:-1]}){{1}}"
    assert replaced(given, "dst", "$1", "src", pattern) == replaced(given, "dst", "$1", "src", long)
