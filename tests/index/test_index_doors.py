"""`use_index` through every door: SQL, the command line, other readers."""

from __future__ import annotations

import pickle
from pathlib import Path

import duckdb
import pytest
from histories import create

import duckdb_adapter
import lancefs
from lancefs.index import lookup


@pytest.fixture(autouse=True)
def _installed_as_by_default() -> None:
    """Undo what `lancefs sql` told this process, in other tests."""
    duckdb_adapter.install()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    create(tmp_path / "t.lance", False, "2.1")
    return tmp_path / "t.lance"


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Predicates that were looked up."""
    asked: list[object] = []
    look_up = lookup.TableIndices.look_up

    def noted(
        self: lookup.TableIndices, predicate: lookup.Predicate, wanted: int | None = None
    ) -> lookup.Answer:
        asked.append(predicate)
        return look_up(self, predicate, wanted)

    monkeypatch.setattr(lookup.TableIndices, "look_up", noted)
    return asked


def test_a_function_of_sql_takes_use_index(table: Path, looked_up: list[object]) -> None:
    with duckdb_adapter.connect() as connection:
        query = f"SELECT id FROM lance_scan('{table}'{{}}) WHERE id = 17"
        assert connection.execute(query.format(", use_index := false")).fetchall() == [(17,)]
        assert not looked_up
        assert connection.execute(query.format(", use_index := true")).fetchall() == [(17,)]
        assert looked_up
        looked_up.clear()
        assert connection.execute(query.format("")).fetchall() == [(17,)]
        assert looked_up


def test_a_connection_takes_use_index(table: Path) -> None:
    # What `install` was told in this process comes before what a connection was told.
    with duckdb_adapter.connect(use_index=False) as connection:
        assert not connection.storage().use_index
        assert not connection.cursor().storage().use_index


def test_install_takes_use_index(table: Path, looked_up: list[object]) -> None:
    duckdb_adapter.install(use_index=False)
    try:
        with duckdb.connect() as connection:
            for name in (f"'{table}'", f"lance_scan('{table}')"):
                query = f"SELECT id FROM {name} WHERE id = 17"
                assert connection.execute(query).fetchall() == [(17,)]
        assert not looked_up
    finally:
        duckdb_adapter.install()


def test_a_dataset_without_indices_stays_so(table: Path, looked_up: list[object]) -> None:
    plain = lancefs.open(table).without_indices()
    narrowed = pickle.loads(pickle.dumps(plain)).with_row_metadata("_rowid").filter("id < 20")
    assert narrowed.to_table(filter="id = 17").num_rows == 1
    assert plain.count_rows("cat = 'c1'") > 0
    assert not looked_up
    assert plain.schema == lancefs.open(table).schema
