"""Whether two tables are the same to the value.

`pa.Table.equals` is not enough: it takes one NaN for another, 0.0 for −0.0, and the order of the
values in a dictionary for a difference.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Rows = npt.NDArray[np.int64]


def assert_same_table(got: pa.Table, expected: pa.Table) -> None:
    """Assert that two tables have the same schema and the same values.

    The schemas agree with metadata and nullability. The values agree logically: the same slots are
    null, and the others have the same bits. How a column is cut into chunks, what lies under a
    null, and the order of the values of a dictionary mean nothing. Extension types are compared by
    what they store.

    Raises:
        AssertionError: They differ; it says where, and shows both sides.
    """
    assert_same_schema(got.schema, expected.schema)
    if got.num_rows != expected.num_rows:
        raise AssertionError(f"{got.num_rows} rows, expected {expected.num_rows}")
    for index, name in enumerate(expected.column_names):
        rows = np.arange(expected.num_rows)
        _compare(_whole(got.column(index)), _whole(expected.column(index)), name, rows)


def assert_same_schema(got: pa.Schema, expected: pa.Schema) -> None:
    """Assert that two schemas agree, with metadata and nullability at every depth.

    Raises:
        AssertionError: They differ; it names the first field that does, or shows the metadata.
    """
    if got.equals(expected, check_metadata=True):
        return
    if got.names != expected.names:
        raise AssertionError(f"columns {got.names}, expected {expected.names}")
    for one, other in zip(got, expected, strict=True):
        if not one.equals(other, check_metadata=True):
            raise AssertionError(
                f"column {other.name}: the field is\n{_describe(one)}\nexpected\n{_describe(other)}"
            )
    raise AssertionError(f"schema metadata {got.metadata}, expected {expected.metadata}")


def _describe(field: pa.Field, indent: str = "  ") -> str:
    """Show a field and the fields below it, one a line, with all that tells two fields apart."""
    nullable = "" if field.nullable else " not null"
    lines = [f"{indent}{field.name}: {field.type}{nullable} {field.metadata or ''}"]
    data_type = field.type
    if isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    for index in range(data_type.num_fields):
        lines.append(_describe(data_type.field(index), indent + "  "))
    return "\n".join(lines)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array of its storage type."""
    chunks = [_storage(chunk) for chunk in column.chunks]
    if len(chunks) == 1:
        return chunks[0]
    data_type = chunks[0].type if chunks else _storage(pa.nulls(0, column.type)).type
    if pa.types.is_dictionary(data_type):
        chunks = [chunk.dictionary.take(chunk.indices) for chunk in chunks]
        data_type = data_type.value_type
    return pa.concat_arrays(chunks) if chunks else pa.nulls(0, data_type)


def _storage(array: pa.Array) -> pa.Array:
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array


def _plain(array: pa.Array) -> pa.Array:
    """Return an array without extension type and without dictionary."""
    array = _storage(array)
    if pa.types.is_dictionary(array.type):
        array = _plain(array.dictionary.take(array.indices))
    return array


def _compare(got: pa.Array, expected: pa.Array, path: str, rows: Rows) -> None:
    """Compare two arrays.

    Args:
        got: What was read.
        expected: What should have been.
        path: The column, and the way down in it.
        rows: The row of the table that each slot belongs to.
    """
    got, expected = _plain(got), _plain(expected)
    if len(got) != len(expected):
        raise AssertionError(f"{path}: {len(got)} values, expected {len(expected)}")
    mask = _mask(expected)
    _check(_mask(got) == mask, got, expected, path, rows)
    data_type = expected.type
    if pa.types.is_null(data_type):
        return
    if not mask.all():
        keep = pa.array(mask)
        got, expected, rows = got.filter(keep), expected.filter(keep), rows[mask]
    if pa.types.is_struct(data_type):
        for index, field in enumerate(data_type):
            _compare(got.field(index), expected.field(index), f"{path}.{field.name}", rows)
    elif pa.types.is_fixed_size_list(data_type):
        items = np.repeat(rows, data_type.list_size)
        _compare(_fixed_items(got), _fixed_items(expected), f"{path}[]", items)
    elif is_list(data_type):
        lengths = _lengths(expected)
        _check(_lengths(got) == lengths, got, expected, path, rows)
        _compare(_items(got), _items(expected), f"{path}[]", np.repeat(rows, lengths))
    else:
        _check(_same_bits(got, expected), got, expected, path, rows)


def _mask(array: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def is_list(data_type: pa.DataType) -> bool:
    """Whether values are lists of any length, as those of maps are too."""
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_map)
    return any(kind(data_type) for kind in kinds)


def _lengths(array: pa.Array) -> Rows:
    lengths: Rows = np.diff(array.offsets.to_numpy()).astype(np.int64)
    return lengths


def _items(array: pa.Array) -> pa.Array:
    offsets = array.offsets.to_numpy()
    return array.values[int(offsets[0]) : int(offsets[-1])]


def _fixed_items(array: pa.Array) -> pa.Array:
    size = array.type.list_size
    return array.values[array.offset * size : (array.offset + len(array)) * size]


def _same_bits(got: pa.Array, expected: pa.Array) -> npt.NDArray[np.bool_]:
    """Tell which values of two arrays without nulls are the same bits."""
    if pa.types.is_boolean(expected.type) or not _is_fixed_width(expected.type):
        same: npt.NDArray[np.bool_] = pc.equal(got, expected).to_numpy(zero_copy_only=False)
        return same
    return np.asarray((_bytes(got) == _bytes(expected)).all(axis=1))


def _is_fixed_width(data_type: pa.DataType) -> bool:
    try:
        return bool(data_type.bit_width % 8 == 0)
    except ValueError:  # what pyarrow says of types without a width
        return False


def _bytes(array: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the values of an array without nulls, one a row, as bytes."""
    width = array.type.bit_width // 8
    data = array.buffers()[1]
    if data is None or width == 0:
        return np.empty((len(array), 0), np.uint8)
    values = np.frombuffer(data, np.uint8, len(array) * width, array.offset * width)
    return values.reshape(len(array), width)


def _check(
    same: npt.NDArray[np.bool_], got: pa.Array, expected: pa.Array, path: str, rows: Rows
) -> None:
    if not same.all():
        _fail(int(np.argmin(same)), int((~same).sum()), got, expected, path, rows)


def _fail(
    slot: int, count: int, got: pa.Array, expected: pa.Array, path: str, rows: Rows
) -> NoReturn:
    raise AssertionError(
        f"{path}, row {rows[slot]}: {_show(got, slot)}, expected {_show(expected, slot)} "
        f"({count} of {len(rows)} slots differ)"
    )


def _show(array: pa.Array, slot: int) -> str:
    """Show a value, in hexadecimal too where two that differ may look the same."""
    value = array[slot]
    shown: Any = value
    if not value.is_valid:
        return "null"
    if pa.types.is_floating(array.type) or pa.types.is_temporal(array.type):
        bits = _bytes(array[slot : slot + 1])[0][::-1].tobytes().hex()
        # Python has no date for every date that Arrow has.
        return f"{value} (0x{bits})" if pa.types.is_floating(array.type) else f"0x{bits}"
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        shown = value.as_buffer().to_pybytes()
    text = str(shown)
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"
