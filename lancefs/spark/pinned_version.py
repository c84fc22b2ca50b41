"""One version of a table, pinned on the driver and opened again by every task."""

from __future__ import annotations

import json
import re
from dataclasses import astuple, dataclass
from typing import Any

from lancefs.errors import MissingFile, NotALanceTable, RefNotFound
from lancefs.masking import mask_secrets
from lancefs.spark.folders import has_signs
from lancefs.spark.stores import open_place
from lancefs.spark.table_options import TableOptions
from lancefs.spark.worker_garbage import freeze_modules
from lancefs.storage import Store
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.base_paths import confine
from lancefs.table.open_version import OpenVersion, open_version
from lancefs.table.refs import Ref

# A path with a version, as `lancefs.open` takes it.
_VERSIONED = re.compile(r"(.*\.lance)/*@[^@/]*", re.DOTALL)
# Versions that a Python process keeps open: a worker runs many tasks on few tables.
_OPEN = 8
_VERSIONS: BudgetCache[Any, OpenVersion] = BudgetCache(_OPEN)


@dataclass(frozen=True, slots=True)
class Pinned:
    """One version of a table.

    Attributes:
        table: How the table is opened.
        version: The version.
        branch: The branch that it is on; None for the main one.
        committed: When it was committed, which tells it from one of the same number in a table that
            was written anew in the same place.
    """

    table: TableOptions
    version: int
    branch: str | None
    committed: str

    def __str__(self) -> str:
        return f"{mask_secrets(self.table.url)}@{Ref(version=self.version, branch=self.branch)}"

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells this version, opened in this way, from others."""
        table = json.dumps(astuple(self.table), default=str)
        return (table, self.version, self.branch, self.committed)

    def open(self) -> OpenVersion:
        """Open the version; a process does so once.

        Raises:
            MissingFile: The version is gone, or another table stands in its place.
            ReadFailed: The store refused or failed.
        """
        freeze_modules()
        return _VERSIONS.get(self.key, self._open, lambda _: 1)

    def _open(self) -> OpenVersion:
        try:
            found = open_table(self.table, Ref(version=self.version, branch=self.branch))
        except (RefNotFound, NotALanceTable) as error:
            raise MissingFile(
                f"{self}, which this query reads, is gone ({error}); run the query again for what "
                "is there now, and tag versions that must stay"
            ) from error
        committed = found.manifest.timestamp.isoformat()
        if committed != self.committed:
            raise MissingFile(
                f"{self}, which this query reads, is from {self.committed}; the table was written "
                f"anew meanwhile ({committed}): run the query again"
            )
        return found


def open_table(table: TableOptions, ref: Ref) -> OpenVersion:
    """Open the version that a ref names.

    Raises:
        LanceError: As `lancefs.open` says.
        ValueError: The storage options do not fit the store.
    """
    store = confine(Store(*open_place(table.url, table.storage)), table.base_rules)
    try:
        return open_version(store, ref, table.base_rules)
    except NotALanceTable:
        instead = _instead(mask_secrets(table.url))
        if instead is None:
            raise
        raise NotALanceTable(instead) from None


def _instead(url: str) -> str | None:
    """Say what to do in place of a path that `attach` or `lancefs.open` would take."""
    versioned = _VERSIONED.fullmatch(url)
    if versioned is not None:
        return (
            f"{url}: no table has this path; in Spark the version of {versioned[1]} is named by an "
            "option (version, tag, branch, asOf), or by the argument ref of lancefs.spark.table"
        )
    if not has_signs(url):
        return None
    return (
        f"{url}: no table has this path, and a DataFrame reads no pattern: "
        "lancefs.spark.attach(spark, pattern) makes a view of each table that matches, which "
        "UNION ALL or unionByName join"
    )


def pin(table: TableOptions, version: OpenVersion) -> Pinned:
    """Return what a task needs to open a version again."""
    committed = version.manifest.timestamp.isoformat()
    return Pinned(table, version.manifest.version, version.resolved.branch, committed)
