"""Functions of SQL text, and `LIKE`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.arguments import similar_names
from lancefs.datafile.buffers import to_arrow_numbers
from lancefs.datafile.constants import array_of, null_of, scalar_of
from lancefs.scan import row_functions
from lancefs.scan.sql_literals import has_units, of_units, unit_bounds
from lancefs.scan.sql_number_functions import NUMBER_FUNCTIONS
from lancefs.scan.sql_operands import (
    UNKNOWN,
    Literal,
    Operand,
    SqlFunction,
    Typed,
    common_type,
    condition,
    convert,
    item_type,
    require_number,
    require_text,
    result,
    to_typed,
)
from lancefs.scan.sql_operators import (
    compare,
    conjunction,
    disjunction,
    fit,
    fits_width,
    is_truth,
)
from lancefs.scan.sql_text_functions import TEXT_FUNCTIONS
from lancefs.scan.sql_time_functions import TIME_FUNCTIONS
from lancefs.scan.sql_tokens import Refused

# Some functions that there are, for the error that there is no such one.
_SHOWN = "lower, substr, round, date_part, coalesce and others, which the page on filters lists"
# Patterns whose only wildcards are `%` at the beginning or at the end, with a point for each other
# character; and what matches such texts, by where the pattern has `%`.
_OUTER_WILDCARDS = re.compile(r"(%*)\.+(%*)")
_OUTER_MATCHES: dict[tuple[bool, bool], Callable[..., pc.Expression]] = {
    (False, True): pc.starts_with,
    (True, False): pc.ends_with,
    (True, True): pc.match_substring,
}


class ListLiteral(NamedTuple):
    """A list as an argument of a function: `['a', 'b']`.

    Attributes:
        items: The operands in it.
        start: Index of its first character in the filter.
    """

    items: tuple[Operand, ...]
    start: int


Argument: TypeAlias = Literal | Typed | ListLiteral


def call(name: str, arguments: Sequence[Argument], start: int) -> Operand:
    """Return the result of a function.

    Args:
        name: As written.
        arguments: Its arguments.
        start: Index of the name in the filter.

    Raises:
        Refused: There is no such function, or it takes other arguments.
    """
    function = _FUNCTIONS.get(name.lower())
    if function is None:
        near = similar_names(name, _FUNCTIONS, most=1, cutoff=0.75)
        hint = f"did you mean {near[0]}?" if near else f"there are {_SHOWN}"
        raise Refused(f"there is no function {name}; {hint}", start)
    count = len(arguments)
    if count < function.least or (function.most is not None and count > function.most):
        raise Refused(f"{name} takes {_number_of_arguments(function)}, not {count}", start)
    for position, argument in enumerate(arguments):
        if isinstance(argument, ListLiteral) and not (
            position == 1 and function.apply in (_array_has_any, _array_has_all)
        ):
            raise Refused(f"{name} takes no list here", argument.start)
    return function.apply(name, *arguments)


def _number_of_arguments(function: SqlFunction) -> str:
    if function.least == function.most:
        return f"{function.least} argument{'s' if function.least > 1 else ''}"
    if function.most is None:
        return f"{function.least} or more arguments"
    return f"{function.least} to {function.most} arguments"


def like(
    operand: Operand, pattern: Operand, escape: str | None = None, ignores_case: bool = False
) -> Typed:
    """Tell which strings match a pattern: `%` is any text, `_` any character.

    Args:
        operand: Strings.
        pattern: A literal.
        escape: The character before a `%`, `_` or itself that is meant literally; there is none by
            default, as the standard has it.
        ignores_case: Whether capitals match small letters.

    Raises:
        Refused: An operand is of another kind.
    """
    values = require_text(operand, "LIKE")
    text = _constant_text(pattern, "a pattern in quotes was expected after like")
    if text is None:
        return condition(UNKNOWN, values)
    expression, pieces = values.expression, _pieces(text, escape, pattern.start)
    if ignores_case:
        expression = pc.utf8_lower(expression)
        pieces = [(_in_lower_case(letter), is_wildcard) for letter, is_wildcard in pieces]
    return condition(_match_pieces(expression, pieces), values)


def _in_lower_case(text: str) -> str:
    """Return a text in small letters, as Arrow makes them."""
    lower: str = pc.utf8_lower(scalar_of(text, pa.string())).as_py()
    return lower


def _pieces(pattern: str, escape: str | None, start: int) -> list[tuple[str, bool]]:
    """Return the characters of a pattern, and whether each is a wildcard.

    Args:
        pattern: The pattern.
        escape: The escape character; None for none.
        start: Index of the pattern in the filter.

    Raises:
        Refused: The pattern ends with the escape character.
    """
    pieces = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None:
                raise Refused(f"the pattern ends with the escape character {escape}", start)
            pieces.append((following, False))
        else:
            pieces.append((character, character in "%_"))
    return pieces


def _match_pieces(values: pc.Expression, pieces: Sequence[tuple[str, bool]]) -> pc.Expression:
    r"""Tell which strings match a pattern.

    Arrow's kernel, whose escape character is `\`, looks for texts that stand at an end of the
    pattern, or between two `%`, as they are written: with the escape characters in them.

    Args:
        values: Strings.
        pieces: The characters of the pattern, and whether each is a wildcard.
    """
    text = "".join(character for character, is_wildcard in pieces if not is_wildcard)
    rest = "".join(character if is_wildcard else "." for character, is_wildcard in pieces)
    outer = _OUTER_WILDCARDS.fullmatch(rest) if "\\" in text else None
    match = None if outer is None else _OUTER_MATCHES.get((bool(outer[1]), bool(outer[2])))
    if match is not None:
        return match(values, text)
    letters = (
        character if is_wildcard or character not in r"\%_" else f"\\{character}"
        for character, is_wildcard in pieces
    )
    return pc.match_like(values, "".join(letters))


def _constant_text(operand: Operand, expected: str) -> str | None:
    """Return the string that a literal is, None for NULL."""
    if isinstance(operand, Literal) and isinstance(operand.value, str | None):
        return operand.value
    raise Refused(expected, operand.start)


def _match(kernel: Callable[..., Any], name: str, operand: Operand, pattern: Operand) -> Typed:
    """Tell which strings have a constant part or match a constant pattern."""
    values = require_text(operand, name)
    text = _constant_text(pattern, f"{name} takes a text in quotes")
    if text is None:
        return condition(UNKNOWN, values)
    return condition(kernel(values.expression, text), values)


def _regexp_like(
    name: str, operand: Operand, pattern: Operand, flags: Operand | None = None
) -> Typed:
    letters = "" if flags is None else _constant_text(flags, f"{name} takes flags in quotes")
    if letters is None or not set(letters) <= set("ims"):
        assert flags is not None
        raise Refused(f"the flags of {name} are i, m and s", flags.start)
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        full = f"(?{letters}){pattern.value}" if letters else pattern.value
        try:
            pc.match_substring_regex(array_of([""], pa.string()), full)
        except pa.ArrowInvalid as error:
            raise Refused(str(error).splitlines()[0], pattern.start) from None
        pattern = Literal(full, pattern.start)
    return _match(pc.match_substring_regex, name, operand, pattern)


def _regexp_match(
    name: str, operand: Operand, pattern: Operand, flags: Operand | None = None
) -> Typed:
    # For pylance this is "has groups": false, not unknown, for a missing string.
    return is_truth(_regexp_like(name, operand, pattern, flags), True)


def _of_text(kernel: Callable[..., Any], name: str, operand: Operand) -> Typed:
    """Make texts of texts."""
    values = require_text(operand, name)
    return result(kernel(values.expression), values.type, values)


def _length(name: str, operand: Operand) -> Typed:
    values = require_text(operand, name)
    return result(pc.utf8_length(values.expression).cast(pa.int64()), pa.int64(), values)


def _abs(name: str, operand: Operand) -> Typed:
    values = require_number(operand, name)
    if pa.types.is_signed_integer(values.type):
        return result(pc.abs_checked(values.expression.cast(pa.int64())), pa.int64(), values)
    return result(pc.abs_checked(values.expression), values.type, values)


def _isnan(name: str, operand: Operand) -> Typed:
    values = require_number(operand, name)
    return condition(pc.is_nan(values.expression), values)


def choose(name: str, tests: Sequence[Operand], results: Sequence[Operand], start: int) -> Operand:
    """Return the first of some results whose test is true: `CASE WHEN`.

    Args:
        name: What chooses, for the error.
        tests: The tests; there is one result more, which holds where none is true.
        results: The results.
        start: Index of the first character in the filter.

    Raises:
        Refused: No type holds all results.
    """
    columns, target = _unified(name, results)
    chosen = convert(columns[-1], target)
    known = [is_truth(test, True) for test in tests]
    for test, values in reversed(list(zip(known, columns[:-1], strict=True))):
        chosen = pc.if_else(test.expression, convert(values, target), chosen)
    if pa.types.is_null(target):
        return to_typed(results[0])
    return result(chosen, target, *known, *columns)._replace(start=start)


def _coalesce(name: str, *operands: Operand) -> Typed:
    columns, target = _unified(name, operands)
    if pa.types.is_null(target):
        return to_typed(operands[0])
    return result(pc.coalesce(*(convert(values, target) for values in columns)), target, *columns)


def _unified(name: str, operands: Sequence[Operand]) -> tuple[list[Typed], pa.DataType]:
    """Return operands, and the type that holds all of them."""
    known = [operand for operand in operands if isinstance(operand, Typed)]
    target = known[0].type if known else pa.null()
    columns = [_beside(operand, target) for operand in operands]
    for values in columns:
        common = common_type(target, values.type)
        if common is None:
            raise Refused(f"{name} of {target} and {values.type}; cast one", values.start)
        target = common
    return columns, target


def _beside(operand: Operand, data_type: pa.DataType) -> Typed:
    """Return an operand; a literal takes a type where it is a value of the type."""
    if not isinstance(operand, Literal) or operand.value is None or pa.types.is_null(data_type):
        return to_typed(operand)
    try:
        scalar = _scalar_as(operand, data_type)
    except Refused:
        return to_typed(operand)
    if scalar is None:
        return to_typed(operand)
    return Typed(pc.scalar(scalar), data_type, operand.start)


def _scalar_as(literal: Literal, data_type: pa.DataType, is_half: bool = False) -> pa.Scalar | None:
    """Return a literal as a value of a type; None where the type has no value that equals it.

    Raises:
        Refused: The literal is of another kind.
    """
    value = fit(literal, data_type, is_half)
    if isinstance(value, bytes) and not fits_width(value, data_type):
        return None
    if not has_units(data_type):
        return scalar_of(value, data_type)
    low, high = unit_bounds(data_type)
    if not low <= value <= high or value != int(value):
        return None
    return of_units([int(value)], data_type)[0]


def _list_of(name: str, operand: Operand) -> Typed:
    if isinstance(operand, Typed):
        kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        if any(is_kind(operand.type) for is_kind in kinds):
            return operand
    data_type = to_typed(operand).type
    raise Refused(f"{name} takes a column of lists first, not {data_type}", operand.start)


def _array_has(name: str, operand: Operand, item: Operand) -> Typed:
    lists = _list_of(name, operand)
    target, is_half = _comparable_items(name, lists)
    if isinstance(item, Literal):
        if item.value is None:
            return condition(UNKNOWN, lists)
        scalar = _scalar_as(item, target, is_half)
        if scalar is None:  # no item can equal it
            return condition(lists.expression.is_null() & UNKNOWN, lists)
        value = Typed(pc.scalar(scalar), target, item.start)
    else:
        value = item
    common = common_type(target, value.type)
    if common is None:
        raise Refused(f"{name} looks for {target}, not {value.type}", item.start)
    has = row_functions.array_has(lists.expression, lists.type, convert(value, common), common)
    return condition(has, lists, value)


def _array_has_any(name: str, operand: Operand, items: Argument) -> Typed:
    known = _known_items(name, items)
    if len(known) > 1 and all(isinstance(item, Literal) for item in known):
        lists = _list_of(name, operand)
        target, is_half = _comparable_items(name, lists)
        scalars = [_scalar_as(item, target, is_half) for item in known if isinstance(item, Literal)]
        # No item can equal a literal that is no value of their type.
        pieces = [pa.repeat(scalar, 1) for scalar in scalars if scalar is not None]
        if pieces:
            values = pa.concat_arrays(pieces)
            offsets = to_arrow_numbers(np.array([0, len(values)], np.int32))
            literal = pc.scalar(pa.ListArray.from_arrays(offsets, values)[0])
            has = row_functions.array_has_any(lists.expression, lists.type, literal, target)
            return condition(has, lists)
    tests = [_array_has(name, operand, item) for item in known]
    return disjunction(tests) if tests else _for_lists(name, operand, False)


def _array_has_all(name: str, operand: Operand, items: Argument) -> Typed:
    tests = [_array_has(name, operand, item) for item in _known_items(name, items)]
    return conjunction(tests) if tests else _for_lists(name, operand, True)


def _known_items(name: str, items: Argument) -> list[Operand]:
    """Return the operands of a list but those that are NULL."""
    if not isinstance(items, ListLiteral):
        raise Refused(f"{name} takes a list such as ['a', 'b'] last", items.start)
    return [item for item in items.items if not (isinstance(item, Literal) and item.value is None)]


def _comparable_items(name: str, lists: Typed) -> tuple[pa.DataType, bool]:
    """Return the type of the items of lists, and whether it stands for half floats."""
    target, is_half = item_type(lists.type)
    if pa.types.is_nested(target):
        raise Refused(f"{name} cannot compare items of the type {target}", lists.start)
    return target, is_half


def _for_lists(name: str, operand: Operand, answer: bool) -> Typed:
    """Return the answer for each list, unknown where there is none."""
    lists = _list_of(name, operand)
    missing = lists.expression.is_null()
    return condition(~missing | UNKNOWN if answer else missing & UNKNOWN, lists)


def _array_length(name: str, operand: Operand) -> Typed:
    lists = _list_of(name, operand)
    return result(pc.list_value_length(lists.expression).cast(pa.int64()), pa.int64(), lists)


def _nullif(name: str, operand: Operand, other: Operand) -> Typed:
    values = to_typed(operand)
    is_same = is_truth(compare("=", operand, other), True)
    missing = pc.scalar(null_of(values.type))
    chosen = pc.if_else(is_same.expression, missing, values.expression)
    return result(chosen, values.type, values, is_same)


_FUNCTIONS: dict[str, SqlFunction] = {
    **TEXT_FUNCTIONS,
    **NUMBER_FUNCTIONS,
    **TIME_FUNCTIONS,
    "abs": SqlFunction(_abs, 1, 1),
    "array_contains": SqlFunction(_array_has, 2, 2),
    "array_has": SqlFunction(_array_has, 2, 2),
    "array_has_all": SqlFunction(_array_has_all, 2, 2),
    "array_has_any": SqlFunction(_array_has_any, 2, 2),
    "array_length": SqlFunction(_array_length, 1, 1),
    "char_length": SqlFunction(_length, 1, 1),
    "character_length": SqlFunction(_length, 1, 1),
    "coalesce": SqlFunction(_coalesce, 1, None),
    "contains": SqlFunction(partial(_match, pc.match_substring), 2, 2),
    "ends_with": SqlFunction(partial(_match, pc.ends_with), 2, 2),
    "length": SqlFunction(_length, 1, 1),
    "list_contains": SqlFunction(_array_has, 2, 2),
    "list_has_all": SqlFunction(_array_has_all, 2, 2),
    "list_has_any": SqlFunction(_array_has_any, 2, 2),
    "isnan": SqlFunction(_isnan, 1, 1),
    "lower": SqlFunction(partial(_of_text, pc.utf8_lower), 1, 1),
    "nullif": SqlFunction(_nullif, 2, 2),
    "regexp_like": SqlFunction(_regexp_like, 2, 3),
    "regexp_match": SqlFunction(_regexp_match, 2, 3),
    "regexp_matches": SqlFunction(_regexp_like, 2, 3),
    "starts_with": SqlFunction(partial(_match, pc.starts_with), 2, 2),
    "upper": SqlFunction(partial(_of_text, pc.utf8_upper), 1, 1),
}
