"""Every case of Prometheus's own test scripts that needs neither native histograms nor experimental features.

What is left out is kept in left_out.txt with its reason, one case a line, so that a case that begins to be
skipped, or no longer has to be, fails here. The scripts themselves are not in the repository: their row in
the shared sources names no licence. After a change of the language the file is made anew by
`python -m tests.promql ../shared/promqltest/*.test | grep ': skipped: ' | sed 's/.*promqltest.//'`, and
the table of docs/promql.md with it.
"""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.promql.runner import Outcome, run_file

SCRIPTS = Path(__file__).parents[3] / "shared" / "promqltest"
LEFT_OUT = Path(__file__).with_name("left_out.txt")
# Fewer would mean that a script was not read to its end.
CASES = {
    "aggregators.test": 160,
    "at_modifier.test": 78,
    "functions.test": 431,
    "histograms.test": 185,
    "literals.test": 25,
    "trig_functions.test": 19,
}


@pytest.fixture(scope="module", params=sorted(CASES))
def outcomes(request: pytest.FixtureRequest) -> list[Outcome]:
    path = SCRIPTS / request.param
    if not path.exists():
        pytest.skip(f"needs the shared test scripts beside the checkout: promqltest/{path.name}")
    return list(run_file(path))


def test_every_case_that_is_ours_passes(outcomes: list[Outcome]):
    assert [str(one) for one in outcomes if one.status == "failed"] == []


def test_no_case_is_missing(outcomes: list[Outcome]):
    assert len(outcomes) == CASES[Path(outcomes[0].file).name]


def test_what_is_left_out_is_written_down(outcomes: list[Outcome]):
    name = Path(outcomes[0].file).name
    kept = [line for line in LEFT_OUT.read_text().splitlines() if line.startswith(f"{name}:")]
    skipped = [str(one).replace(one.file, name, 1) for one in outcomes if one.status == "skipped"]
    assert skipped == kept


def test_a_case_is_left_out_only_for_native_histograms_or_experiments():
    for line in LEFT_OUT.read_text().splitlines():
        reason = line.partition(": skipped: ")[2]
        assert ": native histogram: " in reason or ": not supported: " in reason, line


def test_the_documentation_counts_what_is_left_out():
    """The table of docs/promql.md, by the words that it names."""
    text = (LEFT_OUT.parents[2] / "docs" / "promql.md").read_text()
    table = text.partition("| reason | cases |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    groups = {reason: re.findall(r"`(\w+)", reason) for reason, _ in rows}
    found: Counter[str] = Counter()
    for line in LEFT_OUT.read_text().splitlines():
        word = re.search(r": not supported: (\w+)", line)
        found[next(key for key, words in groups.items() if (word[1] in words if word else not words))] += 1
    assert found == {reason: int(count) for reason, count in rows}
