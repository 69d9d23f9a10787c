"""What an automaton says of many texts is what RE2 says of each of them alone."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from db.regex import RegexError, compile_anchored, fullmatch
from db.text_automaton import text_automaton
from db.text_pattern import positions_of

# Fewer texts than some hundred are left to RE2.
COPIES = 300
SIMPLE = [
    *(
        "a",
        "b",
        "A",
        "1",
        "-",
        ".",
        ".*",
        ".+",
        "|",
        "(",
        ")",
        "(?:",
        "(?P<n>",
        "^",
        "$",
        "*",
        "+",
        "?",
        "*?",
    ),
    *("{2}", "{1,2}", "{0}", "{2,}", "{0,3}", "[ab]", "[^a]", "[a-c]", "[a-c-1]", "[-a]", "[^-b]", r"[\d-]"),
    *(r"[\w.]", r"[^\s]", r"[\]\\]", "[+--]", r"\.", r"\-", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"),
]
OTHERS = [
    *(
        "(?i)",
        "(?s)",
        "(?-s:",
        "(?U)",
        "[[:alpha:]]",
        "[]a]",
        "[^]]",
        "[é-ü]",
        "é",
        "\n",
        "\0",
        "{",
        "}",
        "]",
    ),
    *(r"\b", r"\B", r"\A", r"\z", r"\C", r"\pL", r"\x41", r"\Qa.b\E", r"\n", r"\_", "{,2}", "**", "[a-"),
]
PATTERNS = st.one_of(
    st.lists(st.sampled_from(SIMPLE), max_size=8).map("".join),
    st.lists(st.sampled_from(SIMPLE + OTHERS), max_size=6).map("".join),
)
TEXTS = st.lists(st.text(alphabet="aAb1-.é \0\tſ\u212a\U0010ffff]", max_size=6), min_size=1, max_size=6)


def valid(pattern: str) -> str:
    try:
        compile_anchored(pattern)
    except RegexError:
        assume(False)
    return pattern


def agrees(pattern: str, texts: list[str]) -> None:
    automaton = text_automaton(pattern)
    assert automaton is not None
    wanted = [fullmatch(pattern, text) for text in texts]
    assert automaton.matches("\n".join(texts).encode()).tolist() == wanted


@settings(max_examples=600, deadline=None)
@given(PATTERNS, TEXTS)
def test_texts_match_as_each_alone(pattern: str, texts: list[str]) -> None:
    assume(text_automaton(valid(pattern)) is not None)
    agrees(pattern, texts * COPIES)


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            ".*[0-7]",
            ".*7",
            "[0-9a-f-]+",
            ".*ab.?cd.*9",
            "node-(a|b)[0-9]{1,3}",
            "^pod-.*$",
            "^a|b$",
            "",
            "|a",
        ),
        *(
            "prometheus-kube-prometheus-node-exporter-.*[a-z0-9]{5}",
            ".*(web|api|db)-[0-9]+.*",
            r"10\.0\..*:9400",
        ),
    ],
)
def test_usual_patterns_are_simple(pattern: str) -> None:
    texts = [f"node-{letter}{number}" for letter in "abc" for number in range(1200)]
    texts += [f"pod-{number:x}-web-{number}" for number in range(400)] + ["a", "b", "", "c"] * 100
    texts += [f"prometheus-kube-prometheus-node-exporter-{number:05}" for number in range(300)]
    texts += [f"10.0.0.{number}:9400" for number in range(300)] + [
        f"x{number}ab-cd{number}9" for number in range(300)
    ]
    agrees(pattern, texts)


@pytest.mark.parametrize(
    "pattern",
    [
        "(?i)a",
        "é",
        "[[:alpha:]]",
        r"\bа",
        "a$b",
        "(^a)",
        "a^",
        "[é]",
        r"\x41",
        "a{2",
        "((((((((((a{9}){9}){9}))))))))",
    ],
)
def test_other_patterns_are_left_to_re2(pattern: str) -> None:
    assert positions_of(pattern) is None


@pytest.mark.parametrize("pattern", ["(?:){1000}" * 100, "(" * 500 + "a" + ")" * 500, "(.*a.*|b)" * 60])
def test_hostile_patterns_are_given_up_soon(pattern: str) -> None:
    assert text_automaton(pattern) is None


def test_many_states_are_given_up() -> None:
    assert positions_of(".*a.{14}") is not None
    assert text_automaton("(a|b)*a(a|b){14}") is None


def test_a_bad_pattern_is_told() -> None:
    with pytest.raises(RegexError):
        text_automaton("a)|(b")


def test_texts_of_very_different_lengths() -> None:
    texts = ["a" * (number % 900) + "b" * (number % 2) for number in range(3000)]
    agrees("a*", texts)
    agrees(".*ab", texts)
    agrees("(aaa)*b?", texts)
