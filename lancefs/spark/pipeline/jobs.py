"""Running pieces of work in Spark, with their progress shown."""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from lancefs.printable import get_logger
from lancefs.spark.session import explained
from lancefs.spark.shipping import task

logger = get_logger("lancefs.spark")

# More tasks than this make Spark itself slow; pieces then share tasks.
_MOST_TASKS = 20_000
_SECONDS = 1.0  # between looks at the progress


def run_pieces(
    spark: SparkSession,
    what: str,
    count: int,
    owner: Callable[..., Callable[[int], str]],
    *arguments: Any,
) -> list[str]:
    """Do pieces of work in parallel, each in a task of its own unless there are very many.

    Args:
        spark: The session.
        what: What is done, for the progress.
        count: How many pieces there are.
        owner: A function at the top of a module: of the arguments it makes one that takes the
            number of a piece and returns a text.
        *arguments: What travels to the workers.

    Returns:
        The texts, in no particular order.

    Raises:
        LanceError: What a piece raised.
    """
    if not count:
        return []
    pieces = spark.range(0, count, 1, min(count, _MOST_TASKS))
    results = pieces.mapInArrow(task(owner, *arguments), "result string")
    with _progress(spark, what, min(count, _MOST_TASKS)), explained():
        return [row[0] for row in results.collect()]


@contextmanager
def _progress(spark: SparkSession, what: str, tasks: int) -> Iterator[None]:
    """Say from time to time how many tasks are done, while a job runs."""
    context, group = spark.sparkContext, f"lancefs-{uuid.uuid4()}"
    context.setJobGroup(group, f"lancefs: {what}", interruptOnCancel=True)
    done, began = threading.Event(), time.monotonic()
    watcher = threading.Thread(
        target=_watch, args=(context.statusTracker(), group, what, tasks, done), daemon=True
    )
    watcher.start()
    try:
        yield
    except KeyboardInterrupt:
        context.cancelJobGroup(group)
        raise
    finally:
        done.set()
        watcher.join()
        context.setLocalProperty("spark.jobGroup.id", None)
    logger.info("%s: %d tasks in %.1f s", what, tasks, time.monotonic() - began)


def _watch(tracker: Any, group: str, what: str, tasks: int, done: threading.Event) -> None:
    began, is_terminal, shown = time.monotonic(), sys.stderr.isatty(), -1
    while not done.wait(_SECONDS):
        finished = 0
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            stages = [tracker.getStageInfo(stage) for stage in info.stageIds] if info else []
            finished += sum(stage.numCompletedTasks for stage in stages if stage)
        if finished != shown:
            shown = finished
            seconds = time.monotonic() - began
            end = "\r" if is_terminal else "\n"
            line = f"{what}: {finished:,} of {tasks:,} tasks, {seconds:.0f} s"
            print(line, end=end, file=sys.stderr, flush=True)
    if is_terminal and shown >= 0:
        print(file=sys.stderr)
