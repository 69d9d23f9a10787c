"""A web server on loopback whose pages a test sets and changes while it runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class Page:
    """One answer; a `hang` page is never answered."""

    body: bytes | str = ""
    content_type: str = "text/plain; version=0.0.4"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False


@dataclass
class Pages:
    """A running server: what it answers by path (404 elsewhere), and what it was asked."""

    port: int = 0
    by_path: dict[str, Page] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    asked_headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        self.asked_headers.append(dict(request.headers))
        page = self.by_path.get(request.path, Page("not found", status=404))
        if page.hang:
            await asyncio.sleep(60)
        body = page.body.encode() if isinstance(page.body, str) else page.body
        headers = {"Content-Type": page.content_type, **page.headers}
        return web.Response(body=body, status=page.status, headers=headers)


@asynccontextmanager
async def serving(port: int = 0, **pages: Page) -> AsyncIterator[Pages]:
    """Serve on a port (0: a free one); pages may be set afterwards in `by_path`."""
    server = Pages(by_path={f"/{name}": page for name, page in pages.items()})
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()
