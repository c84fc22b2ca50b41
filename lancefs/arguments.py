"""Checks of the arguments that callers give, and hints at what was meant by a wrong one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

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
        value: The names; or None.

    Raises:
        TypeError: It is one name, or no list.
    """
    if isinstance(value, str):
        raise TypeError(f"{name} is {value!r}; a list of names was expected: [{value!r}]")
    if value is not None and not isinstance(value, Iterable):
        raise TypeError(f"{name} is {value!r}; a list of names was expected")


def check_flags(**flags: object) -> None:
    """Check arguments that are true or false: a text such as `'no'` would be taken for true.

    Raises:
        TypeError: One is neither.
    """
    for name, value in flags.items():
        if not (isinstance(value, int | np.bool_) and value in (0, 1)):
            raise TypeError(f"{name} is {value!r}; True or False was expected")


def options_of(given: object, hint: str = "") -> dict[str, Any]:
    """Return storage options that a caller gives; none where that is None.

    Args:
        given: The argument.
        hint: What the message says beside what was expected.

    Raises:
        TypeError: It is no mapping.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        kind = type(given).__name__  # the value may be a secret
        raise TypeError(f"storage_options is a {kind}; a mapping was expected{hint}")
    return dict(given)


def list_columns(
    columns: Iterable[str] | Mapping[str, _T] | None,
) -> list[str] | Mapping[str, _T] | None:
    """Return names of columns as a list, also those of an iterator, which yields them once.

    Args:
        columns: The names; None and a mapping of names to expressions are returned as they are.

    Raises:
        TypeError: It is one name, or no list.
    """
    check_list("columns", columns)
    return columns if columns is None or isinstance(columns, Mapping) else list(columns)


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


def similar_names(
    name: str, choices: Iterable[str], most: int = 3, cutoff: float = 0.6
) -> list[str]:
    """Return the choices that a name may be a slip of, the likeliest one first; for messages.

    Args:
        name: The name that is no choice. Upper and lower case do not count.
        choices: The choices.
        most: How many are returned at most.
        cutoff: Least similarity, from 0 to 1 (the same letters).
    """
    from difflib import get_close_matches

    lower = {choice.lower(): choice for choice in choices}
    return [lower[match] for match in get_close_matches(name.lower(), lower, most, cutoff)]
