"""What is read of which values are missing is held to the values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lancefs
from lancefs.datafile.fields import Field
from lancefs.datafile.row_ranges import RowRanges
from lancefs.datafile.validity import VALIDITY, validity_array, validity_of
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.decoded_columns import validity_fields
from lancefs.table.members import as_column


def assert_validity_tells(uri: str, version: int, rng: np.random.Generator) -> int:
    """Assert that columns and members read as their validity are null where their values are.

    Args:
        uri: The table.
        version: The version.
        rng: Chooses rows.

    Returns:
        How many arrays were compared.
    """
    dataset = lancefs.open(uri, version=version)
    fields = [field for field in dataset.manifest.fields if _is_read(dataset, field.name)]
    columns = [column for field in fields for column in _columns((field,))]
    compared = sum(_compare_fragments(dataset, column, rng) for column in columns)
    for column in columns:
        try:
            is_one = dataset.opened.column(column.name).id == column.id
        except lancefs.LanceError:
            continue  # a path that names no member alone
        if is_one:
            compared += _compare_scans(dataset, column)
    return compared


def _is_read(dataset: LanceDataset, name: str) -> bool:
    try:
        dataset.to_table([name])
    except lancefs.LanceError:
        return False  # pylance wrote descriptors that it does not read either
    return True


def _columns(way: tuple[Field, ...]) -> Iterator[Field]:
    """Yield a column and the members below it, as columns."""
    yield as_column(way)
    if way[-1].logical_type == "struct" and not way[-1].is_blob:
        for child in way[-1].children:
            yield from _columns((*way, child))


def _compare_fragments(dataset: LanceDataset, column: Field, rng: np.random.Generator) -> int:
    """Compare all rows of each fragment, and some, deleted ones included."""
    compared = 0
    for reader in dataset.opened.readers:
        (asked,) = validity_fields(reader, [column], {column.id})
        assert asked is column or asked is validity_of(column)
        rows = reader.physical_rows
        borders = np.unique(rng.integers(0, rows + 1, 8))
        some = RowRanges(borders[: len(borders) // 2 * 2].reshape(-1, 2))
        for ranges in ([(0, rows)] if rows else [], some):
            told = validity_array(reader.read([asked], ranges)[0])
            told.validate(full=True)
            assert told.equals(_validity(reader.read([column], ranges)[0])), column.name
            compared += asked is not column
    return compared


def _compare_scans(dataset: LanceDataset, column: Field) -> int:
    """Compare live rows, as they come out and as filters take them."""
    chunks = dataset.to_table([column.name]).column(0).chunks
    values = pa.concat_arrays([pa.nulls(0, VALIDITY), *map(_validity, chunks)])
    told = dataset.to_table([column.name], validity_columns=[column.name])
    told.validate(full=True)
    assert told.column(0).combine_chunks().equals(values), column.name
    path = pc.field(*(part.name for part in column.way or (column,)))
    assert dataset.count_rows(path.is_null()) == values.null_count, column.name
    assert dataset.count_rows(path.is_valid()) == len(values) - values.null_count, column.name
    return 1


def _validity(values: pa.Array) -> pa.Array:
    """Return what Arrow says is valid."""
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    valid = pc.is_valid(values)
    return pc.if_else(valid, valid, pa.scalar(None, VALIDITY))
