"""Which bytes a request wants: `Range`, and the conditions of RFC 9110 that name entity tags."""

from __future__ import annotations

import re
from typing import NamedTuple

# One range; positions of more digits are beyond any file, and are ignored as malformed ones are.
_RANGE = re.compile(r"bytes=[ \t]*([0-9]{0,18})-([0-9]{0,18})[ \t]*", re.IGNORECASE)
_TAG = re.compile(r'(W/)?("[^"]*")')


class ByteSpan(NamedTuple):
    """A part of a file.

    Attributes:
        start: First byte.
        end: Byte after the last one.
    """

    start: int
    end: int


class RangeNotSatisfiable(Exception):
    """The range that is asked for has no byte of the file in it."""


def wanted_span(header: str | None, size: int) -> ByteSpan | None:
    """Return the part of a file that a `Range` header asks for.

    Args:
        header: The header: `bytes=a-b`, `bytes=a-` or `bytes=-n`.
        size: Bytes of the file.

    Returns:
        None where the whole file is to be sent: without the header, and where it is malformed, of
        another unit, or asks for several ranges, which a server may ignore.

    Raises:
        RangeNotSatisfiable: No byte of the file is in the range.
    """
    found = _RANGE.fullmatch(header.strip()) if header is not None else None
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < start:
            return None
    if start >= end:
        raise RangeNotSatisfiable
    return ByteSpan(start, end)


def is_known(header: str | None, etag: str) -> bool:
    """Return whether an `If-None-Match` header names an entity tag, or any by `*`.

    Args:
        header: The header.
        etag: The tag of the file as it is now, in its quotes.
    """
    if header is None:
        return False
    return header.strip() == "*" or etag in [tag for _, tag in _TAG.findall(header)]


def is_meant(header: str | None, etag: str) -> bool:
    """Return whether the file as it is now is one that an `If-Match` header names.

    A client that reads a file in ranges sends it, so that it never joins those of two versions.

    Args:
        header: The header; without it, or by `*`, any is. Weak tags name none.
        etag: The tag of the file as it is now, in its quotes.
    """
    if header is None or header.strip() == "*":
        return True
    return etag in [tag for weak, tag in _TAG.findall(header) if not weak]


def still_holds(header: str | None, etag: str) -> bool:
    """Return whether the bytes that an `If-Range` header means are those of now.

    Args:
        header: The header; without it, they are. Dates never hold: only tags are given out.
        etag: The tag of the file as it is now, in its quotes.
    """
    return header is None or header.strip() == etag
