"""Backfill: an OpenMetrics file with timestamps of any age, read once and loaded batch by batch.

The file may be far larger than memory, so it is checked and stored in one pass. A bad line ends the import;
what stood before it is stored then, and importing the mended file again changes none of it.
"""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader
from typing import Protocol

import numpy as np

from collectors.backfill_lines import Columns, LineReader
from collectors.backfill_slabs import slabs_of
from collectors.series_text import ParseError
from db.nan import IntArray
from db.records import DenseAppend, MetricMetadata, Slab, SourceReport, SparseAppend

# prometheus/prometheus, scrape/scrape.go (maxAheadTime), as for scraped samples.
AHEAD_MS = 600_000
# Flat from 256 KiB to 1 MiB (`make bench`).
_BLOCK_BYTES = 1 << 19
_LINE_BYTES = 1 << 20
# Large calls make large blocks in the store; each sample is held about three times for a moment.
_BATCH_SAMPLES = 2_000_000
# Bounds the memory for labels: beyond it the series are forgotten and met anew.
_KNOWN_SERIES = 200_000
_GZIP_MAGIC = b"\x1f\x8b"


class Sink(Protocol):
    """The part of the store that an import needs; see `db.store.SampleStore`."""

    def load(self, slabs: Sequence[Slab]) -> None: ...
    def write(
        self,
        appends: Sequence[DenseAppend | SparseAppend],
        reports: Sequence[SourceReport],
        metadata: Sequence[MetricMetadata],
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import stored. start_ms, end_ms: of its oldest and newest sample, None without samples."""

    samples: int
    series: int
    start_ms: int | None
    end_ms: int | None


class ImportStopped(Exception):
    """A line could not be read: `line` (1-based), `reason` (one clause), `stored` (what stood before it)."""

    def __init__(self, line: int, reason: str, stored: Imported) -> None:
        super().__init__(line, reason, stored)
        self.line = line
        self.reason = reason
        self.stored = stored


class Backfill:
    """One import; `run` it once."""

    def __init__(self, sink: Sink, now_ms: int, batch_samples: int = _BATCH_SAMPLES) -> None:
        self._sink = sink
        self._batch_samples = batch_samples
        self._reader = LineReader(now_ms + AHEAD_MS)
        self._parts: list[Columns] = []
        self._waiting = 0
        self._samples = 0
        self._start_ms: int | None = None
        self._end_ms: int | None = None
        self._forgotten = np.empty(
            0, dtype=np.int64
        )  # hashes of the series that are not in the table any more

    def run(self, file: BufferedReader) -> Imported:
        """Store every sample of the file, gzipped or not.

        Raises ImportStopped at the first bad line, OSError, and what the sink raises.
        """
        line = 1
        try:
            for lines in _blocks(_plain(file)):
                parts, error = self._reader.read(lines, line)
                self._take(parts)
                if error is not None:
                    raise error
                line += len(lines)
            if not self._reader.ended:
                raise ParseError(line, "the file does not end with # EOF: it may have been cut short")
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self._flush()
            reason = f"the compressed file is damaged or cut short: {error}"
            raise ImportStopped(line, reason, self._imported()) from error
        except ParseError as error:
            self._flush()
            raise ImportStopped(max(line, error.line), error.reason, self._imported()) from error
        self._flush()
        return self._imported()

    def _take(self, parts: list[Columns]) -> None:
        self._parts += parts
        self._waiting += sum(len(part.values) for part in parts)
        if self._waiting >= self._batch_samples or len(self._reader.metadata) >= _KNOWN_SERIES:
            self._flush()
        elif len(self._reader.table.keys) >= _KNOWN_SERIES:
            self._flush()
            self._forgotten = self._series_hashes()
            self._reader.forget_series()

    def _flush(self) -> None:
        metadata, self._reader.metadata = self._reader.metadata, {}
        if metadata:
            rows = [
                MetricMetadata(said.family, said.type, said.help, said.unit) for said in metadata.values()
            ]
            self._sink.write([], [], rows)
        parts, self._parts, self._waiting = self._parts, [], 0
        slabs = slabs_of(parts, self._reader.table.labels)
        del parts
        if not slabs:
            return
        self._sink.load(slabs)
        self._samples += sum(slab.values.size for slab in slabs)
        start = min(int(slab.timestamps[0]) for slab in slabs)
        end = max(int(slab.timestamps[-1]) for slab in slabs)
        self._start_ms = start if self._start_ms is None else min(start, self._start_ms)
        self._end_ms = end if self._end_ms is None else max(end, self._end_ms)

    def _imported(self) -> Imported:
        return Imported(
            self._samples,
            len(self._series_hashes()),
            self._start_ms,
            self._end_ms,
        )

    def _series_hashes(self) -> IntArray:
        labels = self._reader.table.labels
        hashes = np.fromiter(map(hash, labels), dtype=np.int64, count=len(labels))
        return np.union1d(self._forgotten, hashes)


def _plain(file: BufferedReader) -> BufferedReader | gzip.GzipFile:
    return gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == _GZIP_MAGIC else file


def _blocks(file: BufferedReader | gzip.GzipFile) -> Iterator[list[bytes]]:
    """The lines of the file, some thousand at a time. Raises ParseError for one that is too long."""
    line, rest = 1, b""
    while data := file.read(_BLOCK_BYTES):
        lines = (rest + data).split(b"\n")
        rest = lines.pop()
        line += len(lines)
        if lines:
            yield lines
        if len(rest) > _LINE_BYTES:
            raise ParseError(line, f"a line of more than {_LINE_BYTES} bytes")
    if rest:
        yield [rest]
