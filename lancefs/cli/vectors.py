"""Vector searches as the options of a command ask for them."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lancefs.cli.exits import Failure
from lancefs.cli.scanning import checked_filter, selected_columns

if TYPE_CHECKING:
    from lancefs.cli.scanning import RowOptions
    from lancefs.cli.target import Target
    from lancefs.search.vector_search import VectorSearch


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


def vector_search(
    target: Target,
    column: str,
    query: Any,
    wanted: RowOptions,
    *,
    metric: str | None,
    nprobes: int | None,
    refine_factor: int | None,
) -> VectorSearch:
    """Return a search of a version; arguments as for `LanceDataset.vector_search`.

    Raises:
        Failure: An argument does not fit the column.
        ColumnNotFound: A column is not in the table.
    """
    try:
        return target.dataset.vector_search(
            column,
            query,
            wanted.rows,
            metric,
            nprobes=nprobes,
            refine_factor=refine_factor,
            filter=checked_filter(target, wanted.where),
            columns=selected_columns(target, wanted.columns),
            use_index=wanted.use_index,
        )
    except (TypeError, ValueError) as error:
        raise Failure(str(error)) from error


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
