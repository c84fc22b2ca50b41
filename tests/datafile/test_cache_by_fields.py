"""What is kept of groups of columns stays while other groups of the same columns are read."""

from __future__ import annotations

from dataclasses import replace

from lancefs.datafile.fields import CacheByFields, Field


def test_the_same_columns_as_other_types_are_kept_beside_each_other() -> None:
    first, last = Field(1, "price", "decimal:128:15:2"), Field(3, "day", "date32:day")
    groups = [
        (first, last),
        (replace(first, logical_type="dict:decimal:128:15:2:int32:false"), last),
        (first, replace(last, is_validity=True)),
        (first, Field(2, "tax", "double"), last),
        (first, Field(2, "tax", "float"), last),
        (last, first),
    ]
    cache = CacheByFields[int]()
    for number, group in enumerate(groups):
        assert cache.find(group) is None
        cache.put(group, number)
    assert [cache.find(list(group)) for group in groups] == [*zip(groups, range(6), strict=True)]
    assert cache.values() == list(range(6))
    cache.clear()
    assert cache.find(groups[0]) is None
