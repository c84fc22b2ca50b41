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
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples

import lancefs
from lancefs.storage import Store
from lancefs.table.changes import AFTER, BEFORE, DELETE, INSERT, IdShare, read_changes
from lancefs.table.open_version import open_version
from lancefs.table.refs import Ref

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
