"""How values come out of `head`, `sql` and `export`, in each format."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from uuid import UUID

import lance
import pyarrow as pa
import pytest
from running import Here


@pytest.mark.parametrize("form", ["table", "json", "csv", "xlsx"])
def test_uuids_are_written_as_uuids_and_not_as_their_bytes(
    form: str, tmp_path: Path, here: Here
) -> None:
    text = "01020304-0506-0708-090a-0b0c0d0e0f10"
    kind, rows = pa.uuid(), pa.array([UUID(text).bytes, None], pa.binary(16))
    ids = pa.ExtensionArray.from_storage(kind, rows)
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), ids)
    at = pa.array([0, 1], pa.timestamp("ns"))
    structs = pa.StructArray.from_arrays([ids, at], ["id", "at"])
    table = pa.table({"id": ids, "list": lists, "struct": structs})
    lance.write_dataset(table, tmp_path / "t.lance")
    if form == "xlsx":
        assert here("export", f"{tmp_path}/t.lance", f"{tmp_path}/t.xlsx").code == 0
        with zipfile.ZipFile(tmp_path / "t.xlsx") as book:
            assert book.read("xl/worksheets/sheet1.xml").decode().count(text) == 3
        return
    done = here("head", f"{tmp_path}/t.lance", "--format", form)
    assert done.out.count(text) == 3
    if form == "json":
        first, second = json.loads(done.out)
        assert first == {
            "id": text,
            "list": [text],
            "struct": {"id": text, "at": "1970-01-01T00:00:00.000000000"},
        }
        assert second["id"] is None


FAR = {
    "at": ("timestamp '40000-01-02 03:04:05'", "40000-01-02 03:04:05.000000"),
    "utc": ("timestamptz '40000-01-02 03:04:05+00'", "40000-01-02 03:04:05.000000Z"),
    "day": ("date '40000-01-02'", "40000-01-02"),
    "early": ("date '-290000-01-01'", "-290000-01-01"),
}


@pytest.mark.parametrize("name", FAR)
def test_years_that_arrow_does_not_write_are_written(name: str, here: Here) -> None:
    literal, text = FAR[name]
    query = f"SELECT {literal} AS x UNION ALL SELECT NULL UNION ALL SELECT DATE '2024-02-29'"
    done = here("sql", query, "--format", "csv")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[1] == f'"{text}"'
    assert lines[2] == ""
    assert lines[3].strip('"').startswith("2024-02-29")
    assert json.loads(here("sql", query, "--format", "json").out)[0]["x"] == text.replace(" ", "T")
    assert text in here("sql", query).out


def test_all_times_of_json_are_iso_8601(here: Here) -> None:
    query = "SELECT TIMESTAMP_NS '2024-02-29 12:00:00.5' AS a, TIMESTAMP '2024-02-29 12:00:00' AS b"
    (row,) = json.loads(here("sql", query, "--format", "json").out)
    assert row == {"a": "2024-02-29T12:00:00.500000000", "b": "2024-02-29T12:00:00"}
