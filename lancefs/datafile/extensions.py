"""Presenting stored columns to readers: JSON as text, and extension types.

Decoders give arrays of a field's storage type, and most fields are shown as they are stored. Where
a part of a field is not, only this part is rebuilt: the offsets, values and validity of all other
parts are shared with the stored array, unless it is a slice.

Format page: table schema (`docs/src/format/table/schema.md`), extension types.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from lancefs.datafile.arrays import bitmap, mask_of, numbers_of
from lancefs.datafile.fields import Blobs, Field
from lancefs.datafile.logical_types import EXTENSION_NAME, is_list


def present(array: pa.Array, field: Field, blobs: Blobs = "descriptors") -> pa.Array:
    """Return values as readers see them.

    Args:
        array: Values of the type `field.storage_type`; may be a slice.
        field: The field of the values.
        blobs: Whether blob columns of the array are descriptors or bytes.

    Returns:
        An array of the type `field.to_arrow(blobs).type`; `array` itself if it has this type.

    Raises:
        CorruptFile: A JSON value is damaged.
        UnsupportedFeature: The type of the field, or of one below it, is not known; or JSON text is
            too long for one array.
    """
    if is_shown_as_stored(field):
        return array
    return _to_shown_type(array, field, field.to_arrow(blobs).type)


@lru_cache(maxsize=4096)
def is_shown_as_stored(field: Field) -> bool:
    """Whether a field has its storage type, whatever extensions the application registers."""
    if field.is_json or EXTENSION_NAME in field.metadata or ":lance." in field.logical_type:
        return False
    # The metadata of the fields below is part of the type.
    return all(not child.metadata and is_shown_as_stored(child) for child in field.children)


def _to_shown_type(array: pa.Array, field: Field | None, shown: pa.DataType) -> pa.Array:
    """Convert an array to the shown type.

    Args:
        array: The values.
        field: The field of the values; None for the items of a list that is a leaf.
        shown: The shown type.
    """
    if array.type.equals(shown, check_metadata=True):
        return array
    if isinstance(shown, pa.BaseExtensionType):
        return shown.wrap_array(_to_shown_type(array, field, shown.storage_type))
    if field is not None and field.is_json:
        from lancefs.datafile import jsonb

        return jsonb.to_text(array)
    if pa.types.is_struct(shown):
        return _struct(array, field, shown)
    if is_list(shown):
        return _list(array, field, shown)
    if pa.types.is_fixed_size_list(shown):
        return _fixed_size_list(array, field, shown)
    raise TypeError(f"values of {array.type} cannot be shown as {shown}")


def _struct(array: pa.Array, field: Field | None, shown: pa.StructType) -> pa.Array:
    children = [
        _to_shown_type(array.field(i), field.children[i] if field else None, shown.field(i).type)
        for i in range(shown.num_fields)
    ]
    return _rebuilt(array, shown, [], children)


def _list(array: pa.Array, field: Field | None, shown: pa.DataType) -> pa.Array:
    """Rebuild a list, large list or map, without items that belong to no row."""
    first, last, offsets = 0, 0, pa.py_buffer(bytes(8))
    if len(array):
        ends = array.offsets
        first, last = ends[0].as_py(), ends[-1].as_py()
        moved = first != 0 or array.offset != 0
        offsets = pa.py_buffer(numbers_of(ends) - first) if moved else array.buffers()[1]
    entries = shown.field(0).type
    items = _to_shown_type(array.values.slice(first, last - first), _item(field), entries)
    return _rebuilt(array, shown, [offsets], [items])


def _fixed_size_list(array: pa.Array, field: Field | None, shown: pa.DataType) -> pa.Array:
    size = shown.list_size
    values = array.values.slice(array.offset * size, len(array) * size)
    return _rebuilt(array, shown, [], [_to_shown_type(values, _item(field), shown.value_type)])


def _item(field: Field | None) -> Field | None:
    """Return the field below a list; None where the list is a leaf."""
    return field.children[0] if field is not None and field.children else None


def _rebuilt(
    array: pa.Array,
    shown: pa.DataType,
    offsets: list[pa.Buffer],
    children: list[pa.Array],
) -> pa.Array:
    """Return an array with the validity of another one, and other children; its offset is 0."""
    if array.null_count == 0:
        validity = None
    elif array.offset == 0:
        validity = array.buffers()[0]
    else:
        validity = bitmap(mask_of(array.is_valid()))
    buffers = [validity, *offsets]
    return pa.Array.from_buffers(shown, len(array), buffers, array.null_count, children=children)
