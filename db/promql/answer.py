"""What a query gives, in columns; the HTTP API, the command line and pages make their own forms of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from db.nan import BoolArray, FloatArray, IntArray
from db.promql.table import SeriesTable

ResultType = Literal["vector", "matrix", "scalar", "string"]


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """kind: Prometheus's resultType.

    vector: one step; the table's series in the order of the answer, every one present. matrix: each series
    has a value where `there` says so, at least one; series are ordered by labels. scalar: values[0, 0], the
    table is empty. string: `text`, the table is empty.

    table: the series' labels (`table.rows()` gives them one by one). timestamps: int64[steps], ms UTC; of an
    instant query one, its time (for a matrix out of an instant query, as `x[5m]` gives, the samples' own
    times, of all series together). values: float64[series, steps]. there: bool[series, steps], None when
    everywhere. warnings, infos: as Prometheus words them.
    """

    kind: ResultType
    table: SeriesTable
    timestamps: IntArray
    values: FloatArray
    there: BoolArray | None = None
    text: str = ""
    warnings: Sequence[str] = ()
    infos: Sequence[str] = ()
