"""A few rows of many columns are read by a kernel of their own, and are the rows of the table."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import examples

import lancefs
from lancefs.datafile.container import ColumnPages, Container
from lancefs.datafile.logical_types import has_type
from lancefs.datafile.outlines import outline_of
from lancefs.datafile.v2_1 import assembly, kernel_choice, point_reader, reader
from lancefs.datafile.v2_1.layouts.fullzip_page import FullZipPage
from lancefs.datafile.v2_1.leaf_columns import LeafField
from lancefs.datafile.v2_1.page_plans import PointForm
from lancefs.datafile.v2_1.point_plans import LeafPlan
from lancefs.datafile.v2_1.reader import StructuralReader
from lancefs.errors import CorruptFile, LanceError
from lancefs.storage import run

RNG = np.random.default_rng(24)
VERSIONS = ("2.1", "2.2", "2.3")
ROWS = 6000
_WORDS = np.array(["alpha", "beta", "gamma delta", "", "épsilon", "iota"])


def columns(rows: int) -> dict[str, pa.Array]:
    """One column for each way in which writers store short values, and some that nest."""
    small, wide = RNG.integers(0, 900, rows), RNG.integers(-(2**62), 2**62, rows)
    distinct = [f"value {k} {_WORDS[k % 6]}" for k in RNG.integers(0, 10**9, rows)]
    return {
        "small": pa.array(small),
        "wide": pa.array(wide),
        "sorted": pa.array(np.arange(rows) + 10**12),
        "few": pa.array(wide[:50][small % 50]),
        "constant": pa.array(np.full(rows, 7)),
        "byte": pa.array(small.astype("u1")),
        "short": pa.array(small.astype("i2")),
        "half": pa.array(RNG.normal(size=rows).astype("f2")),
        "float": pa.array(RNG.normal(size=rows).astype("f4")),
        "double": pa.array(RNG.normal(size=rows)),
        "flag": pa.array(RNG.random(rows) < 0.5),
        "date": pa.array((small * 20).astype("i4")).cast(pa.date32()),
        "time": pa.array(RNG.integers(0, 10**15, rows)).cast(pa.timestamp("us", "UTC")),
        "decimal": pa.array([Decimal(int(k)) / 100 for k in wide], pa.decimal128(38, 2)),
        "fixed": pa.array([bytes([k % 256, k % 7, 3]) for k in small], pa.binary(3)),
        "category": pa.array(_WORDS[small % 6]),
        "text": pa.array(distinct),
        "large": pa.array(distinct, pa.large_string()),
        "essay": pa.array([value * 20 for value in distinct]),
        "letter": pa.array([f"{k} {value}" * 30 for k, value in zip(small, distinct, strict=True)]),
        "noise": pa.array([RNG.bytes(300 + k % 9) for k in small]),
        "raw": pa.array([RNG.bytes(k % 20) for k in small]),
        "large_raw": pa.array([RNG.bytes(k % 9) for k in small], pa.large_binary()),
        "list": pa.array([[int(k)] * (k % 3) for k in small]),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(RNG.random(4 * rows)), 4),
        "struct": pa.array([{"a": int(k), "b": str(k)} for k in small]),
    }


def table_of(rows: int) -> pa.Table:
    """The columns; once more with some nulls, in runs and one by one; and with nulls only."""
    found = columns(rows)
    single, runs = RNG.random(rows) < 0.8, np.arange(rows) // 700 % 3 > 0
    for name, values in list(found.items()):
        if name not in ("list", "vector", "struct"):
            for kind, keep in (("single", single), ("runs", runs)):
                none = pa.scalar(None, values.type)
                found[f"{name}_{kind}"] = pc.if_else(pa.array(keep), values, none)
    found["nothing"] = pa.nulls(rows, pa.int64())
    zstd = {"lance-encoding:compression": "zstd"}
    fields = [
        pa.field(name, values.type, metadata=zstd if name.startswith("letter") else None)
        for name, values in found.items()
    ]
    return pa.table(list(found.values()), pa.schema(fields))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A table of three fragments for each version of the format."""
    paths = {}
    for version in VERSIONS:
        path = paths[version] = tmp_path_factory.mktemp("points") / f"{version}.lance"
        lance.write_dataset(table_of(ROWS), path, data_storage_version=version)
        lance.write_dataset(table_of(2 * ROWS), path, mode="append")
        lance.write_dataset(table_of(300), path, mode="append")
        lance.dataset(path).delete("small = 17")
    return paths


@pytest.fixture(scope="module")
def opened(
    written: dict[str, Path],
) -> dict[str, tuple[lancefs.LanceDataset, lance.LanceDataset, pa.Table]]:
    return {
        version: (lancefs.open(path), lance.dataset(path), lancefs.open(path).to_table())
        for version, path in written.items()
    }


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_taken_rows_are_those_of_the_whole_table(
    opened: dict[str, Any], version: str, data: st.DataObject
) -> None:
    ours, theirs, whole = opened[version]
    borders = st.sampled_from(
        [0, 1023, 1024, 1025, 4095, 4096, ROWS - 100, ROWS + 4096, len(whole) - 1]
    )
    positions = st.lists(borders | st.integers(0, len(whole) - 1), min_size=1, max_size=40)
    rows = data.draw(positions)
    found = ours.take(rows)
    found.validate(full=True)
    assert found.equals(whole.take(rows))
    assert found.equals(theirs.take(rows))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_first_rows_and_contiguous_rows_are_those_of_the_whole_table(
    opened: dict[str, Any], version: str
) -> None:
    ours, _, whole = opened[version]
    assert ours.head(10).equals(whole.slice(0, 10))
    assert ours.take(list(range(1000, 2200))).equals(whole.slice(1000, 1200))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("batch_size", [700, 1024, 5000])
def test_a_stream_of_many_columns_has_the_rows_that_pylance_reads(
    written: dict[str, Path], version: str, batch_size: int
) -> None:
    batches = list(lancefs.open(written[version]).to_batches(batch_size=batch_size))
    for batch in batches:
        batch.validate(full=True)
    assert pa.Table.from_batches(batches).equals(lance.dataset(written[version]).to_table())


@pytest.mark.parametrize("version", VERSIONS)
def test_contiguous_rows_are_the_same_read_by_the_kernel_and_page_by_page(
    written: dict[str, Path], version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = lancefs.open(written[version])
    by_kernel = dataset.to_table()
    calls = []
    monkeypatch.setattr(kernel_choice, "_MIN_LEAVES", 1 << 30)
    monkeypatch.setattr(point_reader, "read_leaves", lambda *_: calls.append(1))
    assert dataset.to_table().equals(by_kernel)
    assert not calls


@pytest.mark.parametrize("version", VERSIONS)
def test_most_columns_of_short_values_are_read_by_the_kernel(
    written: dict[str, Path], version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: dict[str, list[LeafPlan]] = {}
    plan_leaf = reader.plan_leaf

    def noting(leaf: LeafField, column: ColumnPages) -> LeafPlan | None:
        plan = plan_leaf(leaf, column)
        if plan is not None:
            plans.setdefault(leaf.top.name, []).append(plan)
        return plan

    monkeypatch.setattr(reader, "plan_leaf", noting)
    lancefs.open(written[version]).close()
    lancefs.open(written[version]).take([5, ROWS + 5, 2 * ROWS + 9])
    forms = {plan.form for of_column in plans.values() for plan in of_column}
    assert forms >= set(PointForm) - ({PointForm.INDICES} if version == "2.1" else set())
    assert {"wide", "small", "double", "flag", "text", "text_single"} <= set(plans)
    assert {"essay", "essay_single", "letter", "letter_single", "noise"} <= set(plans)
    # Of runs of nulls 2.3 stores where they begin and end.
    assert version == "2.3" or {"double_runs", "noise_runs"} <= set(plans)
    assert len(plans["struct"]) == 2 * 2  # members, and fragments that hold the rows
    assert "vector" in plans
    assert "list" not in plans


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_a_few_descriptors_of_blobs_are_read_by_the_kernel(
    version: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = [None if k % 7 == 3 else RNG.bytes(k % 300) for k in range(ROWS)]
    table = pa.table(
        [lance.blob_array(blobs), pa.array(np.arange(ROWS))],
        pa.schema([lance.blob_field("blob"), pa.field("id", pa.int64())]),
    )
    lance.write_dataset(table, tmp_path / "t", data_storage_version=version)
    theirs, rows = lance.dataset(tmp_path / "t"), [0, 3, 10, 11, 12, 2048, ROWS - 1]
    dataset = lancefs.open(tmp_path / "t")
    whole = dataset.to_table()

    def refused(*_: object) -> None:
        raise AssertionError("read page by page")

    monkeypatch.setattr(FullZipPage, "read", refused)
    found = dataset.take(rows)
    found.validate(full=True)
    assert found.equals(whole.take(rows))
    assert found.to_pylist() == theirs.take(rows).to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_on_both_sides_of_the_borders_of_pages_are_read(version: str, tmp_path: Path) -> None:
    rows, source = 1_500_000, np.random.default_rng(1)
    wide = source.integers(-(2**62), 2**62, rows)
    # Pages with nulls come before pages without.
    text, keep = pa.array(wide).cast(pa.string()), source.random(rows) < 0.8
    keep[rows // 3 :] = True
    some = {"wide": pa.array(wide), "text": text, "half": pa.array(wide & 7).cast(pa.string())}
    nulls = {
        f"{k}_null": pc.if_else(pa.array(keep), v, pa.scalar(None, v.type)) for k, v in some.items()
    }
    table = pa.table(some | nulls)
    batches = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(50_000))
    whole = {"data_storage_version": version, "max_rows_per_file": rows}
    lance.write_dataset(batches, tmp_path / "t", **whole)
    dataset = lancefs.open(tmp_path / "t")
    container = Container(dataset.opened.files.data_file(dataset.fragments[0].files[0]))
    borders = {row for index in range(6) for row in container.column(index).first_rows}
    assert len(borders) > 4
    near = sorted({row + k for row in borders for k in (-2, -1, 0, 1) if 0 <= row + k < rows})
    assert dataset.take(near).equals(table.take(near))


def test_a_damaged_page_is_named_and_other_columns_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lance.write_dataset(pa.table({"a": np.arange(ROWS), "b": np.arange(ROWS)}), tmp_path / "t")
    dataset = lancefs.open(tmp_path / "t")
    (path,) = (tmp_path / "t" / "data").iterdir()
    file = dataset.opened.files.data_file(dataset.fragments[0].files[0])
    table = Container(file).column(1).pages[0].buffers[0]
    content = bytearray(path.read_bytes())
    content[table[0] : table[1]] = bytes([255]) * (table[1] - table[0])
    path.write_bytes(content)
    monkeypatch.setattr(assembly, "FAILS_WHERE_DECODERS_DISAGREE", True)
    again = lancefs.open(tmp_path / "t")
    with pytest.raises(CorruptFile, match=r"b, column 1 \(b\), page 0"):
        again.take([3, 700, 5000])
    assert again.take([3, 700], columns=["a"])["a"].to_pylist() == [3, 700]


def damage_second_column(table: Path) -> Path:
    """Overwrite the first buffer of the second column in the second fragment; return the file."""
    dataset = lancefs.open(table)
    file = dataset.opened.files.data_file(dataset.fragments[1].files[0])
    start, end = Container(file).column(1).pages[0].buffers[0]
    path = table / "data" / Path(file.path).name
    content = bytearray(path.read_bytes())
    content[start:end] = bytes([255]) * (end - start)
    path.write_bytes(content)
    return path


def test_a_damaged_page_in_one_of_several_files_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"a": np.arange(3 * ROWS), "b": np.arange(3 * ROWS)})
    lance.write_dataset(table, tmp_path / "t", max_rows_per_file=ROWS)
    path = damage_second_column(tmp_path / "t")
    monkeypatch.setattr(assembly, "FAILS_WHERE_DECODERS_DISAGREE", True)
    again, rows = lancefs.open(tmp_path / "t"), [3, ROWS + 700, 2 * ROWS + 9]
    with pytest.raises(CorruptFile, match=rf"{path.name}.*b, column 1 \(b\), page 0"):
        again.take(rows)
    assert again.take(rows, columns=["a"])["a"].to_pylist() == rows
    assert again.take([rows[0], rows[2]])["b"].to_pylist() == [rows[0], rows[2]]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_item_that_is_no_text_hurts_the_rows_that_point_at_it(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when whole pages are decoded, whose kernels look at the values of rows alone."""
    rows = [_WORDS[k % 3] for k in range(ROWS)]
    table = pa.table({"word": rows, "tags": [[word] for word in rows]})
    lance.write_dataset(table, tmp_path / "t", data_storage_version=version)
    (path,) = (tmp_path / "t" / "data").iterdir()
    content = path.read_bytes()
    assert 0 < content.count(b"gamma") < 5  # of dictionaries
    path.write_bytes(content.replace(b"gamma", b"\xffamma"))
    monkeypatch.setattr(assembly, "FAILS_WHERE_DECODERS_DISAGREE", True)
    dataset = lancefs.open(tmp_path / "t")
    for column in ("word", "tags"):
        sound = dataset.take([0, 1, 4000], columns=[column])[column]
        assert sound.to_pylist() == [table[column][row].as_py() for row in (0, 1, 4000)]
        with pytest.raises(CorruptFile, match="not UTF-8"):
            dataset.take([0, 2], columns=[column])


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_rows_of_arrow_dictionaries_are_those_of_the_table(version: str, tmp_path: Path) -> None:
    """Each fragment has a dictionary of its own; that of the last one is compressed."""
    words = [_WORDS[:3], _WORDS[2:], np.array([f"a long value {k}" * 3 for k in range(200)])]
    written, source = [], np.random.default_rng(2)
    for some in words:
        drawn = source.integers(0, len(some), ROWS)
        values = [None if k % 7 == 0 else str(some[k % len(some)]) for k in drawn]
        written.append(pa.array(values).dictionary_encode())
        table = pa.table({"word": written[-1]})
        lance.write_dataset(table, tmp_path / "t", mode="append", data_storage_version=version)
    dataset = lancefs.open(tmp_path / "t")
    whole = [value for part in written for value in part.to_pylist()]
    for rows in ([3], list(range(20)), [1, ROWS - 1, ROWS, 2 * ROWS + 5], range(0, 3 * ROWS, 700)):
        found = dataset.take(list(rows))["word"]
        found.validate(full=True)
        assert found.type == written[0].type
        assert found.to_pylist() == [whole[row] for row in rows]


def test_rows_of_files_that_store_a_column_differently_are_those_of_the_table(
    tmp_path: Path,
) -> None:
    """The parts are packed, plain, short texts and large ones, some with nulls."""
    wide = np.random.default_rng(3).integers(-(2**62), 2**62, ROWS)
    parts = [
        {"n": np.arange(ROWS), "text": [str(k % 7) for k in range(ROWS)]},
        {"n": wide, "text": [f"text {k}" for k in range(ROWS)]},
        {
            "n": pa.array([None if k % 3 else k for k in range(ROWS)], pa.int64()),
            "text": [None if k % 5 == 0 else f"{k}" * 200 for k in range(ROWS)],
        },
        {"n": pa.nulls(ROWS, pa.int64()), "text": ["" for k in range(ROWS)]},
    ]
    table = pa.concat_tables([pa.table(part) for part in parts])
    for part in parts:
        lance.write_dataset(pa.table(part), tmp_path / "t", mode="append")
    dataset, source = lancefs.open(tmp_path / "t"), np.random.default_rng(7)
    for count in (2, 9, 400):
        rows = source.integers(0, len(table), count)
        assert dataset.take(rows).equals(table.take(rows))
    assert dataset.take([5, 2 * ROWS]).equals(table.take([5, 2 * ROWS]))


def structs_of(rows: int, nulls: str) -> pa.Table:
    """Structs in structs, and beside a list; `nulls` are of "members", "structs", both or none."""
    source = np.random.default_rng(rows)
    none = [source.random(rows) < 0.2 for _ in range(3)]
    ids, text = np.arange(rows), np.array([f"text {k} of {rows}" for k in range(rows)])
    has_null_members, has_null_structs = nulls in ("members", "both"), nulls in ("structs", "both")
    number = pa.array(ids, mask=none[0] if has_null_members else None)
    word = pa.array(_WORDS[ids % 6], mask=none[1] if has_null_members else None)
    mask = pa.array(none[2]) if has_null_structs else None
    inner = pa.StructArray.from_arrays([word, pa.array(text)], ["word", "text"], mask=mask)
    flat = pa.StructArray.from_arrays([number, inner], ["number", "inner"])
    lists = pa.array([[int(k)] * (k % 3) for k in ids])
    mixed = pa.StructArray.from_arrays([number, lists], ["number", "list"], mask=mask)
    return pa.table({"id": ids, "flat": flat, "mixed": mixed})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("parts", ["none", "members", "structs", "both", "none structs members"])
def test_rows_of_structs_are_those_that_pylance_reads(
    version: str, parts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nulls in no place, in members or in structs; each part is a fragment."""
    tables = [structs_of(ROWS + k, nulls) for k, nulls in enumerate(parts.split())]
    for part in tables:
        lance.write_dataset(part, tmp_path / "t", mode="append", data_storage_version=version)
    whole = pa.concat_tables(tables)
    monkeypatch.setattr(assembly, "FAILS_WHERE_DECODERS_DISAGREE", True)
    ours, theirs = lancefs.open(tmp_path / "t"), lance.dataset(tmp_path / "t")
    for rows in ([3], [0, 1023, 1024, ROWS - 1], list(range(0, len(whole), 611))):
        found = ours.take(rows)
        found.validate(full=True)
        assert found.equals(whole.take(rows))
        assert found.equals(theirs.take(rows))
    rows, names = [7, 4097, len(whole) - 2], ["flat", "flat.inner.text", "flat.number"]
    found, expected = ours.take(rows, columns=[*names, "mixed.number"]), whole.take(rows)
    assert found["flat"].equals(expected["flat"])
    for name in found.column_names[1:]:
        top, *below = name.split(".")
        assert found[name].equals(pc.struct_field(expected[top], below))
    assert ours.head(10).equals(whole.slice(0, 10))


def test_an_outline_is_none_of_values_that_were_read_before(written: dict[str, Path]) -> None:
    """The reader of a file keeps how it read the values of a column."""
    dataset = lancefs.open(written["2.2"])
    file = dataset.opened.files.data_file(dataset.fragments[0].files[0])
    field = next(field for field in dataset.opened.manifest.fields if field.name == "text_single")
    outline = outline_of(field)
    assert outline is not None
    found = StructuralReader(Container(file), dict(dataset.fragments[0].files[0].columns))
    values = run([(file, found.read(field, [(3, 13)]))])[0]
    lengths = run([(file, found.read(outline, [(3, 13)]))])[0]
    assert lengths.to_pylist() == pc.binary_length(values).to_pylist()
    assert run([(file, found.read(field, [(3, 13)]))])[0].equals(values)


def test_a_damaged_member_of_a_struct_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = pa.array(np.arange(3 * ROWS))
    table = pa.table({"s": pa.StructArray.from_arrays([numbers, numbers], ["a", "b"])})
    lance.write_dataset(table, tmp_path / "t", max_rows_per_file=ROWS)
    path = damage_second_column(tmp_path / "t")
    monkeypatch.setattr(assembly, "FAILS_WHERE_DECODERS_DISAGREE", True)
    again = lancefs.open(tmp_path / "t")
    for rows in ([ROWS + 700], [3, ROWS + 700]):
        with pytest.raises(CorruptFile, match=rf"{path.name}.*s, column 1 \(b\), page 0"):
            again.take(rows)
    assert again.take([3, ROWS + 7], columns=["s.a"])["s.a"].to_pylist() == [3, ROWS + 7]


def _is_limited(kind: pa.DataType) -> bool:
    """Whether a damaged value may be beyond what its type stands for, as too many digits are."""
    return bool(pa.types.is_decimal(kind) or pa.types.is_time(kind) or pa.types.is_date64(kind))


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_of_a_damaged_file_are_refused_or_of_their_type(
    written: dict[str, Path], version: str, tmp_path: Path
) -> None:
    """Damage of values cannot be seen; all else is refused, and nothing crashes."""
    table = table_of(3000)
    lance.write_dataset(table, tmp_path / "t", data_storage_version=version)
    checked = [field.name for field in table.schema if not has_type(field.type, _is_limited)]
    (path,) = (tmp_path / "t" / "data").iterdir()
    content, refused, random = path.read_bytes(), 0, np.random.default_rng(7)
    for _ in range(40):
        damaged = bytearray(content)
        # Most of the file is values; what describes them is at its end.
        for first, count in ((0, 39), (len(content) - 20_000, 1)):
            for position in random.integers(first, len(content), count):
                damaged[position] = random.integers(0, 256)
        path.unlink()
        path.write_bytes(damaged)
        try:
            found = lancefs.open(tmp_path / "t").take(sorted({5, 1030, 2999}))
            found.validate()
            found.select(checked).validate(full=True)
        except LanceError:
            refused += 1
    assert refused
