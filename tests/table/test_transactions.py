"""Transactions: read wherever they stand, and put into words."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support import CorpusCase, copy_table, corpus_case, of_each_case

import lancefs
from lancefs.errors import CorruptFile, MissingFile
from lancefs.proto.transaction_pb2 import Transaction
from lancefs.table.manifest import read_manifest
from lancefs.table.refs import resolve
from lancefs.table.transactions import UNKNOWN, decode_transaction, read_transaction

# The first writers kept no transactions.
WITHOUT = ("w0.4.21", "w0.5.9")

# The words that summaries begin with.
OPERATIONS = (
    "Append", "Overwrite", "Delete", "Merge", "Project", "Update", "Rewrite", "Reserve",
    "Restore", "Create", "Drop", "Replace", "Overlay", "Shallow", "Deep", "Add",
)  # fmt: skip
# What one version of each kind of the corpus says.
SUMMARIES = {
    ("feat_add_columns-f2.1-w14.0.2", 2): "Append 1 fragment, 60 rows",
    ("feat_add_columns-f2.1-w14.0.2", 3): "Merge columns into 2 fragments, 150 rows: 9 columns now",
    ("feat_compaction-f2.1-w14.0.2", 1): "Overwrite with 1 fragment, 40 rows, 7 columns",
    ("feat_compaction-f2.1-w14.0.2", 6): "Reserve 1 fragment id",
    ("feat_compaction-f2.1-w14.0.2", 7): "Rewrite 4 fragments as 1 fragment, 93 rows",
    ("feat_config_metadata-f2.1-w14.0.2", 3): "Update table metadata description, owner",
    ("feat_data_overlay-f2.1-w14.0.2", 3): "Overlay cells of 1 fragment: 1 overlay file",
    ("feat_data_replacement-f2.1-w14.0.2", 4): "Replace data files of 1 fragment",
    ("feat_del_few-f2.1-w14.0.2", 3): None,
    ("feat_drop_columns-f2.1-w14.0.2", 5): "Project to 4 columns: id, s, st, vec",
    ("feat_merge_insert-f2.1-w14.0.2", 3): "Update: 1 fragment with deletions, 1 fragment, 40 rows "
    "written",
    ("feat_overwrite_restore-f2.1-w14.0.2", 5): "Restore version 2",
    ("feat_scalar_indices-f2.1-w14.0.2", 4): "Create index cat_idx",
}


@of_each_case
def test_every_transaction_of_the_corpus_is_put_into_words(case: CorpusCase) -> None:
    for ref in case.refs:
        found = resolve(case.store(), ref.ref)
        manifest = read_manifest(found.manifest)
        transaction = read_transaction(found.store, found.manifest, manifest)
        if case.name.endswith(WITHOUT):
            assert transaction is None, str(ref)
            continue
        assert transaction is not None, str(ref)
        assert transaction.operation != UNKNOWN, str(ref)
        assert transaction.uuid, str(ref)
        assert transaction.summary.partition(" ")[0].rstrip(":") in OPERATIONS, str(ref)
        is_later = transaction.read_version < manifest.version
        assert is_later or transaction.operation == "Clone", str(ref)
        expected = SUMMARIES.get((case.name, ref.ref.version or 0))
        assert expected is None or transaction.summary == expected


def test_properties_and_the_message_of_a_commit_are_read(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    dataset = lance.write_dataset(pa.table({"a": [1]}), path)
    fragments = [lance.fragment.LanceFragment.create(path, pa.table({"a": [2, 3]}))]
    operation = lance.LanceOperation.Append(fragments)
    lance.LanceDataset.commit(
        path, operation, read_version=dataset.version, commit_message="two more"
    )
    transaction = lancefs.open(path).transaction()
    assert transaction is not None
    assert transaction.message == "two more"
    assert transaction.properties == {"__lance_commit_message": "two more"}
    assert transaction.read_version == 1
    assert transaction.details["fragments"][0]["physical_rows"] == 2
    assert transaction.summary == "Append 1 fragment, 2 rows"


def test_a_deletion_names_its_condition(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    dataset = lance.write_dataset(pa.table({"a": range(9)}), path, max_rows_per_file=3)
    dataset.delete("a > 1 and a < 7")
    transaction = lancefs.open(path).transaction()
    assert transaction is not None
    assert transaction.summary == (
        "Delete where a > 1 and a < 7: 2 fragments with deletions, 1 fragment dropped"
    )


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    table = copy_table(corpus_case("feat_compaction-f2.0-w0.16.1"), tmp_path)
    for file in (table / "_transactions").iterdir():
        file.unlink()
    with pytest.raises(MissingFile, match="_transactions/"):
        lancefs.open(table, version=3).transaction()
    assert lancefs.open(table, version=3).to_table().num_rows > 0


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    table = copy_table(corpus_case("feat_compaction-f2.0-w0.16.1"), tmp_path)
    for file in (table / "_transactions").iterdir():
        file.write_bytes(b"\xff\xff")
    with pytest.raises(CorruptFile, match=r"_transactions/.*does not decode"):
        lancefs.open(table, version=3).transaction()


def test_an_operation_from_the_future_is_unknown() -> None:
    known = Transaction(read_version=4, uuid="u").SerializeToString()
    field_199 = b"\xba\x0c\x02\x08\x01"
    transaction = decode_transaction(known + field_199)
    assert transaction.operation == UNKNOWN
    assert "does not know (field 199)" in transaction.summary
    assert transaction.read_version == 4
    assert decode_transaction(known).summary == "The transaction names no operation"
