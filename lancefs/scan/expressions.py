"""Arrow compute expressions: the columns that they read, and what they require of rows."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.arrow_dataset import acero
from lancefs.datafile.arrays import strings_of
from lancefs.datafile.kernels import TextSet
from lancefs.forks import cached_property
from lancefs.scan import half_floats
from lancefs.scan.pickled_expressions import read_steps

# The comparison that remains when the sides are exchanged.
_MIRRORED = {
    "equal": "equal",
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}
AND, OR = ("and_kleene", "and"), ("or_kleene", "or")
# Number of analysed expressions that are cached, and bytes of the largest of them: a read asks
# several times for the names in its filter and for its tree.
_EXPRESSIONS, _SHORT = 64, 8 * 1024
# The expression that was pickled last, and its bytes, for which a read asks several times.
_last: tuple[Callable[[], object], bytes] = (lambda: None, b"")
# ANDs inside of ORs and the reverse: deeper expressions are not analysed.
DEEPEST = 50
# Arrow's errors where decimals meet other numbers.
_DECIMAL_ERRORS = ("Precision is not great enough", "Rescaling Decimal value")


def columns_of(expression: pc.Expression, names: Collection[str]) -> list[str]:
    """Return the columns that an expression reads, in the order of `names`.

    An expression that cannot be analysed is taken to read all columns: correct, but slower.

    Args:
        expression: An unbound expression.
        names: All columns of the table.
    """
    read = names_in(expression)
    if read is None or not read <= set(names):
        return list(names)
    return [name for name in names if name in read]


def names_in(expression: pc.Expression) -> frozenset[str] | None:
    """Return the names of the columns that an expression reads.

    pyarrow has no API for this, but the pickled form of an expression names each field.

    Args:
        expression: An unbound expression.

    Returns:
        None if the pickled form cannot be analysed.
    """
    paths = paths_in(expression)
    return None if paths is None else frozenset(path[0] for path in paths)


def clear_tree(expression: pc.Expression) -> ExpressionNode | None:
    """Return an expression as a tree in which each path, spelled `st.x`, names one thing.

    Args:
        expression: An unbound expression.

    Returns:
        None if the pickled form cannot be analysed, a path names a column and a member, or the
        name of a member has a dot.
    """
    paths, tree = _analyse_expression(expression)
    if paths is None:
        return tree
    is_clear = len({".".join(path) for path in paths}) == len(paths)
    has_dots = any("." in part for path in paths if len(path) > 1 for part in path)
    return tree if is_clear and not has_dots else None


def paths_in(expression: pc.Expression) -> frozenset[tuple[str, ...]] | None:
    """Return the columns and members of structs that an expression reads, by the names on the way.

    Args:
        expression: An unbound expression.

    Returns:
        None if the pickled form cannot be analysed.
    """
    return _analyse_expression(expression).paths


class _Analysis(NamedTuple):
    """What the pickled form of an expression says; None where it cannot be analysed.

    Attributes:
        paths: The columns and members of structs that it reads, by the names on the way.
        tree: The expression as a tree.
    """

    paths: frozenset[tuple[str, ...]] | None
    tree: ExpressionNode | None


def _analyse_expression(expression: pc.Expression) -> _Analysis:
    data = bytes_of(expression)
    return _analyse(data) if len(data) <= _SHORT else _analyse.__wrapped__(data)


@lru_cache(_EXPRESSIONS)
def _analyse(data: bytes) -> _Analysis:
    pickled = pa.ipc.open_file(data)
    steps = read_steps(pickled)
    if steps is None:
        return _Analysis(None, None)
    return _Analysis(_paths(steps), _tree(steps, pickled.get_batch(0)))


def _paths(lines: Sequence[tuple[str, str]]) -> frozenset[tuple[str, ...]]:
    paths: set[tuple[str, ...]] = set()
    steps = iter(lines)
    for key, value in steps:
        if key == "nested_field_ref":
            paths.add(_path(steps, int(value)))
        elif key == "field_ref":
            paths.add((value,))
    return frozenset(paths)


def _path(steps: Iterator[tuple[str, str]], length: int) -> tuple[str, ...]:
    """Return the names of a reference to a member of a struct, which are steps of their own."""
    return tuple(name for _, name in islice(steps, length))


class Comparison(NamedTuple):
    """A column compared with a literal.

    Attributes:
        column: The name of the column.
        operator: The comparison, named as Arrow's function; `is_valid` has no literal.
        value: The literal.
    """

    column: str
    operator: str
    value: pa.Scalar | None = None


@dataclass(frozen=True, eq=False)
class Membership:
    """A column whose value is one of some literals.

    Attributes:
        column: The name of the column.
        values: The literals, none of them missing.
    """

    column: str
    values: pa.Array

    @cached_property
    def texts(self) -> TextSet:
        """The literals, which are strings, as kernels look strings up in them."""
        return TextSet(*strings_of(self.values))


def bytes_of(expression: pc.Expression) -> bytes:
    """Return bytes that tell an expression from others."""
    global _last
    known, data = _last
    if known() is expression:
        return data
    _, (pickled,) = expression.__reduce__()
    data = bytes(pickled)
    if len(data) <= _SHORT:
        _last = weakref.ref(expression), data
    return data


def to_text(expression: pc.Expression) -> str:
    """Return an expression as a text for people, in one line.

    Args:
        expression: An unbound expression.
    """
    from lancefs.scan.row_functions import with_plain_names

    try:
        text = " ".join(str(expression).split())
        for path in sorted(paths_in(expression) or (), key=len, reverse=True):
            names = " ".join(f"FieldRef.Name({name})" for name in path)
            text = text.replace(f"FieldRef.Nested({names})", ".".join(path))
        return with_plain_names(text)
    except UnicodeDecodeError:  # Arrow cuts long texts within a character, and shows bytes as text
        return f"of {', '.join(sorted(names_in(expression) or ())) or 'columns'}"


def as_test(node: ExpressionNode) -> Comparison | Membership | None:
    """Return a call as a test of a column; None for any other call."""
    return as_comparison(node) or as_membership(node)


def pattern_of(node: ExpressionNode) -> str | None:
    """Return the text that a call looks for; None for bytes that are no text.

    Args:
        node: A call of a function whose options have a pattern.
    """
    assert node.value is not None
    try:
        return str(node.value["pattern"].as_py())
    except UnicodeDecodeError:  # of a column of binary values
        return None


def as_membership(node: ExpressionNode) -> Membership | None:
    """Return a call as a test whether a column is one of some literals; None for any other call."""
    if node.function == "if_else":  # DuckDB writes IN so, which is unknown for a missing value
        condition, node, otherwise = node.arguments
        is_missing = otherwise.value is not None and not otherwise.value.is_valid
        if otherwise.kind != "literal" or not is_missing:
            return None
        if condition.name != "is_valid" or condition.arguments != node.arguments:
            return None
    if node.function != "is_in" or node.arguments[0].kind != "field" or node.value is None:
        return None
    values = pa.array(node.value["value_set"].values)
    return None if values.null_count else Membership(node.arguments[0].name, values)


def evaluate_filter(expression: pc.Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Evaluate a filter for rows: true, false, or null where the filter is unknown.

    Args:
        expression: The filter.
        batch: The columns that it reads.

    Raises:
        pyarrow.ArrowInvalid: The filter does not fit the columns or a value in them.
    """
    if half_floats.has_halves(batch.schema):
        expression = half_floats.widen_literals(expression)
        batch = half_floats.widen_rows(batch)
    return evaluate([expression], batch)[0]


def evaluate(expressions: list[pc.Expression], batch: pa.RecordBatch) -> list[pa.Array]:
    """Evaluate expressions for rows.

    Args:
        expressions: Unbound expressions.
        batch: The columns that they read.

    Raises:
        pyarrow.ArrowInvalid: An expression does not fit the columns or a value in them.
    """
    if batch.num_columns == 0:  # a table without columns would lose its number of rows
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
        return [_combine_chunks(column) for column in plan.to_table(use_threads=False).columns]
    except pa.ArrowNotImplementedError as error:
        if "has no kernel matching input types" not in str(error):
            raise
        types = ", ".join(f"{field.name} is {field.type}" for field in batch.schema)
        raise pa.ArrowNotImplementedError(
            f"{error}; {types}: give constants of a type that goes with it, or cast the column"
        ) from error
    except pa.ArrowInvalid as error:
        if not any(part in str(error) for part in _DECIMAL_ERRORS):
            raise
        raise pa.ArrowInvalid(
            f"{error}; Arrow takes decimals together with decimals only: write Decimal('25') where "
            "25 is meant"
        ) from error


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


class ExpressionNode(NamedTuple):
    """A part of an expression: a call, a field, a literal, or anything else (no kind).

    Attributes:
        kind: What the part is.
        name: The name of the function or of the column; of a member of a struct its path, `st.x`.
        arguments: The arguments of a call.
        value: The value of a literal, or the options of a call.
    """

    kind: str
    name: str = ""
    arguments: tuple[ExpressionNode, ...] = ()
    value: pa.Scalar | None = None

    @property
    def function(self) -> str:
        """The function that it calls; empty for a column, which may have the same name."""
        return self.name if self.kind == "call" else ""


def as_tree(expression: pc.Expression) -> ExpressionNode | None:
    """Return an expression as a tree; None if the pickled form cannot be analysed.

    The calls around a part are a list here, not frames of the stack: chains of thousands of
    operators nest as deep.
    """
    return _analyse_expression(expression).tree


def _tree(lines: Sequence[tuple[str, str]], values: pa.RecordBatch) -> ExpressionNode | None:
    open_calls: list[tuple[str, list[ExpressionNode], list[pa.Scalar]]] = []
    steps = iter(lines)
    for key, value in steps:
        node = ExpressionNode("")
        match key:
            case "call":
                open_calls.append((value, [], []))
                continue
            case "options":
                open_calls[-1][2].append(values.column(int(value))[0])
                continue
            case "end":
                name, arguments, options = open_calls.pop()
                node = ExpressionNode(
                    "call", name, tuple(arguments), options[0] if options else None
                )
            case "field_ref":
                node = ExpressionNode("field", value)
            case "literal":
                node = ExpressionNode("literal", value=values.column(int(value))[0])
            case "nested_field_ref":
                node = ExpressionNode("field", ".".join(_path(steps, int(value))))
        if not open_calls:
            return node
        open_calls[-1][1].append(node)
    return None


def chain_terms(node: ExpressionNode, functions: tuple[str, ...]) -> Iterator[ExpressionNode]:
    """Yield the terms of a chain of calls of the same function, in order."""
    left = [node]
    while left:
        node = left.pop()
        if node.function in functions:
            left.extend(reversed(node.arguments))
        else:
            yield node


def null_tests(root: ExpressionNode | None) -> dict[str, bool]:
    """Return the columns in a filter, and whether it asks of each only if values are missing.

    Args:
        root: The filter; None if it cannot be analysed.
    """
    found: dict[str, bool] = {}
    left = [] if root is None else [(root, False)]
    while left:
        node, is_tested = left.pop()
        if node.kind == "field":
            found[node.name] = is_tested and found.get(node.name, True)
        is_test = node.function == "is_valid" or is_null_test(node)
        left.extend((argument, is_test) for argument in node.arguments)
    return found


def missing_columns(root: ExpressionNode | None) -> set[str]:
    """Return columns whose values are missing in all rows for which a filter is true.

    Args:
        root: The filter; None if it cannot be analysed.
    """
    terms = () if root is None else chain_terms(root, AND)
    tests = [term.arguments[0] for term in terms if is_null_test(term)]
    return {argument.name for argument in tests if argument.kind == "field"}


def is_null_test(node: ExpressionNode) -> bool:
    """Return whether a call is true for missing values, and for no others."""
    if node.name != "is_null" or node.value is None:
        return False
    return not node.value["nan_is_null"].as_py()


def as_comparison(node: ExpressionNode) -> Comparison | None:
    """Return a call as a comparison of a column with a literal; None for any other call."""
    kinds = [argument.kind for argument in node.arguments]
    if node.name == "is_valid" and kinds == ["field"]:
        return Comparison(node.arguments[0].name, node.name)
    if node.name not in _MIRRORED or sorted(kinds) != ["field", "literal"]:
        return None
    left, right = node.arguments
    if left.kind == "field":
        return Comparison(left.name, node.name, right.value)
    return Comparison(right.name, _MIRRORED[node.name], left.value)
