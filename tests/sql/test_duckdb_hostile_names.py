"""Names that would be SQL if they were not quoted: of tables, tags, columns and options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa
import pytest
from support import rewrite_manifest

import duckdb_adapter
from lancefs.proto import table_pb2

NAMES = [
    """it's "x".lance""",
    """x'; DROP TABLE kept; --.lance""",
    """x"; DROP TABLE kept; --.lance""",
    """') FROM kept; DROP TABLE kept; SELECT ('.lance""",
    "`a` ${b} {c} %s \\ $1 ?.lance",
    "a\nb\t--.lance",
    "Table with name kept does not exist!.lance",
    'lance_versions {`path`: `kept`}".lance',
]
COLUMNS = [
    'a"; DROP TABLE kept; --',
    "it's",
    '"',
    '""',
    "a) FROM kept; --",
    "`b`",
    "SELECT",
    "__lance_rows ",
    "a\nb",
]
VALUES = [tuple(range(len(COLUMNS))), (7,) * len(COLUMNS)] * 2


def text(value: str) -> str:
    """Return a value as a string in SQL."""
    return "'" + value.replace("'", "''") + "'"


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture
def kept(con: Any) -> Any:
    """A connection with a table that must stay what it is."""
    con.execute("CREATE TABLE kept AS SELECT 42 AS a")
    yield con
    assert con.execute("SELECT * FROM kept").fetchall() == [(42,)]


def write(folder: Path, name: str) -> str:
    """Write a table with names that pylance itself may not take."""
    plain = folder / "plain"
    rows = pa.table({f"c{position}": [position, 7] for position in range(len(COLUMNS))})
    lance.write_dataset(rows, str(plain))
    lance.write_dataset(rows, str(plain), mode="append")

    def rename(manifest: table_pb2.Manifest) -> None:
        for field, column in zip(manifest.fields, COLUMNS, strict=True):
            field.name = column

    rewrite_manifest(plain, rename)
    return str((folder / "plain").rename(folder / name))


@pytest.mark.parametrize("name", NAMES)
def test_a_path_is_a_path_whatever_is_in_it(kept: Any, tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name)
    for source in (text(path), identifier(path)):
        assert kept.execute(f"SELECT count(*) FROM {source}").fetchall() == [(4,)]
        assert kept.sql(f"FROM {source}").fetchall() == VALUES
    assert kept.execute(f"SELECT count(*) FROM {text(path + '@v1')}").fetchall() == [(2,)]
    assert kept.table(path).fetchall() == kept.sql(f"FROM {text(path)}").fetchall()


@pytest.mark.parametrize("name", NAMES)
def test_functions_take_any_path(kept: Any, tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name)
    for function, rows in {
        "lance_scan": 4,
        "lance_versions": 2,
        "lance_refs": 0,
        "lance_fragments": 2,
        "lance_fields": len(COLUMNS),
        "lance_indices": 0,
    }.items():
        call = f"SELECT count(*) FROM {function}({text(path)})"
        assert kept.execute(call).fetchall() == [(rows,)], function
        call = f"SELECT count(*) FROM {function}($path)"
        assert kept.execute(call, {"path": path}).fetchall() == [(rows,)], function
    changes = f"SELECT count(*) FROM lance_changes({text(path)}, 1)"
    assert kept.execute(changes).fetchall() == [(2,)]


def test_columns_are_columns_whatever_their_names_are(kept: Any, tmp_path: Path) -> None:
    path = write(tmp_path, "t.lance")
    for position, name in enumerate(COLUMNS):
        column = identifier(name)
        for where in ("", f" WHERE {column} < 100", f" ORDER BY {column}"):
            rows = kept.execute(f"SELECT {column} FROM {text(path)}{where}").fetchall()
            assert sorted(rows) == sorted([(position,), (7,)] * 2)
        counted = f"SELECT count(*) FROM {text(path)} WHERE {column} = {position}"
        assert kept.execute(counted).fetchall()[0][0] >= 2
    fields = f"SELECT name FROM lance_fields({text(path)})"
    assert kept.execute(fields).fetchall() == [(name,) for name in COLUMNS]


def test_a_column_that_is_called_as_ours_is_named(kept: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": [1], "__Lance_rows": [2]}), path)
    with pytest.raises(Exception, match="the column '__Lance_rows' is called as one that lancefs"):
        kept.execute(f"SELECT a FROM {text(path)}")


@pytest.mark.parametrize("tag", ["it's", 'a"b', "x'; DROP TABLE kept; --", "`a` {b}", "$1 ? %s"])
def test_a_tag_with_a_forged_name_is_shown_and_refused(kept: Any, tmp_path: Path, tag: str) -> None:
    path = write(tmp_path, "t.lance")
    tags = Path(path, "_refs", "tags")
    tags.mkdir(parents=True)
    (tags / f"{tag}.json").write_text(json.dumps({"version": 1, "manifestSize": 1}))
    assert kept.execute(f"SELECT name FROM lance_refs({text(path)})").fetchall() == [(tag,)]
    names = f"SELECT tags FROM lance_versions({text(path)}) ORDER BY version"
    assert kept.execute(names).fetchall() == [([tag],), ([],)]
    # Lance itself gives no tag such a name.
    with pytest.raises(duckdb.Error, match="cannot be the name of a tag"):
        kept.execute(f"FROM lance_scan({text(path)}, tag := {text(tag)})")
    with pytest.raises(duckdb.Error, match=r"is not a ref|cannot be the name"):
        kept.execute(f"FROM {text(path + '@' + tag)}")


@pytest.mark.parametrize("value", ["it's", 'a"b', "'}); DROP TABLE kept; --", "`", "\\u0060"])
def test_options_are_values_whatever_is_in_them(kept: Any, tmp_path: Path, value: str) -> None:
    path = write(tmp_path, "t.lance")
    options = f"{{{text(value)}: {text(value)}}}"
    scan = f"SELECT count(*) FROM lance_scan({text(path)}, storage_options := {options})"
    assert kept.execute(scan).fetchall() == [(4,)]


def test_a_folder_of_such_tables_is_attached(kept: Any, tmp_path: Path) -> None:
    for name in NAMES:
        write(tmp_path, name)
    catalogue = """it's"; DROP TABLE kept; --"""
    found = duckdb_adapter.attach(kept, tmp_path, as_=catalogue)
    assert found == sorted(name.removesuffix(".lance") for name in NAMES)
    for name in found:
        view = f"{identifier(catalogue)}.{identifier(name)}"
        assert kept.execute(f"SELECT count(*) FROM {view}").fetchall() == [(4,)]
    assert duckdb_adapter.attach(kept, tmp_path, as_=catalogue) == found
