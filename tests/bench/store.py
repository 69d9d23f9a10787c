"""The store beside Prometheus and VictoriaMetrics: writing, size and five questions, all in one run.

`python -m tests.bench.store` prints the tables (`--small` a twentieth of it, to try things out). Every answer
of ours is compared with the one that Prometheus gives in the same run; a difference ends the run.
"""

import argparse
import contextlib
import gc
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from db.maintenance import Maintainer
from db.store import SampleStore
from tests.bench import store_ingest, store_queries
from tests.bench.store_apart import stored_bytes
from tests.bench.store_clients import (
    Question,
    api_client_reader,
    bare_reader,
    lean_reader,
    questions,
    server_reader,
)
from tests.bench.store_data import Dataset, generate
from tests.bench.store_ingest import Rivals
from tests.bench.store_peers import Peer, prometheus, victoria_metrics
from tests.bench.store_report import Pair, Row, markdown, median_ms, timed, told

ROUNDS = 11
LIVE_ROUNDS = 10
LEAST: dict[str, Pair] = {"q1": (5, 2.5), "q2": (15, 8), "q3": (9, 5), "q4": (2.5, 1), "q5": (80, 80)}
AIM: dict[str, Pair] = {"q1": (10, 5), "q2": (50, 25), "q3": (35, 20), "q4": (6, 2.5), "q5": (100, 100)}
Reader = Callable[[Peer, Question], Callable[[], object]]
READERS: dict[str, Reader] = {
    "lean client": lean_reader,
    "lean client, no gzip": bare_reader,
    "prometheus-api-client": api_client_reader,
    "server only": server_reader,
}
METHOD = """\
Ratios: how many times as fast as the peer; for bytes, the share of the peer's. Times are medians of {rounds}
interleaved rounds in one process over loopback. Strata's side is PromQL in that process up to a labelled
DataFrame; each of its answers was equal to Prometheus's to 1e-6 in this run
(VictoriaMetrics defines rate() otherwise). *Lean client*: requests with its gzip, orjson, NumPy, DataFrame;
*no gzip*: the same without compression, over http.client; *server only*: the body was received, nothing
else. VictoriaMetrics was asked with nocache=1. Peers: Prometheus {prometheus}, VictoriaMetrics {victoria} of
Debian, one connection each.

Bulk: eight hours of data a round, arrays in memory until they are durable (ours), remote-write of
{samples_a_request} samples of every series a request, encoded in advance (peers). Live: the same, one sample
of every series; ours is one synchronous=FULL transaction, the peers do not sync a request. Sustained: without
a pause, ours with sealing every {live_steps} commits by the writer itself. Each store waits until the servers
have no background work left.

Bytes: ours is samples.db and its WAL after sealing, compacting and a checkpoint that empties the WAL, with
index and free pages; Prometheus: a snapshot, that is all blocks as compacted by then and the head as one more
block, with index, without WAL; VictoriaMetrics: data and indexdb after force_flush and force_merge. Jittered:
timestamps as a scraper sees them; regular: one every 15 s exactly, as Prometheus's own scraper would round
them."""


@dataclass(frozen=True)
class Scale:
    hours: int = 24
    factor: float = 1.0
    rounds: int = ROUNDS
    live_rounds: int = LIVE_ROUNDS


SMALL = Scale(hours=6, factor=0.1, rounds=5, live_rounds=3)


@contextlib.contextmanager
def rivals(folder: Path, data: Dataset) -> Iterator[Rivals]:
    """Three empty stores."""
    folder.mkdir()
    path = folder / "samples.db"
    with prometheus(folder / "prometheus") as one, victoria_metrics(folder / "victoria") as other:
        store = SampleStore.open(path)
        try:
            with contextlib.closing(Maintainer.open(path)) as maintainer:
                yield Rivals(data, path, store, maintainer, [one, other])
        finally:
            store.close()


def ask(three: Rivals, rounds: int) -> dict[str, list[Row]]:
    """Rows for each way to read the peers' answers."""
    tables: dict[str, list[Row]] = {name: [] for name in READERS}
    for question in questions(three.data):
        ours = store_queries.reader(three.store, question)
        check(question, ours, three.peers[0])
        theirs = {
            (name, place): READERS[name](peer, question)
            for name in READERS
            for place, peer in enumerate(three.peers)
        }
        three.settle()
        measured = interleaved({("strata", 0): ours, **theirs}, rounds)
        for name in READERS:
            peers = (measured[name, 0], measured[name, 1])
            asked = (LEAST[question.name], AIM[question.name]) if "lean" in name else ((None, None),) * 2
            tables[name] += told([Row(question.what, "ms", measured["strata", 0], peers, *asked)])
    return tables


def check(question: Question, ours: Callable[[], pd.DataFrame], peer: Peer) -> None:
    found = store_queries.differs(ours(), bare_reader(peer, question)())
    if found:
        raise SystemExit(f"{question.name}: {question.promql}: not what {peer.name} answers: {found}")


def interleaved(
    runs: dict[tuple[str, int], Callable[[], object]], rounds: int
) -> dict[tuple[str, int], float]:
    """Median milliseconds; a first round warms everything up."""
    seconds: dict[tuple[str, int], list[float]] = {key: [] for key in runs}
    for _ in range(rounds + 1):
        for key, run in runs.items():
            gc.collect()
            seconds[key].append(timed(run))
    return {key: median_ms(taken[1:]) for key, taken in seconds.items()}


def size(three: Rivals, kind: str) -> Row:
    """Bytes per sample; everything is sealed and compacted by it."""
    later = three.data.end_ms + store_ingest.DAY_MS
    three.maintainer.seal(later)
    three.maintainer.compact(later)
    three.maintainer.retain(0)  # gives free pages of the file back
    ours = stored_bytes(three.path) / three.data.samples
    theirs = [peer.stored_bytes() / three.data.samples for peer in three.peers]
    return Row(
        f"bytes per sample, {kind} timestamps",
        "B/sample",
        ours,
        (theirs[0], theirs[1]),
        least=(0.40, 0.98),
        aim=(0.33, 0.87),
    )


def table(scale: Scale = Scale()) -> str:
    """The tables in markdown, with the method below."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = generate(folder, scale.hours, scale.factor)
        with rivals(folder / "jittered", data) as three:
            [bulk] = told([store_ingest.load(three)])
            compacting = store_ingest.compact(three)
            answers = ask(three, scale.rounds)
            sizes = told([size(three, "jittered")])
            live = told(store_ingest.live(three, scale.live_rounds).rows())
            versions = {"prometheus": three.peers[0].version, "victoria": three.peers[1].version}
        regular = generate(folder, scale.hours, scale.factor, jitter=False)
        with rivals(folder / "regular", regular) as three:
            store_ingest.load(three)
            sizes += told([size(three, "regular")])
    lean, *others = READERS
    parts = [
        f"{len(data.series):,} series x {scale.hours} h at 15 s: {data.samples / 1e6:.1f} M samples.",
        markdown([*live, bulk, *sizes, *answers[lean]]),
        *(f"Questions, peers read by: {name}\n\n{markdown(answers[name])}" for name in others),
        METHOD.format(
            rounds=scale.rounds,
            samples_a_request=store_ingest.SAMPLES_A_REQUEST,
            live_steps=store_ingest.LIVE_STEPS,
            **versions,
        ),
        f"Compacting took Strata {compacting:.1f} s ({data.samples / compacting / 1e6:.1f} M samples/s).",
    ]
    return "\n\n".join(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="500 series, 6 hours")
    print(table(SMALL if parser.parse_args().small else Scale()))
