"""Refuses requests for a host name that is not ours, on every route and on the WebSocket.

A page on another site can make a browser resolve that site's name to 127.0.0.1 (DNS rebinding) and then
read us as if we were that site; only the Host header gives it away. Streamlit's own `allowedHosts` guards
its WebSocket, not the routes beside it.
"""

import ipaddress
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_POLICY_VIOLATION = 1008
_MISDIRECTED = 421


class HostCheck:
    """ASGI middleware: 421 with one sentence for HTTP, a refused handshake for WebSockets."""

    def __init__(self, application: Application, host: str, allowed: Iterable[str]) -> None:
        """host: what the server listens on. allowed: names from the configuration, with or without port."""
        self._application = application
        self._allowed = {_name_and_port(entry) for entry in (*_LOOPBACK, host, *allowed)}
        self.refused = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or self.allows(_host_headers(scope)):
            await self._application(scope, receive, send)
            return
        self.refused += 1
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        body = (
            b"This host name is not served here; use the address that `strata up` printed, "
            b"or add the name to web.allowed_hosts.\n"
        )
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
            (b"x-content-type-options", b"nosniff"),
        ]
        await send({"type": "http.response.start", "status": _MISDIRECTED, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def allows(self, hosts: list[str]) -> bool:
        """Exactly one Host header, naming us. Any port will do unless the configuration names one: a
        forwarded port differs from ours, and rebinding is about names."""
        if len(hosts) != 1:
            return False
        name, port = _name_and_port(hosts[0])
        return name != "" and bool({(name, port), (name, "")} & self._allowed)


def _host_headers(scope: Scope) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == b"host"]


def _name_and_port(host: str) -> tuple[str, str]:
    """("", "") for what is no host; IPv6 without brackets, in its shortest spelling."""
    text = host.strip().lower()
    if text.startswith("["):
        name, closing, rest = text[1:].partition("]")
        if not closing or (rest and not rest.startswith(":")):
            return "", ""
        port = rest[1:]
    elif text.count(":") > 1:
        name, port = text, ""
    else:
        name, _, port = text.partition(":")
    if port and not (port.isascii() and port.isdigit()):
        return "", ""
    try:
        name = str(ipaddress.ip_address(name))
    except ValueError:
        name = name.rstrip(".")
    return name, port
