"""The ASGI application of `lancefs serve`: from a request to its answer.

/                        the tables
/orders.lance/           the tree of a table, as the filesystem `lance` shows it
/orders.lance/rows?…     a page about a table
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes

import anyio
import anyio.to_thread
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from lancefs.errors import NoSuchPath
from lancefs.filesystem import LanceFileSystem
from lancefs.masking import mask_secrets
from lancefs.serve.files import Sending, answer_file, is_file_name
from lancefs.serve.guard import METHODS, Guard
from lancefs.serve.listings import Entry, list_directory
from lancefs.serve.refusals import is_expected, message_of, refusal, status_of

# Requests under way, and threads that work for them; the other requests wait for a thread.
MAX_REQUESTS = 256
THREADS = 8

# Headers that scripts of other origins may see, besides the usual ones.
_EXPOSED = ("Accept-Ranges", "Content-Length", "Content-Range", "ETag", "Retry-After")
# Scheme and host, which the target of a request may begin with (RFC 9112, section 3.2.2).
_SERVER = re.compile(rb"https?://[^/]*", re.IGNORECASE)
_PAGE_HEADERS = {
    # Pages have no scripts, load nothing, and stay out of frames.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
    "Vary": "Accept",
}


@dataclass(frozen=True, slots=True)
class ServedTable:
    """A table that is served.

    Attributes:
        fs: Its tree: a filesystem that begins in the table.
        place: Where it is, as messages name it.
    """

    fs: LanceFileSystem
    place: str


class Pages(Protocol):
    """Makes HTML pages for people."""

    @property
    def names(self) -> Collection[str]:
        """The pages of each table. None of them is a name in the tree."""

    def tables(self, entries: Sequence[Entry]) -> str:
        """Return the page that lists the tables."""

    def directory(self, table: str, path: str, entries: Sequence[Entry]) -> str:
        """Return the page that lists a directory of the tree of a table."""

    def page(self, table: str, name: str, query: Mapping[str, str]) -> str:
        """Return a page about a table.

        Raises:
            BadRequest: The query makes no sense.
            FileNotFoundError: There is no such version.
            LanceError: The table cannot be read.
        """


def make_app(
    tables: Mapping[str, ServedTable],
    pages: Pages,
    token: str | None,
    tell: Callable[[str], None],
    most_requests: int = MAX_REQUESTS,
) -> ASGIApp:
    """Return the application that serves some tables.

    Args:
        tables: The tables by their names.
        pages: Makes pages for people.
        token: What clients must show; None for no token.
        tell: Is called with a line for whoever runs the server, about errors of the server.
        most_requests: Requests that may be under way.
    """
    # Scripts of any origin may read, as DuckDB's browser build must. They cannot send what a
    # browser has stored (`Access-Control-Allow-Credentials` is not given): a token keeps them out.
    return CORSMiddleware(
        Guard(Site(tables, pages, tell), token, most_requests),
        allow_origins=["*"],
        allow_methods=list(METHODS),
        allow_headers=["*"],
        allow_private_network=True,  # pages of the internet too, which some browsers ask for
        expose_headers=list(_EXPOSED),
        max_age=86_400,
    )


class Site:
    """The ASGI application behind the guard.

    Args:
        tables: The tables by their names.
        pages: Makes pages for people.
        tell: Is called with a line about errors of the server.
    """

    def __init__(
        self, tables: Mapping[str, ServedTable], pages: Pages, tell: Callable[[str], None]
    ) -> None:
        self._tables = tables
        self._pages = pages
        self._tell = tell
        self._sending = Sending(anyio.CapacityLimiter(THREADS), self._refuse, self._note)
        places = [(table.place, name) for name, table in tables.items() if table.place.strip("/")]
        # The longest first: a place may begin with another one.
        self._places = dict(sorted(places, key=lambda one: -len(one[0])))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; an error becomes an answer, too."""
        request = Request(scope)
        work = partial(self._answer, request)
        try:
            answer = await anyio.to_thread.run_sync(work, limiter=self._sending.threads)
        except Exception as error:  # one answer, not the server, as in `main` one command
            answer = self._refuse(error)
        await answer(scope, receive, send)

    def _answer(self, request: Request) -> ASGIApp:
        """Find what a path means, and return the answer. Reads tables: not for the event loop."""
        parts, has_slash = _split(request.scope["raw_path"])
        if not parts:
            entries = [Entry(name, True) for name in self._tables]
            return _listing(request, "", entries, lambda: self._pages.tables(entries))
        name, below = parts[0], parts[1:]
        if name not in self._tables:
            raise NoSuchPath(f"there is no table {name!r} here; / lists the tables")
        if len(below) == 1 and below[0] in self._pages.names and not has_slash:
            html = self._pages.page(name, below[0], dict(request.query_params))
            return HTMLResponse(html, headers=_PAGE_HEADERS)
        return self._answer_tree(request, name, "/".join(below), has_slash)

    def _answer_tree(self, request: Request, name: str, path: str, has_slash: bool) -> ASGIApp:
        """Return the answer for a path in the tree of a table."""
        fs, headers = self._tables[name].fs, dict(request.headers)
        if request.method == "HEAD":
            headers.pop("range", None)  # which is of GET alone (RFC 9110, section 14.2)
        answer = partial(answer_file, fs, path, headers, self._sending)
        if not has_slash and is_file_name(path):
            with suppress(IsADirectoryError):  # a tag may have such a name, too
                return answer()  # to ask what it is would list a remote table once more
        if not path or fs.isdir(path):
            if not has_slash:  # links of a listing begin in its directory
                last = request.scope["raw_path"].rpartition(b"/")[2].decode("ascii")
                return RedirectResponse(f"./{last}/", 307)
            entries = list_directory(fs, path)
            make = partial(self._pages.directory, name, path, entries)
            return _listing(request, f"{name}/{path}".rstrip("/"), entries, make)
        if has_slash and fs.isfile(path):
            raise NoSuchPath(f"{name}/{path} is a file: leave out the slash behind it")
        return answer()

    def _refuse(self, error: Exception) -> Response:
        """Return the answer for an error, and tell of it where it is not the client's fault."""
        status = status_of(error)
        if status == 500:
            self._note(error)
        return refusal(status, message_of(error, self._places))

    def _note(self, error: Exception) -> None:
        """Tell of an error whoever runs the server."""
        what = str(error) if is_expected(error) else f"{type(error).__name__}: {error}"
        self._tell(mask_secrets(what))


def _listing(
    request: Request, path: str, entries: Sequence[Entry], make: Callable[[], str]
) -> Response:
    """Return a listing as JSON where that is asked for, else as a page."""
    if "application/json" in request.headers.get("accept", ""):
        facts: dict[str, Any] = {"path": f"/{path}", "entries": [one.facts() for one in entries]}
        return Response(
            json.dumps(facts),  # in ASCII: names of files may be no Unicode
            media_type="application/json",
            headers={"Vary": "Accept", "Cache-Control": "no-cache"},
        )
    return HTMLResponse(make(), headers=_PAGE_HEADERS)


def _split(raw_path: bytes) -> tuple[list[str], bool]:
    """Split the target of a request into names, and say whether a slash follows them.

    Names are unquoted once, each by itself: a quoted slash never leads anywhere. Bytes that are no
    UTF-8 become what Python makes of such bytes in names of files, as in `Entry.link`.

    Raises:
        NoSuchPath: A part of the path can be no name.
    """
    found = _SERVER.match(raw_path)
    quoted = (raw_path if found is None else raw_path[found.end() :]).split(b"/")[1:]
    has_slash = not quoted or not quoted[-1]
    parts = [unquote_to_bytes(part).decode("utf-8", "surrogateescape") for part in quoted]
    names = parts[:-1] if has_slash else parts
    if any(name in ("", ".", "..") or "/" in name or "\0" in name for name in names):
        raise NoSuchPath("a part of the path is empty, '.', '..', or has a slash in it")
    return names, has_slash
