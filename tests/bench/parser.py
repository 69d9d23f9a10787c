"""How fast pages are read, beside prometheus_client in the same run, and what a target costs in memory.

`python -m tests.bench.parser` prints a markdown table. Times are the best of several runs: other work on the
machine only ever adds to them. A benchmark, not a test: nothing here asserts a number.
"""

import gc
import random
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families as client_openmetrics
from prometheus_client.parser import text_string_to_metric_families as client_text

from collectors.exposition import Format, PageParser

VLLM_PAGES = Path(__file__).parents[1] / "fixtures" / "vllm-live"
GPU_LABELS = (
    'gpu="{gpu}",UUID="GPU-7a2e92f2-be71-d37e-a744-{serial:012d}",device="nvidia{gpu}",'
    'modelName="NVIDIA H100 80GB HBM3",Hostname="node-{node:04d}",DCGM_FI_DRIVER_VERSION="535.104.05"'
)
FIELDS = 30  # samples per GPU, about dcgm-exporter's default set
TARGETS = 1_000


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `ratio` is how many times faster than prometheus_client in the same run."""

    what: str
    lines: int
    milliseconds: float
    lines_per_second: float
    ratio: float | None = None


def dcgm_page(samples: int, scrape: int, changed: float, *, openmetrics: bool = False) -> bytes:
    """A page like dcgm-exporter's: `changed` is the share of samples whose value differs between scrapes."""
    page: list[str] = []
    for field in range(FIELDS):
        name = f"DCGM_FI_DEV_FIELD_{field:02d}"
        page += [f"# HELP {name} What field {field} says (in %).", f"# TYPE {name} gauge"]
        for serial in range(samples // FIELDS):
            moves = random.Random(field * samples + serial).random() < changed
            draw = random.Random((field * samples + serial) * 1000 + (scrape if moves else 0))
            value = f"{draw.random():.6f}" if field % 3 == 0 else str(draw.randrange(100_000))
            labels = GPU_LABELS.format(gpu=serial % 8, serial=serial, node=serial // 8)
            page.append(f"{name}{{{labels}}} {value}")
    if openmetrics:
        page.append("# EOF")
    return ("\n".join(page) + "\n").encode()


def best_seconds(run: Callable[[], object], times: int) -> float:
    """Shortest of `times` runs."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def warm_seconds(pages: list[bytes], page_format: Format, times: int) -> float:
    """One page after the other with one parser, per page."""
    parser = PageParser()

    def run() -> None:
        for page in pages:
            parser.parse(page, page_format)

    run()
    return best_seconds(run, times) / len(pages)


def cold_seconds(page: bytes, page_format: Format, times: int) -> float:
    return best_seconds(lambda: PageParser().parse(page, page_format), times)


def client_seconds(page: bytes, page_format: Format) -> float:
    read = client_openmetrics if page_format == "openmetrics" else client_text
    text = page.decode()
    return best_seconds(lambda: [family.samples for family in read(text)], 2)


def measure(what: str, pages: list[bytes], page_format: Format, times: int) -> list[Row]:
    """Cold, warm and prometheus_client over the same pages."""
    lines = pages[0].count(b"\n")
    client = client_seconds(pages[0], page_format)
    cold = cold_seconds(pages[0], page_format, max(3, times // 8))
    warm = warm_seconds(pages, page_format, times)

    def row(kind: str, seconds: float, ratio: float | None) -> Row:
        return Row(f"{what}, {kind}", lines, seconds * 1000, lines / seconds, ratio)

    return [
        row("warm", warm, client / warm),
        row("cold", cold, client / cold),
        row("prometheus_client", client, None),
    ]


def kilobytes_per_target(samples: int = 240) -> float:
    """Memory that one more target's parser and layout keep between scrapes."""
    pages = [
        dcgm_page(samples, target, 1.0).replace(b"node-", f"n{target}-".encode()) for target in range(50)
    ]
    gc.collect()
    tracemalloc.start()
    parsers = [PageParser() for _ in pages]
    for parser, page in zip(parsers, pages, strict=True):
        parser.parse(page, "text")
        parser.parse(page, "text")
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return held / len(parsers) / 1000


def rows() -> list[Row]:
    """All time measurements."""
    vllm = [path.read_bytes() for path in sorted(VLLM_PAGES.glob("*.prom"))[1:]]
    return [
        *measure("DCGM-like, text, 100 % of values changed", _pair(30_000, 1.0), "text", 60),
        *measure("DCGM-like, text, 60 % of values changed", _pair(30_000, 0.6), "text", 60),
        *measure("DCGM-like, OpenMetrics, 100 % changed", _pair(30_000, 1.0, True), "openmetrics", 60),
        *measure("DCGM-like, text, 240 samples, 100 % changed", _pair(240, 1.0), "text", 400),
        *measure("vLLM 0.32 live, 19 scrapes in a row", vllm, "text", 24),
    ]


def _pair(samples: int, changed: float, openmetrics: bool = False) -> list[bytes]:
    return [dcgm_page(samples, scrape, changed, openmetrics=openmetrics) for scrape in (1, 2)]


def table(measured: list[Row]) -> str:
    """The rows as markdown."""
    text = [
        "| page | lines | ms/page | lines/s | times prometheus_client |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in measured:
        ratio = "" if row.ratio is None else f"{row.ratio:,.0f}"
        text.append(
            f"| {row.what} | {row.lines:,} | {row.milliseconds:,.3f} | {row.lines_per_second:,.0f} "
            f"| {ratio} |"
        )
    return "\n".join(text)


def main() -> None:
    print(table(rows()))
    page = dcgm_page(240, 1, 1.0)
    lines = page.count(b"\n")
    warm = warm_seconds(_pair(240, 1.0), "text", 400)
    print(f"\nA 240-sample page has {lines} lines and {len(page) / 1000:.0f} kB.")
    print(f"Kept per such target: {kilobytes_per_target():.0f} kB.")
    print(f"{TARGETS:,} of them every 15 s: {warm * TARGETS / 15:.2%} of one core.")


if __name__ == "__main__":
    main()
