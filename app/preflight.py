"""What has to be true before anything is started: the port is free."""

import errno
import socket


class NotReady(Exception):
    """Nothing was started; str() is one sentence with the mend."""


def check_port(host: str, port: int) -> None:
    """Could the web process listen on host:port? Raises NotReady, naming the option that mends it."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise NotReady(
            f"{host!r} is no address of this machine ({error.strerror}); choose one with --host"
        ) from error
    listening = False
    for family, kind, protocol, _, address in addresses:
        with socket.socket(family, kind, protocol) as probe:
            # As the server does: a port in TIME_WAIT is free, one that somebody listens on is not.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind(address)
                probe.listen(1)
                listening = True
            except OSError as error:
                # "localhost" names an IPv6 address also where IPv6 is off; the server skips it too.
                if error.errno != errno.EADDRNOTAVAIL:
                    raise NotReady(_refusal(host, port, error)) from error
    if not listening:
        raise NotReady(f"{host} is no address of this machine; choose one with --host")


def _refusal(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is taken; stop what uses it, or choose another with --port"
    if error.errno == errno.EACCES:
        return f"port {port} needs privileges; choose one above 1023 with --port"
    return f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port"
