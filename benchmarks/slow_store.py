"""A web server in front of a directory that speaks as much of S3 as readers need, and is slow.

Every request waits before it is answered, as those to an object store do; any number of them wait
at the same time. It counts requests, and the bytes of its answers.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

from aiohttp import web

BUCKET = "bench"


class SlowStore:
    """Answers requests for the files of a directory, which is the bucket `bench`.

    Args:
        directory: What is served.
        seconds: How long each request waits.
    """

    def __init__(self, directory: Path, seconds: float) -> None:
        self.directory = directory
        self.seconds = seconds
        self.requests = self.bytes = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request to list, to look at or to read."""
        if request.path == "/counts":
            answer = web.json_response({"requests": self.requests, "bytes": self.bytes})
            self.requests = self.bytes = 0
            return answer
        self.requests += 1
        await asyncio.sleep(self.seconds)
        key = request.path.strip("/").removeprefix(BUCKET).lstrip("/")
        if "list-type" in request.query or not key:
            return self._list(request.query.get("prefix", ""), request.query.get("delimiter"))
        path = self.directory / key
        if not path.is_file():
            return web.Response(status=404)
        return self._read(request, path)

    def _read(self, request: web.Request, path: Path) -> web.Response:
        size = path.stat().st_size
        headers = {"ETag": f'"{path.stat().st_mtime_ns}"', "Accept-Ranges": "bytes"}
        start, end, _ = request.http_range.indices(size)
        if request.method == "HEAD":
            return web.Response(headers=headers | {"Content-Length": str(size)})
        data = os.pread(fd := os.open(path, os.O_RDONLY), end - start, start)
        os.close(fd)
        self.bytes += len(data)
        if "Range" not in request.headers:
            return web.Response(body=data, headers=headers)
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        return web.Response(status=206, body=data, headers=headers)

    def _list(self, prefix: str, delimiter: str | None) -> web.Response:
        contents, common = [], set()
        for path in sorted(self.directory.rglob("*")):
            key = path.relative_to(self.directory).as_posix()
            if not path.is_file() or not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                common.add(prefix + rest.split(delimiter)[0] + delimiter)
                continue
            status = path.stat()
            contents.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{status.st_size}</Size>"
                f'<ETag>"{status.st_mtime_ns}"</ETag>'
                "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            )
        below = "".join(
            f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in common
        )
        text = (
            '<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated>'
            f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(contents) + len(common)}</KeyCount>{''.join(contents)}{below}"
            "</ListBucketResult>"
        )
        return web.Response(text=text, content_type="application/xml")


def _serve(directory: Path, seconds: float, port: multiprocessing.Queue[int]) -> None:
    async def run() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", SlowStore(directory, seconds).answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port.put(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def slow_store(directory: Path, seconds: float) -> Iterator[str]:
    """Run such a server in a process of its own: its address."""
    context = multiprocessing.get_context("spawn")
    port: multiprocessing.Queue[int] = context.Queue()
    process = context.Process(target=_serve, args=(directory, seconds, port), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{port.get(timeout=60)}"
    finally:
        process.terminate()
        process.join()
