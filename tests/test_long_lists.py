"""Lists of many literals in filters, as programs write them: `id in (1, 2, 3, …)`."""

from __future__ import annotations

import lance
import pytest
from filter_rows import ROWS
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples

import lancefs
from lancefs.errors import InvalidFilter
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.sql_filter import parse_filter

NUMBERS = st.sampled_from(
    [
        *("-3", "0", "7", "9007199254740993", "9" * 18, "9" * 19, "9" * 40, "007", "-0", "- 4"),
        *("+4", "1.5", "3.", "1e2", "-1.5", "null", "2 + 2", "(4)", "cast('4' as bigint)"),
    ]
)
STRINGS = st.sampled_from(
    [
        *("'Gent'", "'L''Île'", "''", "'a_b'", "','", "')'", "'(1,2'", "'--'", "' '", "'\n'"),
        *("null", "lower('GENT')", "('Lyon')"),
    ]
)
SEPARATORS = st.sampled_from([",", ", ", " ,", " , ", ",\n", ",\t  ", ", /* , */ ", ", -- ,\n"])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> LanceDataset:
    path = tmp_path_factory.mktemp("lists") / "t.lance"
    lance.write_dataset(ROWS, path)
    return lancefs.open(path)


def ids(table: LanceDataset, text: str) -> list[int]:
    found: list[int] = table.to_table(columns=["id"], filter=text)["id"].to_pylist()
    return found


@pytest.mark.parametrize(("column", "items"), [("big", NUMBERS), ("x", NUMBERS), ("city", STRINGS)])
@settings(max_examples=examples(150))
@given(data=st.data())
def test_a_list_means_the_same_however_its_items_are_written(
    table: LanceDataset, column: str, items: st.SearchStrategy[str], data: st.DataObject
) -> None:
    plain = st.just("7" if items is NUMBERS else "'Gent'")
    drawn = data.draw(st.lists(items | plain | plain, min_size=1, max_size=60))
    written = drawn[0]
    for item in drawn[1:]:
        written += data.draw(SEPARATORS) + item
    text = f"{column} {{}} ({data.draw(st.sampled_from(['', ' ', '  ']))}{written})"
    for operator in ("in", "not in"):
        # With a comment before each item, none is read together with others.
        singly = f"{column} {operator} (/**/{', /**/ '.join(drawn)})"
        expected = parse_filter(singly, table.manifest.fields)
        assert parse_filter(text.format(operator), table.manifest.fields).equals(expected)


def test_a_list_of_thousands_keeps_the_rows_that_pylance_keeps(table: LanceDataset) -> None:
    dataset = lance.dataset(table.uri)
    numbers = ", ".join(map(str, range(-5000, 5000)))
    words = ",".join(f"'city {n}'" for n in range(5000)) + ",'Gent'"
    for text in (f"big in ({numbers})", f"big not in ({numbers})", f"city in ({words})"):
        expected = dataset.to_table(columns=["id"], filter=text)["id"]
        assert ids(table, text) == expected.to_pylist()


@pytest.mark.parametrize(
    "text",
    [
        "array_has_any(tags, [" + ", ".join(["'b'"] * 20) + "])",
        "coalesce(city, " + ", ".join(["'x'"] * 20) + ") = 'x'",
        "id in (" + "1," * 20 + "2 + 1, 3)",
        "id in (" + "1," * 20 + "i, 3)",
    ],
)
def test_items_may_stand_wherever_lists_do(table: LanceDataset, text: str) -> None:
    singly = text.replace("'b',", "'b'/**/,").replace("'x',", "'x'/**/,").replace("1,", "1/**/,")
    expected = ids(table, singly)
    assert 0 < len(expected) < table.count_rows()
    assert ids(table, text) == expected


@pytest.mark.parametrize(
    ("list_of", "item", "error"),
    [
        ("id in ({})", "'three'", "'three' is not a value of the type int32"),
        ("city in ({})", "3", "3 is not a value of the type string"),
        ("city in ({})", "-3", "-3 is not a value of the type string"),
        ("id in ({})", "4 5", "',' was expected|'\\)' was expected"),
        ("id in ({})", "'open", "the quote ' is not closed"),
        ("id in ({})", "", "a column or a literal was expected"),
        ("id = ({})", "3", "'\\)' was expected|a column or a literal was expected"),
    ],
)
def test_what_is_wrong_is_found_in_its_place(
    table: LanceDataset, list_of: str, item: str, error: str
) -> None:
    other = "'a'" if "city" in list_of else "1"
    text = list_of.format(f"{other}, " * 20 + item + f", {other}" * 20)
    with pytest.raises(InvalidFilter, match=error) as caught:
        table.count_rows(text)
    wrong = text.find(item or ", ,")
    if item in ("'three'", "3", "-3") and " in " in list_of:
        assert f"at character {wrong + 1} of the filter" in str(caught.value)
