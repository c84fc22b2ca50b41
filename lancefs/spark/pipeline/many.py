"""Materialising many tables: those of a folder, or those that a pattern matches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from lancefs.errors import LanceError
from lancefs.printable import get_logger
from lancefs.spark.folders import find_tables
from lancefs.spark.pipeline.destination import Materialized
from lancefs.spark.pipeline.materialize import materialize

logger = get_logger("lancefs.spark")


def materialize_all(
    spark: SparkSession,
    sources: str,
    destination: str,
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
    done: dict[str, Materialized] = {}
    failed: dict[str, str] = {}
    tables = find_tables(sources, storage_options or {})
    for name, url in tables.items():
        try:
            done[name] = materialize(
                spark, url, f"{destination.rstrip('/')}/{name}",
                storage_options=storage_options, **how,
            )  # fmt: skip
        except (LanceError, ValueError) as error:
            logger.warning("%s failed: %s", name, error)
            failed[name] = str(error)
    if failed:
        reasons = "; ".join(f"{name} ({reason})" for name, reason in failed.items())
        raise LanceError(f"{len(failed)} of {len(tables)} tables were not written: {reasons}")
    return done
