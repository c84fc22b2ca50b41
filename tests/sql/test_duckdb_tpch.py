"""The 22 queries of TPC-H give over Lance tables what they give over DuckDB's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from roads import INTERFACES, connect
from support import REPOSITORY
from tpch import QUERIES, TABLES

HOME = REPOSITORY / "build" / "tpch"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (HOME / QUERIES).exists(), reason="`make tpch` makes the tables"),
]


@pytest.fixture(scope="module", params=INTERFACES)
def tpch(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A connection with two schemas of the same tables: `native`, and `lance` as views."""
    con = connect(request.param)
    con.execute("CREATE SCHEMA native; CREATE SCHEMA lance")
    for name in TABLES:
        con.execute(f"CREATE TABLE native.{name} AS FROM '{HOME / name}.parquet'")
        con.execute(f"CREATE VIEW lance.{name} AS FROM '{HOME / name}.lance'")
    yield con
    con.close()


@pytest.mark.parametrize("number", range(1, 23))
def test_a_query_gives_what_it_gives_over_native_tables(tpch: Any, number: int) -> None:
    query = json.loads((HOME / QUERIES).read_text())[number - 1]
    tpch.execute("USE lance")
    found = tpch.execute(query).fetchall()
    tpch.execute("USE native")
    assert found == tpch.execute(query).fetchall()
    assert found


def test_the_tables_have_a_past(tpch: Any) -> None:
    """Or else this would test less than it says."""
    query = f"SELECT sum(num_deleted), count(*) FROM lance_fragments('{HOME / 'lineitem.lance'}')"
    deleted, fragments = tpch.execute(query).fetchone()
    assert deleted == 30
    assert fragments > 5
    for name in TABLES:
        count = "SELECT count(*) FROM {}." + name
        found = tpch.execute(count.format("lance")).fetchone()
        assert found == tpch.execute(count.format("native")).fetchone()
