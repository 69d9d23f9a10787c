"""What an import of OpenMetrics text must store, worked out line by line, and a sink that remembers."""

import io
import struct
from collections.abc import Sequence

from collectors.backfill import Backfill, Imported
from collectors.openmetrics import parse_openmetrics
from collectors.series_text import labels_of
from db.labels import Labels
from db.nan import NORMAL, is_absent
from db.records import MetricMetadata, Slab

NOW_MS = 1_800_000_000_000

Model = dict[tuple[Labels, int], bytes]


def bits(value: float) -> bytes:
    """A float64 told apart from every other, NaNs included."""
    return struct.pack("<d", value)


class Memory:
    """Takes what a store would take."""

    def __init__(self) -> None:
        self.samples: Model = {}
        self.metadata: list[MetricMetadata] = []
        self.loads = 0

    def load(self, slabs: Sequence[Slab]) -> None:
        self.loads += 1
        for slab in slabs:
            assert slab.values.shape == (len(slab.series), len(slab.timestamps))
            assert (slab.timestamps[1:] > slab.timestamps[:-1]).all()
            assert len(set(slab.series)) == len(slab.series)
            assert not is_absent(slab.values).any()
            for labels, row in zip(slab.series, slab.values.tolist(), strict=True):
                for at_ms, value in zip(slab.timestamps.tolist(), row, strict=True):
                    self.samples[labels, at_ms] = bits(value)

    def write(self, appends: Sequence[object], reports: Sequence[object], metadata: Sequence[MetricMetadata]):
        self.metadata += metadata


def imported(text: bytes | str, *, batch: int = 1_000, sink: Memory | None = None) -> tuple[Memory, Imported]:
    """The text through a whole import."""
    sink = Memory() if sink is None else sink
    data = text.encode() if isinstance(text, str) else text
    return sink, Backfill(sink, NOW_MS, batch).run(io.BufferedReader(io.BytesIO(data)))


def expected(lines: Sequence[str]) -> Model:
    """Each line by itself, as the page parser reads it; the last of the same series and time counts."""
    model: Model = {}
    for line in lines:
        page, _ = parse_openmetrics([line, "# EOF"], strict=False)
        for sample, key in enumerate(page.keys):
            value = page.values[sample]
            model[labels_of(key), page.timestamps[sample]] = bits(NORMAL if value != value else value)
    return model
