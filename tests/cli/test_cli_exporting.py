"""`export`, `verify`, `du` and `mount`."""

from __future__ import annotations

import csv
import errno
import json
import math
import os
import re
import shutil
import signal
import subprocess
import time
from decimal import Decimal
from pathlib import Path

import fsspec
import lance
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as pads
import pyarrow.feather as feather
import pyarrow.json as pajson
import pyarrow.parquet as pq
import pytest
from comparison import assert_same_table
from fsspec.implementations.local import LocalFileSystem
from running import COMMAND, ENVIRONMENT, Here, run, run_without
from support import ORDERS, copy_table, corpus_case, needs_corpus, rewrite_manifest

import lancefs
from lancefs.cli.exporting import JOURNAL
from lancefs.proto import table_pb2
from lancefs.proto.rowids_pb2 import RowIdSequence, U64Segment


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv"])
def test_a_folder_gets_one_file_a_fragment(
    form: str, shop: Path, tmp_path: Path, here: Here
) -> None:
    table, out = f"{shop}/teas.lance@clean", tmp_path / "out"
    done = here("export", table, str(out), "--format", form)
    assert (done.code, done.out) == (0, "")
    assert "90 rows in 3 files" in done.err
    names = sorted(path.name for path in out.iterdir() if not path.name.startswith("_"))
    assert names == [f"part-0000{i}-{i}.{form}" for i in range(3)]
    expected = lancefs.open(f"{shop}/teas.lance", tag="clean").to_table()
    parts = [out / name for name in names]
    found = pads.dataset([str(part) for part in parts], format=form).to_table()
    if form == "csv":
        assert found["id"].to_pylist() == expected["id"].to_pylist()
    else:
        assert_same_table(found, expected)


def _read_tsv(path: str) -> pa.Table:
    return pacsv.read_csv(path, parse_options=pacsv.ParseOptions(delimiter="\t"))


READERS = {
    "parquet": pq.read_table,
    "arrow": feather.read_table,
    "csv": pacsv.read_csv,
    "tsv": _read_tsv,
    "ndjson": pajson.read_json,
}


@pytest.mark.parametrize("form", READERS)
def test_a_file_gets_what_was_chosen(form: str, shop: Path, tmp_path: Path, here: Here) -> None:
    path = tmp_path / f"teas.{form}"
    wanted = ["-c", "price,id", "-w", "tea = 'Assam' and id between 10 and 40"]
    assert here("export", f"{shop}/teas.lance@1", str(path), *wanted).code == 0
    table = READERS[form](str(path))
    assert table.column_names == ["price", "id"]
    assert table["id"].to_pylist() == [i for i in range(10, 41) if i % 3 == 0]
    again = here("export", f"{shop}/teas.lance", str(path))
    assert again.code == 2
    assert "exists; --overwrite replaces it" in again.err
    assert here("export", f"{shop}/teas.lance", str(path), "--overwrite").code == 0
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_folder_gets_what_was_chosen_of_each_fragment(
    shop: Path, tmp_path: Path, here: Here
) -> None:
    table, out = f"{shop}/teas.lance@clean", str(tmp_path / "out")
    assert here("export", table, out, "-c", "_rowid,id", "-w", "id > 30 and id < 85").code == 0
    found = pads.dataset(out, exclude_invalid_files=True).to_table()
    assert found["id"].to_pylist() == list(range(31, 85))
    assert found["_rowid"].to_pylist() == list(range(31, 85))
    assert json.loads((tmp_path / "out" / JOURNAL).read_text())["complete"]


def test_an_interrupted_export_goes_on(tmp_path: Path, here: Here) -> None:
    table, out = str(tmp_path / "t.lance"), tmp_path / "out"
    lance.write_dataset(pa.table({"a": range(1000)}), table, max_rows_per_file=100)
    assert here("export", table, str(out)).code == 0
    first = out / "part-00000-0.parquet"
    before = first.stat().st_mtime_ns
    journal = json.loads((out / JOURNAL).read_text())
    # As a kill leaves it: a file that is not complete, and one that is in no journal.
    (out / ".unfinished-1-part-00003-3.parquet").write_bytes(b"half")
    (out / "part-00003-3.parquet").unlink()
    del journal["files"]["part-00004-4.parquet"]
    (out / JOURNAL).write_text(json.dumps(journal | {"complete": False}))
    done = here("export", table, str(out))
    assert "1,000 rows in 10 files" in done.err
    assert "8 files of them from before" in done.err
    assert first.stat().st_mtime_ns == before
    assert json.loads((out / JOURNAL).read_text())["complete"]
    assert not list(out.glob(".unfinished*"))
    parts = [str(path) for path in sorted(out.glob("*.parquet"))]
    assert pads.dataset(parts).to_table()["a"].to_pylist() == list(range(1000))


def test_a_killed_export_loses_and_doubles_nothing(tmp_path: Path) -> None:
    table, out = str(tmp_path / "t.lance"), tmp_path / "out"
    rows = pa.table({"a": range(200_000), "b": [str(i) * 5 for i in range(200_000)]})
    lance.write_dataset(rows, table, max_rows_per_file=10_000)
    with subprocess.Popen(
        [*COMMAND, "export", table, str(out)], env=ENVIRONMENT, stderr=subprocess.PIPE
    ) as process:
        until = time.monotonic() + 60
        while not (out / "part-00001-1.parquet").exists() and time.monotonic() < until:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    done = run("export", table, str(out))
    assert done.code == 0
    assert "200,000 rows in 20 files" in done.err
    parts = [str(path) for path in sorted(out.glob("*.parquet"))]
    assert_same_table(pads.dataset(parts).to_table(), rows)


def test_an_export_is_not_mixed_with_another(shop: Path, tmp_path: Path, here: Here) -> None:
    table, out = f"{shop}/teas.lance", str(tmp_path / "out")
    assert here("export", f"{table}@1", out).code == 0
    other = here("export", f"{table}@2", out)
    assert other.code == 2
    assert "holds another export" in other.err
    assert here("export", f"{table}@1", out, "-c", "id").code == 2
    assert here("export", f"{table}@2", out, "--overwrite").code == 0
    assert pads.dataset(out, exclude_invalid_files=True).count_rows() == 90
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    for extra in ([], ["--overwrite"]):
        here("export", table, str(tmp_path / "mine"), *extra)
        assert (tmp_path / "mine" / "notes.txt").read_text() == "keep me"


def test_an_empty_table_is_exported_with_its_columns(tmp_path: Path, here: Here) -> None:
    empty = pa.table({"a": pa.array([], pa.int32()), "b": pa.array([], pa.string())})
    lance.write_dataset(empty, tmp_path / "t.lance")
    assert here("export", str(tmp_path / "t.lance"), str(tmp_path / "out")).code == 0
    (part,) = (tmp_path / "out").glob("*.parquet")
    assert pq.read_schema(part).names == ["a", "b"]


def test_an_ending_and_a_format_that_differ_are_refused(tmp_path: Path, here: Here) -> None:
    done = here("export", ORDERS, str(tmp_path / "x.parquet"), "--format", "csv")
    assert done.code == 2
    assert "its ending says parquet, --format says csv" in done.err
    assert "did you mean parquet" in here("export", ORDERS, "x", "-f", "parket").err


def test_an_ending_that_is_no_format_is_refused(tmp_path: Path, here: Here) -> None:
    path = tmp_path / "x.json"
    done = here("export", ORDERS, str(path))
    assert done.code == 2
    assert "x.json: .json is the ending of no format; choose from parquet, arrow, csv" in done.err
    assert "For a folder of files write" in done.err
    assert not path.exists()
    assert here("export", ORDERS, f"{path}/").code == 0
    assert (path / "part-00000-0.parquet").exists()
    assert here("export", ORDERS, str(tmp_path / "v1.2"), "--format", "csv").code == 0
    assert (tmp_path / "v1.2" / "part-00000-0.csv").exists()
    # A folder that is there is one, whatever its name.
    assert here("export", ORDERS, str(path), "--overwrite").code == 0


@pytest.mark.parametrize("dest", ["-", "/dev/stdout"])
def test_standard_output_is_no_folder_named_so(
    dest: str, tmp_path: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = here("export", ORDERS, dest, "--format", "csv")
    assert done.code == 2
    assert "for standard output there is lancefs sql" in done.err
    assert not list(tmp_path.iterdir())


def test_a_file_in_place_of_a_folder_is_named(tmp_path: Path, here: Here) -> None:
    (tmp_path / "out").write_text("a file")
    for dest in (f"{tmp_path}/out/", f"{tmp_path}/out"):
        done = here("export", ORDERS, dest)
        assert done.code == 2
        assert f"{dest}: there is a file of that name; choose another folder" in done.err


def test_a_folder_that_is_missing_is_named(tmp_path: Path, here: Here) -> None:
    done = here("export", ORDERS, str(tmp_path / "none" / "x.parquet"))
    assert done.code == 2
    assert f"{tmp_path}/none: there is no such folder to write x.parquet into" in done.err
    assert not (tmp_path / "none").exists()


def test_a_folder_that_cannot_be_written_to_is_named(
    tmp_path: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_fs: LocalFileSystem, path: str, mode: str = "rb", **_options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(LocalFileSystem, "_open", refuse)
    done = here("export", ORDERS, str(tmp_path / "x.parquet"))
    assert done.code == 3
    assert done.err == f"lancefs: {tmp_path}: nothing can be written there: Permission denied\n"


@pytest.mark.parametrize("place", ["rows.csv", "data/out/", "", "link"])
def test_nothing_is_written_into_a_table(place: str, tmp_path: Path, here: Here) -> None:
    table = Path(shutil.copytree(ORDERS, tmp_path / "t.lance"))
    (tmp_path / "link").symlink_to(table / "data")
    dest = f"{tmp_path}/link/" if place == "link" else f"{table}/{place}"
    before = sorted(table.rglob("*"))
    for options in [(), ("--overwrite",)]:
        done = here("export", str(ORDERS), dest, *options)
        assert done.code == 2
        assert f"{table} is a Lance table, and lancefs writes nothing into tables" in done.err
    done = here("report", str(ORDERS), "-o", f"{table}/page.html")
    assert done.code == 2
    assert "lancefs writes nothing into tables" in done.err
    assert sorted(table.rglob("*")) == before


def test_nothing_is_written_into_a_table_of_another_store(here: Here) -> None:
    files = fsspec.filesystem("memory")
    files.put(str(ORDERS), "/lake/t.lance", recursive=True)
    before = files.find("/lake")
    done = here("export", str(ORDERS), "memory://lake/t.lance/rows.csv")
    assert done.code == 2
    assert "lancefs writes nothing into tables" in done.err
    assert files.find("/lake") == before


def test_verify_says_whether_all_is_well(shop: Path, tmp_path: Path, here: Here) -> None:
    good = here("verify", f"{shop}/teas.lance@1")
    assert good.code == 0
    assert "3 fragments, 100 rows (0 deleted), 300 values" in good.out
    assert good.out.splitlines()[-1] == "all is well"
    rows = pa.table({"a": pa.array(["x" * (i % 50) for i in range(5000)]), "b": range(5000)})
    path = tmp_path / "t.lance"
    lance.write_dataset(rows, path)
    (data,) = (path / "data").iterdir()
    damaged = bytearray(data.read_bytes())
    damaged[0:64] = b"\xff" * 64
    data.write_bytes(damaged)
    bad = here("verify", str(path), "--format", "json")
    said = json.loads(bad.out)
    assert bad.code == 1
    assert not said["good"]
    assert {problem["place"] for problem in said["problems"]} <= {"a", "b"}
    assert data.name in said["problems"][0]["message"]
    text = here("verify", str(path))
    assert text.code == 1
    assert text.out.splitlines()[-1].endswith(("problem", "problems"))


def test_verify_notices_a_missing_and_a_longer_file(tmp_path: Path, here: Here) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(100)}), path, max_rows_per_file=50)
    first, second = sorted((path / "data").iterdir())
    first.unlink()
    second.write_bytes(b"\0" * 8 + second.read_bytes())
    done = here("verify", str(path))
    assert done.code == 1
    assert "MissingFile" in done.out
    assert "CorruptFile" in done.out


def ids(*ranges: tuple[int, int]) -> bytes:
    """Row ids as a manifest holds them."""
    segments = [U64Segment(range=U64Segment.Range(start=a, end=b)) for a, b in ranges]
    return RowIdSequence(segments=segments).SerializeToString()


@pytest.mark.parametrize(
    ("forged", "said"),
    [
        (ids((20, 30)), "all is well"),
        (ids((2, 3), (20, 29)), "all is well"),  # that of the row that is deleted
        (ids((3, 4), (20, 29)), "_rowid: CorruptFile: .*: two rows have the same stable id"),
        (ids((20, 25), (20, 25)), "_rowid: CorruptFile: .*: two rows have the same stable id"),
        (ids((20, 29)), "_rowid: CorruptFile: .*: 9 row ids are given, the fragment has 10"),
    ],
)
def test_verify_notices_row_ids_that_are_too_few_or_not_unique(
    tmp_path: Path, here: Here, forged: bytes, said: str
) -> None:
    path, rows = tmp_path / "t.lance", pa.table({"a": range(20)})
    table = lance.write_dataset(rows, path, max_rows_per_file=10, enable_stable_row_ids=True)
    table.delete("a = 2")

    def forge(manifest: table_pb2.Manifest) -> None:
        manifest.fragments[1].inline_row_ids = forged

    rewrite_manifest(path, forge)
    done = here("verify", str(path))
    assert done.code == (said != "all is well")
    assert re.search(said, done.out)


def test_verify_notices_values_that_their_type_does_not_allow(tmp_path: Path, here: Here) -> None:
    seconds = pa.array([0, 86_399, 86_400, 5], pa.int32())  # a day has one less than the third
    times = pa.Array.from_buffers(pa.time32("s"), 4, seconds.buffers())
    lance.write_dataset(pa.table({"at": times, "sound": range(4)}), tmp_path / "t.lance")
    done = here("verify", str(tmp_path / "t.lance"))
    assert done.code == 1
    assert "fragment 0, at: CorruptFile: values that time32[s] does not allow" in done.out
    assert done.out.splitlines()[-1] == "1 problem"


@needs_corpus
@pytest.mark.parametrize(
    "name",
    [
        "feat_add_columns-f0.1-w0.10.18",
        "feat_evolve_chain-f0.1-w14.0.2",
        "feat_evolve_chain-f2.0-w14.0.2",
        "feat_evolve_chain-f2.1-w14.0.2",
        "feat_evolve_chain-f2.3-w14.0.2",
        "blob_v2-f2.2-w14.0.2",
        "feat_vector_index-f2.1-w14.0.2",
        "nested_fslstruct-f2.2-w14.0.2",
    ],
)
def test_every_format_is_verified_measured_and_reported(
    name: str, tmp_path: Path, here: Here
) -> None:
    path = copy_table(corpus_case(name), tmp_path)
    assert here("verify", str(path)).code == 0
    rows = json.loads(here("du", str(path), "-f", "json").out)
    fragments = json.loads(here("show", str(path), "-f", "json").out)["fragments"]
    names = {file["path"] for one in fragments for file in one["files"]}
    data = sum((path / "data" / name).stat().st_size for name in names)
    told = sum(row["bytes"] or 0 for row in rows)
    assert told == data
    page = tmp_path / "report.html"
    assert here("report", str(path), "-o", str(page)).code == 0
    assert "<svg" in page.read_text("utf-8")


def test_du_tells_what_a_column_takes_and_what_is_dead(tmp_path: Path, here: Here) -> None:
    path = tmp_path / "t.lance"
    words = [f"{'word' * 9}{i % 7}" for i in range(10_000)]
    rows = pa.table({"a": range(10_000), "b": words, "c": [1.5] * 10_000})
    lance.write_dataset(rows, path, data_storage_version="2.1")
    lance.dataset(path).delete("a >= 5000")
    lance.dataset(path).drop_columns(["c"])
    said = {row["column"]: row for row in json.loads(here("du", str(path), "-f", "json").out)}
    assert said["a"]["dead"] == pytest.approx(said["a"]["bytes"] / 2, abs=1)
    assert said["a"]["memory"] == 5000 * 8
    assert "inline_bitpacking" in said["a"]["encoding"]
    assert said["b"]["ratio"] > 2
    gone = said["(dropped or replaced columns)"]
    assert gone["bytes"] == gone["dead"] > 0
    text = here("du", str(path)).out
    *_, empty, total = text.splitlines()
    assert empty == ""
    assert re.fullmatch(r"[\d.]+ KiB in 1 data file, [\d.]+ KiB of them dead", total)


def test_mount_says_what_is_missing(tmp_path: Path) -> None:
    done = run_without("fuse", "mount", ORDERS, str(tmp_path))
    assert done.code == 4
    assert "pip install 'lancefs[mount]'" in done.err
    assert done.err.count("\n") == 1


def test_mount_shows_the_tree_to_any_program(tmp_path: Path) -> None:
    pytest.importorskip("fuse", reason="fusepy is not installed", exc_type=(ImportError, OSError))
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("there is no /dev/fuse that we may use")
    process = subprocess.Popen([*COMMAND, "mount", f"{ORDERS}@2", str(tmp_path)], env=ENVIRONMENT)
    try:
        until = time.monotonic() + 30
        while not os.path.ismount(tmp_path) and time.monotonic() < until:
            if process.poll() is not None:
                pytest.skip(f"FUSE does not work here: exit code {process.returncode}")
            time.sleep(0.05)
        table = feather.read_table(str(tmp_path / "columns" / "city.arrow"))
        assert table.num_rows == 1188
        assert "schema.json" in os.listdir(tmp_path)
        with pytest.raises(OSError, match="Read-only"):
            (tmp_path / "new").write_text("x")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
    assert not os.path.ismount(tmp_path)


def test_formulas_are_written_to_csv_as_they_are_and_sql_can_defuse_them(
    tmp_path: Path, here: Here
) -> None:
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '="a"&"b"', "plain", "it's =1", None]
    table, out = str(tmp_path / "t.lance"), tmp_path / "t.csv"
    lance.write_dataset(pa.table({"n": range(len(texts)), "=name": texts}), table)
    assert here("export", table, str(out), "--format", "csv").code == 0
    options = pacsv.ParseOptions(newlines_in_values=True)
    as_texts = pacsv.ConvertOptions(column_types={"=name": pa.string()}, strings_can_be_null=True)
    found = pacsv.read_csv(out, parse_options=options, convert_options=as_texts)
    assert found["=name"].to_pylist() == texts
    shown = here("head", table, "--format", "csv", "-n", "7").out
    assert shown.encode() == b"".join(out.read_bytes().splitlines(keepends=True)[:9])
    # As docs/command-line.md has it.
    safe = r"""regexp_replace("=name", '^([=+\-@\t\r])', '''\1')"""
    done = here("sql", "--format", "json", f"SELECT {safe} AS safe FROM '{table}'")
    assert done.code == 0, done.err
    expected = [f"'{text}" if text and text[0] in "=+-@\t\r" else text for text in texts]
    assert [row["safe"] for row in json.loads(done.out)] == expected


def test_csv_keeps_half_floats_that_are_no_numbers(tmp_path: Path, here: Here) -> None:
    halves = pa.array([math.nan, -math.inf, 1.5, None], pa.float32()).cast(pa.float16())
    lance.write_dataset(pa.table({"id": range(4), "half": halves}), tmp_path / "t.lance")
    out = tmp_path / "t.csv"
    assert here("export", f"{tmp_path}/t.lance", str(out)).code == 0
    assert [line.partition(",")[2] for line in out.read_text("utf-8").split()[1:]] == [
        *("nan", "-inf", "1.5", "")
    ]


def test_maps_keep_their_items_in_ndjson_and_csv(tmp_path: Path, here: Here) -> None:
    pairs = [[("k", 1), ("k", 2)], [], [("a", 1)], None]
    table = pa.table({"id": range(4), "map": pa.array(pairs, pa.map_(pa.string(), pa.int8()))})
    lance.write_dataset(table, tmp_path / "t.lance", data_storage_version="2.2")
    expected = [[["k", 1], ["k", 2]], {}, {"a": 1}, None]
    assert here("export", f"{tmp_path}/t.lance", f"{tmp_path}/t.ndjson").code == 0
    lines = (tmp_path / "t.ndjson").read_text("utf-8").splitlines()
    assert [json.loads(line)["map"] for line in lines] == expected
    assert here("export", f"{tmp_path}/t.lance", f"{tmp_path}/t.csv").code == 0
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        texts = [row["map"] for row in csv.DictReader(file)]
    assert [json.loads(text) if text else None for text in texts] == expected


def test_decimals_that_parquet_lacks_are_named(tmp_path: Path, here: Here) -> None:
    coarse = pa.array([[Decimal(1200)]], pa.list_(pa.decimal128(9, -2)))
    lance.write_dataset(pa.table({"c": coarse}), tmp_path / "t.lance")
    done = here("export", f"{tmp_path}/t.lance", f"{tmp_path}/t.parquet")
    assert done.code == 2
    assert "parquet cannot hold these columns: decimals of negative scale are in c" in done.err


def test_dictionaries_below_a_column_become_one_in_an_arrow_file(
    tmp_path: Path, here: Here
) -> None:
    url, path = str(tmp_path / "t.lance"), tmp_path / "t.arrow"
    for word in "ab":
        coded = pa.array([word, None, word]).dictionary_encode()
        struct = pa.StructArray.from_arrays([coded], ["word"])
        lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), coded)
        lance.write_dataset(pa.table({"struct": struct, "list": lists}), url, mode="append")
    done = here("export", url, str(path))
    assert done.code == 0, done.err
    assert_same_table(feather.read_table(str(path)), lancefs.open(url).to_table())


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_intervals_of_sql_are_written_as_iso_8601(form: str, here: Here) -> None:
    query = (
        "SELECT INTERVAL '1 month 2 days 3.5 seconds' AS a, "
        "[INTERVAL '-1 minute'] AS b, INTERVAL 0 day AS c"
    )
    done = here("sql", query, "--format", form)
    assert done.code == 0
    assert all(text in done.out for text in ("P1M2DT3.5S", "PT-60S", "PT0S"))
