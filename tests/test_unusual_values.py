"""Values that Python's own types do not hold are shown all the same: as Arrow writes them."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support import rewrite_manifest

import duckdb_adapter
import lancefs
from lancefs.cli.main import main
from lancefs.errors import UnsupportedFeature
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


@pytest.mark.parametrize("parameters", [b"{not json", b"\xff\xfe", b"[]"])
def test_a_column_with_invalid_parameters_of_an_extension_is_read_everywhere(
    tmp_path: Path, parameters: bytes
) -> None:
    path = tmp_path / "t.lance"
    vectors = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))
    rows = pa.table({"v": vectors, "s": pa.StructArray.from_arrays([vectors], ["v"]), "b": [1, 2]})
    lance.write_dataset(rows, path)

    def change(message: table_pb2.Manifest) -> None:
        for field in message.fields:
            if field.name == "v":
                field.metadata["ARROW:extension:name"] = b"arrow.fixed_shape_tensor"
                field.metadata["ARROW:extension:metadata"] = parameters

    rewrite_manifest(path, change)
    assert lancefs.open(path).to_table().to_pydict() == rows.to_pydict()
    fs = lancefs.LanceFileSystem()
    with fs.open(f"{path}/latest.arrow") as file, fs.open(f"{path}/latest.arrows") as stream:
        assert pa.ipc.open_file(file).read_all().to_pydict() == rows.to_pydict()
        assert pa.ipc.open_stream(stream).read_all().to_pydict() == rows.to_pydict()
    con = duckdb_adapter.connect()
    assert con.execute(f"SELECT v, b FROM '{path}'").fetchall() == [((1, 2), 1), ((3, 4), 2)]


@pytest.mark.parametrize("place", ["x", "item", "value", "deep"])
def test_a_nested_field_of_an_unknown_type_without_nulls_hides_only_its_column(
    tmp_path: Path, place: str
) -> None:
    path = tmp_path / "t.lance"
    columns = {
        "x": pa.array([{"x": 1}]),
        "item": pa.array([[1]]),
        "value": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        "deep": pa.array([[[{"deep": 1}]]]),
    }
    rows = pa.table({"c": columns[place], "b": [1]})
    lance.write_dataset(rows, path, data_storage_version="2.2")

    def change(message: table_pb2.Manifest) -> None:
        field = [field for field in message.fields if field.name == place][-1]
        field.logical_type, field.nullable = "of-the-future", False

    rewrite_manifest(path, change)
    dataset = lancefs.open(path)
    assert dataset.schema.types == [pa.null(), pa.int64()]
    assert dataset.to_table(columns=["b"]).to_pydict() == {"b": [1]}
    with pytest.raises(UnsupportedFeature, match="of-the-future"):
        dataset.to_table()
    con = duckdb_adapter.connect()
    assert con.execute(f"SELECT b FROM '{path}'").fetchall() == [(1,)]
    assert main(["schema", str(path)]) == 0
