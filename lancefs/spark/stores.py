"""Addresses that mean the same on every machine, and stores that cannot be reached."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import fsspec

from lancefs.errors import LanceError, ReadFailed, cause


def absolute(url: str) -> str:
    """Return a path that means the same on every machine, where the store is the same."""
    if url.startswith("file:") and not url.startswith("file://"):
        url = url.removeprefix("file:")  # as Spark's catalogue writes local paths
    protocol, path = fsspec.core.split_protocol(url)
    return os.path.abspath(path) if protocol in (None, "file", "local") else url


@contextmanager
def reaching(url: str) -> Iterator[None]:
    """Say which store it is that cannot be reached.

    Raises:
        ReadFailed: In place of whatever the client of the store raised.
    """
    try:
        yield
    except (LanceError, ImportError, ValueError):
        raise
    except Exception as error:  # what clients of stores raise has no class in common
        raise ReadFailed(
            f"{url} cannot be reached ({type(error).__name__}: {error}): check the address, the "
            "network and the storage options, on the driver and on every worker"
        ) from cause(error)
