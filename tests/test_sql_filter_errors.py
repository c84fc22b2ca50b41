"""What is no filter in SQL text is refused, with the place and the reason."""

from __future__ import annotations

import sys
from typing import TypeAlias

import lance
import pyarrow.compute as pc
import pytest
from filter_rows import ROWS

import lancefs
from lancefs.datafile.fields import Field
from lancefs.errors import ColumnNotFound, InvalidFilter
from lancefs.scan.sql_filter import parse_filter

Fields: TypeAlias = tuple[Field, ...]


@pytest.fixture(scope="module")
def fields(tmp_path_factory: pytest.TempPathFactory) -> Fields:
    path = tmp_path_factory.mktemp("refused") / "t.lance"
    lance.write_dataset(ROWS, path)
    return lancefs.open(str(path)).manifest.fields


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "a column or a literal was expected, at the end of the filter: ''"),
        ("price >", "a column or a literal was expected, at the end of the filter: 'price >'"),
        ("price", "a comparison was expected, such as price > 3, at character 1"),
        ("price > 3 4", "'and', 'or' or the end was expected, at character 11 of the filter: '4'"),
        ("where price > 3", "a filter is a condition, without where, at character 1"),
        ("price > 3 ORDER BY id", "a filter is a condition, without ORDER, at character 11"),
        ("price > 3 limit 5", "a filter is a condition, without limit, at character 11"),
        ("price > 3)", "'and', 'or' or the end was expected, at character 10"),
        ("(price > 3", "')' was expected, at the end"),
        ("id > 1 & id < 3", "'&' has no meaning: write and, at character 8"),
        ("id > 1 | id < 3", "'|' has no meaning: write or, at character 8"),
        ("price ; drop", "';' has no meaning, at character 7 of the filter: '; drop'"),
        ("id = 'three'", "'three' is not a value of the type int32, at character 6"),
        ("id = 3e", "a number was expected, at character 6"),
        ("id = 1e999", "1e999 is too large for a number"),
        ("f < 1e40 or x < " + "9" * 350, "is not a value of the type double"),
        ("day > 'soon'", "'soon' is not a value of the type date32"),
        ("day > '2026-02-30'", "is not a value of the type date32"),
        ("day = date '2026-01-01T25:00'", "is not a value of the type date32"),
        ("plain > 3", "3 is not a value of the type timestamp[us]; a time stands in single quotes"),
        ("city = 3", "3 is not a value of the type string"),
        ("city in ('a', 3)", "3 is not a value of the type string"),
        ("gift = 1", "1 is not a value of the type bool"),
        ("tags = 'a'", "'a' is not a value of the type list<item: string>"),
        ("tags = nums", "do not go together"),
        ("user = user", "cannot be compared"),
        ("city > id", "string and int32 do not go together; cast one of them"),
        ("city like 3", "a pattern in quotes was expected"),
        ("id like '3'", "LIKE takes a string, not int32"),
        ("city like 'a!' escape '!'", "the pattern ends with the escape character !"),
        ("city like 'a' escape '!!'", "a single character in quotes was expected"),
        ("city = 'open", "the quote ' is not closed, at character 8 of the filter"),
        ("raw = X'0'", "non-hexadecimal number found"),
        ("1 < id < 3", "comparisons do not chain; 'and' was expected"),
        ("id not 3", "'in', 'between', 'like', 'ilike' or 'null' was expected"),
        ("id is 3", "null, true, false, unknown or distinct from was expected"),
        ("id is true", "a comparison was expected"),
        ("id in ()", "a column or a literal was expected"),
        ("not id", "a comparison was expected"),
        ("id and gift", "a comparison was expected"),
        ("city + 1 > 2", "arithmetic takes numbers, not string"),
        ("-city = 'a'", "arithmetic takes numbers, not string"),
        ("-'a' = city", "arithmetic takes numbers, not 'a'"),
        ("id = 1 / 0", "1 / 0 divides by zero"),
        ("price % 2 = 1", "% takes whole numbers or floats; write CAST(x AS double)"),
        ("Fooo(id) = 1", "there is no function Fooo; there are lower, substr, round"),
        ("Lowr(city) = 'a'", "there is no function Lowr; did you mean lower?"),
        ("Lower(city, 'a') = 'a'", "Lower takes 1 argument, not 2"),
        ("coalesce() = 'a'", "coalesce takes 1 or more arguments, not 0"),
        ("regexp_like(city) = 'a'", "regexp_like takes 2 to 3 arguments, not 1"),
        ("regexp_like(city, '(')", "Invalid regular expression"),
        ("regexp_like(city, 'a', 'q')", "the flags of regexp_like are i, m and s"),
        ("starts_with(city, note)", "starts_with takes a text in quotes"),
        ("length(id) = 1", "length takes a string, not int32"),
        ("array_has(city, 'a')", "array_has takes a column of lists first, not string"),
        ("array_has(tags, 1)", "1 is not a value of the type string"),
        ("array_has(tags, id)", "array_has looks for string, not int32"),
        ("array_has_any(tags, 'a')", "array_has_any takes a list such as ['a', 'b'] last"),
        ("lower(['a']) = 'a'", "lower takes no list here"),
        ("tags[1] = 'a'", "the name of a member in quotes was expected"),
        ("user. = 1", "the name of a member was expected"),
        ("cast(id as foo) = 1", "there is no type 'foo'; there are boolean, bool, tinyint"),
        ("cast(id as decimal(80, 2)) = 1", "a decimal has 1 to 76 digits"),
        ("cast(plain as timestamp(4)) = plain", "a timestamp has 0, 3, 6 or 9 digits"),
        ("cast(x as string) = '1.0'", "double cannot be cast to string"),
        ("cast('soon' as date) = day", "'soon' is not a value of the type date32"),
        ("cast(300 as tinyint) = i", "300 is not a value of the type int8"),
        ("int '3x' = id", "'3x' is not a value of the type int32"),
        ("day + interval '1 day' > day", "interval is not supported in a filter"),
        ("s\ud800 = 'a'", "the filter is not text"),
        ("city = '\ud800'", "the filter is not text"),
    ],
)
def test_what_is_no_filter_says_where_and_why(fields: Fields, text: str, expected: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse_filter(text, fields)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


TOO_LONG: dict[str, tuple[str, str]] = {
    "parentheses": (
        "(" * 200 + "id = 1" + ")" * 200,
        "the parentheses nest too deep (more than 100)",
    ),
    "digits": ("id = " + "9" * 100_000, "a number of 100,000 digits; at most 400 are read"),
    "digits and a letter": ("id = " + "9" * 100_000 + "x", "a number was expected"),
    "a fraction": ("x < 0." + "9" * 100_000, "a number of 100,002 digits; at most 400 are read"),
    "a product": ("id = " + " * ".join(["9999999999"] * 300), "gives no number"),
    "a sum": ("id < " + " + ".join(["id"] * 3000), "too many operations are inside each other"),
    "a tree": ("(" * 60 + "gift" + " between gift and true)" * 60, "too many operations"),
}


@pytest.mark.parametrize("what", TOO_LONG)
def test_a_filter_that_is_too_long_says_so(fields: Fields, what: str) -> None:
    text, expected = TOO_LONG[what]
    with pytest.raises(InvalidFilter) as caught:
        parse_filter(text, fields)
    assert expected in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_nested_filter_is_refused_where_the_stack_is_nearly_full(fields: Fields) -> None:
    text = "coalesce(" * 90 + "x" + ", 1)" * 90 + " > 1"

    def deep(calls: int) -> pc.Expression:
        return deep(calls - 1) if calls else parse_filter(text, fields)

    assert isinstance(deep(0), pc.Expression)
    with pytest.raises(InvalidFilter, match="nests too deep for the stack"):
        deep(sys.getrecursionlimit() - 400)


def test_a_column_that_is_not_there_names_the_nearest(fields: Fields) -> None:
    for text, expected in (
        ("prize > 3", "did you mean 'price'"),
        ("user.ago > 3", r"did you mean 'user.age'"),
        ("user['ago'] > 3", r"did you mean 'user.age'"),
        ('city = "Gent"', "a text stands in single quotes"),
        ("city = WWW", "a text stands in single quotes"),
    ):
        with pytest.raises(ColumnNotFound, match=expected):
            parse_filter(text, fields)
