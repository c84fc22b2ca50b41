"""`lancefs.spark.attach`: the tables of a folder as views of a session, for SQL."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lancefs.spark.folders import find_tables
from lancefs.spark.lazy_table import table
from lancefs.spark.pinned_version import open_table
from lancefs.spark.session import quoted
from lancefs.spark.stores import absolute
from lancefs.spark.table_options import Nanoseconds, TableOptions, Unsupported
from lancefs.table.refs import Ref, make_ref


class Attached:
    """The tables of a folder, each a temporary view that is called as its folder, without `.lance`.

    A view shows one version until `refresh` or `sql` is called: queries of one report concern one
    state.

    Args:
        spark: The session.
        folder: The folder.
        ref: The version of each table.
        nanoseconds: As for `table`.
        unsupported: As for `table`.
        storage_options: For fsspec, such as credentials.

    Raises:
        NotALanceTable: There is no table in the folder.
        LanceError: A table cannot be opened.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: str | os.PathLike[str],
        ref: Ref,
        nanoseconds: Nanoseconds,
        unsupported: Unsupported,
        storage_options: Mapping[str, Any],
    ) -> None:
        self._spark = spark
        self._folder = absolute(folder)
        self._ref = ref
        self._nanoseconds = nanoseconds
        self._unsupported = unsupported
        self._storage = dict(storage_options)
        self._urls: dict[str, str] = {}
        self._shown: dict[str, tuple[Ref, str]] = {}  # what the views show, and when it was made
        self.refresh()

    def __repr__(self) -> str:
        return f"Attached({', '.join(self.names)})"

    @property
    def names(self) -> list[str]:
        """The names of the views, sorted."""
        return sorted(self._shown)

    def refresh(self) -> list[str]:
        """Let the views show what is there now; tables that are new get views, gone ones lose them.

        Returns:
            The names of the views that changed.

        Raises:
            NotALanceTable: There is no table in the folder any more.
            LanceError: A table cannot be opened.
        """
        found, changed = find_tables(self._folder, self._storage), []
        for name in sorted(self._shown.keys() - found.keys()):
            self._spark.catalog.dropTempView(name)
            del self._shown[name]
            changed.append(name)
        self._urls = found
        for name, url in found.items():
            version = open_table(TableOptions(url, self._storage), self._ref)
            exact = Ref(version=version.manifest.version, branch=version.resolved.branch)
            shown = exact, version.manifest.timestamp.isoformat()
            if self._shown.get(name) != shown:
                self._view(name, name, exact)
                self._shown[name] = shown
                changed.append(name)
        return changed

    def sql(self, query: str) -> DataFrame:
        """Refresh the views, then run a query: it sees the tables as they are now.

        Args:
            query: In Spark's SQL.

        Raises:
            NotALanceTable: There is no table in the folder any more.
            LanceError: A table cannot be opened.
        """
        self.refresh()
        return self._spark.sql(query)

    def at(self, name: str, ref: Ref | int | str | date, view: str | None = None) -> str:
        """Make a view of another version of a table.

        Args:
            name: The table.
            ref: The version: a number, a tag, `exp:3`, or a time.
            view: The name of the view; by default `name@ref`, which SQL quotes with backticks.

        Returns:
            The name of the view.

        Raises:
            ValueError: No such table is attached.
            LanceError: The version cannot be opened.
        """
        if name not in self._shown:
            raise ValueError(f"{self._folder} has no table {name!r}; it has {self.names}")
        said = ref.isoformat() if isinstance(ref, date) else ref
        return self._view(f"{name}@{said}" if view is None else view, name, make_ref(ref=ref))

    def _view(self, view: str, name: str, ref: Ref) -> str:
        frame = table(
            self._spark, self._urls[name], ref, nanoseconds=self._nanoseconds,
            unsupported=self._unsupported, storage_options=self._storage,
        )  # fmt: skip
        frame.createOrReplaceTempView(quoted(view))
        return view


def attach(
    spark: SparkSession,
    folder: str | os.PathLike[str],
    ref: Ref | int | str | date | None = None,
    *,
    nanoseconds: Nanoseconds = "error",
    unsupported: Unsupported = "error",
    storage_options: Mapping[str, Any] | None = None,
) -> Attached:
    """Make a temporary view of each table in a folder.

    Args:
        spark: The session.
        folder: The folder, in which tables are folders called `….lance`; or a pattern that such
            folders match, like `lake/*/o*.lance`, of which views are called `eu/orders`.
        ref: The version of each table, for instance a tag or a time; the newest by default.
        nanoseconds: What becomes of nanoseconds: `error`, `long` or `truncate`.
        unsupported: What becomes of columns that Spark has no type for: `error`, `string` or
            `skip`.
        storage_options: For fsspec, such as credentials.

    Raises:
        NotALanceTable: There is no table in the folder.
        LanceError: A table cannot be opened.
    """
    wanted = make_ref(ref=ref)
    return Attached(spark, folder, wanted, nanoseconds, unsupported, storage_options or {})
