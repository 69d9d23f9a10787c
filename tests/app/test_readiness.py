"""When the page is announced."""

import http.server
import threading

import pytest

from app.readiness import PATIENCE_SECONDS, Announcement, answers, page_url
from tests.fakes_supervision import FakeClock


class _Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/-/ready":
            self.send_response(self.server.status)
            self.end_headers()
        else:
            self.send_error(404)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def web():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Web)
    server.status = 200
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_announces_the_page_once(web):
    said = []
    url = page_url("127.0.0.1", web.server_port)
    announcement = Announcement(url, ready=answers, now=FakeClock().now, say=said.append)
    web.status = 503
    assert announcement() is not None
    assert said == []
    web.status = 200
    assert announcement() is None
    assert announcement() is None
    assert said == [f"Strata is ready: http://127.0.0.1:{web.server_port}"]


def test_nobody_there_is_not_ready(web):
    web.server_close()
    assert answers(page_url("127.0.0.1", web.server_port)) is False


def test_a_server_that_does_not_speak_http_is_not_ready(web):
    web.finish_request = lambda request, address: request.sendall(b"SSH-2.0-OpenSSH\r\n")
    assert answers(page_url("127.0.0.1", web.server_port)) is False


def test_a_page_that_does_not_come_is_said_once(caplog):
    clock = FakeClock()
    announcement = Announcement("http://x", ready=lambda url: False, now=clock.now, say=pytest.fail)
    for _ in range(3):
        clock.seconds += PATIENCE_SECONDS * 0.6
        announcement()
    assert caplog.text.count("does not answer yet") == 1


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("fd00::7", "http://[fd00::7]:80"),
        ("gpu-head", "http://gpu-head:80"),
    ],
)
def test_the_url_is_one_a_browser_here_can_open(host, url):
    assert page_url(host, 80) == url
