"""Values that Python's own types do not hold are shown all the same: as Arrow writes them."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support import rewrite_manifest

import lancefs
from lancefs.cli.main import main
from lancefs.proto import table_pb2

FAR = {
    "day": pa.array([3_000_000, 1, None], pa.date32()),
    "farthest": pa.array([2**31 - 1, -(2**31), 0], pa.date32()),
    "day64": pa.array([34_560_000_000_000_000, 0, None], pa.date64()),
    "moment": pa.array([2**62, 1, None], pa.timestamp("us")),
    "second": pa.array([2**62, 1, None], pa.timestamp("s", "UTC")),
    "zone": pa.array([2**60, 1, None], pa.timestamp("us", "+05:00")),
    "time": pa.array([2**62, 1, None], pa.time64("us")),
    "length": pa.array([2**62, 1, None], pa.duration("s")),
    "list": pa.array([[3_000_000, None], [], None], pa.list_(pa.date32())),
    "struct": pa.array([{"x": 2**62}, {"x": 1}, None], pa.struct([("x", pa.timestamp("ms"))])),
    "sound": pa.array([1, 2, 3]),
}


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("far") / "t.lance")
    lance.write_dataset(pa.table(FAR), path)
    return path


def test_dates_beyond_the_year_9999_are_shown_in_notebooks(far: str) -> None:
    page = lancefs.open(far)._repr_html_()
    assert "10183-09-21" in page
    assert "4611686018427387904 s" in page
    assert repr(lancefs.open(far)).endswith("3 rows, 11 columns, 1 fragment>")


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_dates_beyond_the_year_9999_are_printed(
    form: str, far: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["head", far, "--format", form]) == 0
    out = capfdbinary.readouterr().out.decode()
    assert "10183-09-21" in out
    if form == "json":
        first, second, third = json.loads(out)
        assert first["list"] == ["10183-09-21", None]
        assert first["length"] == "4611686018427387904 s"
        assert second["day"] == "1970-01-02"
        assert second["struct"] == {"x": "1970-01-01T00:00:00.001000"}
        assert third == dict.fromkeys(FAR) | {"farthest": "1970-01-01", "sound": 3}


@pytest.mark.parametrize("form", ["table", "json", "csv"])
@pytest.mark.parametrize("unit", ["us", "ns"])
def test_times_of_an_unknown_zone_are_printed(
    form: str, unit: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "t.lance"
    column = pa.array([1_000_000, None], pa.timestamp(unit, "UTC"))
    lance.write_dataset(pa.table({"t": column, "l": [[one] for one in column]}), str(path))

    def change(message: table_pb2.Manifest) -> None:
        for field in message.fields:
            field.logical_type = field.logical_type.replace("UTC", "Nowhere/Land")

    rewrite_manifest(path, change)
    assert str(lancefs.open(path).schema.field("t").type) == f"timestamp[{unit}, tz=Nowhere/Land]"
    assert main(["head", str(path), "--format", form]) == 0
    assert "1970-01-01" in capfdbinary.readouterr().out.decode()
    assert "1970-01-01" in lancefs.open(path)._repr_html_()
