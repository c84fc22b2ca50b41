"""Conditions on the content of a value: substrings and list items, joined by AND and OR."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias, TypeVar

import pyarrow as pa

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Substring:
    """A text is held.

    Attributes:
        text: The text.
        ignores_case: Whether small letters, as Arrow makes them, are compared.
    """

    text: str
    ignores_case: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """A list has an item that is equal to a value; NaN is equal to NaN.

    Attributes:
        value: The value, which is not missing.
    """

    value: pa.Scalar


@dataclass(frozen=True, slots=True)
class Every:
    """All of these are held."""

    contents: tuple[Wanted, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """One of these is held at least."""

    contents: tuple[Wanted, ...]


Leaf: TypeAlias = Substring | Item
Wanted: TypeAlias = Leaf | Every | Some

# No value passes.
NOTHING = Some(())


def every(contents: Iterable[Wanted | None]) -> Wanted | None:
    """Join contents by AND; None stands for an unknown one."""
    known = tuple(content for content in contents if content is not None)
    return known[0] if len(known) == 1 else Every(known) if known else None


def some(contents: Iterable[Wanted | None]) -> Wanted | None:
    """Join contents by OR; None if one of them is unknown."""
    known: list[Wanted] = []
    for content in contents:
        if content is None:
            return None
        known.append(content)
    return known[0] if len(known) == 1 else Some(tuple(known))


def leaves(content: Wanted) -> Iterator[Leaf]:
    """Yield the parts and items of a content."""
    if isinstance(content, Every | Some):
        for one in content.contents:
            yield from leaves(one)
    else:
        yield content


def evaluate(
    content: Wanted,
    of_leaf: Callable[[Leaf], T | None],
    both: Callable[[T, T], T],
    either: Callable[[T, T], T],
    nothing: T,
) -> T | None:
    """Return what is known of the values that hold a content.

    Args:
        content: The content.
        of_leaf: Returns it for a part or an item; None where nothing is known.
        both: Joins what is known of two contents by AND.
        either: Joins it by OR.
        nothing: What is known of no values.

    Returns:
        None where nothing is known.
    """
    if not isinstance(content, Every | Some):
        return of_leaf(content)
    found: Sequence[T | None] = [
        evaluate(one, of_leaf, both, either, nothing) for one in content.contents
    ]
    known = [one for one in found if one is not None]
    if isinstance(content, Every):
        return reduce(both, known) if known else None
    return reduce(either, known, nothing) if len(known) == len(found) else None
