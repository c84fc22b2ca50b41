"""The tree that shows a table, and the content of its files."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import lance
import pyarrow as pa
from comparison import assert_same_table
from fs_tables import ids, read, rows
from support import CorpusRef, corpus_case, corpus_refs, of_each

import lancefs
from lancefs.filesystem import LanceFileSystem

OF_BRANCH = ["latest.arrow", "latest.arrows", "latest", "versions", "history.arrow", "changes"]
DOCUMENTS = ["schema.json", "manifest.json", "transaction.json", "indices.json"]


def names(fs: LanceFileSystem, path: str) -> list[str]:
    return [name.removeprefix(path).lstrip("/") for name in fs.ls(path, detail=False)]


def test_the_tree_lists_versions_tags_and_branches(fs: LanceFileSystem) -> None:
    assert names(fs, "") == [*OF_BRANCH, "tags", "branches"]
    ends = (".arrow", ".arrows", "")
    assert names(fs, "versions") == [version + end for version in "123" for end in ends]
    assert names(fs, "versions/3") == ["columns", "fragments", *DOCUMENTS]
    assert names(fs, "latest") == names(fs, "versions/3")
    assert names(fs, "versions/3/fragments") == ["0.arrow", "1.arrow", "2.arrow", "3.arrow"]
    columns = ["id.arrow", "name.arrow", "price.arrow", "a%2Cb%2Fc%25.arrow"]
    assert names(fs, "versions/3/columns") == columns
    assert names(fs, "tags") == ["prod.arrow", "prod.arrows", "prod"]
    assert names(fs, "tags/prod") == names(fs, "versions/2")


def test_each_version_is_a_file(fs: LanceFileSystem) -> None:
    first, second, third = (ids(fs.cat(f"versions/{version}.arrow")) for version in (1, 2, 3))
    assert first == list(range(1000))
    assert second == [i for i in first if i % 10 != 3]
    assert third == second + list(range(1000, 1100))
    assert fs.cat("latest.arrow") == fs.cat("versions/3.arrow")
    assert fs.cat("tags/prod.arrow") == fs.cat("versions/2.arrow")


def test_a_fragment_is_a_file(fs: LanceFileSystem) -> None:
    parts = [ids(fs.cat(f"versions/2/fragments/{number}.arrow")) for number in range(3)]
    assert [len(part) for part in parts] == [360, 360, 180]
    assert [one for part in parts for one in part] == ids(fs.cat("versions/2.arrow"))


def test_columns_are_files_in_the_order_asked_for(fs: LanceFileSystem) -> None:
    assert read(fs.cat("latest/columns/price,id.arrow")).column_names == ["price", "id"]
    odd = read(fs.cat("tags/prod/columns/a%2Cb%2Fc%25,id.arrow"))
    assert odd.column_names == ["a,b/c%", "id"]
    assert odd["a,b/c%"].to_pylist() == [i % 3 for i in odd["id"].to_pylist()]


def test_every_file_has_a_stream(fs: LanceFileSystem) -> None:
    for path in ("latest", "tags/prod", "versions/3/fragments/2", "versions/1/columns/id,price"):
        stream = pa.ipc.open_stream(fs.cat(f"{path}.arrows")).read_all()
        assert_same_table(stream, read(fs.cat(f"{path}.arrow")))


def test_streams_may_be_left_out_of_listings(fs: LanceFileSystem, table: str) -> None:
    files = LanceFileSystem(fo=table, list_streams=False, listings_expiry_time=60)
    streams = [path for path in fs.find("") if path.endswith(".arrows")]
    assert streams
    for _ in range(2):  # the second listing is a cached one
        assert files.find("") == [path for path in fs.find("") if path not in streams]
    assert names(files, "tags") == ["prod.arrow", "prod"]
    assert files.ls("latest.arrows", detail=False) == ["latest.arrows"]
    assert pa.ipc.open_stream(files.cat("latest.arrows")).read_all().num_rows == 1000
    assert pickle.loads(pickle.dumps(files)).find("tags") == files.find("tags")
    direct = LanceFileSystem(list_streams=False)
    assert names(direct, f"{table}/tags") == ["prod.arrow", "prod"]


def test_branches_with_slashes_are_directories(fs: LanceFileSystem) -> None:
    assert names(fs, "branches") == ["exp", "team"]
    assert names(fs, "branches/exp") == sorted(OF_BRANCH)
    assert names(fs, "branches/team") == ["exp"]
    assert names(fs, "branches/team/exp/versions")[::3] == ["3.arrow", "4.arrow"]
    for branch in ("exp", "team/exp"):
        assert max(ids(fs.cat(f"branches/{branch}/latest.arrow"))) == 99
        assert fs.cat(f"branches/{branch}/versions/3.arrow") == fs.cat("versions/3.arrow")


def test_a_branch_that_is_named_like_a_part_of_the_tree(table: str) -> None:
    dataset = lance.dataset(table)
    dataset.create_branch("exp/versions", 1)
    dataset.create_branch("exp/latest", 2)
    fs = LanceFileSystem(fo=table)
    assert len(ids(fs.cat("branches/exp/versions/latest.arrow"))) == 1000
    assert len(ids(fs.cat("branches/exp/versions/3.arrow"))) == 1000
    assert len(ids(fs.cat("branches/exp/latest/latest.arrow"))) == 900
    assert fs.isfile("branches/exp/latest/schema.json")
    assert {"3.arrow", "latest.arrow", "versions"} <= set(names(fs, "branches/exp/versions"))


def test_documents_contain_the_manifest(fs: LanceFileSystem) -> None:
    schema = json.loads(fs.cat("latest/schema.json"))
    assert [field["name"] for field in schema["fields"]] == ["id", "name", "price", "a,b/c%"]
    assert schema["fields"][0] | {"type": "int64", "nullable": True} == schema["fields"][0]
    manifest = json.loads(fs.cat("versions/2/manifest.json"))
    assert manifest["version"] == 2
    assert manifest["num_rows"] == 900
    assert manifest["physical_rows"] == 1000
    assert manifest["reader_flags"] == ["DELETION_FILES"]
    assert [one["deletion_file"]["num_deleted"] for one in manifest["fragments"]] == [40, 40, 20]


def test_walking_finds_files_that_can_all_be_read(fs: LanceFileSystem) -> None:
    found = fs.find("")
    assert len(found) == len(set(found)) > 50
    assert {"latest.arrow", "branches/team/exp/versions/4/columns/id.arrow"} <= set(found)
    for path in found:
        info = fs.info(path)
        data = fs.cat_file(path)
        assert info["name"] == path
        assert info["size"] == (None if path.endswith(".arrows") else len(data))
        opened = {"arrow": pa.ipc.open_file, "arrows": pa.ipc.open_stream, "json": json.loads}
        opened[path.rpartition(".")[2]](data)
    assert [path for path, _, _ in fs.walk("tags")] == [
        "tags",
        "tags/prod",
        "tags/prod/columns",
        "tags/prod/fragments",
    ]


def test_patterns_find_files_of_the_tree(fs: LanceFileSystem) -> None:
    assert fs.glob("versions/*.arrow") == [f"versions/{n}.arrow" for n in (1, 2, 3)]
    assert fs.glob("branches/**/latest.arrow") == [
        "branches/exp/latest.arrow",
        "branches/team/exp/latest.arrow",
    ]
    assert fs.glob("versions/*/fragments/3.arrow") == ["versions/3/fragments/3.arrow"]
    assert fs.glob("/tags/*.arrow") == ["/tags/prod.arrow"]


def test_an_empty_table_has_files_without_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "empty.lance")
    lance.write_dataset(rows(0, 0), path)
    fs = LanceFileSystem(fo=path)
    assert read(fs.cat("latest.arrow")).num_rows == 0
    assert read(fs.cat("latest.arrow")).schema == rows(0, 0).schema
    assert pa.ipc.open_stream(fs.cat("latest.arrows")).read_all().num_rows == 0
    assert fs.ls("latest/fragments") == []


def test_batches_are_cut_within_fragments_at_fixed_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "batches.lance")
    table = pa.table({"id": pa.array(range(200_000), pa.int64())})
    lance.write_dataset(table, path, max_rows_per_file=150_000).delete("id < 10")
    file = pa.ipc.open_file(LanceFileSystem(fo=path).cat("latest.arrow"))
    sizes = [file.get_batch(i).num_rows for i in range(file.num_record_batches)]
    assert sizes == [65_526, 65_536, 18_928, 50_000]


def test_different_dictionaries_of_fragments_are_unified(tmp_path: Path) -> None:
    path = str(tmp_path / "d.lance")
    for values in (["a", "b", "a"], ["c", None, "a"]):
        table = pa.table({"d": pa.array(values).dictionary_encode()})
        lance.write_dataset(table, path, mode="append" if values[0] == "c" else "create")
    fs = LanceFileSystem(fo=path)
    for rows_read in (
        read(fs.cat("latest.arrow")),
        pa.ipc.open_stream(fs.cat("latest.arrows")).read_all(),
    ):
        assert rows_read["d"].type == pa.dictionary(pa.int32(), pa.string())
        assert rows_read["d"].to_pylist() == ["a", "b", "a", "c", None, "a"]


def test_columns_of_any_name_are_files() -> None:
    case = corpus_case("feat_odd_names-f2.1-w14.0.2")
    fs = LanceFileSystem(fo=case.table())
    listed = fs.ls("latest/columns", detail=False)
    found = [read(fs.cat_file(path)).column_names for path in listed]
    assert found == [[name] for name in lancefs.open(case.table()).schema.names]
    assert "latest/columns/emoji 🚀.arrow" in listed


SHOWN = [ref for ref in corpus_refs("feat_") if "-f2.1-w14" in str(ref) and ref.expected()]


@of_each(SHOWN)
def test_files_hold_the_expected_rows(ref: CorpusRef) -> None:
    fs = LanceFileSystem(fo=ref.case.table())
    branch, version = ref.ref.branch, ref.ref.version
    path = f"tags/{ref.ref.tag}" if ref.ref.tag else f"versions/{version}"
    path = f"branches/{branch}/{path}" if branch else path
    shown = read(fs.cat_file(f"{path}.arrow"))
    expected = ref.expected()
    assert expected is not None
    assert_same_table(shown, pa.ipc.open_file(expected).read_all())
    fragments = [read(fs.cat_file(name)) for name in fs.ls(f"{path}/fragments", detail=False)]
    if fragments:
        together = pa.concat_tables(fragments)
        assert_same_table(together, shown)


def test_a_table_that_was_copied_has_the_same_files(table: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy.lance")
    shutil.copytree(table, copy)
    one, two = LanceFileSystem(fo=table), LanceFileSystem(fo=copy)
    assert one.cat("versions/2.arrow") == two.cat("versions/2.arrow")
    assert one.ukey("versions/2.arrow") == two.ukey("versions/2.arrow")
