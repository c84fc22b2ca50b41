"""Many ranges of one object on S3 by one signature, in place of one for each range.

botocore takes more than a millisecond of Python for a request: it resolves the endpoint, checks and
serializes parameters, signs, and parses the answer. A presigned URL has all of that in it but the
header `Range`, which such a URL does not sign, so that every range of the object can be asked for
by a plain GET of the same URL.

Only requests that are nothing but such a GET go this way. Whatever is answered otherwise than by
exactly the range is asked for again by s3fs, whose retries and errors are those that a user sees.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qs, urlsplit

from lancefs.forks import generation
from lancefs.masking import mask_secrets
from lancefs.printable import get_logger

if TYPE_CHECKING:
    import aiohttp
    import fsspec

logger = get_logger(__name__)

# From this number of ranges of an object on, one URL is signed for all: signing costs as much as a
# request.
FEWEST = 8
# Seconds for which a URL is valid. It is used by one batch only.
_VALID = 900
# Default number of connections of a botocore client.
_CONNECTIONS = 10

# Options of s3fs, of botocore's client and of its configuration that change nothing about a GET of
# a presigned URL, or that are in the URL: whom to ask, as whom, and what s3fs does beside requests.
# Others may add headers, or ask through something else.
_OPTIONS = {
    *("anon", "key", "secret", "token", "username", "password", "profile", "endpoint_url"),
    *("use_ssl", "client_kwargs", "config_kwargs", "cache_regions", "max_concurrency"),
    *("default_block_size", "default_fill_cache", "default_cache_type", "fixed_upload_size"),
    *("use_listings_cache", "listings_expiry_time", "max_paths", "local_expiry_check"),
}
_CLIENT = {
    *("endpoint_url", "region_name", "use_ssl"),
    *("aws_access_key_id", "aws_secret_access_key", "aws_session_token"),
}
_CONFIG = {
    *("max_pool_connections", "connect_timeout", "read_timeout", "retries", "region_name"),
    *("signature_version", "s3", "use_dualstack_endpoint", "use_fips_endpoint"),
}

_STATE = "_lancefs_ranges"


class _State:
    """What is kept for a filesystem, as long as it lives.

    Attributes:
        session: Has the connections; None before the first request.
        is_refused: Whether the store refused presigned URLs for what it gives to s3fs.
    """

    def __init__(self) -> None:
        self.session: aiohttp.ClientSession | None = None
        self.is_refused = False


def ranges_method(fs: fsspec.AbstractFileSystem) -> Callable[..., list[Any]] | None:
    """Return a function that fetches ranges as `fs.cat_ranges` does, many of one object cheaper.

    Args:
        fs: A filesystem of s3fs, or one of a class that is derived from it.

    Returns:
        The function, which takes paths, starts, ends, and `on_error="return"`. None if requests
        of the filesystem may be more than GETs of URLs.
    """
    return partial(_cat_ranges, fs) if _is_plain(fs) else None


def _is_plain(fs: Any) -> bool:
    """Return whether a filesystem is one of s3fs, and a presigned URL tells its options."""
    from s3fs import S3FileSystem

    options = fs.storage_options
    return (
        type(fs) is S3FileSystem
        and not (fs.asynchronous or fs.storage_args)
        and all(name in _OPTIONS or not value for name, value in options.items())
        and not (fs.req_kw or fs.s3_additional_kwargs or fs.version_aware)
        and set(fs.client_kwargs) <= _CLIENT
        and set(fs.config_kwargs) <= _CONFIG
    )


def _cat_ranges(
    fs: Any,
    paths: Sequence[str],
    starts: Sequence[Any],
    ends: Sequence[Any],
    on_error: Literal["return"] = "return",
) -> list[Any]:
    """Fetch ranges, given as fsspec takes them; return the bytes or the exception of each."""
    positions: dict[str, list[int]] = {}
    for position, (path, start, end) in enumerate(zip(paths, starts, ends, strict=True)):
        if start is not None and end is not None and 0 <= start < end:
            positions.setdefault(path, []).append(position)
    many = {path: found for path, found in positions.items() if len(found) >= FEWEST}
    state: _State = fs.__dict__.setdefault(_STATE, _State())
    if not many or state.is_refused:
        answers: list[Any] = fs.cat_ranges(paths, starts, ends, on_error=on_error)
        return answers
    from fsspec.asyn import sync

    batch = _Batch(fs, state, paths, starts, ends)
    results: list[Any] = sync(fs.loop, batch.fetch, many)
    return results


class _Batch:
    """Ranges that are fetched together, in the loop of a filesystem.

    Args:
        fs: A filesystem of s3fs.
        state: What is kept for it.
        paths: The object of each range.
        starts: Where each range begins.
        ends: Where each range ends, exclusive.
    """

    def __init__(
        self,
        fs: Any,
        state: _State,
        paths: Sequence[str],
        starts: Sequence[Any],
        ends: Sequence[Any],
    ) -> None:
        self.fs = fs
        self.state = state
        self.paths = paths
        self.starts = starts
        self.ends = ends
        self.results: list[Any] = [None] * len(paths)

    async def fetch(self, many: dict[str, list[int]]) -> list[Any]:
        """Fetch all ranges; those of some objects by URLs.

        Args:
            many: The positions of ranges, by objects that have many.
        """
        wanted = []
        for path, positions in many.items():
            url = await _presigned(self.fs, path)
            if url is not None:
                wanted += [(position, url) for position in positions]
        by_urls = {position for position, _ in wanted}
        others = [position for position in range(len(self.paths)) if position not in by_urls]
        await asyncio.gather(self._by_urls(wanted), self._by_s3fs(others))
        left = [position for position, _ in wanted if self.results[position] is None]
        await self._by_s3fs(left)
        if left and len(left) == len(wanted):
            given = any(isinstance(self.results[position], bytes) for position in left)
            self.state.is_refused = self.state.is_refused or given
        return self.results

    async def _by_s3fs(self, positions: Sequence[int]) -> None:
        if not positions:
            return
        paths, starts, ends = (
            [part[position] for position in positions]
            for part in (self.paths, self.starts, self.ends)
        )
        answers = await self.fs._cat_ranges(paths, starts, ends, on_error="return")
        for position, answer in zip(positions, answers, strict=True):
            self.results[position] = answer

    async def _by_urls(self, wanted: Sequence[tuple[int, str]]) -> None:
        if not wanted:
            return
        session = await _session(self.fs, self.state, wanted[0][1])
        connections = min(_connections(self.fs), len(wanted))
        following = iter(wanted)
        await asyncio.gather(*(self._worker(session, following) for _ in range(connections)))

    async def _worker(
        self, session: aiohttp.ClientSession, following: Iterator[tuple[int, str]]
    ) -> None:
        """Ask for one range after the other, up to the first that is not given.

        A store that is down or refuses is so asked once for each connection, not for each range.
        """
        for position, url in following:
            start, end = self.starts[position], self.ends[position]
            data = await _range(session, url, start, end, self.paths[position])
            if data is None:
                return
            self.results[position] = data


async def _range(
    session: aiohttp.ClientSession, url: str, start: int, end: int, path: str
) -> bytes | None:
    """Ask for one range; return None if the answer is not exactly the range.

    `Content-Range` is that of RFC 9110, section 14.4.
    """
    import aiohttp
    from yarl import URL

    headers = {"Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "identity"}
    asked = session.get(URL(url, encoded=True), headers=headers, allow_redirects=False)
    try:
        async with asked as answer:
            content = answer.headers.get("Content-Range", "")
            if (
                answer.status == 206
                and content.startswith(f"bytes {start}-{end - 1}/")
                and answer.content_length == end - start
            ):
                return await answer.read()
            reason = f"status {answer.status}"
    except aiohttp.ClientError as error:
        reason = type(error).__name__  # its text may have the URL in it
    logger.debug("%s: a presigned URL gave no range: %s", mask_secrets(path), reason)
    return None


async def _presigned(fs: Any, path: str) -> str | None:
    """Return a URL of an object that is good for all of its ranges; None where there is none."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.utils import get_environ_proxies  # as its clients ask it

    bucket, key, _ = fs.split_path(path)
    try:
        await fs.set_session()
        client = await fs.get_s3(bucket)
        with _signing_as_requests(client.meta.events):
            url: str = await client.generate_presigned_url(
                "get_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=_VALID
            )
    except (BotoCoreError, ClientError) as error:  # s3fs will say what is wrong
        logger.debug("%s: cannot be presigned: %s", mask_secrets(path), type(error).__name__)
        return None
    parts = urlsplit(url)
    signed = parse_qs(parts.query).get("X-Amz-SignedHeaders")
    is_enough = signed is None if fs.anon else signed == ["host"]
    return url if is_enough and not get_environ_proxies(url).get(parts.scheme) else None


@contextmanager
def _signing_as_requests(events: Any) -> Iterator[None]:
    """Have a client presign as it signs requests.

    Without it, botocore presigns by the second version of signatures, which newer regions and
    encrypted objects refuse, for the global endpoint, which may be out of reach.
    """
    handlers: dict[str, Callable[..., str | None]] = {
        "choose-signer.s3.GetObject": _choose_signer,
        "before-parameter-build.s3.GetObject": _choose_endpoint,
    }
    for event, handler in handlers.items():
        events.register(event, handler, f"lancefs-{event}", unique_id_uses_count=True)
    try:
        yield
    finally:
        for event, handler in handlers.items():
            events.unregister(event, handler, f"lancefs-{event}", unique_id_uses_count=True)


def _choose_signer(signature_version: Any, **_: Any) -> str | None:
    return "s3v4-query" if signature_version in ("v4-query", "s3v4-query") else None


def _choose_endpoint(context: dict[str, Any], **_: Any) -> None:
    context["use_global_endpoint"] = False


def _connections(fs: Any) -> int:
    return int(fs.config_kwargs.get("max_pool_connections") or _CONNECTIONS)


async def _session(fs: Any, state: _State, url: str) -> aiohttp.ClientSession:
    """Return the session of a filesystem; it is closed with the filesystem, or at exit."""
    import aiohttp

    if state.session is not None:
        return state.session
    verify: ssl.SSLContext | bool = True
    if url.startswith("https:"):
        # In a thread, because it reads files; another batch may make the session meanwhile.
        verify = await asyncio.to_thread(_verifying, fs.session.get_config_variable("ca_bundle"))
    if state.session is None:
        config = fs.config_kwargs
        state.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=_connections(fs), ssl=verify),
            timeout=aiohttp.ClientTimeout(
                total=None,
                sock_connect=config.get("connect_timeout", fs.connect_timeout),
                sock_read=config.get("read_timeout", fs.read_timeout),
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        weakref.finalize(fs, _close, fs.loop, state.session, generation())
    return state.session


def _verifying(bundle: str | None) -> ssl.SSLContext:
    """Return what verifies servers, by the certificates that botocore's clients trust.

    Args:
        bundle: A file of certificates that botocore is configured with.
    """
    from botocore.httpsession import get_cert_path

    return _trusting(get_cert_path(bundle or os.environ.get("REQUESTS_CA_BUNDLE") or True))


@cache
def _trusting(certificates: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificates)


def _close(loop: asyncio.AbstractEventLoop, session: aiohttp.ClientSession, born: int) -> None:
    """Close a session, from any thread.

    Args:
        loop: The loop of the session, which runs in a thread of fsspec.
        session: The session.
        born: The generation of processes that the session was made in.
    """
    if born != generation():
        _keep(session)
        return
    if not loop.is_running():
        return
    closing = asyncio.run_coroutine_threadsafe(session.close(), loop)
    try:
        is_here = asyncio.get_running_loop() is loop
    except RuntimeError:
        is_here = False
    if not is_here:
        with suppress(TimeoutError):
            closing.result(0.1)


def _keep(session: aiohttp.ClientSession) -> None:
    """Keep a session of a parent for as long as this process lives, and beyond the end of Python.

    When it is freed, it closes its connections, and an asyncio loop then takes them out of the
    system's list of what it waits for (epoll), which a forked child shares with its parent: the
    parent would wait for their answers in vain.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(session))
