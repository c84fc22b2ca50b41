"""Running tasks in Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from lancefs.printable import get_logger
from lancefs.spark.session import explained, is_remote
from lancefs.spark.shipping import task

logger = get_logger("lancefs.spark")

# More tasks than this make Spark itself slow; pieces then share tasks.
_MAX_TASKS = 20_000
_LONG = 1 << 16  # rows of a range of which each core gets a part


def run_pieces(
    spark: SparkSession,
    what: str,
    count: int,
    owner: Callable[..., Callable[[int], Any]],
    *arguments: Any,
) -> list[Any]:
    """Do pieces of work in parallel, each in a task of its own unless there are very many.

    Args:
        spark: The session.
        what: What is done, for the log.
        count: How many pieces there are.
        owner: A function at the top of a module: of the arguments it makes one that takes the
            number of a piece and returns what JSON can say.
        *arguments: What travels to the workers.

    Returns:
        What they return, in no particular order.

    Raises:
        LanceError: What a piece raised.
    """
    if not count:
        return []
    began, tasks = time.monotonic(), min(count, _MAX_TASKS)
    pieces = spark.range(0, count, 1, tasks)
    results = pieces.mapInArrow(task(owner, *arguments), "result string")
    with explained():
        found = [json.loads(row[0]) for row in results.collect()]
    logger.info("%s: %d tasks in %.1f s", what, tasks, time.monotonic() - began)
    return found


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks a session runs at a time, as far as it says."""
    if not is_remote(spark):
        return int(spark.sparkContext.defaultParallelism)
    # Spark Connect does not say it, but cuts a range into as many parts.
    from pyspark.sql.functions import spark_partition_id

    return int(spark.range(_LONG).select(spark_partition_id()).distinct().count())
