"""Filters in SQL text keep the rows that DuckDB and pylance keep, and say what they do not know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from filter_rows import ROWS, N

import lancefs
from lancefs.errors import ColumnNotFound, InvalidFilter
from lancefs.index.predicates import intervals_of
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.conditions import Condition
from lancefs.scan.expressions import columns_of, evaluate
from lancefs.scan.index_predicates import index_predicate
from lancefs.scan.row_functions import remainder
from lancefs.scan.sql_filter import parse_filter
from lancefs.scan.sql_literals import unit_bounds
from lancefs.table.row_metadata import ROW_ID


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("where") / "t.lance"
    lance.write_dataset(ROWS, path, max_rows_per_file=5)
    return path


@pytest.fixture(scope="module")
def table(path: Path) -> LanceDataset:
    return lancefs.open(str(path))


@pytest.fixture(scope="module")
def by_duckdb() -> Iterator[Callable[[str], list[int]]]:
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        con.register("t", ROWS)

        def kept(text: str) -> list[int]:
            found = con.execute(f"SELECT id FROM t WHERE {text} ORDER BY id").fetchall()
            return [row for (row,) in found]

        yield kept


@pytest.fixture(scope="module")
def by_pylance(path: Path) -> Callable[[str], list[int]]:
    dataset = lance.dataset(path)
    return lambda text: dataset.to_table(columns=["id"], filter=text)["id"].to_pylist()


def kept(table: LanceDataset, text: str) -> list[int]:
    expression = parse_filter(text, table.manifest.fields)
    ids: list[int] = table.to_table(columns=["id"], filter=expression)["id"].to_pylist()
    return ids


BOTH = """
id = -1
-1 < id
id == 3
id <> 3 and id != 4
i = -7 or i > 5
i > id
id = big
u > i
ubig > big
ubig = 5
ubig in (0, 5)
x > 0
x >= 0
x = 0.0
x in (0.0, 1.5)
x < 1e300
x != 1.5
not x > 0
x between 0 and 2
x not between 0 and 2
x = cast('NaN' as double)
x >= cast('NaN' as double)
x < cast('NaN' as double)
x <= cast('NaN' as double)
x > cast('NaN' as double)
x != cast('NaN' as double)
x not in (1.5, 3)
x = f
x < f
x <= f
x != f
x = id
f = 0.1
f > 0.1
f in (0.1, 2)
price > 1
price = 3
price = decimal(8, 2) '2.50'
price > decimal(10, 3) '1.245'
price > id
price = wide
city = 'Gent'
'Gent' = city
city = 'L''Île'
city < 'M'
city != note
city like 'L%'
city like '%en%'
city not like '_ent'
city ilike 'GENT'
city not ilike 'g%'
city like NULL
not city in ('Gent', 'Lyon')
city not in ('Gent')
city in ('Gent', NULL)
city not in ('Gent', NULL)
city is null or id in (1, 2, 3)
id in (1, big)
3 in (id, 2)
gift
not gift
gift = true
gift < true
gift is true
gift is not true
gift is false
gift is not false
gift is null
gift is not null
gift = (id > 4)
(i > 1) is null
i > 1 is null
not i > 1 is not null
id is distinct from 3
i is not distinct from NULL
i is distinct from u
i not null
gift and NULL
gift or NULL
not NULL
NULL is null
i = NULL
1 = 1
'a' = 'b'
TRUE
false
day >= date '2026-01-05'
day > timestamp '2026-01-04 12:00:00'
day = cast('2026-01-02' as date)
sent < timestamp '2026-01-02 05:00:00Z'
sent >= date '2026-01-02'
sent > day
plain = timestamp '2026-01-01T06:00:00'
plain > timestamp '2026-01-01 12:00:00.0000001'
plain <= day
raw = X'0aff'
raw > x'00'
user.age = 2
user['age'] > 3
user.Name is null
user is null
user.age = id
array_has(tags, 'a')
not array_has(tags, 'a')
array_has(tags, city)
array_has(tags, NULL)
array_contains(tags, 'b')
list_contains(nums, 2)
array_has(nums, 1.5)
array_has(pair, 1)
array_has_any(tags, ['a', 'Gent'])
array_has_all(tags, ['a', 'b'])
array_has_all(nums, [1, 2])
array_has_any(tags, array['z'])
array_length(tags) = 0
starts_with(city, 'L')
not ends_with(city, 't')
contains(note, 'y')
lower(city) = 'gent'
UPPER(city) = 'GENT'
length(city) = 4
char_length(note) = 1
character_length(city) > 4
abs(i) = 7
abs(x) = 2.5
abs(price) = 2.5
isnan(x)
not isnan(x)
isnan(x) is null
isnan(x * 2) or id = 1
coalesce(i, 9) = 9
coalesce(city, 'none') = 'none'
coalesce(gift, true)
coalesce(NULL, i, id) = 3
id + 1 = 3
id - -3 = 5
3 - id = 1
id * 2 + 1 > 7 and id % 3 = 1
i % 3 = -1
-id = -3
-(-id) = 3
id * 3000000000 > 6000000000
x * 2 = 3
x + 1 > 2
x % 1 = 0.5
price + 1 = 2.25
price * price = 6.25
price / 2 > 1
ubig % 5 = 0
u + 1 = 8
x = 3 / 2
cast(i as bigint) = 7
i::double = 7
cast(id as string) = '3'
cast(id as string) = '03' or cast(id as string) != '1'
not cast(ubig as string) = '18446744073709551615'
cast(i as string) in ('7', '-0', '99999999999999999999')
cast(i as string) not in ('7', 'x')
cast(i as double) > 6.5
cast(cast(i as bigint) as string) = '7'
cast(day as string) = '2026-01-02'
cast(note as string) = 'Gent' or cast(note as string) like 'x%'
cast(gift as int) = 1
cast(id as boolean)
cast(plain as date) = date '2026-01-02'
cast(sent as timestamp) = timestamp '2026-01-01 06:00:00'
cast(day as timestamp) = plain
cast('3' as int) = id
cast(NULL as int) = id
int '3' = id
(id + 1) * 2 = 4
((id = 1) or (id = 2 and not (gift)))
id = 1 -- or all
/* all */ id = 1
ID = 3
"""
# Where pylance refuses the text, or differs from standard SQL.
LIKE_DUCKDB = """
price > 3.125
price = 2.5
price <> 2.5
price = 1e-1
price in (1.25, 3, 7.777)
price < 100000000000000000000
3 < price
id > 3.5
id = 3.0
id = 1.5
id in (1.5, 2)
id not in (1.5, 2)
id between 1.5 and 3.5
i > 1000
i < 1000
i <> 1000
i > -1000
i = 1000
u > -1
u = -1
u <> -1
big < 9223372036854775808
big < 100000000000000000000
ubig > -1
id = '3'
x = 'NaN'
x > 'inf'
x >= 1e0 and x < 2
wide = x
price > x
price = f
f + 0.1 = 0.2
f * 2 = 0.2
f + 1 = 1.1
gift = 'true'
gift is unknown
gift is not unknown
city like 'a\\_b'
city like 'a\\b'
city like 'a!_b' escape '!'
city like '100!%' escape '!'
city like 'a_b'
city ilike 'L!%' escape '!' or city ilike '%!%' escape '!'
day = '2026-01-02'
day in ('2026-01-02', date '2026-01-03')
day between '2026-01-02' and '2026-01-06'
sent < '2026-01-02T05:00:00Z'
sent < '2026-01-02 05:00:00'
plain > '2026-01-01 06:00:00.5'
plain = '2026-01-02'
sent = plain
clock > '02:00:00'
clock = time '01:30:00'
raw = 'Gent'
x / 0 > 1
array_has_any(tags, ['a', NULL])
array_has_all(tags, ['a', NULL])
array_has_all(tags, [])
array_has_any(tags, [])
array_has(nums, '1')
cast(price as decimal(8, 1)) = 1.3
cast(id as real) = 3
cast(id as varchar) = '3'
cast(id as numeric(10, 2)) = 3
cast(id as utinyint) = 3
id::int8 = 3
cast(id as double precision) = 3
user.name = 'n1'
user."Name" = 'n1'
"odd name" = 7
"order" <= 2
regexp_matches(city, '^G')
+id = 3
id = 1 + -2 * -3
id < 7 / 2
"""
# Where DuckDB refuses the text, or means something else that standard SQL leaves open.
LIKE_PYLANCE = """
`odd name` = 7
`user`.`Name` = 'n1'
id / 2 = 1
-id / 2 = -2
cast(id * 0.4 as int) = 2
cast(price as int) + 0 = 1
cast(price as int) + 0 = -2
cast(id as int unsigned) = 3
cast(id as tinyint unsigned) = 3
plain = timestamp '2026-01-01T11:00:00+05:00'
regexp_like(city, '^G')
not regexp_like(city, 'e')
regexp_like(city, '^g', 'i')
regexp_like(note, 'x.y')
regexp_like(note, 'x.y', 's')
regexp_like(city, NULL)
regexp_match(city, 'e')
not regexp_match(city, 'e')
array_has_any(tags, make_array('a', 'z'))
cast(city as binary) = X'47656e74'
_rowid in (3, 5)
_rowaddr > 2
_ROWID = 3
"""


def cases(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.mark.parametrize("text", cases(BOTH) + cases(LIKE_DUCKDB))
def test_a_filter_keeps_the_rows_that_duckdb_keeps(
    table: LanceDataset, by_duckdb: Callable[[str], list[int]], text: str
) -> None:
    text = text.replace("\\\\", "\\")
    # DuckDB needs a line end after a comment.
    assert kept(table, text) == by_duckdb(text + "\n")


@pytest.mark.parametrize("text", cases(BOTH) + cases(LIKE_PYLANCE))
def test_a_filter_keeps_the_rows_that_pylance_keeps(
    table: LanceDataset, by_pylance: Callable[[str], list[int]], text: str
) -> None:
    assert kept(table, text) == by_pylance(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # 200 + 100 does not overflow: whole numbers are calculated with 64 bits.
        ("u + 100 = 300", [2, 6, 10]),
        # A missing string does not match, and an unknown is not true.
        ("regexp_match(city, 'e') is null", []),
        # The instant counts, not the clock of the zone.
        ("sent = timestamp '2026-01-01T11:00:00+05:00'", [1]),
        ("sent = '2026-01-01T01:30-0430'", [1]),
        ("cast(user.age as decimal(40, 20)) * 1.5 = 3", [2]),
        ("user.age in (NULL)", []),
        ("x in (NULL, 1.5)", [2, 10]),
        ("id in (1e400 - 1)", None),
        ("date '2026-01-01' = date and id = 0", [0]),
        ("date = '2026-01-01' and id = 0", [0]),
        ("i = 1 - 3", [1, 9]),
        ("3 / 2 * 2 = 3 and id = 0", [0]),
        ("1 / 3 < 0.34 and 1 / 3 > 0.33 and id = 0", [0]),
        ("7 % -3 = 1 and -7 % 3 = -1 and id = 0", [0]),
        ("'2026-01-01' < day and id < 5", [1, 2, 4]),
        ("_rowoffset between 2 and 4", [2, 3, 4]),
        ("_row_created_at_version = 1 and id = 1", [1]),
    ],
)
def test_a_filter_keeps_these_rows(
    table: LanceDataset, text: str, expected: list[int] | None
) -> None:
    if expected is None:
        with pytest.raises(InvalidFilter):
            kept(table, text)
    else:
        assert kept(table, text) == expected


PATHS = [r"C:\a", r"C:\\a", "C:a", r"D:\a\b", "\\", "xa_", None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"path like 'C:\%'", [0, 1]),
        (r"path like '%\a'", [0, 1]),
        (r"path like '%\a%'", [0, 1, 3]),
        (r"path like '%\%'", [0, 1, 3, 4]),
        (r"path like 'C:\a'", [0]),
        (r"path like '%:\_\%'", [3]),
        (r"path like 'c:\%'", []),
        (r"path ilike 'c:\%'", [0, 1]),
        (r"path not like 'C:\%'", [2, 3, 4, 5]),
        (r"path like '%\\a%' escape '\'", [0, 1, 3]),
        (r"path like '%!\%' escape '!'", [0, 1, 3, 4]),
        ("path ilike 'xa%' escape 'X'", [5]),
        ("path ilike 'xaX_' escape 'X'", [5]),
    ],
)
def test_a_backslash_in_a_pattern_is_a_character(
    tmp_path: Path, text: str, expected: list[int]
) -> None:
    rows = pa.table({"path": PATHS, "id": range(len(PATHS))})
    lance.write_dataset(rows, tmp_path / "t.lance")
    assert kept(lancefs.open(str(tmp_path / "t.lance")), text) == expected


def test_names_that_differ_in_capitals_only_are_told_apart(tmp_path: Path) -> None:
    rows = pa.table({"Day": [1, 2], "day": [2, 2], "DAYS": [3, 4]})
    lance.write_dataset(rows, tmp_path / "t.lance")
    table = lancefs.open(str(tmp_path / "t.lance"))
    for text, count in (("Day = 1", 1), ("day = 1", 0), ("days = 3", 1)):
        assert table.count_rows(filter=parse_filter(text, table.manifest.fields)) == count
    with pytest.raises(ColumnNotFound, match="did you mean"):
        parse_filter("DAY = 1", table.manifest.fields)


LONG: dict[str, tuple[str, list[int]]] = {
    "ANDs": (" and ".join(f"id <> {n}" for n in range(1, 3001)), [0]),
    "ORs": (" or ".join(f"id = {n}" for n in range(9, 3009)), [9, 10, 11]),
    "a list": ("id in (" + ", ".join(str(n) for n in range(10, 20_000)) + ")", [10, 11]),
    "parentheses": ("(" * 99 + "id = 1" + ")" * 99, [1]),
    "ANDs in parentheses": ("(" * 99 + "id = 1" + " and id < 5)" * 99, [1]),
    "NOTs": ("not " * 2001 + "id < 11", [11]),
    "signs": ("id = " + "- " * 2000 + "7", [7]),
    "constants": ("id = " + " + ".join(["1"] * 3000) + " - 2999", [1]),
    "columns": ("id < " + " + ".join(["id"] * 200), list(range(1, N))),
    "digits": ("id < " + "9" * 400, list(range(N))),
    "a string": ("city = '" + "a" * 1_000_000 + "' or id = 1", [1]),
    "a pattern": ("city like '" + "a%" * 10_000 + "' or id = 1", [1]),
}


@pytest.mark.parametrize("what", LONG)
def test_a_long_filter_works(table: LanceDataset, what: str) -> None:
    text, expected = LONG[what]
    assert kept(table, text) == expected


@pytest.mark.parametrize(
    "text", ["big * 4 > 1", "id % (id - 2) = 1", "id / (id - 2) = 1", "cast(city as int) = 1"]
)
def test_what_fails_for_a_value_names_the_filter(table: LanceDataset, text: str) -> None:
    expression = parse_filter(text, table.manifest.fields)
    batch = table.to_table().combine_chunks().to_batches()[0]
    columns = batch.select([name for name in ("id", "big", "city") if name in text])
    with pytest.raises(InvalidFilter, match=r"the filter '.*' fails for a row: "):
        Condition(expression, text).evaluate(columns)
    with pytest.raises(pa.ArrowInvalid):
        Condition(expression).evaluate(columns)


@pytest.mark.parametrize(
    "text",
    [
        "id > 3.5",
        "id < 1000000000000 and price >= 1.255",
        "day between '2026-01-02' and timestamp '2026-01-04 12:00:00'",
        "city = 'Gent' and sent < '2026-01-02'",
        "ubig > -1",
    ],
)
def test_ranges_of_columns_are_evaluated_on_stored_numbers(table: LanceDataset, text: str) -> None:
    expression = parse_filter(text, table.manifest.fields)
    schema = pa.schema(
        [ROWS.schema.field(name) for name in columns_of(expression, ROWS.schema.names)]
    )
    assert Condition(expression).takes_items(schema)


def test_row_ids_are_found_without_a_scan(table: LanceDataset) -> None:
    for text, intervals in (
        ("_rowid in (3, 5)", [(3, 3), (5, 5)]),
        ("_rowid = 3 or _rowid = 5", [(3, 3), (5, 5)]),
        ("_rowid > 2.5 and _rowid <= 4", [(3, 4)]),
    ):
        condition = Condition(parse_filter(text, table.manifest.fields))
        predicate = index_predicate(condition, {"_rowid": ROW_ID})
        assert predicate is not None
        assert intervals_of(predicate, ROW_ID.id) == intervals


def test_the_expression_reads_only_the_columns_that_the_text_names(table: LanceDataset) -> None:
    filter = parse_filter("array_has(tags, city) or user.age > 3", table.manifest.fields)
    assert table.scanner(columns=["id"], filter=filter).to_table().num_rows > 0
    assert isinstance(filter, pc.Expression)


@pytest.mark.parametrize(
    ("cast", "plain"),
    [
        ("cast(id as string) = '3'", "id = 3"),
        ("'3' != cast(id as string)", "id != 3"),
        ("cast(id as string) in ('3', '4')", "id in (3, 4)"),
        ("cast(id as double) >= 2.5", "id >= 2.5"),
        ("cast(u as bigint) = 7", "u = 7"),
        ("cast(cast(u as bigint) as string) = '7'", "u = 7"),
    ],
)
def test_a_cast_of_whole_numbers_is_compared_as_these_are(
    table: LanceDataset, cast: str, plain: str
) -> None:
    fields = table.manifest.fields
    assert parse_filter(cast, fields).equals(parse_filter(plain, fields))


@pytest.mark.parametrize("data_type", [pa.int64(), pa.uint64()])
def test_remainders_by_one_number_have_the_sign_of_the_dividend(data_type: pa.DataType) -> None:
    low, high = unit_bounds(data_type)
    some = [low, low + 1, -8, -7, -1, 0, 1, 6, 7, 8, 1000, high - 1, high]
    numbers = [number for number in some if number >= low]
    rows = pa.record_batch({"n": pa.array([*numbers, None], data_type)})
    for divisor in (number for number in numbers if number):
        by = pc.scalar(pa.scalar(divisor, data_type))
        (found,) = evaluate([remainder(pc.field("n"), by, data_type)], rows)
        expected = [abs(n) % abs(divisor) * (-1 if n < 0 else 1) for n in numbers]
        assert found.to_pylist() == [*expected, None]
