"""Changes between two versions equal a comparison of all rows of both, whatever was done between.

pylance writes tables by random sequences of operations, and reads both versions. The test keeps its
own account of the columns: a number for each, from where it was added to where it is gone.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.file import LanceFileWriter
from lance.fragment import DataFile
from support import examples

import lancefs
from lancefs.datafile.container import Container
from lancefs.errors import ColumnNotFound, MissingFile, RefNotFound, UnsupportedFeature
from lancefs.storage import Store
from lancefs.table.changes import AFTER, BEFORE, DELETE, INSERT, IdShare, read_changes
from lancefs.table.open_version import open_version
from lancefs.table.refs import Ref
from lancefs.table.version_rows import paired

EXTRA = ("p", "q", "r")
Row = tuple[Any, ...]


@dataclass
class State:
    """The columns of a version: a number for each name, and one that overwriting changes."""

    columns: dict[str, int]
    era: int


@dataclass
class Writer:
    """Writes a table, version by version."""

    path: str
    stable: bool
    numbers: Iterator[int] = field(default_factory=count)
    states: dict[int, State] = field(default_factory=dict)
    next_id: int = 0

    def rows(self, rows: int, names: list[str]) -> pa.Table:
        ids = list(range(self.next_id, self.next_id + rows))
        self.next_id += rows
        return self.table(ids, names)

    def table(self, ids: list[int], names: list[str], add: int = 0) -> pa.Table:
        made: dict[str, Callable[[int], Any]] = {
            "id": lambda one: one,
            "l": lambda one: None if one % 7 == 0 else [{"a": f"{one}"}] * (one % 3),
        }
        columns = {
            n: [made.get(n, lambda one: float(one % 4 + add))(one) for one in ids] for n in names
        }
        types = {"id": pa.int64(), "l": pa.list_(pa.struct([("a", pa.string())]))}
        return pa.table({n: pa.array(v, types.get(n, pa.float64())) for n, v in columns.items()})

    def create(self) -> None:
        table = self.rows(12, ["id", "x", "l"])
        lance.write_dataset(
            table, self.path, max_rows_per_file=5, enable_stable_row_ids=self.stable
        )
        self.states[1] = State({n: next(self.numbers) for n in table.schema.names}, 0)

    @property
    def now(self) -> Any:
        return lance.dataset(self.path)

    def step(self, name: str, number: int) -> None:
        """Do one thing, and account for the columns after it."""
        before = self.states[max(self.states)]
        state = State(dict(before.columns), before.era)
        state = getattr(self, name)(state, number) or state
        for version in range(max(self.states) + 1, self.now.version + 1):
            self.states[version] = state

    def append(self, state: State, number: int) -> None:
        table = self.rows(number % 6 + 1, list(state.columns))
        lance.write_dataset(table, self.path, mode="append", max_rows_per_file=4)

    def append_equal(self, state: State, number: int) -> None:
        """Append rows that are there already."""
        dataset = self.now
        if dataset.count_rows():
            lance.write_dataset(dataset.head(number % 3 + 1), self.path, mode="append")

    def delete(self, state: State, number: int) -> None:
        self.now.delete(f"id % 5 = {number % 5}")

    def update(self, state: State, number: int) -> None:
        if "x" in state.columns:
            self.now.update({"x": f"x + {number % 2}"}, where=f"id % 4 = {number % 4}")

    def merge_insert(self, state: State, number: int) -> None:
        dataset = self.now
        ids = sorted(set(dataset.to_table(columns=["id"])["id"].to_pylist()))
        if len(ids) == dataset.count_rows():  # else a row of the source would match two
            source = [*ids[number % 4 :: 4], self.next_id]
            self.next_id += 1
            table = self.table(source, list(state.columns), add=number % 2)
            merge = dataset.merge_insert("id").when_matched_update_all()
            merge.when_not_matched_insert_all().execute(table)

    def merge_columns(self, state: State, number: int) -> None:
        """Merge in some columns only, which may rewrite those in place."""
        dataset = self.now
        ids = sorted(set(dataset.to_table(columns=["id"])["id"].to_pylist()))
        if ids and len(ids) == dataset.count_rows() and "x" in state.columns:
            table = self.table(ids[number % 3 :: 3], ["id", "x"], add=3)
            dataset.merge_insert("id").when_matched_update_all().execute(table)

    def add_column(self, state: State, number: int) -> None:
        name = EXTRA[number % len(EXTRA)]
        if name not in state.columns and self.now.count_rows():
            self.now.add_columns({name: f"cast(id + {number} as double)"})
            state.columns[name] = next(self.numbers)

    def drop_column(self, state: State, number: int) -> None:
        names = [name for name in state.columns if name != "id"]
        if names:
            self.now.drop_columns([names[number % len(names)]])
            del state.columns[names[number % len(names)]]

    def rename_column(self, state: State, number: int) -> State | None:
        old, new = ("x", "z") if "x" in state.columns else ("z", "x")
        if old not in state.columns:
            return None
        self.now.alter_columns({"path": old, "name": new})
        names = {old: new}
        return State({names.get(n, n): one for n, one in state.columns.items()}, state.era)

    def compact(self, state: State, number: int) -> None:
        self.now.optimize.compact_files(target_rows_per_fragment=8 + number % 10)

    def overwrite(self, state: State, number: int) -> State:
        names = [list(state.columns), list(state.columns)[::-1], ["id", "x"]][number % 3]
        lance.write_dataset(self.rows(6, names), self.path, mode="overwrite", max_rows_per_file=4)
        if set(names) == set(state.columns):
            return State({name: state.columns[name] for name in names}, state.era)
        kept = {n: state.columns.get(n, None) for n in names}
        columns = {n: next(self.numbers) if one is None else one for n, one in kept.items()}
        return State(columns, next(self.numbers) + 1000)

    def restore(self, state: State, number: int) -> State:
        version = number % max(self.states) + 1
        lance.dataset(self.path, version=version).restore()
        return self.states[version]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "append", "append_equal", "delete", "update", "merge_insert", "merge_columns",
                "add_column", "drop_column", "rename_column", "compact", "overwrite", "restore",
            ]
        ),
        st.integers(0, 59),
    ),
    min_size=1,
    max_size=9,
)  # fmt: skip


def plain(value: Any) -> Any:
    """A value that can be counted."""
    return repr(value)


def by_number(table: pa.Table, columns: dict[str, int], wanted: list[int]) -> list[Row]:
    """The rows of a table, with columns by their numbers; null where there is no such column."""
    names = {number: name for name, number in columns.items()}
    values = [
        table[names[one]].to_pylist() if one in names else [None] * table.num_rows for one in wanted
    ]
    return [tuple(map(plain, row)) for row in zip(*values, strict=True)] or [()] * 0


def check(writer: Writer, since: int, until: int) -> None:
    old_state, new_state = writer.states[since], writer.states[until]
    old = lance.dataset(writer.path, version=since).to_table(with_row_id=True)
    new = lance.dataset(writer.path, version=until).to_table(with_row_id=True)
    changes = lancefs.open(writer.path).changes(since, until)
    changes.validate(full=True)
    added = ["_rowid", "_change_type", "_commit_version", "_commit_timestamp"]
    assert changes.schema.names == [*new_state.columns, *added]
    versions = {one["version"]: one["timestamp"] for one in lance.dataset(writer.path).versions()}
    for version, stamp in zip(*(changes[name].to_pylist() for name in added[2:]), strict=True):
        assert since < version <= until
        off = stamp - versions[version].astimezone(UTC)  # pylance goes through a float
        assert abs(off) < timedelta(microseconds=10)
    parts = {
        kind: changes.filter(pc.field("_change_type") == kind)
        for kind in (INSERT, DELETE, BEFORE, AFTER)
    }
    assert sum(part.num_rows for part in parts.values()) == changes.num_rows
    shown = list(new_state.columns.values())
    common = [one for one in shown if one in old_state.columns.values()]
    compare = check_by_id if writer.stable else check_by_value
    compare(writer, parts, old, new, (old_state, new_state), shown, common)
    check_by_key(writer, (since, until), (old, new), shown, common)
    if writer.stable:
        check_shares(writer, since, until, changes)


def check_shares(writer: Writer, since: int, until: int, changes: pa.Table) -> None:
    """Every change is in one share."""
    versions = [
        open_version(Store(LocalFileSystem(), writer.path), Ref(one)) for one in (since, until)
    ]
    shares = [read_changes(*versions, share=IdShare(number, 3, 2)) for number in range(3)]
    order = [("_rowid", "ascending"), ("_change_type", "descending")]
    together = pa.concat_tables(shares).sort_by(order)
    assert together.to_pylist() == changes.sort_by(order).to_pylist()


def check_by_key(
    writer: Writer,
    versions: tuple[int, int],
    tables: tuple[pa.Table, pa.Table],
    shown: list[int],
    common: list[int],
) -> None:
    """Rows with the same id are the same row, if no version has an id twice."""
    states = [writer.states[version] for version in versions]
    key = states[1].columns["id"]
    if key not in common or any(len(set(t["id"].to_pylist())) < len(t) for t in tables):
        return
    changes = lancefs.open(writer.path).changes(*versions, key=["id"])
    changes.validate(full=True)
    images = [
        dict(zip(t["id"].to_pylist(), by_number(t, s.columns, common), strict=True))
        for t, s in zip(tables, states, strict=True)
    ]
    was, now = images
    updated = {one for one in was.keys() & now.keys() if was[one] != now[one]}
    for kind, wanted, image in (
        (DELETE, was.keys() - now.keys(), was),
        (BEFORE, updated, was),
        (AFTER, updated, now),
        (INSERT, now.keys() - was.keys(), now),
    ):
        part = changes.filter(pc.field("_change_type") == kind)
        got = by_number(part, states[1].columns, common)
        assert dict(zip(part["id"].to_pylist(), got, strict=True)) == {
            one: image[one] for one in wanted
        }, kind
        assert len(part) == len(wanted)
        names = {number: name for name, number in states[1].columns.items()}
        for one, found in zip(
            part["id"].to_pylist(), part["_changed_columns"].to_pylist(), strict=True
        ):
            cells = zip(common, was.get(one, ()), now.get(one, ()), strict=False)
            expected = {names[number] for number, a, b in cells if a != b}
            assert found is None if kind in (DELETE, INSERT) else set(found) == expected
    before = changes.filter(pc.field("_change_type") == BEFORE)["id"]
    assert before.equals(changes.filter(pc.field("_change_type") == AFTER)["id"])


def check_by_id(
    writer: Writer,
    parts: dict[str, pa.Table],
    old: pa.Table,
    new: pa.Table,
    states: tuple[State, State],
    shown: list[int],
    common: list[int],
) -> None:
    def images(table: pa.Table, state: State, wanted: list[int]) -> dict[int, Row]:
        ids = table["_rowid"].to_pylist()
        return dict(zip(ids, by_number(table, state.columns, wanted), strict=True))

    was, now = images(old, states[0], common), images(new, states[1], common)
    updated = {one for one in was.keys() & now.keys() if was[one] != now[one]}
    old_images, new_images = images(old, states[0], shown), images(new, states[1], shown)
    for kind, wanted, known in (
        (DELETE, was.keys() - now.keys(), old_images),
        (INSERT, now.keys() - was.keys(), new_images),
        (BEFORE, updated, old_images),
        (AFTER, updated, new_images),
    ):
        got = images(parts[kind], states[1], shown)
        assert len(got) == parts[kind].num_rows, kind
        assert got == {one: known[one] for one in wanted}, kind
    assert parts[BEFORE]["_rowid"].equals(parts[AFTER]["_rowid"])
    for kind, is_there in ((DELETE, False), (INSERT, True), (AFTER, True)):
        named = zip(
            *(parts[kind][n].to_pylist() for n in ("_rowid", "_commit_version")), strict=True
        )
        for row_id, version in named:
            dataset = lance.dataset(writer.path, version=version)
            ids = dataset.to_table(columns=[], with_row_id=True)["_rowid"].to_pylist()
            assert (row_id in ids) == is_there


def check_by_value(
    writer: Writer,
    parts: dict[str, pa.Table],
    old: pa.Table,
    new: pa.Table,
    states: tuple[State, State],
    shown: list[int],
    common: list[int],
) -> None:
    assert parts[BEFORE].num_rows == parts[AFTER].num_rows == 0
    was, now = (
        Counter(by_number(table, state.columns, common))
        for table, state in zip((old, new), states, strict=True)
    )
    if states[0].era == states[1].era and common:
        was, now = was - now, now - was
    for kind, wanted, table, state in (
        (DELETE, was, old, states[0]),
        (INSERT, now, new, states[1]),
    ):
        assert Counter(by_number(parts[kind], states[1].columns, common)) == wanted, kind
        whole = Counter(by_number(parts[kind], states[1].columns, shown))
        assert not whole - Counter(by_number(table, state.columns, shown)), kind


@settings(max_examples=examples(60))
@given(steps=STEPS, data=st.data())
@pytest.mark.parametrize("stable", [False, True], ids=["values", "stable"])
def test_changes_are_those_of_a_comparison_of_all_rows(
    tmp_path_factory: pytest.TempPathFactory,
    stable: bool,
    steps: list[tuple[str, int]],
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("changes")
    try:
        writer = Writer(str(path / "t.lance"), stable)
        writer.create()
        for name, number in steps:
            writer.step(name, number)
        last = max(writer.states)
        since = data.draw(st.integers(1, last), label="since")
        check(writer, since, data.draw(st.integers(since, last), label="until"))
        check(writer, 1, last)
    finally:
        shutil.rmtree(path)


def said(changes: pa.Table, *columns: str) -> list[Row]:
    """Some columns of changes, a tuple a row."""
    names = ["_change_type", "_commit_version", *columns]
    return list(zip(*(changes[name].to_pylist() for name in names), strict=True))


def small(path: Path, stable: bool = True) -> Any:
    table = pa.table({"id": [1, 2, 3, 4], "x": ["a", "b", "c", "d"]})
    return lance.write_dataset(table, path, max_rows_per_file=2, enable_stable_row_ids=stable)


def test_rows_are_inserted_updated_and_deleted(tmp_path: Path) -> None:
    dataset = small(tmp_path / "t.lance")
    dataset.insert(pa.table({"id": [5], "x": ["e"]}))
    dataset.update({"x": "'B'"}, where="id = 2")
    dataset.delete("id = 3")
    dataset.optimize.compact_files()
    changes = lancefs.open(tmp_path / "t.lance").changes(1)
    assert said(changes, "id", "x", "_rowid") == [
        ("insert", 2, 5, "e", 4),
        ("update_preimage", 3, 2, "b", 1),
        ("update_postimage", 3, 2, "B", 1),
        ("delete", 4, 3, "c", 2),
    ]


def test_without_stable_ids_an_update_is_a_delete_and_an_insert(tmp_path: Path) -> None:
    dataset = small(tmp_path / "t.lance", stable=False)
    dataset.update({"x": "'B'"}, where="id = 2")
    dataset.update({"x": "x"}, where="id = 3")  # nothing changes
    changes = lancefs.open(tmp_path / "t.lance").changes(1, 3)
    assert said(changes, "id", "x") == [("delete", 2, 2, "b"), ("insert", 2, 2, "B")]


def test_rows_without_a_struct_are_changes_where_a_member_has_no_nulls(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    struct = pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string(), nullable=False)])
    dataset = lance.write_dataset(pa.table({"id": [1, 2]}), path)
    dataset.add_columns(pa.schema([pa.field("s", struct)]))
    lance.write_dataset(pa.table({"id": [3]}), path, mode="append")
    changes = lancefs.open(path).changes(2, 3)
    assert changes.select(["id", "s"]).to_pylist() == [{"id": 3, "s": None}]


def test_with_a_key_an_update_is_a_pair_that_names_the_columns(tmp_path: Path) -> None:
    dataset = small(tmp_path / "t.lance", stable=False)
    dataset.update({"x": "'B'"}, where="id = 2")
    dataset.delete("id = 3")
    dataset.insert(pa.table({"id": [5], "x": ["e"]}))
    changes = lancefs.open(tmp_path / "t.lance").changes(1, key=["id"])
    assert changes.schema.names[-2:] == ["_commit_timestamp", "_changed_columns"]
    assert said(changes, "id", "x", "_changed_columns") == [
        ("update_preimage", 2, 2, "b", ["x"]),
        ("update_postimage", 2, 2, "B", ["x"]),
        ("delete", 3, 3, "c", None),
        ("insert", 4, 5, "e", None),
    ]


@pytest.mark.parametrize("stable", [False, True], ids=["values", "stable"])
def test_a_table_that_was_written_anew_is_compared_by_a_key(tmp_path: Path, stable: bool) -> None:
    path = tmp_path / "t.lance"
    small(path, stable)
    anew = pa.table({"new": [0, 0, 0, 0], "x": ["a", "B", "d", "e"], "id": [1, 2, 4, 5]})
    lance.write_dataset(anew, path, mode="overwrite")
    changes = lancefs.open(path).changes(1, key=["id"])
    found = [(kind, one, x) for kind, _, one, x in said(changes, "id", "x")]
    assert found == [
        ("delete", 3, "c"),
        ("update_preimage", 2, "b"),
        ("update_postimage", 2, "B"),
        ("insert", 5, "e"),
    ]


def test_an_update_that_changes_a_key_is_a_delete_and_an_insert(tmp_path: Path) -> None:
    dataset = small(tmp_path / "t.lance")
    dataset.update({"id": "20"}, where="id = 2")
    changes = lancefs.open(tmp_path / "t.lance").changes(1, key=["id"])
    assert said(changes, "id", "x") == [("delete", 2, 2, "b"), ("insert", 2, 20, "b")]


def test_a_key_may_have_several_columns_and_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    table = pa.table({"a": [1, 1, None, None], "b": ["x", "y", "x", "x"], "v": [1, 2, 3, 4]})
    lance.write_dataset(table, path).update({"v": "v + 10"})
    changes = lancefs.open(path).changes(1, key=["b", "a"])
    assert said(changes, "a", "b", "v") == [
        *(("delete", 2, None, "x", 3), ("delete", 2, None, "x", 4)),
        *(("update_preimage", 2, 1, "x", 1), ("update_postimage", 2, 1, "x", 11)),
        *(("update_preimage", 2, 1, "y", 2), ("update_postimage", 2, 1, "y", 12)),
        *(("insert", 2, None, "x", 13), ("insert", 2, None, "x", 14)),
    ]


def test_a_key_that_tells_rows_not_apart_is_refused(tmp_path: Path) -> None:
    dataset = small(tmp_path / "t.lance", stable=False)
    dataset.insert(pa.table({"id": [7, 7], "x": ["e", "f"]}))
    dataset.add_columns({"late": "id"})
    ours = lancefs.open(tmp_path / "t.lance")
    with pytest.raises(ValueError, match=r"t\.lance@3: 2 changed rows have the key id = 7"):
        ours.changes(1, key=["id"])
    with pytest.raises(ValueError, match=r"t\.lance@1 has no such column"):
        ours.changes(1, key=["late"])
    with pytest.raises(ColumnNotFound, match="did you mean"):
        ours.changes(1, key=["idd"])
    with pytest.raises(ValueError, match="the key is empty"):
        ours.changes(1, key=[])
    with pytest.raises(TypeError, match=r"a list of names was expected: \['id'\]"):
        ours.changes(1, key="id")


def test_a_version_is_named_in_any_way(tmp_path: Path) -> None:
    dataset = small(tmp_path / "t.lance")
    dataset.delete("id = 1")
    dataset.tags.create("before", 1)
    dataset.delete("id = 4")
    ours = lancefs.open(tmp_path / "t.lance")
    expected = [("delete", 2, 1), ("delete", 3, 4)]
    for since in (1, "v1", "before", Ref(version=1)):
        assert said(ours.changes(since), "id") == expected
    assert said(ours.changes("before", 2), "id") == expected[:1]
    assert said(lancefs.open(tmp_path / "t.lance", version=2).changes(1), "id") == expected[:1]
    nothing = ours.changes(3, 3)
    assert nothing.num_rows == 0
    assert nothing.schema.equals(ours.changes(1).schema)


def test_versions_in_the_wrong_order_or_of_another_branch_are_refused(tmp_path: Path) -> None:
    dataset = small(tmp_path / "t.lance")
    dataset.delete("id = 1")
    dataset.create_branch("exp", 2)
    ours = lancefs.open(tmp_path / "t.lance")
    with pytest.raises(ValueError, match="an older and a newer version"):
        ours.changes(2, 1)
    with pytest.raises(ValueError, match="the same branch"):
        ours.changes(1, "exp:latest")
    with pytest.raises(RefNotFound, match="no version 9"):
        ours.changes(9)


def test_a_column_that_a_row_did_not_have_is_null(tmp_path: Path) -> None:
    dataset = small(tmp_path / "t.lance")
    dataset.add_columns({"y": "id * 10"})
    dataset.delete("id = 1")
    dataset.update({"x": "'D'"}, where="id = 4")
    changes = lancefs.open(tmp_path / "t.lance").changes(1)
    assert said(changes, "id", "x", "y") == [
        ("delete", 3, 1, "a", None),
        ("update_preimage", 4, 4, "d", None),
        ("update_postimage", 4, 4, "D", 40),
    ]


def test_an_id_of_a_column_that_is_used_again_is_not_the_same_column(tmp_path: Path) -> None:
    """Lance gives the id of the dropped column to the next one."""
    dataset = small(tmp_path / "t.lance")
    dataset.drop_columns(["x"])
    dataset.add_columns({"z": "cast(id as string)"})
    dataset.delete("id = 1")
    changes = lancefs.open(tmp_path / "t.lance").changes(1)
    assert said(changes, "id", "z") == [("delete", 4, 1, None)]


def test_an_id_of_a_member_that_is_used_again_is_not_the_same_member(tmp_path: Path) -> None:
    """Lance gives it away when no data file holds the member any more."""
    path = str(tmp_path / "t.lance")
    rows = pa.table({"id": [1, 2], "s": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]})
    dataset = lance.write_dataset(rows, path, max_rows_per_file=1)
    dataset.drop_columns(["s.b"])
    dataset.optimize.compact_files()
    dataset.add_columns(pa.field("s", pa.struct([pa.field("c", pa.int64())])))
    ours = lancefs.open(path)
    old, new = (one.manifest.fields[1] for one in (ours.checkout(1), ours))
    assert [part.id for part in old.walk()] == [part.id for part in new.walk()]
    assert ours.changes(1).num_rows == 0
    dataset.delete("id = 1")
    assert said(lancefs.open(path).changes(1), "id", "s")[0][2:] == (1, {"a": 1, "c": None})


def test_columns_of_a_table_that_was_overwritten_by_a_version_that_is_gone(tmp_path: Path) -> None:
    """Ids tell nothing there: only `a` has the same one in both versions."""
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": [1, 2], "b": [5, 6], "c": [7, 8]}), path)
    lance.write_dataset(pa.table({"a": [1, 2], "c": [7, 8], "b": [50, 6]}), path, mode="overwrite")
    lance.dataset(path).delete("a = 2")
    sorted((path / "_versions").glob("*.manifest"))[1].unlink()
    changes = lancefs.open(path).changes(1)
    assert said(changes, "a", "b", "c") == [
        ("delete", 3, 1, 5, 7),
        ("delete", 3, 2, 6, 8),
        ("insert", 3, 1, 50, 7),
    ]


def test_members_in_another_order_since_a_version_that_is_gone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.lance"
    rows = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    lance.write_dataset(pa.table({"id": [1, 2], "s": rows}), path)
    swapped = [{"b": 2, "a": 1}, {"b": 4, "a": 30}]
    lance.write_dataset(pa.table({"id": [1, 2], "s": swapped}), path, mode="overwrite")
    lance.dataset(path).insert(pa.table({"id": [3], "s": swapped[:1]}))
    sorted((path / "_versions").glob("*.manifest"))[1].unlink()
    changes = lancefs.open(path).changes(1, key=["id"])
    assert said(changes, "id", "s") == [
        ("update_preimage", 3, 2, {"a": 3, "b": 4}),
        ("update_postimage", 3, 2, {"a": 30, "b": 4}),
        ("insert", 3, 3, {"a": 1, "b": 2}),
    ]


def test_a_change_that_the_row_versions_do_not_tell_is_found_after_a_compaction(
    tmp_path: Path,
) -> None:
    """A commit of `update_columns` leaves the row versions as they were."""
    path = str(tmp_path / "t.lance")
    dataset = small(tmp_path / "t.lance")
    fragment, modified = dataset.get_fragments()[0].update_columns(
        pa.table({"id": [2], "x": ["B"]}), left_on="id", right_on="id"
    )
    operation = lance.LanceOperation.Update(updated_fragments=[fragment], fields_modified=modified)
    dataset = lance.LanceDataset.commit(path, operation, read_version=1)
    dataset.optimize.compact_files()
    versions = dataset.to_table(columns=["_row_last_updated_at_version"]).column(0).to_pylist()
    assert versions == [1, 1, 1, 1]
    changes = lancefs.open(path).changes(1)
    assert said(changes, "id", "x") == [
        ("update_preimage", 4, 2, "b"),
        ("update_postimage", 4, 2, "B"),
    ]


def test_rows_that_overlays_change_in_turn_have_versions_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANCE_ENABLE_UNSTABLE_DATA_OVERLAY_FILES", "1")
    path = tmp_path / "t.lance"
    small(path)
    for version, offset in ((1, 1), (2, 0)):
        file = DataFile(f"{version}.lance", [1], [0], 2, 1)
        schema = pa.schema([("x", pa.string())])
        with LanceFileWriter(str(path / "data" / file.path), schema, version="2.1") as writer:
            writer.write_batch(pa.table({"x": [f"new {version}"]}))
        overlay = lance.LanceOperation.DataOverlayFile(file, [offset])
        group = lance.LanceOperation.DataOverlayGroup(0, [overlay])
        operation = lance.LanceOperation.DataOverlay([group])
        lance.LanceDataset.commit(str(path), operation, read_version=version)
    changes = lancefs.open(path).changes(1)
    assert said(changes.filter(pc.field("_change_type") == AFTER), "id", "x") == [
        ("update_postimage", 2, 2, "new 1"),
        ("update_postimage", 3, 1, "new 2"),
    ]


def test_a_column_with_the_name_of_one_that_is_added_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"_commit_version": [1], "_changed_columns": [2]}), path)
    ours = lancefs.open(path)
    with pytest.raises(UnsupportedFeature, match="a column _commit_version, which changes add"):
        ours.changes(1)
    lance.write_dataset(pa.table({"_changed_columns": [2]}), path, mode="overwrite")
    assert lancefs.open(path).changes(2).num_rows == 0
    with pytest.raises(UnsupportedFeature, match="a column _changed_columns, which changes add"):
        lancefs.open(path).changes(2, key=["_changed_columns"])


@pytest.mark.parametrize("more", [0, 1, 2])
def test_versions_of_a_table_that_was_made_anew_are_not_compared(tmp_path: Path, more: int) -> None:
    path = tmp_path / "t.lance"
    small(path).delete("id = 1")
    ours = lancefs.open(path)
    shutil.rmtree(path)
    dataset = small(path)
    for number in range(more):
        dataset.delete(f"id = {number}")
    with pytest.raises(MissingFile, match=r"t\.lance@2: the table was deleted and made anew"):
        ours.changes(1)
    assert ours.checkout(1).version == 1


def test_a_share_needs_stable_ids_and_no_key(tmp_path: Path) -> None:
    small(tmp_path / "t.lance", stable=False)
    version = open_version(Store(LocalFileSystem(), str(tmp_path / "t.lance")), Ref())
    with pytest.raises(
        ValueError, match=r"t\.lance@1: a share .* needs stable row ids, and no key"
    ):
        read_changes(version, version, share=IdShare(0, 2, 1))


def test_versions_between_that_are_gone_are_done_without(tmp_path: Path) -> None:
    dataset = small(tmp_path / "t.lance")
    dataset.delete("id = 1")
    dataset.update({"x": "'D'"}, where="id = 4")
    dataset.delete("id = 2")
    files = sorted((tmp_path / "t.lance" / "_versions").glob("*.manifest"))
    files[2].unlink()  # version 2
    changes = lancefs.open(tmp_path / "t.lance").changes(1)
    assert said(changes, "id") == [
        ("delete", 3, 1),
        ("update_preimage", 3, 4),
        ("update_postimage", 3, 4),
        ("delete", 4, 2),
    ]


@pytest.mark.parametrize("stable", [False, True])
def test_fragments_that_did_not_change_are_not_read(
    tmp_path: Path, stable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = small(tmp_path / "t.lance", stable)
    dataset.insert(pa.table({"id": [5], "x": ["e"]}))
    dataset.delete("id = 3")
    opened: list[str] = []
    original = Container.__init__

    def noting(self: Container, file: Any, *args: Any) -> None:
        opened.append(file.path)
        original(self, file, *args)

    monkeypatch.setattr(Container, "__init__", noting)
    changes = lancefs.open(tmp_path / "t.lance").changes(2, 3)
    assert said(changes, "id") == [("delete", 3, 3)]
    assert len(opened) == 1


def test_blobs_are_compared_by_their_bytes(tmp_path: Path) -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("id", pa.int64()), blob])
    table = pa.table({"id": [1, 2, 3], "b": [b"one", b"two", b"three"]}, schema=schema)
    path = tmp_path / "t.lance"
    dataset = lance.write_dataset(table, path, data_storage_version="2.1", max_rows_per_file=2)
    dataset.insert(pa.table({"id": [4], "b": [b"four"]}, schema=schema))
    dataset.delete("id = 1")
    dataset.optimize.compact_files()
    changes = lancefs.open(path).changes(2)
    assert said(changes, "id") == [("delete", 3, 1)]


@given(
    st.lists(st.integers(0, 40), unique=True),
    st.lists(st.integers(0, 40), unique=True),
    st.sampled_from([1, 10**15]),
)
def test_numbers_that_two_arrays_share_are_paired(
    old: list[int], new: list[int], unit: int
) -> None:
    ids = [np.array(numbers, np.uint64) * np.uint64(unit) for numbers in (old, new)]
    in_old, in_new = paired(*ids)
    assert in_new.tolist() == [place for place, number in enumerate(new) if number in old]
    assert in_old.tolist() == [old.index(number) for number in new if number in old]
