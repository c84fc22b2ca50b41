"""Pairing changed rows by a key: a row whose key is in both versions was updated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.arguments import check_list
from lancefs.datafile.arrays import mask_of, numbers_of
from lancefs.datafile.blocks import Mask
from lancefs.datafile.buffers import Ints
from lancefs.datafile.fields import Field
from lancefs.table.correspondence import Correspondence
from lancefs.table.open_version import OpenVersion
from lancefs.table.version_rows import VersionRows, encoded_rows, read_rows


class _KeyedSide(NamedTuple):
    """Changed rows of one version with a whole key.

    Attributes:
        version: The version.
        fields: The columns of the key.
        rows: The rows.
        positions: Their positions among all changed rows of the version.
    """

    version: OpenVersion
    fields: Sequence[Field]
    rows: VersionRows
    positions: Ints


def key_fields(
    names: Sequence[str], columns: Correspondence, since: OpenVersion, until: OpenVersion
) -> list[tuple[Field, Field]]:
    """Return the columns of a key, in the older and in the newer version.

    Args:
        names: Their names in the newer version.
        columns: The columns of both versions.
        since: The older version.
        until: The newer version.

    Raises:
        ColumnNotFound: The newer version has no such column.
        TypeError: A text was given, not a list of names.
        ValueError: There is no name, or the older version has no such column of the same type.
    """
    check_list("key", names)
    if not names:
        raise ValueError("the key is empty; names of columns were expected")
    pairs = {pair.field.id: pair for pair in columns.pairs}
    found = []
    for name in names:
        field = until.field(name)
        pair = pairs.get(field.id)
        if pair is None or pair.compared is None:
            raise ValueError(
                f"rows cannot be compared by {name}: {since.name} has no such column, or one of "
                "another type"
            )
        found.append(pair.compared)
    return found


def pair_rows(
    since: OpenVersion,
    until: OpenVersion,
    key: Sequence[tuple[Field, Field]],
    old: VersionRows,
    new: VersionRows,
) -> tuple[Ints, Ints]:
    """Find the changed rows of both versions that have the same key.

    Args:
        since: The older version.
        until: The newer version.
        key: The columns of the key, in both versions.
        old: Rows of the older version.
        new: Rows of the newer version.

    Returns:
        The positions of the rows of each pair, among `old` and among `new`. A row in whose key
        something is missing is in no pair.

    Raises:
        ValueError: A key is in two of the rows of one version.
    """
    sides = (
        _with_key(since, [one for one, _ in key], old),
        _with_key(until, [one for _, one in key], new),
    )
    keys = [encoded_rows(side.version, side.fields, side.rows) for side in sides]
    both = pa.chunked_array(keys, pa.large_binary()).combine_chunks()
    if isinstance(both, pa.ChunkedArray):
        both = both.chunk(0)
    codes = numbers_of(pc.dictionary_encode(both).indices)
    codes_old, codes_new = codes[: len(keys[0])], codes[len(keys[0]) :]
    _check_unique(sides[0], codes_old)
    _check_unique(sides[1], codes_new)
    _, in_old, in_new = np.intersect1d(codes_old, codes_new, True, return_indices=True)
    order = np.argsort(in_new)
    return sides[0].positions[in_old[order]], sides[1].positions[in_new[order]]


def _with_key(version: OpenVersion, fields: Sequence[Field], rows: VersionRows) -> _KeyedSide:
    """Return the rows in whose key nothing is missing."""
    is_missing: Mask = np.zeros(len(rows), np.bool_)
    for column in read_rows(version, fields, rows):
        chunks = [mask_of(chunk.is_null()) for chunk in column.chunks]
        is_missing |= np.concatenate([is_missing[:0], *chunks])
    positions = np.flatnonzero(~is_missing)
    return _KeyedSide(version, fields, rows.take(positions), positions)


def _check_unique(side: _KeyedSide, codes: Ints) -> None:
    """Check that the keys of the rows of a version are different.

    Raises:
        ValueError: Two rows have the same key; the message shows it.
    """
    found, first, counts = np.unique(codes, return_index=True, return_counts=True)
    if len(found) == len(codes):
        return
    place = first[counts > 1][:1]
    columns = read_rows(side.version, side.fields, side.rows.take(place))
    values = ", ".join(
        f"{field.name} = {column[0]}" for field, column in zip(side.fields, columns, strict=True)
    )
    raise ValueError(
        f"{side.version.name}: {counts[counts > 1][0]} changed rows have the key {values}; rows "
        "are compared by columns whose values are different in all of them"
    )
