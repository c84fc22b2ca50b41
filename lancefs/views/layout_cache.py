"""Layouts kept in a directory, so that another process need not find them out again.

A file a view, named by the digest of its version and path. It is checked before it is believed.
Whatever is wrong with it, or with the directory, costs the time that it would have saved, no more.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import zlib
from pathlib import Path

import numpy as np

from lancefs.views.measures import Measures
from lancefs.views.shapes import Numbers

logger = logging.getLogger(__name__)

_MAGIC = b"lancefs layout 1\n"


class LayoutCache:
    """A directory of layouts; any number of processes may use it.

    Args:
        directory: Made when something is first kept.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)

    def load(self, digest: str, measures: Measures) -> None:
        """Take over what is kept of a view.

        Args:
            digest: Of the view.
            measures: Gets to know it.
        """
        path = self._path(digest)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            logger.warning("%s: the layout cannot be read: %s", path, error)
            return
        table = _parse(data, len(measures.batches), sum(s.measures for s in measures.shapes))
        if table is None:
            logger.warning("%s: not a layout of this view, or damaged; it is made anew", path)
            return
        first = 0
        for column, shape in enumerate(measures.shapes):
            measures.note_all(column, table[:, first : first + shape.measures])
            first += shape.measures

    def save(self, digest: str, measures: Measures) -> None:
        """Keep what is known of a view.

        Args:
            digest: Of the view.
            measures: What is known.
        """
        table = np.concatenate([np.empty((len(measures.batches), 0), "<i8"), *measures.columns], 1)
        path = self._path(digest)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.directory, delete=False) as file:
                file.write(_format(table))
            os.replace(file.name, path)
        except OSError as error:
            logger.warning("%s: the layout cannot be kept: %s", path, error)

    def _path(self, digest: str) -> Path:
        return self.directory / f"{digest}.layout"


def _format(table: Numbers) -> bytes:
    data = zlib.compress(table.astype("<i8").tobytes(), 1)
    return _MAGIC + hashlib.sha256(data).digest() + data


def _parse(data: bytes, rows: int, columns: int) -> Numbers | None:
    """Return a table out of the bytes of a file; None where they are not one of that shape."""
    start = len(_MAGIC) + 32
    digest, packed = data[len(_MAGIC) : start], data[start:]
    if not data.startswith(_MAGIC) or hashlib.sha256(packed).digest() != digest:
        return None
    size = 8 * rows * columns
    unpacker = zlib.decompressobj()
    raw = unpacker.decompress(packed, size + 1)
    if len(raw) != size:
        return None
    table: Numbers = np.frombuffer(raw, "<i8").reshape(rows, columns)
    return None if table.min(initial=0) < -1 else table
