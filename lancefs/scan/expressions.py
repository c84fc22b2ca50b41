"""Arrow compute expressions: which columns they need, and what they say of rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.arrow_dataset import acero

_LINE = re.compile(r"(\w+): '(.*)'$", re.DOTALL)

# Whole numbers from one to another, both included.
Intervals: TypeAlias = list[tuple[int, int]]

# What a comparison says when its sides are exchanged.
_MIRRORED = {
    "equal": "equal",
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}
_LOWEST, _HIGHEST = -(2**63), 2**64 - 1
# What Arrow says where decimals meet other numbers.
_OF_DECIMALS = ("Precision is not great enough", "Rescaling Decimal value")


def columns_of(expression: pc.Expression, names: Collection[str]) -> list[str]:
    """Return the columns that an expression reads, in the order of `names`.

    Where that cannot be told, all columns are returned: right, if slower.

    Args:
        expression: An unbound expression.
        names: The columns that there are.
    """
    found = names_in(expression)
    if found is None or not found <= set(names):
        return list(names)
    return [name for name in names if name in found]


def names_in(expression: pc.Expression) -> set[str] | None:
    """Return the names of the columns that an expression reads.

    pyarrow does not tell them, but the form in which it pickles expressions names each field.

    Args:
        expression: An unbound expression.

    Returns:
        None where that cannot be read with certainty.
    """
    lines = _lines(_pickled(expression))
    if lines is None:
        return None
    found: set[str] = set()
    below = 0  # references left of a path into a struct, of which only the first is a column
    for key, value in lines:
        if key == "nested_field_ref":
            below = -int(value)
        elif key == "field_ref":
            if below <= 0:
                found.add(value)
            below = abs(below) - 1 if below else 0
    return found


def values_of(expression: pc.Expression, name: str) -> Intervals | None:
    """Return which whole numbers a column may hold where a filter is true.

    That is told from comparisons with literals and `isin`, below `and` and `or`.

    Args:
        expression: The filter.
        name: A column of whole numbers.

    Returns:
        Intervals that hold all such values, and perhaps others; None where it cannot be told.
    """
    pickled = _pickled(expression)
    lines = _lines(pickled)
    if lines is None:
        return None
    return _values(_node(iter(lines), pickled.get_batch(0)), name)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared with a literal.

    Attributes:
        column: Its name.
        operator: A comparison, named as Arrow's function; `is_valid` has no literal.
        value: The literal.
    """

    column: str
    operator: str
    value: pa.Scalar | None = None


def comparisons(expression: pc.Expression) -> list[Comparison] | None:
    """Return comparisons of columns with literals that a filter is true for exactly where all are.

    Args:
        expression: The filter.

    Returns:
        None where it says anything else, too.
    """
    pickled = _pickled(expression)
    lines = _lines(pickled)
    if lines is None:
        return None
    return _comparisons(_node(iter(lines), pickled.get_batch(0)))


def matching(expression: pc.Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Evaluate a filter on rows: true, false, or null where it cannot be told.

    Args:
        expression: The filter.
        batch: The columns that it reads.

    Raises:
        pyarrow.ArrowInvalid: It does not fit the columns.
    """
    return evaluate([expression], batch)[0]


def evaluate(expressions: list[pc.Expression], batch: pa.RecordBatch) -> list[pa.Array]:
    """Evaluate expressions on rows.

    Args:
        expressions: Unbound expressions.
        batch: The columns that they read.

    Raises:
        pyarrow.ArrowInvalid: They do not fit the columns.
    """
    if batch.num_columns == 0:  # a table without columns would forget its number of rows
        batch = pa.record_batch([pa.nulls(batch.num_rows, pa.int8())], names=[""])
    table = pa.Table.from_batches([batch])
    names = [str(position) for position in range(len(expressions))]
    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
            acero.Declaration("project", acero.ProjectNodeOptions(expressions, names)),
        ]
    )
    try:
        return [_one(column) for column in plan.to_table(use_threads=False).columns]
    except pa.ArrowInvalid as error:
        if not any(said in str(error) for said in _OF_DECIMALS):
            raise
        raise pa.ArrowInvalid(
            f"{error}; Arrow takes decimals together with decimals only: write Decimal('25') where "
            "25 is meant"
        ) from error


def _one(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


@dataclass(frozen=True, slots=True)
class _Node:
    """A part of an expression: a call, a column, a literal, or something else (no kind)."""

    kind: str
    name: str = ""
    arguments: tuple[_Node, ...] = ()
    value: pa.Scalar | None = None  # of a literal; of a call its options


def _pickled(expression: pc.Expression) -> pa.RecordBatchFileReader:
    _, (pickled,) = expression.__reduce__()
    return pa.ipc.open_file(pickled)


def _lines(pickled: pa.RecordBatchFileReader) -> list[tuple[str, str]] | None:
    """Return what a pickled expression says, step by step; None where it cannot be read."""
    text = pickled.schema.to_string(
        show_field_metadata=False, show_schema_metadata=True, truncate_metadata=False
    )
    lines = []
    for line in text.partition("-- schema metadata --\n")[2].split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        lines.append((match[1], match[2]))
    return lines


def _node(lines: Iterator[tuple[str, str]], values: pa.RecordBatch) -> _Node:
    """Read the next part of an expression, and all below it."""
    key, value = next(lines, ("end", ""))
    match key:
        case "field_ref":
            return _Node("field", value)
        case "literal":
            return _Node("literal", value=values.column(int(value))[0])
        case "nested_field_ref":
            for _ in range(int(value)):
                next(lines)
        case "call":
            arguments: list[_Node] = []
            options = None
            for part in iter(lambda: _node(lines, values), _Node("end")):
                if part.kind == "options":
                    options = part.value
                else:
                    arguments.append(part)
            return _Node("call", value, tuple(arguments), options)
        case "options":
            return _Node("options", value=values.column(int(value))[0])
        case "end":
            return _Node("end")
    return _Node("")


def _values(node: _Node, name: str) -> Intervals | None:
    if node.kind != "call":
        return None
    if node.name in ("and_kleene", "and", "or_kleene", "or"):
        known = [_values(argument, name) for argument in node.arguments]
        if node.name.startswith("or"):
            sides = [side for side in known if side is not None]
            return [one for side in sides for one in side] if len(sides) == len(known) else None
        return _both([side for side in known if side is not None])
    if node.name == "is_in" and node.arguments[0] == _Node("field", name) and node.value:
        held = node.value["value_set"].as_py()
        return [(one, one) for one in held if one is not None] if _are_whole(held) else None
    if node.name in _MIRRORED and len(node.arguments) == 2:
        left, right = node.arguments
        if left == _Node("field", name) and right.kind == "literal":
            return _compared(node.name, right.value)
        if right == _Node("field", name) and left.kind == "literal":
            return _compared(_MIRRORED[node.name], left.value)
    return None


def _comparisons(node: _Node) -> list[Comparison] | None:
    if node.kind != "call":
        return None
    if node.name in ("and_kleene", "and"):
        known = [_comparisons(argument) for argument in node.arguments]
        sides = [side for side in known if side is not None]
        return [one for side in sides for one in side] if len(sides) == len(known) else None
    kinds = [argument.kind for argument in node.arguments]
    if node.name == "is_valid" and kinds == ["field"]:
        return [Comparison(node.arguments[0].name, node.name)]
    if node.name not in _MIRRORED or sorted(kinds) != ["field", "literal"]:
        return None
    left, right = node.arguments
    if left.kind == "field":
        return [Comparison(left.name, node.name, right.value)]
    return [Comparison(right.name, _MIRRORED[node.name], left.value)]


def _compared(operator: str, literal: pa.Scalar) -> Intervals | None:
    value = literal.as_py()
    if value is None:
        return []
    if not _are_whole([value]):
        return None
    low = value + (operator == "greater") if operator.startswith("greater") else _LOWEST
    high = value - (operator == "less") if operator.startswith("less") else _HIGHEST
    return [(value, value)] if operator == "equal" else [(low, high)] if low <= high else []


def _both(sides: list[Intervals]) -> Intervals | None:
    """What several conditions leave: exact for single intervals, else the smallest of them."""
    single = [side[0] for side in sides if len(side) == 1]
    if single:
        low, high = max(low for low, _ in single), min(high for _, high in single)
        sides = [side for side in sides if len(side) != 1] + [[(low, high)] if low <= high else []]
    return min(sides, key=lambda side: sum(high - low + 1 for low, high in side), default=None)


def _are_whole(values: list[object]) -> bool:
    return all(value is None or type(value) is int for value in values)
