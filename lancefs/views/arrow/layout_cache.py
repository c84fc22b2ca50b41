"""A directory of layouts on disk, so that other processes need not compute them again.

Each view has one file, named by the digest of its version and path. The file holds the measures of
the view and its unified dictionaries, with a checksum; all of it is checked before it is used, and
no length in it is believed. The directory and its files belong to the user alone (`PrivateFolder`).
A damaged file, or a directory that cannot be read or written, is logged as a warning; the layout is
then computed as if there were no cache.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Ints
from lancefs.printable import get_logger
from lancefs.storage.private_folder import InvalidContent, PrivateFolder, seal, unseal
from lancefs.views.arrow.known_measures import KnownMeasures
from lancefs.views.arrow.unified_dictionaries import UnifiedDictionaries

logger = get_logger(__name__)

_MAGIC = b"lancefs layout 3\n"
# Number of bytes of the compressed table of measures.
_LENGTH = struct.Struct("<Q")
# Of a dictionary: number of values, of nulls, of buffers. Of a buffer: its length; -1 if absent.
_VALUES = struct.Struct("<QQB")
_BUFFER = struct.Struct("<q")
# Bytes of the largest file that is kept: dictionaries are held in memory as well.
_MAX_BYTES = 1 << 30
# No null count or extent is as large: the sums of several still fit 64 bits.
_LARGEST_MEASURE = 1 << 48


class LayoutCache:
    """A directory of layouts. Any number of processes of a user may use it at the same time.

    Args:
        directory: A local directory, created at the first `save`, for the user alone. Nothing in
            it is ever evicted. Files of other users, and directories that they can write, are not
            used.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory).expanduser()
        self._folder = PrivateFolder(self.directory)
        self._is_warned = False

    def load(self, digest: str, measures: KnownMeasures) -> UnifiedDictionaries | None:
        """Load the measures and the dictionaries of a view.

        Args:
            digest: Digest of the view.
            measures: Measures of the view; those in the file become known.

        Returns:
            The dictionaries; None if the cache has no valid file for the view.
        """
        try:
            data = self._folder.read(_name(digest), _MAX_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn("%s: the layout cannot be read: %s", digest, error)
            self._drop(digest)
            return None
        try:
            table, dictionaries = _parse(data, measures)
        except InvalidContent as error:
            logger.warning(
                "%s: not a layout of this view, or damaged (%s); it is made anew",
                self.directory / _name(digest),
                error,
            )
            self._drop(digest)
            return None
        first = 0
        for column, shape in enumerate(measures.shapes):
            measures.load_column(column, table[:, first : first + shape.num_measures])
            first += shape.num_measures
        return dictionaries

    def save(self, digest: str, measures: KnownMeasures, dictionaries: UnifiedDictionaries) -> None:
        """Save the measures and the dictionaries of a view; replace an earlier file.

        Args:
            digest: Digest of the view.
            measures: Measures of the view, known or not.
            dictionaries: Its dictionaries.
        """
        table = np.concatenate([np.empty((len(measures.batches), 0), "<i8"), *measures.columns], 1)
        data = _format(table, dictionaries)
        if len(data) > _MAX_BYTES:
            return
        try:
            self._folder.write(_name(digest), data)
        except OSError as error:
            self._warn("%s: the layout cannot be kept: %s", digest, error)

    def discard(self, digest: str) -> None:
        """Remove the file of a view, whose values contradict it.

        Args:
            digest: Digest of the view.
        """
        logger.warning(
            "%s: not the layout of the values that the view has; it is made anew",
            self.directory / _name(digest),
        )
        self._drop(digest)

    def _drop(self, digest: str) -> None:
        try:
            self._folder.remove(_name(digest))
        except OSError as error:
            self._warn("%s: the layout cannot be removed: %s", digest, error)

    def _warn(self, message: str, digest: str, error: OSError) -> None:
        """Log the first of the warnings about the directory: the others would say the same."""
        if not self._is_warned:
            self._is_warned = True
            logger.warning(message, self.directory / _name(digest), error.strerror or error)


def _name(digest: str) -> str:
    return f"{digest}.layout"


def _format(table: Ints, dictionaries: UnifiedDictionaries) -> bytes:
    """Return a sealed file: the length in bytes of the compressed measures; these; dictionaries.

    Args:
        table: Measures of all columns, of shape (batches, measures); -1 if unknown.
        dictionaries: The dictionaries of the view.
    """
    packed = zlib.compress(table.astype("<i8").tobytes(), 1)
    parts = [_LENGTH.pack(len(packed)), packed]
    for values in dictionaries.all():
        parts += _format_values(values)
    return seal(_MAGIC, b"".join(parts))


def _format_values(values: pa.Array) -> list[bytes]:
    """Return the buffers of a dictionary, each after its length.

    Not an Arrow stream, whose reader allocates what the stream asks for.
    """
    if values.offset:
        values = pa.concat_arrays([values, values.slice(0, 0)])
    buffers = values.buffers()
    parts = [_VALUES.pack(len(values), values.null_count, len(buffers))]
    for buffer in buffers:
        data = b"" if buffer is None else buffer.to_pybytes()
        parts += [_BUFFER.pack(-1 if buffer is None else len(data)), data]
    return parts


def _parse(data: bytes, measures: KnownMeasures) -> tuple[Ints, UnifiedDictionaries]:
    """Return the content of a file.

    Raises:
        InvalidContent: It is damaged, or of a view with another shape.
    """
    content = _Content(unseal(_MAGIC, data))
    table = _parse_table(content.take(*content.unpack(_LENGTH)), measures)
    dictionaries: dict[int, list[pa.Array]] = {}
    for column, shape in enumerate(measures.shapes):
        for index in shape.dictionaries:
            values = _parse_values(content, shape.nodes[index].type.value_type)
            dictionaries.setdefault(column, []).append(values)
    if content.left:
        raise InvalidContent(f"{content.left} surplus bytes")
    return table, UnifiedDictionaries(dictionaries, is_loaded=True)


class _Content:
    """The bytes of a file, taken one part after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = pa.py_buffer(data)
        self._next = 0

    @property
    def left(self) -> int:
        """Number of bytes that were not taken yet."""
        return len(self._data) - self._next

    def take(self, length: int) -> pa.Buffer:
        """Take a number of bytes."""
        if not 0 <= length <= self.left:
            raise InvalidContent(f"a part of {length} bytes, where {self.left} are left")
        self._next += length
        return self._data.slice(self._next - length, length)

    def unpack(self, form: struct.Struct) -> tuple[int, ...]:
        """Take numbers."""
        return form.unpack(self.take(form.size))


def _parse_table(packed: pa.Buffer, measures: KnownMeasures) -> Ints:
    """Return the measures of all columns, of shape (batches, measures)."""
    rows, columns = len(measures.batches), sum(shape.num_measures for shape in measures.shapes)
    try:
        raw = zlib.decompressobj().decompress(packed, 8 * rows * columns + 1)
    except zlib.error as error:
        raise InvalidContent(f"its measures do not decompress: {error}") from error
    if len(raw) != 8 * rows * columns:
        raise InvalidContent(f"it is not of {rows} batches with {columns} measures each")
    table: Ints = np.frombuffer(raw, "<i8").reshape(rows, columns)
    if table.min(initial=0) < -1 or table.max(initial=0) > _LARGEST_MEASURE:
        raise InvalidContent("a measure is out of range")
    return table


def _parse_values(content: _Content, data_type: pa.DataType) -> pa.Array:
    """Return the values of a dictionary."""
    length, nulls, count = content.unpack(_VALUES)
    if length > 8 * (content.left + 1):  # each takes a bit at least
        raise InvalidContent(f"{length} values in {content.left} bytes")
    buffers = []
    for _ in range(count):
        (size,) = content.unpack(_BUFFER)
        # Copied: aligned, and without the rest of the file in memory.
        buffers.append(None if size == -1 else pa.py_buffer(content.take(size).to_pybytes()))
    try:
        values = pa.Array.from_buffers(data_type, length, buffers, nulls)
        values.validate(full=True)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise InvalidContent(f"a dictionary is not one of {data_type}: {error}") from error
    return values
