"""YAML with line numbers: what is kept as text, and what a hostile file cannot do."""

from pathlib import Path

import pytest

from db.yaml_lines import MAX_DEPTH, Plain, YamlError, parse_yaml, read_yaml


def test_scalars_stay_as_they_are_written() -> None:
    data = parse_yaml("rack: 012\nversion: 1.10\non: yes\ntime: 12:30\n").data

    assert data == {"rack": "012", "version": "1.10", "on": "yes", "time": "12:30"}


def test_quoting_is_remembered() -> None:
    data = parse_yaml("a: 5\nb: '5'\nc: !!str 5\nd: |\n  5\n").data

    assert [type(value) for value in data.values()] == [Plain, str, str, str]


def test_empty_values_are_none_unless_quoted() -> None:
    data = parse_yaml("a:\nb: ~\nc: null\nd: ''\ne: 'null'\n").data

    assert data == {"a": None, "b": None, "c": None, "d": "", "e": "null"}


def test_an_empty_document_has_no_data() -> None:
    assert parse_yaml("# only a comment\n").data is None


def test_every_value_knows_its_line() -> None:
    document = parse_yaml("a: 1\nb:\n  - x\n  - y:\n      z: 1\n")

    assert document.line(("a",)) == 1
    assert document.line(("b",)) == 2
    assert document.line(("b", 0)) == 3
    assert document.line(("b", 1, "y", "z")) == 5


def test_a_missing_value_has_the_line_of_the_section_around_it() -> None:
    document = parse_yaml("a: 1\njobs:\n  - name: x\n")

    assert document.line(("jobs", 0, "interval")) == 3
    assert document.line(("other",)) == 1


def test_aliases_and_merge_keys_give_way_to_what_stands_beside_them() -> None:
    data = parse_yaml("base: &b {x: 1, y: 1}\nmore: &m {y: 2, z: 2}\nuse:\n  <<: [*b, *m]\n  x: 3\n").data

    assert data["use"] == {"x": "3", "y": "1", "z": "2"}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: [1\n", 3, "not valid YAML"),
        ("a: 1\nb: 2\na: 3\n", 3, "'a' is given twice"),
        ("a: 1\n? [x]\n: 2\n", 2, "has to be plain text"),
        ("a: *nothing\n", 1, "no anchor"),
        ("a: &a [*a]\n", 1, "no anchor"),
        ("a: 1\n---\nb: 1\n", 2, "second document"),
        ("a: 1\nb: \x07\n", 2, "not valid YAML"),
        ("a:\n  <<: 5\n", 2, "'<<'"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(YamlError, match=words) as caught:
        parse_yaml(text)

    assert caught.value.line == line


def test_deep_nesting_is_refused_and_not_followed() -> None:
    with pytest.raises(YamlError, match=f"deeper than {MAX_DEPTH}"):
        parse_yaml("[" * 100_000 + "]" * 100_000)


def test_aliases_that_multiply_are_refused() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]

    with pytest.raises(YamlError, match="once aliases are expanded"):
        parse_yaml("\n".join(rows))


def test_a_file_that_is_not_utf8_is_named_by_line(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"a: 1\nb: \xff\n")

    with pytest.raises(YamlError, match="not UTF-8") as caught:
        read_yaml(path)

    assert caught.value.line == 2
