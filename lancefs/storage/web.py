"""Files behind web servers: names in URLs, and redirects that carry no credentials away.

The root of a store is a URL as the user wrote it; names below it are quoted when they are asked
for, so that `?`, `#` and `%` in a name are no syntax. A query of the root, for instance a token,
goes behind the names.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from lancefs.forks import Lock
from lancefs.storage.filesystems import innermost

if TYPE_CHECKING:
    import fsspec

# Headers that another origin may see: what part of a file is wanted, and in which form.
_CARRIED = {"accept", "accept-encoding", "if-match", "if-range", "range", "user-agent"}

_GUARDED = "_lancefs_guards_redirects"
_LOCK = Lock()


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


def listed_name(url: str) -> str | None:
    """Return the name of an entry that a server lists, unquoted.

    Returns:
        None for a link that is no entry of the directory, such as one that sorts the listing.
    """
    name = unquote(url.partition("?")[0].partition("#")[0].rstrip("/").rsplit("/", 1)[-1])
    return None if not name or "/" in name or name in (".", "..") else name


def guard_redirects(fs: fsspec.AbstractFileSystem) -> None:
    """Keep what was given for one server (headers, cookies, a login) from going to another one.

    aiohttp drops the header `Authorization` when it is redirected to another origin, and carries
    all other headers, the login of the session and its cookies along. The filesystem object is
    changed, once, so that none of them is.

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
    """Return a function that makes sessions as `get_client` does, and guards their redirects."""

    async def get_guarded_client(**options: Any) -> Any:
        session = await get_client(**_as_headers(options))
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
    config.on_request_redirect.append(_drop_options)
    config.freeze()
    session.trace_configs.append(config)


async def _drop_options(session: Any, _: Any, redirect: Any) -> None:
    """Drop what was given for one origin from a request that is redirected to another one.

    Raises:
        PermissionError: The session has a login or cookies for all origins, which cannot be
            dropped.
    """
    from yarl import URL

    here, headers = redirect.response.url, redirect.response.headers
    target = here.join(URL(headers.get("Location") or headers.get("URI") or ""))
    if target.absolute and target.origin() == here.origin():
        return
    login = getattr(session, "auth", None)  # of the session; aiohttp 4 has none
    if login is not None or any(not one["domain"] for one in session.cookie_jar):
        raise PermissionError(
            errno.EACCES,
            f"{here.origin()} redirects to {target.origin()}, and the session has a login or "
            "cookies that would go along; open the table there, or give them in client_kwargs",
        )
    for name in list(redirect.headers):
        if name.lower() not in _CARRIED:
            redirect.headers.popall(name, None)
