"""Servers on loopback that count requests: S3 (by moto), and HTTP."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aiohttp import web

BUCKET = "lake"


class Counts:
    """Requests by kind, and the bytes of answers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        self.requests: Counter[str] = Counter()
        self.paths: list[str] = []
        self.bytes = 0

    def note(self, kind: str, path: str, length: int) -> None:
        with self._lock:
            self.requests[kind] += 1
            self.paths.append(f"{kind} {path}")
            self.bytes += length


class CountingApp:
    """A WSGI application in front of moto that counts requests to S3."""

    def __init__(self, app: Callable[..., Iterable[bytes]], counts: Counts) -> None:
        self._app = app
        self._counts = counts

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        lengths: list[int] = []

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            lengths.extend(
                int(value) for name, value in headers if name.lower() == "content-length"
            )
            return start_response(status, headers, *rest)

        answer = self._app(environ, start)
        method, query = environ["REQUEST_METHOD"], environ.get("QUERY_STRING", "")
        kind = "LIST" if method == "GET" and "list-type" in query else method
        length = sum(lengths) if method == "GET" else 0
        self._counts.note(kind, environ["PATH_INFO"], length)
        return answer


@contextmanager
def s3_server() -> Iterator[tuple[str, Counts]]:
    """Run moto's S3; yield its URL and its counts."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_: Any) -> None:
            """Say nothing."""

    counts = Counts()
    app = CountingApp(DomainDispatcherApplication(create_backend_app), counts)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, name="moto")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}", counts
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class WebServer:
    """Files of a directory over HTTP.

    Args:
        directory: What is served.
        lists: Whether it answers for directories, as pages of links.
        ranges: Whether it answers requests for parts of files.
        digests: Whether it tells digests of files.
        relative: Whether the links of a directory are relative, with one that sorts it, as those
            of common servers are; else they begin with a slash.
    """

    def __init__(
        self,
        directory: Path,
        lists: bool = True,
        ranges: bool = True,
        digests: bool = False,
        relative: bool = False,
    ) -> None:
        self.directory = directory
        self.lists = lists
        self.ranges = ranges
        self.digests = digests
        self.relative = relative
        self.counts = Counts()
        # Headers of all requests, and where requests are redirected to, in place of an answer.
        self.headers: list[Mapping[str, str]] = []
        self.queries: list[str] = []
        self.targets: list[str] = []  # of all requests, as they were sent
        self.redirect: str | None = None
        self.moved: dict[str, str] = {}
        # Answers in place of the next ones: statuses, or 0 for a connection that breaks.
        self.failures: list[int] = []
        self.retry_after: str | None = None  # a header of these answers
        # Makes the answers for parts of files in place of the server, where it is set: from the
        # request, and all bytes of the file.
        self.part: Callable[[web.Request, bytes], Awaitable[web.StreamResponse]] | None = None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        path = self.directory / request.path.lstrip("/")
        self.counts.note(request.method, request.path, 0)
        self.headers.append(request.headers)
        self.queries.append(request.query_string)
        self.targets.append(request.raw_path)
        for old, new in self.moved.items():
            if request.path.startswith(old):
                return web.Response(
                    status=302, headers={"Location": request.raw_path.replace(old, new, 1)}
                )
        if self.redirect is not None:
            return web.Response(status=307, headers={"Location": self.redirect + request.raw_path})
        if self.failures and request.method == "GET":
            status = self.failures.pop(0)
            if status:
                after = {} if self.retry_after is None else {"Retry-After": self.retry_after}
                return web.Response(status=status, headers=after)
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        if path.is_dir():
            if not self.lists:
                return web.Response(status=403)
            names = [one.name + "/" * one.is_dir() for one in sorted(path.iterdir())]
            here = "" if self.relative else request.raw_path.partition("?")[0].rstrip("/") + "/"
            sort = '<a href="?C=N;O=D">Name</a>' if self.relative else ""
            links = sort + "".join(f'<a href="{here}{quote(name)}">x</a>' for name in names)
            return web.Response(text=f"<html>{links}</html>", content_type="text/html")
        if not path.is_file():
            return web.Response(status=404)
        if self.part is not None and "Range" in request.headers:
            return await self.part(request, path.read_bytes())
        return self._file(request, path.read_bytes())

    def _file(self, request: web.Request, data: bytes) -> web.Response:
        digest = {"ETag": f'"{sha256(data).hexdigest()}"'} if self.digests else {}
        wanted = request.http_range if self.ranges else slice(None)
        if wanted.start is None and wanted.stop is None:
            return web.Response(body=data, headers={"Accept-Ranges": "bytes", **digest})
        start, end, _ = wanted.indices(len(data))
        headers = {"Content-Range": f"bytes {start}-{end - 1}/{len(data)}", **digest}
        return web.Response(status=206, body=data[start:end], headers=headers)


@contextmanager
def web_server(server: WebServer, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Run a server in a thread of its own, perhaps with TLS; yield its URL."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="web")
    thread.start()

    def run(work: Awaitable[Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(10)  # type: ignore[arg-type]

    async def start() -> tuple[web.AppRunner, int]:
        app = web.Application()
        app.router.add_get("/{path:.*}", server.answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        return runner, runner.addresses[0][1]

    runner, port = run(start())
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{port}"
    finally:
        run(runner.cleanup())
        # Connections that are closed end in the next round of the loop; with TLS, clients answer.
        run(asyncio.sleep(0.2 if tls else 0))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
