"""Many small groups of series as one: with a group for each target the fixed costs of a function for each
would be most of a query's time."""

from collections.abc import Sequence

import numpy as np

from db.nan import IntArray
from db.promql.windows import WindowPart

# Values of an answer below which a part is small.
_SMALL = 1 << 16


def gathered(parts: Sequence[WindowPart]) -> list[WindowPart]:
    """The same series and windows, the small parts joined in one (which has the flat form)."""
    small = [part for part in parts if part.shape[0] * part.shape[1] < _SMALL]
    if len(small) < 3:
        return list(parts)
    large = [part for part in parts if part.shape[0] * part.shape[1] >= _SMALL]
    times, values, first, end = [], [], [], []
    offset = 0
    for part in small:
        starts: IntArray = np.full((len(part.rows), 1), offset, dtype=np.int64)
        if part.values.ndim == 2:
            length = len(part.timestamps)
            starts += np.arange(len(part.rows))[:, None] * length
            times.append(np.tile(part.timestamps, len(part.rows)))
        else:
            times.append(part.timestamps)
        values.append(part.values.reshape(-1))
        first.append(part.first + starts)
        end.append(part.end + starts)
        offset += len(values[-1])
    whole = small[0]
    joined = WindowPart(
        np.concatenate([part.rows for part in small]),
        np.concatenate(times),
        np.concatenate(values),
        np.concatenate(first),
        np.concatenate(end),
        whole.starts,
        whole.ends,
        whole.at,
    )
    return [*large, joined]
