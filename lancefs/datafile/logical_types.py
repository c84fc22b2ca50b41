"""Logical types: the strings by which a schema names the type of a column.

Format pages: table schema (`docs/src/format/table/schema.md`) and the comment on `Field` in
`file.proto`. A string gives the complete type of a leaf; the types of lists, structs and maps also
depend on the fields below them (`lancefs.datafile.fields`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa

from lancefs.errors import CorruptFile, UnsupportedFeature

EXTENSION_NAME = b"ARROW:extension:name"
EXTENSION_METADATA = b"ARROW:extension:metadata"
# The metadata of bfloat16 items; the schema names bfloat16 only in the type of their list.
BFLOAT16 = {EXTENSION_NAME: b"lance.bfloat16", EXTENSION_METADATA: b""}

PLAIN: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "uint8": pa.uint8(),
    "int16": pa.int16(),
    "uint16": pa.uint16(),
    "int32": pa.int32(),
    "uint32": pa.uint32(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "json": pa.large_binary(),  # JSONB bytes, see the page on jsonb
    "blob": pa.large_binary(),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    "time32:s": pa.time32("s"),
    "time32:ms": pa.time32("ms"),
    "time64:us": pa.time64("us"),
    "time64:ns": pa.time64("ns"),
    "duration:s": pa.duration("s"),
    "duration:ms": pa.duration("ms"),
    "duration:us": pa.duration("us"),
    "duration:ns": pa.duration("ns"),
}

# Most lists of fixed size within each other: deeper than any table, shallow enough for recursion.
_MAX_LISTS = 100
_LIST_FAMILY, _DICTIONARY_FAMILY = "fixed_size_list", "dict"
# Digits that 64 bits hold, in a type that pyarrow has had since 19.
_DECIMAL64_DIGITS = 18
_DECIMAL64 = getattr(pa, "decimal64", None)
_ANY = pa.int8()
_LISTS = {kind.id for kind in (pa.list_(_ANY), pa.large_list(_ANY), pa.map_(_ANY, _ANY))}


def map_leaves(data_type: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type with other types in place of its leaves, at any depth of structs and lists.

    Args:
        data_type: The type. Extension types, dictionaries and maps count as leaves.
        change: Returns what stands in place of a leaf.
    """
    if _is_leaf(data_type):
        return change(data_type)
    return with_children(data_type, lambda field: field.with_type(map_leaves(field.type, change)))


def _is_leaf(data_type: pa.DataType) -> bool:
    is_nested = pa.types.is_struct(data_type) or pa.types.is_fixed_size_list(data_type)
    is_nested |= pa.types.is_list(data_type) or pa.types.is_large_list(data_type)
    return isinstance(data_type, pa.BaseExtensionType) or not is_nested


def with_children(data_type: pa.DataType, change: Callable[[pa.Field], pa.Field]) -> pa.DataType:
    """Return a struct or a list with other fields directly below it; any other type as it is.

    Args:
        data_type: The type.
        change: Returns what stands in place of a field.
    """
    if _is_leaf(data_type):
        return data_type
    if pa.types.is_struct(data_type):
        return pa.struct([change(field) for field in data_type])
    item = change(data_type.value_field)
    if pa.types.is_fixed_size_list(data_type):
        return pa.list_(item, data_type.list_size)
    return pa.large_list(item) if pa.types.is_large_list(data_type) else pa.list_(item)


def entries_type(data_type: pa.MapType) -> pa.ListType:
    """Return the type of lists of the entries of maps, to which Arrow casts them without a copy."""
    entry = pa.struct([data_type.key_field, data_type.item_field])
    return pa.list_(pa.field("entries", entry, nullable=False))


def storage_of(data_type: pa.DataType) -> pa.DataType:
    """Return the type of the values that an extension type has; other types as they are.

    Unlike other types, extension types that are made in Python have no hash.
    """
    while isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    return data_type


def has_type(kind: pa.DataType, is_wanted: Callable[[pa.DataType], bool]) -> bool:
    """Return whether a predicate holds for a type, or for any type below it."""
    pending = [kind]
    while pending:
        data_type = storage_of(pending.pop())
        if is_wanted(data_type):
            return True
        pending.extend(data_type.field(index).type for index in range(data_type.num_fields))
    return False


def is_list(data_type: pa.DataType) -> bool:
    """Whether values are lists of variable length; a map is a list of entries."""
    return data_type.id in _LISTS


def bit_width(data_type: pa.DataType) -> int | None:
    """Return the bits of a value; None where they differ from value to value, or it has parts."""
    try:
        return int(data_type.bit_width)
    except ValueError:
        return None


def is_variable_width(data_type: pa.DataType) -> bool:
    """Whether values are byte strings or text of variable length."""
    kinds = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_binary,
        pa.types.is_large_binary,
    )
    return any(kind(data_type) for kind in kinds)


@lru_cache(maxsize=1024)
def leaf_type(logical_type: str) -> pa.DataType:
    """Return the Arrow type of a logical type without fields below it.

    Args:
        logical_type: For instance `int32`, `decimal:128:10:2` or `fixed_size_list:float:128`.

    Raises:
        UnsupportedFeature: This release does not know the type.
        CorruptFile: The type is known, but its parameters are invalid.
    """
    plain = PLAIN.get(logical_type)
    if plain is not None:
        return plain
    family, _, parameters = logical_type.partition(":")
    parse = _FAMILIES.get(family)
    if parse is None:
        raise UnsupportedFeature(
            f"the type {logical_type!r} is not known to this release of lancefs; "
            "a later Lance introduced it"
        )
    if logical_type.count(f"{_LIST_FAMILY}:") > _MAX_LISTS:
        raise CorruptFile(f"lists of fixed size nest more than {_MAX_LISTS} deep")
    try:
        return parse(parameters)
    except CorruptFile:
        raise
    except (ValueError, TypeError, KeyError, OverflowError, pa.ArrowException) as error:
        raise CorruptFile(f"the type {logical_type!r} makes no sense: {error}") from error


def decimal64_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type that holds decimals of a type in 64 bits; None where there is none.

    None for decimals of more than 18 digits, for other types, and with a pyarrow before 19.
    """
    is_decimal64 = pa.types.is_decimal128(kind) and kind.precision <= _DECIMAL64_DIGITS
    return (
        _DECIMAL64(kind.precision, kind.scale) if is_decimal64 and _DECIMAL64 is not None else None
    )


def split_list_size(parameters: str) -> tuple[str, int]:
    """Split the parameters of `fixed_size_list:` into the type of the items and the size.

    The type of the items may contain colons (`timestamp:us:-`); the size is the last parameter.

    Raises:
        CorruptFile: The size is missing, or beyond the limits of Arrow.
    """
    item, _, size = parameters.rpartition(":")
    return item, parse_size(size)


def parse_size(text: str) -> int:
    """Parse a size in a logical type.

    Raises:
        CorruptFile: The size is not a number, negative, or beyond 2³¹ − 1, the limit of Arrow.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 2**31):
        raise CorruptFile(f"a size from 0 to 2147483647 was expected in a type, not {text!r}")
    return int(text)


def _fixed_size_list(parameters: str) -> pa.DataType:
    item, size = split_list_size(parameters)
    if item == "lance.bfloat16":
        return pa.list_(pa.field("item", pa.binary(2), metadata=BFLOAT16), size)
    return pa.list_(pa.field("item", leaf_type(item)), size)


def _fixed_size_binary(parameters: str) -> pa.DataType:
    return pa.binary(parse_size(parameters))


def _decimal(parameters: str) -> pa.DataType:
    bits, precision, scale = parameters.split(":")
    return {"128": pa.decimal128, "256": pa.decimal256}[bits](int(precision), int(scale))


def _timestamp(parameters: str) -> pa.DataType:
    # The zone may hold colons (`+05:30`); the oldest writers left it out.
    unit, _, zone = parameters.partition(":")
    return pa.timestamp(unit, None if zone in ("", "-") else zone)


def _dictionary(parameters: str) -> pa.DataType:
    value, index, ordered = parameters.rsplit(":", 2)
    if value.partition(":")[0] in (_LIST_FAMILY, _DICTIONARY_FAMILY):
        raise UnsupportedFeature(f"dictionaries of {value[:40]}, which Arrow does not encode")
    return pa.dictionary(leaf_type(index), leaf_type(value), ordered == "true")


_FAMILIES = {
    _LIST_FAMILY: _fixed_size_list,
    "fixed_size_binary": _fixed_size_binary,
    "decimal": _decimal,
    "timestamp": _timestamp,
    _DICTIONARY_FAMILY: _dictionary,
}
