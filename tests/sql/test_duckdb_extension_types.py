"""Columns of Arrow's extension types, and of nanoseconds, in each kind of filter of DuckDB.

DuckDB 1.4 and 1.5 tell a scan filters on them that say something else, or fail over them.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from roads import EACH_ROAD, connect

ROWS = 40


def _repeated(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([values[row % len(values)] for row in range(ROWS)], kind)


def _extended(kind: pa.DataType, values: list[Any]) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, _repeated(values, kind.storage_type))


def _of_duckdb(name: str, storage: pa.DataType) -> pa.DataType:
    return pa.opaque(storage, name, "DuckDB")


_WIDE = [None, *((10**number).to_bytes(16, "little") for number in (0, 1, 30))]
# One comes after a microsecond, and one after the same microsecond and the next.
_NANOSECONDS = _repeated([None, 5, 1_007, 1_993], pa.int64())
COLUMNS: dict[str, pa.Array] = {
    "uuid": _extended(pa.uuid(), [None, *(uuid.UUID(int=n).bytes for n in (0, 7, 2**127))]),
    "json": _extended(pa.json_(), [None, '{"a":1}', "[1,2]", "null"]),
    "flag": _extended(pa.bool8(), [None, 0, 1, 2, -1]),
    "hugeint": _extended(_of_duckdb("hugeint", pa.binary(16)), _WIDE),
    "uhugeint": _extended(_of_duckdb("uhugeint", pa.binary(16)), _WIDE),
    "bits": _extended(_of_duckdb("bit", pa.binary()), [None, b"\x05\xfd", b"\x06\xfd"]),
    "ts_ns": _NANOSECONDS.cast(pa.timestamp("ns")),
    "ts_ns_utc": _NANOSECONDS.cast(pa.timestamp("ns", "UTC")),
    "clock_ns": _NANOSECONDS.cast(pa.time64("ns")),
    "ratio": pa.DictionaryArray.from_arrays(
        _repeated([None, 0, 1], pa.int8()), pa.array([1.5, math.nan])
    ),
}
_ONE = "(SELECT {c} FROM native WHERE id = 2)"
QUERIES = [
    "SELECT {c}::VARCHAR FROM {t} ORDER BY id",
    f"SELECT id FROM {{t}} WHERE {{c}} = {_ONE} ORDER BY id",
    f"SELECT id FROM {{t}} WHERE {{c}} > {_ONE} ORDER BY id",
    f"SELECT id FROM {{t}} WHERE {{c}} IS DISTINCT FROM {_ONE} ORDER BY id",
    "SELECT id FROM {t} WHERE {c} IN (SELECT {c} FROM native WHERE id IN (1, 2)) ORDER BY id",
    "SELECT a.id FROM {t} a JOIN native b USING ({c}) WHERE b.id < 3 ORDER BY a.id",
    "SELECT id FROM {t} a SEMI JOIN {t} b USING ({c}) ORDER BY id",
    "SELECT id FROM {t} ORDER BY {c} DESC NULLS LAST, id LIMIT 5",
    "SELECT {c}::VARCHAR, count(*) FROM {t} GROUP BY {c} ORDER BY {c}",
    "SELECT id FROM {t} WHERE {c} = {value} ORDER BY id",
    "SELECT id FROM {t} WHERE {c} <> {value} ORDER BY id",
    "SELECT id FROM {t} WHERE {c} IN ({value}, {value}) OR {c} IS NULL ORDER BY id",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "t.lance"
    lance.write_dataset(pa.table({"id": range(ROWS), **COLUMNS}), str(path))
    return path


@pytest.fixture(scope="module", params=EACH_ROAD)
def both(request: pytest.FixtureRequest, table: Path) -> Iterator[Any]:
    """A connection with the rows of the table in DuckDB's own table `native`, too."""
    con = connect(request.param)
    con.execute("SET TimeZone = 'UTC'")
    con.execute(f"CREATE TABLE native AS FROM '{table}'")
    yield con
    con.close()


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("column", COLUMNS)
def test_answers_are_those_of_duckdbs_own_table(
    column: str, query: str, table: Path, both: Any
) -> None:
    shown, kind = both.execute(
        f"SELECT {column}::VARCHAR, typeof({column}) FROM native WHERE id = 2"
    ).fetchone()
    names = {"c": column, "value": f"'{shown}'::{kind}"}
    expected = both.execute(query.format(t="native", **names)).fetchall()
    assert both.execute(query.format(t=f"'{table}'", **names)).fetchall() == expected
