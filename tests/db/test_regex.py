"""What is said of a pattern without trying it, or of many lines at once, is what matching each text says."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from db.regex import RegexError, compile_anchored, fullmatch, line_pattern, literals, possible_range

ATOMS = [
    *(
        "a",
        "b",
        "ab",
        "A",
        "1",
        "é",
        " ",
        "\n",
        "\0",
        ".",
        ".*",
        ".+",
        "|",
        "(",
        ")",
        "(?:",
        "^",
        "$",
        "+",
        "*",
        "?",
    ),
    *(
        "(?i)",
        "(?i:",
        "(?s)",
        "(?-s)",
        "(?U)",
        "(?m)",
        "(?-m)",
        "(?P<n>",
        "*?",
        "{2}",
        "{1,2}",
        "(a|b)",
        "(a|)",
    ),
    *(
        "[^a]",
        "[a-c]",
        "[^\n]",
        "[[:alpha:]]",
        "[[:^alpha:]]",
        "[\t-z]",
        "[]a]",
        "[é-ü]",
        r"\.",
        r"\-",
        r"\n",
    ),
    *(
        r"\b",
        r"\B",
        r"\w",
        r"\W",
        r"\d",
        r"\D",
        r"\s",
        r"\S",
        r"\A",
        r"\z",
        r"\C",
        r"\pL",
        r"\PL",
        r"\x0a",
        r"\Qa.b\E",
    ),
]
PATTERNS = st.lists(st.sampled_from(ATOMS), max_size=7).map("".join)
LINES = st.lists(st.text(alphabet="abAc1é.- \0\x0b\r\u212ak\U0010ffff", max_size=4), min_size=1, max_size=12)


def valid(pattern: str) -> str:
    try:
        compile_anchored(pattern)
    except RegexError:
        assume(False)
    return pattern


@settings(max_examples=400, deadline=None)
@given(PATTERNS, LINES)
def test_lines_together_match_as_each_alone(pattern: str, lines: list[str]) -> None:
    together = line_pattern(valid(pattern))
    assume(together is not None)
    joined = "\n".join(lines).encode()
    hit: set[int] = set()
    for begin, end in together.spans(joined).tolist():
        hit.update(range(joined.count(b"\n", 0, begin), joined.count(b"\n", 0, end) + 1))
    assert hit == {number for number, line in enumerate(lines) if fullmatch(pattern, line)}


@settings(max_examples=400, deadline=None)
@given(PATTERNS, LINES, st.sampled_from(["", "\n"]))
def test_every_match_lies_in_the_possible_range(pattern: str, texts: list[str], end: str) -> None:
    bounds = possible_range(valid(pattern))
    assume(bounds is not None)
    for text in texts:
        if fullmatch(pattern, text + end):
            assert bounds[0] <= (text + end).encode() <= bounds[1]


@given(PATTERNS, LINES)
def test_literals_are_all_that_matches(pattern: str, texts: list[str]) -> None:
    known = literals(valid(pattern))
    assume(known is not None)
    for text in [*texts, *known]:
        assert fullmatch(pattern, text) == (text in known)


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("a|b", ["a", "b"]),
        ("(a|b|)", ["a", "b", ""]),
        (r"(?:10\.0\.0\.1:9100)", ["10.0.0.1:9100"]),
        (r"a\|b", ["a|b"]),
        ("a.b", None),
        ("(a)|(b)", None),
        (r"\d", None),
        ("(?i)a", None),
    ],
)
def test_literals_of_common_forms(pattern: str, texts: list[str] | None) -> None:
    assert literals(pattern) == texts


def test_a_prefix_narrows_the_range() -> None:
    least, most = possible_range("node-1.*") or (b"", b"")
    assert least == b"node-1"
    assert most < b"node-2"
    # RE2's own range for this one leaves out "a".
    assert possible_range(r"a\b.*") is None


def test_neighbours_that_match_are_one_span() -> None:
    assert line_pattern("n[12].*").spans(b"m\nn1\nn23\nn3").tolist() == [[2, 8]]


@pytest.mark.parametrize("pattern", ["(", "[z-a]", r"\1", "\ud800", "a**", "a)|(b"])
def test_a_bad_pattern_is_told(pattern: str) -> None:
    with pytest.raises(RegexError, match="not a valid RE2 expression"):
        compile_anchored(pattern)


@pytest.mark.parametrize("piece", ["(a|b){1,1000}", r"\pL", r"\PN"])
def test_a_long_pattern_that_would_be_spread_out_is_refused(piece: str) -> None:
    with pytest.raises(RegexError, match=r"^a regular expression of 30,0\d\d characters: .* neither"):
        compile_anchored(piece * (30_000 // len(piece) + 1))


def test_long_lists_of_texts_are_patterns() -> None:
    instances = [f"host-{number:05}.example:9100" for number in range(5_000)]
    for pattern in ("|".join(instances), f"({'|'.join(instances)}).*"):
        assert fullmatch(pattern, "host-04999.example:9100")
        assert not fullmatch(pattern, "host-05000.example:9100")
