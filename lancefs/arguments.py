"""Checks of the arguments that callers give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import numpy as np

_T = TypeVar("_T")


def check_number(name: str, value: int, least: int = 0) -> None:
    """Check a number of rows or bytes that a caller gives.

    Args:
        name: What the caller knows it by.
        value: The number.
        least: The least that makes sense, 0 or 1.

    Raises:
        TypeError: It is no whole number.
        ValueError: It is less than that.
    """
    if not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {value!r}; a whole number was expected")
    if value < least:
        expected = "a positive number" if least == 1 else "a number from 0 on"
        raise ValueError(f"{name} is {value}; {expected} was expected")


def check_list(name: str, value: object) -> None:
    """Check that names of columns are not one name, whose letters would be taken for names.

    Args:
        name: What the caller knows the argument by.
        value: The names.

    Raises:
        TypeError: It is one name.
    """
    if isinstance(value, str):
        raise TypeError(f"{name} is {value!r}; a list of names was expected: [{value!r}]")


def read_once(
    name: str, value: Iterable[str] | Mapping[str, _T] | None
) -> list[str] | Mapping[str, _T] | None:
    """Return names of columns that can be gone through again, also those of an iterator.

    Args:
        name: What the caller knows the argument by.
        value: The names. None, and what has expressions by names, comes back as it is.

    Raises:
        TypeError: It is one name.
    """
    check_list(name, value)
    return value if value is None or isinstance(value, Mapping) else list(value)


def check_whole(least: int, **numbers: object) -> None:
    """Check arguments of searches that are whole numbers.

    Args:
        least: The least that makes sense.
        numbers: The arguments, by their names.

    Raises:
        ValueError: One is something else.
    """
    for name, value in numbers.items():
        if not (isinstance(value, int | np.integer) and value >= least):
            raise ValueError(f"{name} is {value!r}; a whole number from {least} on was expected")
