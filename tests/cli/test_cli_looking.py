"""Looking at tables: `ls`, `tree`, `head`, `schema`, `log`, `show`."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import fsspec
import lance
import pyarrow as pa
import pytest
from comparison import assert_same_table
from fsspec.implementations.local import LocalFileSystem
from running import Here, run, run_on_terminal
from store_servers import WebServer, web_server
from support import ORDERS, rewrite_manifest

import lancefs
import lancefs.storage.store as store_module
from lancefs.cli.commands.ls import TREE
from lancefs.cli.main import COMMANDS
from lancefs.cli.main import lancefs as group


def test_help_shows_every_command_with_examples() -> None:
    done = run("--help")
    assert done.code == 0
    for name in COMMANDS:
        assert f"\n  {name} " in done.out
    assert "lancefs head s3://bucket/orders.lance@prod" in done.out
    assert "Exit codes" in done.out
    assert run().out == done.out


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_explains_itself(name: str, here: Here) -> None:
    done = here(name, "--help")
    assert done.code == 0
    assert "Examples:" in done.out
    assert f"lancefs {name}" in done.out
    command = group.get_command(None, name)  # type: ignore[arg-type]
    assert command is not None
    assert command.name == name


def test_the_tree_of_a_table_in_an_archive(shop: Path, tmp_path: Path, here: Here) -> None:
    archive = shutil.make_archive(str(tmp_path / "shop"), "zip", shop)
    versions = f"zip://teas.lance/versions::{archive}"
    assert here("ls", versions).out == here("ls", f"{shop}/teas.lance/versions").out
    assert (
        here("tree", versions).out.splitlines()[1:]
        == (here("tree", f"{shop}/teas.lance/versions").out.splitlines()[1:])
    )


def test_the_tree_of_a_table_behind_a_web_server(shop: Path, here: Here) -> None:
    with web_server(WebServer(shop)) as url:
        shown = here("ls", f"{url}/teas.lance/versions")
        assert shown.out == here("ls", f"{shop}/teas.lance/versions").out
        for query in ("", "?token=s3cr/et"):  # with a query, servers list nothing
            done = here("ls", f"{url}/more/nothing{query}")
            assert done.code == 2
            assert done.err.startswith(f"lancefs: {url}/more/nothing")
            assert "there is no such directory" in done.err
            assert "s3cr" not in done.err


def test_what_lies_above_a_path_need_not_be_listable(
    shop: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, detail: bool = True, **_: Any) -> list[Any]:
        if not path.strip("/").startswith("bucket/may"):
            raise PermissionError(path)
        raise FileNotFoundError(path)

    fs = fsspec.filesystem("memory")
    monkeypatch.setattr(fs, "ls", refuse)
    done = here("ls", "memory://bucket/may/nothing")
    assert done.code == 2
    assert done.err.startswith("lancefs: memory:///bucket/may/nothing: there is no such directory")


def test_ls_shows_the_tables_of_a_folder(shop: Path, here: Here) -> None:
    assert here("ls", str(shop)).out.split() == ["more/", "teas.lance"]
    assert here("ls", str(shop / "more")).out.split() == ["deep.lance"]
    long = here("ls", "-l", str(shop)).out.splitlines()
    assert long[0].split()[:3] == ["name", "version", "versions"]
    assert long[2].split()[:3] == ["teas.lance", "3", "3"]
    rows = json.loads(here("ls", str(shop), "--format", "json").out)
    assert [row["rows"] for row in rows] == [None, 90]
    assert rows[1]["columns"] == 3
    assert rows[1]["bytes"] > 0


def test_ls_shows_the_tree_of_a_table(shop: Path, here: Here) -> None:
    table = str(shop / "teas.lance")
    fs = fsspec.filesystem("lance", fo=table, skip_instance_cache=True)
    assert [entry.rpartition("/")[2] for entry in fs.ls("", detail=False)] == list(TREE)
    assert [line.rstrip("/") for line in here("ls", table).out.split()] == list(TREE)
    assert "2.arrow" in here("ls", f"{table}/versions").out.split()
    assert "schema.json" in here("ls", f"{table}@clean").out.split()
    assert "versions/" in here("ls", f"{table}/branches/exp").out.split()


def test_ls_goes_on_past_a_table_that_is_broken(tmp_path: Path, here: Here) -> None:
    (tmp_path / "broken.lance" / "_versions").mkdir(parents=True)
    (tmp_path / "broken.lance" / "_versions" / "1.manifest").write_bytes(b"nothing")
    lance.write_dataset(pa.table({"a": [1, 2]}), tmp_path / "fine.lance")
    done = here("ls", "-l", str(tmp_path), "-f", "json")
    broken, fine = json.loads(done.out)
    assert done.code == 0
    assert fine["rows"] == 2
    assert fine["note"] is None
    assert broken["rows"] is None
    assert "1.manifest" in broken["note"]


def test_ls_goes_on_past_a_folder_that_may_not_be_listed(
    shop: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_directory = store_module.list_directory

    def refuse(path: str) -> list[tuple[str, dict[str, object]]]:
        if path.endswith("/more"):
            raise PermissionError(13, "Permission denied", path)
        return list_directory(path)

    monkeypatch.setattr(store_module, "list_directory", refuse)
    monkeypatch.setattr(LocalFileSystem, "ls", _refusing(LocalFileSystem.ls))
    done = here("ls", str(shop))
    assert (done.code, done.out) == (0, "more/\nteas.lance\n")
    assert "/more" in done.err
    assert "Permission denied" in done.err
    listed = {row["name"]: row for row in json.loads(here("ls", str(shop), "-f", "json").out)}
    assert listed["teas.lance"]["rows"] == 90
    assert "Permission denied" in listed["more"]["note"]


def _refusing(ls: Callable[..., Any]) -> Callable[..., Any]:
    def refuse(fs: LocalFileSystem, path: str, *args: Any, **kwargs: Any) -> Any:
        if path.endswith("/more"):
            raise PermissionError(13, "Permission denied", path)
        return ls(fs, path, *args, **kwargs)

    return refuse


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("f.parquet", "a file (Parquet), not a Lance table; pyarrow and DuckDB read it"),
        ("z.zip", "has the URL zip://NAME.lance::"),
        ("notes", "a file, not a Lance table; a table is a directory that contains _versions/"),
    ],
)
@pytest.mark.parametrize("command", ["head", "ls", "log"])
def test_a_file_that_is_no_table_is_called_one(
    command: str, name: str, said: str, tmp_path: Path, here: Here
) -> None:
    (tmp_path / name).write_bytes(b"PK")
    done = here(command, str(tmp_path / name))
    assert done.code == 2
    assert said in done.err


@pytest.mark.parametrize("number", ["-1", "ten", "1.5"])
def test_a_number_that_an_option_does_not_take_is_refused_in_words(number: str, here: Here) -> None:
    done = here("head", ORDERS, "-n", number)
    assert done.code == 2
    assert f"{number}: a whole number from 0 on was expected" in done.err
    done = here("serve", ORDERS, "--port", "99999")
    assert "99999: a whole number from 0 to 65535 was expected" in done.err


def test_a_table_in_place_of_a_command_is_told_where_it_stands(shop: Path, here: Here) -> None:
    table = f"{shop}/teas.lance"
    assert here(table).err.endswith(f"it stands before the table, as in lancefs head {table}\n")
    assert here("help").err.endswith("lancefs --help lists them\n")


def test_names_that_share_the_ending_only_are_not_suggested(shop: Path, here: Here) -> None:
    assert "did you mean teas.lance?" in here("head", f"{shop}/tea.lance").err
    assert "did you mean" not in here("head", f"{shop}/none.lance").err
    (shop / "teaz.txt").write_text("no table")
    assert "did you mean teas.lance?\n" in here("head", f"{shop}/teaz").err
    assert here("head", str(shop)).err.count("did you mean") == 1
    assert "did you mean" not in here("head", f"{shop}/teas.lance/_versions").err
    unlike = here("head", f"{shop}/teas.lance", "-c", "qqqq").err
    assert "has no column 'qqqq'; the table has 3 columns: id, tea, price" in unlike


def test_a_text_in_double_quotes_is_a_column_and_the_error_says_so(shop: Path, here: Here) -> None:
    done = here("head", f"{shop}/teas.lance", "-w", 'tea = "Zoë"')
    assert done.code == 2
    assert "the table has 3 columns: id, tea, price (a text stands in single quotes)" in done.err


def test_tree_draws_a_table_and_a_folder(shop: Path, here: Here) -> None:
    drawn = here("tree", f"{shop}/teas.lance", "--depth", "2").out
    assert "├── latest.arrow\n" in drawn
    assert "│   ├── 1.arrow\n" in drawn
    assert here("tree", str(shop)).out.splitlines()[1:] == [
        "├── more/",
        "│   └── deep.lance",
        "└── teas.lance",
    ]
    paths = json.loads(here("tree", str(shop), "--format", "json").out)
    assert [one["path"] for one in paths] == ["more", "more/deep.lance", "teas.lance"]


def test_head_shows_the_first_rows(shop: Path, here: Here) -> None:
    table = f"{shop}/teas.lance@1"
    lines = here("head", table, "-n", "2", "-c", "tea,id").out.splitlines()
    assert [line.split() for line in lines] == [["tea", "id"], ["Assam", "0"], ["Sencha", "1"]]
    assert len(here("head", table).out.splitlines()) == 11
    assert here("head", table, "-n", "0", "-c", "id").out == "id\n"
    found = json.loads(here("head", table, "-w", "price > 24 and tea is null", "-f", "json").out)
    assert [row["id"] for row in found] == [98]


@pytest.mark.parametrize("ref", ["", "@1", "@v2", "@clean", "@exp:latest", "@exp:1"])
def test_head_takes_any_ref_and_its_formats_agree(shop: Path, here: Here, ref: str) -> None:
    path, text = str(shop / "teas.lance"), f"{shop}/teas.lance{ref}"
    rows = lancefs.open(path, ref=ref[1:] or None).to_table()
    assert_same_table(
        pa.ipc.open_stream(here("head", text, "-n", "1000", "-f", "arrow").raw).read_all(), rows
    )
    assert json.loads(here("head", text, "-n", "1000", "-f", "json").out) == rows.to_pylist()
    read = list(csv.DictReader(io.StringIO(here("head", text, "-n", "1000", "-f", "csv").out)))
    assert [int(row["id"]) for row in read] == rows["id"].to_pylist()
    assert [row["tea"] or None for row in read] == rows["tea"].to_pylist()


def test_tail_and_sample_show_other_rows(shop: Path, here: Here) -> None:
    table = f"{shop}/teas.lance@clean"
    assert here("tail", table, "-n", "2", "-c", "id", "-f", "csv").out == '"id"\n88\n89\n'
    chosen = here("tail", table, "-n", "2", "-c", "id", "-w", "id < 9", "-f", "ndjson").out
    assert chosen == '{"id": 7}\n{"id": 8}\n'
    options = ("-n", "5", "--seed", "1", "-c", "id,tea", "-f", "tsv")
    drawn = here("sample", table, *options)
    assert drawn.out == here("sample", table, *options).out
    assert drawn.out.splitlines()[0] == '"id"\t"tea"'
    assert len(drawn.out.splitlines()) == 6


def test_count_prints_a_number(shop: Path, here: Here) -> None:
    assert here("count", f"{shop}/teas.lance@1").out == "100\n"
    assert here("count", f"{shop}/teas.lance", "-w", "id < 5").out == "5\n"
    wrong = here("count", f"{shop}/teas.lance", "-w", "id <")
    assert wrong.code == 2


def test_a_record_may_go_down_the_page(shop: Path, here: Here) -> None:
    done = here("head", f"{shop}/teas.lance@1", "-x", "-n", "2", "-c", "id,price")
    assert done.out == "row 1\n  id     0\n  price  0\nrow 2\n  id     1\n  price  0.25\n"
    refused = here("head", f"{shop}/teas.lance@1", "--expanded", "--format", "json")
    assert refused.code == 2
    assert "leave out --expanded, or --format json" in refused.err


def test_columns_may_be_given_in_several_options(shop: Path, here: Here) -> None:
    table = f"{shop}/teas.lance"
    once = here("head", table, "-c", "price,id").out
    assert here("head", table, "-c", "price", "-c", "id").out == once
    described = here("describe", table, "-c", "price", "-c", "tea,id", "--format", "json").out
    names = [column["name"] for column in json.loads(described)["columns"]]
    assert names == ["price", "tea", "id"]
    facts = here("log", table, "-c", "version", "-c", "rows", "--format", "csv").out
    assert facts.splitlines()[0] == '"version","rows"'


def test_head_explains_which_index_it_uses(tmp_path: Path, here: Here) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"id": range(100)}), path).create_scalar_index("id", "BTREE")
    explained = here("head", str(path), "-w", "id = 7", "--explain").out
    assert "index id_idx (BTree): 1 row," in explained
    scanned = here("head", str(path), "-w", "id = 7", "--explain", "--no-index").out
    assert "use_index is False" in scanned
    for option in ((), ("--no-index",)):
        assert here("head", str(path), "-w", "id = 7", *option).out.split() == ["id", "7"]


def test_sql_reads_the_same_rows_without_indices(
    tmp_path: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"id": range(100)}), path).create_scalar_index("id", "BTREE")
    query = f"SELECT id FROM '{path}' WHERE id = 7"
    assert here("sql", query, "-f", "csv").out.split() == ['"id"', "7"]
    monkeypatch.setattr("lancefs.index.lookup.TableIndices.look_up", None)
    assert here("sql", query, "-f", "csv", "--no-index").out.split() == ['"id"', "7"]


def test_a_version_of_an_unknown_writer_has_none(tmp_path: Path, here: Here) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"id": range(3)}), path)
    assert json.loads(here("show", str(path), "-f", "json").out)["writer"].startswith("lance ")
    rewrite_manifest(path, lambda manifest: manifest.ClearField("writer_version"))
    assert json.loads(here("show", str(path), "-f", "json").out)["writer"] is None
    assert "writer" not in here("show", str(path)).out


def test_a_time_names_a_version(shop: Path, here: Here) -> None:
    path = f"{shop}/teas.lance"
    first = lancefs.open(path, version=1).manifest.timestamp.isoformat()
    assert here("show", path, "--as-of", first).out.splitlines()[0].endswith("@1")
    both = here("head", f"{path}@2", "--as-of", first)
    assert both.code == 2
    assert "each name a version" in both.err


def test_every_type_is_shown_in_every_format(tmp_path: Path, here: Here) -> None:
    moment = pa.array([1_700_000_000_123_456_789, None], pa.timestamp("ns", "UTC"))
    rows = pa.table(
        {
            "when": moment,
            "took": pa.array([1_500_000_001, None], pa.duration("ns")),
            "blob": pa.array([b"\x00\xff", None]),
            "vector": pa.array([[1.5] * 300, None], pa.list_(pa.float32(), 300)),
            "user": pa.array([{"name": "Ada", "at": [1, 2, 3, 4, 5, 6]}, None]),
            "nan": pa.array([float("nan"), 1.0]),
            "text": pa.array(["two\nlines \x1b[31mred", 'a,"b"']),
            "half": pa.array([1.5, None], pa.float16()),
            "word": pa.array(["x", None]).dictionary_encode(),
        }
    )
    lance.write_dataset(rows, tmp_path / "types.lance")
    table = str(tmp_path / "types.lance")
    first, second = json.loads(here("head", table, "-f", "json").out)
    assert first["when"] == "2023-11-14T22:13:20.123456789Z"
    assert first["took"] == 1.500000001
    assert first["blob"] == "AP8="
    assert first["nan"] is None
    assert len(first["vector"]) == 300
    assert first["user"]["name"] == "Ada"
    assert second["vector"] is None
    assert first["word"] == "x"
    read = list(csv.DictReader(io.StringIO(here("head", table, "-f", "csv").out)))
    assert read[1]["text"] == 'a,"b"'
    assert json.loads(read[0]["user"])["at"][5] == 6
    assert read[0]["blob"] == "AP8="
    assert read[1]["user"] == ""
    assert read[0]["half"] == "1.5"
    shown = here("head", table).out
    assert "\x1b" not in shown
    assert "two\\nlines \\x1b[31mred" in shown
    assert "[1.5, 1.5, 1.5, 1.5, … 300 items]" in shown


def test_schema_shows_columns_and_ids(here: Here) -> None:
    lines = here("schema", ORDERS).out.splitlines()
    assert lines[1].split() == ["order_id", "int32", "never"]
    assert here("schema", ORDERS, "--ids").out.splitlines()[6].split()[:2] == ["price", "5"]
    said = json.loads(here("schema", f"{ORDERS}@1", "-f", "json").out)
    assert [one["column"] for one in said] == lancefs.open(ORDERS, version=1).schema.names


def test_log_tells_what_each_version_did(shop: Path, here: Here) -> None:
    table = f"{shop}/teas.lance"
    history = json.loads(here("log", table, "-f", "json").out)
    assert [one["version"] for one in history] == [3, 2, 1]
    assert (history[1]["rows_deleted"], history[1]["tags"]) == (10, ["clean"])
    text = here("log", table).out.splitlines()
    assert text[2].split()[0] == "2"
    assert "−10" in text[2]
    assert "clean" in text[2]
    assert [one["version"] for one in json.loads(here("log", f"{table}@2", "-f", "json").out)] == [
        2,
        1,
    ]
    newest = json.loads(here("log", table, "-n", "1", "-f", "json").out)
    assert newest == history[:1]
    assert here("log", f"{table}@2", "-n", "1").out.splitlines()[1].split()[0] == "2"
    assert json.loads(here("log", table, "--reverse", "-f", "json").out) == history[::-1]


def test_log_shows_the_facts_that_are_named(shop: Path, here: Here) -> None:
    table = f"{shop}/teas.lance"
    lines = here("log", table, "-c", "version,writer,rows_deleted").out.splitlines()
    assert lines[0].split() == ["version", "writer", "rows_deleted"]
    assert lines[2].split() == ["2", "lance", lance.__version__, "−10"]
    chosen = json.loads(here("log", table, "-c", "rows,version", "-n", "1", "-f", "json").out)
    assert [list(one) for one in chosen] == [["rows", "version"]]
    wrong = here("log", table, "-c", "versio")
    assert wrong.code == 2
    assert "a version has no 'versio'; did you mean version" in wrong.err


def test_a_version_may_go_down_the_page(shop: Path, here: Here) -> None:
    table = f"{shop}/teas.lance@2"
    done = here("log", table, "-x", "-c", "version,rows_deleted,tags")
    first = "row 1\n  version       2\n  rows_deleted  10\n  tags          [clean]\n"
    assert done.out.startswith(first)
    assert "  properties      []" in here("log", table, "-x").out.splitlines()
    assert here("log", table, "--expanded", "-f", "csv").code == 2


def test_describe_tells_what_values_are_like(shop: Path, here: Here) -> None:
    table = f"{shop}/teas.lance@1"
    lines = here("describe", table, "-c", "id,price").out.splitlines()
    assert lines[0].split()[:4] == ["column", "type", "nulls", "distinct"]
    assert lines[1].split()[:6] == ["id", "int64", "100", "0", "49", "99"]
    assert "█" in lines[1]
    said = json.loads(here("describe", table, "-w", "id < 10", "-f", "json").out)
    assert said["rows"] == 10
    assert said["columns"][0]["values"]["quantiles"]["0.5"] == 4
    drawn = json.loads(here("describe", table, "--sample", "7", "--seed", "1", "-f", "json").out)
    assert (drawn["rows"], drawn["total"]) == (7, 100)
    assert here("describe", table, "-c", "idd").code == 2
    assert here("describe", table, "--sample", "0").code == 2
    assert here("describe", table, "--sample", "7", "--seed", "-1").code == 2
    drift = here("describe", f"{shop}/teas.lance", "-c", "id", "--against", "v1").out.splitlines()
    assert drift[0].split()[:2] == ["column", "distance"]
    assert drift[1].split()[0] == "id"
    compared = here("describe", f"{shop}/teas.lance", "--against", "1", "-f", "json")
    assert json.loads(compared.out)["against"].endswith("teas.lance@1")
    assert here("describe", f"{shop}/teas.lance", "--against", "99").code == 2
    on_terminal = run_on_terminal(["describe", ORDERS, "--sample", "50"], columns=140)
    assert "50 rows at random, of 1,191 of" in on_terminal.out


def test_describe_writes_a_row_a_column(shop: Path, here: Here) -> None:
    table = f"{shop}/teas.lance"
    lines = here("describe", table, "-c", "id,tea", "-f", "csv").out.splitlines()
    assert lines[0].startswith('"column","type","rows","nulls","distinct","min","max","mean"')
    assert lines[1].startswith('"id","int64",90,0,90,"0","89","44.5"')
    assert lines[2].startswith('"tea","string",90,30,2,"Assam","Sencha"')
    rows = map(json.loads, here("describe", table, "-f", "ndjson").out.splitlines())
    assert [row["column"] for row in rows] == ["id", "tea", "price"]
    refused = here("describe", table, "--against", "1", "-f", "csv")
    assert (refused.code, refused.out) == (2, "")
    assert "choose json" in refused.err


def test_a_column_in_other_capitals_is_suggested(shop: Path, here: Here) -> None:
    assert "no column 'ID'; did you mean id?" in here("head", f"{shop}/teas.lance", "-c", "ID").err


def test_version_0_was_never_cleaned_up(shop: Path, here: Here) -> None:
    error = here("count", f"{shop}/teas.lance@0").err
    assert error.endswith("there is no version 0; the table has 1, 2, 3\n")


def test_show_tells_what_a_version_is_made_of(shop: Path, here: Here) -> None:
    table = f"{shop}/teas.lance@clean"
    text = here("show", table).out
    assert text.splitlines()[0].endswith("teas.lance@2")
    assert "rows       90 (10 deleted)" in text
    assert "3 fragments" in text
    said = json.loads(here("show", table, "-f", "json").out)
    assert said["tags"] == ["clean"]
    assert [one["deleted"] for one in said["fragments"]] == [0, 0, 10]
    assert said["fragments"][0]["files"][0]["path"].endswith(".lance")


def test_show_tells_of_indices_and_settings(tmp_path: Path, here: Here) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(50)}), path)
    lance.dataset(path).create_scalar_index("a", "BTREE")
    lance.write_dataset(pa.table({"a": range(7)}), path, mode="append")
    lance.dataset(path).update_config({"owner": "tea shop"})
    text = here("show", str(path)).out
    assert "1 index\n" in text
    assert "owner = tea shop" in text
    index = json.loads(here("show", str(path), "-f", "json").out)["indices"][0]
    assert (index["type"], index["uncovered_rows"]) == ("BTree", 7)


def test_a_terminal_gets_colours_and_columns_that_fit() -> None:
    wide = run_on_terminal(["log", ORDERS], columns=140)
    assert wide.code == 0
    assert "\x1b[" in wide.out
    assert "4 versions" in wide.out
    narrow = run_on_terminal(["head", ORDERS], columns=60)
    assert "more columns" in narrow.out
    assert max(len(line) for line in _plain(narrow.out).splitlines()) <= 60


def test_a_pipe_gets_plain_text() -> None:
    done = run("log", ORDERS)
    assert done.code == 0
    assert "\x1b" not in done.out
    assert done.out.splitlines()[0].split()[0] == "version"


def test_memory_and_options_of_a_store(here: Here, tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": [1]}), tmp_path / "t.lance")
    local = fsspec.filesystem("file")
    memory = fsspec.filesystem("memory")
    for path in local.find(str(tmp_path / "t.lance")):
        memory.pipe_file(path.replace(str(tmp_path), "/cli"), local.cat_file(path))
    assert here("head", "memory://cli/t.lance").out.split() == ["a", "1"]
    listed = here("ls", "memory://cli", "--storage-option", "use_listings_cache=false")
    assert listed.out.split() == ["t.lance"]
    bad = here("ls", "memory://cli", "--storage-option", "anon")
    assert bad.code == 2
    assert "key=value was expected" in bad.err


def _plain(text: str) -> str:
    import re

    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def test_show_says_that_there_are_fresher_rows(tmp_path: Path, here: Here) -> None:
    key = {"lance-schema:unenforced-primary-key": "true"}
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=key)])
    path = str(tmp_path / "log.lance")
    rows = pa.table({"id": [1, 2]}, schema=schema)
    lance.write_dataset(rows, path).initialize_mem_wal()
    assert "not merged" not in here("show", path).out
    with lance.dataset(path).mem_wal_writer(str(uuid4())) as writer:
        writer.put(rows)
    assert "1 generation, 2 rows, flushed and not merged" in here("show", path).out
    (found,) = json.loads(here("show", path, "-f", "json").out)["unmerged_generations"]
    assert found["rows"] == 2


def test_a_member_of_a_struct_is_a_column(tmp_path: Path, here: Here) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": [1, 2], "st": [{"x": 5, "y": "a"}, None]}), path)
    assert here("head", path, "-c", "st.x,id", "-f", "csv").out == '"st.x","id"\n5,1\n,2\n'
    assert here("head", path, "-c", "id", "-w", "st.x > 3", "-f", "csv").out == '"id"\n1\n'
    exported = tmp_path / "x.csv"
    assert here("export", path, str(exported), "-c", "st.y").code == 0
    assert exported.read_text() == '"st.y"\n"a"\n\n'
    wrong = here("head", path, "-c", "st.z")
    assert wrong.code == 2
    assert "did you mean 'st.y' or 'st.x'" in wrong.err


@pytest.mark.skipif(duckdb.__version__ < "2", reason="DuckDB tells filters when it reads")
def test_sql_explains_which_index_each_scan_uses(tmp_path: Path, here: Here) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"id": range(100)}), path).create_scalar_index("id", "BTREE")
    query = f"SELECT a.id FROM '{path}' a JOIN '{path}@v1' b USING (id) WHERE a.id = 7"
    explained = here("sql", "--explain", query).out
    assert f"{path}@2\nfilter (id == 7)\nindex id_idx (BTree): 1 row," in explained
    assert f"{path}@1\nfilter (id == 7)\nscan of 1 fragment; no index" in explained
    assert "use_index is False" in here("sql", "--explain", "--no-index", query).out
    assert "there is no filter" in here("sql", "--explain", f"FROM '{path}'").out
    assert "index" not in here("sql", "--explain", "SELECT 1").out


def test_rules_for_base_paths_are_named_as_options(tmp_path: Path, here: Here) -> None:
    original, clone = str(tmp_path / "a" / "t.lance"), str(tmp_path / "b" / "t.lance")
    lance.write_dataset(pa.table({"a": [1]}), original).shallow_clone(clone, 1)
    refused = here("head", clone)
    assert refused.code == 3
    assert "--base-path OLD=NEW and --follow any" in refused.err
    assert here("head", clone, "--base-path", f"{original}={original}").out.split() == ["a", "1"]
