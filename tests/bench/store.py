"""The store beside Prometheus and VictoriaMetrics: writing, size and five questions, all in one run.

`python -m tests.bench.store` prints the tables (`--small` a twentieth of it, to try things out). Every answer
of ours is compared with the one that Prometheus gives in the same run; a difference ends the run.
"""

import argparse
import contextlib
import gc
import tempfile
import time
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
from tests.bench.store_report import NOTHING, Pair, Row, markdown, median_ms, timed, told

ROUNDS = 11
IDLE_SECONDS = 0.05
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
interleaved rounds in one process over loopback, in each of which every candidate answers its five questions
one after the other (so that a reader's garbage of one question is cleared away in the next). Strata's side is
PromQL in that process up to a labelled DataFrame; each of its answers was equal to Prometheus's to 1e-6 in
this run (VictoriaMetrics defines rate() otherwise). *Lean client*: requests with its gzip, orjson, NumPy,
DataFrame; *no gzip*: the same without compression, over http.client; *server only*: the body was received,
nothing else. VictoriaMetrics was asked with nocache=1. Peers: Prometheus {prometheus},
VictoriaMetrics {victoria} of Debian, one connection each.

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


def ask(three: Rivals, rounds: int) -> tuple[dict[str, list[Row]], str]:
    """Rows for each way to read the peers' answers; and a sentence about what idleness costs us."""
    asked = list(questions(three.data))
    ours = {question.name: store_queries.reader(three.store, question) for question in asked}
    candidates = {("strata", 0): ours}
    for name, read in READERS.items():
        for place, peer in enumerate(three.peers):
            candidates[name, place] = {question.name: read(peer, question) for question in asked}
    for question in asked:
        check(question, ours[question.name], three.peers[0])
    three.settle()
    measured = interleaved(candidates, rounds)
    tables: dict[str, list[Row]] = {}
    for name in READERS:
        rows = []
        for question in asked:
            peers = (measured[name, 0][question.name], measured[name, 1][question.name])
            goals = (LEAST[question.name], AIM[question.name]) if "lean" in name else (NOTHING, NOTHING)
            rows.append(Row(question.what, "ms", measured["strata", 0][question.name], peers, *goals))
        tables[name] = told(rows)
    return tables, idle_sentence(ours["q5"], rounds)


def idle_sentence(run: Callable[[], object], rounds: int) -> str:
    """The shortest question, which a pause of this machine's processor slows most."""
    taken = []
    for _ in range(rounds):
        time.sleep(IDLE_SECONDS)
        taken.append(timed(run))
    return (
        f"After {IDLE_SECONDS * 1000:.0f} ms without work our latest value of 5,000 series takes "
        f"{median_ms(taken):.2f} ms here."
    )


def check(question: Question, ours: Callable[[], pd.DataFrame], peer: Peer) -> None:
    found = store_queries.differs(ours(), bare_reader(peer, question)())
    if found:
        raise SystemExit(f"{question.name}: {question.promql}: not what {peer.name} answers: {found}")


def interleaved(
    candidates: dict[tuple[str, int], dict[str, Callable[[], object]]], rounds: int
) -> dict[tuple[str, int], dict[str, float]]:
    """Median milliseconds. In a round each candidate answers its questions one after the other, as a page
    asks them; a first round warms everything up."""
    seconds = {key: {name: list[float]() for name in runs} for key, runs in candidates.items()}
    for _ in range(rounds + 1):
        for key, runs in candidates.items():
            gc.collect()
            for name, run in runs.items():
                seconds[key][name].append(timed(run))
    return {
        key: {name: median_ms(taken[1:]) for name, taken in named.items()} for key, named in seconds.items()
    }


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
            answers, after_idleness = ask(three, scale.rounds)
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
        after_idleness,
        f"Compacting took Strata {compacting:.1f} s ({data.samples / compacting / 1e6:.1f} M samples/s).",
    ]
    return "\n\n".join(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="500 series, 6 hours")
    print(table(SMALL if parser.parse_args().small else Scale()))
