"""Columns of strings that come dictionary-encoded: the same values, in another form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancefs
from lancefs.cli.main import main
from lancefs.datafile.arrays import spelled_out
from lancefs.datafile.page_ranges import join_arrays
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.conditions import Condition
from lancefs.table.dictionary_columns import ENCODED, stored_items

ROWS = 60_000
MODES = ["by air", "free on board", "by registered mail", "by rail", "by ship", "by truck"]


def _rows(first: int = 0, rows: int = ROWS) -> pa.Table:
    source = np.random.default_rng(first)
    modes = pa.array(MODES)
    return pa.table(
        {
            "id": np.arange(first, first + rows),
            "mode": modes.take(pa.array(source.integers(0, len(MODES), rows))),
            "maybe": modes.take(
                pa.array(source.integers(0, 3, rows), mask=source.random(rows) < 0.2)
            ),
            "text": pa.array([f"the text of row {one}" for one in range(first, first + rows)]),
        }
    )


def _write(path: Path, version: str) -> str:
    """Write a table of two fragments, with deleted rows and, where it can be, a column of nulls."""
    where = str(path / f"{version}.lance")
    lance.write_dataset(_rows(), where, data_storage_version=version)
    lance.write_dataset(_rows(ROWS, 5_000), where, mode="append")
    dataset = lance.dataset(where)
    dataset.delete("id % 10 = 3 or id = 0")
    if version != "legacy":  # there are none that no file holds
        dataset.add_columns(pa.field("later", pa.string()))
    return where


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2", "legacy"])
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return lancefs.open(_write(tmp_path_factory.mktemp("tables"), request.param))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> LanceDataset:
    """A table whose data files have dictionaries."""
    return lancefs.open(_write(tmp_path_factory.mktemp("tables"), "2.1"))


def _plain(table: pa.Table) -> pa.Table:
    columns = [
        column.cast(pa.string()) if column.type == ENCODED else column for column in table.columns
    ]
    return pa.table(columns, names=table.schema.names)


READS: dict[str, dict[str, Any]] = {
    "all": {},
    "filter of an encoded column": {"filter": pc.field("mode") == "by rail"},
    "filter that keeps little": {"filter": pc.field("id").isin(list(range(7, ROWS, 1000)))},
    "filter and limit": {"filter": pc.field("maybe").is_null(), "limit": 100, "offset": 50},
    "some of the columns": {"columns": ["maybe", "id"], "dictionary_columns": ["maybe"]},
    "expressions": {"columns": {"mode": pc.field("mode"), "twice": pc.field("id") * 2}},
    "short batches": {"batch_size": 100},
}


@pytest.mark.parametrize("name", READS)
def test_encoded_columns_have_the_values_of_plain_ones(dataset: LanceDataset, name: str) -> None:
    strings = [one for one in ("mode", "maybe", "text", "later") if one in dataset.schema.names]
    encoded = {"dictionary_columns": strings, **READS[name]}
    plain = {key: value for key, value in READS[name].items() if key != "dictionary_columns"}
    found, expected = dataset.to_table(**encoded), dataset.to_table(**plain)
    found.validate(full=True)
    for field in found.schema:
        is_encoded = field.name in encoded["dictionary_columns"]
        assert field.type == (ENCODED if is_encoded else expected.schema.field(field.name).type)
    assert _plain(found).equals(expected.replace_schema_metadata(None))


def _nested(rows: int, version: str) -> pa.Table:
    """Return lists of texts, and structs that have texts and such lists, many of them missing."""
    source = np.random.default_rng(7)
    modes = [None, *MODES]

    def tags(row: int) -> list[str | None] | None:
        return None if row % 7 == 0 else [modes[one] for one in source.integers(0, 7, row % 4)]

    ats = [{"mode": modes[row % 6], "tags": tags(row + 1)} for row in range(rows)]
    missing = {} if version == "2.0" else {"mask": np.arange(rows) % 9 == 0}
    kind = pa.struct({"mode": pa.string(), "tags": pa.list_(pa.string())})
    at = pa.array(ats, kind)
    at = pa.StructArray.from_arrays(at.flatten(), fields=list(kind), **_mask(missing))
    return pa.table({"id": range(rows), "tags": [tags(row) for row in range(rows)], "at": at})


def _mask(missing: dict[str, Any]) -> dict[str, Any]:
    return {name: pa.array(mask) for name, mask in missing.items()}


NESTED = ["tags", "at.mode", "at.tags"]
FILTERS = [
    None,
    "id % 1000 < 9",
    "id % 10 < 8",
    "tags is not null",
    "at.mode = 'by rail'",
    "at.mode = 'by rail' and array_has(tags, 'by air')",
    "id = 77",
]


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2", "2.3"])
def test_lists_and_members_come_encoded(tmp_path: Path, version: str) -> None:
    where = str(tmp_path / "t.lance")
    lance.write_dataset(
        _nested(9_000, version), where, data_storage_version=version, max_rows_per_file=5_000
    )
    lance.dataset(where).delete("id % 10 = 3")
    dataset, peer = lancefs.open(where), lance.dataset(where)
    for filter in FILTERS:
        found = dataset.to_table(NESTED, filter=filter, dictionary_columns=NESTED)
        found.validate(full=True)
        lists = pa.list_(dataset.schema.field("tags").type.value_field.with_type(ENCODED))
        assert found.schema.types == [lists, ENCODED, lists]
        expected = peer.to_table({name: name for name in NESTED}, filter=filter)
        assert found.to_pydict() == expected.to_pydict()
    limited = dataset.to_table(NESTED, limit=300, offset=4_400, dictionary_columns=NESTED)
    assert limited.to_pydict() == dataset.to_table(NESTED, limit=300, offset=4_400).to_pydict()
    picked = dataset.take([5, 77, 3, 6001, 5], NESTED, dictionary_columns=NESTED)
    assert picked.to_pydict() == dataset.take([5, 77, 3, 6001, 5], NESTED).to_pydict()


def test_lists_in_many_small_fragments_come_encoded(tmp_path: Path) -> None:
    where = str(tmp_path / "t.lance")
    lance.write_dataset(_nested(2_000, "2.1"), where, max_rows_per_file=100)
    dataset = lancefs.open(where)
    found = dataset.to_table(NESTED, dictionary_columns=NESTED)
    assert found.to_pydict() == dataset.to_table(NESTED).to_pydict()


def test_rows_that_are_picked_come_encoded_too(dataset: LanceDataset) -> None:
    rows = [50_000, 3, 3, 17, 55_000]
    found = dataset.take(rows, dictionary_columns=["mode", "maybe"])
    assert found.schema.field("mode").type == ENCODED
    assert _plain(found).equals(dataset.take(rows).replace_schema_metadata(None))
    assert dataset.head(0, dictionary_columns=["mode"]).schema.field("mode").type == ENCODED


def test_columns_that_files_store_so_are_named(stored: LanceDataset, tmp_path: Path) -> None:
    assert stored.dictionary_columns == ["mode", "maybe"]
    assert lancefs.open(_write(tmp_path, "2.0")).dictionary_columns == ["mode", "maybe"]
    empty = str(tmp_path / "empty.lance")
    lance.write_dataset(_rows().schema.empty_table(), empty)
    assert lancefs.open(empty).dictionary_columns == []


def test_flags_are_named_too(tmp_path: Path) -> None:
    source = np.random.default_rng(1)
    letters = source.choice(np.array([*"ANRO"]), ROWS)
    seldom = source.random(ROWS) < 0.01
    rows = pa.table(
        {
            "flag": letters,
            "mostly": pa.array(letters, mask=seldom),
            "empty": ["" for _ in letters],
            "remark": [f"a remark on {one}, {at}" * is_one for at, (one, is_one) in
                       enumerate(zip(letters, seldom.tolist(), strict=True))],
            "two": [one * 2 for one in letters],
        }
    )  # fmt: skip
    path = tmp_path / "flags.lance"
    lance.write_dataset(rows, path, data_storage_version="2.1")
    dataset = lancefs.open(path)
    named = dataset.dictionary_columns
    assert "flag" in named
    assert "remark" not in named
    # Fragments that come later may have other values.
    more = rows.slice(0, 3000).set_column(0, "flag", pa.array(["as long as it is"] * 3000))
    lance.write_dataset(more, path, mode="append")
    dataset = lancefs.open(path)
    assert dataset.dictionary_columns == named
    found = dataset.to_table(dictionary_columns=rows.column_names)
    found.validate(full=True)
    assert _plain(found).equals(dataset.to_table().replace_schema_metadata(None))


def test_dictionaries_are_those_of_the_file(stored: LanceDataset) -> None:
    first = next(stored.to_batches(columns=["mode"], dictionary_columns=["mode"]))
    assert sorted(first.column(0).dictionary.to_pylist()) == sorted(MODES)


def test_dictionaries_tell_all_values_of_a_fragment(stored: LanceDataset) -> None:
    version = stored.opened
    for reader in version.readers:
        assert sorted(stored_items(reader, version.field("mode")).to_pylist()) == sorted(MODES)
        # The slots of nulls may have an item as well.
        assert set(stored_items(reader, version.field("maybe")).to_pylist()) >= set(MODES[:3])
        for name in ("text", "later"):
            assert stored_items(reader, version.field(name)) is None


def test_dictionaries_of_several_pages_tell_all_their_values(tmp_path: Path) -> None:
    words = [f"word {number // 100_000} {number % 50}" for number in range(500_000)]
    path = str(tmp_path / "pages.lance")
    options = {"max_bytes_per_file": 1 << 30, "data_storage_version": "2.1"}
    batches = pa.table({"word": words}).to_reader(20_000)
    lance.write_dataset(batches, path, **options)
    version = lancefs.open(path).opened
    (reader,) = version.readers
    found = stored_items(reader, version.field("word"))
    assert sorted(found.to_pylist()) == sorted(set(words))


def test_who_asks_for_a_stream_of_dictionaries_gets_it(stored: LanceDataset) -> None:
    wanted = pa.schema(
        [
            ("id", pa.int64()),
            ("mode", ENCODED),
            ("maybe", pa.dictionary(pa.int8(), pa.string())),
            ("text", pa.large_string()),
            ("later", pa.string()),
        ]
    )
    capsule = stored.__arrow_c_stream__(wanted.__arrow_c_schema__())
    found = pa.RecordBatchReader._import_from_c_capsule(capsule).read_all()
    assert found.schema == wanted
    expected = stored.to_table()
    for name in wanted.names:
        assert found.column(name).to_pylist() == expected.column(name).to_pylist()


def test_other_columns_are_refused(stored: LanceDataset) -> None:
    with pytest.raises(ValueError, match="dictionary_columns has 'id', which is int64"):
        stored.to_table(dictionary_columns=["id"])
    with pytest.raises(lancefs.LanceError, match="missing"):
        stored.to_table(dictionary_columns=["missing"])


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("name", READS)
def test_small_fragments_have_the_values_of_plain_ones(
    small: dict[str, str], version: str, name: str
) -> None:
    strings = ["mode"] if name == "expressions" else ["maybe", "mode"]
    encoded = {"dictionary_columns": strings, **READS[name]}
    plain = {key: value for key, value in READS[name].items() if key != "dictionary_columns"}
    dataset = lancefs.open(small[version])
    found, expected = dataset.to_table(**encoded), dataset.to_table(**plain)
    found.validate(full=True)
    for encoded_name in encoded["dictionary_columns"]:
        column = found.column(encoded_name)
        assert column.type == ENCODED
        for chunk in column.chunks:
            assert not chunk.dictionary.null_count
            assert len(chunk.dictionary.unique()) == len(chunk.dictionary)
    assert _plain(found).equals(expected.replace_schema_metadata(None))
    if not READS[name]:
        assert _plain(found).equals(lance.dataset(small[version]).to_table())


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Tables of forty fragments of 50 rows, some of nulls or empty strings, and of a large one."""
    maybe = pa.concat_arrays(
        [
            pa.nulls(50, pa.string()),
            pa.array([""] * 50),
            pa.array(["", None] * 25),
            *(pa.array([None, "", "é" * one, "common", f"{one}"] * 10) for one in range(37)),
        ]
    )
    rows = _rows(0, len(maybe)).set_column(2, "maybe", maybe)
    home, paths = tmp_path_factory.mktemp("small"), {}
    for version in ("2.0", "2.1", "2.2"):
        paths[version] = where = str(home / f"{version}.lance")
        lance.write_dataset(rows, where, max_rows_per_file=50, data_storage_version=version)
        lance.write_dataset(_rows(ROWS, 20_000), where, mode="append")
        lance.dataset(where).delete("id % 10 = 3 or (id >= 100 and id < 150) or id = 0")
    return paths


FAR = 10**10
NUMBERS: dict[str, pa.DataType] = {
    "whole": pa.int64(),
    "money": pa.decimal128(21, 2),
    "time": pa.timestamp("us", "+05:30"),
    "span": pa.duration("ns"),
    "clock": pa.time64("us"),
}


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of few numbers, far apart, with nulls: data files store them with dictionaries."""
    source = np.random.default_rng(7)
    table = pa.table(
        {
            name: pa.array(source.integers(1, 6, ROWS) * FAR, mask=source.random(ROWS) < 0.1)
            .cast(pa.decimal128(19) if pa.types.is_decimal(data_type) else pa.int64())
            .cast(data_type)
            for name, data_type in NUMBERS.items()
        }
        | {"mode": _rows()["maybe"], "row": np.arange(ROWS)}
    )
    where = str(tmp_path_factory.mktemp("numbers") / "few.lance")
    lance.write_dataset(table, where, data_storage_version="2.2")
    lance.dataset(where).delete("row % 7 = 2")
    return where


@pytest.fixture
def tested(monkeypatch: pytest.MonkeyPatch) -> list[pa.RecordBatch]:
    """What filters are tested on."""
    seen: list[pa.RecordBatch] = []
    evaluate = Condition.evaluate

    def watched(self: Condition, batch: pa.RecordBatch, counted: Any = None) -> Any:
        seen.append(batch)
        return evaluate(self, batch, counted)

    monkeypatch.setattr(Condition, "evaluate", watched)
    return seen


@pytest.mark.parametrize("name", [*NUMBERS, "mode"])
@pytest.mark.parametrize("compare", [pc.equal, pc.less, pc.greater_equal])
@pytest.mark.parametrize("more", [True, False], ids=["alone", "with another"])
def test_filters_are_tested_on_dictionaries(
    numbers: str, tested: list[pa.RecordBatch], name: str, compare: Any, more: bool
) -> None:
    expected = lance.dataset(numbers).to_table()
    values = pc.unique(expected[name].drop_null()).sort()
    filter = compare(pc.field(name), values[2])
    filter = filter if more else filter & (pc.field("row") > 1000)
    found = lancefs.open(numbers).to_table(filter=filter)
    assert found.equals(expected.filter(filter))
    assert 0 < found.num_rows < expected.num_rows
    assert {pa.types.is_dictionary(batch[name].type) for batch in tested} == {True}
    assert {batch.schema.names[0] for batch in tested} == {name}


def test_values_that_no_dictionary_holds_are_tested_themselves(
    numbers: str, tested: list[pa.RecordBatch]
) -> None:
    filter = (pc.field("row") < 50) & (pc.field("mode") == MODES[0])
    found = lancefs.open(numbers).to_table(filter=filter)
    assert found.equals(lance.dataset(numbers).to_table().filter(filter))
    (types,) = {tuple(batch.schema.types) for batch in tested}
    assert set(types) == {pa.int64(), pa.dictionary(pa.int32(), pa.string())}


def test_filters_of_several_columns_at_once_see_values(
    numbers: str, tested: list[pa.RecordBatch]
) -> None:
    filter = (pc.field("mode") == MODES[0]) | (pc.field("whole") > pc.field("row"))
    found = lancefs.open(numbers).to_table(filter=filter)
    assert found.equals(lance.dataset(numbers).to_table().filter(filter))
    assert {str(one) for batch in tested for one in batch.schema.types} == {"string", "int64"}


@pytest.mark.parametrize(
    ("every", "columns"),
    [
        pytest.param(2, 1, id="half of the rows: the strings"),
        pytest.param(11, len(NUMBERS) + 1, id="few rows: all but the column of the filter"),
    ],
)
def test_rows_are_chosen_before_their_values_are_looked_up(
    numbers: str, monkeypatch: pytest.MonkeyPatch, every: int, columns: int
) -> None:
    looked_up: list[int] = []

    def counted(array: pa.DictionaryArray) -> pa.Array:
        looked_up.append(len(array))
        return spelled_out(array)

    monkeypatch.setattr("lancefs.scan.decoded_columns.spelled_out", counted)
    row = pc.field("row")
    filter = row - pc.floor(row / float(every)) * every == 1.0
    found = lancefs.open(numbers).to_table(filter=filter)
    expected = lance.dataset(numbers).to_table().filter(filter)
    assert found.equals(expected)
    assert set(looked_up) == {expected.num_rows}
    assert len(looked_up) == columns


def test_columns_of_other_types_are_filtered_by_their_values(tmp_path: Path) -> None:
    modes = _rows()["mode"].combine_chunks()
    codes = np.array(modes.dictionary_encode().indices)
    vectors = np.repeat(codes.astype(np.float32), 4)
    table = pa.table(
        {
            "row": np.arange(ROWS),
            "user": modes.dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
            "binary": modes.cast(pa.binary()),
            "large": modes.cast(pa.large_string()),
            "vector": pa.FixedSizeListArray.from_arrays(vectors, 4),
            "code": pa.array([bytes([code] * 12) for code in codes.tolist()], pa.binary(12)),
            "flag": codes > 2,
            "share": codes / 7,
        }
    )
    lance.write_dataset(table, tmp_path / "t.lance", data_storage_version="2.2")
    lance.dataset(tmp_path / "t.lance").delete("row % 5 = 2")
    dataset = lancefs.open(tmp_path / "t.lance")
    kept = table.filter(pc.field("row") - pc.floor(pc.field("row") / 5.0) * 5 != 2.0)
    assert dataset.to_table().equals(kept)
    for name, value in (("binary", b"by rail"), ("large", "by rail"), ("user", "by rail")):
        found = dataset.to_table(filter=pc.field(name) == pc.scalar(value))
        assert found.equals(kept.filter(pc.field("large") == "by rail"))
        assert found.num_rows


def test_rows_are_told_apart_whatever_is_looked_up(numbers: str) -> None:
    filter = pc.field("mode") == MODES[1]
    columns = ["mode", "_rowid", "money", "_rowaddr"]
    found = lancefs.open(numbers).to_table(columns=columns, filter=filter)
    expected = lance.dataset(numbers).to_table(
        columns=["mode", "money"],
        filter=f"mode = '{MODES[1]}'",
        with_row_id=True,
        with_row_address=True,
    )
    assert found.equals(expected.select(columns))
    assert found.num_rows > 0
    same = lancefs.open(numbers).to_table(columns=columns, filter=pc.field("_rowid") > ROWS // 2)
    assert same["_rowid"].to_pylist() == [n for n in range(ROWS // 2 + 1, ROWS) if n % 7 != 2]


# Files of the format 0.1 have one dictionary only.
@pytest.mark.parametrize("data_format", ["2.0", "2.1", "2.2"])
def test_dictionaries_of_half_floats_keep_their_values_in_a_read_of_many_pages(
    tmp_path: Path, data_format: str
) -> None:
    path = str(tmp_path / "t.lance")
    numbers = np.array([0.5, -2, 6e-8, 65504, 3, 7], np.float16)
    indices = np.random.default_rng(1).integers(0, 3, (4, 3000)).astype(np.int8)
    parts = [
        pa.DictionaryArray.from_arrays(pa.array(part), pa.array(numbers[number:][:3]))
        for number, part in enumerate(indices)
    ]
    schema = pa.schema([("d", parts[0].type)])
    batches = [pa.record_batch([part], schema=schema) for part in parts]
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    lance.write_dataset(reader, path, data_storage_version=data_format)
    expected = [float(one) for part in parts for one in part.to_pylist()]
    dataset = lancefs.open(path)
    assert dataset.to_table()["d"].to_pylist() == expected
    assert dataset.take([1, 5000, 11_000])["d"].to_pylist() == [
        expected[row] for row in (1, 5000, 11_000)
    ]
    exported = tmp_path / "t.arrow"
    assert main(["export", path, str(exported)]) == 0
    assert pa.ipc.open_file(exported).read_all()["d"].to_pylist() == expected


def test_pages_with_different_dictionaries_of_half_floats_are_joined() -> None:
    one, other = (
        pa.DictionaryArray.from_arrays(
            pa.array([0, None, 1], pa.int8()), pa.array(np.array(items, np.float16))
        )
        for items in ([0.5, 6e-8], [-1, 0.5])
    )
    joined = join_arrays([one, other.slice(1), one.slice(3)], one.type)
    assert joined.type == one.type
    assert joined.to_pylist() == [*one.to_pylist(), *other.to_pylist()[1:]]
