"""A directory of layouts on disk, so that other processes need not compute them again.

Each view has one file, named by the digest of its version and path. The file holds the measures of
the view and its unified dictionaries, with a checksum; all of it is checked before it is used. A
damaged file, or a directory that cannot be read or written, is logged as a warning; the layout is
then computed as if there were no cache.
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

from lancefs.datafile.buffers import Ints
from lancefs.views.arrow.measures import Measures
from lancefs.views.arrow.unified_dictionaries import UnifiedDictionaries

logger = logging.getLogger(__name__)

_MAGIC = b"lancefs layout 2\n"
_LENGTH = struct.Struct("<Q")


class LayoutCache:
    """A directory of layouts. Any number of processes may use it at the same time.

    Args:
        directory: A local directory, created at the first `save`. Nothing in it is ever evicted.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)

    def load(self, digest: str, measures: Measures) -> UnifiedDictionaries | None:
        """Load the measures and the dictionaries of a view.

        Args:
            digest: Digest of the view.
            measures: Measures of the view; those in the file become known.

        Returns:
            The dictionaries; None if the cache has no valid file for the view.
        """
        path = self._path(digest)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            logger.warning("%s: the layout cannot be read: %s", path, error)
            return None
        content = _parse(data, measures)
        if content is None:
            logger.warning("%s: not a layout of this view, or damaged; it is made anew", path)
            return None
        table, dictionaries = content
        first = 0
        for column, shape in enumerate(measures.shapes):
            measures.record_column(column, table[:, first : first + shape.num_measures])
            first += shape.num_measures
        return dictionaries

    def save(self, digest: str, measures: Measures, dictionaries: UnifiedDictionaries) -> None:
        """Save the measures and the dictionaries of a view; replace an earlier file.

        Args:
            digest: Digest of the view.
            measures: Measures of the view, known or not.
            dictionaries: Its dictionaries.
        """
        table = np.concatenate([np.empty((len(measures.batches), 0), "<i8"), *measures.columns], 1)
        path = self._path(digest)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.directory, delete=False) as file:
                file.write(_format(table, dictionaries))
            os.replace(file.name, path)
        except OSError as error:
            logger.warning("%s: the layout cannot be kept: %s", path, error)

    def _path(self, digest: str) -> Path:
        return self.directory / f"{digest}.layout"


def _format(table: Ints, dictionaries: UnifiedDictionaries) -> bytes:
    """Return the content of a file.

    It consists of: the magic; the SHA-256 of all that follows it; the length in bytes of the
    compressed table of measures; the table; the dictionaries.

    Args:
        table: Measures of all columns, of shape (batches, measures); -1 if unknown.
        dictionaries: The dictionaries of the view.
    """
    packed = zlib.compress(table.astype("<i8").tobytes(), 1)
    data = _LENGTH.pack(len(packed)) + packed + _format_dictionaries(dictionaries)
    return _MAGIC + hashlib.sha256(data).digest() + data


def _format_dictionaries(dictionaries: UnifiedDictionaries) -> bytes:
    """Return each dictionary as an Arrow IPC stream of one column."""
    sink = pa.BufferOutputStream()
    for values in dictionaries.all():
        batch = pa.record_batch([values], names=["values"])
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _parse(data: bytes, measures: Measures) -> tuple[Ints, UnifiedDictionaries] | None:
    """Return the content of a file; None if it is damaged or of a view with another shape."""
    start = len(_MAGIC) + 32
    digest, rest = data[len(_MAGIC) : start], data[start:]
    if not data.startswith(_MAGIC) or hashlib.sha256(rest).digest() != digest:
        return None
    (length,) = _LENGTH.unpack_from(rest)
    packed, streams = rest[_LENGTH.size : _LENGTH.size + length], rest[_LENGTH.size + length :]
    rows, columns = len(measures.batches), sum(shape.num_measures for shape in measures.shapes)
    raw = zlib.decompressobj().decompress(packed, 8 * rows * columns + 1)
    if len(raw) != 8 * rows * columns:
        return None
    table: Ints = np.frombuffer(raw, "<i8").reshape(rows, columns)
    dictionaries = _parse_dictionaries(streams, measures)
    if dictionaries is None or table.min(initial=0) < -1:
        return None
    return table, dictionaries


def _parse_dictionaries(data: bytes, measures: Measures) -> UnifiedDictionaries | None:
    """Return the dictionaries of a view; None if they are damaged or of other types."""
    source = pa.BufferReader(data)
    dictionaries: dict[int, list[pa.Array]] = {}
    for column, shape in enumerate(measures.shapes):
        for index in shape.dictionaries:
            try:
                values = pa.ipc.open_stream(source).read_all()["values"].combine_chunks()
                values.validate(full=True)
            except (pa.ArrowException, OSError, KeyError):
                return None
            if values.type != shape.nodes[index].type.value_type:
                return None
            dictionaries.setdefault(column, []).append(values)
    return UnifiedDictionaries(dictionaries)
