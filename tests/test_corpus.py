"""Every version of every corpus table, through `lancefs.open`, equals what is expected of it."""

from __future__ import annotations

import pyarrow as pa
from comparison import assert_same_table
from support import CorpusCase, CorpusRef, corpus_refs, of_each, of_each_case

import lancefs


@of_each(ref for ref in corpus_refs() if ref.expected())
def test_rows_are_those_expected(ref: CorpusRef) -> None:
    path = ref.expected()
    assert path is not None
    expected = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    table = lancefs.open(ref.case.table(), ref=ref.ref).to_table()
    table.validate(full=True)
    assert_same_table(table, expected)


@of_each_case
def test_rows_are_counted(case: CorpusCase) -> None:
    for ref in case.refs:
        dataset = lancefs.open(case.table(), ref=ref.ref)
        assert dataset.count_rows() == ref.info["num_rows"], str(ref)
