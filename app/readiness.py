"""Says when the page can be opened: the moment a new user waits for."""

import http.client
import logging
import urllib.request
from collections.abc import Callable

POLL_SECONDS = 0.1
PATIENCE_SECONDS = 30.0
_ANSWER_SECONDS = 0.5  # the supervisor does nothing else meanwhile

_log = logging.getLogger("supervise")


def page_url(host: str, port: int) -> str:
    """Where a browser on this machine finds the page when the server listens on `host`."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def answers(url: str) -> bool:
    """Does the web process at `url` say that it is ready?"""
    try:
        # Never through a proxy: it is this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{url}/-/ready", timeout=_ANSWER_SECONDS) as reply:
            return bool(reply.status == 200)
    except (OSError, http.client.HTTPException):  # not listening yet; or half an answer
        return False


class Announcement:
    """Polls until the page answers once, then tells the user where it is."""

    def __init__(
        self, url: str, *, ready: Callable[[str], bool], now: Callable[[], float], say: Callable[[str], None]
    ) -> None:
        self._url = url
        self._ready = ready
        self._now = now
        self._say = say
        self._since = now()
        self._done = False
        self._complained = False

    def __call__(self) -> float | None:
        """One look; the seconds until the next one, None when there is nothing left to wait for."""
        if self._done:
            return None
        if self._ready(self._url):
            self._say(f"Strata is ready: {self._url}")
            self._done = True
            return None
        if not self._complained and self._now() - self._since > PATIENCE_SECONDS:
            self._complained = True
            _log.warning(
                "the page does not answer yet", extra={"url": self._url, "seconds": PATIENCE_SECONDS}
            )
        return POLL_SECONDS
