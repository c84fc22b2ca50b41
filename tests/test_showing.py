"""A dataset at a glance: `repr`, Jupyter, and columns of types from the future."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support import ORDERS, frame, rewrite_manifest

import lancefs
from lancefs.errors import UnsupportedFeature
from lancefs.proto import table_pb2
from lancefs.short_texts import python_values, readable
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.schema import UNSUPPORTED


def test_repr_says_where_which_version_and_how_large() -> None:
    text = repr(lancefs.open(ORDERS, version=2))
    assert text == f"<LanceDataset {ORDERS}@2: 1,188 rows, 7 columns, 1 fragment>"


def test_repr_says_that_rows_are_filtered_and_counts_added_columns() -> None:
    filtered = lancefs.open(ORDERS, version=2).filter("quantity > 3").with_row_metadata("_rowid")
    sizes = "1,188 rows before filters, 8 columns, 1 fragment"
    assert repr(filtered) == f"<LanceDataset {ORDERS}@2: {sizes}>"
    assert sizes in filtered._repr_html_()


def test_a_notebook_shows_the_schema_and_the_first_rows() -> None:
    page = lancefs.open(ORDERS, tag="prod")._repr_html_()
    assert f"<code>{ORDERS}@3</code>" in page
    assert "1,188 rows, 8 columns, 1 fragment; committed 20" in page
    assert page.count("<tr>") == 1 + 5 + 1 + 8
    assert "decimal128(14, 2)" in page
    assert "never null" in page


def test_a_notebook_reads_no_more_than_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = pa.table({f"c{i}": range(100_000) for i in range(20)})
    lance.write_dataset(wide, tmp_path / "t.lance")
    reads: list[tuple[int, int]] = []
    original = FragmentReader.read

    def read(self, fields, ranges, *rest):  # type: ignore[no-untyped-def]
        reads.append((len(fields), sum(end - start for start, end in ranges)))
        return original(self, fields, ranges, *rest)

    monkeypatch.setattr(FragmentReader, "read", read)
    page = lancefs.open(tmp_path / "t.lance")._repr_html_()
    assert reads == [(12, 5)]
    assert "c11" in page
    repr(lancefs.open(tmp_path / "t.lance"))
    assert len(reads) == 1


def test_what_a_table_says_cannot_become_markup(tmp_path: Path) -> None:
    rows = pa.table({"<b>name": ["<script>alert(1)</script>"]})
    lance.write_dataset(rows, tmp_path / "t.lance")
    page = lancefs.open(tmp_path / "t.lance")._repr_html_()
    assert "<script>" not in page
    assert "<b>name" not in page


def test_a_notebook_shows_the_ends_of_an_endless_name(tmp_path: Path) -> None:
    """Sixty of a mebibyte each took 250 MB of HTML, and 1.4 GB of memory."""
    lance.write_dataset(pa.table({"first": [1]}), str(tmp_path / "t.lance"))

    def rename(manifest: table_pb2.Manifest) -> None:
        manifest.fields[0].name = "first" + "\x1b" * (1 << 20) + "last"

    rewrite_manifest(tmp_path / "t.lance", rename)
    html = lancefs.open(tmp_path / "t.lance")._repr_html_()
    assert len(html) < 200_000
    assert "first\\x1b" in html
    assert "\\x1blast" in html


def test_a_notebook_shows_a_damaged_table_too(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": range(10)}), tmp_path / "t.lance")
    (data,) = (tmp_path / "t.lance" / "data").iterdir()
    data.unlink()
    page = lancefs.open(tmp_path / "t.lance")._repr_html_()
    assert "The rows cannot be read" in page
    assert data.name in page


@pytest.fixture(params=["nullable", "not nullable"])
def from_the_future(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A table with a column whose type nobody knows yet."""
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(100), "b": range(100), "c": ["x"] * 100}), path)
    (manifest,) = (path / "_versions").glob("*.manifest")
    message = table_pb2.Manifest()
    data = manifest.read_bytes()
    start = int.from_bytes(data[-16:-8], "little")
    length = int.from_bytes(data[start : start + 4], "little")
    message.ParseFromString(data[start + 4 : start + 4 + length])
    message.fields[1].logical_type = "quaternion:128"
    message.fields[1].nullable = request.param == "nullable"
    message.ClearField("transaction_section")
    manifest.write_bytes(frame(message))
    return path


def test_one_unknown_column_hides_no_other(from_the_future: Path) -> None:
    dataset = lancefs.open(from_the_future)
    assert dataset.schema.names == ["a", "b", "c"]
    assert pa.types.is_null(dataset.schema.field("b").type)
    assert b"quaternion:128" in dataset.schema.field("b").metadata[UNSUPPORTED]
    assert dataset.to_table(columns=["c", "a"]).num_rows == 100
    assert dataset.count_rows() == 100
    for columns in (None, ["b"]):
        with pytest.raises(UnsupportedFeature, match="quaternion:128"):
            dataset.to_table(columns=columns)
    page = dataset._repr_html_()
    assert "quaternion:128 (not known to this release)" in page


def test_the_command_line_shows_the_other_columns(
    from_the_future: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from lancefs.cli.main import main

    table = str(from_the_future)
    assert main(["head", table, "-n", "1"]) == 0
    assert capsys.readouterr().out.split() == ["a", "c", "0", "x"]
    for command in ("schema", "ls", "log", "show", "du", "tree"):
        assert main([command, table]) == 0, command
    assert main(["head", table, "-c", "b"]) == 3
    assert "quaternion:128" in capsys.readouterr().err


def test_nanoseconds_in_maps_are_shown_without_pandas() -> None:
    data_type = pa.map_(
        pa.string(), pa.struct({"at": pa.timestamp("ns"), "for": pa.duration("ns")})
    )
    column = pa.array([[("k", {"at": 1, "for": 2})], [], None], data_type)
    (shown,) = readable(pa.table({"m": column})).columns
    moment = "1970-01-01 00:00:00.000000001"
    assert python_values(shown) == [[("k", {"at": moment, "for": 2})], [], None]


def test_a_time_that_python_does_not_hold_is_that_of_utc_and_says_so() -> None:
    first = pa.array([-62_135_596_800]).cast(pa.timestamp("s", "America/New_York"))
    (shown,) = readable(pa.table({"t": first})).columns
    assert python_values(shown) == ["0001-01-01 00:00:00Z"]
