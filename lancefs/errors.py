"""The one family of errors that lancefs raises about tables and their files.

A message says which file, what is wrong with it, and what to do. Code deep inside a decoder knows
what is wrong but not where it is: it raises `CorruptFile("…")`, and `locating` adds the file, the
column and the page on the way out.
"""

from __future__ import annotations

import struct

import pyarrow as pa


class LanceError(Exception):
    """Base of everything that lancefs raises about a table or one of its files."""


class NotALanceTable(LanceError, FileNotFoundError):
    """The path is not a Lance table: it has no `_versions/` directory with a manifest in it."""


class RefNotFound(LanceError, FileNotFoundError):
    """There is no such version, tag or branch; the message lists those that there are."""


class ColumnNotFound(LanceError, KeyError):
    """A column that was asked for is not in the table; the message names the nearest ones."""

    __str__ = Exception.__str__  # KeyError would show the repr of the message


class NoSuchPath(LanceError, FileNotFoundError):
    """There is no such file or directory in the tree of a table; the message says what there is."""


class MissingFile(LanceError, FileNotFoundError):
    """A file that the manifest names is gone, for instance because the version was cleaned up."""


class ReadFailed(LanceError, OSError):
    """The store refused a request, or failed to answer it."""


class _Located(LanceError):
    """An error about bytes, to which the place is added while it travels up."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.path: str | None = None
        self.place: list[str] = []

    def __str__(self) -> str:
        place = ", ".join(self.place)
        return ": ".join(part for part in (self.path, place, self.what) if part)


class UnsupportedFeature(_Located, NotImplementedError):
    """The table uses a flag, an encoding or a type that this release does not read; it is named."""


class CorruptFile(_Located, ValueError):
    """Bytes are not what the format wants; the message says where, and what was expected."""


# What NumPy, pyarrow, struct and codecs raise when a length or an offset in damaged bytes slips
# through to them. Explicit checks come first; this is the net below them.
_DAMAGE = (
    ValueError,
    IndexError,
    KeyError,
    OverflowError,
    TypeError,
    MemoryError,
    ZeroDivisionError,
    OSError,  # what pyarrow's codecs raise
    struct.error,
    pa.ArrowException,
)


class locating:  # used as a verb
    """Add a file and a place to errors about bytes that are raised inside.

    Every page goes through several of these: a class costs half of what a generator does.

    Args:
        path: The file being read, as the user would name it.
        place: What is being read in it, for instance `column 3 (price), page 0`.

    Raises:
        CorruptFile: With the place added; also in place of what a library raised over the bytes.
        UnsupportedFeature: With the place added.
    """

    __slots__ = ("path", "place")

    def __init__(self, path: str | None = None, place: str | None = None) -> None:
        self.path = path
        self.place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            return
        if isinstance(error, _Located):
            _locate(error, self.path, self.place)
        elif isinstance(error, _DAMAGE) and not isinstance(error, LanceError):
            damaged = CorruptFile(f"the bytes do not decode ({type(error).__name__}: {error})")
            _locate(damaged, self.path, self.place)
            raise damaged from error


def _locate(error: _Located, path: str | None, place: str | None) -> None:
    if place is not None:
        error.place.insert(0, place)
    if error.path is None:
        error.path = path
