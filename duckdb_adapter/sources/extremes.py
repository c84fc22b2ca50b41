"""The rows for a query that uses only the minimum and maximum of columns.

The replacement is one row of minima and one of maxima, and as many others as there are if the query
counts rows. They are computed once for a version, which never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.queries.extremes import used_extremes
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.sources.column_values import member_type, stored_type
from duckdb_adapter.sources.rows import Rows
from duckdb_adapter.sources.value_counts import ValueCountRows, can_name, with_structs
from lancefs.datafile.arrays import is_text, numbers_of, strings_of, valid_slots
from lancefs.datafile.buffers import Array, to_arrow_numbers
from lancefs.datafile.constants import array_of
from lancefs.datafile.kernels import count_sums, text_bounds
from lancefs.datafile.kernels.bounds import KEY_BYTES
from lancefs.storage import Bytes
from lancefs.table.per_version import PerVersion

# Types that Arrow and DuckDB order alike, as functions that tell.
ORDERED = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_string,
    pa.types.is_large_string,
)
# Texts of a zone: its least and greatest texts are found by their first bytes, see `text_bounds`.
_ZONE_ROWS = 1024
# Rows in which all items of most dictionaries are met.
_FIRST_CODES = 4096


class ColumnExtremes(NamedTuple):
    """What is known of the values of a column.

    Attributes:
        ends: The least and the greatest value; nulls where there is none.
        missing: How many values are missing.
    """

    ends: pa.Array
    missing: int


# None for columns whose least or greatest value DuckDB may show as another one.
_EXTREMES = PerVersion[dict[str, ColumnExtremes | None]](lambda _: {})


def extreme_rows(
    rows: Rows, query: TableQuery, is_binary: Callable[[], bool]
) -> ValueCountRows | None:
    """Return rows for a query that uses only the extremes of columns, and how many rows there are.

    Args:
        rows: The rows of a table that the query names once, see `are_values_cached`; with the
            members of structs that the query uses.
        query: The query.
        is_binary: Tells whether texts are compared by their bytes.

    Returns:
        None where the query uses more.

    Raises:
        LanceError: A column cannot be read.
    """
    used = used_extremes(query)
    if used is None or not can_name(used.columns):
        return None
    kinds = [member_type(rows.filter_field, path) for path in used.columns]
    is_ordered = all(any(is_kind(kind) for is_kind in ORDERED) for kind in kinds)
    if not is_ordered or (any(map(is_text, kinds)) and not is_binary()):
        return None
    found = extremes_of(rows, used.columns)
    known = {path: each for path, each in found.items() if each is not None}
    are_there = all(known[path].missing == 0 for path in used.counted & known.keys())
    if len(known) < len(found) or not are_there:
        return None
    ends, counts = {path: each.ends for path, each in known.items()}, np.array([1, 1])
    if used.uses_count:
        kept = ends.keys() if used.calls_others else used.counted
        ends = {path: _with_another(each, path in kept) for path, each in ends.items()}
        others = (rows.known_count() or 0) - 1
        counts = np.array([1, min(others, 1), max(others - 1, 0)])
    return ValueCountRows(with_structs(pa.table(ends)), counts, frozenset(used.functions))


def _with_another(ends: pa.Array, is_kept: bool) -> pa.Array:
    """Return the extremes of a column, and a value that all other rows may have.

    It is null for texts, unless a value has to be kept: of equal texts DuckDB compares each, and it
    skips nulls.
    """
    is_null = is_text(ends.type) and not is_kept
    return pa.concat_arrays([ends, pa.nulls(1, ends.type) if is_null else ends[1:]])


def extremes_of(rows: Rows, paths: Sequence[str]) -> dict[str, ColumnExtremes | None]:
    """Return the extremes of columns; those that nobody has asked for are read together.

    Args:
        rows: The rows of a local table.
        paths: Columns of types that have an order, or members of structs.

    Returns:
        None for columns of whose values DuckDB may show another one.

    Raises:
        LanceError: A column cannot be read.
    """
    known = _EXTREMES.of(rows.dataset.opened)
    wanted = [path for path in paths if path not in known]
    if wanted:
        columns = list(dict.fromkeys(path.partition(".")[0] for path in wanted))
        parts: dict[str, list[ColumnExtremes | None]] = {path: [] for path in wanted}
        for batch in rows.for_scan(needs_all=True).batches(columns, ()):
            for path in wanted:
                column, *members = path.split(".")
                array = batch.column(column)
                found = pc.struct_field(array, members) if members else array
                parts[path].append(_extremes(found))
        known.update({path: _join_extremes(each) for path, each in parts.items()})
    return {path: known[path] for path in paths}


def limits_of(kind: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest number of a type.

    Args:
        kind: A type of whole numbers.
    """
    bits = kind.bit_width
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _join_extremes(parts: Sequence[ColumnExtremes | None]) -> ColumnExtremes | None:
    """Return the extremes of several batches; None where those of one are not clear."""
    clear = [each for each in parts if each is not None]
    if not clear or len(clear) < len(parts):
        return None
    joined = _extremes(pa.concat_arrays([each.ends for each in clear]))
    return joined and joined._replace(missing=sum(each.missing for each in clear))


def _extremes(array: pa.Array) -> ColumnExtremes | None:
    """Return the extremes of a batch; None where they are not clear."""
    values = _used_items(array) if pa.types.is_dictionary(array.type) else array
    ends = _ends_of_floats(values) if pa.types.is_floating(values.type) else ends_of(values)
    return None if ends is None else ColumnExtremes(ends, array.null_count)


def _used_items(array: pa.DictionaryArray) -> pa.Array:
    """Return the items of a dictionary that rows have; it may hold others."""
    items = array.dictionary
    codes = numbers_of(array.indices, len(items))
    is_used = np.zeros(len(items) + 1, np.bool_)
    for start, stop in ((0, _FIRST_CODES), (_FIRST_CODES, len(codes))):
        some = codes[start:stop]
        if not is_used[:-1].all() and len(some):
            is_used |= count_sums(some, len(is_used)) > 0
    return items.take(to_arrow_numbers(np.flatnonzero(is_used[:-1])))


def _ends_of_floats(array: pa.Array) -> pa.Array | None:
    """Return the least and the greatest of some floats as DuckDB orders them: NaN is the greatest.

    None where there are zeros of both signs, of which DuckDB shows the first.
    """
    valid, numbers = valid_slots(array), numbers_of(array)
    some = numbers if valid is None else numbers[valid]
    if not len(some):
        return pa.nulls(2, array.type)
    ends = np.array([some.min(), some.max()], some.dtype)
    if np.isnan(ends[0]):
        ordered = some[~np.isnan(some)]
        ends[0] = ordered.min() if len(ordered) else np.nan
    if not ends.all() and bool((np.signbit(some) & (some == 0)).any()):
        return None
    return to_arrow_numbers(ends)


def ends_of(array: pa.Array) -> pa.Array:
    """Return the least and the greatest value of a column; nulls where there is none.

    Args:
        array: Its values, of a type that Arrow and DuckDB order alike.
    """
    kind = array.type
    if is_text(kind):
        return _ends_of_texts(array)
    found = pc.min_max(array.view(stored_type(kind)))
    return pa.concat_arrays([pa.repeat(found[end], 1) for end in ("min", "max")]).view(kind)


def _ends_of_texts(texts: pa.Array) -> pa.Array:
    """Return the least and the greatest text, see `ends_of`.

    They are looked for by their keys. A short key is the text, unless zeros may follow.
    """
    if texts.null_count == len(texts):
        return pa.nulls(2, texts.type)
    starts = np.arange(0, len(texts), _ZONE_ROWS)
    offsets, data = strings_of(texts)
    least, most = text_bounds(offsets, data, valid_slots(texts), np.append(starts, len(texts)))
    first, last = np.sort(least)[0], np.sort(most)[-1]
    if max(len(first), len(last)) < KEY_BYTES and not _has_zeros(offsets, data):
        return array_of([first.decode(), last.decode()], texts.type)
    zones = np.flatnonzero((least == first) | (most == last)).tolist()
    found = pc.min_max(pa.concat_arrays([texts.slice(starts[each], _ZONE_ROWS) for each in zones]))
    return pa.concat_arrays([pa.repeat(found[end], 1) for end in ("min", "max")])


def _has_zeros(offsets: Array, data: Bytes) -> bool:
    """Whether a byte of some texts is zero, or of nulls between them."""
    return not data[offsets[0] : offsets[-1]].min(initial=1)
