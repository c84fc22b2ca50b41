"""URLs and paths that mean the same on every machine, and the stores behind them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from socket import gethostname
from typing import Any

import fsspec

from lancefs.masking import mask_secrets
from lancefs.storage.filesystems import open_url

_S3 = ("s3://", "s3a://")


def absolute(url: str | os.PathLike[str]) -> str:
    """Return a path that means the same on every machine, where the store is the same.

    Raises:
        TypeError: It is neither a text nor a path, but for instance a list of some.
    """
    url = os.fspath(url)
    if url.startswith("file:") and not url.startswith("file://"):
        url = url.removeprefix("file:")  # as Spark's catalogue writes local paths
    protocol, path = fsspec.core.split_protocol(url)
    return os.path.abspath(path) if protocol in (None, "file", "local") else url


def open_place(url: str, storage: Mapping[str, Any]) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return the filesystem of a URL, and the path in it.

    Args:
        url: A folder, a table, or a pattern that these match.
        storage: For fsspec.

    Raises:
        LanceError: As `open_url` says.
        ImportError: The store needs a package that is not installed in this Python; the message
            says in which.
        ValueError: The store has no such option, or there is no such store.
    """
    try:
        return open_url(url, storage)
    except ImportError as error:  # what fsspec says of it names the package
        extra = " (pip install 'lancefs[s3]')" if url.startswith(_S3) else ""
        raise ImportError(
            f"{sys.executable} on {gethostname()}, which Spark uses, has no library for "
            f"{mask_secrets(url)}: {error}{extra}, there and on all other machines that Spark uses"
        ) from error
    except TypeError as error:  # of the call that makes the filesystem
        raise ValueError(f"the storage options do not fit the store: {error}") from None
