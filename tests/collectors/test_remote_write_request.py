"""One request to a real socket: the headers that the protocol wants, and what each answer means."""

import asyncio

import pytest

from collectors.fetch import new_session
from collectors.remote_write_request import WriteEndpoint
from db.remote_settings import PrometheusSettings, RemoteAuth
from tests.free_port import free_port
from tests.remote_engines import scripted_engine

NOW_MS = 1_795_000_000_000


def sent(url: str, body: bytes = b"abc", **settings):
    async def go():
        session = new_session()
        try:
            endpoint = WriteEndpoint(
                PrometheusSettings(query_url=url, remote_write_url=f"{url}/api/v1/write", **settings), session
            )
            return await endpoint.send(body, NOW_MS)
        finally:
            await session.close()

    return asyncio.run(go())


def answered(status: int, headers=None, body: bytes = b"", **settings):
    with scripted_engine(lambda _: (status, headers or {}, body)) as engine:
        return sent(engine.url, **settings), engine


def test_the_request_is_remote_write_1() -> None:
    outcome, engine = answered(204, headers={}, body=b"")
    assert outcome.kind == "taken"
    (asked,) = engine.asked
    assert (asked.method, asked.path, asked.body) == ("POST", "/api/v1/write", b"abc")
    assert asked.headers["Content-Encoding"] == "snappy"
    assert asked.headers["Content-Type"] == "application/x-protobuf"
    assert asked.headers["X-Prometheus-Remote-Write-Version"] == "0.1.0"
    assert asked.headers["User-Agent"] == "Strata/0.1"


def test_tenant_and_credentials_go_along(tmp_path) -> None:
    (tmp_path / "token").write_text("sesame\n")
    auth = RemoteAuth(bearer_token_file=str(tmp_path / "token"))
    _, engine = answered(200, auth=auth, headers=None)
    assert engine.asked[0].headers["Authorization"] == "Bearer sesame"
    with scripted_engine(lambda _: (200, {}, b"")) as tenants:
        sent(tenants.url, headers={"X-Scope-OrgID": "gpu"})
    assert tenants.asked[0].headers["X-Scope-OrgID"] == "gpu"


@pytest.mark.parametrize(
    ("status", "headers", "kind", "seconds"),
    [
        (200, {}, "taken", 0),
        (400, {}, "refused", 0),
        (413, {}, "refused", 0),
        (422, {}, "refused", 0),
        (429, {"Retry-After": "17"}, "later", 17),
        (429, {"Retry-After": "99999"}, "later", 300),
        (503, {"Retry-After": "Tue, 18 Nov 2025 12:00:00 GMT"}, "later", 0),
        (503, {"Retry-After": "soon"}, "later", 0),
        (500, {}, "later", 0),
        (408, {}, "later", 0),
        (401, {}, "later", 0),
        (403, {}, "later", 0),
        (404, {}, "later", 0),
        (302, {"Location": "/login"}, "later", 0),
    ],
)
def test_what_an_answer_means(status, headers, kind, seconds) -> None:
    outcome, engine = answered(status, headers)
    assert (outcome.kind, outcome.after_seconds) == (kind, seconds)
    assert len(engine.asked) == 1
    if kind != "taken":
        assert outcome.reason.startswith(f"{engine.url}/api/v1/write answered HTTP {status}")


def test_a_sample_that_is_too_old_is_refused_whatever_the_status_says() -> None:
    """Prometheus with an out_of_order_time_window answers 500; asked again, it would for ever."""
    outcome, _ = answered(500, body=b"too old sample\n")
    assert outcome.kind == "refused"
    assert outcome.reason.endswith("answered HTTP 500: too old sample")


def test_a_date_to_wait_for() -> None:
    from datetime import UTC, datetime
    from email.utils import format_datetime

    date = format_datetime(datetime.fromtimestamp(NOW_MS / 1000 + 40, UTC), usegmt=True)
    outcome, _ = answered(503, {"Retry-After": date})
    assert outcome.after_seconds == 40


def test_words_of_the_engine_are_kept_short_and_printable() -> None:
    outcome, _ = answered(400, body=b"out of order\x1b[2J\nsample " + b"x" * 9_000)
    assert "out of order" in outcome.reason
    assert "\x1b" not in outcome.reason
    assert len(outcome.reason) < 500
    outcome, _ = answered(403, body=b"<html><body>Sign in</body></html>")
    assert "Sign in" not in outcome.reason
    assert outcome.reason.endswith("check store.prometheus.auth and headers")


def test_an_engine_that_is_not_there() -> None:
    outcome = sent(f"http://127.0.0.1:{free_port()}")
    assert outcome.kind == "later"
    assert outcome.reason.endswith("cannot be reached: connection refused")


def test_a_slow_engine() -> None:
    with scripted_engine(lambda _: ((engine.over.wait(20) and 200) or 200, {}, b"")) as engine:
        outcome = sent(engine.url, timeout=0.2)
    assert outcome.kind == "later"
    assert outcome.reason.endswith("did not answer within 0.2 s")


def test_a_secret_that_cannot_be_read_waits(tmp_path) -> None:
    outcome = sent("http://127.0.0.1:1", auth=RemoteAuth(bearer_token_file=str(tmp_path / "gone")))
    assert outcome.kind == "later"
    assert "the secret file" in outcome.reason
