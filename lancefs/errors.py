"""The one family of errors that lancefs raises about tables and their files.

A message names the file, what is wrong with it, and what to do. Code deep inside a decoder knows
what is wrong but not where: it raises `CorruptFile("…")`, and `locating` adds the file, the column
and the page as the error travels up.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

import pyarrow as pa

from lancefs.masking import has_secrets, mask_secrets
from lancefs.printable import ends_of, printable


def _shown(text: str) -> str:
    """Return a message as it can be shown; it may quote an endless name or type of a table."""
    return printable(ends_of(text))


class LanceError(Exception):
    """Base of everything that lancefs raises about a table or one of its files.

    Secrets in the URLs of the message (passwords, signatures) are masked. Names of tables and
    files in it are escaped where they are shown.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(mask_secrets(one) if isinstance(one, str) else one for one in args))

    def __str__(self) -> str:
        return _shown(super().__str__())


class NotALanceTable(LanceError, FileNotFoundError):
    """The path is not a Lance table: it has no `_versions/` directory with a manifest in it."""


class RefNotFound(LanceError, FileNotFoundError):
    """There is no such version, tag or branch; the message lists the existing ones."""


class ColumnNotFound(LanceError, KeyError):
    """A requested column is not in the table; the message names the nearest ones."""

    def __str__(self) -> str:
        return _shown(Exception.__str__(self))  # KeyError would show the repr of the message


class InvalidFilter(LanceError, ValueError):
    """A filter in SQL text cannot be parsed; the message says where, and what was expected."""


class NoSuchPath(LanceError, FileNotFoundError):
    """There is no such file or directory in the tree of a table; the message lists what exists."""


class MissingFile(LanceError, FileNotFoundError):
    """A file that the manifest names is gone, for instance because the version was cleaned up."""

    @classmethod
    def of(cls, url: str, version: str | None = None) -> MissingFile:
        """Return the error for a file that does not exist.

        Args:
            url: The file.
            version: The version that needs it, as a ref; None if no single version does.
        """
        if version is None:
            return cls(f"{url}: the file is gone; another version of the table may be complete")
        return cls(
            f"{url}: the file is gone; version {version} of the table needs it and was probably "
            "cleaned up: open the table again for a version that exists, and tag versions to keep"
        )


class ReadFailed(LanceError, OSError):
    """The store refused a request, or failed to answer it."""


class _Located(LanceError):
    """An error about bytes, to which `locating` adds the file and the place.

    Attributes:
        what: What is wrong.
        path: The file, as the user would name it; None until it is known.
        place: The place in the file, from the outside in: a column, a page.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = mask_secrets(what)
        self.path: str | None = None
        self.place: list[str] = []

    def __str__(self) -> str:
        place = ", ".join(self.place)
        text = ": ".join(part for part in (self.path, place, self.what) if part)
        return _shown(mask_secrets(text))


class UnsupportedFeature(_Located, NotImplementedError):
    """The table uses a flag, an encoding or a type that this release does not read; it is named."""


class CorruptFile(_Located, ValueError):
    """Bytes violate the format; the message says where, and what was expected.

    Attributes:
        is_caught_by_net: Whether a library refused the bytes after every check of lancefs had
            passed, so that the message does not say what was expected. The damage tests allow no
            such error.
    """

    is_caught_by_net = False


# What a decoder raises about bytes that it does not read. Where another decoder tries them then, it
# must fail too; if it does not, the first one is at fault (`assembly.report_disagreement`).
Refusal: TypeAlias = CorruptFile | UnsupportedFeature


class MemoryLimitExceeded(_Located, MemoryError):
    """Values would take more memory than is allowed; nothing was allocated for them.

    The message names the column and the page, and what to pass if the table is to be trusted.
    """


class ArrayTooLarge(MemoryLimitExceeded):
    """Strings or binary values do not fit into one array of their type; those of fewer rows may.

    The offsets of Arrow's types `string` and `binary` end at 2 GiB.
    """

    @classmethod
    def of(cls, data_type: object) -> ArrayTooLarge:
        """Return the error for values of a type."""
        return cls(
            f"more than 2 GiB of {data_type} values in one array, which Arrow does not have; "
            "read fewer rows at a time, as lancefs.open(…).to_batches() and .arrows streams do"
        )


def cause(error: BaseException, url: str = "") -> BaseException | None:
    """Return an error as the cause of a `LanceError`; None if a traceback would show a secret.

    Args:
        error: What a library raised.
        url: What it was asked for.
    """
    return None if has_secrets(error, url) else error


class DecoderWarning(UserWarning):
    """Two decoders of lancefs disagree about a file; the rows are right. Please report it."""


# The errors that libraries raise over bytes that make no sense. The explicit checks of lancefs come
# first; `locating` is the net below them. Everything else passes through unchanged, because it says
# nothing about a file: a bug of lancefs (`TypeError`, `IndexError`, also as `ArrowTypeError` or
# `ArrowIndexError`), a machine without memory (`ArrowMemoryError` is a `MemoryError`), an error of
# the operating system. Codecs raise `OSError`, which is caught where they are called.
_DAMAGE = (pa.ArrowInvalid, pa.ArrowSerializationError, struct.error)


class locating:  # used as a verb
    """Add a file and a place to errors about bytes that are raised inside.

    Every page passes through several of these: a class costs half as much as a generator.

    Args:
        path: The file being read, as the user would name it.
        place: What is being read in it, for instance `column 3 (price), page 0`.

    Raises:
        CorruptFile: With the place added; also in place of what a library raised over the bytes,
            with `is_caught_by_net` set.
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
            _add_place(error, self.path, self.place)
        elif isinstance(error, _DAMAGE):
            damage = CorruptFile(f"the bytes do not decode ({type(error).__name__}: {error})")
            damage.is_caught_by_net = True
            _add_place(damage, self.path, self.place)
            raise damage from error


def _add_place(error: _Located, path: str | None, place: str | None) -> None:
    if place is not None:
        error.place.insert(0, place)
    if error.path is None:
        error.path = path
