"""Texts of SELECTs, each of which selects from the next one, tell what the innermost uses."""

from __future__ import annotations

from typing import Any

import pytest
from roads import needs_install

from duckdb_adapter.queries.nested import count_captured, statement_in, with_stable_names
from duckdb_adapter.queries.parsing import parse

SOURCE = "v AS (SELECT * FROM __duckdb_source_1)"
NUMBER = "row_number() OVER (PARTITION BY a ORDER BY b)"
# A text, and the statement in it.
NESTED = {
    "SELECT * FROM (SELECT a FROM 't.lance')": "SELECT a FROM 't.lance'",
    f"WITH {SOURCE} SELECT * FROM (SELECT a FROM 't.lance')": "SELECT a FROM 't.lance'",
    f"WITH {SOURCE} SELECT * FROM (SELECT a FROM 't.lance' ORDER BY a) LIMIT 3": (
        "SELECT a FROM 't.lance' ORDER BY a LIMIT 3"
    ),
    "FROM (FROM 't.lance' ORDER BY a LIMIT 9) LIMIT 3": "FROM 't.lance' ORDER BY a LIMIT 9",
    "WITH s AS (FROM 't.lance') SELECT sum(a) FROM s WHERE b = 1 GROUP BY c LIMIT 2": (
        "SELECT sum(a) FROM 't.lance' WHERE b = 1 GROUP BY c LIMIT 2"
    ),
    f"WITH s AS (WITH {SOURCE} SELECT * FROM (FROM 't.lance')) SELECT a FROM s WHERE b": (
        "SELECT a FROM 't.lance' WHERE b"
    ),
    "SELECT n FROM (SELECT a, count(*) AS n FROM 't.lance' GROUP BY a) WHERE n > 1": (
        "SELECT a, count(*) AS n FROM 't.lance' GROUP BY a"
    ),
    "WITH s AS (FROM 't.lance' LIMIT 1) SELECT count(*) FROM s": "FROM 't.lance' LIMIT 1",
    "SELECT a FROM (SELECT * EXCLUDE (b) FROM 't.lance')": "SELECT * EXCLUDE (b) FROM 't.lance'",
    "WITH s AS (FROM 't.lance') SELECT a FROM s WHERE a IN (SELECT a FROM s)": "FROM 't.lance'",
    "SELECT DISTINCT * FROM (FROM 't.lance' LIMIT 1)": "FROM 't.lance' LIMIT 1",
    "WITH x AS (FROM 't.lance' WHERE a), y AS (SELECT b FROM x), z AS (FROM y) SELECT b FROM z": (
        "FROM 't.lance' WHERE a"
    ),
    f"WITH {SOURCE}, x AS (FROM 't.lance'), y AS (SELECT b FROM x WHERE a) FROM y LIMIT 2": (
        "SELECT b FROM 't.lance' WHERE a LIMIT 2"
    ),
    f"SELECT a FROM (SELECT *, {NUMBER} AS n FROM 't.lance') AS s WHERE a AND 3 > s.n": (
        f"SELECT *, {NUMBER} AS n FROM 't.lance' QUALIFY 3 > {NUMBER}"
    ),
    f"WITH s AS (SELECT {NUMBER} AS n FROM 't.lance') SELECT max(n) FROM s WHERE n = 1": (
        f"SELECT {NUMBER} AS n FROM 't.lance' QUALIFY {NUMBER} = 1"
    ),
}
# These say nothing of the windows of the statement in them.
UNNUMBERED = {
    f"SELECT a FROM (SELECT *, {NUMBER} AS n FROM 't.lance') WHERE {condition}": (
        f"SELECT *, {NUMBER} AS n FROM 't.lance'"
    )
    for condition in ("n > 1", "n = a", "n = 1 OR a", "a.n = 1", "n = 1 AND a IN (SELECT 1)")
}


def essence(node: Any) -> Any:
    """Return a node of a syntax tree without places in the text and names of tables."""
    if isinstance(node, list):
        return [essence(each) for each in node]
    if not isinstance(node, dict):
        return node
    left = {key: each for key, each in node.items() if not key.startswith("query_location")}
    if node.get("class") == "WINDOW":
        del left["alias"]
    if node.get("type") == "BASE_TABLE":
        del left["alias"]
    return {key: essence(each) for key, each in left.items()}


@needs_install  # DuckDB 1.4 has nodes of its own for common table expressions, which are not read
@pytest.mark.parametrize("text", {**NESTED, **UNNUMBERED})
def test_the_statement_in_a_text_is_found(text: str) -> None:
    root, expected = parse(text), parse({**NESTED, **UNNUMBERED}[text])
    assert root is not None
    assert essence(statement_in(root)) == essence(expected)


OTHERS = [
    "SELECT a FROM 't.lance'",
    "WITH x AS (SELECT a FROM 't.lance') SELECT b FROM (SELECT * FROM x)",
    "WITH x AS (SELECT * FROM y WHERE a) SELECT * FROM (FROM 't.lance')",
    "WITH x AS (FROM y) SELECT * FROM 't.lance'",
    "WITH x AS (FROM 't.lance') SELECT * FROM main.x",
    "WITH x(b) AS (FROM 't.lance') SELECT b FROM x",
    "WITH x AS (FROM 't.lance') SELECT b FROM x AS x(b)",
    "WITH x AS (FROM 't.lance') SELECT b FROM x TABLESAMPLE 5%",
    f"WITH {SOURCE} SELECT * FROM (FROM 't.lance') AS s(b)",
    f"WITH {SOURCE}, y AS (FROM z) SELECT * FROM (FROM 't.lance')",
    "SELECT * FROM (FROM 't.lance') AS a JOIN (FROM 't.lance') AS b USING (id)",
    "WITH s AS (FROM 't.lance') SELECT count(*) FROM s AS a JOIN s AS b USING (id)",
    "SELECT a FROM 't.lance' UNION SELECT b FROM 't.lance'",
    "WITH x AS (FROM 't.lance'), y AS (FROM x) SELECT a FROM x",
    "WITH x AS (FROM 't.lance'), y AS (FROM x) SELECT a FROM y WHERE a IN (SELECT a FROM x)",
    "WITH x AS (FROM 't.lance'), y(b) AS (FROM x) SELECT b FROM y",
    "SELECT 1",
    "SELECT * FROM range(3)",
    "VALUES (1)",
]


@pytest.mark.parametrize("text", OTHERS)
def test_other_texts_are_themselves(text: str) -> None:
    root = parse(text)
    assert root is not None
    assert statement_in(root) is root


def test_captured_names_are_counted() -> None:
    name = 'a "b" (c).lance'
    one = '"a ""b"" (c).lance (reader 3)" AS NOT MATERIALIZED (SELECT 1)'
    assert count_captured(name, f"WITH {one} FROM x") == 1
    assert count_captured(name, f"WITH {one}, {one.replace('3', '12')} FROM x") == 2
    assert count_captured("c).lance", f"WITH {one} FROM x") == 0


def relation_text(number: str, relations: tuple[str, str], where: str = "true") -> str:
    one, other = relations
    return f"""WITH "t.lance (reader 1)" AS NOT MATERIALIZED (FROM "__duckdb_source_{number}")
        FROM (FROM 't.lance') AS "unnamed_relation_{one}"
        JOIN 't.lance' AS "unnamed_relation_{other}" USING (id) WHERE {where}"""


def test_a_relation_has_the_same_text_each_time() -> None:
    text = relation_text("8a004b3d0841_1", ("23eeb4736b92b4e9", "72a303fb3671dd78"))
    again = relation_text("8a004b3d0841_22", ("c8508ff8b6b5eb17", "44703b0d68dd771b"))
    assert with_stable_names(text) == with_stable_names(again)
    self_join = relation_text("8a004b3d0841_22", ("c8508ff8b6b5eb17", "c8508ff8b6b5eb17"))
    assert with_stable_names(text) != with_stable_names(self_join)


@pytest.mark.parametrize(
    "literal", ["""'"unnamed_relation_23eeb4736b92b4e9"'""", "'it''s __duckdb_source_1_2'"]
)
def test_texts_of_users_stay_as_they_are(literal: str) -> None:
    relations = ("23eeb4736b92b4e9", "72a303fb3671dd78")
    text = with_stable_names(relation_text("1_2", relations, f"s = {literal}"))
    assert text == with_stable_names(relation_text("1_2", relations, "s = ''")).replace(
        "s = ''", f"s = {literal}"
    )
    statement = "SELECT id FROM 't.lance' AS \"unnamed_relation_23eeb4736b92b4e9\""
    assert with_stable_names(statement) == statement
