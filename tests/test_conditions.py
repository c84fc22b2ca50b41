"""Filters keep the rows that Arrow's own evaluation keeps, whichever way they are tested."""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lancefs.scan import expressions
from lancefs.scan.condition_trees import conditions_of
from lancefs.scan.conditions import _LIKE_ASCII, Condition, by_column

TYPES: dict[str, pa.DataType] = {
    "i8": pa.int8(),
    "i64": pa.int64(),
    "u8": pa.uint8(),
    "u64": pa.uint64(),
    "day": pa.date32(),
    "milli": pa.date64(),
    "time": pa.timestamp("us", "UTC"),
    "span": pa.duration("ns"),
    "money": pa.decimal128(15, 2),
    "wide": pa.decimal128(38, 10),
    "text": pa.string(),
    "real": pa.float64(),
    "short": pa.float32(),
    "flag": pa.bool_(),
}
OPERATORS = {
    "equal": pc.equal,
    "less": pc.less,
    "less_equal": pc.less_equal,
    "greater": pc.greater,
    "greater_equal": pc.greater_equal,
    "not_equal": pc.not_equal,
}
DAY = 86_400_000


def _numbers(data_type: pa.DataType) -> st.SearchStrategy[int]:
    """Numbers that a type stores, the least and the greatest ones among them."""
    if pa.types.is_string(data_type) or pa.types.is_floating(data_type):
        return st.integers(-3, 12)
    if pa.types.is_boolean(data_type):
        return st.integers(0, 1)
    if pa.types.is_decimal(data_type):
        most = 10**data_type.precision - 1
        low, high = -most, most
    elif pa.types.is_unsigned_integer(data_type):
        low, high = 0, 2**data_type.bit_width - 1
    else:
        high = 2 ** (data_type.bit_width - 1) - 1
        low = -high - 1
    if data_type == pa.date64():
        days = st.integers(low // DAY + 1, high // DAY)
        return st.one_of(st.integers(-3, 3), days).map(lambda day: day * DAY)
    return st.one_of(st.integers(max(low, -3), 3), st.integers(low, high), st.just(low))


def _scalar(number: int, data_type: pa.DataType) -> pa.Scalar:
    if pa.types.is_string(data_type):
        return pa.scalar(str(number), data_type)
    if pa.types.is_floating(data_type):
        return pa.scalar(math.nan if number == 12 else number / 4, data_type)
    if pa.types.is_boolean(data_type):
        return pa.scalar(bool(number))
    if pa.types.is_decimal(data_type):
        return pa.scalar(Decimal(f"{number}e-{data_type.scale}"), data_type)
    return pa.scalar(number, data_type)


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    rows = draw(st.integers(0, 20))
    columns = {}
    for name, data_type in TYPES.items():
        numbers = draw(
            st.lists(st.none() | _numbers(data_type), min_size=rows + 1, max_size=rows + 1)
        )
        values = pa.array(
            [None if n is None else _scalar(n, data_type) for n in numbers], data_type
        )
        columns[name] = values.slice(1)  # as a batch that was cut is
    return pa.record_batch(columns)


@st.composite
def comparisons(draw: st.DrawFn) -> pc.Expression:
    name = draw(st.sampled_from(list(TYPES)))
    if draw(st.integers(0, 5)) == 0:
        return pc.field(name).is_valid()
    data_type = TYPES[name]
    literal = pc.scalar(_scalar(draw(_numbers(data_type)), data_type))
    compare = OPERATORS[draw(st.sampled_from(list(OPERATORS)))]
    sides = (pc.field(name), literal)
    return compare(*sides) if draw(st.booleans()) else compare(*reversed(sides))


def _expected(filter: pc.Expression, batch: pa.RecordBatch) -> list[bool]:
    found: list[bool] = pc.fill_null(expressions.evaluate_filter(filter, batch), False).to_pylist()
    return found


@given(batches(), st.lists(comparisons(), min_size=1, max_size=4))
def test_comparisons_keep_what_arrow_keeps(batch: pa.RecordBatch, terms: list[Any]) -> None:
    filter = terms[0]
    for term in terms[1:]:
        filter = filter & term
    assert by_column(conditions_of(expressions.as_tree(filter)), batch.schema) is not None
    expected = _expected(filter, batch)
    assert Condition(filter).evaluate(batch).tolist() == expected
    encoded = {name: batch[name].dictionary_encode() for name in batch.schema.names}
    assert Condition(filter).takes_items(batch.schema)
    assert Condition(filter).evaluate(pa.record_batch(encoded)).tolist() == expected


@st.composite
def memberships(draw: st.DrawFn) -> pc.Expression:
    name = draw(st.sampled_from(list(TYPES)))
    data_type = TYPES[name]
    numbers = draw(st.lists(_numbers(data_type), max_size=8))
    values = pa.array([_scalar(number, data_type) for number in numbers], data_type)
    member = pc.field(name).isin(values)
    if draw(st.booleans()):  # as DuckDB writes IN
        unknown = pa.scalar(None, pa.bool_())
        return pc.if_else(pc.field(name).is_valid(), member, unknown)
    return member


@given(batches(), st.lists(memberships(), min_size=1, max_size=3), st.lists(comparisons()))
def test_members_are_those_that_arrow_finds(
    batch: pa.RecordBatch, terms: list[Any], others: list[Any]
) -> None:
    filter = terms[0]
    for term in terms[1:] + others[:2]:
        filter = filter & term
    expected = _expected(filter, batch)
    assert Condition(filter).evaluate(batch).tolist() == expected
    names = expressions.columns_of(filter, batch.schema.names)
    encoded = pa.record_batch({name: batch[name].dictionary_encode() for name in names})
    if Condition(filter).takes_items(batch.select(names).schema):
        assert Condition(filter).evaluate(encoded).tolist() == expected


@st.composite
def conditions(draw: st.DrawFn) -> pc.Expression:
    """Draw a condition of any kind on one column, as people and DuckDB write it."""
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return pc.field(draw(st.sampled_from(list(TYPES)))).is_null()
    if kind == 1:
        match = draw(st.sampled_from([pc.starts_with, pc.ends_with, pc.match_like]))
        part, ignore_case = draw(st.text("-0123%_", max_size=3)), draw(st.booleans())
        text = pc.field("text") if draw(st.booleans()) else pc.utf8_lower(pc.field("text"))
        return match(text, part, ignore_case=ignore_case)
    if kind == 2:  # as DuckDB and lancefs write `>`, for which NaN is above all numbers
        name = draw(st.sampled_from(["real", "short"]))
        field, number = pc.field(name), pc.scalar(_scalar(draw(_numbers(TYPES[name])), TYPES[name]))
        return (field > number) | (pc.is_nan(field) if draw(st.booleans()) else field != field)
    return draw(memberships() if kind == 3 else comparisons())


FILTERS = st.recursive(
    conditions(),
    lambda inner: (
        st.tuples(inner, inner).map(lambda two: two[0] & two[1])
        | st.tuples(inner, inner).map(lambda two: two[0] | two[1])
        | inner.map(operator.invert)
    ),
    max_leaves=6,
)


@given(batches(), FILTERS, st.sampled_from([1, 4096]))
def test_and_or_and_not_keep_what_arrow_keeps(
    batch: pa.RecordBatch, filter: pc.Expression, least_rows: int
) -> None:
    try:
        expected = _expected(filter, batch)
    except pa.ArrowNotImplementedError:  # of booleans and the like
        assume(False)
    with patch("lancefs.scan.conditions._MIN_ROWS", least_rows):
        assert Condition(filter).evaluate(batch).tolist() == expected
    names = expressions.columns_of(filter, batch.schema.names)
    if Condition(filter).takes_items(batch.select(names).schema):
        encoded = pa.record_batch({name: batch[name].dictionary_encode() for name in names})
        assert Condition(filter).evaluate(encoded).tolist() == expected


@given(batches(), st.data())
def test_many_values_of_a_column_joined_by_or_are_those_that_arrow_finds(
    batch: pa.RecordBatch, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(list(TYPES)))
    numbers = data.draw(st.lists(_numbers(TYPES[name]), min_size=4, max_size=8))
    filter, *others = data.draw(
        st.permutations([pc.field(name) == _scalar(number, TYPES[name]) for number in numbers])
    )
    for other in [*others, *data.draw(st.lists(memberships() | comparisons(), max_size=2))]:
        filter = filter | other
    filter = ~filter if data.draw(st.booleans()) else filter
    assert Condition(filter).evaluate(batch).tolist() == _expected(filter, batch)
    encoded = {name: batch[name].dictionary_encode() for name in batch.schema.names}
    if Condition(filter).takes_items(batch.schema):
        found = Condition(filter).evaluate(pa.record_batch(encoded)).tolist()
        assert found == _expected(filter, batch)


def test_many_values_of_a_column_joined_by_or_are_looked_up_as_a_set() -> None:
    schema = pa.schema({name: TYPES[name] for name in ("i64", "day", "text", "u64")})
    for name, values, count in (
        ("i64", [5, 3, 8, 5, 9], 1),
        ("day", [datetime.date(2020, 1, day) for day in range(1, 6)], 1),
        ("text", ["a", "b", "c", "d"], 1),
        ("i64", [5, 3, 8], 3),
        ("u64", [5, 3, 8, 2**63], 4),
    ):
        filter, *others = [pc.field(name) == pa.scalar(value, TYPES[name]) for value in values]
        for other in others:
            filter = filter | other
        (test,) = by_column(conditions_of(expressions.as_tree(filter)), schema) or ()
        assert len(getattr(test, "terms", [test])) == count


@given(batches(), st.data())
def test_ranges_of_a_column_joined_by_or_keep_what_arrow_keeps(
    batch: pa.RecordBatch, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(list(TYPES)))
    drawn = data.draw(st.lists(st.lists(_numbers(TYPES[name]), min_size=3, max_size=3), min_size=4))
    ranges = []
    for low, high, other in drawn:
        ends = [_scalar(number, TYPES[name]) for number in (low, high, other)]
        inside = (pc.field(name) >= ends[0]) & (pc.field(name) <= ends[1])
        ranges.append(inside & (pc.field(name) != ends[2]) if other % 3 == 0 else inside)
    filter, *others = ranges
    for each in others:
        filter = filter | each
    if data.draw(st.booleans()):
        filter = filter & data.draw(memberships() | comparisons())
    try:
        expected = _expected(filter, batch)
    except pa.ArrowNotImplementedError:  # of booleans and the like
        assume(False)
    assert Condition(filter).evaluate(batch).tolist() == expected


@pytest.mark.parametrize("apart", [1, 7, 10**12], ids=str)
def test_ranges_are_found_whether_they_lie_close_or_far_apart(apart: int) -> None:
    ends = [-(2**63), 2**63 - 1, None]
    batch = pa.record_batch({"i64": [number * apart for number in range(-50, 50)] + ends})
    field = pc.field("i64")
    filter = (field >= 2**63 - 2) | (field <= -(2**63) + 1)
    for low in range(-40, 40, 9):
        filter = filter | ((field >= low * apart) & (field < (low + 3) * apart + 1))
    for more in (
        filter,
        filter & field.isin([-40 * apart, -36 * apart, 5]),
        filter & ((field == 5 * apart) | (field == 6 * apart) | (field == 7) | (field == 8)),
        filter & ((field < -30 * apart) | (field > 7) | (field == 0) | (field == 2)),
    ):
        tests = by_column(conditions_of(expressions.as_tree(more)), batch.schema)
        assert tests is not None
        assert len(tests) == 1
        assert Condition(more).evaluate(batch).tolist() == _expected(more, batch)


@pytest.mark.parametrize("apart", [1, 7, 10**12], ids=str)
def test_members_are_found_whether_they_lie_close_or_far_apart(apart: int) -> None:
    values = [number * apart for number in range(-3, 40, 3)]
    ends = [-(2**63), 2**63 - 1, None]
    batch = pa.record_batch({"i64": [number * apart for number in range(-50, 50)] + ends})
    for filter in (
        pc.field("i64").isin(values),
        pc.field("i64").isin([2**63 - 1, -(2**63)]),
        pc.field("i64").isin(values) & (pc.field("i64") > 0),
        pc.field("i64").isin(values) & pc.field("i64").isin(values[:3]),
        pc.field("i64").isin(values) & pc.field("i64").isin([1, 2]),
    ):
        tests = by_column(conditions_of(expressions.as_tree(filter)), batch.schema)
        assert tests is not None
        assert Condition(filter).evaluate(batch).tolist() == _expected(filter, batch)


LETTERS = st.text("aä%_\\", max_size=5)


@given(st.lists(st.none() | LETTERS, min_size=1, max_size=12), LETTERS, st.booleans())
def test_texts_hold_a_part_as_arrow_says(
    texts: list[str | None], part: str, is_pattern: bool
) -> None:
    batch = pa.record_batch({"text": pa.array(texts).cast(pa.string()).slice(1)})
    match = pc.match_like if is_pattern else pc.match_substring
    filter = match(pc.field("text"), f"%{part}%" if is_pattern else part)
    assert by_column(conditions_of(expressions.as_tree(filter)), batch.schema) is not None
    expected = _expected(filter, batch)
    assert Condition(filter).evaluate(batch).tolist() == expected
    encoded = pa.record_batch({"text": batch["text"].dictionary_encode()})
    assert Condition(filter).evaluate(encoded).tolist() == expected
    both = filter & (pc.field("text") > "a")
    assert Condition(both).evaluate(batch).tolist() == _expected(both, batch)


MATCHES = [pc.match_substring, pc.starts_with, pc.ends_with, pc.match_like]
# Two letters that are letters of ASCII in lower case, and others that are not.
CASES = st.text("kKiI\u212a\u0130\u0131\u017fäÄ[{", max_size=6)


@given(st.lists(st.none() | CASES, min_size=2, max_size=12), CASES, st.sampled_from(MATCHES))
def test_texts_match_in_lower_case_as_arrow_says(
    texts: list[str | None], part: str, match: Callable[..., pc.Expression]
) -> None:
    batch = pa.record_batch({"text": pa.array(texts).cast(pa.string()).slice(1)})
    for pattern in (part, part.lower(), "ki", "I"):
        filter = match(pc.utf8_lower(pc.field("text")), pattern)
        expected = _expected(filter, batch)
        assert Condition(filter).evaluate(batch).tolist() == expected
        encoded = pa.record_batch({"text": batch["text"].dictionary_encode()})
        assert Condition(filter).evaluate(encoded).tolist() == expected


def test_few_letters_are_letters_of_ascii_in_lower_case() -> None:
    letters = [chr(code) for code in range(0x80, 0x110000) if not 0xD800 <= code < 0xE000]
    lowered = pc.utf8_lower(pa.array(letters)).to_pylist()
    pairs = zip(letters, lowered, strict=True)
    assert {letter for letter, low in pairs if any(each.isascii() for each in low)} == {
        *_LIKE_ASCII
    }


MONEY = pa.record_batch(
    {
        "money": pa.array([Decimal("0.05"), Decimal("-0.06"), None, Decimal(7)], TYPES["money"]),
        "i8": pa.array([-128, 127, None, 5], pa.int8()),
        "u8": pa.array([0, 255, None, 5], pa.uint8()),
        "name": pa.array(["a", "b", None, "d"]),
        "share": pa.array([0.5, float("nan"), None, 2.0]),
        "day": pa.array([datetime.date(2026, 11, day) for day in (1, 2, 3, 4)]),
    }
)


@pytest.mark.parametrize(
    "filter",
    [
        pc.field("money") > pc.scalar(Decimal("0.0500000")),
        pc.field("money") >= pc.scalar(Decimal("0.049999")),
        pc.field("money") == pc.scalar(Decimal("0.0501")),
        pc.field("money") < pc.scalar(Decimal("1e30")),
        pc.field("i8") < pc.scalar(1000),
        pc.field("i8") > pc.scalar(1000),
        pc.field("u8") >= pc.scalar(-5),
        pc.field("u8") < pc.scalar(-5),
        pc.field("day") > pc.scalar(datetime.date(2026, 11, 2)),
        pc.field("name") == "a",
        (pc.field("i8") > 1) & (pc.field("name") > "a"),
    ],
    ids=str,
)
def test_literals_of_other_widths_and_scales_are_exact(filter: pc.Expression) -> None:
    assert by_column(conditions_of(expressions.as_tree(filter)), MONEY.schema) is not None
    assert Condition(filter).evaluate(MONEY).tolist() == _expected(filter, MONEY)


@pytest.mark.parametrize(
    "compare", [operator.eq, operator.lt, operator.le, operator.gt, operator.ge]
)
@pytest.mark.parametrize("number", [-1, 0, 5, 7, 8, 2**63 - 1, -(2**63)])
def test_decimals_are_compared_with_integers(compare: Callable[..., Any], number: int) -> None:
    filter = compare(pc.field("money"), number)
    values = MONEY["money"].to_pylist()
    said = [value is not None and compare(value, number) for value in values]
    assert Condition(filter).evaluate(MONEY).tolist() == said


def test_what_arrow_refuses_of_decimals_says_how_to_write_it() -> None:
    filter = (pc.field("money") > 5) | (pc.field("i8") > pc.field("u8"))
    with pytest.raises(pa.ArrowInvalid, match=r"write Decimal\('25'\) where"):
        Condition(filter).evaluate(MONEY)


@pytest.mark.parametrize(
    "filter",
    [
        pc.field("name") == pc.scalar(pa.scalar(None, pa.string())),
        pc.field("name") == pc.scalar(pa.scalar("a", pa.large_string())),
        pc.field("i8") > 1.5,
        pc.field("i8") > pc.scalar(pa.scalar(None, pa.int8())),
        pc.field("i8") < pc.field("u8"),
        (pc.field("i8") < pc.field("u8")) | (pc.field("i8") > 1),
        (pc.field("name") == "a") | (pc.field("share") > 1),
        pc.field("share").is_null(nan_is_null=True),
        pc.field("i8") != pc.field("i8"),
        pc.field("i8").isin([5, 127]),
        pc.scalar(True),
    ],
    ids=str,
)
def test_other_filters_are_left_to_arrow(filter: pc.Expression) -> None:
    assert by_column(conditions_of(expressions.as_tree(filter)), MONEY.schema) is None
    assert Condition(filter).evaluate(MONEY).tolist() == _expected(filter, MONEY)


@pytest.mark.parametrize(
    "filter",
    [
        pc.field("name").is_null(),
        pc.field("name").isin(["a", "d"]),
        ~(pc.field("name") == "a"),
        pc.match_like(pc.field("name"), "%d%"),
        (pc.field("name") == "b") | pc.field("name").is_null(),
        pc.field("name") > "a",
        pc.field("name").is_valid(),
    ],
    ids=str,
)
@pytest.mark.parametrize("index", [pa.int8(), pa.int32(), pa.uint16(), pa.int64()], ids=str)
def test_a_filter_of_one_column_is_tested_on_its_dictionary(
    filter: pc.Expression, index: pa.DataType
) -> None:
    plain = MONEY.select(["name"])
    encoded = plain["name"].dictionary_encode().cast(pa.dictionary(index, pa.string()))
    assert Condition(filter).takes_items(plain.schema)
    for first, last in ((0, 4), (1, 3), (2, 3), (4, 4)):
        batch = pa.record_batch({"name": encoded.slice(first, last - first)})
        expected = _expected(filter, plain.slice(first, last - first))
        assert Condition(filter).evaluate(batch).tolist() == expected


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("value", ["a", 7])
def test_a_dictionary_without_items_is_of_nulls(rows: int, value: str | int) -> None:
    items = pa.nulls(0, pa.scalar(value).type)
    empty = pa.DictionaryArray.from_arrays(pa.nulls(rows, pa.int32()), items)
    batch = pa.record_batch({"name": empty})
    assert Condition(pc.field("name") == value).evaluate(batch).tolist() == [False] * rows
    assert Condition(pc.field("name").is_null()).evaluate(batch).tolist() == [True] * rows


def test_a_filter_of_several_columns_at_once_takes_no_items() -> None:
    filter = (pc.field("name") == "a") | (pc.field("i8") > pc.field("u8"))
    assert not Condition(filter).takes_items(MONEY.select(["name", "i8", "u8"]).schema)


def test_a_filter_that_does_not_fit_is_arrows_error() -> None:
    with pytest.raises(pa.ArrowInvalid):
        Condition(pc.field("missing") > 1).evaluate(MONEY)


@pytest.mark.parametrize(
    "wanted", [[], [""], ["t1", "t1", "", "none"], [f"t{i}" for i in range(40)]]
)
def test_texts_of_many_rows_that_are_among_others_are_those_that_arrow_finds(
    wanted: list[str],
) -> None:
    texts = [f"{'long beginning ' * (i % 2)}t{i % 50}" if i % 7 else None for i in range(2000)]
    column = pa.array([*texts, "", "t1"])[3:]
    values = pa.array(wanted, pa.string())
    member = pc.field("t").isin(values)
    batch = pa.record_batch({"t": column})
    assert Condition(member).evaluate(batch).tolist() == _expected(member, batch)
    unknown = pc.if_else(pc.field("t").is_valid(), member, pa.scalar(None, pa.bool_()))
    for filter in (unknown, ~unknown, ~member):
        assert Condition(filter).evaluate(batch).tolist() == _expected(filter, batch)
