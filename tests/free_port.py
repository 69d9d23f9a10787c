"""Ports for the servers that tests start, so that tests of several processes do not meet on one.

A port that the kernel chose and that was given back is anybody's: another test's server or an outgoing
connection may have it before the server that it was meant for listens. So these lie below the range from
which the kernel gives (net.ipv4.ip_local_port_range begins with 32768), and every process counts on from a
place of its own and gives none twice.
"""

import random
import socket
from itertools import count

_FIRST, _END = 20_000, 30_000
_places = count(random.randrange(_END - _FIRST))


def free_port() -> int:
    """A loopback port on which nobody listens."""
    while True:
        port = _FIRST + next(_places) % (_END - _FIRST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
