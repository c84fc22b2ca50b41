"""Files behind web servers: names in URLs, and what requests and their answers are held to.

The root of a store is a URL as the user wrote it; names below it are quoted when they are asked
for, so that `?`, `#` and `%` in a name are no syntax. A query of the root, for instance a token,
goes behind the names.

Redirects carry no credentials away, parts of files come uncompressed and are those that were asked
for, and a server that falls silent is given up.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from lancefs.forks import Lock
from lancefs.storage.byte_ranges import Bytes
from lancefs.storage.filesystems import innermost

if TYPE_CHECKING:
    import fsspec

# Headers that another origin may see: what part of a file is wanted, and in which form.
_CARRIED = {"accept", "accept-encoding", "if-match", "if-range", "range", "user-agent"}

# Seconds for a connection, and for the next bytes of an answer. The whole may take any time, which
# aiohttp would end after five minutes, by a slow line in the midst of a large file.
_CONNECT = 30
_SILENCE = 60

# A request for a part of a file, and what it got, by RFC 9110, sections 14.1.2 and 14.4.
_RANGE = re.compile(r"bytes=([0-9]+)-([0-9]+)")
_CONTENT_RANGE = re.compile(r"bytes ([0-9]+)-([0-9]+)/([0-9]+|\*)")

# What ails a server that gives whole files, and what helps.
NO_PARTS = (
    "it does not answer requests for parts of a file, which is needed to read a table: put "
    "simplecache:: before the URL of the table, which copies each file that is read"
)

# What a proxy, or a page to log in, answers in place of a file; it may have been saved as the file.
_PAGE = re.compile(rb"\s*<(?:!doctype )?html\b", re.IGNORECASE)
WEB_PAGE = (
    "it is a web page (HTML): a proxy, or a page to log in, answered in place of the store; check "
    "the address, and whether you are logged in"
)

_GUARDED = "_lancefs_guards_requests"
_LOCK = Lock()


class OtherPart(ConnectionError):
    """A server gave another part of a file than was asked for."""


class OtherServer(PermissionError):
    """A server redirects to another one, which must not see what was given for the first."""


def split_query(url: str) -> tuple[str, str]:
    """Split a URL before its query; the query is empty or begins with `?`."""
    address, mark, query = url.partition("?")
    return address, mark + query


def below(root: str, path: str) -> str:
    """Return the URL of a path below a URL.

    Args:
        root: The URL of a directory.
        path: Names, separated by `/`, not quoted; empty for the directory itself.
    """
    address, query = split_query(root)
    return f"{address.rstrip('/')}/{quote(path)}{query}" if path else root


def listed_name(directory: str, url: str) -> str | None:
    """Return the name of an entry that a server lists, unquoted.

    Args:
        directory: The URL that was listed.
        url: A link of the listing, as fsspec makes a URL of it: a relative one it puts behind the
            URL of the directory, and behind the query of that, too.

    Returns:
        None for a link that is no entry of the directory, such as one that sorts the listing.
    """
    link = url.removeprefix(f"{directory.rstrip('/')}/")
    name = unquote(link.partition("?")[0].partition("#")[0].rstrip("/").rsplit("/", 1)[-1])
    return None if not name or "/" in name or name in (".", "..") else name


def guard_requests(fs: fsspec.AbstractFileSystem) -> None:
    """Keep what was given for one server from going to another one, and answers to their requests.

    aiohttp drops the header `Authorization` when it is redirected to another origin, and carries
    all other headers, the login of the session and its cookies along. It asks for parts of
    compressed files, and nothing looks at which part a server says that it gives. The filesystem
    object is changed, once, so that none of this is so.

    Args:
        fs: A filesystem of web servers, or one that wraps such a filesystem.
    """
    inner: Any = innermost(fs)
    with _LOCK:
        if getattr(inner, _GUARDED, False) or not hasattr(inner, "get_client"):
            return
        setattr(inner, _GUARDED, True)
        inner.get_client = _guarded(inner.get_client)
        if inner._session is not None:
            _watch(inner._session)


def _guarded(get_client: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes sessions as `get_client` does, and guards their requests."""

    async def get_guarded_client(**options: Any) -> Any:
        from aiohttp import ClientTimeout

        timeout = ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_SILENCE)
        session = await get_client(**{"timeout": timeout, **_as_headers(options)})
        _watch(session)
        return session

    return get_guarded_client


def _as_headers(options: dict[str, Any]) -> dict[str, Any]:
    """Return options of a session with login and cookies as headers, which a redirect can drop."""
    from http.cookies import Morsel

    from multidict import CIMultiDict

    options = dict(options)
    headers = CIMultiDict(options.pop("headers", None) or {})
    login, cookies = options.pop("auth", None), options.pop("cookies", None)
    if login is not None:
        headers["Authorization"] = login.encode()
    if cookies:
        pairs = cookies.items() if hasattr(cookies, "items") else cookies
        values = {name: one.value if isinstance(one, Morsel) else one for name, one in pairs}
        headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in values.items())
    return {**options, "headers": headers}


def _watch(session: Any) -> None:
    from aiohttp import TraceConfig

    config = TraceConfig()
    config.on_request_start.append(_ask_for_plain_parts)
    config.on_request_redirect.append(_drop_options)
    config.on_request_end.append(_check_part)
    config.freeze()
    session.trace_configs.append(config)


async def _ask_for_plain_parts(session: Any, _: Any, request: Any) -> None:
    """Ask for parts of a file as it is: those of a compressed one are no parts of it."""
    if "Range" in request.headers:
        request.headers.setdefault("Accept-Encoding", "identity")


async def _check_part(session: Any, _: Any, end: Any) -> None:
    """Check which part of a file an answer has, before its body is read.

    Raises:
        ValueError: It is the whole file, whose beginning was not asked for.
        OtherPart: It is another part.
    """
    asked = _RANGE.fullmatch(end.headers.get("Range", ""))
    if asked is None:
        return
    first, last = int(asked[1]), int(asked[2])
    if end.response.status == 200 and first > 0:
        is_html = end.response.content_type == "text/html"
        raise ValueError(WEB_PAGE if is_html else f"the server gave the whole file; {NO_PARTS}")
    given = _CONTENT_RANGE.fullmatch(end.response.headers.get("Content-Range", ""))
    if end.response.status != 206 or given is None:
        return
    size = last + 1 if given[3] == "*" else int(given[3])
    if (int(given[1]), int(given[2])) != (first, min(last, size - 1)):
        raise OtherPart(
            f"the server gave bytes {given[1]}–{int(given[2]) + 1} in their place; it, or a proxy "
            "on the way, answers requests for parts of a file wrongly"
        )


async def _drop_options(session: Any, _: Any, redirect: Any) -> None:
    """Drop what was given for one origin from a request that is redirected to another one.

    Raises:
        OtherServer: The session has a login or cookies for all origins, which cannot be
            dropped.
    """
    from yarl import URL

    here, headers = redirect.response.url, redirect.response.headers
    target = here.join(URL(headers.get("Location") or headers.get("URI") or ""))
    if target.absolute and target.origin() == here.origin():
        return
    login = getattr(session, "auth", None)  # of the session; aiohttp 4 has none
    if login is not None or any(not one["domain"] for one in session.cookie_jar):
        raise OtherServer(
            errno.EACCES,
            f"{here.origin()} redirects to {target.origin()}, and the session has a login or "
            "cookies that would go along; open the table there, or give them in client_kwargs",
        )
    for name in list(redirect.headers):
        if name.lower() not in _CARRIED:
            redirect.headers.popall(name, None)


def is_page(data: bytes | Bytes) -> bool:
    """Return whether bytes are the beginning of a web page."""
    return _PAGE.match(bytes(data[:64])) is not None
