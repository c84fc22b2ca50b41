"""Fresh tables: a version with the generations of its write-ahead log that it does not hold yet.

pylance writes the log, and its own fresh read says what must come out.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.mem_wal import CompactedSsTable, LsmScanner, ShardSnapshot
from support import examples, frame, rewrite_manifest

import lancefs
from lancefs.errors import ColumnNotFound, CorruptFile, MissingFile, UnsupportedFeature
from lancefs.proto import table_pb2
from lancefs.storage import Store
from lancefs.table.mem_wal import Generation, read_generations

KEY = {"lance-schema:unenforced-primary-key": "true"}
ONE_KEY = pa.schema(
    [pa.field("id", pa.int64(), nullable=False, metadata=KEY), pa.field("x", pa.string())]
)
TWO_KEYS = pa.schema(
    [
        pa.field("x", pa.string()),
        pa.field("a", pa.string(), nullable=False, metadata=KEY),
        pa.field("b", pa.int16(), nullable=False, metadata=KEY),
    ]
)
SHARDS = (str(uuid4()), str(uuid4()))
Row = dict[str, Any]


def rows_of(schema: pa.Schema, ids: list[int], x: str | None) -> pa.Table:
    """Rows with the keys that numbers stand for."""
    made: dict[str, Callable[[int], Any]] = {
        "id": lambda one: one,
        "a": lambda one: f"key {one // 3}",
        "b": lambda one: one % 3,
        "x": lambda one: x and f"{x} of {one}",
    }
    return pa.table({n: [made[n](one) for one in ids] for n in schema.names}, schema=schema)


class Log:
    """A table with a write-ahead log."""

    def __init__(self, path: Path, schema: pa.Schema = ONE_KEY, rows: int = 8, **options: Any):
        self.path, self.schema = str(path), schema
        base = rows_of(schema, list(range(rows)), "base")
        lance.write_dataset(base, self.path, max_rows_per_file=3, **options).initialize_mem_wal()

    @property
    def now(self) -> Any:
        return lance.dataset(self.path)

    def flush(self, *writes: tuple[str, list[int]], shard: str = SHARDS[0]) -> None:
        """Flush a generation of rows (`put`, or `delete`) with the keys of numbers."""
        key = pa.schema([field for field in self.schema if field.metadata])
        with self.now.mem_wal_writer(shard) as writer:
            for number, (what, ids) in enumerate(writes):
                if what == "put":
                    writer.put(rows_of(self.schema, ids, f"{shard[:4]}, write {number}"))
                else:
                    writer.delete(rows_of(key, ids, None))

    @property
    def generations(self) -> list[Generation]:
        return lancefs.open(self.path).unmerged_generations()

    def merge(self) -> None:
        """Merge the oldest generation of the first shard into the table."""
        one = next(one for one in self.generations if one.shard == SHARDS[0])
        table = lance.dataset(f"{self.path}/{one.path}").to_table(filter="NOT _tombstone")
        merge = self.now.merge_insert(pc_names(self.schema)).when_matched_update_all()
        merge.when_not_matched_insert_all()
        merge.mark_sstables_as_compacted([CompactedSsTable(one.shard, one.number)])
        merge.execute(table.drop(["_tombstone"]))

    def expected(self) -> list[Row]:
        """What pylance reads of the table and all generations that are not merged."""
        snapshots = []
        for shard in SHARDS:
            found = [one for one in self.generations if one.shard == shard]
            snapshot = ShardSnapshot(shard).with_current_generation(
                max([one.number for one in found], default=0) + 1
            )
            for one in found:
                snapshot = snapshot.with_sstable(one.number, one.path.rpartition("/")[2])
            snapshots.append(snapshot)
        table = LsmScanner.from_snapshots(self.now, snapshots).to_table()
        return ordered(table.select(self.schema.names))

    def fresh(self, **kwargs: Any) -> lancefs.LanceDataset:
        return lancefs.open(self.path, fresh=True, **kwargs)


def pc_names(schema: pa.Schema) -> list[str]:
    """The names of the key's columns."""
    return [field.name for field in schema if field.metadata]


def ordered(table: pa.Table) -> list[Row]:
    return sorted(table.to_pylist(), key=repr)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A table of the keys 0–7, and two generations: of 6 and 8, and one that deletes 7 and 8."""
    log = Log(tmp_path / "t.lance")
    log.flush(("put", [6, 8]), ("put", [6]))
    log.flush(("delete", [7, 8]), ("put", [1]))
    return log


def test_the_newest_row_of_each_key_is_read(log: Log) -> None:
    fresh = log.fresh()
    first = SHARDS[0][:4]
    assert fresh.to_table().to_pylist() == [
        *({"id": one, "x": f"base of {one}"} for one in (0, 2, 3, 4, 5)),
        {"id": 6, "x": f"{first}, write 1 of 6"},
        {"id": 1, "x": f"{first}, write 1 of 1"},
    ]
    assert ordered(fresh.to_table()) == log.expected()
    assert lancefs.open(log.path).to_table()["id"].to_pylist() == list(range(8))


def test_a_fresh_table_is_read_like_any_other(log: Log) -> None:
    fresh = log.fresh()
    assert fresh.is_fresh
    assert "8 rows, 2 columns, 3 fragments, with 2 unmerged generations" in repr(fresh)
    assert fresh.schema == lancefs.open(log.path).schema
    assert fresh.count_rows() == 7
    assert fresh.count_rows(pc.field("id") < 4) == 4
    assert fresh.head(6, columns=["id"])["id"].to_pylist() == [0, 2, 3, 4, 5, 6]
    assert fresh.take([6, 0, 5])["id"].to_pylist() == [1, 0, 6]
    assert fresh.to_table(filter=pc.field("x").isin(["base of 1", "base of 2"])).num_rows == 1
    assert fresh.scanner(columns=["id"], offset=5, limit=1).to_table()["id"].to_pylist() == [6]
    page = fresh.to_table(columns=["x"], filter="id != 2", offset=4, limit=2)
    assert page.equals(fresh.take([5, 6], columns=["x"]))
    assert {len(batch) for batch in fresh.to_batches(batch_size=2)} == {1, 2}
    assert fresh.changes(1).num_rows == 0  # of versions, which generations are not yet in


def test_rows_that_are_not_in_the_table_yet_have_no_ids(log: Log) -> None:
    fresh = log.fresh()
    for read in (
        lambda: fresh.to_table(with_row_id=True),
        lambda: fresh.to_table(columns=["_rowaddr"]),
        lambda: fresh.take(row_ids=[0]),
        lambda: fresh.with_row_metadata(),
    ):
        with pytest.raises(ColumnNotFound, match="before they are merged into the table"):
            read()


def test_a_generation_that_was_merged_is_not_read_again(log: Log) -> None:
    assert [one.number for one in log.generations] == [1, 2]
    assert [one.rows for one in log.generations] == [3, 3]
    log.merge()
    assert [one.number for one in log.generations] == [2]
    shutil.rmtree(next(Path(log.path).glob("_mem_wal/*/*_gen_1")))
    assert ordered(log.fresh().to_table()) == log.expected()
    assert [one.number for one in lancefs.open(log.path, version=2).unmerged_generations()] == [
        1,
        2,
    ]


def test_a_generation_that_is_merged_while_the_table_is_opened_is_not_lost(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = log.expected()

    def then_merge(store: Store) -> list[Generation]:
        found = read_generations(store)
        monkeypatch.undo()
        log.merge()
        shutil.rmtree(next(Path(log.path).glob("_mem_wal/*/*_gen_1")))
        return found

    monkeypatch.setattr("lancefs.table.mem_wal.read_generations", then_merge)
    assert ordered(log.fresh().to_table()) == before


def test_a_generation_that_is_gone_is_named(log: Log) -> None:
    fresh = log.fresh()
    shutil.rmtree(next(Path(log.path).glob("_mem_wal/*/*_gen_1")))
    with pytest.raises(MissingFile, match=r"_gen_1: the generation is gone"):
        fresh.to_table()


def test_a_pickle_is_of_the_same_generations(log: Log) -> None:
    fresh = log.fresh()
    whole = fresh.to_table()
    pickled = pickle.dumps(fresh)
    log.flush(("put", [99]))
    assert pickle.loads(pickled).to_table() == whole
    assert log.fresh().count_rows() == 8


def test_a_table_without_a_log_has_nothing_fresher(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": [1]}), tmp_path / "t.lance")
    assert lancefs.open(tmp_path / "t.lance").unmerged_generations() == []
    assert lancefs.open(tmp_path / "t.lance", fresh=True).to_table()["a"].to_pylist() == [1]
    log = Log(tmp_path / "u.lance")
    assert log.generations == []
    assert log.fresh().count_rows() == 8


def test_a_branch_has_a_log_of_its_own(log: Log) -> None:
    log.now.create_branch("exp")
    assert log.fresh(branch="exp").count_rows() == 8
    branch = log.now.checkout_version(("exp", None))
    with branch.mem_wal_writer(SHARDS[1]) as writer:
        writer.put(rows_of(log.schema, [99], "branch"))
    assert log.fresh(branch="exp").to_table()["id"].to_pylist() == [*range(8), 99]
    assert log.fresh().count_rows() == 7


def test_rows_without_a_key_are_added(tmp_path: Path) -> None:
    log = Log(tmp_path / "t.lance", pa.schema([("id", pa.int64())]), rows=2)
    log.flush(("put", [1, 2]))
    log.flush(("put", [2]))
    assert log.fresh().to_table()["id"].to_pylist() == [0, 1, 1, 2, 2]


def test_deleted_rows_of_the_table_stay_deleted(log: Log) -> None:
    log.now.delete("id = 0 or id = 6")
    assert ordered(log.fresh().to_table()) == log.expected()
    assert log.fresh().count_rows() == 6


def test_only_the_newest_version_can_be_fresh(log: Log) -> None:
    log.now.tags.create("prod", 2)
    for ref in ({"version": 1}, {"ref": "v1"}, {"tag": "prod"}, {"as_of": "2030-01-01"}):
        with pytest.raises(ValueError, match="on top of the newest version"):
            log.fresh(**ref)
    assert log.fresh(ref="latest").count_rows() == 7


@pytest.mark.parametrize("kind", [pa.int64(), pa.bool_()])
def test_a_column_that_was_added_since_is_null_in_generations(log: Log, kind: pa.DataType) -> None:
    """It gets the id that the mark of deleted keys has in a generation."""
    log.now.drop_columns(["x"])
    log.now.add_columns(pa.field("y", kind))
    assert log.fresh().to_table().to_pylist() == [
        {"id": one, "y": None} for one in (0, 2, 3, 4, 5, 6, 1)
    ]


def test_a_column_that_was_renamed_since_keeps_its_values(log: Log) -> None:
    before = log.expected()
    log.now.alter_columns({"path": "x", "name": "y"})
    renamed = log.fresh().to_table()
    assert renamed.column_names == ["id", "y"]
    assert ordered(renamed.rename_columns(["id", "x"])) == before


def change_type(message: table_pb2.Manifest) -> None:
    message.fields[1].logical_type = "large_string"


def change_id(message: table_pb2.Manifest) -> None:
    message.fields[1].id = 9


@pytest.mark.parametrize("change", [change_type, change_id])
def test_a_column_that_was_made_anew_since_is_refused(
    log: Log, change: Callable[[table_pb2.Manifest], None]
) -> None:
    """Lance 14 does not do it while a table has a log."""
    path = next(Path(log.path).glob("_mem_wal/*/*_gen_1/_versions/*.manifest"))
    data = path.read_bytes()
    start = int.from_bytes(data[-16:-8], "little")
    message = table_pb2.Manifest.FromString(data[start + 4 : -16])
    change(message)
    path.write_bytes(frame(message, data[:start]))
    with pytest.raises(UnsupportedFeature, match=r"_gen_1: .* 'x' is string .field 1. and was"):
        log.fresh().to_table()


def test_a_log_that_the_table_had_before_it_was_overwritten_is_passed_over(log: Log) -> None:
    lance.write_dataset(pa.table({"q": ["new"]}), log.path, mode="overwrite")
    assert log.fresh().to_table()["q"].to_pylist() == ["new"]
    assert log.generations == []


WRITES = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "delete"]),
        st.lists(st.integers(0, 11), min_size=1, max_size=5, unique=True),
    ),
    min_size=1,
    max_size=3,
)
# A generation of each of the shards, which get even and odd keys, or a merge.
STEPS = st.lists(st.one_of(st.just("merge"), WRITES), min_size=1, max_size=5)


@settings(max_examples=examples(20))
@given(steps=STEPS)
@pytest.mark.parametrize("schema", [ONE_KEY, TWO_KEYS], ids=["one key", "two keys"])
def test_it_is_what_pylance_reads(
    tmp_path_factory: pytest.TempPathFactory, schema: pa.Schema, steps: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("mem_wal") / "t.lance"
    try:
        log = Log(path, schema)
        for number, step in enumerate(steps):
            shard = number % 2
            mine = [one for one in log.generations if one.shard == SHARDS[0]]
            if step == "merge" and mine:
                log.merge()
            elif step != "merge":
                writes = [(what, [one - one % 2 + shard for one in ids]) for what, ids in step]
                unique = [(what, list(dict.fromkeys(ids))) for what, ids in writes]
                log.flush(*unique, shard=SHARDS[shard])
        fresh, expected = log.fresh(), log.expected()
        assert ordered(fresh.to_table()) == expected
        assert fresh.count_rows() == len(expected)
    finally:
        shutil.rmtree(path.parent)


def newest_manifest(log: Log) -> Path:
    names = Path(log.path).glob("_mem_wal/*/manifest/*.binpb")
    return max(names, key=lambda path: int(path.stem[::-1], 2))


def changed(log: Log, change: Callable[[table_pb2.ShardManifest], Any]) -> None:
    """Write the newest manifest of the shard anew."""
    path = newest_manifest(log)
    message = table_pb2.ShardManifest.FromString(path.read_bytes())
    change(message)
    path.write_bytes(message.SerializeToString())


def climb(message: table_pb2.ShardManifest) -> None:
    message.sstables[0].path = "../../../other"


def stray(message: table_pb2.ShardManifest) -> None:
    message.shard_id.uuid = b"x" * 16


def twice(message: table_pb2.ShardManifest) -> None:
    message.sstables[1].generation = 1


def zero(message: table_pb2.ShardManifest) -> None:
    message.sstables[0].generation = 0


def older(message: table_pb2.ShardManifest) -> None:
    message.version -= 1


@pytest.mark.parametrize("change", [climb, stray, twice, zero, older])
def test_a_damaged_manifest_of_a_shard_is_named(
    log: Log, change: Callable[[table_pb2.ShardManifest], Any]
) -> None:
    changed(log, change)
    with pytest.raises(CorruptFile, match=r"_mem_wal/.*\.binpb: "):
        log.fresh()
    with pytest.raises(CorruptFile):
        lancefs.open(log.path).unmerged_generations()
    assert lancefs.open(log.path).count_rows() == 8


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.int64(), pa.list_(pa.bool_()), pa.null()], ids=str
)
def test_tombstones_that_are_no_booleans_are_damage(log: Log, kind: pa.DataType) -> None:
    generation = f"{log.path}/{log.generations[1].path}"
    rows = lance.dataset(generation).to_table()
    place = rows.schema.get_field_index("_tombstone")
    rows = rows.set_column(place, "_tombstone", pa.nulls(rows.num_rows, kind))
    shutil.rmtree(generation)
    lance.write_dataset(rows, generation)
    with pytest.raises(CorruptFile, match=r"_tombstone is .*; bool was expected"):
        log.fresh().to_table()
    assert lancefs.open(log.path).count_rows() == 8


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int8()), pa.float16(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_a_key_that_cannot_be_compared_is_named(tmp_path: Path, kind: pa.DataType) -> None:
    """Lance makes no such key, but a manifest may tell of it."""
    schema = pa.schema([*ONE_KEY, pa.field("k", kind)])
    path = tmp_path / "t.lance"
    empty = schema.empty_table()
    lance.write_dataset(empty, path).initialize_mem_wal()
    with lance.dataset(path).mem_wal_writer(SHARDS[0]) as writer:
        rows = {"id": [1], "x": ["a"]}
        writer.put(pa.table({**rows, "k": pa.nulls(1, kind)}, schema=schema))

    def make_key(message: table_pb2.Manifest) -> None:
        (field,) = (one for one in message.fields if one.name == "k")
        for name, value in KEY.items():
            field.metadata[name] = value.encode()

    rewrite_manifest(path, make_key)
    with pytest.raises(UnsupportedFeature, match=r"whose key is of .*: k$"):
        lancefs.open(path, fresh=True).to_table()


def test_every_cut_of_a_shards_manifest_is_damage_or_says_less(log: Log) -> None:
    path = newest_manifest(log)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(CorruptFile):
            log.fresh()
    path.write_bytes(data)
    assert log.fresh().count_rows() == 7


def test_what_is_no_shard_is_passed_over(log: Log) -> None:
    directory = Path(log.path) / "_mem_wal"
    (directory / "notes").mkdir()
    (directory / str(uuid4()) / "wal").mkdir(parents=True)
    (newest_manifest(log).parent / "tmp.binpb").write_bytes(b"x")
    assert log.fresh().count_rows() == 7


class Counting(MemoryFileSystem):  # type: ignore[misc]
    """Counts what is asked of the store; a store of its own."""

    protocol = "countingwal"
    store: dict[str, Any] = {}  # noqa: RUF012  # as in the class that it is of
    pseudo_dirs = [""]  # noqa: RUF012
    asked: list[str] = []  # noqa: RUF012

    def ls(self, path: str, *args: Any, **kwargs: Any) -> Any:
        self.asked.append(f"ls {path}")
        return super().ls(path, *args, **kwargs)


@pytest.fixture
def counting() -> Iterator[Counting]:
    yield Counting(skip_instance_cache=True)
    Counting.store.clear()


def test_a_remote_log_costs_a_listing_a_shard(log: Log, counting: Counting) -> None:
    counting.put(log.path, "/t.lance", recursive=True)
    counting.asked.clear()
    assert len(read_generations(Store(counting, "/t.lance"))) == 2
    assert len(counting.asked) == 2
