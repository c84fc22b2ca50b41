"""Error responses: one line of text, without secrets and local paths."""

from __future__ import annotations

import re
from collections.abc import Mapping

from starlette.responses import PlainTextResponse, Response

from lancefs.errors import (
    ColumnNotFound,
    InvalidFilter,
    LanceError,
    MemoryLimitExceeded,
    MissingFile,
    UnsupportedFeature,
)
from lancefs.masking import mask_secrets
from lancefs.printable import printable

# A browser must not take a text for a page, whatever a name in it looks like.
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}

# The directory of a path of this machine. Links and base paths lead to others than those of tables.
# Names may have spaces inside; a colon and the like before a space are of the message.
_NAME = r"[^/\s'\"](?:(?:(?![:;,] )[^/'\"\n])*[^/\s'\"])?"
_LOCAL_DIRECTORY = re.compile(rf"(?<![^\s'\"(])(?:file:/{{0,2}})?/(?:{_NAME}/)+")


class BadRequest(Exception):
    """A request that makes no sense; the message says why."""


def refusal(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer of one line.

    Args:
        status: The status of HTTP.
        text: What is wrong, and what to do.
        headers: More headers.
    """
    line = printable(mask_secrets(text))
    return PlainTextResponse(f"{line}\n", status, {**_HEADERS, **(headers or {})})


def status_of(error: Exception) -> int:
    """Return the status for an error: 404, 400, 422; 500 where it is not the client's fault."""
    if isinstance(error, MissingFile):  # what a table needs, not what a client asked for
        return 500
    if isinstance(error, FileNotFoundError | ColumnNotFound):
        return 404
    if isinstance(error, BadRequest | InvalidFilter):
        return 400
    return 422 if isinstance(error, UnsupportedFeature | MemoryLimitExceeded) else 500


def is_expected(error: Exception) -> bool:
    """Return whether an error says something about the table, its store, or the request."""
    return isinstance(error, LanceError | OSError | BadRequest)


def message_of(error: Exception, places: Mapping[str, str]) -> str:
    """Return what a client may see of an error.

    Args:
        error: The error.
        places: Where the tables are -> their names, which are shown in place of that.
    """
    if not is_expected(error):
        return "an error in lancefs itself; the terminal of the server says more"
    text = str(error) or type(error).__name__
    for place, name in places.items():
        text = text.replace(place, name)
    return _LOCAL_DIRECTORY.sub("…/", text)
