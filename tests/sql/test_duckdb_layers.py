"""Statements of several layers, each of which selects from the one below, have the same answers.

Programs write such texts: each step wraps what is there in another SELECT. What one layer says of
its rows must not be taken for something said of the rows of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from roads import connect, native_rows, needs_install
from support import examples

pytestmark = needs_install

COUNT = 3000
NUMBERS, STRINGS, FLAGS = ("id", "x", "n"), ("host", "level", "name"), ("flag",)


@dataclass(frozen=True)
class Layers:
    """A statement, and what its rows are like.

    Attributes:
        text: The statement, with `{t}` for the table.
        columns: The columns that it shows.
        unique: Those of them of which no two rows have the same value.
        is_ordered: Whether DuckDB gives the rows in an order that is defined.
    """

    text: str
    columns: tuple[str, ...]
    unique: tuple[str, ...]
    is_ordered: bool = True

    def over(self, draw: Any, select: str, tail: str = "", **changes: Any) -> Layers:
        """Return the statement with a SELECT around it."""
        form = draw(st.sampled_from(("sub", "alias", "cte")))
        if self.text == "{t}":
            text = f"SELECT {select} FROM {{t}}{tail}"
        elif form == "cte":
            name = draw(st.sampled_from(("layer", "id", "flag", "host")))
            text = f"WITH {name} AS ({self.text}) SELECT {select} FROM {name}{tail}"
        else:
            alias = " AS s" if form == "alias" else ""
            text = f"SELECT {select} FROM ({self.text}){alias}{tail}"
        parts = {name: getattr(self, name) for name in ("columns", "unique", "is_ordered")}
        return Layers(text, **{**parts, **changes})


def _any_of(draw: Any, layers: Layers, names: tuple[str, ...]) -> str | None:
    there = [name for name in names if name in layers.columns]
    return draw(st.sampled_from(there)) if there else None


def _filtered(draw: Any, layers: Layers) -> Layers:
    number, text = _any_of(draw, layers, NUMBERS), _any_of(draw, layers, STRINGS)
    conditions = []
    if "flag" in layers.columns:
        conditions += ["flag", "NOT flag"]
    if text is not None:
        conditions += [f"{text} LIKE '%1%'", f"{text} = 'l1'", f"{text}.length() > 2"]
    if number is not None:
        conditions += [f"{number} < 700", f"{number} = 1", f"{number} <= 5"]
    if not conditions:
        return layers
    condition = draw(st.sampled_from(conditions))
    return layers.over(draw, "*", f" WHERE {condition}")


def _renamed(draw: Any, layers: Layers) -> Layers:
    """Give columns the names of others, or other values."""
    shown = {name: name for name in layers.columns}
    unique = layers.unique
    kinds = [kind for kind in (NUMBERS, STRINGS) if len({*kind} & {*shown}) > 1]
    if kinds and draw(st.booleans()):
        first, second = [name for name in draw(st.sampled_from(kinds)) if name in shown][:2]
        shown[first], shown[second] = second, first
        swapped = {first: second, second: first}
        unique = tuple(swapped.get(name, name) for name in unique)
    name = draw(st.sampled_from(layers.columns))
    if shown[name] == name:
        computed = {"flag": f"NOT {name}", **dict.fromkeys(STRINGS, f"{name} || '1'")}
        shown[name] = computed.get(name, f"-{name}")
    select = ", ".join(f"{value} AS {name}" for name, value in shown.items())
    return layers.over(draw, select, unique=unique)


def _narrowed(draw: Any, layers: Layers) -> Layers:
    chosen = draw(st.lists(st.sampled_from(layers.columns), min_size=1, unique=True))
    unique = tuple(name for name in layers.unique if name in chosen)
    return layers.over(draw, ", ".join(chosen), columns=tuple(chosen), unique=unique)


def _ordered(draw: Any, layers: Layers) -> Layers:
    if not layers.unique:
        return layers
    key = draw(st.sampled_from(layers.unique))
    tail = f" ORDER BY {key}{draw(st.sampled_from(('', ' DESC')))}"
    if draw(st.sampled_from((False, False, True))):
        tail += f" LIMIT {draw(st.sampled_from((1, 3, 100)))}"
        tail += draw(st.sampled_from(("", " OFFSET 2")))
    return layers.over(draw, "*", tail, is_ordered=True)


def _limited(draw: Any, layers: Layers) -> Layers:
    if not layers.is_ordered:
        return layers
    tail = f" LIMIT {draw(st.sampled_from((1, 5, 50)))}"
    return layers.over(draw, "*", tail + draw(st.sampled_from(("", " OFFSET 20", " OFFSET 1000"))))


def _grouped(draw: Any, layers: Layers) -> Layers:
    key, number = _any_of(draw, layers, STRINGS), _any_of(draw, layers, NUMBERS)
    aggregates = ["count(*) AS n"]
    if number is not None:
        aggregates.append(f"{draw(st.sampled_from(('max', 'min', 'sum')))}({number}) AS x")
    columns = tuple(each.rpartition(" ")[2] for each in aggregates)
    if key is None or draw(st.booleans()):
        return layers.over(draw, ", ".join(aggregates), columns=columns, unique=columns)
    select = ", ".join([key, *aggregates])
    shown, unique = (key, *columns), (key,)
    return layers.over(
        draw, select, " GROUP BY ALL", columns=shown, unique=unique, is_ordered=False
    )


def _numbered(draw: Any, layers: Layers) -> Layers:
    """Number the rows of each group, and perhaps keep the first ones."""
    key = _any_of(draw, layers, STRINGS)
    if key is None or not layers.unique:
        return layers
    order = draw(st.sampled_from(layers.unique))
    window = f"row_number() OVER (PARTITION BY {key} ORDER BY {order} DESC)"
    if draw(st.booleans()):
        return layers.over(draw, "*", f" QUALIFY {window} <= 2", is_ordered=False)
    if "n" in layers.columns:
        return layers
    columns, unique = (*layers.columns, "n"), layers.unique
    return layers.over(draw, f"*, {window} AS n", columns=columns, unique=unique, is_ordered=False)


def _distinct(draw: Any, layers: Layers) -> Layers:
    columns = tuple(layers.columns[:2])
    unique = tuple(name for name in layers.unique if name in columns)
    select = f"DISTINCT {', '.join(columns)}"
    return layers.over(draw, select, columns=columns, unique=unique, is_ordered=False)


Step: TypeAlias = Callable[[Any, Layers], Layers]

# The first layer makes the rows that the last one speaks of, if nothing in between makes others.
FIRST: tuple[Step, ...] = (_ordered, _ordered, _renamed, _narrowed, _numbered, _filtered)
BETWEEN: tuple[Step, ...] = (
    _grouped,
    _filtered,
    _grouped,
    _filtered,
    _renamed,
    _narrowed,
    _distinct,
    _numbered,
)
LAST: tuple[Step, ...] = (_limited, _limited, _filtered, _ordered, _grouped)


@st.composite
def statements(draw: Any) -> str:
    """Draw a statement of three or four layers."""
    columns = ("id", "x", "host", "level", "name", "flag")
    layers = Layers("{t}", columns, ("id", "x"))
    between = draw(st.lists(st.sampled_from(BETWEEN), min_size=1, max_size=2))
    for step in (draw(st.sampled_from(FIRST)), *between, draw(st.sampled_from(LAST))):
        layers = step(draw, layers)
    return "SELECT * FROM {t}" if layers.text == "{t}" else layers.text


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("layers") / "rows.lance"
    numbers = np.arange(COUNT)
    rows = pa.table(
        {
            "id": numbers,
            "x": numbers * 7919 % COUNT,
            "host": [f"h{number % 20}" for number in range(COUNT)],
            "level": [f"l{number % 4}" for number in range(COUNT)],
            "name": [f"name {number}" for number in range(COUNT)],
            "flag": numbers % 10 == 0,
        }
    )
    lance.write_dataset(rows, path, max_rows_per_file=COUNT // 2, data_storage_version="2.1")
    return path


@pytest.fixture(scope="module")
def databases(table: Path) -> Iterator[tuple[Any, Any]]:
    ours = connect("install")
    with native_rows(lance.dataset(str(table)).to_table()) as own:
        yield ours, own
    ours.close()


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(statement=statements())
def test_layers_of_statements_have_the_answers_of_duckdbs_own_table(
    table: Path, databases: tuple[Any, Any], any_table_is_long: None, statement: str
) -> None:
    ours, own = databases
    expected = _answer(own, statement.replace("{t}", "native"))
    text = statement.replace("{t}", f"'{table}'")
    assert _answer(ours, text) == expected
    assert sorted(map(repr, ours.sql(text).fetchall())) == expected, "as a relation"


def _answer(connection: Any, text: str) -> list[str]:
    """Return the rows of a statement in the order of their texts."""
    return sorted(map(repr, connection.execute(text).fetchall()))
