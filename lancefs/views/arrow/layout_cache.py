"""Layouts kept in a directory, so that another process need not find them out again.

A file a view, named by the digest of its version and path. It is checked before it is believed.
Whatever is wrong with it, or with the directory, costs the time that it would have saved, no more.
"""

from __future__ import annotations

import hashlib
import logging
import os
import struct
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa

from lancefs.views.arrow.measures import Measures
from lancefs.views.arrow.shapes import Numbers
from lancefs.views.arrow.unified_dictionaries import Dictionaries

logger = logging.getLogger(__name__)

_MAGIC = b"lancefs layout 2\n"
_LENGTH = struct.Struct("<Q")


class LayoutCache:
    """A directory of layouts; any number of processes may use it.

    Args:
        directory: Made when something is first kept.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)

    def load(self, digest: str, measures: Measures) -> Dictionaries | None:
        """Take over what is kept of a view.

        Args:
            digest: Of the view.
            measures: Gets to know it.

        Returns:
            The dictionaries; None where nothing is kept.
        """
        path = self._path(digest)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            logger.warning("%s: the layout cannot be read: %s", path, error)
            return None
        found = _parse(data, measures)
        if found is None:
            logger.warning("%s: not a layout of this view, or damaged; it is made anew", path)
            return None
        table, joined = found
        first = 0
        for column, shape in enumerate(measures.shapes):
            measures.note_all(column, table[:, first : first + shape.measures])
            first += shape.measures
        return joined

    def save(self, digest: str, measures: Measures, joined: Dictionaries) -> None:
        """Keep what is known of a view.

        Args:
            digest: Of the view.
            measures: What is known.
            joined: Its dictionaries.
        """
        table = np.concatenate([np.empty((len(measures.batches), 0), "<i8"), *measures.columns], 1)
        path = self._path(digest)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.directory, delete=False) as file:
                file.write(_format(table, joined))
            os.replace(file.name, path)
        except OSError as error:
            logger.warning("%s: the layout cannot be kept: %s", path, error)

    def _path(self, digest: str) -> Path:
        return self.directory / f"{digest}.layout"


def _format(table: Numbers, joined: Dictionaries) -> bytes:
    """The magic, a digest of the rest, the length of the packed table, it, and the dictionaries."""
    packed = zlib.compress(table.astype("<i8").tobytes(), 1)
    data = _LENGTH.pack(len(packed)) + packed + _format_dictionaries(joined)
    return _MAGIC + hashlib.sha256(data).digest() + data


def _format_dictionaries(joined: Dictionaries) -> bytes:
    """Each dictionary as an Arrow stream of one column."""
    sink = pa.BufferOutputStream()
    for values in joined.all():
        batch = pa.record_batch([values], names=["values"])
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _parse(data: bytes, measures: Measures) -> tuple[Numbers, Dictionaries] | None:
    """Return what the bytes of a file say; None where they are not of such a view."""
    start = len(_MAGIC) + 32
    digest, rest = data[len(_MAGIC) : start], data[start:]
    if not data.startswith(_MAGIC) or hashlib.sha256(rest).digest() != digest:
        return None
    (length,) = _LENGTH.unpack_from(rest)
    packed, streams = rest[_LENGTH.size : _LENGTH.size + length], rest[_LENGTH.size + length :]
    rows, columns = len(measures.batches), sum(shape.measures for shape in measures.shapes)
    raw = zlib.decompressobj().decompress(packed, 8 * rows * columns + 1)
    if len(raw) != 8 * rows * columns:
        return None
    table: Numbers = np.frombuffer(raw, "<i8").reshape(rows, columns)
    joined = _parse_dictionaries(streams, measures)
    return None if joined is None or table.min(initial=0) < -1 else (table, joined)


def _parse_dictionaries(data: bytes, measures: Measures) -> Dictionaries | None:
    """Return the dictionaries of a view; None where these are not of its types."""
    source = pa.BufferReader(data)
    found: dict[int, list[pa.Array]] = {}
    for column, shape in enumerate(measures.shapes):
        for index in shape.dictionaries:
            try:
                values = pa.ipc.open_stream(source).read_all()["values"].combine_chunks()
                values.validate(full=True)
            except (pa.ArrowException, OSError, KeyError):
                return None
            if values.type != shape.nodes[index].type.value_type:
                return None
            found.setdefault(column, []).append(values)
    return Dictionaries(found)
