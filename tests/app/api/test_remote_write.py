"""The receiver as a sender meets it: what is stored, what is refused and how, and who may write at all."""

import asyncio
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import cramjam
import pytest
from starlette.requests import Request

from app.api import remote_write
from app.api.remote_write import MAX_BYTES, RemoteWrite
from db.errors import StoreUnreachable, Unstorable, WriteRefused
from db.labels import labels_from
from db.records import MetricMetadata, SparseAppend
from tests.app.api.remote_write_messages import HEADERS, chunk, compressed, label, sample, series, varint

NOW = 1_795_132_800_123
UP = {"__name__": "up", "job": "x"}
BODY = compressed(series(UP, [(1.0, NOW)]))


@dataclass
class Store:
    """Remembers what is written; `refusal` is what its writes raise, `gate` what they wait for."""

    refusal: Exception | None = None
    gate: threading.Event | None = None
    begun: threading.Event = field(default_factory=threading.Event)
    spoiled_by: str = ""
    commits: list[Sequence[SparseAppend]] = field(default_factory=list)
    metadata: list[MetricMetadata] = field(default_factory=list)

    def write(self, appends, reports, metadata):
        self.begun.set()
        if self.gate is not None:
            assert self.gate.wait(10)
        if self.refusal is not None:
            raise self.refusal
        if any(("__name__", self.spoiled_by) in labels for append in appends for labels in append.series):
            raise Unstorable("spoiled")
        self.commits.append(appends)
        self.metadata += metadata

    def samples(self):
        return [
            (append.series[place], at_ms, value)
            for appends in self.commits
            for append in appends
            for place, at_ms, value in zip(append.index, append.timestamps, append.values, strict=True)
        ]


def receiver(store, host="127.0.0.1"):
    return RemoteWrite(lambda: store, lambda: NOW, host)


def request(body=BODY, *, headers=None, without=(), client="127.0.0.1", parts=1, gone=False):
    """One POST as the server hands it on."""
    sent = {**HEADERS, **(headers or {})}
    size = len(body) // parts + 1
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages.append({"type": "http.disconnect"} if gone else {"type": "http.request", "body": b""})

    async def receive():
        return messages.pop(0)

    raw = [(name.encode(), value.encode()) for name, value in sent.items() if name not in without]
    scope = {"type": "http", "method": "POST", "path": "/api/v1/write", "headers": raw, "query_string": b""}
    return Request({**scope, "client": (client, 5)}, receive)


def answer(store, *arguments, host="127.0.0.1", **options):
    """(status, text) of one request."""

    async def run():
        asked = receiver(store, host)
        try:
            got = await asked.receive(request(*arguments, **options))
        finally:
            asked.close()
        return got.status_code, bytes(got.body).decode()

    return asyncio.run(run())


def test_samples_and_metadata_are_stored():
    store = Store()
    family = chunk(3, b"\x08\x01" + chunk(2, b"up") + chunk(4, b"Is it up?") + chunk(5, b""))
    nameless = chunk(3, chunk(4, b"of nothing"))
    body = series(UP, [(1.0, NOW), (2.0, NOW - 5)]) + series({"b": "1"}, [(None, NOW)]) + family + nameless
    assert answer(store, compressed(body), parts=3) == (204, "")
    up, other = labels_from(UP), (("b", "1"),)
    assert store.samples() == [(up, NOW, 1.0), (up, NOW - 5, 2.0), (other, NOW, 0.0)]
    assert store.metadata == [MetricMetadata("up", "counter", "Is it up?", "")]


@pytest.mark.parametrize(
    ("headers", "without", "status"),
    [
        ({}, ("x-prometheus-remote-write-version",), 204),
        ({"content-type": "application/x-protobuf;proto=prometheus.WriteRequest"}, (), 204),
        ({"content-type": 'Application/X-Protobuf; proto="prometheus.WriteRequest"'}, (), 204),
        ({"content-encoding": "Snappy"}, (), 204),
        ({"content-type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}, (), 415),
        ({"content-type": "text/plain"}, (), 415),
        ({"content-type": "application/json"}, (), 415),
        ({}, ("content-type",), 415),
        ({"content-encoding": "gzip"}, (), 415),
        ({}, ("content-encoding",), 415),
        ({"origin": "http://127.0.0.1:8501"}, (), 403),
        ({"origin": "null"}, (), 403),
    ],
)
def test_the_protocol_is_asked_for_and_browsers_are_not_served(headers, without, status):
    store = Store()
    got, text = answer(store, headers=headers, without=without)
    assert got == status
    assert text.count("\n") == (0 if status == 204 else 1)
    assert bool(store.commits) == (status == 204)


@pytest.mark.parametrize(
    ("host", "client", "status"),
    [
        ("localhost", "127.0.0.1", 204),
        ("::1", "::1", 204),
        ("127.0.0.1", "10.0.0.7", 403),  # what a proxy says of its client
        ("0.0.0.0", "127.0.0.1", 403),
        ("10.0.0.1", "127.0.0.1", 403),
        ("strata.example", "127.0.0.1", 403),
        ("127.0.0.1", "", 403),
    ],
)
def test_only_this_machine_may_write(host, client, status):
    assert answer(Store(), host=host, client=client)[0] == status


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "snappy"),
        (b"\x05abc", "snappy"),
        (b"\xff" * 20, "snappy"),
        (bytes(cramjam.snappy.compress(b"a framed stream")), "snappy"),
        (compressed(b"\x0a\x05abc"), "ends within a field"),
        (compressed(chunk(1, label("a", "1") + label("a", "2") + sample(1.0, NOW))), "given twice"),
        (compressed(chunk(1, label("a", b"\xff") + sample(1.0, NOW))), "not UTF-8"),
    ],
)
def test_bad_data_is_one_sentence(body, said):
    status, text = answer(Store(), body)
    assert status == 400
    assert said in text
    assert text.endswith(".\n")
    assert text.count("\n") == 1


def test_what_is_too_large_is_refused_before_it_takes_memory(monkeypatch):
    assert answer(Store(), headers={"content-length": str(MAX_BYTES + 1)})[0] == 413
    assert answer(Store(), headers={"content-length": "9" * 5000})[0] == 413
    assert answer(Store(), varint(MAX_BYTES + 1) + b"\x00")[0] == 413
    monkeypatch.setattr(remote_write, "MAX_BYTES", 10)
    assert answer(Store(), b"\x01" * 11, parts=3)[0] == 413


def test_a_body_that_was_cut_short_is_not_stored():
    store = Store()
    assert answer(store, gone=True)[0] == 400
    assert store.commits == []


def test_a_slow_body_is_given_up(monkeypatch):
    monkeypatch.setattr(remote_write, "_BODY_SECONDS", 0.01)

    async def run():
        asked = request()

        async def never():
            await asyncio.Event().wait()

        asked._receive = never
        return (await receiver(Store()).receive(asked)).status_code

    assert asyncio.run(run()) == 408


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (WriteRefused("samples.db: the disk is full; free space on it"), 503),
        (StoreUnreachable("samples.db: is damaged; restore a backup"), 503),
        (Unstorable("no"), 400),
    ],
)
def test_a_store_that_refuses_is_asked_again_and_one_that_cannot_is_not(error, status):
    async def run():
        asked = receiver(Store(refusal=error))
        return await asked.receive(request())

    got = asyncio.run(run())
    assert got.status_code == status
    assert str(error) in bytes(got.body).decode()
    assert got.headers.get("retry-after") == ("5" if status == 503 else None)


def test_samples_of_no_time_are_left_out_and_said_once(caplog):
    store = Store()
    late = NOW + 600_000
    body = series(UP, [(1.0, late), (2.0, late + 1), (3.0, -1), (4.0, NOW)]) + chunk(
        1, label("a", "b") + chunk(4, b"")
    )
    with caplog.at_level(logging.WARNING):
        assert answer(store, compressed(body))[0] == 204
    assert [(at_ms, value) for _, at_ms, value in store.samples()] == [(late, 1.0), (NOW, 4.0)]
    assert "left out 2 samples" in caplog.text
    assert "1 native histograms" in caplog.text


def test_metadata_is_written_once():
    store = Store()
    body = compressed(chunk(3, chunk(2, b"up")))

    async def run():
        asked = receiver(store)
        return [(await asked.receive(request(body))).status_code for _ in range(3)]

    assert asyncio.run(run()) == [204, 204, 204]
    assert len(store.metadata) == len(store.commits) == 1


def test_requests_that_wait_together_share_a_commit_and_a_bad_one_spoils_only_itself():
    gate = threading.Event()
    store = Store(gate=gate, spoiled_by="bad")
    bodies = [compressed(series({"__name__": name}, [(1.0, NOW)])) for name in ("first", "a", "bad", "b")]

    async def run():
        asked = receiver(store)
        first = asyncio.create_task(asked.receive(request(bodies[0])))
        await asyncio.to_thread(store.begun.wait, 10)
        rest = [asyncio.create_task(asked.receive(request(body))) for body in bodies[1:]]
        while len(asked._waiting) < 3:
            await asyncio.sleep(0)
        gate.set()
        return [(await task).status_code for task in (first, *rest)]

    assert asyncio.run(run()) == [204, 204, 400, 204]
    assert [labels[0][1] for labels, _, _ in store.samples()] == ["first", "a", "b"]

    store.spoiled_by = ""
    gate.clear()
    store.begun.clear()
    store.commits.clear()
    assert asyncio.run(run()) == [204, 204, 204, 204]
    assert [len(appends) for appends in store.commits] == [1, 3]


def test_a_sender_that_leaves_while_its_commit_runs_harms_nobody():
    gate = threading.Event()
    store = Store(gate=gate)

    async def run():
        asked = receiver(store)
        left = asyncio.create_task(asked.receive(request()))
        await asyncio.to_thread(store.begun.wait, 10)
        left.cancel()
        stays = asyncio.create_task(asked.receive(request()))
        gate.set()
        return (await stays).status_code

    assert asyncio.run(run()) == 204
    assert len(store.samples()) == 2
