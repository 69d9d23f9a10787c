"""What is checked before anything starts."""

import socket

import pytest

from app.preflight import NotReady, check_port


@pytest.fixture
def taken_port():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen(1)
        yield holder.getsockname()[1]


def test_a_taken_port_is_named_with_the_option_that_mends_it(taken_port):
    with pytest.raises(NotReady, match=rf"port {taken_port} on 127\.0\.0\.1 is taken.*--port"):
        check_port("127.0.0.1", taken_port)


def test_the_wildcard_address_is_taken_too(taken_port):
    with pytest.raises(NotReady, match="--port"):
        check_port("0.0.0.0", taken_port)


def test_a_port_somebody_has_just_left_is_free():
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as every server sets it
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = server.accept()
            accepted.close()  # closed first: this side is the one that enters TIME_WAIT
            client.recv(1)
    check_port("127.0.0.1", port)
    check_port("localhost", port)


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host"])
def test_an_address_of_another_machine_is_refused(host):
    with pytest.raises(NotReady, match=r"no address of this machine.*--host"):
        check_port(host, 8501)
