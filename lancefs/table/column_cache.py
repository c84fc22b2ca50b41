"""Columns of small files that a process has read, kept for the next scan of the same version.

To open, read and close a file takes the system some ten microseconds, and a query for one number of
each of a thousand fragments does little else. So the columns of runs of such files stay decoded,
within one budget of the process, until their version is closed. Whoever uses them again asks first
what the files are: each must be the one that was read.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa

from lancefs.storage import SharedBudget

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints

# Bytes of columns that a process keeps.
BUDGET = 32 * 1024 * 1024
SHARED = SharedBudget(lambda: 1 << 30, BUDGET)


class ColumnForm(NamedTuple):
    """What a column of a run was decoded to.

    Attributes:
        field_id: Id of the field.
        data_type: Type of its values.
        is_encoded: Whether they are dictionary-encoded.
    """

    field_id: int
    data_type: pa.DataType
    is_encoded: bool


Arrays: TypeAlias = Mapping[ColumnForm, pa.Array]


class CachedRun:
    """Columns of a run of files.

    Attributes:
        identities: Numbers that tell each of the files from others, of shape (files, 4).
        arrays: The columns, of all rows of the files.
        last_use: See `SharedBudget`.
    """

    __slots__ = ("__weakref__", "_key", "_owner", "arrays", "cost", "identities", "last_use")

    def __init__(
        self, owner: ColumnCache, key: Hashable, identities: Ints, arrays: Arrays, cost: int
    ) -> None:
        self._owner = weakref.ref(owner)
        self._key = key
        self.identities = identities
        self.arrays = arrays
        self.cost = cost
        self.last_use = 0

    def let_go(self) -> None:
        """Have the version keep the columns no longer."""
        owner = self._owner()
        if owner is not None:
            owner.drop(self._key, self)


class ColumnCache:
    """The columns of small files that a version keeps. Threads may share it.

    Args:
        fragments: Number of fragments of the version.
    """

    def __init__(self, fragments: int) -> None:
        self._fragments = fragments
        self._runs: dict[Hashable, CachedRun] = {}

    def get(self, key: Hashable) -> CachedRun | None:
        """Return the cached columns of a run of files."""
        run = self._runs.get(key)
        if run is not None:
            SHARED.use(run)
        return run

    def put(self, key: Hashable, identities: Ints, arrays: Arrays, size: int) -> None:
        """Keep columns of a run, beside others of the same files, if all runs are likely to fit.

        Args:
            key: The key of the run.
            identities: What tells its files from others.
            arrays: The columns.
            size: Bytes that they take.
        """
        if size * self._fragments > BUDGET * len(identities):
            return
        known = self._runs.get(key)
        if known is not None and (known.identities == identities).all():
            arrays, size = {**known.arrays, **arrays}, size + known.cost
        run = self._runs[key] = CachedRun(self, key, identities, arrays, size)
        SHARED.hold(run)

    def drop(self, key: Hashable, run: CachedRun) -> None:
        """Keep a run no longer, unless another one took its place."""
        if self._runs.get(key) is run:
            self._runs.pop(key, None)

    def clear(self) -> None:
        """Keep nothing."""
        self._runs.clear()
