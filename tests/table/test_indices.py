"""Indices: kind, columns, coverage and cost, as the writer recorded them and as pylance counts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyroaring
import pytest
from support import (
    CorpusCase,
    copy_table,
    corpus_case,
    corpus_cases,
    needs_corpus,
    rewrite_index_section,
    rewrite_manifest,
)

import lancefs
from lancefs.errors import CorruptFile
from lancefs.proto import table_pb2
from lancefs.table.indices import (
    FRAGMENT_REUSE,
    INDEX_TABLE,
    MEM_WAL,
    Index,
    index_table,
    uncovered_rows,
)

CASES = [case for case in corpus_cases() if "ind" in case.name]

# (index, kind, columns, fragments, rows that it does not cover) of the last versions.
EXPECTED: dict[str, list[tuple[str, str, tuple[str, ...], set[int], int]]] = {
    "feat_scalar_indices-f0.1-w0.10.18": [("id_idx", "BTree", ("id",), {0, 1}, 19)],
    "feat_scalar_indices-f2.1-w14.0.2": [
        ("id_idx", "BTree", ("id",), {0, 1}, 19),
        ("cat_idx", "Bitmap", ("cat",), {0, 1}, 19),
        ("tags_idx", "LabelList", ("tags",), {0, 1}, 19),
        ("v_idx", "ZoneMap", ("v",), {0, 1}, 19),
        ("s_idx", "BloomFilter", ("s",), {0, 1}, 19),
    ],
    "feat_text_indices-f2.1-w14.0.2": [
        ("doc_idx", "Inverted", ("doc",), {0}, 9),
        ("doc2_idx", "NGram", ("doc2",), {0}, 9),
    ],
    "feat_vector_index-f2.1-w2.0.1": [("vec_idx", "Vector", ("vec",), {0, 1}, 0)],
    "hist_index-no-details-w0.18.2": [("id_idx", "BTree", ("id",), {0}, 0)],
    "hist_btree-in-index-pkg-w0.36.0": [("x_idx", "BTree", ("x",), {0}, 0)],
    "hist_legacy-fts-index-w0.27.0": [("text_idx", "Inverted", ("text",), {0}, 0)],
}


def named(indices: list[Index]) -> dict[str, Index]:
    return {index.name: index for index in indices}


@needs_corpus
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_indices_of_the_corpus(case: CorpusCase) -> None:
    for ref in case.refs:
        dataset = lancefs.open(case.table(), ref=ref.ref)
        indices = dataset.indices()
        counts = uncovered_rows(indices, dataset.manifest)
        for index in indices:
            assert index.files
            assert index.size is not None
            assert counts[index.name] is not None
            directory = Path(case.table()) / "_indices" / index.uuid
            sizes = {one.name: one.stat().st_size for one in directory.iterdir()}
            assert {one.path: one.size for one in index.files} == sizes
    table = index_table(indices, dataset.manifest)
    table.validate(full=True)
    assert table.schema.equals(INDEX_TABLE)
    assert table["uncovered_rows"].to_pylist() == [counts[index.name] for index in indices]
    assert table["size_bytes"].to_pylist() == [index.size for index in indices]
    found = {(i.name, i.type, i.columns, i.fragment_ids, counts[i.name]) for i in indices}
    expected = EXPECTED.get(case.name)
    assert expected is None or found == {
        (name, kind, columns, frozenset(ids), rows) for name, kind, columns, ids, rows in expected
    }


@pytest.mark.parametrize("name", [case.name for case in CASES if case.name.startswith("feat")])
def test_uncovered_rows_are_those_that_pylance_counts(name: str, tmp_path: Path) -> None:
    table = copy_table(corpus_case(name), tmp_path)  # pylance may migrate what it reads
    for version in lancefs.open(table).versions():
        dataset = lancefs.open(table, version=version)
        for index, rows in uncovered_rows(dataset.indices(), dataset.manifest).items():
            stats = lance.dataset(str(table), version=version).stats.index_stats(index)
            assert stats["num_unindexed_rows"] == rows


def write(path: Path, **kwargs: Any) -> Any:
    table = pa.table(
        {"id": pa.array(range(60), pa.int64()), "s": [{"k": n % 3} for n in range(60)]}
    )
    return lance.write_dataset(table, path, max_rows_per_file=20, **kwargs)


def test_an_index_has_the_facts_that_its_writer_recorded(tmp_path: Path) -> None:
    start = datetime.now(UTC).replace(microsecond=0)
    dataset = write(tmp_path / "t.lance")
    dataset.create_scalar_index("id", "BTREE", name="by id")
    dataset.create_scalar_index("s.k", "ZONEMAP")
    dataset.insert(dataset.to_table().slice(0, 7))
    ours = lancefs.open(tmp_path / "t.lance")
    indices = named(ours.indices())
    by_id = indices["by id"]
    assert (by_id.type, by_id.columns, by_id.field_ids) == ("BTree", ("id",), (0,))
    assert by_id.dataset_version == 1
    assert by_id.fragment_ids == {0, 1, 2}
    assert by_id.created_at is not None
    assert start <= by_id.created_at <= datetime.now(UTC)
    assert not by_id.is_system
    zones = next(index for index in indices.values() if index.type == "ZoneMap")
    assert zones.columns == ("s.k",)
    assert zones.details["rows_per_zone"] > 0
    assert uncovered_rows(ours.indices(), ours.manifest) == dict.fromkeys(indices, 7)


def test_a_vector_index_is_named_as_users_know_it(tmp_path: Path) -> None:
    vectors = np.random.default_rng(1).random((300, 8), np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 8)
    dataset = lance.write_dataset(pa.table({"v": column}), tmp_path / "t.lance")
    dataset.create_index("v", "IVF_PQ", num_partitions=1, num_sub_vectors=2)
    (index,) = lancefs.open(tmp_path / "t.lance").indices()
    assert index.type == "IVF_PQ"
    assert index.details["pq"]["num_sub_vectors"] == 2


def test_the_fragment_reuse_index_is_shown(tmp_path: Path) -> None:
    dataset = write(tmp_path / "t.lance")
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("id % 7 = 3")
    lance.dataset(tmp_path / "t.lance").optimize.compact_files(defer_index_remap=True)
    ours = lancefs.open(tmp_path / "t.lance")
    (reuse,) = [index for index in ours.indices() if index.is_system]
    assert reuse.type == FRAGMENT_REUSE
    (version,) = reuse.details["legacy_versions"]
    (group,) = version["groups"]
    assert [one["physical_rows"] for one in group["old_fragments"]] == [20, 20, 20]
    assert [one["physical_rows"] for one in group["new_fragments"]] == [51]
    assert uncovered_rows(ours.indices(), ours.manifest) == {"id_idx": 0}


def test_the_state_of_a_write_ahead_log_is_shown(tmp_path: Path) -> None:
    dataset = write(tmp_path / "t.lance")
    dataset.create_scalar_index("id", "BTREE")
    dataset.initialize_mem_wal(
        maintained_indexes=["id_idx"], bucket_column="id", num_buckets=4, max_memtable_rows=100
    )
    ours = lancefs.open(tmp_path / "t.lance")
    (log,) = [index for index in ours.indices() if index.is_system]
    assert log.type == MEM_WAL
    oracle = lance.dataset(tmp_path / "t.lance").mem_wal_index_details()
    assert log.details["maintained_indexes"] == oracle["maintained_indexes"] == ["id_idx"]
    assert log.details["writer_config_defaults"] == oracle["writer_config_defaults"]
    (spec,) = log.details["sharding_specs"]
    assert spec["fields"][0]["parameters"] == {"num_buckets": "4"}
    assert "id_idx" in uncovered_rows(ours.indices(), ours.manifest)


def indexed(path: Path) -> Path:
    write(path).create_scalar_index("id", "BTREE")
    return path


def test_an_index_that_does_not_say_what_it_covers_is_counted_as_unknown(tmp_path: Path) -> None:
    path = indexed(tmp_path / "t.lance")
    rewrite_index_section(path, lambda section: section.indices[0].ClearField("fragment_bitmap"))
    dataset = lancefs.open(path)
    (index,) = dataset.indices()
    assert index.fragment_ids is None
    assert uncovered_rows([index], dataset.manifest) == {"id_idx": None}


def test_a_kind_from_the_future_is_shown_by_its_name(tmp_path: Path) -> None:
    path = indexed(tmp_path / "t.lance")

    def change(section: table_pb2.IndexSection) -> None:
        section.indices[0].index_details.type_url = "/lance.index.pb.QuantumIndexDetails"
        section.indices[0].index_details.value = b"\xff"
        section.indices[0].fields[:] = [99]

    rewrite_index_section(path, change)
    (index,) = lancefs.open(path).indices()
    assert (index.type, index.details, index.columns) == ("Quantum", {}, ("99",))


def test_files_that_the_writer_did_not_record_are_listed(tmp_path: Path) -> None:
    path = indexed(tmp_path / "t.lance")
    (before,) = lancefs.open(path).indices()

    def change(section: table_pb2.IndexSection) -> None:
        section.indices[0].ClearField("files")
        section.indices[0].ClearField("index_details")

    rewrite_index_section(path, change)
    (index,) = lancefs.open(path).indices()
    assert set(index.files) == set(before.files)
    assert index.type == "BTree"
    shutil.rmtree(path / "_indices")
    (index,) = lancefs.open(path).indices()
    assert (index.files, index.type) == ((), None)


def test_damage_is_named(tmp_path: Path) -> None:
    path = indexed(tmp_path / "t.lance")

    def change(section: table_pb2.IndexSection) -> None:
        section.indices[0].fragment_bitmap = b"nothing"

    rewrite_index_section(path, change)
    with pytest.raises(CorruptFile, match=r"manifest: indices: not a Roaring bitmap"):
        lancefs.open(path).indices()


def test_a_bitmap_of_more_fragments_than_a_table_can_have_is_damage(tmp_path: Path) -> None:
    path = indexed(tmp_path / "t.lance")
    bitmap = pyroaring.BitMap()
    bitmap.add_range(0, 2**24 + 1)
    bitmap.run_optimize()

    def change(section: table_pb2.IndexSection) -> None:
        section.indices[0].fragment_bitmap = bitmap.serialize()

    rewrite_index_section(path, change)
    with pytest.raises(CorruptFile, match=r"holds 16777216, expected values below \d\b"):
        lancefs.open(path).indices()

    def allow(manifest: table_pb2.Manifest) -> None:
        manifest.max_fragment_id = 2**32 - 1

    rewrite_manifest(path, allow)
    with pytest.raises(CorruptFile, match="holds 16777217 values, expected at most 10485"):
        lancefs.open(path).indices()


def test_a_time_beyond_the_calendar_is_damage(tmp_path: Path) -> None:
    rewrite_time = lambda section: setattr(section.indices[0], "created_at", 2**63)  # noqa: E731
    path = indexed(tmp_path / "t.lance")
    rewrite_index_section(path, rewrite_time)
    with pytest.raises(CorruptFile, match="after 1970"):
        lancefs.open(path).indices()


def beyond_version(index: table_pb2.IndexMetadata) -> None:
    index.dataset_version = 2**63


def beyond_size(index: table_pb2.IndexMetadata) -> None:
    index.files[0].size_bytes = 2**64 - 1


@pytest.mark.parametrize("change", [beyond_version, beyond_size])
def test_numbers_that_no_column_holds_are_damage(
    tmp_path: Path, change: Callable[[table_pb2.IndexMetadata], None]
) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"id": [1, 2]}), path).create_scalar_index("id", "BTREE")
    rewrite_index_section(path, lambda section: change(section.indices[0]))
    dataset = lancefs.open(path)
    with pytest.raises(CorruptFile, match=r"index id_idx: its .* beyond 63 bits"):
        index_table(dataset.indices(), dataset.manifest)
    assert dataset.to_table(filter="id = 2")["id"].to_pylist() == [2]
