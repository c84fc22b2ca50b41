"""Filters in SQL text keep the rows that DuckDB and pylance keep, and say what they do not know."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancefs
from lancefs.errors import ColumnNotFound, InvalidFilter
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.conditions import Condition
from lancefs.scan.expressions import columns_of, values_of
from lancefs.scan.sql_filter import parse_filter

N = 12
NAN = float("nan")
START = datetime(2026, 1, 1, tzinfo=UTC)


def gaps(values: list[object]) -> list[object]:
    """Leave every fifth value out."""
    return [None if i % 5 == 3 else values[i % len(values)] for i in range(N)]


ROWS = pa.table(
    {
        "id": pa.array(range(N), pa.int32()),
        "i": pa.array(gaps([-7, -2, 0, 0, 3, 5, 7, 127]), pa.int8()),
        "big": pa.array(gaps([2**53 + 1, -(2**63), 2**63 - 1, 0, 4]), pa.int64()),
        "u": pa.array(gaps([0, 1, 200, 7]), pa.uint8()),
        "ubig": pa.array(gaps([0, 2**64 - 1, 5, 3, 2**63]), pa.uint64()),
        "x": pa.array(gaps([0.0, -0.0, 1.5, NAN, -2.5, 0.1, float("inf"), 3.0]), pa.float64()),
        "f": pa.array(gaps([0.1, -0.0, 1.5, NAN, NAN, 2.0]), pa.float32()),
        "price": pa.array(
            gaps([Decimal(n).scaleb(-2) for n in (125, 10, -250, 0, 250, 300)]),
            pa.decimal128(8, 2),
        ),
        "wide": pa.array(
            gaps([Decimal("0.1"), Decimal("1.5"), Decimal("-2.5"), Decimal("3")]),
            pa.decimal128(38, 20),
        ),
        "city": pa.array(gaps(["Gent", "Lyon", "L'Île", "gent", "100%", "a_b", "a\\b", ""])),
        "note": pa.array(gaps(["x\ny", "ß", "Gent", "e", "lyon"]), pa.large_string()),
        "gift": pa.array(gaps([True, False, True, True, False])),
        "day": pa.array(gaps([date(2026, 1, n + 1) for n in range(N)])),
        "sent": pa.array(
            gaps([START + timedelta(hours=6 * n) for n in range(N)]), pa.timestamp("us", "UTC")
        ),
        "plain": pa.array(
            gaps([datetime(2026, 1, 1) + timedelta(hours=6 * n) for n in range(N)]),
            pa.timestamp("us"),
        ),
        "clock": pa.array(gaps([time(n, 30) for n in range(N)]), pa.time64("us")),
        "raw": pa.array(gaps([b"\x0a\xff", b"Gent", b"", b"a"])),
        "user": pa.array(
            gaps([{"age": n, "Name": None if n == 2 else f"n{n}"} for n in range(N)]),
            pa.struct([("age", pa.int64()), ("Name", pa.string())]),
        ),
        "tags": pa.array(
            gaps([["a", "b"], [], ["a", None], ["b"], [None], ["Gent"]]), pa.list_(pa.string())
        ),
        "nums": pa.array(gaps([[1, 2], [], [1, None], [2]]), pa.large_list(pa.int32())),
        "pair": pa.array(gaps([[1.0, 2.0], [NAN, 0.0], [0.1, None]]), pa.list_(pa.float32(), 2)),
        "odd name": pa.array(range(N)),
        "order": pa.array(range(N)),
        "date": pa.array([date(2026, 1, 1)] * N),
    }
)


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


KINDS = pa.table(
    {
        "half": pa.array([0.1, None, NAN, -0.0], pa.float16()),
        "halves": pa.array([[0.1, 2.0], None, [NAN], []], pa.list_(pa.float16())),
        "kind": pa.array(["a", "b", None, "a"]).dictionary_encode(),
        "big_text": pa.array(["a", None, "c", "A"], pa.large_string()),
        "day64": pa.array(
            [date(2026, 1, 1), None, date(1969, 12, 31), date(2026, 1, 2)], pa.date64()
        ),
        "nano": pa.array([1_767_225_600_000_000_001, None, 0, -1], pa.timestamp("ns")),
        "zoned": pa.array(
            [START, None, START - timedelta(hours=1), START], pa.timestamp("ms", "Asia/Tokyo")
        ),
        "clock": pa.array([time(1), None, time(2), time(3)], pa.time32("s")),
        "span": pa.array(
            [timedelta(seconds=1), None, timedelta(0), timedelta(1)], pa.duration("s")
        ),
        "uuid": pa.ExtensionArray.from_storage(
            pa.uuid(), pa.array([b"a" * 16, None, b"b" * 16, b"c" * 16], pa.binary(16))
        ),
        "code": pa.array([b"ab", None, b"ac", b"zz"], pa.binary(2)),
        "codes": pa.array([[b"ab"], None, [b"ac", None], []], pa.list_(pa.binary(2))),
        "bytes": pa.array([b"ab", None, b"ac", b"z"], pa.large_binary()),
        "deep": pa.array([Decimal("1.5"), None, Decimal(2), Decimal(0)], pa.decimal256(60, 10)),
        "texts": pa.array([["a"], None, ["b", None], []], pa.large_list(pa.large_string())),
        "strict": pa.array(
            [["a"], ["b"], [], ["c"]], pa.list_(pa.field("item", pa.string(), nullable=False))
        ),
        "pairs": pa.array([[{"a": 1}], None, [], []], pa.list_(pa.struct([("a", pa.int8())]))),
        "days": pa.array([[date(2026, 1, 1)], None, [], [None]], pa.list_(pa.date32())),
        "sums": pa.array([[Decimal("1.5")], None, [], [None]], pa.list_(pa.decimal128(5, 1))),
        "row": pa.array(range(4)),
    }
)


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> LanceDataset:
    path = tmp_path_factory.mktemp("kinds") / "t.lance"
    lance.write_dataset(KINDS, path, data_storage_version="2.1")
    return lancefs.open(str(path))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("half = 0.1", [0]),
        ("half > 0.1", [2]),
        ("half in (0.1, 0)", [0, 3]),
        ("half = 0", [3]),
        ("half is null", [1]),
        ("half + 1 > 1", [0, 2]),
        ("half < row", [3]),
        ("array_has(halves, 0.1)", [0]),
        ("array_has(halves, cast('nan' as real))", [2]),
        ("kind = 'a'", [0, 3]),
        ("kind in ('a', 'z')", [0, 3]),
        ("kind not in ('a', 'z')", [1]),
        ("kind like 'a%' and row > 0", [3]),
        ("upper(kind) = 'A'", [0, 3]),
        ("kind = big_text", [0]),
        ("coalesce(kind, big_text) = 'c'", [2]),
        ("kind is null", [2]),
        ("big_text ilike 'a'", [0, 3]),
        ("day64 = '2026-01-02'", [3]),
        ("day64 < timestamp '1969-12-31 12:00:00'", [2]),
        ("day64 = cast(nano as date)", [0]),
        ("nano = timestamp(9) '2026-01-01 00:00:00.000000001'", [0]),
        ("nano = '2026-01-01 00:00:00.000000001'", [0]),
        ("nano > timestamp '2026-01-01 00:00:00.000000999'", [0]),  # of microseconds
        ("nano > '2026-01-01'", [0]),
        ("nano < '1970-01-01'", [3]),
        ("cast(nano as timestamp(6)) = '2026-01-01'", [0]),
        ("zoned = timestamp '2026-01-01'", [0, 3]),
        ("cast(zoned as date) = date '2025-12-31'", [2]),
        ("zoned in ('2026-01-01T09:00:00+09:00')", [0, 3]),
        ("clock > time '01:30:00'", [2, 3]),
        ("clock in ('02:00:00', '02:00:00.5')", [2]),
        ("cast(span as bigint) > 0", [0, 3]),
        ("span = span", [0, 2, 3]),
        ("uuid = X'61616161616161616161616161616161'", [0]),
        ("uuid > X'61'", [0, 2, 3]),
        ("uuid = '62626262-6262-6262-6262-626262626262'", [2]),
        ("uuid in ('62626262-6262-6262-6262-626262626262', 'none')", [2]),
        ("uuid > '61616161-6161-6161-6161-61616161616A'", [2, 3]),
        ("uuid != '61616161-6161-6161-6161-616161616161'", [2, 3]),
        ("code = 'ab'", [0]),
        ("code > X'616200'", [2, 3]),
        ("code in ('ab', 'abc')", [0]),
        ("code = bytes", [0, 2]),
        ("deep = 1.5", [0]),
        ("deep > 1.50000000005", [2]),
        ("deep * deep = 2.25", None),
        ("deep + 1 = 3", [2]),
        ("array_has(texts, 'b')", [2]),
        ("array_has(strict, 'b')", [1]),
        ("array_has(strict, kind)", [0, 1]),
        ("array_has(days, '2026-01-01')", [0]),
        ("array_has(sums, 1.5)", [0]),
        ("array_has(codes, X'ff')", []),
        ("not array_has_any(codes, ['ab', X'ff'])", [2, 3]),
        ("not array_has(sums, 1.55)", [0, 2, 3]),
        ("pairs is null", [1]),
        ("array_length(pairs) = 1", [0]),
    ],
)
def test_types_that_pylance_or_duckdb_lack(
    kinds: LanceDataset, text: str, expected: list[int] | None
) -> None:
    if expected is None:
        with pytest.raises(InvalidFilter, match="too wide for a decimal"):
            parse_filter(text, kinds.manifest.fields)
        return
    filter = parse_filter(text, kinds.manifest.fields)
    assert kinds.to_table(columns=["row"], filter=filter)["row"].to_pylist() == expected


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


@pytest.mark.skipif(not hasattr(pa, "json_"), reason="pyarrow 18 has no type for JSON")
def test_json_is_compared_as_text(tmp_path: Path) -> None:
    rows = pa.table({"doc": pa.array(['{"a":1}', "2", None], pa.json_()), "row": range(3)})
    lance.write_dataset(rows, tmp_path / "t.lance", data_storage_version="2.2")
    table = lancefs.open(str(tmp_path / "t.lance"))
    for text, expected in (("doc = '2'", [1]), ("doc like '%a%'", [0]), ("doc is null", [2])):
        filter = parse_filter(text, table.manifest.fields)
        assert table.to_table(columns=["row"], filter=filter)["row"].to_pylist() == expected


@pytest.mark.parametrize("name", ["kind", "note"])
def test_dictionary_encoded_columns_are_filtered(tmp_path: Path, name: str) -> None:
    texts = [["Gent", "Lyon", None][i % 3] for i in range(60)]
    rows = pa.table({"kind": pa.array(texts).dictionary_encode(), "note": texts, "id": range(60)})
    lance.write_dataset(rows, tmp_path / "t.lance")
    table = lancefs.open(str(tmp_path / "t.lance"))
    encoded = [] if name == "kind" else [name]
    for text in (f"{name} = 'Gent'", f"{name} like 'G%'", f"{name} like 'G%' and id < 9"):
        filter = parse_filter(text, table.manifest.fields)
        scan = table.scanner(columns=["id", name], filter=filter, dictionary_columns=encoded)
        most = 9 if "id" in text else 60
        assert scan.to_table()["id"].to_pylist() == list(range(0, most, 3))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "a column or a literal was expected, at the end of the filter: ''"),
        ("price >", "a column or a literal was expected, at the end of the filter: 'price >'"),
        ("price", "a comparison was expected, such as price > 3, at character 1"),
        ("price > 3 4", "'and', 'or' or the end was expected, at character 11 of the filter: '4'"),
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
        ("Fooo(id) = 1", "there is no function Fooo; there are abs, array_contains"),
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
        ("case when gift then 1 end = 1", "case is not supported in a filter"),
        ("day + interval '1 day' > day", "interval is not supported in a filter"),
        ("s\ud800 = 'a'", "the filter is not text"),
        ("city = '\ud800'", "the filter is not text"),
    ],
)
def test_what_is_no_filter_says_where_and_why(
    table: LanceDataset, text: str, expected: str
) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse_filter(text, table.manifest.fields)
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
def test_a_filter_that_is_too_long_says_so(table: LanceDataset, what: str) -> None:
    text, expected = TOO_LONG[what]
    with pytest.raises(InvalidFilter) as caught:
        parse_filter(text, table.manifest.fields)
    assert expected in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_nested_filter_is_refused_where_the_stack_is_nearly_full(table: LanceDataset) -> None:
    text = "coalesce(" * 90 + "x" + ", 1)" * 90 + " > 1"

    def deep(calls: int) -> pc.Expression:
        return deep(calls - 1) if calls else parse_filter(text, table.manifest.fields)

    assert isinstance(deep(0), pc.Expression)
    with pytest.raises(InvalidFilter, match="nests too deep for the stack"):
        deep(sys.getrecursionlimit() - 400)


def test_a_column_that_is_not_there_names_the_nearest(table: LanceDataset) -> None:
    for text, expected in (
        ("prize > 3", "did you mean 'price'"),
        ("user.ago > 3", r"did you mean 'user.age'"),
        ("user['ago'] > 3", r"did you mean 'user.age'"),
        ('city = "Gent"', "a text stands in single quotes"),
        ("city = WWW", "a text stands in single quotes"),
    ):
        with pytest.raises(ColumnNotFound, match=expected):
            parse_filter(text, table.manifest.fields)


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
        assert values_of(parse_filter(text, table.manifest.fields), "_rowid") == intervals


def test_the_expression_reads_only_the_columns_that_the_text_names(table: LanceDataset) -> None:
    filter = parse_filter("array_has(tags, city) or user.age > 3", table.manifest.fields)
    assert table.scanner(columns=["id"], filter=filter).to_table().num_rows > 0
    assert isinstance(filter, pc.Expression)
