"""Fields: the columns of a table, and the fields below them.

A `Field` is read from the schema of a manifest or of a data file and never changes. Its id links it
to the data: names and order may differ between a table and its files. The Arrow type is computed on
demand, so that a table with one column of an unknown type still opens.

Format page: table schema (`docs/src/format/table/schema.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache
from operator import is_
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from lancefs.datafile.logical_types import (
    EXTENSION_METADATA,
    EXTENSION_NAME,
    PLAIN,
    decimal64_type,
    leaf_type,
    split_list_size,
)
from lancefs.errors import CorruptFile, UnsupportedFeature, locating

if TYPE_CHECKING:
    from lancefs.proto import schema_pb2

T = TypeVar("T")
# Most groups of columns whose descriptions are cached: streams and views read some at a time.
_MAX_KEPT = 256

# Upper limit of the nesting of fields: deeper than any table, shallow enough for recursion.
MAX_DEPTH = 100

_BLOB = b"lance-encoding:blob"
_BLOB_VERSION = b"lance-encoding:blob-version"
_PACKED = (b"lance-encoding:packed", b"packed")
_PRIMARY_KEY = b"lance-schema:unenforced-primary-key"
_PRIMARY_KEY_POSITION = b"lance-schema:unenforced-primary-key:position"
_MAX_DIGITS = 10  # of a position, which has 32 bits

# Prefix of the metadata keys of an extension type whose parameters Arrow refuses.
INVALID = b"lancefs:invalid:"
# What Arrow, and the extension types of an application, raise over parameters that are invalid.
# `OSError` over types that nest deeper than Arrow reads.
_REFUSED = (pa.ArrowException, OSError, ValueError, TypeError, KeyError)

# The type of blobs in a scan: descriptors, which give the position of the bytes.
BLOB_V1_DESCRIPTOR = pa.struct([("position", pa.uint64()), ("size", pa.uint64())])
BLOB_V2_DESCRIPTOR = pa.struct(
    [
        pa.field("kind", pa.uint8(), nullable=False),
        pa.field("position", pa.uint64(), nullable=False),
        pa.field("size", pa.uint64(), nullable=False),
        pa.field("blob_id", pa.uint32(), nullable=False),
        pa.field("blob_uri", pa.string(), nullable=False),
    ]
)

Blobs: TypeAlias = Literal["descriptors", "bytes"]


class LegacyEncoding(IntEnum):
    """The encoding of a field in a legacy (0.1) data file; later formats describe each page."""

    NONE = 0
    PLAIN = 1
    VAR_BINARY = 2
    DICTIONARY = 3
    RLE = 4


_ENCODINGS = {encoding.value: encoding for encoding in LegacyEncoding}


class DictionaryLocation(NamedTuple):
    """The position of the items of a legacy (0.1) dictionary, in the file that has the schema.

    Attributes:
        offset: In bytes.
        length: Number of items.
    """

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a part of one.

    Attributes:
        id: Links the field to the data files that hold it; it never changes.
        name: The name that users see; may change from version to version.
        logical_type: The type in the spelling of the schema, for instance `timestamp:us:UTC`.
        nullable: Whether a value may be null.
        metadata: The metadata as written, extension types included.
        children: The fields below a struct, a list or a map.
        primary_key: Position in the table's unenforced primary key, from 1 on; 0 where the ids give
            the order; None where the field is not part of the key.
        encoding: The encoding in a legacy data file.
        dictionary: The position of the dictionary in a legacy data file.
        is_outline: Whether the field is read as an outline (see `outlines`), or as its validity.
        is_validity: Whether the field is read as its validity (see `validity`).
        is_decimal64: Whether the decimals of the field are read in 64 bits (see `decimals`).
        is_encoded: Whether the field has a dictionary type for a read of strings, which data files
            store in any form.
        way: The fields around a member of a struct that is read as a column: the column, and the
            members down to this one, as the table has them. Empty for all other fields.
    """

    id: int
    name: str
    logical_type: str
    nullable: bool = True
    metadata: Mapping[bytes, bytes] = field(default_factory=dict, hash=False)
    children: tuple[Field, ...] = ()
    primary_key: int | None = None
    encoding: LegacyEncoding = LegacyEncoding.NONE
    dictionary: DictionaryLocation | None = None
    is_outline: bool = False
    is_validity: bool = False
    is_decimal64: bool = False
    is_encoded: bool = False
    way: tuple[Field, ...] = ()

    @property
    def is_leaf(self) -> bool:
        """Whether the field has a column of its own in a data file of format 2.1 or later.

        Leaves are the fields with none below them, and structs that are stored as one: packed ones
        and blobs.
        """
        return not self.children or self.is_packed or self.is_blob

    @property
    def is_packed(self) -> bool:
        """Whether this struct is stored as one column, its members side by side."""
        return self.logical_type == "struct" and any(_is_true(self.metadata, k) for k in _PACKED)

    @property
    def is_blob(self) -> bool:
        """Whether the column holds descriptors of large values that lie elsewhere."""
        return self.blob_version is not None

    @property
    def blob_version(self) -> Literal[1, 2] | None:
        """The version of the blob layout of this column; None where it has no blobs."""
        if self.metadata.get(EXTENSION_NAME) == b"lance.blob.v2":
            return 2
        if _BLOB not in self.metadata or self.metadata[_BLOB].lower() == b"false":
            return None
        return 2 if self.metadata.get(_BLOB_VERSION) == b"2" else 1

    @property
    def members(self) -> tuple[Field, ...]:
        """The members of the struct that the column is shown as: of blobs, of their descriptors.

        Those of descriptors cannot be read alone; their ids are that of the column.
        """
        if not self.is_blob:
            return self.children if self.logical_type == "struct" else ()
        shown = self.to_arrow().type
        return tuple(Field(self.id, each.name, str(each.type), self.nullable) for each in shown)

    @property
    def is_json(self) -> bool:
        """Whether the column holds JSON, which is stored as JSONB bytes and shown as text."""
        return self.logical_type == "json"

    @property
    def storage_type(self) -> pa.DataType:
        """The Arrow type that the values of a data file are decoded to.

        An extension type is its storage type, JSON is JSONB bytes, a blob is its descriptor.

        Raises:
            UnsupportedFeature: The type of the field, or of one below it, is not known; it is
                named.
            CorruptFile: A type is invalid.
        """
        if not self.children:
            return self._type(_storage_field)
        return _nested_type(self)

    def to_arrow(self, blobs: Blobs = "descriptors") -> pa.Field:
        """Return the Arrow field as readers see it: extension types, nullability, metadata.

        An extension type that pyarrow knows, or that the application registered, is itself; any
        other one is its storage type, with its name in the metadata. So is one whose parameters
        are invalid; the keys of its metadata then begin with `lancefs:invalid:`.

        Args:
            blobs: Whether blob columns are descriptors or bytes.

        Raises:
            UnsupportedFeature: The type of the field, or of one below it, is not known; it is
                named.
            CorruptFile: A type is invalid.
        """
        return _registered(self._shown(blobs))

    @property
    def shown_type(self) -> str | None:
        """The Arrow type that readers see, as text; None where this release does not know it."""
        try:
            return str(self.to_arrow().type)
        except UnsupportedFeature:
            return None

    def walk(self) -> Iterator[Field]:
        """Yield this field and all fields below it, parents before their children."""
        yield self
        for child in self.children:
            yield from child.walk()

    def leaves(self) -> Iterator[Field]:
        """Yield the fields of this one, itself or below it, that have columns from 2.1 on."""
        if self.is_leaf:
            yield self
            return
        for child in self.children:
            yield from child.leaves()

    def prune(self, ids: Collection[int]) -> Field | None:
        """Return the field with only the descendants that have data; None where none has.

        A packed struct whose members have data instead is returned as one that is not packed: so
        releases up to 0.37 stored it in 2.1.

        Args:
            ids: The ids of the fields that have a column; a set for speed.
        """
        if self.is_leaf and self.id in ids:
            return self
        if self.is_packed:
            metadata = {key: self.metadata[key] for key in self.metadata if key not in _PACKED}
            return replace(self, metadata=metadata).prune(ids)
        if self.is_leaf:
            return None
        kept = tuple(c for c in (child.prune(ids) for child in self.children) if c is not None)
        if not kept:
            return None
        if self.is_validity:
            kept = kept[:1]  # whose levels decide
        return self if kept == self.children else replace(self, children=kept)

    def _shown(self, blobs: Blobs) -> pa.Field:
        """Return the Arrow field, with the names of extension types in the metadata."""
        if not (self.metadata or self.is_json):
            return self._arrow_field(self._type(lambda child: child._shown(blobs)))
        version = self.blob_version
        metadata = dict(self.metadata)
        if version == 2 and blobs == "descriptors":
            metadata = {_BLOB: b"true", b"lance-encoding:packed": b"true"}
        elif version == 2:
            metadata.pop(EXTENSION_NAME, None)
        if version and blobs == "bytes":
            shown: pa.DataType = pa.large_binary()
        elif self.is_json:
            shown = pa.string()
            metadata[EXTENSION_NAME] = b"arrow.json"
            metadata.setdefault(EXTENSION_METADATA, b"")
        else:
            shown = self._type(lambda child: child._shown(blobs))
        return _with_valid_extension(self._arrow_field(shown, metadata))

    def _arrow_field(
        self, data_type: pa.DataType, metadata: Mapping[bytes, bytes] | None = None
    ) -> pa.Field:
        """Return the Arrow field of a type.

        Raises:
            CorruptFile: The type is null and the field is not nullable, which pyarrow refuses.
        """
        if pa.types.is_null(data_type) and not self.nullable:
            raise CorruptFile(
                f"field {self.id} ({self.name}) has the null type, but is said to have no nulls"
            )
        return pa.field(self.name, data_type, self.nullable, metadata or None)

    def _type(self, below: Callable[[Field], pa.Field]) -> pa.DataType:
        """Return the Arrow type; `below` makes the Arrow fields of the fields below."""
        if not (self.metadata or self.children) and self.logical_type in PLAIN:
            return PLAIN[self.logical_type]  # as for most fields
        if self.is_blob:
            return BLOB_V2_DESCRIPTOR if self.blob_version == 2 else BLOB_V1_DESCRIPTOR
        with locating(place=f"field {self.id} ({self.name})"):
            if self.logical_type == "struct":
                return pa.struct([below(child) for child in self.children])
            if self.logical_type in ("list", "list.struct"):
                return pa.list_(below(self._item()))
            if self.logical_type in ("large_list", "large_list.struct"):
                return pa.large_list(below(self._item()))
            if self.logical_type == "map":
                key, value = self._entry()
                if key.nullable:  # pyarrow refuses such a map
                    raise CorruptFile("the keys of a map are said to have nulls")
                return pa.map_(below(key), below(value))
            if self.logical_type.startswith("fixed_size_list:") and self.children:
                _, size = split_list_size(self.logical_type.partition(":")[2])
                return pa.list_(below(self._item()), size)
            if self.children:
                raise UnsupportedFeature(f"the type {self.logical_type!r} with fields below it")
            kind = leaf_type(self.logical_type)
            return decimal64_type(kind) or kind if self.is_decimal64 else kind

    def _item(self) -> Field:
        if len(self.children) != 1:
            raise CorruptFile(f"one field below a list was expected, not {len(self.children)}")
        return self.children[0]

    def _entry(self) -> tuple[Field, Field]:
        entry = self._item()
        if len(entry.children) != 2:
            raise CorruptFile(f"a map has a key and a value, not {len(entry.children)} fields")
        return entry.children[0], entry.children[1]


def fields_from_proto(messages: Iterable[schema_pb2.Field]) -> tuple[Field, ...]:
    """Nest the fields of a schema, which is stored as a flat list.

    Args:
        messages: The fields, each with the id of its parent. Parents and children may have any
            order; siblings keep their order.

    Returns:
        The columns, in the order of the list.

    Raises:
        CorruptFile: An id occurs twice or is negative, two columns have one name, a parent does not
            exist or lies below its own child, or the fields nest beyond reason.
    """
    by_id: dict[int, schema_pb2.Field] = {}
    for message in messages:
        if message.id < 0 or message.id in by_id:
            raise CorruptFile(
                f"field {message.name!r} has the id {message.id}, which must be unique, from 0 on"
            )
        by_id[message.id] = message
    below: dict[int, list[int]] = {}
    for message in by_id.values():
        below.setdefault(_parent(message, by_id), []).append(message.id)
    fields = tuple(_nest(top, by_id, below, 1) for top in below.get(-1, ()))
    reached = sum(1 for column in fields for _ in column.walk())
    if reached != len(by_id):
        raise CorruptFile(f"{len(by_id) - reached} fields lie below each other in a circle")
    _check_names(fields)
    return fields


def _check_names(columns: Sequence[Field]) -> None:
    """Check that each column has a name of its own, by which alone it can be selected."""
    by_name: dict[str, int] = {}
    for column in columns:
        other = by_name.setdefault(column.name, column.id)
        if other != column.id:
            raise CorruptFile(f"fields {other} and {column.id} are both named {column.name!r}")


def _parent(message: schema_pb2.Field, by_id: Mapping[int, schema_pb2.Field]) -> int:
    if message.parent_id in by_id or message.parent_id == -1:
        return message.parent_id
    if message.parent_id == 0:  # not set: the first writers counted field ids from 1
        return -1
    raise CorruptFile(
        f"field {message.name!r} lies below field {message.parent_id}, which does not exist"
    )


def _nest(
    field_id: int,
    by_id: Mapping[int, schema_pb2.Field],
    below: Mapping[int, list[int]],
    depth: int,
) -> Field:
    if depth > MAX_DEPTH:
        raise CorruptFile(f"fields nest more than {MAX_DEPTH} deep")
    message = by_id[field_id]
    children = tuple(_nest(child, by_id, below, depth + 1) for child in below.get(field_id, ()))
    # Sorted because the order of protobuf maps differs from process to process.
    metadata = {key.encode(): message.metadata[key] for key in sorted(message.metadata)}
    if message.extension_name:
        metadata.setdefault(EXTENSION_NAME, message.extension_name.encode())
    dictionary = None
    if message.HasField("dictionary"):
        dictionary = DictionaryLocation(message.dictionary.offset, message.dictionary.length)
    return Field(
        id=field_id,
        name=message.name,
        logical_type=message.logical_type,
        nullable=message.nullable,
        metadata=metadata,
        children=children,
        primary_key=_primary_key(message, metadata),
        encoding=_encoding(message.encoding),
        dictionary=dictionary,
    )


def _primary_key(message: schema_pb2.Field, metadata: Mapping[bytes, bytes]) -> int | None:
    """Return the position in the primary key, which older writers put only into the metadata."""
    if message.unenforced_primary_key:
        return message.unenforced_primary_key_position
    if metadata.get(_PRIMARY_KEY, b"").lower() in (b"true", b"1", b"yes"):
        position = metadata.get(_PRIMARY_KEY_POSITION, b"0")
        return int(position) if position.isdigit() and len(position) <= _MAX_DIGITS else 0
    return None


def _encoding(number: int) -> LegacyEncoding:
    # Only legacy files use the number, and these have no later encodings.
    return _ENCODINGS.get(number, LegacyEncoding.NONE)


def _is_true(metadata: Mapping[bytes, bytes], key: bytes) -> bool:
    return metadata.get(key, b"").lower() == b"true"


@lru_cache(maxsize=4096)
def _nested_type(field: Field) -> pa.DataType:
    """Return the storage type of a field with others below it, which takes long to make."""
    return field._type(_storage_field)


def _storage_field(child: Field) -> pa.Field:
    return child._arrow_field(child.storage_type)


def _registered(shown: pa.Field) -> pa.Field:
    """Replace extension types that the metadata names by the types that pyarrow knows.

    Reading a serialized schema does this, by the rules of Arrow and with the types that the
    application registered.
    """
    if not pa.types.is_nested(shown.type) and EXTENSION_NAME not in (shown.metadata or {}):
        return shown  # like most fields, which name no extension type
    try:
        return _read_back(shown)
    except _REFUSED:
        return shown  # fields nest deeper than Arrow's own limit: show their storage


def _with_valid_extension(shown: pa.Field) -> pa.Field:
    """Rename the metadata of an extension type that Arrow refuses: no reader takes it for one.

    Readers of a view or of a stream would refuse the whole table over a type that cannot be made.
    """
    if EXTENSION_NAME not in (shown.metadata or {}):
        return shown
    try:
        _read_back(shown)
    except _REFUSED:
        names = {EXTENSION_NAME, EXTENSION_METADATA}
        renamed = {INVALID + k if k in names else k: v for k, v in shown.metadata.items()}
        return shown.with_metadata(renamed)
    return shown


def _read_back(shown: pa.Field) -> pa.Field:
    return pa.ipc.read_schema(pa.schema([shown]).serialize()).field(0)


def are_same(fields: Sequence[Field], others: Sequence[Field]) -> bool:
    """Whether two sequences have the same objects, which takes far less time than to compare them.

    Args:
        fields: Some fields.
        others: Other fields.
    """
    return len(fields) == len(others) and all(map(is_, fields, others))


def _hash_of(fields: Sequence[Field]) -> int:
    """Return a number that is the same for the same objects."""
    return hash(tuple(map(id, fields)))


class CacheByFields(Generic[T]):
    """A cache by groups of columns, which scans and views ask for again and again."""

    def __init__(self) -> None:
        # By the objects, which stay alive. Columns with the same ids may be read as other types.
        self._kept: dict[int, tuple[Sequence[Field], T]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, fields: Sequence[Field]) -> tuple[Sequence[Field], T] | None:
        """Return the columns as they were put, at least one, and the value; None without one."""
        known = self._kept.get(_hash_of(fields))
        return known if known is not None and are_same(fields, known[0]) else None

    def put(self, fields: Sequence[Field], value: T) -> None:
        """Cache a value of some columns, at least one."""
        if len(self._kept) >= _MAX_KEPT:
            self._kept.clear()
        self._kept[_hash_of(fields)] = tuple(fields), value

    def values(self) -> list[T]:
        """Return all cached values; threads may add more meanwhile."""
        return [value for _, value in tuple(self._kept.values())]

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()
