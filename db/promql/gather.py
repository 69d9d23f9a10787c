"""Many small groups of series as one: with a group for each target the fixed costs of a function for each
would be most of a query's time."""

from collections.abc import Sequence

import numpy as np

from db.promql.windows import WindowPart
from db.scratch import Scratch

# Values of an answer below which a part is small.
_SMALL = 1 << 16
_scratch = Scratch()


def gathered(parts: Sequence[WindowPart]) -> list[WindowPart]:
    """The same series and windows, the small parts joined in one (which has the flat form)."""
    small = [part for part in parts if part.shape[0] * part.shape[1] < _SMALL]
    if len(small) < 3:
        return list(parts)
    large = [part for part in parts if part.shape[0] * part.shape[1] >= _SMALL]
    height = sum(len(part.rows) for part in small)
    samples = sum(part.values.size for part in small)
    whole = small[0]
    times, values = _scratch.empty((1, samples))[0].view(np.int64), _scratch.empty((1, samples))[0]
    first, end = (_scratch.empty((height, len(whole.ends))).view(np.int64) for _ in range(2))
    at = row = 0
    for part in small:
        here, rows = slice(at, at + part.values.size), slice(row, row + len(part.rows))
        values[here].reshape(part.values.shape)[...] = part.values
        times[here].reshape(part.values.shape)[...] = part.timestamps
        # Of the shared form every series begins behind the one before it.
        length = len(part.timestamps) if part.values.ndim == 2 else 0
        starts = at + length * np.arange(len(part.rows))[:, None]
        np.add(part.first, starts, out=first[rows])
        np.add(part.end, starts, out=end[rows])
        at, row = here.stop, rows.stop
    joined = WindowPart(
        np.concatenate([part.rows for part in small]),
        times,
        values,
        first,
        end,
        whole.starts,
        whole.ends,
        whole.at,
    )
    return [*large, joined]
