"""History: what each version did, also where something of it is gone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from support import (
    UNCOUNTED,
    CorpusCase,
    copy_table,
    corpus_case,
    of_each_case,
    rewrite_manifest,
)

import lancefs
from lancefs.cli.main import main
from lancefs.proto import table_pb2, transaction_pb2
from lancefs.storage import Store
from lancefs.table.history import HISTORY, read_history
from lancefs.table.refs import resolve


def commits(table: Any, **kwargs: Any) -> list[dict[str, Any]]:
    return lancefs.open(table).history(**kwargs).to_pylist()  # type: ignore[no-any-return]


@of_each_case
def test_every_version_of_the_corpus_has_a_commit(case: CorpusCase) -> None:
    table = lancefs.open(case.table()).history()
    table.validate(full=True)
    assert table.schema.equals(HISTORY)
    known = {
        str(one): info for one, info in case.info["versions"].items() if not info.get("branch")
    }
    for row in table.to_pylist():
        rows = None if case.name.endswith(UNCOUNTED) else known[str(row["version"])]["num_rows"]
        assert row["rows"] == rows
        assert row["timestamp"].tzinfo is not None
        assert row["fragments"] == known[str(row["version"])].get("fragments", row["fragments"])


def test_rows_that_come_and_go_are_counted(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    start = datetime.now(UTC)
    dataset = lance.write_dataset(pa.table({"a": range(10)}), path, max_rows_per_file=4)
    dataset.delete("a < 5")
    dataset.update({"a": "a * 2"}, where="a > 7")
    dataset.optimize.compact_files()
    dataset.tags.create("prod", 2)
    told = commits(path)
    assert [(one["rows"], one["rows_added"], one["rows_deleted"]) for one in told] == [
        (10, 10, 0),
        (5, 0, 5),
        (5, 2, 2),
        *[(5, 0, 0)] * (len(told) - 3),
    ]
    assert told[-1]["operation"] == "Rewrite"
    assert [one["tags"] for one in told[:3]] == [[], ["prod"], []]
    assert all(start <= one["timestamp"] <= datetime.now(UTC) for one in told)
    first = lance.dataset(path, version=1)
    sizes = [file.file_size_bytes for one in first.get_fragments() for file in one.data_files()]
    assert told[0]["data_files"] == len(sizes) == 3
    assert told[0]["bytes"] == sum(sizes)
    assert told[0]["writer"] == f"lance {lance.__version__}"


def test_schema_changes_are_described(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    table = pa.table({"a": [1], "b": ["x"], "s": [{"m": 1, "n": 2}]})
    dataset = lance.write_dataset(table, path)
    dataset.add_columns({"c": "a * 2"})
    dataset.alter_columns({"path": "b", "name": "bb"}, {"path": "s.m", "name": "mm"})
    dataset.alter_columns({"path": "a", "data_type": pa.int32()})
    dataset.drop_columns(["s"])
    lance.write_dataset(pa.table({"bb": ["y"], "z": [1.0]}), path, mode="overwrite")
    assert [one["schema_changes"] for one in commits(path)] == [
        [],
        ["add c: int64"],
        ["rename b to bb", "rename s.m to s.mm"],
        ["change a from int64 to int32"],
        ["drop s"],
        ["add z: double", "drop a", "drop c"],
    ]


def test_a_column_with_the_id_of_a_dropped_one_was_not_renamed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "t.lance")
    dataset = lance.write_dataset(pa.table({"a": [1, 2], "b": [5, 6]}), path, max_rows_per_file=1)
    dataset.drop_columns(["b"])
    dataset.optimize.compact_files()
    dataset.add_columns({"c": "a * 2"})
    fields = [lancefs.open(path, version=one).manifest.fields[1] for one in (1, dataset.version)]
    assert fields[0].id == fields[1].id
    assert main(["diff", path, "1"]) == 0
    shown = capsys.readouterr().out
    assert "schema: add c: int64" in shown
    assert "schema: drop b" in shown
    for manifest in sorted((tmp_path / "t.lance/_versions").glob("*.manifest"))[1:-1]:
        manifest.unlink()
    assert commits(path)[-1]["schema_changes"] == ["add c: int64", "drop b"]


def test_only_the_newest_versions_are_read_where_that_is_asked() -> None:
    case = corpus_case("feat_many_versions-f2.1-w14.0.2")
    whole = lancefs.open(case.table()).history()
    assert whole.num_rows == 60
    assert lancefs.open(case.table()).history(newest=3).equals(whole.slice(57))
    assert lancefs.open(case.table()).history(newest=99).equals(whole)
    assert lancefs.open(case.table()).history(newest=0).num_rows == 0


def test_the_history_of_a_branch_is_its_own() -> None:
    case = corpus_case("feat_branches-f2.1-w14.0.2")
    told = lancefs.open(case.table(), ref="dev:latest").history().to_pylist()
    assert {one["branch"] for one in told} == {"dev"}
    assert told[0]["operation"] == "Clone"
    assert [one["tags"] for one in told if one["tags"]] == [["on_branch"]]


def test_a_history_goes_on_past_a_transaction_that_is_gone(tmp_path: Path) -> None:
    table = copy_table(corpus_case("feat_compaction-f2.0-w0.16.1"), tmp_path)
    whole = commits(table)
    gone, damaged = sorted((table / "_transactions").iterdir())[2:4]
    gone.unlink()
    damaged.write_bytes(b"\xff")
    told = commits(table)
    assert len(told) == len(whole)
    noted = [one for one in told if one["note"]]
    assert len(noted) == 2
    assert any(f"{gone.name} is gone" in one["note"] for one in noted)
    assert any("does not decode" in one["note"] for one in noted)
    for one, before in zip(told, whole, strict=True):
        assert (one["rows"], one["timestamp"]) == (before["rows"], before["timestamp"])
        assert one["operation"] == (None if one["note"] else before["operation"])


def test_a_history_goes_on_past_a_version_that_this_release_cannot_read(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    dataset = lance.write_dataset(pa.table({"a": [1]}), path)
    dataset.insert(pa.table({"a": [2]}))
    dataset.insert(pa.table({"a": [3]}))
    second = sorted((path / "_versions").glob("*.manifest"))[1]
    data = second.read_bytes()
    start = int.from_bytes(data[-16:-8], "little")
    message = table_pb2.Manifest.FromString(data[start + 4 : -16])
    message.reader_feature_flags |= 1 << 40
    changed = message.SerializeToString()
    second.write_bytes(data[:start] + len(changed).to_bytes(4, "little") + changed + data[-16:])
    told = commits(path)
    assert [one["rows"] for one in told] == [1, None, 3]
    assert told[1]["timestamp"] is not None
    assert "reader feature flag" in told[1]["note"]
    assert told[2]["rows_added"] is None


class Counting(MemoryFileSystem):  # type: ignore[misc]
    """Counts the requests to a store of its own."""

    protocol = "counting"
    store: dict[str, Any] = {}  # noqa: RUF012  # as in the class that it is of
    pseudo_dirs = [""]  # noqa: RUF012
    asked: list[str] = []  # noqa: RUF012

    def cat_ranges(self, paths: list[str], *args: Any, **kwargs: Any) -> Any:
        self.asked.append(f"{len(paths)} ranges")
        return super().cat_ranges(paths, *args, **kwargs)

    def cat_file(self, path: str, *args: Any, **kwargs: Any) -> Any:
        if "transactions" in path:
            self.asked.append("file")
        return super().cat_file(path, *args, **kwargs)


@pytest.mark.parametrize("size", [2**63, 2**64 - 1])
def test_a_size_that_no_file_has_is_told_in_the_note(tmp_path: Path, size: int) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(10)}), path)

    def forge(manifest: table_pb2.Manifest) -> None:
        manifest.fragments[0].files[0].file_size_bytes = size

    rewrite_manifest(path, forge)
    (commit,) = commits(path)
    assert commit["bytes"] is None
    assert commit["rows"] == 10
    assert commit["note"] == f"bytes is {size}, beyond 63 bits: not sound"
    with lancefs.LanceFileSystem().open(f"{path}/history.arrow") as file:
        assert pa.ipc.open_file(file).read_all().to_pylist() == [commit]
    assert main(["log", str(path)]) == 0


def test_a_version_to_start_from_that_cannot_be_is_told_in_the_note(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(10)}), path)
    (file,) = (path / "_transactions").iterdir()
    message = transaction_pb2.Transaction.FromString(file.read_bytes())
    message.read_version = 2**64 - 1
    file.write_bytes(message.SerializeToString())
    rewrite_manifest(path, lambda manifest: manifest.ClearField("transaction_section"))
    (commit,) = commits(path)
    assert commit["read_version"] is None
    assert commit["operation"] == "Overwrite"
    assert commit["note"] == f"read_version is {2**64 - 1}, beyond 63 bits: not sound"


def test_manifests_of_a_remote_table_are_read_together() -> None:
    case = corpus_case("feat_many_versions-f2.1-w14.0.2")
    fs = Counting(skip_instance_cache=True)
    fs.put(case.table(), "/t.lance", recursive=True)
    where = resolve(Store(fs, "/t.lance"))
    fs.asked.clear()
    history = read_history(where, None)
    first = next(history)
    assert first.version == 1
    assert first.summary is not None
    # One round for all manifests; their transactions stand in them.
    assert fs.asked == ["60 ranges"]
    assert len(list(history)) == 59
    assert fs.asked == ["60 ranges"]
