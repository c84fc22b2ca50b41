"""The fragments in the message of a manifest, as columns of numbers.

A manifest may list a hundred thousand fragments, of which most reads need a few. Here the message
is read far enough to tell where each fragment is, and how many rows it has; protobuf makes objects
of the fragments that are looked at.

Bytes are only passed over if protobuf is sure to accept them, see `wire.h`. Whatever is damaged,
unusual or newer than this code is left to protobuf, and everything where there is no library: in
Python, protobuf is quicker.

Format: messages `Manifest`, `DataFragment`, `DataFile` and `DeletionFile` of `protos/table.proto`.
"""

from typing import NamedTuple

import numpy as np

from lancefs.datafile.buffers import Ints
from lancefs.datafile.kernels.calls import Damaged, c_function
from lancefs.storage import Bytes


class FragmentColumns(NamedTuple):
    """The fragments in the message of a manifest, an item for each fragment.

    Attributes:
        starts: Where the fragment's message begins.
        ends: Where it ends.
        ids: Id; negative if it is 2⁶³ or more.
        rows: Rows, deleted ones included; 0 if the manifest does not tell.
        deleted: Deleted rows; −1 if only the deletion file tells.
        known: 1 if the fragment's message is sound and the numbers make sense; 0 if protobuf has
            to decide and to read them.
    """

    starts: Ints
    ends: Ints
    ids: Ints
    rows: Ints
    deleted: Ints
    known: Ints


class FileColumns(NamedTuple):
    """The data files of fragments that have one each, an item for each fragment.

    Attributes:
        starts: Where the file's path begins, a plain name.
        ends: Where it ends.
        sizes: Bytes; 0 if the manifest does not tell.
        kinds: The first of the fragments whose file has the same fields, column indices and
            version, where only such fragments follow it; −1 for a fragment with more files, none,
            or an unusual one, of which nothing is told.
    """

    starts: Ints
    ends: Ints
    sizes: Ints
    kinds: Ints


class ManifestParts(NamedTuple):
    """The message of a manifest, taken apart.

    Attributes:
        fragments: The fragments.
        others: Start and end of each range of other bytes, and 1 if all of them are fields of the
            schema, else 0; shape (n, 3).
    """

    fragments: FragmentColumns
    others: Ints


_c_find_fragments = c_function("find_fragments", "bytes number out out number out number")
_c_find_data_files = c_function("find_data_files", "bytes number ints ints number out")


def find_fragments(data: Bytes) -> ManifestParts | None:
    """Find the fragments in the message of a manifest, and the bytes between them.

    Args:
        data: The message.

    Returns:
        None if the message is damaged or unusual between the fragments.
    """
    if _c_find_fragments is None:
        return None
    counts = np.zeros(2, np.int64)
    try:
        _c_find_fragments(data, len(data), counts, None, 0, None, 0)
    except Damaged:
        return None
    room, ranges = counts.tolist()
    table, others = np.empty((6, room), np.int64), np.empty((ranges, 3), np.int64)
    _c_find_fragments(data, len(data), counts, table, room, others, ranges)
    return ManifestParts(FragmentColumns(*table), others)


def find_data_files(data: Bytes, starts: Ints, ends: Ints) -> FileColumns:
    """Find the data files of fragments that have one each, as most do.

    Args:
        data: Bytes that hold the messages of the fragments.
        starts: Where these begin.
        ends: Where they end.
    """
    if _c_find_data_files is None:
        none = np.zeros(len(starts), np.int64)
        return FileColumns(none, none, none, none - 1)
    table = np.empty((4, len(starts)), np.int64)
    _c_find_data_files(data, len(data), starts, ends, len(starts), table)
    return FileColumns(*table)
