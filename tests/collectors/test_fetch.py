"""Bodies as servers pack them; a body that never ends costs no memory."""

import asyncio
import gzip
import tracemalloc

import pytest

from collectors.fetch import FetchedPage, FetchError, FetchOptions, fetch, new_session

HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Encoding: gzip\r\n\r\n"


def fetched(body: bytes, again: bytes = b"", limit: int = 0) -> FetchedPage:
    """What comes of a gzip body; `again` is sent until nobody listens."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + body)
        try:
            while again and not writer.is_closing():
                writer.write(again)
                await writer.drain()
        except ConnectionError:
            return
        writer.close()

    async def go() -> FetchedPage:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        async with server, new_session() as session:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            return await fetch(session, url, FetchOptions((), body_size_limit=limit), 5.0)

    return asyncio.run(go())


@pytest.mark.parametrize("members", [1, 2, 500])
def test_all_members_of_a_gzip_body_are_read(members: int) -> None:
    lines = [b'm{i="%d"} 1\n' % number for number in range(members)]
    assert fetched(b"".join(map(gzip.compress, lines))).body == b"".join(lines)


@pytest.mark.parametrize(
    "tail", [b"\0", b"garbage", gzip.compress(b"b 1\n")[:9]], ids=["zero", "text", "cut"]
)
def test_a_broken_tail_after_a_member_is_an_error(tail: bytes) -> None:
    with pytest.raises(FetchError, match=r"cannot be unpacked|ends too early"):
        fetched(gzip.compress(b"a 1\n") + tail)


def test_the_size_limit_counts_over_all_members() -> None:
    with pytest.raises(FetchError, match="larger than 1 KiB"):
        fetched(gzip.compress(b"a" * 600) * 2, limit=1024)


@pytest.mark.parametrize(
    ("body", "again"),
    [
        (gzip.compress(b"a 1\n"), b"x" * 65536),
        (b"", gzip.compress(b"") * 3000),
        (gzip.compress(b"")[:10], b"\0\0\0\xff\xff" * 13000),
    ],
    ids=["no gzip behind a member", "empty members", "empty blocks"],
)
def test_a_body_that_unpacks_to_nothing_for_ever_is_cut_off(body: bytes, again: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(FetchError, match=r"cannot be unpacked|larger than 1024 KiB"):
        fetched(body, again, limit=1 << 20)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
