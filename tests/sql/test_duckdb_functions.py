"""The functions: rows of a version, and what is known of a table."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa
import pytest
from roads import EACH_INTERFACE, ORDERS_ROWS, connect, needs_install
from support import ORDERS

import lancefs
from duckdb_adapter.functions import FUNCTIONS


def rows(con: Any, query: str) -> list[dict[str, Any]]:
    """Run a query, and return its rows as Arrow tells them."""
    relation = con.sql(query)
    name = "to_arrow_table" if hasattr(relation, "to_arrow_table") else "fetch_arrow_table"
    found: list[dict[str, Any]] = getattr(relation, name)().to_pylist()
    return found


def count(con: Any, arguments: str) -> int:
    return int(con.execute(f"SELECT count(*) FROM lance_scan('{ORDERS}'{arguments})").fetchone()[0])


def test_lance_scan_names_versions_in_every_way(con: Any) -> None:
    assert count(con, "") == ORDERS_ROWS[4]
    assert count(con, ", 1") == ORDERS_ROWS[1]
    assert count(con, ", version := 2") == ORDERS_ROWS[2]
    assert count(con, ", version := 'v2'") == ORDERS_ROWS[2]
    assert count(con, ", tag := 'prod'") == ORDERS_ROWS[3]
    assert count(con, ", branch := 'main', version := 1") == ORDERS_ROWS[1]
    assert int(con.execute(f"SELECT count(*) FROM lance_scan('{ORDERS}@v1')").fetchone()[0]) == 1200


def test_as_of_is_the_newest_version_of_that_time(con: Any) -> None:
    second = lancefs.open(ORDERS, version=2).manifest.timestamp
    for time in (second, second + timedelta(microseconds=1)):
        text = time.astimezone(UTC).isoformat()
        assert count(con, f", as_of := '{text}'") == ORDERS_ROWS[2]
        assert count(con, f", as_of := TIMESTAMPTZ '{text}'") == ORDERS_ROWS[2]
    naive = second.astimezone(UTC).replace(tzinfo=None).isoformat()
    assert count(con, f", as_of := TIMESTAMP '{naive}'") == ORDERS_ROWS[2]
    assert count(con, ", as_of := DATE '2100-01-01'") == ORDERS_ROWS[4]
    with pytest.raises(duckdb.Error, match="no version from 2001-01-01"):
        count(con, ", as_of := DATE '2001-01-01'")


def test_as_of_takes_the_time_of_a_variable(con: Any) -> None:
    con.execute("SET VARIABLE moment = now()")
    assert count(con, ", as_of := getvariable('moment')") == ORDERS_ROWS[4]


def test_a_wrapped_connection_says_where_a_time_is_another_one_each_time() -> None:
    """DuckDB looks for the table twice, and `now()` is another name then."""
    for statement in ("", "CREATE VIEW recent AS "):
        with closing(connect("wrap")) as con:
            query = f"{statement}FROM lance_scan('{ORDERS}', as_of := now())"
            with pytest.raises(duckdb.InvalidInputException, match="SET VARIABLE moment = now"):
                con.execute(query)


def test_a_macro_gives_its_parameters_to_a_function(con: Any) -> None:
    text = f"'FROM lance_scan(''{ORDERS}'', version := ' || version || ')'"
    con.execute(f"CREATE MACRO rows_of(version) AS TABLE SELECT order_id FROM query({text})")
    for version, rows in ORDERS_ROWS.items():
        assert con.execute(f"SELECT count(*) FROM rows_of({version})").fetchone() == (rows,)


def test_a_macro_is_told_how_to_give_its_parameters() -> None:
    """DuckDB 1.5 and 2.0.0 look for the table when the macro is created."""
    with closing(connect("wrap")) as con:
        create = f"CREATE MACRO rows_of(v) AS TABLE FROM lance_scan('{ORDERS}', version := v)"
        if duckdb.__version__.startswith(("1.5", "2.0.0")):
            with pytest.raises(duckdb.InvalidInputException, match=r"FROM query\('FROM lance_scan"):
                con.execute(create)
        else:
            con.execute(create)
            assert con.execute("SELECT count(*) FROM rows_of(1)").fetchone() == (ORDERS_ROWS[1],)


def test_storage_options_are_a_map(con: Any) -> None:
    assert count(con, ", storage_options := MAP {'auto_mkdir': 'false'}") == ORDERS_ROWS[4]


def test_a_version_named_twice_is_an_error(con: Any) -> None:
    with pytest.raises(duckdb.Error, match="each name a version"):
        count(con, ", version := 1, tag := 'prod'")
    with pytest.raises(duckdb.Error, match="names a version, and so does version"):
        con.execute(f"FROM lance_scan('{ORDERS}@v1', version := 2)")


def test_a_table_that_is_not_there_is_an_error_and_so_is_none(con: Any) -> None:
    with pytest.raises(duckdb.Error, match="no such directory"):
        con.execute("FROM lance_scan('nowhere.lance')")
    with pytest.raises(duckdb.Error, match="not NULL"):
        con.execute("FROM lance_scan(NULL)")


def test_the_path_may_be_a_parameter_or_a_variable(con: Any) -> None:
    query = "SELECT count(*) FROM lance_scan(?, version := ?)"
    assert con.execute(query, [ORDERS, 1]).fetchone() == (ORDERS_ROWS[1],)
    assert con.execute(query, [ORDERS, 2]).fetchone() == (ORDERS_ROWS[2],)
    con.execute(f"SET VARIABLE orders = '{ORDERS}'")
    variable = con.execute("SELECT count(*) FROM lance_scan(getvariable('orders'))")
    assert variable.fetchone() == (ORDERS_ROWS[4],)


def test_lance_versions_tells_the_history(con: Any) -> None:
    found = rows(con, f"FROM lance_versions('{ORDERS}')")
    assert [row["version"] for row in found] == [1, 2, 3, 4]
    assert {row["version"]: row["rows"] for row in found} == ORDERS_ROWS
    assert [row["operation"] for row in found] == ["Overwrite", "Delete", "Merge", "Append"]
    assert [(row["rows_added"], row["rows_deleted"]) for row in found][1:] == [
        (0, 12),
        (0, 0),
        (3, 0),
    ]
    assert found[2]["schema_changes"] == ["add total: decimal:128:14:2"]
    assert [row["tags"] for row in found] == [[], [], ["prod"], []]
    times = [row["timestamp"] for row in found]
    assert times == sorted(times)
    assert all(isinstance(time, datetime) and time.tzinfo for time in times)
    assert all(row["writer"].startswith("lance 14") for row in found)


def test_times_with_a_zone_can_be_fetched(con: Any) -> None:
    query = f"SELECT timestamp FROM lance_versions('{ORDERS}') WHERE version = 2"
    assert con.execute(query).fetchone() == (lancefs.open(ORDERS, version=2).manifest.timestamp,)


def test_lance_versions_is_the_history_that_python_has(con: Any) -> None:
    history = lancefs.open(ORDERS).history()
    assert rows(con, f"FROM lance_versions('{ORDERS}')") == history.to_pylist()


def test_a_row_can_tell_its_id(con: Any) -> None:
    query = f"SELECT * FROM lance_scan('{ORDERS}', with_row_id := true)"
    expected = lancefs.open(ORDERS).to_table(columns=["order_id", "_rowid"]).to_pydict()
    found = con.execute(f"SELECT order_id, _rowid FROM ({query})").fetchall()
    assert found == list(zip(expected["order_id"], expected["_rowid"], strict=True))
    chosen = expected["_rowid"][-2]
    found = con.execute(f"{query} WHERE _rowid = {chosen}").fetchall()
    assert [(row[0], row[-1]) for row in found] == [(expected["order_id"][-2], chosen)]
    plain = con.execute(f"FROM lance_scan('{ORDERS}', with_row_id := false)").description
    assert "_rowid" not in [column[0] for column in plain]


def test_other_row_metadata_is_named(con: Any) -> None:
    names = ["_rowaddr", "_rowoffset", "_row_created_at_version"]
    query = (
        f"FROM lance_scan('{ORDERS}', version := 2, with_row_id := true, row_metadata := {names})"
    )
    expected = lancefs.open(ORDERS, version=2).with_row_metadata("_rowid", *names).to_table()
    assert rows(con, query) == expected.to_pylist()
    with pytest.raises(duckdb.Error, match="'_row' is none of _rowid, _rowaddr"):
        con.execute(f"FROM lance_scan('{ORDERS}', row_metadata := ['_row'])")


@pytest.fixture(scope="module")
def with_structs(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("structs") / "t.lance")
    struct = [
        None if n % 7 == 3 else {"x": n % 10 or None, "s": f"text {n % 4}"} for n in range(99)
    ]
    lance.write_dataset(pa.table({"id": range(99), "st": struct}), path, max_rows_per_file=40)
    return path


@EACH_INTERFACE
@pytest.mark.parametrize(
    "rest",
    [
        "SELECT * EXCLUDE (st) FROM {} ORDER BY id",
        'SELECT sum("st.x"), max("st.s"), count(st.x) FROM {}',
        'SELECT id FROM {} WHERE "st.x" > 3 AND "st.s" = \'text 1\' ORDER BY id',
        'SELECT "st.s", count(*) FROM {} WHERE "st.x" IS NULL GROUP BY 1 ORDER BY 1',
        'SELECT "st.x" FROM {} WHERE "st.x" IN (2, 3, 5) ORDER BY id LIMIT 4',
    ],
)
@pytest.mark.parametrize("place", ["'{}'", "['{}']"])
def test_members_of_structs_are_columns_where_they_are_named(
    con: Any, with_structs: str, rest: str, place: str
) -> None:
    members = f"lance_scan({place.format(with_structs)}, members := ['st.x', 'st.s'])"
    structs = f"""(SELECT *, st.x AS "st.x", st.s AS "st.s" FROM '{with_structs}')"""
    found = con.execute(rest.format(members)).fetchall()
    assert found
    assert found == con.execute(rest.format(structs)).fetchall()


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ("['st.y']", r"there is no column 'st\.y'"),
        ("'id'", "'id' is a column of"),
        ("5", "members is 5; names of columns were expected"),
        ("[1]", r"members is \[1\]; names"),
    ],
)
def test_members_that_are_not_there_are_refused(
    con: Any, with_structs: str, members: str, message: str
) -> None:
    with pytest.raises(duckdb.Error, match=message):
        con.execute(f"FROM lance_scan('{with_structs}', members := {members})")


def test_lance_changes_tells_the_rows_that_differ(con: Any) -> None:
    def kinds(arguments: str) -> dict[str, int]:
        query = (
            f"SELECT _change_type, count(*) FROM lance_changes('{ORDERS}', {arguments}) GROUP BY 1"
        )
        return dict(con.execute(query).fetchall())

    assert kinds("1, 2") == {"delete": 12}
    assert kinds("1") == kinds("'v1', 4") == {"delete": 12, "insert": 3}
    assert kinds("'prod'") == kinds("since := 3, until := 'latest'") == {"insert": 3}
    assert kinds("4, 4") == {}
    expected = lancefs.open(ORDERS).changes(1)
    assert rows(con, f"FROM lance_changes('{ORDERS}', 1)") == expected.to_pylist()


def test_changes_show_updates_where_row_ids_are_stable(con: Any, tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    table = str(tmp_path / "t.lance")
    start = pa.table({"a": [1, 2, 3], "half": pa.array([0.5, 1.5, 2.5], pa.float16())})
    dataset = lance.write_dataset(start, table, enable_stable_row_ids=True)
    dataset.update({"a": "20"}, where="a = 2")
    columns = "a, half, _change_type, _commit_version"
    found = con.execute(f"SELECT {columns} FROM lance_changes('{table}', 1) ORDER BY 1").fetchall()
    assert found == [(2, 1.5, "update_preimage", 2), (20, 1.5, "update_postimage", 2)]


def test_changes_of_a_branch_are_those_of_its_versions(con: Any, tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    table = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": [1, 2]}), table)
    branch = lance.dataset(table).create_branch("exp")
    branch.delete("a = 1")
    for call in (f"'{table}', 1, branch := 'exp'", f"'{table}@exp:latest', 1"):
        query = f"SELECT a, _change_type FROM lance_changes({call})"
        assert con.execute(query).fetchall() == [(1, "delete")]


def test_changes_of_nothing_say_what_is_expected(con: Any) -> None:
    with pytest.raises(duckdb.Error, match=r"lance_changes\('t\.lance', 3, 7\)"):
        con.execute(f"FROM lance_changes('{ORDERS}')")
    with pytest.raises(duckdb.Error, match="an older and a newer version"):
        con.execute(f"FROM lance_changes('{ORDERS}', 4, 1)")
    with pytest.raises(duckdb.Error, match="no version 9; the table has 1, 2, 3, 4"):
        con.execute(f"FROM lance_changes('{ORDERS}', 1, 9)")


def test_lance_refs_tells_tags_and_branches(con: Any, tmp_path: Path) -> None:
    (tag,) = rows(con, f"FROM lance_refs('{ORDERS}')")
    assert (tag["name"], tag["kind"], tag["version"], tag["branch"]) == ("prod", "tag", 3, None)
    lance = pytest.importorskip("lance")
    table = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": [1]}), table)
    lance.dataset(table).create_branch("exp/b")
    (branch,) = rows(con, f"FROM lance_refs('{table}')")
    assert (branch["name"], branch["kind"], branch["version"]) == ("exp/b", "branch", 1)
    found = rows(con, f"FROM lance_versions('{table}', branch := 'exp/b')")
    assert [row["branch"] for row in found] == ["exp/b"] * len(found)


def test_lance_fragments_tells_files_and_deletions(con: Any) -> None:
    first, last = rows(con, f"FROM lance_fragments('{ORDERS}')")
    assert (first["num_rows"], first["physical_rows"], first["num_deleted"]) == (1188, 1200, 12)
    assert first["deletion_file"].endswith(".arrow")
    assert [len(file["field_ids"]) for file in first["data_files"]] == [7, 1]
    assert (last["fragment_id"], last["num_rows"], last["deletion_file"]) == (1, 3, None)
    (before,) = rows(con, f"FROM lance_fragments('{ORDERS}', version := 1)")
    assert before["num_deleted"] == 0


def test_lance_fields_tells_ids_and_types(con: Any) -> None:
    found = rows(con, f"FROM lance_fields('{ORDERS}', tag := 'prod')")
    assert [row["field_id"] for row in found] == list(range(8))
    assert found[5]["name"] == "price"
    assert found[5]["logical_type"] == "decimal:128:8:2"
    assert found[5]["arrow_type"] == "decimal128(8, 2)"
    assert [row["nullable"] for row in found[:2]] == [False, True]


def test_lance_fields_goes_into_nested_ones(con: Any, tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    table = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"s": [{"a": 1, "b": [2.0]}]}), table)
    found = rows(con, f"SELECT path, field_id, parent_id FROM lance_fields('{table}')")
    assert [row["path"] for row in found] == ["s", "s.a", "s.b", "s.b.item"]
    ids = {row["path"]: row["field_id"] for row in found}
    assert found[0]["parent_id"] is None
    assert found[3]["parent_id"] == ids["s.b"]


def test_lance_indices_tells_what_is_indexed(con: Any, tmp_path: Path) -> None:
    assert rows(con, f"FROM lance_indices('{ORDERS}')") == []
    lance = pytest.importorskip("lance")
    table = str(tmp_path / "t.lance")
    dataset = lance.write_dataset(pa.table({"a": list(range(100))}), table)
    dataset.create_scalar_index("a", "BTREE")
    (index,) = rows(con, f"FROM lance_indices('{table}')")
    assert index["name"] == "a_idx"
    assert index["columns"] == ["a"]
    assert index["type"] == "BTree"
    assert index["fragment_ids"] == [0]
    assert (index["uncovered_rows"], index["is_system"]) == (0, False)
    assert index["size_bytes"] == sum(file["size_bytes"] for file in index["files"]) > 0


@needs_install
def test_functions_are_documented_in_duckdb() -> None:
    con = connect("install")
    query = """
        SELECT function_name, description, examples FROM duckdb_functions()
        WHERE function_name LIKE 'lance%' ORDER BY ALL
    """
    found = con.execute(query).fetchall()
    assert [name for name, _, _ in found] == sorted(function.name for function in FUNCTIONS)
    assert all(description and examples for _, description, examples in found)


def test_lance_indexes_is_another_name_of_lance_indices(con: Any) -> None:
    rows = con.execute(f"FROM lance_indexes('{ORDERS}')").fetchall()
    assert rows == con.execute(f"FROM lance_indices('{ORDERS}')").fetchall()
    described = con.execute("DESCRIBE FROM lance_indexes(?)", [ORDERS]).fetchall()
    assert described == con.execute("DESCRIBE FROM lance_indices(?)", [ORDERS]).fetchall()


def test_row_ids_choose_rows(con: Any) -> None:
    query = f"SELECT _rowid, order_id FROM lance_scan('{ORDERS}', with_row_id := true)"
    known = dict(con.execute(query).fetchall())
    some = list(known)[10:500:100]
    scan = f"FROM lance_scan('{ORDERS}', row_ids := ?)"
    found = con.execute(f"SELECT order_id {scan}", [some]).fetchall()
    assert sorted(one for (one,) in found) == sorted(known[one] for one in some)
    assert con.execute(f"SELECT count(*) {scan}", [some]).fetchone() == (len(some),)
    assert con.execute(f"SELECT count(*) {scan} WHERE order_id < 0", [some]).fetchone() == (0,)
    assert con.execute(f"SELECT count(*) {scan}", [[]]).fetchone() == (0,)
    assert con.execute(f"SELECT count(*) {scan}", [[2**63]]).fetchone() == (0,)
    with pytest.raises(duckdb.Error, match="row_ids"):
        con.execute(f"FROM lance_scan('{ORDERS}', row_ids := ['a'])")


def test_the_first_rows_of_an_order_are_read_by_their_row_ids(con: Any) -> None:
    con.execute(
        f"""SET VARIABLE top = (SELECT list(_rowid) FROM (SELECT _rowid
        FROM lance_scan('{ORDERS}', with_row_id := true) ORDER BY ordered_at DESC LIMIT 10))"""
    )
    query = "SELECT * FROM {} ORDER BY ordered_at DESC LIMIT 10"
    two = query.format(f"lance_scan('{ORDERS}', row_ids := getvariable('top'))")
    assert con.execute(two).fetchall() == con.execute(query.format(f"'{ORDERS}'")).fetchall()


def indexed(path: Path) -> str:
    """Write a table with indices over items of lists and over parts of texts."""
    ids = range(2000)
    data = pa.table(
        {
            "id": ids,
            "tags": [[f"t{one % 100}"] for one in ids],
            "text": [f"word{one % 200}x" for one in ids],
        }
    )
    lance.write_dataset(data, path / "t.lance")
    dataset = lance.dataset(path / "t.lance")
    for column, kind in (("id", "BTREE"), ("tags", "LABEL_LIST"), ("text", "NGRAM")):
        dataset.create_scalar_index(column, kind)
    return str(path / "t.lance")


@pytest.mark.parametrize(
    ("condition", "where", "index"),
    [
        ("array_has(tags, ''t7'')", "list_contains(tags, 't7')", "tags_idx (LabelList): 20 rows"),
        ("contains(text, ''d17x'')", "contains(text, 'd17x')", "text_idx (NGram): "),
        ("id IN (5, 6)", "id IN (5, 6)", "id_idx (BTree): 2 rows"),
    ],
)
def test_a_condition_of_lance_scan_is_looked_up_in_indices_of_all_kinds(
    con: Any, tmp_path: Path, condition: str, where: str, index: str
) -> None:
    path = indexed(tmp_path)
    call = f"lance_scan('{path}', filter := '{condition}'"
    expected = con.execute(f"SELECT id FROM '{path}' WHERE {where} ORDER BY id").fetchall()
    assert expected
    assert con.execute(f"SELECT id FROM {call}) ORDER BY id").fetchall() == expected
    assert con.execute(f"SELECT count(*) FROM {call})").fetchone()[0] == len(expected)
    few = [row for row in expected if row[0] < 100]
    assert con.execute(f"SELECT id FROM {call}) WHERE id < 100 ORDER BY id").fetchall() == few
    told = [line for (line,) in con.execute(f"FROM {call}, explain := true)").fetchall()]
    assert any(index in line for line in told)
    off = con.execute(f"FROM {call}, explain := true, use_index := false)").fetchall()
    assert "use_index is False" in off[-1][0]


def test_a_condition_of_lance_scan_filters_each_of_several_tables(con: Any) -> None:
    both = f"['{ORDERS}@v1', '{ORDERS}@v2']"
    query = f"SELECT count(*) FROM lance_scan({both}, filter := 'price > 3')"
    found = con.execute(query).fetchone()[0]
    each = [count(con, f", {version}, filter := 'price > 3'") for version in (1, 2)]
    assert found == sum(each) > 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("filter := 'price >'", "a column or a literal was expected"),
        ("filter := 'prices > 3'", "no column 'prices'"),
        ("filter := 3", "filter is a text such as 'price > 3', not 3"),
    ],
)
def test_a_condition_that_cannot_be_read_is_an_error(con: Any, arguments: str, says: str) -> None:
    with pytest.raises(duckdb.Error, match=says):
        con.execute(f"FROM lance_scan('{ORDERS}', {arguments})")


def test_explain_is_about_one_table(con: Any) -> None:
    with pytest.raises(duckdb.Error, match="explain tells how one table is read"):
        con.execute(f"FROM lance_scan(['{ORDERS}', '{ORDERS}@v1'], explain := true)")
    told = con.execute(f"FROM lance_scan('{ORDERS}', explain := true)").fetchall()
    assert "there is no filter" in told[0][0]
