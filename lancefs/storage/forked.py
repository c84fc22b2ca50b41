"""Filesystems in a forked child process.

Threads make the requests of fsspec's asynchronous filesystems (`s3`, `http`, …) and of obstore; a
child has none of its parent's threads. Archives and FTP read by an open file or a connection, of
which a child would share the position with its parent. A filesystem of fsspec can be made anew
there. Those of obstore belong to its module, which starts them once: a request of a child would
wait for ever.
"""

from __future__ import annotations

import os
import pickle
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lancefs.errors import ReadFailed, cause
from lancefs.forks import generation
from lancefs.storage.filesystems import innermost, is_obstore, is_shared

if TYPE_CHECKING:
    import fsspec

_SPAWN = "start worker processes by 'spawn' or 'forkserver'"
# In which generation of processes lancefs first asked obstore for something.
_obstore_since: int | None = None
# By generation and id: filesystems of a parent, and those that were made anew for them.
_anew: dict[tuple[int, int], tuple[fsspec.AbstractFileSystem, fsspec.AbstractFileSystem]] = {}

# The attribute of a shared filesystem that tells in which generation lancefs first saw it.
_SEEN = "_lancefs_generation"


def note(fs: fsspec.AbstractFileSystem) -> None:
    """Note in which process a filesystem was made; to be called before any request."""
    if is_shared(fs):
        vars(innermost(fs)).setdefault(_SEEN, generation())


def usable_here(fs: fsspec.AbstractFileSystem, url: str) -> fsspec.AbstractFileSystem:
    """Return a filesystem that makes its requests in this process.

    Args:
        fs: Any filesystem, made in this process or in one that this one was forked from.
        url: What is read, for messages.

    Returns:
        The filesystem, or one that was made anew with its arguments.

    Raises:
        ReadFailed: There is no way to make requests in this process.
    """
    global _obstore_since
    if is_obstore(innermost(fs)):
        if _obstore_since is None:
            _obstore_since = generation()
        elif _obstore_since != generation():
            raise ReadFailed(
                f"{url}: obstore was used before this process was forked, and would hang in it; "
                f"{_SPAWN}, or read by s3fs or the like"
            )
    if _is_of_this_process(innermost(fs)):
        return fs
    key = generation(), id(fs)
    if key not in _anew:
        _anew[key] = fs, _copied(fs, url)
        note(_anew[key][1])
    return _anew[key][1]


def _is_of_this_process(asks: Any) -> bool:
    if getattr(asks, "async_impl", False):
        # fsspec itself refuses requests of asynchronous filesystems by this attribute.
        return getattr(asks, "_pid", None) == os.getpid()
    return getattr(asks, _SEEN, generation()) == generation()


@lru_cache(maxsize=1)
def _forget_loop(generation: int) -> None:
    """Have fsspec start an event loop in this process, where its release does not by itself.

    Args:
        generation: That of this process.
    """
    asyn = sys.modules.get("fsspec.asyn")
    if asyn is not None and not hasattr(asyn, "reset_after_fork"):
        asyn.reset_lock()


def _copied(fs: fsspec.AbstractFileSystem, url: str) -> fsspec.AbstractFileSystem:
    """Make a filesystem, and those that it wraps, with the same arguments."""
    _forget_loop(generation())
    try:
        copy: fsspec.AbstractFileSystem = pickle.loads(pickle.dumps(fs))
    except Exception as error:  # whatever the arguments of a filesystem raise
        raise ReadFailed(
            f"{url}: the filesystem was made before this process was forked, and cannot be made "
            f"anew ({error}); open the table in this process, or {_SPAWN}"
        ) from cause(error)
    return copy
