"""Functions of a row that Arrow lacks, registered as Arrow compute functions.

Arrow registers a function for exact types and for the life of the process, so that each is
registered when a filter first needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import numbers_of, to_arrow, true_slots, valid_slots
from lancefs.datafile.blocks import FixedWidth
from lancefs.datafile.buffers import Ints, Mask, number_dtype, to_arrow_numbers
from lancefs.datafile.constants import scalar_of
from lancefs.forks import Lock
from lancefs.scan.half_floats import widen_type

_Values: TypeAlias = "pa.Array | pa.Scalar"
_RowFunction: TypeAlias = Callable[[Any, _Values, _Values], pa.Array]

# Names under which functions are registered, by what they do and the types that they take.
_PREFIX = "lancefs_"
_REGISTERED = re.compile(rf"\b{_PREFIX}(\w+?)_\d+\(")
_LIST = re.compile(r"\blist<item: [^<>]+>\[")  # how a literal of some values begins
_names: dict[tuple[str, tuple[pa.DataType, pa.DataType]], str] = {}
_lock = Lock()


def array_has(
    lists: pc.Expression,
    list_type: pa.DataType,
    value: pc.Expression,
    value_type: pa.DataType,
) -> pc.Expression:
    """Tell which lists hold a value: null where the list or the value is null.

    NaN is equal to NaN, and nothing to a missing item.

    Args:
        lists: Lists, large lists or fixed-size lists.
        list_type: Their type.
        value: The value for each list, or for all.
        value_type: Its type, into which items are cast.
    """
    return _call("array_has", _array_has, (lists, value), (list_type, value_type), pa.bool_())


def array_has_any(
    lists: pc.Expression, list_type: pa.DataType, values: pc.Expression, value_type: pa.DataType
) -> pc.Expression:
    """Tell which lists hold one of some values: null where the list is null.

    NaN is equal to NaN, and nothing to a missing item.

    Args:
        lists: Lists, large lists or fixed-size lists.
        list_type: Their type.
        values: The values, a list as a literal; none is null.
        value_type: The type of each, into which items are cast.
    """
    types = list_type, pa.list_(value_type)
    return _call("array_has_any", _array_has_any, (lists, values), types, pa.bool_())


def is_array_has(name: str) -> bool:
    """Tell whether a function of Arrow, by its name, is `array_has` for some types."""
    return name.startswith(f"{_PREFIX}array_has_") and not is_array_has_any(name)


def is_array_has_any(name: str) -> bool:
    """Tell whether a function of Arrow, by its name, is `array_has_any` for some types."""
    return name.startswith(f"{_PREFIX}array_has_any_")


def with_plain_names(text: str) -> str:
    """Return the text of an expression with the names of these functions as filters have them."""
    return _LIST.sub("[", _REGISTERED.sub(r"\1(", text))


def remainder(left: pc.Expression, right: pc.Expression, data_type: pa.DataType) -> pc.Expression:
    """Return remainders with the sign of the dividend, as SQL and C have them.

    Args:
        left: Dividends.
        right: Divisors; a whole number that is zero is an error when rows are read.
        data_type: The type of both and of the result: int64, uint64, float32 or float64.
    """
    return _call("remainder", _remainder, (left, right), (data_type, data_type), data_type)


def _call(
    name: str,
    function: _RowFunction,
    arguments: tuple[pc.Expression, pc.Expression],
    types: tuple[pa.DataType, pa.DataType],
    result: pa.DataType,
) -> pc.Expression:
    types = (widen_type(types[0]), widen_type(types[1]))  # as filters are given half floats
    key = (name, types)
    with _lock:
        if key not in _names:
            _names[key] = f"{_PREFIX}{name}_{len(_names)}"
            pc.register_scalar_function(
                function,
                _names[key],
                {"summary": name, "description": f"{name} of {types[0]} and {types[1]}"},
                {"left": types[0], "right": types[1]},
                result,
            )
    return pc.Expression._call(_names[key], list(arguments))


def _array_has(context: Any, lists: _Values, value: _Values) -> pa.Array:
    if isinstance(lists, pa.Scalar):
        lists = pa.repeat(lists, context.batch_length)
    bounds = _item_bounds(lists)
    items = lists.flatten().cast(value.type)
    if isinstance(value, pa.Scalar):
        wanted = value
    else:
        parents = np.repeat(np.arange(len(lists)), np.diff(bounds))
        wanted = value.take(to_arrow_numbers(parents))
    has = _lists_of_hits(bounds, _are_equal(items, wanted))
    return to_arrow(FixedWidth(1, has), pa.bool_(), _valid(lists, value, len(lists)))


def _array_has_any(context: Any, lists: _Values, values: pa.ListScalar) -> pa.Array:
    """Look all values up at once: a pass for each takes as many times as long."""
    if isinstance(lists, pa.Scalar):
        lists = pa.repeat(lists, context.batch_length)
    wanted = values.values
    items = lists.flatten().cast(wanted.type)
    if pa.types.is_floating(wanted.type):  # `is_in` tells -0.0 from 0.0
        found = reduce(pc.or_kleene, (_are_equal(items, value) for value in wanted))
    else:
        found = pc.is_in(items, wanted)
    has = _lists_of_hits(_item_bounds(lists), found)
    return to_arrow(FixedWidth(1, has), pa.bool_(), valid_slots(lists))


def _are_equal(items: pa.Array, wanted: _Values) -> pa.Array:
    """Tell which items equal values, NaN among them; null for missing items."""
    equal = pc.equal(items, wanted)
    if pa.types.is_floating(wanted.type):
        equal = pc.or_kleene(equal, pc.and_kleene(pc.is_nan(items), pc.is_nan(wanted)))
    return equal


def _lists_of_hits(bounds: Ints, found: pa.Array) -> Mask:
    """Return which lists have one of the items that are found."""
    hits = np.flatnonzero(true_slots(found))
    has = np.zeros(len(bounds) - 1, np.bool_)
    has[np.searchsorted(bounds, hits, side="right") - 1] = True
    return has


def _item_bounds(lists: pa.Array) -> Ints:
    """Return where the items of each list begin among those of all, and where the last ones end."""
    if pa.types.is_fixed_size_list(lists.type) or lists.null_count:
        lengths = pc.fill_null(pc.list_value_length(lists), scalar_of(0, pa.int64()))
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(numbers_of(lengths))])
    offsets = numbers_of(lists.offsets)
    bounds: Ints = offsets - offsets[0]
    return bounds


def _remainder(context: Any, left: _Values, right: _Values) -> pa.Array:
    rows = context.batch_length
    dividends, divisors = _numbers(left), _numbers(right)
    valid = _valid(left, right, rows)
    if divisors.dtype.kind != "f" and not divisors.all():
        is_zero = np.broadcast_to(divisors == 0, rows)
        if np.any(is_zero if valid is None else is_zero & valid):
            raise pa.ArrowInvalid("divide by zero")
    with np.errstate(all="ignore"):
        is_by_one = divisors.dtype.kind != "f" and len(divisors) == 1
        found = (_remainder_by_one if is_by_one else np.fmod)(dividends, divisors)
    found = np.ascontiguousarray(np.broadcast_to(found, rows))
    return to_arrow(FixedWidth(8 * found.itemsize, found), left.type, valid)


def _remainder_by_one(dividends: Ints, divisor: Ints) -> Ints:
    """Return the remainders of whole numbers by one that is not zero, as `np.fmod` does.

    NumPy finds all quotients by one number in a fraction of the time of their remainders.
    """
    by = divisor[0]
    found: Ints = dividends // by  # rounded down, so that remainders have the sign of the divisor
    found *= by
    np.subtract(dividends, found, out=found)
    has_other_sign = dividends > 0 if by < 0 else dividends < 0
    if has_other_sign.any():
        found[has_other_sign & (found != 0)] -= by
    return found


def _numbers(values: _Values) -> npt.NDArray[Any]:
    """Return numbers, with 1 in place of missing ones; a scalar gives a single number."""
    if isinstance(values, pa.Scalar):
        return np.array([values.as_py() if values.is_valid else 1], number_dtype(values.type))
    return numbers_of(values, null=1)


def _valid(one: _Values, other: _Values, rows: int) -> Mask | None:
    """Tell in which rows neither value is missing; None where that is in all of them."""
    found = None
    for values in (one, other):
        if isinstance(values, pa.Scalar):
            valid = None if values.is_valid else np.zeros(rows, np.bool_)
        else:
            valid = valid_slots(values)
        if valid is not None:
            found = valid if found is None else found & valid
    return found
