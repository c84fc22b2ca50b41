"""Random columns: hypothesis strategies for fields, with nested types and encoding metadata."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from hypothesis import strategies as st

from agreement.values import ALPHABETS, SHAPES, SIZES, Profile


@dataclass(frozen=True)
class Format:
    """A version of the data files, and what tables of it can hold.

    Attributes:
        version: As pylance spells it.
        maps: Columns of maps.
        fixed_size_structs: Fixed-size lists of structs.
        packed_text: Packed structs with strings.
        encodings: Metadata that chooses encodings.
        required: Fields that are not nullable; pylance reads empty strings of 0.1 as nulls, and
            then fails where there may be none.
        faithful: What is read is what was written; older formats lose some nulls.
    """

    version: str
    maps: bool = True
    fixed_size_structs: bool = True
    packed_text: bool = True
    encodings: bool = True
    required: bool = True
    faithful: bool = True

    def __str__(self) -> str:
        return self.version


@dataclass(frozen=True)
class Column:
    """A field, and what its values are like."""

    field: pa.Field
    profile: Profile

    @property
    def as_written(self) -> bool:
        """Whether what is read are the values that were written: of blobs it is where they are."""
        return b"lance-encoding:blob" not in (self.field.metadata or {})


NUMBERS = [
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.int8(),
    pa.uint8(),
    pa.int16(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
    pa.float16(),
]
TEXTS = [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()]
_OTHERS = [
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ms", "+05:30"),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    pa.decimal128(5, 2),
    pa.decimal128(38, 10),
    pa.decimal256(60, 5),
    pa.null(),
    pa.uuid(),
]
_MINIBLOCK_OR_FULLZIP = {"lance-encoding:structural-encoding": ["miniblock", "fullzip"]}
_COMPRESSION = {"lance-encoding:compression": ["zstd", "lz4", "fsst", "none"]}
_OTHER_KEYS = {
    "lance-encoding:compression-level": ["1", "9"],
    "lance-encoding:rle-threshold": ["0.01", "0.5", "1.0"],
    "lance-encoding:bss": ["on", "off", "auto"],
    "lance-encoding:dict-divisor": ["1", "2", "100000"],
    "lance-encoding:dict-size-ratio": ["0.1", "0.99"],
    "lance-encoding:dict-values-compression": ["lz4", "zstd", "none"],
    "lance-encoding:minichunk-size": ["256", "1024", "16384"],
}

PROFILES = st.builds(
    Profile,
    shape=st.sampled_from(SHAPES),
    nulls=st.sampled_from([0.0, 0.1, 0.5, 0.95, 1.0]),
    size=st.sampled_from(SIZES),
    alphabet=st.sampled_from(ALPHABETS),
    bits=st.integers(0, 64),
)


def columns(format_: Format, most: int = 4) -> st.SearchStrategy[list[Column]]:
    """Random columns, each with a name of its own.

    Args:
        format_: What the data files can hold.
        most: At most this many.
    """
    drawn = st.lists(st.tuples(_top_fields(format_), PROFILES), min_size=1, max_size=most)
    return drawn.map(
        lambda found: [
            Column(field.with_name(f"c{index}"), profile)
            for index, (field, profile) in enumerate(found)
        ]
    )


def _top_fields(format_: Format) -> st.SearchStrategy[pa.Field]:
    kinds = [leaf_fields(format_), leaf_fields(format_), nested_fields(format_, 3)]
    if format_.encodings:
        kinds += [_packed_fields(format_), st.just(_BLOB)]
    if format_.fixed_size_structs:
        # Not inside of lists: pylance writes those, and cannot read them.
        members = st.lists(leaf_fields(format_), min_size=1, max_size=3)
        types = st.builds(pa.list_, members.map(_struct).map(_item), st.integers(1, 4))
        kinds.append(st.builds(_field, types, st.booleans(), st.none()))
    return st.one_of(kinds)


_BLOB = pa.field("x", pa.large_binary(), metadata={"lance-encoding:blob": "true"})


def leaf_fields(format_: Format) -> st.SearchStrategy[pa.Field]:
    """Fields of types that hold no others (except that fixed-size lists of numbers are leaves)."""
    return st.builds(
        _field, _leaf_types(), _nullable(format_), _metadata() if format_.encodings else st.none()
    )


def nested_fields(format_: Format, depth: int) -> st.SearchStrategy[pa.Field]:
    """Fields of structs, lists and maps, so many types deep at most."""
    below = leaf_fields(format_)
    if depth > 1:
        below = st.one_of(below, nested_fields(format_, depth - 1))
    item = below.map(lambda field: field.with_name("item"))
    members = st.lists(below, min_size=1, max_size=3)
    kinds = [
        members.map(_struct),
        item.map(pa.list_),
        item.map(pa.large_list),
    ]
    if format_.maps:
        keys = st.sampled_from([pa.string(), pa.int32(), pa.int64()])
        kinds.append(st.builds(_map, keys, below))
    return st.builds(_field, st.one_of(kinds), _nullable(format_), st.none())


def _nullable(format_: Format) -> st.SearchStrategy[bool]:
    return st.booleans() if format_.required else st.just(True)


def _leaf_types() -> st.SearchStrategy[pa.DataType]:
    plain = st.sampled_from(NUMBERS)
    # Items are nullable: pylance forgets of fixed-size lists of numbers that they are not.
    fixed_size_lists = st.builds(
        lambda item, size: pa.list_(pa.field("item", item), size),
        plain.filter(lambda data_type: data_type != pa.bool_()),
        st.sampled_from([1, 2, 3, 16, 200]),
    )
    dictionaries = st.builds(
        pa.dictionary,
        st.sampled_from([pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint32(), pa.int64()]),
        st.sampled_from([pa.string(), pa.large_string(), pa.int64(), pa.binary()]),
    )
    return st.one_of(
        plain,
        st.sampled_from(TEXTS),
        st.sampled_from(_OTHERS),
        st.builds(pa.binary, st.sampled_from([1, 2, 3, 8, 16, 17, 300])),
        fixed_size_lists,
        dictionaries,
    )


def _packed_fields(format_: Format) -> st.SearchStrategy[pa.Field]:
    members = NUMBERS[:4] + NUMBERS[5:] + (TEXTS if format_.packed_text else [])
    types = st.lists(st.sampled_from(members), min_size=1, max_size=4)
    fields = types.map(lambda found: [pa.field("x", data_type, False) for data_type in found])
    return st.builds(
        _field, fields.map(_struct), st.booleans(), st.just({"lance-encoding:packed": "true"})
    )


def _metadata() -> st.SearchStrategy[dict[str, str] | None]:
    """No metadata mostly, else some keys with a value each."""
    keys = {**_MINIBLOCK_OR_FULLZIP, **_COMPRESSION, **_OTHER_KEYS}
    pairs = st.sampled_from([(key, value) for key, values in keys.items() for value in values])
    drawn = st.lists(pairs, min_size=1, max_size=3).map(dict)
    return st.one_of(st.none(), st.none(), drawn)


def _field(
    data_type: pa.DataType, nullable: bool = True, metadata: dict[str, str] | None = None
) -> pa.Field:
    # A field of the null type must be nullable.
    return pa.field("x", data_type, nullable or pa.types.is_null(data_type), metadata)


def _item(data_type: pa.DataType) -> pa.Field:
    return pa.field("item", data_type)


def _struct(members: list[pa.Field]) -> pa.DataType:
    return pa.struct([field.with_name(f"m{index}") for index, field in enumerate(members)])


def _map(key: pa.DataType, item: pa.Field) -> pa.DataType:
    return pa.map_(key, item.with_name("value"))
