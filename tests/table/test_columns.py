"""Columns by name, and the schema as Arrow sees it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lancefs.datafile.fields import Field
from lancefs.errors import ColumnNotFound
from lancefs.table.schema import find_column, primary_key, shown_schema

CITY = Field(3, "city", "string")
DOTTED = Field(4, "b.c", "int8")
FIELDS = (
    Field(0, "id", "int64", False),
    Field(
        1,
        "user",
        "struct",
        children=(Field(2, "address", "struct", children=(CITY, DOTTED)),),
    ),
    Field(5, "user.address", "int8"),
    Field(6, "tags", "list", children=(Field(7, "item", "string"),)),
)


def test_the_schema_has_all_columns_and_its_metadata() -> None:
    schema = shown_schema(FIELDS, {b"k": b"v"})
    assert schema.names == ["id", "user", "user.address", "tags"]
    assert schema.metadata == {b"k": b"v"}
    assert shown_schema(FIELDS[:1], {}).equals(
        pa.schema([pa.field("id", pa.int64(), False)]), check_metadata=True
    )


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("id", [0]),
        ("user", [1]),
        ("user.address", [5]),  # a column's own name comes first
        ("user.address.city", [1, 2, 3]),
        ("user.address.b.c", [1, 2, 4]),
    ],
)
def test_a_name_leads_to_a_column_or_to_a_member(name: str, path: list[int]) -> None:
    assert [field.id for field in find_column(FIELDS, name)] == path


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ID", "did you mean 'id'"),
        ("user.adress.city", "did you mean 'user.address.city'"),
        ("tags.item", "tags is list<item: string>, and only members of structs"),
        ("zzzzzz", "the table has 4 columns: id, user, user.address, tags"),
    ],
)
def test_an_unknown_name_is_answered_with_similar_names(name: str, hint: str) -> None:
    with pytest.raises(ColumnNotFound) as caught:
        find_column(FIELDS, name)
    assert hint in str(caught.value)


def test_the_primary_key_is_ordered_by_position_then_by_id() -> None:
    key = (
        Field(9, "late", "int8", primary_key=0),
        Field(3, "second", "int8", primary_key=2),
        Field(4, "early", "int8", primary_key=0),
        Field(5, "s", "struct", children=(Field(6, "first", "int8", primary_key=1),)),
        Field(7, "none", "int8"),
    )
    assert [field.name for field in primary_key(key)] == ["first", "second", "early", "late"]
    assert primary_key(FIELDS) == ()
