"""The fragments of a version as columns of numbers; objects are made on demand.

A table may have a hundred thousand fragments, and a read may want one row of one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from google.protobuf.message import DecodeError

from lancefs.datafile import kernels
from lancefs.datafile.kernels.manifests import FileColumns, FragmentColumns
from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.forks import cached_property
from lancefs.proto import table_pb2
from lancefs.table.fragment_messages import ADDRESS_LIMIT, Shared, build_fragment
from lancefs.table.fragments import REPLACED_FIELD, Fragment
from lancefs.table.messages import parse_message

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints
    from lancefs.storage import Bytes

# Fragments that are kept when they have been made.
_KEPT = 4096
# Rows beyond any limit, for numbers that do not fit into a column.
_TOO_MANY = 2**62
_UNKNOWN = -1
# `REPLACED_FIELD` in a message, behind a tag and a length.
_REPLACED = table_pb2.DataFile(fields=[REPLACED_FIELD]).SerializeToString()[2:]


class Fragments(Sequence[Fragment]):
    """The fragments of a version in scan order, each decoded when it is used.

    Args:
        data: Bytes that hold the message of each fragment.
        columns: Where the messages are, and the ids and rows of the fragments.
        url: URL of the manifest file, for error messages.

    Raises:
        CorruptFile: Two fragments have the same id. Indexing raises it for a fragment whose
            message contradicts itself.
    """

    def __init__(self, data: bytes, columns: FragmentColumns, url: str | None = None) -> None:
        self._data = data
        self._columns = columns
        self._url = url
        self._built: dict[int, Fragment] = {}  # by id; slices have the same
        self._shared: Shared = {}
        if not self._is_ascending and len(np.unique(columns.ids)) != len(self):
            raise CorruptFile("two fragments have the same id")

    def __len__(self) -> int:
        return len(self._columns.ids)

    @overload
    def __getitem__(self, index: int) -> Fragment: ...

    @overload
    def __getitem__(self, index: slice) -> Fragments: ...

    def __getitem__(self, index: int | slice) -> Fragment | Fragments:
        if isinstance(index, slice):
            return self.picked(index)
        position = range(len(self))[index]
        number = int(self.ids[position])
        fragment = self._built.get(number)
        if fragment is None:
            fragment = self._build(position)
            if len(self._built) >= _KEPT:
                self._built.clear()
            self._built[number] = fragment
        return fragment

    def picked(self, positions: slice | Ints) -> Fragments:
        """Return the fragments at some positions, in their order."""
        columns = FragmentColumns(*(column[positions] for column in self._columns))
        part = Fragments(self._data, columns, self._url)
        part._built, part._shared = self._built, self._shared
        known = self.__dict__.get("data_files")
        if known is not None and isinstance(positions, slice) and positions.step in (None, 1):
            part._take_files(known, positions.indices(len(self))[0], positions)
        return part

    def _take_files(self, files: FileColumns, start: int, rows: slice) -> None:
        """Take what is known of the data files of the fragments that these are a part of."""
        kinds = files.kinds[rows]
        if len(kinds) and kinds[0] >= 0:
            kinds = np.where(kinds < 0, kinds, np.maximum(kinds - start, 0))
            starts, ends, sizes = (column[rows] for column in files[:3])
            self.__dict__["data_files"] = FileColumns(starts, ends, sizes, kinds)

    def __repr__(self) -> str:
        return f"<{len(self)} fragments>"

    def __reduce__(self) -> tuple[Any, ...]:
        messages = [self._message(position) for position in range(len(self))]
        return _unpickle, (table_pb2.Manifest(fragments=messages).SerializeToString(), self._url)

    @property
    def ids(self) -> Ints:
        """The id of each fragment."""
        return self._columns.ids

    @cached_property
    def positions(self) -> Mapping[int, int]:
        """The position of each fragment by its id."""
        return _Positions(self.ids, None if self._is_ascending else np.argsort(self.ids))

    @cached_property
    def live_ends(self) -> Ints | None:
        """The number of live rows up to and with each fragment; None if the manifest lacks one.

        Raises:
            CorruptFile: A fragment has more rows than there are addresses, or more deleted ones
                than rows.
            UnsupportedFeature: A fragment has a deletion file of an unknown kind.
        """
        rows, deleted = self._columns.rows, self._columns.deleted
        if self.physical_rows() is None or (deleted == _UNKNOWN).any():
            return None
        if (deleted > rows).any():
            self._build(int((deleted > rows).argmax()))  # raises the error
        ends: Ints = np.cumsum(rows - deleted)
        return ends

    @property
    def row_counts(self) -> tuple[Ints, Ints] | None:
        """The rows of each fragment, deleted ones included, and its deleted rows.

        None if the manifest lacks a number; raises as `live_ends` does.
        """
        if self.live_ends is None:
            return None
        return self._columns.rows, self._columns.deleted

    @cached_property
    def data_files(self) -> FileColumns:
        """The data file of each fragment that has one, and a plain name for it."""
        columns = self._columns
        return kernels.find_data_files(self.data, columns.starts, columns.ends)

    @property
    def data(self) -> Bytes:
        """The bytes that hold the messages of the fragments, and the names in `data_files`."""
        return np.frombuffer(self._data, np.uint8)

    @cached_property
    def with_replaced_fields(self) -> Ints:
        """The ids of fragments that may have data files with fields that later ones replace.

        Their messages are searched for such a field, and not decoded.
        """
        if _REPLACED not in self._data:
            return self.ids[:0]
        are_replaced = [_REPLACED in self.message_bytes(position) for position in range(len(self))]
        return np.sort(self.ids[are_replaced])

    def physical_rows(self) -> int | None:
        """Return the number of rows, deleted rows included; None if only data files tell.

        Raises:
            CorruptFile: A fragment has more rows than there are addresses.
        """
        rows = self._columns.rows
        if not rows.all():
            return None
        if rows.max(initial=0) > ADDRESS_LIMIT:
            self._build(int(rows.argmax()))  # raises the error
        return int(rows.sum())

    def num_rows(self) -> int | None:
        """Return the number of live rows; None if only data files or deletion files tell.

        Raises:
            CorruptFile: See `live_ends`.
        """
        ends = self.live_ends
        if ends is None:
            return None
        return int(ends[-1]) if len(ends) else 0

    def differences(self, others: Fragments) -> tuple[list[Fragment], list[Fragment]]:
        """Compare with the fragments of another version.

        Successive versions share most fragments: those alike at both ends are compared in order,
        the rest by id.

        Args:
            others: Fragments of the other version.

        Returns:
            The fragments that only this version has, and those that only the other one has. A
            fragment that differs between the versions is in both lists.
        """
        start = self._alike(others)
        end = self._alike(others, from_end=True, most=min(len(self), len(others)) - start)
        ours, theirs = range(start, len(self) - end), range(start, len(others) - end)
        known = dict(zip(others.ids[start : theirs.stop].tolist(), theirs, strict=True))
        left, shared = [], set()
        for position, number in zip(ours, self.ids[start : ours.stop].tolist(), strict=True):
            other = known.get(number)
            if other is not None and self._is_same(position, others, other):
                shared.add(other)
            else:
                left.append(self[position])
        return left, [others[position] for position in theirs if position not in shared]

    def _alike(self, others: Fragments, from_end: bool = False, most: int | None = None) -> int:
        """Count fragments at the start, or at the end, that have the same bytes in both versions.

        Args:
            others: Fragments of the other version.
            from_end: Whether those at the end are counted.
            most: Count no more.
        """
        count = min(len(self), len(others)) if most is None else most
        if not count:
            return 0
        step = -1 if from_end else 1
        ours, theirs = (
            np.stack((one._columns.starts[::step][:count], one._columns.ends[::step][:count]))
            for one in (self, others)
        )
        places = ours - ours[0, 0]  # relative to the first one, or to the last one
        differ = (places != theirs - theirs[0, 0]).any(axis=0)
        count = int(differ.argmax()) if differ.any() else count
        if not count:
            return 0
        low, high = (count - 1, 0) if from_end else (0, count - 1)
        own, other = (
            np.frombuffer(one._data, np.uint8)[at[0, low] : at[1, high]]
            for one, at in ((self, ours), (others, theirs))
        )
        unequal = own[::step] != other[::step]
        if not unequal.any():
            return count
        first = int(unequal.argmax())
        if from_end:
            at = ours[1, 0] - 1 - first
            return int(np.searchsorted(-ours[0, :count], -at))
        return int(np.searchsorted(ours[1, :count], ours[0, 0] + first, side="right"))

    def _is_same(self, position: int, others: Fragments, other: int) -> bool:
        """Return whether a fragment is the same in another version; bytes may be ordered anew."""
        if self.message_bytes(position) == others.message_bytes(other):
            return True
        return self._message(position) == others._message(other)

    @cached_property
    def _is_ascending(self) -> bool:
        return bool((self.ids[1:] > self.ids[:-1]).all())

    def message_bytes(self, position: int) -> bytes:
        """Return the bytes of the message of a fragment."""
        return self._data[self._columns.starts[position] : self._columns.ends[position]]

    def _message(self, position: int) -> table_pb2.DataFragment:
        return parse_message(table_pb2.DataFragment(), self.message_bytes(position), "fragment")

    def _build(self, position: int) -> Fragment:
        message = self._message(position)
        try:
            return build_fragment(message, self._shared)
        except (CorruptFile, UnsupportedFeature):
            with locating(self._url, f"fragment {message.id}"):
                raise


class _Positions(Mapping[int, int]):
    """The position of each fragment by its id.

    Args:
        ids: The ids, in scan order.
        order: The positions in the order of the ids; None if the ids ascend.
    """

    def __init__(self, ids: Ints, order: Ints | None) -> None:
        self._ids = ids
        self._order = order
        self._sorted = ids if order is None else ids[order]

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids.tolist())

    def __getitem__(self, number: int) -> int:
        at = int(np.searchsorted(self._sorted, number)) if 0 <= number < ADDRESS_LIMIT else -1
        if not 0 <= at < len(self._sorted) or self._sorted[at] != number:
            raise KeyError(number)
        return at if self._order is None else int(self._order[at])


class ParsedManifest(NamedTuple):
    """The message of a manifest.

    Attributes:
        message: The message without its fragments and the fields of its schema.
        schema: The serialized fields of the schema, as in the message.
        data: Bytes that hold the messages of the fragments.
        columns: Where these are, and the ids and rows of the fragments.
    """

    message: table_pb2.Manifest
    schema: bytes
    data: bytes
    columns: FragmentColumns


def parse_manifest(data: bytes) -> ParsedManifest:
    """Parse the message of a manifest.

    Raises:
        CorruptFile: The bytes are not the message of a manifest.
    """
    # Without the compiled kernel, protobuf is quicker.
    is_quick = kernels.kernels_in_use().name == "compiled"
    parsed = _parse_quickly(data) if is_quick else None
    if parsed is not None:
        return parsed
    message = parse_message(table_pb2.Manifest(), data)
    schema = table_pb2.Manifest(fields=message.fields).SerializeToString()
    fragments = list(message.fragments)
    message.ClearField("fields")
    message.ClearField("fragments")
    return ParsedManifest(message, schema, *_columns_of(fragments))


def _parse_quickly(data: bytes) -> ParsedManifest | None:
    """Parse the message of a manifest without its fragments; None if it is damaged or unusual."""
    parts = kernels.find_fragments(np.frombuffer(data, np.uint8))
    if parts is None:
        return None
    rest, schema = (
        b"".join([data[start:end] for start, end, kind in parts.others.tolist() if kind == wanted])
        for wanted in (0, 1)
    )
    try:
        for position in np.flatnonzero(parts.fragments.known == 0).tolist():
            _add_numbers(parts.fragments, position, data)
        _check_schema(schema)
        message = table_pb2.Manifest.FromString(rest)
    except DecodeError:
        return None
    return ParsedManifest(message, schema, data, parts.fragments)


def _add_numbers(columns: FragmentColumns, position: int, data: bytes) -> None:
    """Add the numbers of a fragment that the kernel does not know."""
    message = data[columns.starts[position] : columns.ends[position]]
    numbers = _numbers(table_pb2.DataFragment.FromString(message))
    columns.ids[position], columns.rows[position], columns.deleted[position] = numbers


@lru_cache(maxsize=64)  # the versions of a table mostly have the same schema
def _check_schema(schema: bytes) -> None:
    table_pb2.Manifest.FromString(schema)


def _columns_of(
    fragments: Sequence[table_pb2.DataFragment],
) -> tuple[bytes, FragmentColumns]:
    """Return fragments as `Fragments` takes them."""
    messages = [fragment.SerializeToString() for fragment in fragments]
    bounds = np.cumsum([0, *map(len, messages)], dtype=np.int64)
    numbers = np.array([_numbers(fragment) for fragment in fragments], np.int64)
    known = np.ones(len(fragments), np.int64)
    ids, rows, deleted = numbers.reshape(-1, 3).T
    columns = FragmentColumns(bounds[:-1], bounds[1:], ids, rows, deleted, known)
    return b"".join(messages), columns


def _unpickle(data: bytes, url: str | None) -> Fragments:
    parsed = parse_manifest(data)
    return Fragments(parsed.data, parsed.columns, url)


def _numbers(message: table_pb2.DataFragment) -> tuple[int, int, int]:
    """Return id, rows and deleted rows as `FragmentColumns` has them."""
    deleted = 0
    if message.HasField("deletion_file"):
        deleted = min(message.deletion_file.num_deleted_rows, _TOO_MANY) or _UNKNOWN
    number = message.id - (message.id >> 63 << 64)
    return number, min(message.physical_rows, _TOO_MANY), deleted
