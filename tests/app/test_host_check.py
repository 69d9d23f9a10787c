import asyncio

import pytest

from app.host_check import HostCheck


def refused(host, *, kind="http", own="127.0.0.1", allowed=()):
    """The messages sent instead of the application's answer; [] when it was asked."""
    sent = []

    async def application(scope, receive, send):
        sent.append("asked")

    async def send(message):
        sent.append(message)

    headers = [(b"host", one.encode("latin-1")) for one in ([host] if isinstance(host, str) else host)]
    scope = {"type": kind, "headers": headers, "path": "/"}
    asyncio.run(HostCheck(application, own, allowed)(scope, None, send))
    return [] if sent == ["asked"] else sent


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8501",
        "127.0.0.1:8501",
        "[::1]:8501",
        "[::1]",
        "LOCALHOST:9000",
        "localhost.:8501",
    ],
)
def test_loopback_names_are_served(host):
    assert refused(host) == []


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8501",
        "localhost.evil.example",
        "127.0.0.1.nip.io:8501",
        "127.0.0.2",
        "user@localhost",
        "localhost:8501/x",
        "localhost:x",
        "",
        "[::1",
        "[::1]x",
        "caf\xe9",
    ],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_every_other_name_is_refused(host, kind):
    sent = refused(host, kind=kind)
    if kind == "websocket":
        assert sent == [{"type": "websocket.close", "code": 1008}]
    else:
        assert sent[0]["status"] == 421
        assert sent[1]["body"].count(b"\n") == 1


@pytest.mark.parametrize("hosts", [[], ["localhost", "localhost"], ["localhost", "evil.example"]])
def test_exactly_one_host_header(hosts):
    assert refused(hosts)


def test_configured_names():
    assert refused("strata.example:8501", allowed=["strata.example"]) == []
    assert refused("strata.example:443", allowed=["strata.example:8501"])
    assert refused("strata.example:8501", allowed=["strata.example:8501"]) == []
    assert refused("10.1.2.3:8501", own="10.1.2.3") == []
    assert refused("10.1.2.4:8501", own="10.1.2.3")


def test_other_kinds_of_scope_pass():
    seen = []

    async def application(scope, receive, send):
        seen.append(scope["type"])

    asyncio.run(HostCheck(application, "127.0.0.1", ())({"type": "lifespan"}, None, None))
    assert seen == ["lifespan"]
