"""Stored arrays become what readers see: JSON text and extension types, at any depth."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import CorpusCase, corpus_cases, examples, local_store, needs_corpus

from lancefs.datafile.container import Container
from lancefs.datafile.extensions import present
from lancefs.datafile.fields import Field, fields_from_proto
from lancefs.datafile.v2_1.reader import StructuralReader
from lancefs.errors import CorruptFile
from lancefs.storage import run

ONE, TWO = bytes.fromhex("20000000200000025001"), bytes.fromhex("20000000200000025002")

json_field = Field(1, "j", "json", metadata={b"ARROW:extension:name": b"lance.json"})
uuid_field = Field(
    2, "u", "fixed_size_binary:16", metadata={b"ARROW:extension:name": b"arrow.uuid"}
)
number_field = Field(3, "n", "int32")


def assert_shown(stored: pa.Array, field: Field, expected: list[object]) -> pa.Array:
    """Check what is shown of an array, of a slice of it, of none of it, and of what is null."""
    assert stored.type == field.storage_type
    for rows in (slice(None), slice(1, None), slice(1, 2), slice(0, 0), slice(2, 2)):
        shown = present(stored[rows], field)
        shown.validate(full=True)
        assert shown.type.equals(field.to_arrow().type, check_metadata=True)
        assert shown.to_pylist() == expected[rows]
    nothing = present(pa.nulls(3, field.storage_type), field)
    assert nothing.type == field.to_arrow().type
    assert nothing.null_count == 3
    return present(stored, field)


def values(logical_type: str, item: Field) -> Field:
    return Field(9, "c", logical_type, children=(item,))


def test_what_is_shown_as_stored_is_the_same_array() -> None:
    struct = Field(0, "s", "struct", children=(number_field, Field(4, "t", "string")))
    for field in (number_field, struct, values("list", struct), Field(5, "d", "timestamp:us:-")):
        stored = pa.nulls(3, field.storage_type)
        assert present(stored, field) is stored


def test_an_extension_that_nobody_knows_is_its_storage() -> None:
    field = replace(number_field, metadata={b"ARROW:extension:name": b"acme.number"})
    stored = pa.array([1, 2, 3], pa.int32())
    assert present(stored, field) is stored


def test_json_is_text() -> None:
    assert_shown(pa.array([ONE, None, TWO], pa.large_binary()), json_field, ["1", None, "2"])
    assert str(json_field.to_arrow().type) == "extension<arrow.json>"


def test_known_extension_types_are_wrapped_around_the_same_buffers() -> None:
    stored = pa.array([b"a" * 16, None, b"b" * 16], pa.binary(16))
    shown = present(stored, uuid_field)
    assert shown.type == pa.uuid()
    assert shown.storage.equals(stored)
    assert shown.storage.buffers()[1].address == stored.buffers()[1].address


def test_a_type_is_shown_as_soon_as_the_application_registers_it() -> None:
    class Celsius(pa.ExtensionType):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(pa.int32(), "test.celsius")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Celsius:
            return cls()

    field = replace(number_field, metadata={b"ARROW:extension:name": b"test.celsius"})
    stored = pa.array([1], pa.int32())
    assert present(stored, field).type == pa.int32()
    pa.register_extension_type(Celsius())
    try:
        assert present(stored, field).type == Celsius()
    finally:
        pa.unregister_extension_type("test.celsius")
    assert present(stored, field).type == pa.int32()


def test_structs_keep_the_members_that_do_not_change() -> None:
    field = Field(0, "s", "struct", children=(json_field, number_field))
    stored = pa.array(
        [{"j": ONE, "n": 1}, None, {"j": None, "n": None}, {"j": TWO, "n": 4}], field.storage_type
    )
    rows: list[object] = [{"j": "1", "n": 1}, None, {"j": None, "n": None}, {"j": "2", "n": 4}]
    shown = assert_shown(stored, field, rows)
    assert shown.field(1).buffers()[1].address == stored.field(1).buffers()[1].address
    assert shown.buffers()[0].address == stored.buffers()[0].address


@pytest.mark.parametrize("logical_type", ["list", "large_list"])
def test_lists_show_their_items(logical_type: str) -> None:
    field = values(logical_type, json_field)
    stored = pa.array([[ONE, None], None, [], [TWO, ONE]], field.storage_type)
    shown = assert_shown(stored, field, [["1", None], None, [], ["2", "1"]])
    assert shown.buffers()[1].address == stored.buffers()[1].address


def test_only_the_items_of_a_slice_are_decoded() -> None:
    field = values("list", json_field)
    stored = pa.array([[ONE], [b"damaged"], [TWO]], field.storage_type)
    assert present(stored[2:], field).to_pylist() == [["2"]]
    with pytest.raises(CorruptFile, match="JSONB"):
        present(stored[1:], field)


def test_fixed_size_lists_show_their_items() -> None:
    field = values("fixed_size_list:struct:2", Field(5, "item", "struct", children=(json_field,)))
    stored = pa.array([[{"j": ONE}, None], None, [{"j": None}, {"j": TWO}]], field.storage_type)
    assert_shown(stored, field, [[{"j": "1"}, None], None, [{"j": None}, {"j": "2"}]])


def test_maps_show_their_values() -> None:
    key = Field(6, "key", "string", nullable=False)
    entries = Field(7, "entries", "struct", nullable=False, children=(key, json_field))
    field = values("map", entries)
    stored = pa.array([[("a", ONE)], None, [("b", None), ("c", TWO)]], field.storage_type)
    assert_shown(stored, field, [[("a", "1")], None, [("b", None), ("c", "2")]])


def test_metadata_of_parts_are_in_the_type() -> None:
    field = Field(
        0, "s", "struct", children=(replace(number_field, metadata={b"unit": b"m"}), uuid_field)
    )
    stored = pa.array([{"n": 1, "u": None}, None], field.storage_type)
    shown = present(stored, field)
    assert shown.type.field(0).metadata == {b"unit": b"m"}
    assert shown.type.field(1).type == pa.uuid()


def test_blobs_are_left_alone_as_descriptors_and_as_bytes() -> None:
    field = Field(0, "b", "large_binary", metadata={b"lance-encoding:blob": b"true"})
    struct = Field(1, "s", "struct", children=(field, json_field))
    descriptors = pa.nulls(2, field.storage_type)
    assert present(descriptors, field) is descriptors
    with_bytes = pa.struct([("b", pa.large_binary()), ("j", pa.large_binary())])
    stored = pa.array([{"b": b"bytes", "j": ONE}], with_bytes)
    assert present(stored, struct, "bytes").to_pylist() == [{"b": b"bytes", "j": "1"}]


def read_file(path: Path) -> pa.Table:
    """Read every column of one data file (2.1 or later), and show it."""
    file = local_store(path.parent).file(path.name)
    container = Container(file)
    schema = container.descriptor().schema
    fields = fields_from_proto(schema.fields)
    leaves = [part for field in fields for part in field.walk() if part.is_leaf]
    reader = StructuralReader(container, {leaf.id: i for i, leaf in enumerate(leaves)})
    reads = [(file, reader.read(field, [(0, reader.num_rows)])) for field in fields]
    shown = [present(a, f) for a, f in zip(run(reads), fields, strict=True)]
    return pa.table(shown, schema=pa.schema([field.to_arrow() for field in fields]))


def extension_cases() -> list[CorpusCase]:
    return [c for c in corpus_cases("enc_ext") if c.info["file_version"] in ("2.1", "2.2")]


@needs_corpus
@pytest.mark.parametrize("case", extension_cases(), ids=lambda case: case.name)
def test_extension_columns_of_real_files_are_those_expected(case: CorpusCase) -> None:
    (path,) = (case.directory / "table.lance" / "data").glob("*.lance")
    expected = case.refs[0].expected()
    assert expected is not None
    table = read_file(path)
    table.validate(full=True)
    with pa.ipc.open_file(expected) as reader:
        rows = reader.read_all()
    assert table.schema.equals(rows.schema, check_metadata=True)
    assert table.equals(rows)


ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
).map(json.dumps)


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.none() | ANY_JSON, min_size=1, max_size=50))
def test_random_json_is_shown_as_pylance_shows_it(tmp_path: Path, texts: list[str | None]) -> None:
    lance = pytest.importorskip("lance", reason="pylance is the oracle")
    if not hasattr(pa, "json_"):
        pytest.skip("this pyarrow has no JSON type to write")
    column = pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.string()))
    struct = pa.StructArray.from_arrays([column], ["j"])
    table = pa.table({"j": column, "s": struct})
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.lance"
    dataset = lance.write_dataset(table, str(path), data_storage_version="2.1")
    (file,) = (path / "data").glob("*.lance")
    assert read_file(file).equals(dataset.to_table())
