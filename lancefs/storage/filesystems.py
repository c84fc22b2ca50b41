"""What kind of filesystem a store has, below caches and filesystems of one directory."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from lancefs.errors import LanceError, NotALanceTable, ReadFailed, cause
from lancefs.forks import Lock
from lancefs.masking import mask_secrets
from lancefs.storage.retries import CHECK_ADDRESS, CHECK_OPTIONS, advice_on, message_of, retry

if TYPE_CHECKING:
    import fsspec

_WEB = {"http", "https"}
_S3 = {"s3", "s3a"}
_LOCAL = {"file", "local"}
# Requests to S3 that may be under way at once.
_CONNECTIONS = 64
# What ails a web server with an archive, and what helps.
_NO_PARTS_OF_ARCHIVE = (
    "the web server does not answer requests for parts of a file, which is needed to read a table "
    "in an archive: put simplecache:: before the URL of the archive, which copies it"
)
# What fsspec says of a protocol that is not registered, before its name.
_UNKNOWN_PROTOCOL = "Protocol not known"
# What may be a protocol without the rest of a URL, in a chain.
_WORD = re.compile(r"[\w.+-]+")
# Protocols that reach all files of a machine that a user may read.
_MACHINES = {"file", "local", "sftp", "ssh", "smb", "ftp", "jlab"}
# The attribute of a filesystem whose requests are made one after another, see `in_turn`.
_TURNS = "_lancefs_turns"


def open_url(url: str, options: Mapping[str, Any]) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return the filesystem of a URL, and the path in it.

    Args:
        url: As fsspec takes it, also a path or a chain.
        options: The storage options; see `with_connections`.

    Raises:
        NotALanceTable: The archive that holds the table does not exist.
        ReadFailed: The archive cannot be read, or there is no connection to the server.
        ImportError: The store needs a package that is not installed.
        TypeError: The store has no such option.
        ValueError: There is no such protocol, or the store cannot be opened by these options.
    """
    import fsspec

    protocol = url.partition("://")[0]
    options = with_connections(protocol, options)
    if "::" in url and _is_path(url):
        local = fsspec.filesystem("file", **options)
        return local, str(local._strip_protocol(url))
    try:
        found: tuple[fsspec.AbstractFileSystem, str] = fsspec.core.url_to_fs(url, **options)
    except FileNotFoundError as error:
        raise NotALanceTable(f"{url}: {message_of(error)}") from cause(error)
    except ValueError as error:
        if _UNKNOWN_PROTOCOL in str(error):
            raise _unknown_protocol(url, str(error).rpartition(" ")[2]) from cause(error, url)
        if not _needs_parts(error):
            text = f"{mask_secrets(url)}: {message_of(error)}{CHECK_OPTIONS}"
            raise ValueError(text) from cause(error, url)
        raise ReadFailed(f"{url}: cannot be opened: {_NO_PARTS_OF_ARCHIVE}") from cause(error)
    except (ImportError, TypeError, LanceError):
        raise
    except Exception as error:  # of any library: some connect, or read the archive, at once
        is_far = isinstance(error, OSError)  # the others are of what was there
        advice = CHECK_ADDRESS if is_far else advice_on(error)
        text = f"{url}: cannot be opened: {message_of(error)}{advice}"
        raise ReadFailed(text) from cause(error)
    return found


def _unknown_protocol(url: str, protocol: str) -> ValueError:
    """Return the error about a URL with a protocol that fsspec does not know."""
    from difflib import get_close_matches

    from fsspec.registry import available_protocols

    near = get_close_matches(protocol, available_protocols(), 1)
    hint = f"did you mean {near[0]}://?" if near else "install the package of the store that has it"
    return ValueError(f"{mask_secrets(url)}: fsspec knows no protocol {protocol!r}; {hint}")


def _is_path(url: str) -> bool:
    """Return whether what looks like a chain is a local path with `::` in it.

    A chain begins with a protocol. fsspec would read the path in front of the `::`, and nothing of
    the rest.
    """
    first = url.partition("::")[0]
    if "://" in first:
        return False
    return _WORD.fullmatch(first) is None or os.path.isdir(url)


def _needs_parts(error: ValueError) -> bool:
    """Return whether a web server answers no requests for parts of a file, by what fsspec says."""
    return "range requests" in str(error)


def with_mapping(url: str, options: Mapping[str, Any], maps: bool) -> dict[str, Any]:
    """Return storage options that say whether local files may be mapped into memory.

    Args:
        url: What the options are for. Stores that are not local map no files, and do not know the
            option `mmap`.
        options: The storage options.
        maps: Whether files may be mapped.
    """
    protocol = url.partition("://")[0] if "://" in url else "file"
    return {**options, "mmap": False} if not maps and protocol in _LOCAL else dict(options)


def with_connections(protocol: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return storage options by which s3fs opens more connections than its ten.

    A table of many columns or fragments has hundreds of requests under way together.

    Args:
        protocol: What the options are for; others than those of S3 stay as they are.
        options: The storage options; a number of connections in them stays.
    """
    if protocol not in _S3:
        return dict(options)
    import fsspec

    if not _is_of_s3fs(fsspec.get_filesystem_class(protocol)):
        return dict(options)
    config = {"max_pool_connections": _CONNECTIONS, **(options.get("config_kwargs") or {})}
    return {**options, "config_kwargs": config}


def protocols(fs: fsspec.AbstractFileSystem) -> set[str]:
    """Return the protocols of a filesystem, and of the filesystem that it wraps, if any.

    Paths of a filesystem of one directory are not those of the filesystem around it, so that the
    latter does not count.
    """
    own = _own(fs)
    inner = wrapped(fs)
    return own if inner is None or is_directory(fs) else own | protocols(inner)


def wrapped(fs: fsspec.AbstractFileSystem) -> fsspec.AbstractFileSystem | None:
    """Return the filesystem that another one wraps; None if it wraps none."""
    import fsspec

    inner = getattr(fs, "fs", None)
    return inner if isinstance(inner, fsspec.AbstractFileSystem) else None


def innermost(fs: fsspec.AbstractFileSystem) -> fsspec.AbstractFileSystem:
    """Return the filesystem that makes the requests."""
    while (inner := wrapped(fs)) is not None:
        fs = inner
    return fs


def inner_path(
    fs: fsspec.AbstractFileSystem, path: str
) -> tuple[fsspec.AbstractFileSystem, str] | None:
    """Return the filesystem that makes the requests, and the path that it is asked for.

    Returns:
        None if the filesystem has paths of its own, as an archive.
    """
    while (inner := wrapped(fs)) is not None:
        if is_directory(fs):
            joiner: Any = fs
            path = str(joiner._join(path))
        elif not _has_paths_of(fs):
            return None
        fs = inner
    return fs, path


def uncached(
    fs: fsspec.AbstractFileSystem, path: str
) -> tuple[fsspec.AbstractFileSystem, str] | None:
    """Return the filesystem behind fsspec's caches of files, and the path in it.

    Returns:
        None if there is no cache before it.
    """
    inner = wrapped(fs)
    if inner is None:
        return None
    if is_directory(fs):
        joiner: Any = fs
        return uncached(inner, str(joiner._join(path)))
    is_cache = isinstance(fs, _class("fsspec.implementations.cached", "CachingFileSystem"))
    return (uncached(inner, path) or (inner, path)) if is_cache else None


def is_directory(fs: fsspec.AbstractFileSystem) -> bool:
    """Return whether a filesystem is one directory of another filesystem."""
    return isinstance(fs, _class("fsspec.implementations.dirfs", "DirFileSystem"))


def is_folder(fs: fsspec.AbstractFileSystem, info: Mapping[str, Any]) -> bool:
    """Return whether an entry of a listing is a directory, or a symbolic link to one.

    Args:
        fs: The filesystem, which lists links as entries of the type "other".
        info: The entry.
    """
    return info["type"] == "directory" or bool(info.get("islink") and fs.isdir(info["name"]))


def matching_folders(fs: fsspec.AbstractFileSystem, pattern: str, url: str) -> list[str]:
    """Return the directories that a pattern matches, sorted.

    Args:
        fs: The filesystem.
        pattern: A path with signs, as `fs.glob` takes them.
        url: What the pattern is in, for errors.

    Raises:
        ReadFailed: The store refused or failed.
    """

    def glob() -> dict[str, Any]:
        with in_turn(fs):
            found: dict[str, Any] = fs.glob(pattern, detail=True)
        return found

    found = sorted(retry(glob, url).items())
    return [path.rstrip("/") for path, info in found if is_folder(fs, info)]


def is_archive(fs: fsspec.AbstractFileSystem) -> bool:
    """Return whether a filesystem is the inside of an archive."""
    return isinstance(fs, _class("fsspec.archive", "AbstractArchiveFileSystem"))


def is_web(fs: fsspec.AbstractFileSystem) -> bool:
    """Return whether a filesystem makes URLs of web servers out of its paths."""
    return bool(_WEB & _own(innermost(fs)))


def is_machine(fs: fsspec.AbstractFileSystem) -> bool:
    """Return whether a filesystem reaches all files of a machine that its user may read."""
    return not is_directory(fs) and bool(_MACHINES & protocols(fs))


def is_obstore(fs: fsspec.AbstractFileSystem) -> bool:
    """Return whether a filesystem is one of obstore."""
    return isinstance(fs, _class("obstore.fsspec", "FsspecStore"))


def is_bucket(fs: fsspec.AbstractFileSystem, path: str) -> bool:
    """Return whether a path is a bucket of obstore, which takes it for a file.

    It asks for an object without a name, and stores answer for the bucket.
    """
    own = is_obstore(fs) and not {"file", "memory"} & _own(fs)
    return own and "/" not in path.strip("/")


def is_shared(fs: fsspec.AbstractFileSystem) -> bool:
    """Return whether all requests go through one open file, or one connection.

    Those of two threads, or of a forked child and its parent, move the position of the same file,
    and take each other's answers.
    """
    return any(is_archive(one) or _is_ftp(one) for one in _layers(fs))


def in_turn(fs: fsspec.AbstractFileSystem) -> AbstractContextManager[object]:
    """Return what is held for a request, so that no other thread makes one in the meantime.

    Most filesystems need nothing. Those that do are the shared ones (`is_shared`), and caches that
    note which files they hold: these forget one where two threads fetch different ones together.
    """
    owner = next((one for one in reversed(list(_layers(fs))) if _takes_turns(one)), None)
    if owner is None:
        return nullcontext()
    # Caches look for attributes in the filesystem that they wrap.
    attributes: dict[str, Any] = object.__getattribute__(owner, "__dict__")
    lock: Lock = attributes.setdefault(_TURNS, Lock())
    return lock


def cat_ranges(fs: fsspec.AbstractFileSystem) -> Callable[..., list[Any]]:
    """Return the method that fetches the byte ranges of files, and nothing between them.

    That of obstore merges ranges that lie less than a megabyte apart, so that ten rows of a file of
    500 columns would cost the whole file: ranges were merged before, where that pays. That of s3fs
    signs each request, see `s3_ranges`. That of sshfs gives whole files, and that of fsspec for
    filesystems of pyarrow, `hdfs` for example, seeks in a stream where a range begins at 0.
    """
    if is_obstore(fs):
        from fsspec.asyn import AsyncFileSystem, sync

        store: AsyncFileSystem = fs
        return partial(sync, store.loop, AsyncFileSystem._cat_ranges, store)
    if _is_of_sshfs(fs) or _is_of_arrow(fs):
        return partial(_open_file_ranges, fs)
    turn = in_turn(fs)
    if not isinstance(turn, nullcontext) and not _is_zip(fs):  # zips have a lock, and take long
        return partial(_in_turn, fs, turn)
    method: Callable[..., list[Any]] = fs.cat_ranges
    return _s3fs_ranges(fs) or method


def _in_turn(
    fs: fsspec.AbstractFileSystem,
    turn: AbstractContextManager[object],
    *arguments: Any,
    **options: Any,
) -> list[Any]:
    with turn:
        ranges: list[Any] = fs.cat_ranges(*arguments, **options)
    return ranges


def _open_file_ranges(
    fs: fsspec.AbstractFileSystem,
    paths: Sequence[str],
    starts: Sequence[int],
    ends: Sequence[int],
    on_error: Literal["return"] = "return",
) -> list[Any]:
    """Fetch byte ranges from open files; return the bytes or the exception of each."""
    answers: list[Any] = [None] * len(paths)
    wanted: dict[str, list[int]] = {}
    for position, path in enumerate(paths):
        wanted.setdefault(path, []).append(position)
    for path, positions in wanted.items():
        try:
            with fs.open(path, "rb") as file:
                for position in positions:
                    file.seek(starts[position])
                    answers[position] = file.read(ends[position] - starts[position])
        except Exception as error:  # of the client library; the caller knows which are transient
            answers = [
                error if at in positions and answer is None else answer
                for at, answer in enumerate(answers)
            ]
    return answers


def _layers(fs: fsspec.AbstractFileSystem | None) -> Iterator[fsspec.AbstractFileSystem]:
    """Yield a filesystem, and the filesystems that it wraps."""
    while fs is not None:
        yield fs
        fs = wrapped(fs)


def _takes_turns(fs: fsspec.AbstractFileSystem) -> bool:
    return is_archive(fs) or _is_ftp(fs) or _notes_files(fs)


def _notes_files(fs: fsspec.AbstractFileSystem) -> bool:
    """Whether a filesystem is a cache that notes which files it holds, as `filecache` does."""
    module = "fsspec.implementations.cached"
    is_cache = isinstance(fs, _class(module, "CachingFileSystem"))
    return is_cache and not isinstance(fs, _class(module, "SimpleCacheFileSystem"))


def _is_ftp(fs: fsspec.AbstractFileSystem) -> bool:
    """Whether a filesystem has one connection, whose answers go to whoever reads them first."""
    ftp = _class("fsspec.implementations.ftp", "FTPFileSystem")
    return isinstance(fs, (*ftp, *_class("fsspec.implementations.sftp", "SFTPFileSystem")))


def _is_zip(fs: fsspec.AbstractFileSystem) -> bool:
    return isinstance(fs, _class("fsspec.implementations.zip", "ZipFileSystem"))


def _s3fs_ranges(fs: fsspec.AbstractFileSystem) -> Callable[..., list[Any]] | None:
    """Return a cheaper `cat_ranges` of a filesystem of s3fs; None for any other filesystem."""
    if not _is_of_s3fs(type(fs)):
        return None
    from lancefs.storage.s3_ranges import ranges_method

    return ranges_method(fs)


def _is_of_s3fs(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "s3fs"


def _is_of_sshfs(fs: fsspec.AbstractFileSystem) -> bool:
    return type(fs).__module__.partition(".")[0] == "sshfs"


def _is_of_arrow(fs: fsspec.AbstractFileSystem) -> bool:
    """Whether a filesystem is one of pyarrow."""
    return isinstance(fs, _class("fsspec.implementations.arrow", "ArrowFSWrapper"))


def _has_paths_of(fs: fsspec.AbstractFileSystem) -> bool:
    """Return whether a filesystem has the paths of the one that it wraps."""
    caches = _class("fsspec.implementations.cached", "CachingFileSystem")
    inner = wrapped(fs)
    return isinstance(fs, caches) or (inner is not None and bool(_own(fs) & _own(inner)))


def _own(fs: fsspec.AbstractFileSystem) -> set[str]:
    if _is_of_sshfs(fs):  # it does not name its protocol
        return {"sftp", "ssh"}
    return {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)


def _class(module: str, name: str) -> tuple[type, ...]:
    """Return a class of fsspec; nothing can be of a class whose module is not imported.

    Nor of one whose module another thread imports: it is known before it has its classes.
    """
    kind = getattr(sys.modules.get(module), name, None)
    return () if kind is None else (kind,)
