"""Converting a filter to a predicate that indices can answer.

NOT is pushed down to the tests, which is right for three-valued logic: NOT (a AND b) is true where
NOT a or NOT b is true. A part that cannot be analysed limits nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.buffers import Mask
from lancefs.datafile.fields import Field
from lancefs.index.contents import NOTHING, Item, Substring, Wanted, every, some
from lancefs.index.predicates import (
    NEVER,
    ColumnTest,
    KeyInterval,
    Predicate,
    UnfitTest,
    all_of,
    any_of,
)
from lancefs.index.sort_keys import has_byte_keys, has_keys, is_stored_number, sort_keys
from lancefs.scan import row_functions
from lancefs.scan.condition_trees import literal_start
from lancefs.scan.conditions import Condition
from lancefs.scan.expressions import (
    AND,
    DEEPEST,
    OR,
    Comparison,
    ExpressionNode,
    as_comparison,
    chain_terms,
    pattern_of,
)
from lancefs.scan.intervals import interval_of

# The comparison that is true where another one is false, for values that are all ordered.
_OPPOSITE = {
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
}
# Types whose values an IN may give in another width.
_ALIKE = (pa.types.is_integer, has_byte_keys)
_NUMBERS = (pa.types.is_integer, pa.types.is_floating)
# Longest IN list of texts that is looked up in indices over parts of texts.
_MAX_TEXTS = 64


def index_predicate(condition: Condition, fields: Mapping[str, Field]) -> Predicate | None:
    """Return what indices can be asked for a filter; None where they cannot limit its rows.

    Args:
        condition: The filter.
        fields: The columns that it reads and that have indices, by name; members of structs by
            their paths; or the row ids, or addresses, which limit its rows as indices do.
    """
    root = condition.tree
    found = None if root is None else _predicate(root, fields, False, 0)
    return None if found == NEVER else found


def _predicate(
    node: ExpressionNode, fields: Mapping[str, Field], is_negated: bool, depth: int
) -> Predicate | None:
    if depth > DEEPEST:
        return None
    if node.function == "invert":
        return _predicate(node.arguments[0], fields, not is_negated, depth + 1)
    for functions in (AND, OR):
        if node.function in functions:
            join = all_of if (functions is AND) != is_negated else any_of
            return join(
                _predicate(term, fields, is_negated, depth + 1)
                for term in chain_terms(node, functions)
            )
    if node.function == "if_else":  # DuckDB writes IN so
        condition, yes, no = node.arguments
        sides = (
            (
                _predicate(condition, fields, is_otherwise, depth + 1),
                _predicate(side, fields, is_negated, depth + 1),
            )
            for is_otherwise, side in ((False, yes), (True, no))
        )
        return any_of(map(all_of, sides))
    if node.kind == "literal":
        is_true = node.value is not None and node.value.as_py() not in (None, is_negated)
        return None if is_true else NEVER
    return _test(node, fields, is_negated)


def _test(node: ExpressionNode, fields: Mapping[str, Field], is_negated: bool) -> ColumnTest | None:
    """Return a part of a filter as a test of a column; None for any other part."""
    column = _column_of(node)
    field = None if column is None else fields.get(column.name)
    if field is None or field.shown_type is None:
        return None
    data_type = field.to_arrow().type
    if field.children and not any(is_kind(data_type) for is_kind in _LISTS):
        return None
    read = _READ_FIELD if node.kind == "field" else _reader_of(node.name)
    found = None if read is None else read(node, data_type, is_negated)
    if found is None:
        return None
    if is_negated:
        condition = Condition(~found.expression)
    else:
        condition = Condition(found.expression, tree=node)
    name = field.name

    def passes(array: pa.Array) -> Mask:
        batch = pa.RecordBatch.from_arrays([array], names=[name])
        try:
            return condition.evaluate(batch)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise UnfitTest(str(error)) from error

    return ColumnTest(
        field.id,
        data_type,
        found.intervals,
        found.keeps_null,
        found.contents,
        passes,
        contents_suffice=found.contents_suffice,
        intervals_suffice=found.intervals_suffice,
        excludes=found.excludes,
    )


def _column_of(node: ExpressionNode) -> ExpressionNode | None:
    """Return the column that a part of a filter tests first, itself or its small letters."""
    if node.kind == "field":
        return node
    columns = (_in_small_letters(argument) or argument for argument in node.arguments)
    return next((column for column in columns if column.kind == "field"), None)


def _in_small_letters(node: ExpressionNode) -> ExpressionNode | None:
    """Return what a part of a filter makes small letters of; None for other parts."""
    return node.arguments[0] if node.function == "utf8_lower" else None


class _Read(NamedTuple):
    """A test.

    Attributes:
        expression: The test, not negated.
        intervals: Intervals of the values that pass; None for any.
        keeps_null: Whether null passes.
        contents: What values that pass hold; None where nothing is known of it.
        contents_suffice: Whether all values that hold it pass.
        intervals_suffice: Whether all values between the ends of an interval pass.
        excludes: What values that do not pass hold, unless they are missing, and no others do.
    """

    expression: pc.Expression
    intervals: Sequence[KeyInterval] | None
    keeps_null: bool = False
    contents: Wanted | None = None
    contents_suffice: bool = False
    intervals_suffice: bool = False
    excludes: Wanted | None = None


def _read_field(node: ExpressionNode, data_type: pa.DataType, is_negated: bool) -> _Read | None:
    if not pa.types.is_boolean(data_type):
        return None
    return _Read(pc.field(node.name), [(not is_negated, not is_negated)])


def _read_comparison(
    node: ExpressionNode, data_type: pa.DataType, is_negated: bool
) -> _Read | None:
    comparison = as_comparison(node)
    if comparison is None or comparison.value is None:
        return None
    expression = _expression(comparison)
    if is_negated:
        # NaN is neither below nor above a number: the opposite comparison would leave it out.
        opposite = _OPPOSITE.get(comparison.operator)
        if opposite is None or pa.types.is_floating(data_type):
            return _Read(expression, None)
        comparison = Comparison(comparison.column, opposite, comparison.value)
    contents = _whole(comparison.value) if comparison.operator == "equal" else None
    intervals = _intervals(comparison, data_type)
    return _Read(expression, intervals, contents=contents, intervals_suffice=True)


def _read_not_equal(node: ExpressionNode, data_type: pa.DataType, is_negated: bool) -> _Read | None:
    comparison = as_comparison(ExpressionNode("call", "equal", node.arguments))
    if comparison is None or comparison.value is None:
        return None
    expression = pc.field(comparison.column) != comparison.value
    if not is_negated:
        return _Read(expression, None)
    return _Read(expression, _intervals(comparison, data_type), contents=_whole(comparison.value))


def _read_missing(node: ExpressionNode, data_type: pa.DataType, is_negated: bool) -> _Read | None:
    nan_is_null = node.value is not None and node.value["nan_is_null"].as_py()
    if node.arguments[0].kind != "field" or nan_is_null:
        return None
    is_null = node.name == "is_null"
    keeps_null = is_null != is_negated
    field = pc.field(node.arguments[0].name)
    expression = field.is_null() if is_null else field.is_valid()
    if not keeps_null:
        return _Read(expression, None)
    return _Read(expression, [], True, NOTHING, contents_suffice=True)


def _read_nan(node: ExpressionNode, data_type: pa.DataType, is_negated: bool) -> _Read | None:
    if node.arguments[0].kind != "field" or not pa.types.is_floating(data_type):
        return None
    intervals = None if is_negated else [(math.nan, None)]
    expression = pc.is_nan(pc.field(node.arguments[0].name))
    return _Read(expression, intervals, intervals_suffice=True)


def _read_is_in(node: ExpressionNode, data_type: pa.DataType, is_negated: bool) -> _Read | None:
    if node.arguments[0].kind != "field" or node.value is None or not has_keys(data_type):
        return None
    values = pa.array(node.value["value_set"].values)
    match node.value["null_matching_behavior"].as_py():
        case 0:  # a missing value is found among the values
            pass
        case 1:
            values = values.drop_null()
        case _:
            return None
    expression = pc.field(node.arguments[0].name).isin(values)
    keeps_null = (values.null_count > 0) != is_negated
    if is_negated:
        return _Read(expression, None, keeps_null)
    known = values.drop_null()
    texts = some(map(_whole, known)) if len(known) <= _MAX_TEXTS else None
    return _Read(expression, _points(known, data_type), keeps_null, texts)


def _read_pattern(node: ExpressionNode, data_type: pa.DataType, is_negated: bool) -> _Read | None:
    options, operand = node.value, node.arguments[0]
    small = _in_small_letters(operand)
    column = small or operand
    if column.kind != "field" or options is None or not has_byte_keys(data_type):
        return None
    pattern, values = pattern_of(node), pc.field(column.name)
    if pattern is None or options["ignore_case"].as_py():
        return None
    expression = _PATTERNS[node.name](pc.utf8_lower(values) if small else values, pattern)
    if is_negated:
        return _Read(expression, None)
    texts = _literal_runs(pattern) if node.name == "match_like" else [pattern]
    contents = every(Substring(text, small is not None) for text in texts)
    has_start = small is None and node.name in ("match_like", "starts_with")
    start = literal_start(pattern) if node.name == "match_like" else pattern
    return _Read(expression, _with_prefix(start) if has_start else None, contents=contents)


def _read_array_has(node: ExpressionNode, data_type: pa.DataType, is_negated: bool) -> _Read | None:
    """Read `array_has`, of a value, or `array_has_any`, of a list of values."""
    lists, wanted = node.arguments
    value = wanted.value
    if lists.kind != "field" or wanted.kind != "literal" or value is None:
        return None
    expression = pc.Expression._call(node.name, [pc.field(lists.name), pc.scalar(value)])
    if row_functions.is_array_has_any(node.name):
        contents = some(Item(each) for each in value.values)
    else:
        contents = Item(value) if value.is_valid else NOTHING
    if is_negated:  # of a missing value, no list passes either
        return _Read(expression, None, excludes=contents if value.is_valid else None)
    return _Read(expression, None, contents=contents, contents_suffice=True)


def _whole(value: pa.Scalar) -> Wanted | None:
    """Return what a text holds that is equal to a literal; None for other values."""
    is_known = value.is_valid and (
        pa.types.is_string(value.type) or pa.types.is_large_string(value.type)
    )
    return Substring(value.as_py()) if is_known else None


_LISTS = (pa.types.is_list, pa.types.is_large_list)
_PATTERNS = {
    "starts_with": pc.starts_with,
    "ends_with": pc.ends_with,
    "match_substring": pc.match_substring,
    "match_like": pc.match_like,
}
_READ_FIELD = _read_field
_READ: Mapping[str, Callable[[ExpressionNode, pa.DataType, bool], _Read | None]] = {
    **dict.fromkeys(("equal", *_OPPOSITE), _read_comparison),
    "not_equal": _read_not_equal,
    "is_null": _read_missing,
    "is_valid": _read_missing,
    "is_nan": _read_nan,
    "is_in": _read_is_in,
    **dict.fromkeys(_PATTERNS, _read_pattern),
}


def _reader_of(
    name: str,
) -> Callable[[ExpressionNode, pa.DataType, bool], _Read | None] | None:
    """Return what reads the call of a function of Arrow as a test, by the function's name."""
    tests_items = row_functions.is_array_has(name) or row_functions.is_array_has_any(name)
    return _read_array_has if tests_items else _READ.get(name)


def _expression(comparison: Comparison) -> pc.Expression:
    column, value = pc.field(comparison.column), comparison.value
    match comparison.operator:
        case "equal":
            return column == value
        case "less":
            return column < value
        case "less_equal":
            return column <= value
        case "greater":
            return column > value
        case _:
            return column >= value


def _intervals(comparison: Comparison, data_type: pa.DataType) -> list[KeyInterval] | None:
    """Return the sort keys of the values for which a comparison may be true; None if unknown."""
    value = comparison.value
    if value is None or not value.is_valid:
        return []
    if is_stored_number(data_type):
        interval = interval_of(comparison, data_type)
        if interval is None:
            return None
        return [(interval.low, interval.high)] if interval.low <= interval.high else []
    key = _key(value, data_type)
    if key is None:
        return None
    match comparison.operator:
        case "equal":
            return [(key, key)]
        case "less" | "less_equal":
            return [(None, key)]
        case _:
            return [(key, None)]


def _key(value: pa.Scalar, data_type: pa.DataType) -> object:
    """Return the sort key of a literal that is compared with a column; None if it has none."""
    if pa.types.is_boolean(data_type) and pa.types.is_boolean(value.type):
        return value.as_py()
    if pa.types.is_floating(data_type) and any(is_kind(value.type) for is_kind in _NUMBERS):
        number = float(value.as_py())
        return None if math.isnan(number) else number
    if has_byte_keys(data_type) and has_byte_keys(value.type):
        return value.cast(pa.binary()).as_py()
    return None


def _points(values: pa.Array, data_type: pa.DataType) -> list[KeyInterval] | None:
    """Return the sort keys of the values of an IN; None if the column has no such values."""
    if values.type != data_type:
        is_alike = any(is_kind(values.type) and is_kind(data_type) for is_kind in _ALIKE)
        if not is_alike:
            return None
        try:
            values = values.cast(data_type)
        except pa.ArrowInvalid:  # a value that the column cannot have
            return None
    keys = sorted(set(sort_keys(values).tolist()))
    return None if any(key != key for key in keys) else [(key, key) for key in keys]


def _literal_runs(pattern: str) -> list[str]:
    """Return texts between the wildcards of a LIKE pattern.

    They end before an escape character, which Arrow takes for a part of the text in patterns that
    are quick to match.
    """
    runs = [""]
    letters: Iterator[str] = iter(pattern)
    for letter in letters:
        if letter == "\\":
            runs.append(next(letters, ""))
        elif letter in "%_":
            runs.append("")
        else:
            runs[-1] += letter
    return [run for run in runs if run]


def _with_prefix(prefix: str) -> list[KeyInterval] | None:
    """Return an interval of the values that begin with a prefix; None for all values."""
    low = prefix.encode()
    # The upper end is the least key above all that begin so: the last byte can be raised, since no
    # text has the byte 0xFF.
    return [(low, low[:-1] + bytes([low[-1] + 1]))] if low else None
