"""pylance, called so that what it refuses, or cannot do, is told from what is wrong with a test."""

from __future__ import annotations

import os

# Before the import, which reads them: its panics and warnings are not what tests want to show.
os.environ.setdefault("RUST_BACKTRACE", "0")
os.environ.setdefault("LANCE_LOG", "error")

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import lance

T = TypeVar("T")


class Refused(Exception):
    """pylance does not do what it was asked; the message is its own."""


def ask(call: Callable[..., T], *args: object, **kwargs: object) -> T:
    """Call pylance.

    Raises:
        Refused: It raised an error, or panicked.
    """
    try:
        return call(*args, **kwargs)
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"{type(error).__name__}: {error}") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # what Rust panics are, not an Exception
            raise
        raise Refused(f"panic: {error}") from error


def open_table(uri: str, version: int | None = None) -> lance.LanceDataset:
    """Open a version of a table with pylance."""
    return ask(lance.dataset, uri, version=version)


@contextmanager
def page_bytes(limit: int | None) -> Iterator[None]:
    """Let pylance write pages of at most so many bytes."""
    name = "LANCE_FILE_WRITER_MAX_PAGE_BYTES"
    if limit is not None:
        os.environ[name] = str(limit)
    try:
        yield
    finally:
        os.environ.pop(name, None)
