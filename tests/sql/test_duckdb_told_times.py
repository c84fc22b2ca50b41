"""Times of a column without a zone, compared with times that have one."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pytest
from joined_tables import make_long
from roads import connect, needs_install

pytestmark = needs_install

UNITS = ("s", "ms", "us", "ns")
# Clocks are put back an hour, half an hour, and a day where the date line moves; and never.
ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "America/New_York")
# Around changes of these, of 2011 and of 2026.
STARTS = ("2011-12-28T00:00", "2026-03-28T20:00", "2026-10-24T20:00", "2026-04-04T08:00")


def _rows() -> pa.Table:
    minutes = np.concatenate(
        [np.arange(np.datetime64(one, "m"), np.timedelta64(3 * 24 * 60, "m"), 7) for one in STARTS]
    )
    times = pa.array(minutes.astype("datetime64[us]"), mask=np.arange(len(minutes)) % 50 == 0)
    columns = {unit: times.cast(pa.timestamp(unit)) for unit in UNITS}
    zoned = times.cast(pa.timestamp("us", "UTC"))
    return pa.table({"id": np.arange(len(minutes)), **columns, "zoned": zoned})


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("zoned") / "t.lance"
    lance.write_dataset(_rows(), str(path))
    return path


@pytest.fixture(scope="module")
def native() -> Iterator[Any]:
    connection = duckdb.connect()
    connection.register("rows", _rows())
    connection.execute("CREATE TABLE t AS FROM rows")
    yield connection
    connection.close()


@pytest.fixture(autouse=True)
def is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    make_long(monkeypatch, 100)


def _answers(connection: Any, texts: list[str], name: str) -> list[Any]:
    return [connection.execute(text.replace("{t}", name)).fetchall() for text in texts]


@pytest.mark.parametrize("zone", ZONES)
def test_any_times_have_the_answers_of_duckdbs_own_table(
    table: Path, native: Any, zone: str
) -> None:
    draw, texts = random.Random(zone), list[str]()
    rows = _rows()
    for _ in range(60):
        start = rows["us"][draw.randrange(len(rows))].as_py() or datetime.datetime(2026, 5, 1)
        time = start + datetime.timedelta(seconds=draw.randrange(-90_000, 90_000))
        offset = draw.choice(["+00", "-05:30", "+14", ""])
        operator = draw.choice(["<", ">", "<=", ">=", "="])
        column = draw.choice(["s", "ms", "us", "us", "zoned"])
        texts.append(
            f"SELECT count(*), sum(id) FROM {{t}} WHERE {column} {operator} "
            f"TIMESTAMPTZ '{time}{offset}'"
        )
        texts.append(
            f"SELECT count(*), sum(id) FROM {{t}} WHERE {column} BETWEEN '{time}'::TIMESTAMPTZ AND "
            f"'{time}'::TIMESTAMPTZ + INTERVAL {draw.randrange(300)} MINUTE AND id % 3 = 1"
        )
    con, own = connect("install"), native.cursor()
    for connection in (con, own):
        connection.execute(f"SET TimeZone = '{zone}'")
    assert _answers(con, texts, f"'{table}'") == _answers(own, texts, "t")


def _filter(reads: list[dict[str, Any]], connection: Any, text: str, values: Any = None) -> str:
    del reads[:]
    connection.execute(text, values).fetchall()
    return str(reads[-1]["filter"])


@pytest.mark.parametrize(
    ("time", "bound"),
    [
        ("now() - INTERVAL 1 DAY", "us >= "),
        ("current_timestamp", "us >= "),
        ("TIMESTAMPTZ '2026-10-26 00:00:00+00'", "us >= 2026-10-25 23:59:59.999999"),
        ("'2026-10-26 00:00:00+00'::TIMESTAMP WITH TIME ZONE", "us >= 2026-10-25 23:59:59.999999"),
    ],
)
def test_other_rows_are_left_out(
    table: Path, time: str, bound: str, reads: list[dict[str, Any]]
) -> None:
    con = connect("install")
    con.execute("SET TimeZone = 'UTC'")
    assert bound in _filter(reads, con, f"SELECT id FROM '{table}' WHERE us > {time}")
    assert bound in _filter(reads, con, f"SELECT id FROM '{table}' WHERE id > 5 AND {time} < us")


def test_times_that_a_program_gives(table: Path, native: Any, reads: list[dict[str, Any]]) -> None:
    con = connect("install")
    text = "SELECT count(*), min(id) FROM {t} WHERE us >= $1 AND us < $2"
    for zone in (datetime.UTC, None, datetime.timezone(datetime.timedelta(hours=-7))):
        values = [datetime.datetime(2026, 10, day, 3, tzinfo=zone) for day in (25, 26)]
        found = con.execute(text.replace("{t}", f"'{table}'"), values).fetchall()
        assert found == native.execute(text.replace("{t}", "t"), values).fetchall()
    naive = values[0].replace(tzinfo=None)
    for column, value in (("us", values[0]), ("ns", naive)):
        run = f"SELECT id FROM '{table}' WHERE {column} > $1"
        assert f"{column} >= 2026-10-2" in _filter(reads, con, run, [value])
    for value in ("2026-10-25", datetime.date(2026, 10, 25), None):
        run = "SELECT count(*) FROM {t} WHERE us >= ?"
        found = con.execute(run.replace("{t}", f"'{table}'"), [value]).fetchall()
        assert found == native.execute(run.replace("{t}", "t"), [value]).fetchall()
    for value in ("yesterday", 5, [3]):
        with pytest.raises(duckdb.Error) as theirs:
            native.execute("SELECT * FROM t WHERE us >= ?", [value]).fetchall()
        with pytest.raises(type(theirs.value)):
            con.execute(f"SELECT * FROM '{table}' WHERE us >= ?", [value]).fetchall()


def test_a_prepared_statement_takes_the_time_of_each_run(table: Path, native: Any) -> None:
    con, own = connect("install"), native.cursor()
    text = "PREPARE found AS SELECT count(*), max(id) FROM {t} WHERE us >= $1"
    for connection, name in ((con, f"'{table}'"), (own, "t")):
        connection.execute(text.replace("{t}", name))
    for value in ("TIMESTAMPTZ '2026-10-25 00:00:00+00'", "'2026-04-01'", "DATE '2026-04-05'"):
        run = f"EXECUTE found({value})"
        assert con.execute(run).fetchall() == own.execute(run).fetchall()


@pytest.mark.parametrize(
    "condition",
    [
        "us > 'infinity'::TIMESTAMPTZ",
        "us < 'infinity'::TIMESTAMPTZ AND id < 50",
        "us >= '0044-03-15 (BC) 00:00:00+00'::TIMESTAMPTZ AND id < 90",
        "ms < '9999-01-01 00:00:00+00'::TIMESTAMPTZ",
        "s > '200000-01-01 00:00:00+00'::TIMESTAMPTZ",
        "us <> '2026-10-25 00:00:00+00'::TIMESTAMPTZ",
        "us IN ('2026-10-25 00:00:00+00'::TIMESTAMPTZ)",
        "us > (NULL::TIMESTAMPTZ)",
        "us > now() OR id = 3",
        "NOT us > now() - INTERVAL 1 DAY",
        "us > zoned",
        "id IN (SELECT id FROM {t} WHERE us > '2026-10-25 00:00:00+00'::TIMESTAMPTZ)",
    ],
)
def test_other_conditions(table: Path, native: Any, condition: str) -> None:
    con, text = connect("install"), f"SELECT count(*), min(id) FROM {{t}} WHERE {condition}"
    assert _answers(con, [text], f"'{table}'") == _answers(native, [text], "t")
