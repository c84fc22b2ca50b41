"""A cache of parsed filters, by the columns that they name.

The same question is often asked again and again of an open dataset, or of one that is opened for
it. To parse a text, to check it against the columns and to see what indices can be asked took a
quarter of the time of a look-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from operator import and_
from typing import TYPE_CHECKING, TypeAlias

import pyarrow.compute as pc

from lancefs.datafile.fields import Field
from lancefs.forks import cached_property
from lancefs.scan import expressions
from lancefs.scan.conditions import Condition
from lancefs.scan.expressions import ExpressionNode
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.members import outermost
from lancefs.table.open_version import OpenVersion
from lancefs.table.row_metadata import is_row_metadata

if TYPE_CHECKING:
    from lancefs.index.predicates import Predicate

# Bytes of filters that are kept for the columns of a version, and what each counts in addition to
# its text; and for how many versions, as for parsed manifests.
_BYTES, _MIN_BYTES = 32 * 1024, 256
_MAX_VERSIONS = 64
# Characters of a value that the error about it shows.
_SHOWN = 100


class ParsedFilter:
    """A parsed filter, and what indices can be asked for it.

    Args:
        condition: The filter.
        fields: The columns and members of structs that it reads.
    """

    def __init__(self, condition: Condition, fields: tuple[Field, ...]) -> None:
        self.condition = condition
        self.fields = fields

    @cached_property
    def predicate(self) -> Predicate | None:
        """What indices can be asked for the filter; None where they cannot limit its rows."""
        from lancefs.scan.index_predicates import index_predicate

        stored = {field.name: field for field in self.fields if not is_row_metadata(field)}
        return index_predicate(self.condition, stored)


def parsed_filter(filters: Sequence[pc.Expression | str], version: OpenVersion) -> ParsedFilter:
    """Return filters as one, which is true where all of them are.

    Args:
        filters: Expressions or SQL texts, at least one.
        version: The version whose columns they name.

    Raises:
        InvalidFilter: A text cannot be parsed.
        ColumnNotFound: A text names a column that is not in the table.
        TypeError: A filter is neither text nor an expression.
    """
    key = key_of(filters)
    return _filters_of(version).get(key, lambda: _parse(filters, version), partial(_cost, key))


def key_of(filters: Sequence[pc.Expression | str]) -> tuple[bytes | str, ...]:
    """Return what tells filters of a version from others.

    Raises:
        TypeError: A filter is neither text nor an expression.
    """
    return tuple(map(_key_of, filters))


def fields_read(wanted: Sequence[pc.Expression], version: OpenVersion) -> tuple[Field, ...]:
    """Return the columns and members of structs that expressions read, in table order.

    Args:
        wanted: The expressions.
        version: The version whose columns they name.
    """
    if not wanted:
        return ()
    fields, needed = version.named_fields, set[tuple[str, ...]]()
    for expression in wanted:
        paths = expressions.paths_in(expression)
        needed |= {(name,) for name in fields} if paths is None else paths
    found = {field.id: field for field in map(version.member, sorted(needed))}
    taken = {field.name for field in found.values() if not field.way}
    # A column may be called as the path to a member is: the struct is read whole then.
    clear = [one.way[0] if one.way and one.name in taken else one for one in found.values()]
    positions = {name: position for position, name in enumerate(fields)}
    columns = outermost({field.id: field for field in clear}.values())
    return tuple(sorted(columns, key=lambda one: positions[(one.way or (one,))[0].name]))


def as_expression(filter: pc.Expression | str, version: OpenVersion) -> pc.Expression:
    """Return a filter as an Arrow expression.

    Args:
        filter: An expression, or SQL text.
        version: The version whose columns the text names.

    Raises:
        InvalidFilter: The text cannot be parsed.
        ColumnNotFound: The text names a column that is not in the table.
        TypeError: The filter is neither text nor an expression.
    """
    if isinstance(filter, pc.Expression):
        return filter
    if isinstance(filter, str):
        from lancefs.scan.sql_filter import parse_filter

        return parse_filter(filter, version.fields)
    raise _refuse(filter)


def _key_of(filter: pc.Expression | str) -> bytes | str:
    """Return what tells a filter from others."""
    if isinstance(filter, pc.Expression):
        return expressions.bytes_of(filter)
    if isinstance(filter, str):
        return filter
    raise _refuse(filter)


def _refuse(filter: object) -> TypeError:
    shown = repr(filter)
    if len(shown) > _SHOWN or "\n" in shown:  # such as an array
        shown = f"a {type(filter).__name__}"
    return TypeError(
        f'filter is {shown}; SQL text such as "price > 3" was expected, or a pyarrow.compute '
        'expression such as pyarrow.compute.field("price") > 3'
    )


def _parse(filters: Sequence[pc.Expression | str], version: OpenVersion) -> ParsedFilter:
    expression = reduce(and_, [as_expression(filter, version) for filter in filters])
    texts = [filter for filter in filters if isinstance(filter, str)]
    text = " AND ".join(texts) if len(texts) == len(filters) else None
    fields = fields_read([expression], version)
    return ParsedFilter(Condition(expression, text, fields), fields)


def _cost(key: Sequence[bytes | str], parsed: ParsedFilter) -> int:
    """Return the bytes that a filter counts; more than the cache has if it takes much memory."""
    tree = parsed.condition.tree
    # To look values up in a set, a table of up to some MB is made (`conditions.NumberSet`).
    is_small = tree is not None and not _has_set(tree)
    return _MIN_BYTES + sum(map(len, key)) if is_small else _BYTES + 1


def _has_set(root: ExpressionNode) -> bool:
    """Tell whether a filter looks values up in a set somewhere."""
    left = [root]
    while left:
        node = left.pop()
        if node.name == "is_in":
            return True
        left.extend(node.arguments)
    return False


_Filters: TypeAlias = BudgetCache[tuple[bytes | str, ...], ParsedFilter]
# By the columns, which stay alive, and by whether there are columns of row metadata beside them.
_BY_COLUMNS: dict[tuple[int, bool], tuple[Sequence[Field], _Filters]] = {}


def _filters_of(version: OpenVersion) -> _Filters:
    """Return the cached filters for the columns of a version, also when it is opened again."""
    key = id(version.fields), version.is_fresh
    known = _BY_COLUMNS.get(key)
    if known is None:
        if len(_BY_COLUMNS) >= _MAX_VERSIONS:
            _BY_COLUMNS.clear()
        known = _BY_COLUMNS.setdefault(key, (version.fields, BudgetCache(_BYTES)))
    return known[1]
