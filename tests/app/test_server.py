"""The web process itself, over loopback: routes, Host check, stopping, where its configuration is found."""

import http.client
import signal
import subprocess
import sys
import time

import pytest

from db.engine import open_state
from db.processes import read_processes
from tests.browser.server import WebServer, web_server
from tests.needs import require_program


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("web")
    # A configuration of somebody else's, where Streamlit would look for one.
    for place in (folder / ".streamlit", folder / "elsewhere" / ".streamlit"):
        place.mkdir(parents=True)
        (place / "config.toml").write_text(
            "[browser]\ngatherUsageStats = true\n[server]\nenableAgentApi = true\nenableCORS = false\n"
            '[theme.light]\nprimaryColor = "#123456"\n'
        )
    with web_server(folder / "data", cwd=folder / "elsewhere") as running:
        yield running


def test_healthy_ready_and_metrics(server: WebServer):
    assert server.get("/-/healthy") == (200, "Strata is healthy.\n")
    assert server.get("/-/ready") == (200, "Strata is ready.\n")
    status, text = server.get("/metrics")
    assert status == 200
    assert "strata_web_store_readable 1\n" in text
    assert 'strata_web_requests_total{code="200"}' in text


def test_own_metrics_are_as_promtool_likes_them(server: WebServer):
    promtool = require_program("promtool")
    checked = subprocess.run(
        [promtool, "check", "metrics"],
        input=server.get("/metrics")[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


@pytest.mark.parametrize(
    "path", ["/", "/sources", "/-/healthy", "/-/ready", "/metrics", "/_stcore/health", "/media/x"]
)
def test_no_route_answers_for_a_foreign_host(server: WebServer, path):
    status, text = server.get(path, host="evil.example")
    assert status == 421
    assert text.startswith("This host name is not served here")


@pytest.mark.parametrize(("host", "status"), [("evil.example", 403), ("localhost", 101)])
def test_the_websocket_is_checked_too(server: WebServer, host, status):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.putrequest("GET", "/_stcore/stream", skip_host=True)
    for name, value in {
        "Host": f"{host}:{server.port}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }.items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == status
    connection.close()


def test_nobody_elses_configuration_counts(server: WebServer):
    assert server.get("/_stcore/agent/interact")[0] in (404, 405)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request("GET", "/_stcore/health", headers={"Origin": "http://evil.example"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.headers.get("Access-Control-Allow-Origin") is None


def test_it_reports_that_it_is_alive(server: WebServer, tmp_path_factory):
    state = open_state(server.log.parent / "data" / "state.db")
    (web,) = read_processes(state)
    state.dispose()
    assert (web.name, web.pid, web.state) == ("web", server.process.pid, "running")
    assert web.beat_ms is not None
    assert abs(time.time() * 1000 - web.beat_ms) < 15_000


def test_a_taken_port_is_one_sentence(server: WebServer, tmp_path):
    refused = subprocess.run(
        [sys.executable, "-m", "app", "web", "--data", str(tmp_path / "data"), "--port", str(server.port)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 1
    assert "--port" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_quick_clean_and_silent(tmp_path, signum):
    with web_server(tmp_path / "data") as running:
        code, seconds = running.stop(signum)
        assert code == 0
        assert seconds < 2.0
        assert running.log.read_text() == ""


def test_an_unreadable_store_is_not_ready_but_served(tmp_path):
    data = tmp_path / "data"
    with web_server(data) as running:
        for name in ("samples.db", "samples.db-wal", "samples.db-shm"):
            (data / name).unlink(missing_ok=True)
        (data / "samples.db").write_bytes(b"this is no database " * 100)
        status, text = running.get("/-/ready")
        assert status == 503
        assert text.startswith("Not ready: ")
        assert running.get("/-/healthy")[0] == 200
        assert running.get("/")[0] == 200
        assert "strata_web_store_readable 0\n" in running.get("/metrics")[1]
        (data / "samples.db").unlink()
        assert running.get("/-/ready")[0] == 200
