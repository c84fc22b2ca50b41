"""Serving files of the tree over HTTP: whole or a range, read by threads in parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import NamedTuple

import anyio
import anyio.to_thread
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from lancefs.filesystem import LanceFileSystem
from lancefs.serve.ranges import (
    ByteSpan,
    RangeNotSatisfiable,
    is_known,
    is_meant,
    still_holds,
    wanted_span,
)
from lancefs.serve.refusals import refusal
from lancefs.views.file_objects import ForwardFile, ViewFile

_TYPES = {
    ".arrow": "application/vnd.apache.arrow.file",
    ".arrows": "application/vnd.apache.arrow.stream",
    ".json": "application/json",
}
# Bytes that are read at once and wait to be sent: what a request holds, besides what views cache.
PART = 1024 * 1024
# Seconds after which a client that takes nothing is given up.
_STALLED = 120


class Sending(NamedTuple):
    """What sends the answers of an application.

    Attributes:
        threads: Limits the threads that read.
        refuse: Returns the answer for an error that comes before any bytes.
        on_error: Is called with an error that comes when an answer has begun.
    """

    threads: anyio.CapacityLimiter
    refuse: Callable[[Exception], Response]
    on_error: Callable[[Exception], None]


def is_file_name(path: str) -> bool:
    """Return whether a path in the tree ends as those of files do."""
    return path.endswith(tuple(_TYPES))


def answer_file(
    fs: LanceFileSystem, path: str, headers: Mapping[str, str], sending: Sending
) -> ASGIApp:
    """Open a file, and return the answer that sends what a request wants of it.

    Args:
        fs: The tree of a table.
        path: The file.
        headers: The headers of the request.
        sending: What sends the answer.

    Raises:
        FileNotFoundError: There is no such file.
        LanceError: It cannot be read.
    """
    known = headers.get("if-none-match")
    if known is not None and is_known(known, etag := f'"{fs.ukey(path)}"'):
        is_asked = is_meant(headers.get("if-match"), etag)
        return Response(status_code=304, headers=_headers(etag)) if is_asked else _other(etag)
    file: ViewFile | ForwardFile = fs.open(path, "rb")
    try:
        return _answer(file, path, headers, sending)
    except BaseException:
        file.close()
        raise


def _answer(
    file: ViewFile | ForwardFile, path: str, headers: Mapping[str, str], sending: Sending
) -> ASGIApp:
    """Return the answer that sends an open file, which the answer closes."""
    etag = f'"{file.ukey}"'
    if not is_meant(headers.get("if-match"), etag):
        file.close()
        return _other(etag)
    about = _headers(etag) | {"Content-Type": _TYPES[f".{path.rpartition('.')[2]}"]}
    if isinstance(file, ForwardFile):
        about["Accept-Ranges"] = "none"
        return FileAnswer(file, None, 200, about, sending)
    about["Accept-Ranges"] = "bytes"
    size = int(file.size)
    try:
        wanted = headers.get("range") if still_holds(headers.get("if-range"), etag) else None
        span = wanted_span(wanted, size)
    except RangeNotSatisfiable:
        file.close()
        return refusal(
            416,
            f"the file has {size} bytes, none of them in this range",
            {"Content-Range": f"bytes */{size}", "Accept-Ranges": "bytes"},
        )
    if span is not None:
        about["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{size}"
    status, span = (200, ByteSpan(0, size)) if span is None else (206, span)
    about["Content-Length"] = str(span.end - span.start)
    return FileAnswer(file, span, status, about, sending)


def _other(etag: str) -> Response:
    """Return the response (412) where `If-Match` names other files only."""
    return refusal(412, "the file is another one now than the request means", {"ETag": etag})


def _headers(etag: str) -> dict[str, str]:
    # To be asked for again each time, which costs little by the tag: `latest` moves on, and a table
    # may be made anew with the same numbers of versions.
    return {"ETag": etag, "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}


class FileAnswer:
    """An ASGI application that sends an open file in parts, and closes it.

    The first part is read before the status is sent. An error after that ends the connection before
    the announced end, so that no client takes what it has for the whole.

    Args:
        file: The file.
        span: What is sent of it; None for a stream, to its end.
        status: The status of HTTP.
        headers: The headers of the answer.
        sending: What sends it.
    """

    def __init__(
        self,
        file: ViewFile | ForwardFile,
        span: ByteSpan | None,
        status: int,
        headers: Mapping[str, str],
        sending: Sending,
    ) -> None:
        self._file = file
        self._span = span
        self._status = status
        self._headers = headers
        self._sending = sending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer until its end, an error, or the client goes away."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_cancel_when_gone, receive, group.cancel_scope)
                await self._answer(scope, receive, send)
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):  # streams wait for threads that read ahead
                await self._in_thread(self._file.close)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        parts = self._parts()
        try:
            first = b"" if scope["method"] == "HEAD" else await anext(parts, b"")
        except Exception as error:
            await self._sending.refuse(error)(scope, receive, send)
            return
        headers = [(name.lower().encode(), one.encode()) for name, one in self._headers.items()]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        if not first:
            await send({"type": "http.response.body", "body": b""})
            return
        try:
            await _send_part(send, first)
            async for part in parts:
                await _send_part(send, part)
            await send({"type": "http.response.body", "body": b""})
        except Exception as error:  # the answer has begun: all that is left is to cut it short
            self._sending.on_error(error)

    async def _parts(self) -> AsyncIterator[bytes]:
        """Yield the bytes part by part; the next one is read when the last one was taken."""
        if self._span is not None:
            self._file.seek(self._span.start)
        left = None if self._span is None else self._span.end - self._span.start
        while left is None or left > 0:
            size = PART if left is None else min(PART, left)
            part = await self._in_thread(partial(self._file.read, size))
            if not part:
                return
            left = None if left is None else left - len(part)
            yield part

    async def _in_thread(self, work: Callable[[], bytes | None]) -> bytes | None:
        """Call a function in a thread; the call ends even if the request is given up meanwhile."""
        return await anyio.to_thread.run_sync(work, limiter=self._sending.threads)


async def _send_part(send: Send, part: bytes) -> None:
    try:
        with anyio.fail_after(_STALLED):
            await send({"type": "http.response.body", "body": part, "more_body": True})
    except TimeoutError:
        text = f"a client took nothing for {_STALLED} seconds: its answer was cut short"
        raise TimeoutError(text) from None


async def _cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    """Cancel a scope when the client goes away."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
