"""The pipeline for many tables: those of a folder, or those that a pattern matches."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from lancefs.errors import LanceError
from lancefs.printable import get_logger
from lancefs.spark.folders import find_tables
from lancefs.spark.pipeline.destination import Materialized
from lancefs.spark.pipeline.materialize import materialize
from lancefs.spark.pipeline.verify_job import Report, verify

logger = get_logger("lancefs.spark")

T = TypeVar("T")


def materialize_all(
    spark: SparkSession,
    sources: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
    **how: Any,
) -> dict[str, Materialized]:
    """Write tables as files, one after the other, each into a folder that is called as it is.

    A table that fails keeps the others from nothing: the error comes when all are done.

    Args:
        spark: Where the work is done.
        sources: A folder of tables, or a pattern: `lake/*.lance`, `lake/*/orders.lance`.
        destination: A directory on any store. The table `lake/eu/orders.lance` goes to `orders`
            below it, and with the pattern `lake/*/orders.lance` to `eu/orders`.
        storage_options: For the tables' store.
        **how: Arguments of `materialize`, the same for each table.

    Returns:
        What is there now, by the names of the tables.

    Raises:
        NotALanceTable: There is no table.
        LanceError: Tables could not be written; the message names them, and the reasons.
    """

    def write(name: str, url: str) -> Materialized:
        to = f"{os.fspath(destination).rstrip('/')}/{name}"
        return materialize(spark, url, to, storage_options=storage_options, **how)

    return _with_each(find_tables(sources, storage_options or {}), write, "written")


def verify_all(
    spark: SparkSession,
    sources: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
    **how: Any,
) -> dict[str, Report]:
    """Decode every value of many tables, one after the other.

    Args:
        spark: Where the work is done.
        sources: A folder of tables, or a pattern, as for `materialize_all`.
        storage_options: For the tables' store.
        **how: Arguments of `verify`, the same for each table.

    Returns:
        What was found, by the names of the tables.

    Raises:
        NotALanceTable: There is no table.
        LanceError: Tables could not be opened; the message names them, and the reasons. The others
            were verified, and problems of them logged.
    """

    def check(name: str, url: str) -> Report:
        report = verify(spark, url, storage_options=storage_options, **how)
        for problem in report.problems:
            logger.warning("%s, fragment %d: %s", name, problem.fragment, problem.message)
        return report

    return _with_each(find_tables(sources, storage_options or {}), check, "verified")


def _with_each(tables: Mapping[str, str], work: Callable[[str, str], T], done: str) -> dict[str, T]:
    """Do the same with each table; the error of those that fail comes at the end."""
    results: dict[str, T] = {}
    failed: dict[str, str] = {}
    for name, url in tables.items():
        try:
            results[name] = work(name, url)
        except (LanceError, ValueError) as error:
            logger.warning("%s failed: %s", name, error)
            failed[name] = str(error)
    if failed:
        reasons = "; ".join(f"{name} ({reason})" for name, reason in failed.items())
        raise LanceError(f"{len(failed)} of {len(tables)} tables were not {done}: {reasons}")
    return results
