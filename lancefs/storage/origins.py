"""Origins: which URLs lie in the same store, so that the same options are meant for them.

The origin of a web server is scheme, host and port; that of an object store is its bucket or
container, and what the URL says of the account; that of other stores is what the URL says of the
host. What was given for one origin (credentials, headers) is never used for another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from lancefs.errors import CorruptFile
from lancefs.storage.filesystems import (
    inner_path,
    innermost,
    is_archive,
    is_directory,
    is_web,
    protocols,
)
from lancefs.storage.web import split_query

if TYPE_CHECKING:
    import fsspec

_PORTS = {"http": 80, "https": 443}


def same_origin(fs: fsspec.AbstractFileSystem, root: str, url: str) -> str | None:
    """Return the path of a URL on a filesystem if it has the origin of a directory.

    Args:
        fs: The filesystem of the directory.
        root: The directory, as the filesystem spells paths.
        url: A URL, or a path without a protocol; untrusted.

    Returns:
        The path as the filesystem spells it; None if the URL has another origin.

    Raises:
        CorruptFile: The URL has no valid form.
    """
    scheme, separator, _ = url.partition("://")
    if not separator:
        scheme = ""
    if is_web(fs) and not is_directory(fs):
        return _on_same_server(root, scheme, url)
    if scheme and scheme not in protocols(fs):
        return None
    if scheme and not _names_same_account(fs, url):
        return None
    path = str(fs._strip_protocol(url))
    return path if _bucket(fs, path) == _bucket(fs, root) else None


def options_for(url: str, given: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the options that a user gave for the origin of a URL; none if there are none.

    Args:
        url: A URL with a protocol.
        given: Options by origin (`s3://bucket`, `https://host:8443`), or by protocol for stores
            other than web servers.
    """
    wanted = origin(url)
    for key, options in given.items():
        if "://" in key and origin(key) == wanted:
            return options
    return given.get(url.partition("://")[0], {})


def origin(url: str) -> str:
    """Return the origin of a URL as a text: scheme, host and port, or scheme and bucket.

    Raises:
        CorruptFile: The URL has no valid form.
    """
    scheme, _, rest = url.partition("://")
    if scheme.lower() in _PORTS:
        parts = _split(url)
        return f"{parts.scheme}://{parts.hostname}:{_port(parts)}"
    return f"{scheme}://{rest.partition('/')[0].partition('?')[0]}"


def is_web_url(url: str) -> bool:
    """Return whether a URL is that of a web server."""
    return url.partition("://")[0].lower() in _PORTS


def _on_same_server(root: str, scheme: str, url: str) -> str | None:
    if scheme and (scheme.lower() not in _PORTS or origin(url) != origin(root)):
        return None
    parts = _split(url) if scheme else None
    path, query = (url, "") if parts is None else (unquote(parts.path), parts.query)
    # The server is named as in the root, with its login, and never as the URL spells it.
    server = urlsplit(root)
    own_query = split_query(root)[1]
    address = f"{server.scheme}://{server.netloc}/{quote(path.strip('/'))}"
    return address + (f"?{query}" if query else own_query)


def _split(url: str) -> SplitResult:
    """Split the URL of a web server. Forms that libraries read differently are refused."""
    if any(char.isspace() or not char.isprintable() or char == "\\" for char in url):
        raise CorruptFile(f"{url!r} is not a URL")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise CorruptFile(f"{url!r} is not a URL: {error}") from None
    if not parts.hostname:
        raise CorruptFile(f"{url!r} is not a URL: it names no host")
    return parts


def _port(parts: SplitResult) -> int:
    return _PORTS[parts.scheme] if parts.port is None else parts.port


def _names_same_account(fs: fsspec.AbstractFileSystem, url: str) -> bool:
    """Return whether what a URL says of host and account is what the filesystem was made with."""
    inner = innermost(fs)
    named = {**type(inner)._get_kwargs_from_urls(url), **type(fs)._get_kwargs_from_urls(url)}
    known = {**inner.storage_options, **fs.storage_options}
    return all(
        value is None or _text(known.get(name, getattr(inner, name, None))) == _text(value)
        for name, value in named.items()
    )


def _text(value: object) -> str:
    return str(value).lower()


def _bucket(fs: fsspec.AbstractFileSystem, path: str) -> str:
    """Return the bucket or container of a path; empty where the paths of a store begin in `/`."""
    found = inner_path(fs, path)
    if found is None or is_archive(found[0]) or found[1].startswith("/"):
        return ""
    return found[1].partition("/")[0]
