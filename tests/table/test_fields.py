"""Fields: nesting, types, and what damage gets."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pyarrow as pa
import pytest

from lancefs.datafile.fields import (
    BLOB_V1_DESCRIPTOR,
    BLOB_V2_DESCRIPTOR,
    MAX_DEPTH,
    DictionaryLocation,
    Field,
    LegacyEncoding,
    fields_from_proto,
)
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto import schema_pb2

EXTENSION = b"ARROW:extension:name"
PARAMETERS = b"ARROW:extension:metadata"


def message(id: int, type: str, parent: int = -1, name: str = "", **rest) -> schema_pb2.Field:
    return schema_pb2.Field(
        id=id, parent_id=parent, name=name or f"f{id}", logical_type=type, nullable=True, **rest
    )


def entries(key: Field) -> Field:
    """Return what a map has below it."""
    return Field(1, "entries", "struct", False, {}, (key, Field(3, "value", "int8")))


LEAVES = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "uint64": pa.uint64(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    "time32:s": pa.time32("s"),
    "time64:ns": pa.time64("ns"),
    "duration:us": pa.duration("us"),
    "timestamp:us:-": pa.timestamp("us"),
    "timestamp:us": pa.timestamp("us"),
    "timestamp:ns:America/New_York": pa.timestamp("ns", "America/New_York"),
    "timestamp:ms:+05:30": pa.timestamp("ms", "+05:30"),
    "decimal:128:38:10": pa.decimal128(38, 10),
    "decimal:128:5:-2": pa.decimal128(5, -2),
    "decimal:256:76:20": pa.decimal256(76, 20),
    "fixed_size_binary:16": pa.binary(16),
    "fixed_size_list:float:128": pa.list_(pa.float32(), 128),
    "fixed_size_list:timestamp:us:-:2": pa.list_(pa.timestamp("us"), 2),
    "fixed_size_list:fixed_size_list:int32:2:3": pa.list_(pa.list_(pa.int32(), 2), 3),
    "dict:string:int16:false": pa.dictionary(pa.int16(), pa.string()),
    "dict:decimal:128:10:2:uint8:true": pa.dictionary(pa.uint8(), pa.decimal128(10, 2), True),
}


@pytest.mark.parametrize(("logical", "expected"), LEAVES.items(), ids=str)
def test_a_leaf_has_the_type_that_its_string_names(logical: str, expected: pa.DataType) -> None:
    field = Field(0, "x", logical)
    assert field.storage_type == expected
    assert field.to_arrow().equals(pa.field("x", expected), check_metadata=True)


@pytest.mark.parametrize("logical", ["string_view", "union", "", "list_view:int8", "INT32"])
def test_an_unknown_type_is_refused_by_name_only_when_it_is_asked_for(logical: str) -> None:
    (field,) = fields_from_proto([message(3, logical, name="later")])
    for ask in (lambda: field.storage_type, field.to_arrow):
        with pytest.raises(UnsupportedFeature, match=r"field 3 \(later\)") as caught:
            ask()
        assert repr(logical) in str(caught.value)


@pytest.mark.parametrize(
    "logical",
    [
        "decimal:128:99:1",
        "decimal:64:3:1",
        "decimal:128:5",
        "decimal:128:x:1",
        "timestamp:fortnight:-",
        "fixed_size_binary:-1",
        "fixed_size_binary:",
        "fixed_size_list:int32",
        "fixed_size_list:int32:4294967296",
        "fixed_size_list:int32:٣",
        "dict:string:int8",
        "dict:string:string:false",
        "fixed_size_list:" * 5000 + "int8" + ":1" * 5000,
    ],
)
def test_a_known_type_with_senseless_parameters_is_damage(logical: str) -> None:
    with pytest.raises(CorruptFile):
        _ = Field(0, "x", logical).storage_type


@pytest.mark.parametrize("ask", [Field.to_arrow, lambda field: field.storage_type])
def test_nothing_but_nulls_without_nulls_is_damage(ask: Callable[[Field], object]) -> None:
    nothing = Field(1, "x", "null", nullable=False)
    with pytest.raises(CorruptFile, match=r"field 1 \(x\) has the null type"):
        ask(Field(0, "s", "struct", children=(nothing,)))


def test_fields_nest_by_parent_in_the_order_of_the_list() -> None:
    columns = fields_from_proto(
        [
            message(5, "int32", parent=2, name="late child before its parent"),
            message(2, "struct", name="s"),
            message(1, "string", parent=2, name="second"),
            message(0, "bool", name="last"),
        ]
    )
    assert [column.name for column in columns] == ["s", "last"]
    assert [field.id for field in columns[0].walk()] == [2, 5, 1]
    assert columns[0].storage_type == pa.struct(
        [("late child before its parent", pa.int32()), ("second", pa.string())]
    )


def test_lists_maps_and_fixed_size_lists_take_their_items_from_below() -> None:
    types = {
        "list": lambda item: pa.list_(item),
        "list.struct": lambda item: pa.list_(item),
        "large_list": lambda item: pa.large_list(item),
        "large_list.struct": lambda item: pa.large_list(item),
        "fixed_size_list:struct:2": lambda item: pa.list_(item, 2),
    }
    item = Field(1, "item", "struct", False, {b"k": b"v"}, (Field(2, "a", "int8"),))
    shown = pa.field("item", pa.struct([("a", pa.int8())]), False, {b"k": b"v"})
    for logical, build in types.items():
        field = Field(0, "x", logical, children=(item,))
        assert field.to_arrow().equals(pa.field("x", build(shown)), check_metadata=True)
        assert field.storage_type == build(shown)
    entry = entries(Field(2, "key", "string", False))
    assert Field(0, "m", "map", children=(entry,)).storage_type == pa.map_(pa.string(), pa.int8())


@pytest.mark.parametrize(
    "field",
    [
        Field(0, "x", "list"),
        Field(0, "x", "large_list", children=(Field(1, "a", "int8"), Field(2, "b", "int8"))),
        Field(0, "x", "map", children=(Field(1, "entries", "struct"),)),
        Field(0, "x", "map", children=(entries(Field(2, "key", "int8", True)),)),
    ],
    ids=["list", "large_list", "map", "keys with nulls"],
)
def test_a_list_without_its_item_is_damage(field: Field) -> None:
    with pytest.raises(CorruptFile, match=r"field 0 \(x\)"):
        _ = field.storage_type


def test_a_leaf_with_fields_below_it_is_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="'int8' with fields below"):
        _ = Field(0, "x", "int8", children=(Field(1, "a", "int8"),)).storage_type


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([message(0, "int8"), message(0, "int8")], "unique"),
        ([message(-5, "int8")], "unique"),
        (
            [message(0, "int8", name="a"), message(3, "int8", name="a")],
            "0 and 3 are both named 'a'",
        ),
        ([message(0, "int8"), message(1, "int8", parent=7)], "below field 7"),
        ([message(1, "struct", parent=2), message(2, "struct", parent=1)], "circle"),
        ([message(4, "struct", parent=4)], "circle"),
        ([message(i, "struct", parent=i - 1) for i in range(MAX_DEPTH + 1)], "deep"),
        ([message(i, "struct", parent=i - 1) for i in range(5000)], "deep"),
    ],
    ids=["twice", "negative", "one name", "orphan", "circle", "own parent", "deep", "very deep"],
)
def test_a_schema_that_is_no_tree_is_damage(messages: list[schema_pb2.Field], reason: str) -> None:
    with pytest.raises(CorruptFile, match=reason):
        fields_from_proto(messages)


def test_fields_numbered_from_1_may_leave_their_parent_unset() -> None:
    columns = fields_from_proto(
        [message(1, "int32", parent=0), message(2, "struct", parent=0), message(3, "int8", 2)]
    )
    assert [field.id for column in columns for field in column.walk()] == [1, 2, 3]


def test_pruning_keeps_what_has_data() -> None:
    a, b = Field(2, "a", "int8"), Field(3, "b", "int8")
    struct = Field(1, "s", "struct", children=(a, b))
    listed = Field(0, "l", "list.struct", children=(struct,))
    assert listed.prune({2, 3}) is listed
    assert listed.prune({0, 1}) is None
    pruned = listed.prune({0, 1, 3})
    assert pruned is not None
    assert [field.id for field in pruned.walk()] == [0, 1, 3]
    packed = Field(1, "s", "struct", metadata={b"lance-encoding:packed": b"True"}, children=(a, b))
    assert packed.is_leaf
    assert packed.prune({1}) is packed
    assert packed.prune({0}) is None


def test_a_packed_struct_whose_members_have_data_is_not_packed() -> None:
    a, b = Field(2, "a", "int8"), Field(3, "b", "int8")
    both = {b"packed": b"true", b"lance-encoding:packed": b"True", b"own": b"x"}
    packed = Field(1, "s", "struct", metadata=both, children=(a, b))
    assert packed.prune({1, 2, 3}) is packed
    assert packed.prune({2, 3}) == Field(1, "s", "struct", metadata={b"own": b"x"}, children=(a, b))
    assert packed.prune({3}) == Field(1, "s", "struct", metadata={b"own": b"x"}, children=(b,))


def test_packed_structs_are_known_by_either_key() -> None:
    for key in (b"packed", b"lance-encoding:packed"):
        assert Field(0, "s", "struct", metadata={key: b"true"}).is_packed
        assert not Field(0, "s", "struct", metadata={key: b"false"}).is_packed
        assert not Field(0, "s", "int8", metadata={key: b"true"}).is_packed


def test_a_blob_shows_where_its_bytes_are_or_the_bytes() -> None:
    first = Field(0, "b", "large_binary", False, {b"lance-encoding:blob": b"true"})
    second = Field(
        0, "b", "struct", True, {EXTENSION: b"lance.blob.v2"}, (Field(1, "data", "large_binary"),)
    )
    between = Field(
        0,
        "b",
        "large_binary",
        metadata={b"lance-encoding:blob": b"true", b"lance-encoding:blob-version": b"2"},
    )
    assert [f.blob_version for f in (first, second, between)] == [1, 2, 2]
    assert first.storage_type == first.to_arrow().type == BLOB_V1_DESCRIPTOR
    assert second.storage_type == second.to_arrow().type == BLOB_V2_DESCRIPTOR
    for field in (first, second, between):
        assert field.is_leaf
        assert field.to_arrow("bytes").type == pa.large_binary()
    assert not Field(0, "b", "binary", metadata={b"lance-encoding:blob": b"false"}).is_blob


def test_json_is_stored_as_bytes_and_shown_as_text() -> None:
    field = Field(0, "j", "json", metadata={EXTENSION: b"lance.json"})
    assert field.is_json
    assert field.storage_type == pa.large_binary()
    shown = field.to_arrow().type
    assert getattr(shown, "storage_type", shown) == pa.string()


def test_extension_types_are_themselves_where_they_are_known_at_any_depth() -> None:
    uuid = Field(1, "u", "fixed_size_binary:16", True, {EXTENSION: b"arrow.uuid", PARAMETERS: b""})
    nested = Field(0, "s", "struct", children=(uuid,))
    assert uuid.to_arrow().equals(pa.field("u", pa.uuid()), check_metadata=True)
    assert nested.to_arrow().type == pa.struct([("u", pa.uuid())])
    assert nested.storage_type == pa.struct([("u", pa.binary(16))])


def test_an_extension_type_that_pyarrow_does_not_know_is_its_storage() -> None:
    unknown = {EXTENSION: b"acme.point", PARAMETERS: b"{}"}
    assert Field(0, "x", "int32", metadata=unknown).to_arrow().metadata == unknown


@pytest.mark.parametrize(
    ("name", "parameters", "storage"),
    [
        (b"arrow.fixed_shape_tensor", b'{"shape":', "fixed_size_list:float:6"),
        (b"arrow.fixed_shape_tensor", b"\xff\xfe", "fixed_size_list:float:6"),
        (b"arrow.fixed_shape_tensor", b'{"shape":[%d]}' % 2**70, "fixed_size_list:float:6"),
        (b"arrow.opaque", b"[]", "int32"),
        (b"arrow.opaque", b"\xff", "int32"),
        (b"arrow.uuid", b"more", "fixed_size_binary:16"),
        (b"arrow.uuid", b"", "int32"),
        (b"arrow.bool8", b"more", "int8"),
    ],
)
def test_an_extension_type_that_cannot_be_made_is_its_storage_and_named_otherwise(
    name: bytes, parameters: bytes, storage: str
) -> None:
    metadata = {EXTENSION: name, PARAMETERS: parameters, b"other": b"1"}
    renamed = {
        b"lancefs:invalid:" + EXTENSION: name,
        b"lancefs:invalid:" + PARAMETERS: parameters,
        b"other": b"1",
    }
    field = Field(1, "x", storage, metadata=metadata)
    shown = field.to_arrow()
    assert shown.type == field.storage_type
    assert shown.metadata == renamed
    uuid = Field(2, "u", "fixed_size_binary:16", True, {EXTENSION: b"arrow.uuid", PARAMETERS: b""})
    nested = Field(0, "s", "struct", children=(field, uuid)).to_arrow()
    assert nested.type.field(0).equals(shown, check_metadata=True)
    assert nested.type.field(1).type == pa.uuid()  # the others stay what they are


def test_types_that_nest_deeper_than_arrow_reads_are_shown_as_their_storage() -> None:
    lists = Field(MAX_DEPTH, "lists", "fixed_size_list:" * 90 + "int8" + ":1" * 90)
    column = lists
    for number in reversed(range(MAX_DEPTH - 1)):
        column = Field(number, "s", "struct", children=(column,))
    shown = column.to_arrow().type
    while pa.types.is_struct(shown):
        shown = shown.field(0).type
    assert shown == lists.storage_type


def test_a_type_that_the_application_registered_is_itself() -> None:
    class Point(pa.ExtensionType):
        def __init__(self) -> None:
            super().__init__(pa.int32(), "acme.registered")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage: pa.DataType, parameters: bytes) -> Point:
            return cls()

    pa.register_extension_type(Point())
    try:
        field = Field(0, "x", "int32", metadata={EXTENSION: b"acme.registered", PARAMETERS: b""})
        assert field.to_arrow().type == Point()
    finally:
        pa.unregister_extension_type("acme.registered")


def test_bfloat16_is_marked_on_the_items_of_its_list() -> None:
    field = Field(0, "v", "fixed_size_list:lance.bfloat16:3")
    assert field.storage_type.value_type == pa.binary(2)
    assert field.to_arrow().type.value_field.metadata == {
        EXTENSION: b"lance.bfloat16",
        PARAMETERS: b"",
    }


def test_the_primary_key_is_read_from_the_field_or_from_its_metadata() -> None:
    new = message(0, "int8", unenforced_primary_key=True, unenforced_primary_key_position=2)
    old = message(1, "int8")
    old.metadata["lance-schema:unenforced-primary-key"] = b"Yes"
    ordered = message(2, "int8")
    ordered.metadata["lance-schema:unenforced-primary-key"] = b"1"
    ordered.metadata["lance-schema:unenforced-primary-key:position"] = b"1"
    long = message(3, "int8")  # Python itself refuses to read so many digits
    long.metadata["lance-schema:unenforced-primary-key"] = b"true"
    long.metadata["lance-schema:unenforced-primary-key:position"] = b"9" * 5000
    none = message(4, "int8")
    fields = fields_from_proto([new, old, ordered, long, none])
    assert [field.primary_key for field in fields] == [2, 0, 1, 0, None]


def test_what_legacy_files_need_is_kept() -> None:
    legacy = message(
        0,
        "dict:string:int8:false",
        encoding=3,
        dictionary=schema_pb2.Dictionary(offset=9, length=4),
    )
    (field,) = fields_from_proto([legacy])
    assert field.encoding is LegacyEncoding.DICTIONARY
    assert field.dictionary == DictionaryLocation(9, 4)
    (field,) = fields_from_proto([message(0, "int8", encoding=99)])
    assert field.encoding is LegacyEncoding.NONE


def test_the_extension_name_of_old_writers_joins_the_metadata() -> None:
    (field,) = fields_from_proto([message(0, "int8", extension_name="acme.old")])
    assert field.metadata == {EXTENSION: b"acme.old"}


def test_a_field_can_be_hashed_and_pickled() -> None:
    field = Field(0, "s", "struct", metadata={b"k": b"v"}, children=(Field(1, "a", "int8"),))
    assert pickle.loads(pickle.dumps(field)) == field
    assert len({field, pickle.loads(pickle.dumps(field))}) == 1


@pytest.mark.parametrize(
    "values",
    [
        "fixed_size_list:float:2",
        "dict:string:int8:false",
        "dict:" * 5000 + "string" + ":int8:false" * 5000,
    ],
)
def test_dictionaries_of_values_that_arrow_does_not_encode_are_not_supported(values: str) -> None:
    with pytest.raises(UnsupportedFeature, match=r"field 0 \(d\): dictionaries of "):
        Field(0, "d", f"dict:{values}:int8:false").to_arrow()
