"""Small groups of series together are what they are one by one."""

import numpy as np

from db.nan import IntArray
from db.promql.gather import gathered
from db.promql.windows import WindowPart, parts_of

STEPS = np.arange(60_000, 600_000, 60_000)


def part(rows: IntArray, seed: int, *, holes: bool) -> list[WindowPart]:
    random = np.random.default_rng(seed)
    times = np.sort(random.choice(600_000, 40, replace=False))
    values = random.normal(size=(len(rows), len(times)))
    there = random.random(values.shape) > 0.2 if holes else None
    return parts_of(rows, times, values, there, STEPS - 60_000, STEPS, STEPS)


def samples(parts: list[WindowPart]) -> dict[tuple[int, int], list[tuple[int, float]]]:
    """Of each series and step."""
    found = {}
    for one in parts:
        for series, row in enumerate(one.rows.tolist()):
            for step in range(len(STEPS)):
                at = min(series, len(one.first) - 1)
                window = slice(one.first[at, step], one.end[at, step])
                values = one.values[series] if one.values.ndim == 2 else one.values
                found[row, step] = list(
                    zip(one.timestamps[window].tolist(), values[window].tolist(), strict=True)
                )
    return found


def test_groups_together_have_the_samples_of_each_alone() -> None:
    parts = []
    for number in range(12):
        parts += part(np.arange(3) + 10 * number, number, holes=number % 3 == 0)
    assert {one.values.ndim for one in parts} == {1, 2}
    [joined] = gathered(parts)
    assert samples([joined]) == samples(parts)


def test_what_was_gathered_stays_while_more_is_gathered() -> None:
    """The memory is used again, and only when nobody holds it."""
    parts = [one for number in range(40) for one in part(np.arange(40) + 100 * number, number, holes=False)]
    first = gathered(parts)
    before = samples(first)
    others = [
        one for number in range(40) for one in part(np.arange(40) + 100 * number, 99 + number, holes=False)
    ]
    assert samples(gathered(others)) != before
    assert samples(first) == before


def test_large_groups_stay_alone() -> None:
    parts = [one for number in range(3) for one in part(np.arange(8_000), number, holes=False)]
    assert gathered(parts) == parts
