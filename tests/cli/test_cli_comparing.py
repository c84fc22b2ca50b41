"""`diff` and `sql`."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from running import Here, run, run_on_terminal
from support import ORDERS


def test_diff_counts_first(shop: Path, here: Here) -> None:
    lines = here("diff", f"{shop}/teas.lance", "1", "3").out.splitlines()
    assert lines[1:4] == ["  0 rows inserted", "  10 rows deleted", "  5 rows updated"]
    assert "same schema" in lines[4]
    assert "schema: add total: decimal:128:14:2" in here("diff", ORDERS, "2", "3").out


def test_diff_takes_refs_in_any_of_its_forms(here: Here) -> None:
    wanted = here("diff", ORDERS, "3", "4").out
    for arguments in (
        [f"{ORDERS}@3", ORDERS],
        [f"{ORDERS}@prod", "latest"],
        [f"{ORDERS}@3", f"{ORDERS}@v4"],
        [ORDERS, "prod", "4"],
        [ORDERS, "3"],
        [f"{ORDERS}@3"],
    ):
        assert here("diff", *arguments).out == wanted


def test_diff_alone_shows_what_the_newest_version_changed(
    shop: Path, tmp_path: Path, here: Here
) -> None:
    table = f"{shop}/teas.lance"
    assert here("diff", table).out == here("diff", table, "2", "3").out
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": [1]}), path)
    done = here("diff", path)
    assert (done.code, done.out) == (2, "")
    assert "t.lance@1 is the only version" in done.err


def test_diff_stays_on_the_branch(tmp_path: Path, here: Here) -> None:
    path = str(tmp_path / "t.lance")
    dataset = lance.write_dataset(pa.table({"a": [1]}), path)
    branch = dataset.create_branch("exp", 1)
    branch.insert(pa.table({"a": [2]}))
    branch.tags.create("there", ("exp", 2))
    wanted = here("diff", path, "exp:1", "exp:2").out
    assert "1 row inserted" in wanted
    for arguments in (
        [f"{path}@exp:latest"],
        [f"{path}@exp:latest", "1"],
        [f"{path}@exp:1"],
        [f"{path}@exp:1", "2"],
        [f"{path}@exp:1", "there"],
        [f"{path}@there", "1", "2"],
    ):
        assert here("diff", *arguments).out == wanted
    assert "on two branches" in here("diff", path, "there").err
    gone = here("diff", f"{path}@exp:0", "2").err
    assert "there is no version 0; the table has 1, 2" in gone


def test_diff_shows_the_rows_when_asked(shop: Path, here: Here) -> None:
    table = f"{shop}/teas.lance"
    text = here("diff", table, "2", "3", "--rows", "-n", "2").out.splitlines()
    assert text[-1] == "… 8 more; --limit 10 shows them"
    assert len([line for line in text if line.startswith(("<", ">"))]) == 2
    rows = json.loads(here("diff", table, "1", "3", "--rows", "-f", "json").out)
    assert len(rows) == 20
    assert {row["_change_type"] for row in rows} == {
        "delete",
        "update_preimage",
        "update_postimage",
    }
    said = json.loads(here("diff", table, "1", "3", "-f", "json").out)
    assert said["rows"] == {"inserted": 0, "deleted": 10, "updated": 5}


def test_diff_by_a_key_counts_and_shows_changed_values(tmp_path: Path, here: Here) -> None:
    path = str(tmp_path / "t.lance")
    rows = pa.table({"id": [1, 2, 3, 4], "x": ["a", "b", "c", "d"], "v": [1.5, 2, 3, 4]})
    dataset = lance.write_dataset(rows, path)
    dataset.update({"x": "upper(x)", "v": "v + 1"}, where="id in (2, 3)")
    dataset.delete("id = 4")
    lines = here("diff", path, "1", "--key", "id").out.splitlines()
    assert lines[1:6] == [
        *("  0 rows inserted", "  1 row deleted", "  2 rows updated"),
        *("    x: 2 values", "    v: 2 values"),
    ]
    said = json.loads(here("diff", path, "1", "--key", "id", "-f", "json").out)
    assert (said["rows"]["updated"], said["cells"]) == (2, {"x": 2, "v": 2})
    shown = here("diff", path, "1", "--key", "id", "--cells", "-n", "3").out.splitlines()
    assert shown[-4].split() == ["2", "x", "b", "B", "2"]
    assert shown[-1] == "… 1 more; --limit 4 shows them"
    cells = json.loads(here("diff", path, "1", "-k", "id", "--cells", "-f", "json").out)
    assert len(cells) == 4
    assert cells[3] == {"key": {"id": 3}, "column": "v", "before": 3, "after": 4, "version": 2}
    pairs = json.loads(here("diff", path, "1", "-k", "id", "--rows", "-f", "json").out)
    assert [row["_changed_columns"] for row in pairs] == [["x", "v"]] * 4 + [None]


def test_diff_refuses_options_that_do_not_go_together(shop: Path, here: Here) -> None:
    table = f"{shop}/teas.lance"
    for options, said in (
        (["--cells"], "--cells is for --key"),
        (["--key", "id", "--cells", "-f", "csv"], "choose json or ndjson"),
        (["--key", "id", "--cells", "--rows", "-f", "json"], "leave one of them out"),
        (["--key", "idd"], "did you mean id?"),
    ):
        done = here("diff", table, "1", "3", *options)
        assert (done.code, said in done.err) == (2, True), done.err


def test_diff_is_of_one_table(shop: Path, here: Here) -> None:
    done = here("diff", ORDERS, f"{shop}/teas.lance")
    assert done.code == 2
    assert "two versions of one are compared" in done.err
    assert "add --rows" in here("diff", ORDERS, "1", "2", "-f", "csv").err


def test_sql_runs_a_query_in_every_format() -> None:
    query = (
        f"SELECT city, count(*)::INT AS n FROM '{ORDERS}@v1' GROUP BY city ORDER BY n DESC LIMIT 1"
    )
    assert run("sql", query).out.split()[:3] == ["city", "n", "Utrecht"]
    done = run("sql", "-f", "json", stdin=query)
    assert done.code == 0
    assert done.err == ""
    (row,) = json.loads(done.out)
    assert row["city"] == "Utrecht"
    versions = run("sql", f"SELECT version FROM lance_versions('{ORDERS}')", "-f", "csv")
    assert versions.out.splitlines()[1:] == ["1", "2", "3", "4"]


def test_sql_prints_a_plan_and_does_not_run_the_query(tmp_path: Path) -> None:
    query = f"CREATE TABLE t AS SELECT 1 AS a; SELECT city FROM '{ORDERS}', t WHERE price > 3"
    done = run("sql", "--explain", query)
    assert (done.code, done.err) == (0, "")
    assert "price" in done.out
    assert "SCAN" in done.out.upper()
    assert "Utrecht" not in done.out
    out = tmp_path / "out.csv"
    assert run("sql", "--explain", f"COPY (FROM '{ORDERS}') TO '{out}'").code == 0
    assert not out.exists()


def test_sql_runs_several_statements_and_keeps_a_database(tmp_path: Path) -> None:
    database = str(tmp_path / "notes.duckdb")
    script = f"CREATE TABLE t AS FROM '{ORDERS}@v2'; CREATE VIEW v AS SELECT city FROM t;"
    done = run("sql", "--database", database, stdin=script)
    assert (done.code, done.out) == (0, "")
    assert run("sql", "SELECT count(*) n FROM v", "--database", database).out.split() == [
        "n",
        "1188",
    ]


def test_sql_has_a_prompt() -> None:
    done = run_on_terminal(
        ["sql"],
        [
            ("lancefs>", f"SELECT count(*) AS total FROM '{ORDERS}@v2'\n"),
            ("...", ";\n"),
            ("1188", "SELECT nonsense;\n"),
            ("not found", "SELECT 40 + 2 AS answer;\n"),
            ("42", ".quit\n"),
        ],
    )
    assert done.code == 0
    assert "1188" in done.out
    assert "42" in done.out
    assert "Traceback" not in done.out


def test_sql_explains_what_duckdb_cannot_know_of_tables(
    shop: Path, tmp_path: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop)
    done = here("sql", "FROM 'no such.lance@3'")
    assert done.code == 2
    assert "no such.lance: there is no such directory, or it is empty" in done.err
    assert "single quotes: FROM 'teas.lance'" in here("sql", "FROM teas.lance").err
    assert "single quotes: FROM 'orders.lance'" in here("sql", "FROM ./teas.lance").err
    assert "single quotes: FROM 'teas.lance'" in here("sql", "FROM teas").err
    assert "quotes" not in here("sql", "FROM coffees").err
    assert "quotes" not in here("sql", "SELEC 1 FROM 'teas.lance'").err
    assert "did you mean teas.lance?" in here("sql", "FROM 'tea.lance'").err
    assert "or by lance_scan(" in here("sql", "FROM read_lance('teas.lance')").err
    assert "by its path" not in here("sql", "FROM lance_scann('teas.lance')").err
    at_version = "FROM 'teas.lance' AT (VERSION => 1)"
    assert "A version follows the path: FROM 't.lance@v1'" in here("sql", at_version).err
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    assert "a folder of Parquet files" in here("sql", f"FROM '{tmp_path}'").err


@pytest.mark.parametrize(
    "statement", ["INSERT INTO 'teas.lance' VALUES (1)", "DROP TABLE 'teas.lance'"]
)
def test_sql_says_that_tables_are_only_read(
    statement: str, shop: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop)
    done = here("sql", statement)
    assert done.code == 2
    assert done.err == "lancefs: teas.lance: a Lance table is only read; no statement changes it\n"


def test_sql_ends_a_message_in_front_of_a_hint(
    shop: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop)
    done = here("sql", "SELECT * FROM ./teas.lance")
    assert 'error at or near ".". A path stands in single quotes' in done.err
    done = here("sql", "FROM 'teas.lance' AT (VERSION => 1)")
    assert "not support time travel. A version follows the path" in done.err


def test_sql_prints_the_plans_that_a_query_asks_for(here: Here) -> None:
    done = here("sql", f"EXPLAIN ANALYZE SELECT city FROM '{ORDERS}' WHERE price > 3")
    assert (done.code, done.err) == (0, "")
    assert "\\n" not in done.out
    assert len(done.out.splitlines()) > 5
    done = here("sql", "EXPLAIN SELECT 1", "--format", "json")
    assert json.loads(done.out)[0].keys() == {"explain_key", "explain_value"}


def test_sql_runs_a_query_that_begins_with_a_comment(here: Here) -> None:
    query = "-- a = b\nSELECT 1 AS one"
    for arguments in ([query], [query, "--format", "csv"], ["--format", "csv", query]):
        done = here("sql", *arguments)
        assert (done.code, done.err) == (0, "")
        assert "one" in done.out
    assert "one" in here("sql", "--one\nSELECT 1 AS one").out
    assert here("sql", "--", query).code == 0
    assert "no such option '--nope'" in here("sql", "--nope", "SELECT 1").err


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_a_column_of_a_name_that_was_there_is_in_json_too(form: str, here: Here) -> None:
    done = here("sql", "SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS a", "--format", form)
    (row,) = json.loads(f"[{done.out}]" if form == "ndjson" else done.out)
    assert row == {"a": 1, "a_2": 2, "a_1": 3, "a_3": 4}
    done = here("head", ORDERS, "-n", "1", "-c", "city,city", "--format", form)
    assert '{"city": "Gent", "city_1": "Gent"}' in done.out


def test_sql_writes_no_csv_file_in_the_name_of_a_lance_table(tmp_path: Path, here: Here) -> None:
    out = tmp_path / "new.lance"
    done = here("sql", f"COPY (FROM '{ORDERS}') TO '{out}'")
    assert done.code == 2
    assert "lancefs only reads Lance tables, and refuses this COPY" in done.err
    assert not out.exists()
    assert here("sql", f"COPY (FROM '{ORDERS}') TO '{out}' (FORMAT parquet)").code == 0
    assert out.read_bytes().startswith(b"PAR1")


def test_sql_runs_a_query_behind_another(here: Here) -> None:
    done = here("sql", "SELECT 1 FROM range(300000); SELECT 2 AS two", "--format", "csv")
    assert (done.code, done.out) == (0, '"two"\n2\n')


def test_sql_reads_standard_input_where_a_dash_stands_for_it() -> None:
    done = run("sql", "-x", "-", stdin="SELECT 1; SELECT 42 AS answer, 'tea' AS drink")
    assert done.code == 0, done.err
    assert [line.split() for line in done.out.splitlines()] == [
        ["row", "1"],
        ["answer", "42"],
        ["drink", "tea"],
    ]


def test_sql_marks_no_place_in_an_error_of_one_line(here: Here) -> None:
    done = here("sql", f"SELECT * FROM '{ORDERS}' WHERE quantity > 'a'")
    assert done.err == "lancefs: Conversion Error: Could not convert string 'a' to INT16\n"
