"""Both readers read a version of a table, in every way, and must agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from comparison import assert_same_table

import lancefs
from agreement import oracle
from agreement.oracle import Refused, ask
from lancefs.datafile.v2_1.layouts import chunk_runs

_UNKNOWN = pc.scalar(pa.scalar(None, pa.bool_()))


@dataclass(frozen=True)
class Filter:
    """A filter, as each reader spells it."""

    sql: str
    expression: pc.Expression


def assert_agree(uri: str, version: int, rng: np.random.Generator) -> pa.Table:
    """Assert that both readers read a version alike.

    Args:
        uri: The table.
        version: The version.
        rng: Chooses slices, rows, columns and filters.

    Returns:
        The rows of the version.

    Raises:
        Refused: pylance cannot read the version.
        AssertionError: The readers differ.
    """
    theirs, ours = oracle.open_table(uri, version), lancefs.open(uri, version=version)
    expected = _read(theirs)
    whole = ours.to_table()
    whole.validate(full=True)
    assert_same_table(whole, expected)
    assert ours.count_rows() == expected.num_rows
    # Small pages are read whole; here, some of them are read as large ones are.
    with patch.object(
        chunk_runs, "_MAX_WHOLE_BYTES", int(rng.choice([0, chunk_runs._MAX_WHOLE_BYTES]))
    ):
        _agree_on_slices(ours, expected, rng)
        _agree_on_rows(ours, theirs, expected, rng)
        for wanted in _filters(expected, rng):
            _agree_on_filter(ours, theirs, expected, wanted, rng)
        _agree_on_members(ours, expected, rng)
    return expected


def _read(dataset: lance.LanceDataset) -> pa.Table:
    """Read a version with pylance: column by column, where it cannot read them together."""
    try:
        return ask(dataset.to_table)
    except Refused:
        names = dataset.schema.names
        found = [ask(dataset.to_table, columns=[name]) for name in names]
        columns = [table.column(0) for table in found]
        if len({len(column) for column in columns}) > 1:
            raise
        fields = [table.schema.field(0) for table in found]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields, dataset.schema.metadata))


def _agree_on_slices(
    ours: lancefs.LanceDataset, expected: pa.Table, rng: np.random.Generator
) -> None:
    for _ in range(2):
        start, end = np.sort(rng.integers(0, expected.num_rows + 2, 2)).tolist()
        columns = _some(expected.column_names, rng)
        got = ours.to_table(columns=columns, offset=start, limit=end - start)
        _same(got, expected.select(columns).slice(start, end - start), f"rows {start}–{end}")
    rows = int(rng.integers(0, 50))
    _same(ours.head(rows), expected.slice(0, rows), f"head({rows})")
    rows = int(rng.integers(expected.num_rows // 10 + 1, expected.num_rows + 2))
    batches = list(ours.to_batches(batch_size=rows))
    assert all(0 < batch.num_rows <= rows for batch in batches)
    _same(pa.Table.from_batches(batches, ours.schema), expected, f"batches of {rows}")


def _agree_on_rows(
    ours: lancefs.LanceDataset,
    theirs: lance.LanceDataset,
    expected: pa.Table,
    rng: np.random.Generator,
) -> None:
    if not expected.num_rows:
        return
    columns = _some(expected.column_names, rng)
    rows = rng.integers(0, expected.num_rows, int(rng.choice([1, 3, 30])))
    got = ours.take(rows, columns=columns)
    _same(got, _take(expected.select(columns), rows), f"take({rows.tolist()})")
    try:
        taken = ask(theirs.take, rows.tolist(), columns=columns)
    except Refused:
        return  # what `to_table` gave is what counts
    _same(got, taken, f"pylance's take({rows.tolist()})")


def _agree_on_filter(
    ours: lancefs.LanceDataset,
    theirs: lance.LanceDataset,
    expected: pa.Table,
    wanted: Filter,
    rng: np.random.Generator,
) -> None:
    try:
        ids = _ids(theirs, expected, wanted)
    except Refused:
        return  # not every type can be filtered by
    # With a filter, pylance forgets members of fixed-size lists of structs: the ids are enough.
    rows = expected.filter(pc.is_in(expected["id"], ids.combine_chunks()))
    columns = _some(expected.column_names, rng)
    got = ours.to_table(columns=columns, filter=wanted.expression)
    _same(got, rows.select(columns), wanted.sql)
    assert ours.count_rows(wanted.expression) == rows.num_rows, wanted.sql


def _ids(theirs: lance.LanceDataset, expected: pa.Table, wanted: Filter) -> pa.ChunkedArray:
    """Return the ids of the rows that a filter keeps."""
    if theirs.data_storage_version == "0.1":
        # There pylance goes by statistics of nulls, which it then reads as values.
        return pads.dataset(expected).to_table(columns=["id"], filter=wanted.expression)["id"]
    return ask(theirs.to_table, columns=["id"], filter=wanted.sql)["id"]


def _agree_on_members(
    ours: lancefs.LanceDataset, expected: pa.Table, rng: np.random.Generator
) -> None:
    """Read members of structs as columns, and filter by whether they are missing."""
    paths = [path for field in expected.schema for path in _paths(field)]
    for index in rng.permutation(len(paths))[:4]:
        path = paths[index]
        name = ".".join(path)
        member = expected[path[0]]
        for part in path[1:]:
            position = member.type.get_field_index(part)
            chunks = [chunk.flatten()[position] for chunk in member.chunks]
            member = pa.chunked_array(chunks, member.type.field(position).type)
        got = ours.to_table(columns=[name, "id", path[0]])
        columns = [member, expected["id"], expected[path[0]]]
        _same(got, pa.Table.from_arrays(columns, schema=got.schema), name)
        kept = expected.filter(member.is_null())
        got = ours.to_table(columns=[name, "id"], filter=pc.field(*path).is_null())
        assert got["id"].equals(kept["id"]), f"{name} is null"
        assert got[name].null_count == len(got)


def _paths(field: pa.Field) -> Iterator[tuple[str, ...]]:
    """Yield the paths to the members of structs in a column."""
    if pa.types.is_struct(field.type) and b"lance-encoding:blob" not in (field.metadata or {}):
        for member in field.type:
            yield field.name, member.name
            yield from ((field.name, *path) for path in _paths(member))


def _filters(table: pa.Table, rng: np.random.Generator) -> Iterator[Filter]:
    """Choose filters that keep some rows, on columns whose comparison both readers define alike."""
    found = [Filter("id % 3 = 1", pc.subtract(pc.field("id"), _thirds(pc.field("id"))) == 1)]
    for name in table.column_names:
        found += [
            Filter(f"{name} IS NULL", pc.field(name).is_null()),
            Filter(f"{name} IS NOT NULL", pc.field(name).is_valid()),
            *_comparisons(table, name, rng),
        ]
    for index in rng.permutation(len(found))[:3]:
        yield found[index]
    one, other = (found[index] for index in rng.integers(0, len(found), 2))
    yield Filter(f"({one.sql}) AND ({other.sql})", one.expression & other.expression)
    yield Filter(f"({one.sql}) OR NOT ({other.sql})", one.expression | ~other.expression)


def _thirds(expression: pc.Expression) -> pc.Expression:
    return pc.multiply(pc.divide(expression, 3), 3)


def _comparisons(table: pa.Table, name: str, rng: np.random.Generator) -> Iterator[Filter]:
    column = table[name]
    simple = pa.types.is_integer(column.type) or pa.types.is_string(column.type)
    if not simple or not len(column):
        return
    values = [column[int(row)].as_py() for row in rng.integers(0, len(column), 2)]
    if not all(_has_literal(value) for value in values):
        return
    scalars = [pa.scalar(value, column.type) for value in values]
    sql = [_literal(value) for value in values]
    yield Filter(f"{name} = {sql[0]}", pc.field(name) == scalars[0])
    yield Filter(f"{name} <= {sql[0]}", pc.field(name) <= scalars[0])
    yield Filter(f"{name} > {sql[1]}", pc.field(name) > scalars[1])
    # In SQL, a null is neither in a list nor not in it; in pyarrow it is not.
    within = pc.if_else(pc.field(name).is_valid(), pc.field(name).isin(scalars), _UNKNOWN)
    yield Filter(f"{name} IN ({', '.join(sql)})", within)


def _has_literal(value: Any) -> bool:
    """Whether a value can be written in SQL so that its type is never in doubt."""
    return abs(value) < 1 << 53 if isinstance(value, int) else isinstance(value, str)


def _literal(value: int | str) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def _some(names: list[str], rng: np.random.Generator) -> list[str]:
    """Choose some columns, in any order."""
    chosen = rng.permutation(names)[: int(rng.integers(1, len(names) + 1))]
    return [str(name) for name in chosen]


def _take(table: pa.Table, rows: Any) -> pa.Table:
    return pa.concat_tables([table.slice(int(row), 1) for row in rows])


def _same(got: pa.Table, expected: pa.Table, what: str) -> None:
    got.validate(full=True)
    try:
        assert_same_table(got, expected)
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from error
