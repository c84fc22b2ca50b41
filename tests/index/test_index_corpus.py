"""Indices of real tables, written by releases of Lance from 0.10 to 14."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support import corpus_case, needs_corpus

import lancefs

# Table -> the columns with indices that a filter is looked up in.
TABLES = {
    "feat_scalar_indices-f0.1-w0.10.18": ["id"],
    "feat_scalar_indices-f2.1-w14.0.2": ["id", "cat", "v"],
    "hist_index-no-details-w0.18.2": ["id"],
    "hist_btree-in-index-pkg-w0.36.0": ["x"],
}


@needs_corpus
@pytest.mark.parametrize("name", TABLES)
def test_each_value_of_a_real_table_is_found(name: str) -> None:
    dataset = lancefs.open(corpus_case(name).table())
    for column in TABLES[name]:
        values = pc.unique(dataset.to_table([column])[column])
        for value in values[:20]:
            field = pc.field(column)
            filter = field.is_null() if not value.is_valid else field == value
            scanner = dataset.scanner(filter=filter)
            scanned = dataset.to_table(filter=filter, use_index=False)
            assert scanner.to_table().equals(scanned)
            assert dataset.count_rows(filter) == len(scanned)
            assert f"index {column}_idx" in scanner.explain()


@needs_corpus
@pytest.mark.parametrize("kind", ["vector", "text"])
def test_indices_of_other_kinds_answer_no_filter(kind: str) -> None:
    dataset = lancefs.open(
        corpus_case(f"feat_{kind}_ind{'ex' if kind == 'vector' else 'ices'}-f2.1-w14.0.2").table()
    )
    column = dataset.schema.names[0]
    scanner = dataset.scanner(filter=pc.field(column).is_valid())
    assert "no index limits the rows" in scanner.explain()
    assert isinstance(scanner.to_table(), pa.Table)
