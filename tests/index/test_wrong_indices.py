"""Indices that are well formed and wrong: no row is lost where one of them gives itself away."""

from __future__ import annotations

import logging
import re
import shutil
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyroaring
import pytest
from histories import OPERATIONS, SCHEMA, create
from lance.file import LanceFileReader
from rewriting import index_file, rewrite
from support import rewrite_index_section

import lancefs
from lancefs.errors import CorruptFile
from lancefs.index import segments
from lancefs.index.btree import BTree
from lancefs.index.fragment_reuse import FragmentReuse
from lancefs.index.predicates import UnfitTest
from lancefs.proto import table_pb2
from lancefs.scan import index_use
from lancefs.scan.settings import ScanSettings
from lancefs.table import indices

# Columns without NaN, which equals no NaN.
COLUMNS = [name for name in SCHEMA.names if name not in ("real", "ratio", "heat")]
# A change of the row numbers of a BTREE, given where id 17 is named.
Change = Callable[[np.ndarray, int], None]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wrong") / "t.lance"
    create(path, False, "2.1")
    return path


@pytest.fixture(autouse=True)
def _of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are written anew have other sizes than the manifest says."""
    monkeypatch.setattr(
        segments.IndexSegment, "file", lambda _, name: indices.IndexFile(name, None)
    )


@pytest.fixture
def table(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "t.lance"))


def renumber(table: Path, change: Change) -> None:
    """Change the row numbers of the index over `id`."""

    def changed(rows: pa.Table) -> pa.Table:
        numbers = rows["ids"].to_numpy().copy()
        change(numbers, rows["values"].to_pylist().index(17))
        return rows.set_column(1, "ids", pa.array(numbers, pa.uint64()))

    rewrite(index_file(table, "id_idx", "page_data.lance"), changed)


def exchange_bitmaps(table: Path) -> None:
    """Exchange the rows of two values in the index over `cat`."""
    change_bitmaps(table, lambda maps: [*maps[:2], maps[3], maps[2], *maps[4:]])


def change_bitmaps(table: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Change the rows of all values in the index over `cat`."""

    def changed(rows: pa.Table) -> pa.Table:
        maps = change(rows["bitmaps"].to_pylist())
        return rows.set_column(1, "bitmaps", pa.array(maps, pa.binary()))

    rewrite(index_file(table, "cat_idx", "bitmap_page_lookup.lance"), changed)


def each_entry_twice(maps: list[bytes]) -> list[bytes]:
    return [
        (2 * int.from_bytes(one[:4], "little")).to_bytes(4, "little") + 2 * one[4:] for one in maps
    ]


def other_row(numbers: np.ndarray, at: int) -> None:
    numbers[at] = numbers[at + 40]


def swapped(numbers: np.ndarray, at: int) -> None:
    numbers[[at, at + 40]] = numbers[[at + 40, at]]


def behind_the_last_row(numbers: np.ndarray, at: int) -> None:
    numbers[at] += 100


def in_no_fragment(numbers: np.ndarray, at: int) -> None:
    numbers[at] += 9 << 32


def checked(table: Path, filters: Iterable[str], caplog: pytest.LogCaptureFixture) -> list[str]:
    """Compare filters with scans; return the warnings."""
    dataset = lancefs.open(table)
    with caplog.at_level(logging.WARNING, "lancefs"):
        for filter in filters:
            expected = dataset.to_table(COLUMNS, filter, use_index=False)
            assert dataset.to_table(COLUMNS, filter).equals(expected), filter
            streamed = list(dataset.to_batches(COLUMNS, filter))
            assert pa.Table.from_batches(streamed, expected.schema).equals(expected), filter
            assert dataset.count_rows(filter) == len(expected), filter
    return caplog.messages


@pytest.mark.parametrize("change", [other_row, swapped, behind_the_last_row, in_no_fragment])
@pytest.mark.parametrize(
    "filter", ["id = 17", "id < 20", "id = 17 AND plain < 60", "id = 17 OR name = 'n008é'"]
)
def test_a_wrong_row_number_makes_a_scan_with_one_warning(
    table: Path, change: Change, filter: str, caplog: pytest.LogCaptureFixture
) -> None:
    renumber(table, change)
    warnings = checked(table, [filter], caplog)
    # Of the indices of an OR, each may have named the row.
    assert len(warnings) == (2 if " OR " in filter and change in (other_row, swapped) else 1)
    assert "index id_idx is not used" in warnings[0]


@pytest.mark.parametrize("change", [other_row, swapped, behind_the_last_row, in_no_fragment])
@pytest.mark.parametrize("filter", ["id = 17", "id < 20", "id = 17 AND plain < 60"])
def test_a_planner_leaves_no_row_out_for_a_wrong_row_number(
    table: Path, change: Change, filter: str
) -> None:
    renumber(table, change)
    dataset = lancefs.open(table)
    found = dataset.scanner([], filter).candidates()
    rows = dataset.to_table(["_rowaddr"], filter, use_index=False)["_rowaddr"].to_pylist()
    for address in rows if found is not None else ():
        ranges = found.get(address >> 32, ())
        row = address & 0xFFFFFFFF
        assert ranges is None or any(start <= row < end for start, end in ranges)


@pytest.mark.parametrize("filter", ["id = 295", "id > 280", "id = 295 OR name = 'n008é'"])
def test_an_index_that_lacks_rows_in_all_its_files_is_not_used(
    table: Path, filter: str, caplog: pytest.LogCaptureFixture
) -> None:
    data = index_file(table, "id_idx", "page_data.lance")
    rewrite(data, lambda rows: rows.slice(0, len(rows) - 20))
    kept = LanceFileReader(str(data)).read_all().to_table()["values"]

    def ending_there(rows: pa.Table) -> pa.Table:
        return rows.set_column(1, "max", pa.array([kept[-1].as_py()], pa.int64()))

    rewrite(index_file(table, "id_idx", "page_lookup.lance"), ending_there)
    (warning,) = checked(table, [filter], caplog)
    assert "id_idx is not used" in warning
    assert "holds 280 rows; 300 live" in warning


def test_a_wrong_value_is_noticed_by_a_filter_that_finds_it(
    table: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = lancefs.open(table).to_table(["name"])["name"].unique().drop_null().sort().to_pylist()
    old, new = names[10:12]

    def changed(rows: pa.Table) -> pa.Table:
        values = pc.if_else(pc.equal(rows["values"], old), new, rows["values"])
        return rows.set_column(0, "values", values)

    rewrite(index_file(table, "name_idx", "page_data.lance"), changed)
    assert len(checked(table, [f"name = '{new}'", f"name = '{old}'"], caplog)) == 1


def test_rows_in_the_bitmap_of_another_value_are_noticed(
    table: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exchange_bitmaps(table)
    dataset = lancefs.open(table)
    found = dataset.to_table(COLUMNS, "cat = 'c1'")
    assert found.equals(dataset.to_table(COLUMNS, "cat = 'c1'", use_index=False))
    assert "cat_idx is not used" in caplog.text
    assert len(checked(table, ["cat = 'c1'", "cat = 'c2'"], caplog)) >= 1


def test_a_bitmap_that_names_a_fragment_twice_counts_no_row_twice(
    table: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change_bitmaps(table, each_entry_twice)
    (warning,) = checked(table, ["cat = 'c1'", "cat > 'c1'"], caplog)
    assert "names a fragment twice" in warning


def test_no_more_rows_are_counted_than_a_fragment_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All rows are in the bitmap of each value, of which few are counted, or all others."""
    path = tmp_path / "t.lance"
    rows = pa.table({"cat": [0, 1, 2, 3, 4] * 20})
    lance.write_dataset(rows, path).create_scalar_index("cat", "BITMAP", name="cat_idx")
    every = pyroaring.BitMap(range(100)).serialize()
    change_bitmaps(path, lambda maps: [struct.pack("<III", 1, 0, len(every)) + every] * len(maps))
    for filter, expected in (("cat IN (1, 2)", 40), ("cat > 1", 60)):
        caplog.clear()
        assert lancefs.open(path).count_rows(filter) == expected
        assert "cat_idx is not used" in caplog.text


def test_another_index_answers_in_place_of_the_wrong_one(table: Path) -> None:
    exchange_bitmaps(table)
    scanner = lancefs.open(table).scanner(filter="id = 17 AND cat = 'c1'")
    assert "index cat_idx" in scanner.explain()
    assert scanner.to_table().num_rows == 1
    assert "index id_idx" in scanner.explain()
    assert "cat_idx" not in scanner.explain()


def test_a_fragment_lacks_no_row_that_an_index_puts_into_another_one(table: Path) -> None:
    def elsewhere(numbers: np.ndarray, at: int) -> None:
        other = np.flatnonzero(numbers >> np.uint64(32) != numbers[at] >> np.uint64(32))[0]
        numbers[[at, other]] = numbers[[other, at]]

    renumber(table, elsewhere)
    dataset = lancefs.open(table)
    parts = [fragment.to_table(filter="id = 17") for fragment in dataset.get_fragments()]
    assert pa.concat_tables(parts).num_rows == 1


def test_a_fragment_is_tested_alone_where_many_rows_are_named(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_use, "MAX_TESTED_ROWS", 0)
    dataset = lancefs.open(table)
    parts = [fragment.to_table(filter="id < 200") for fragment in dataset.get_fragments()]
    assert pa.concat_tables(parts).num_rows == 200


def test_a_stream_holds_few_rows_back_and_still_notices_the_last_wrong_row(
    table: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def last(numbers: np.ndarray, at: int) -> None:
        numbers[[-1, at]] = numbers[[at, -1]]

    renumber(table, last)
    monkeypatch.setattr("lancefs.scan.settings.DEFAULT", ScanSettings(stream_bytes=1))
    dataset = lancefs.open(table)
    filter = "id BETWEEN 10 AND 60"
    streamed = list(dataset.to_batches(COLUMNS, filter))
    expected = dataset.to_table(COLUMNS, filter, use_index=False)
    assert pa.Table.from_batches(streamed).equals(expected)
    assert "id_idx is not used" in caplog.text


def test_the_first_rows_are_right_though_a_later_one_is_wrong(table: Path) -> None:
    renumber(table, swapped)
    dataset = lancefs.open(table)
    expected = dataset.to_table(COLUMNS, "id < 60", limit=3, use_index=False)
    assert dataset.to_table(COLUMNS, "id < 60", limit=3).equals(expected)
    assert dataset.scanner(COLUMNS, "id < 60").head(3).equals(expected)


def test_a_sound_index_decodes_no_row_twice(table: Path) -> None:
    scanner = lancefs.open(table).scanner(filter="id < 60")
    assert scanner.to_table().num_rows == 60
    assert scanner.stats.fragments == 3
    assert scanner.stats.rows_decoded == 60


@pytest.mark.parametrize("is_compacted", [False, True])
def test_rows_of_fragments_that_left_an_index_are_no_damage(
    table: Path, is_compacted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    fragment = lance.dataset(table).get_fragments()[1]
    numbers = np.arange(100, dtype=np.uint64) + (1 << 32)
    new = pa.table({"_rowaddr": numbers, "id": np.arange(5000, 5100)})
    changed, fields = fragment.update_columns(new, left_on="_rowaddr", right_on="_rowaddr")
    operation = lance.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields)
    lance.LanceDataset.commit(table, operation, read_version=lance.dataset(table).version)
    if is_compacted:
        lance.dataset(table).delete("small = 1")
        OPERATIONS["compact"](table, 0)
    assert checked(table, ["id = 17", "id < 200", "id > 4990", "name = 'n007é'"], caplog) == []


@pytest.mark.parametrize(
    ("column", "change", "says"),
    [
        ("zone_length", lambda lengths: [lengths[0] - 1, *lengths[1:]], "lack rows"),
        ("zone_length", lambda lengths: [*lengths[:-1], lengths[-1] + 1], "names row"),
        ("fragment_id", lambda numbers: [7, *numbers[1:]], "lack rows"),
        ("min", lambda values: [9999, *values[1:]], "ends before it begins"),
        ("max", lambda values: [None, *values[1:]], "one bound"),
        ("null_count", lambda counts: [9999, *counts[1:]], "9999 missing values in a zone"),
        ("null_count", lambda counts: [16, *counts[1:]], "at most 15 may be"),
    ],
)
def test_zones_that_cannot_be_are_not_used(
    table: Path, column: str, change: Any, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    def changed(rows: pa.Table) -> pa.Table:
        values = pa.array(change(rows[column].to_pylist()), rows.schema.field(column).type)
        return rows.set_column(rows.schema.get_field_index(column), column, values)

    rewrite(index_file(table, "level_idx", "zonemap.lance"), changed)
    (warning,) = checked(table, ["level >= 0", "level = 3", "level IS NULL"], caplog)
    assert says in warning


def test_a_zone_of_floats_that_ends_before_it_begins_is_not_used(
    table: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where other zones have NaN, whose bounds say nothing."""

    def changed(rows: pa.Table) -> pa.Table:
        least = rows["min"].to_pylist()
        at = next(at for at, nans in enumerate(rows["nan_count"].to_pylist()) if not nans)
        values = pa.array([*least[:at], 3e38, *least[at + 1 :]], pa.float32())
        return rows.set_column(0, "min", values)

    rewrite(index_file(table, "ratio_idx", "zonemap.lance"), changed)
    (warning,) = checked(table, ["ratio < 3", "ratio = 2.5", "ratio >= 0"], caplog)
    assert "ends before it begins" in warning


@pytest.mark.parametrize(
    "value",
    ["x", 1.5, float("nan"), -1, 2**64 - 1, True, None, b"", [1], {"a": 1}],
    ids=["text", "fraction", "NaN", "negative", "huge", "bool", "null", "bytes", "list", "struct"],
)
@pytest.mark.parametrize(
    ("file", "column", "filters"),
    [
        ("page_lookup.lance", "null_count", ["id = 17"]),
        ("page_lookup.lance", "page_idx", ["id = 17"]),
        ("zonemap.lance", "null_count", ["level = 3", "level IS NULL"]),
        ("zonemap.lance", "zone_start", ["level = 3"]),
    ],
)
def test_counts_that_are_no_counts_make_a_scan(
    table: Path,
    file: str,
    column: str,
    filters: list[str],
    value: object,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def changed(rows: pa.Table) -> pa.Table:
        kind = pa.uint64() if value == 2**64 - 1 else None
        values = pa.array([value] * len(rows), kind)
        return rows.set_column(rows.schema.get_field_index(column), column, values)

    index = "id_idx" if file == "page_lookup.lance" else "level_idx"
    rewrite(index_file(table, index, file), changed, keeps_types=False)
    (warning,) = checked(table, filters, caplog)
    assert "is not used" in warning


def test_a_page_with_values_that_has_no_greatest_one_makes_a_scan(
    table: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def changed(rows: pa.Table) -> pa.Table:
        greatest = [None, *rows["max"].to_pylist()[1:]]
        return rows.set_column(1, "max", pa.array(greatest, rows.schema.field("max").type))

    rewrite(index_file(table, "id_idx", "page_lookup.lance"), changed)
    (warning,) = checked(table, ["id = 17", "id < 20"], caplog)
    assert "has no greatest one" in warning


@pytest.mark.parametrize("side", ["old_fragments", "new_fragments"])
def test_a_compaction_that_names_a_fragment_twice_is_damage(side: str) -> None:
    details = table_pb2.FragmentReuseIndexDetails
    content = details.InlineContent()
    group = content.legacy_versions.add(dataset_version=3).groups.add()
    for _ in range(2):
        getattr(group, side).add(id=7, physical_rows=5)
    index: Any = SimpleNamespace(index_version=0, reuse=content)
    with pytest.raises(CorruptFile, match="names a fragment twice"):
        FragmentReuse([index], np.empty(0, np.int64))


def test_a_compaction_keeps_no_rows_of_other_fragments() -> None:
    content = table_pb2.FragmentReuseIndexDetails.InlineContent()
    group = content.legacy_versions.add(dataset_version=3).groups.add()
    group.changed_row_addrs = pyroaring.BitMap64([7 << 32, 9 << 32]).serialize()
    group.old_fragments.add(id=7, physical_rows=2)
    group.new_fragments.add(id=11, physical_rows=2)
    index: Any = SimpleNamespace(index_version=0, reuse=content)
    reuse = FragmentReuse([index], np.array([11]))
    with pytest.raises(CorruptFile, match="in none of its fragments"):
        reuse.translate(np.array([7 << 32], np.uint64))


Groups = Callable[[table_pb2.FragmentReuseIndexDetails.Version], None]


def as_if_back(version: table_pb2.FragmentReuseIndexDetails.Version) -> None:
    """The new fragment was made into the old ones once more, and these into the new one."""
    groups = version.groups
    groups.add().CopyFrom(groups[0])
    old, new = list(groups[1].old_fragments), list(groups[1].new_fragments)
    del groups[1].old_fragments[:], groups[1].new_fragments[:]
    groups[1].old_fragments.extend(new)
    groups[1].new_fragments.extend(old)
    rows = sum(one.physical_rows for one in old)
    groups[1].changed_row_addrs = pyroaring.BitMap64(
        (new[0].id << 32) + row for row in range(rows)
    ).serialize()
    groups.add().CopyFrom(groups[0])


def into_the_same_rows(version: table_pb2.FragmentReuseIndexDetails.Version) -> None:
    """Each of the old fragments was made into the first rows of the new one."""
    old, new = list(version.groups[0].old_fragments), version.groups[0].new_fragments[0]
    del version.groups[:]
    for one in old:
        survivors = ((one.id << 32) + row for row in range(one.physical_rows))
        group = version.groups.add(changed_row_addrs=pyroaring.BitMap64(survivors).serialize())
        group.old_fragments.add().CopyFrom(one)
        group.new_fragments.add(id=new.id, physical_rows=one.physical_rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (as_if_back, r"manifest: indices: fragment 3 is in the version"),
        (into_the_same_rows, "names a row twice"),
    ],
)
def test_compactions_that_cannot_have_been_cost_no_row(
    tmp_path: Path, change: Groups, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = pa.table({"id": np.arange(300), "word": [f"word{row % 5}" for row in range(300)]})
    dataset = lance.write_dataset(rows, tmp_path / "t.lance", max_rows_per_file=100)
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("word", "BLOOMFILTER")
    dataset.optimize.compact_files(defer_index_remap=True)

    def rewrite_record(section: table_pb2.IndexSection) -> None:
        (record,) = (one for one in section.indices if "reuse" in one.name)
        details = table_pb2.FragmentReuseIndexDetails.FromString(record.index_details.value)
        change(details.inline.legacy_versions[0])
        record.index_details.value = details.SerializeToString()

    rewrite_index_section(tmp_path / "t.lance", rewrite_record)
    ours = lancefs.open(tmp_path / "t.lance")
    with caplog.at_level(logging.WARNING, "lancefs"):
        for filter in ("id = 150", "id >= 90 AND id < 110", "word = 'word3'"):
            expected = ours.to_table(filter=filter, use_index=False)
            assert ours.to_table(filter=filter).equals(expected), filter
            assert ours.count_rows(filter) == len(expected), filter
    assert re.search(message, caplog.text)


def test_zones_narrow_a_scan_and_name_rows_that_do_not_pass(table: Path) -> None:
    dataset = lancefs.open(table)
    scanner = dataset.scanner(filter="level = 3")
    assert scanner.to_table().equals(dataset.to_table(filter="level = 3", use_index=False))
    assert "index level_idx (ZoneMap)" in scanner.explain()
    assert scanner.stats.rows < scanner.stats.rows_decoded


def test_a_mistake_in_reading_an_index_is_logged_and_costs_no_row(
    table: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = lancefs.open(table).to_table(filter="id = 17", use_index=False)

    def fail(*_: object) -> NoReturn:
        raise pa.ArrowTypeError("made up")

    monkeypatch.setattr(BTree, "find", fail)
    dataset = lancefs.open(table)
    with caplog.at_level(logging.WARNING):
        assert dataset.to_table(filter="id = 17").equals(expected)
        assert dataset.to_table(filter="id = 17").equals(expected)
    (record,) = caplog.records
    assert "id_idx" in record.getMessage()
    assert "ArrowTypeError: made up; please report it" in record.getMessage()


def test_a_test_that_fails_for_values_of_an_index_is_left_to_the_scan(
    table: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = lancefs.open(table).to_table(filter="id = 17", use_index=False)

    def fail(*_: object) -> NoReturn:
        raise UnfitTest("made up")

    monkeypatch.setattr(BTree, "find", fail)
    with caplog.at_level(logging.WARNING):
        assert lancefs.open(table).to_table(filter="id = 17").equals(expected)
    assert not caplog.records
