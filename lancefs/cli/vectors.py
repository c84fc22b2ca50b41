"""The vector that a command searches for, given by its options."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lancefs.cli.exits import Failure
from lancefs.cli.shared_options import WholeNumber

if TYPE_CHECKING:
    from lancefs.cli.target import Target

_F = TypeVar("_F", bound=Callable[..., Any])


def vector_options(function: _F) -> _F:
    """Add `--like` and `--vector`, of which one tells the vector; see `query_vector`."""
    like = click.option(
        "--like",
        type=WholeNumber(min=0),
        metavar="ROWID",
        help="Search by the vector of the row with this id.",
    )
    vector = click.option(
        "--vector",
        metavar="FILE",
        help="Search by the vector in a file: numbers in JSON, or separated by blanks, or .npy; - "
        "is standard input.",
    )
    return like(vector(function))


def query_vector(target: Target, column: str, like: int | None, file: str | None) -> Any:
    """Return the vector of a row, or of a file.

    Args:
        target: The version.
        column: The column of vectors.
        like: The id of a row; None if a file is given.
        file: Path of a file, or `-` for the standard input; None if a row is given.

    Raises:
        Failure: There is no such row or file, it has no vector, or not one of both is given.
        ColumnNotFound: There is no such column.
    """
    if (like is None) == (file is None):
        raise Failure("either --like ROWID or --vector FILE is expected")
    if file is not None:
        return _read_vector(file)
    assert like is not None
    try:
        vector = target.dataset.take(row_ids=[like], columns=[column])[column][0].as_py()
    except IndexError as error:
        raise Failure(f"--like: {error}") from error
    if vector is None:
        raise Failure(f"--like: the row with the id {like} has no vector in {column!r}")
    return vector


def _read_vector(path: str) -> Any:
    """Return the numbers in a file.

    Raises:
        Failure: There is no such file, or it holds no vector.
    """
    import numpy as np

    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise Failure(f"--vector: {path}: {error.strerror or error}") from error
    try:
        if data.startswith(b"\x93NUMPY"):
            return np.load(io.BytesIO(data), allow_pickle=False)
        text = data.decode()
        if text.lstrip().startswith("["):
            return json.loads(text)
        return [float(word) for word in text.replace(",", " ").split()]
    except (ValueError, RecursionError) as error:
        raise Failure(
            f"--vector: {path}: {error}; numbers in JSON, or separated by blanks, or a .npy file "
            "were expected"
        ) from error
