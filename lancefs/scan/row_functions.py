"""Functions of a row that Arrow lacks, as functions that Arrow's expressions call.

Arrow registers a function for exact types and for the life of the process, so that each is
registered when a filter first needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.forks import Lock
from lancefs.scan.half_floats import widen_type

_Values: TypeAlias = "pa.Array | pa.Scalar"
_RowFunction: TypeAlias = Callable[[Any, _Values, _Values], pa.Array]

# Names under which functions are registered, by what they do and the types that they take.
_PREFIX = "lancefs_"
_REGISTERED = re.compile(rf"\b{_PREFIX}(\w+?)_\d+\(")
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


def is_array_has(name: str) -> bool:
    """Tell whether a function of Arrow, by its name, is `array_has` for some types."""
    return name.startswith(f"{_PREFIX}array_has_")


def with_plain_names(text: str) -> str:
    """Return the text of an expression with the names of these functions as filters have them."""
    return _REGISTERED.sub(r"\1(", text)


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
    parents = pc.list_parent_indices(lists)
    items = pc.list_flatten(lists).cast(value.type)
    wanted = value if isinstance(value, pa.Scalar) else value.take(parents)
    equal = pc.equal(items, wanted)
    if pa.types.is_floating(value.type):
        equal = pc.or_kleene(equal, pc.and_kleene(pc.is_nan(items), pc.is_nan(wanted)))
    has = np.zeros(len(lists), np.bool_)
    has[parents.filter(pc.fill_null(equal, False)).to_numpy()] = True
    return pa.array(has, mask=_nulls(lists, len(lists)) | _nulls(value, len(lists)))


def _remainder(context: Any, left: _Values, right: _Values) -> pa.Array:
    rows = context.batch_length
    dividends, divisors = _numbers(left), _numbers(right)
    nulls = None
    if _has_nulls(left) or _has_nulls(right):
        nulls = _nulls(left, rows) | _nulls(right, rows)
    if divisors.dtype.kind != "f" and not divisors.all():
        is_zero = np.broadcast_to(divisors == 0, rows)
        if np.any(is_zero if nulls is None else is_zero & ~nulls):
            raise pa.ArrowInvalid("divide by zero")
    with np.errstate(all="ignore"):
        return pa.array(np.broadcast_to(np.fmod(dividends, divisors), rows), left.type, mask=nulls)


def _numbers(values: _Values) -> npt.NDArray[Any]:
    """Return numbers, with 1 in place of missing ones; a scalar gives a single number."""
    array = pa.array([values.as_py()], values.type) if isinstance(values, pa.Scalar) else values
    filled = pc.fill_null(array, pa.scalar(1, array.type)) if array.null_count else array
    numbers: npt.NDArray[Any] = filled.to_numpy()
    return numbers


def _has_nulls(values: _Values) -> bool:
    return not values.is_valid if isinstance(values, pa.Scalar) else values.null_count > 0


def _nulls(values: _Values, rows: int) -> npt.NDArray[np.bool_]:
    """Tell which values are missing."""
    if isinstance(values, pa.Scalar):
        return np.full(rows, not values.is_valid)
    missing: npt.NDArray[np.bool_] = values.is_null().to_numpy(zero_copy_only=False)
    return missing
