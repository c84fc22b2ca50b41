"""Running tasks in Spark and showing their progress."""

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
from lancefs.spark.session import explained, is_remote
from lancefs.spark.shipping import task

logger = get_logger("lancefs.spark")

# More tasks than this make Spark itself slow; pieces then share tasks.
_MAX_TASKS = 20_000
_SECONDS = 1.0  # between looks at the progress
_LONG = 1 << 16  # rows of a range of which each core gets a part


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
    pieces = spark.range(0, count, 1, min(count, _MAX_TASKS))
    results = pieces.mapInArrow(task(owner, *arguments), "result string")
    with _progress(spark, what, min(count, _MAX_TASKS)), explained():
        return [row[0] for row in results.collect()]


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks a session runs at a time, as far as it says."""
    if not is_remote(spark):
        return int(spark.sparkContext.defaultParallelism)
    # Spark Connect does not say it, but cuts a range into as many parts.
    from pyspark.sql.functions import spark_partition_id

    return int(spark.range(_LONG).select(spark_partition_id()).distinct().count())


@contextmanager
def _progress(spark: SparkSession, what: str, tasks: int) -> Iterator[None]:
    """Say from time to time how many tasks are done, while a job runs."""
    began, shown = time.monotonic(), _Shown(what, tasks)
    try:
        with (_watched_remotely if is_remote(spark) else _watched)(spark, shown):
            yield
    finally:
        shown.end()
    logger.info("%s: %d tasks in %.1f s", what, tasks, time.monotonic() - began)


class _Shown:
    """A line that says how many tasks are done.

    Args:
        what: What is done.
        tasks: How many tasks there are.
    """

    def __init__(self, what: str, tasks: int) -> None:
        self.what = what
        self._tasks = tasks
        self._began = self._said = time.monotonic()
        self._done = -1
        self._is_terminal = sys.stderr.isatty()

    def show(self, done: int) -> None:
        """Say how many tasks are done, if that has changed, and not all the time."""
        now = time.monotonic()
        if done == self._done or now - self._said < _SECONDS:
            return
        self._done, self._said = done, now
        end = "\r" if self._is_terminal else "\n"
        line = f"{self.what}: {done:,} of {self._tasks:,} tasks, {now - self._began:.0f} s"
        print(line, end=end, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line."""
        if self._is_terminal and self._done >= 0:
            print(file=sys.stderr)


@contextmanager
def _watched(spark: SparkSession, shown: _Shown) -> Iterator[None]:
    """Show the progress of a job, and cancel it when the user interrupts."""
    context, group = spark.sparkContext, f"lancefs-{uuid.uuid4()}"
    context.setJobGroup(group, f"lancefs: {shown.what}", interruptOnCancel=True)
    done = threading.Event()
    watcher = threading.Thread(
        target=_watch, args=(context.statusTracker(), group, shown, done), daemon=True
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


def _watch(tracker: Any, group: str, shown: _Shown, done: threading.Event) -> None:
    while not done.wait(_SECONDS):
        finished = 0
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            stages = [tracker.getStageInfo(stage) for stage in info.stageIds] if info else []
            finished += sum(stage.numCompletedTasks for stage in stages if stage)
        shown.show(finished)


@contextmanager
def _watched_remotely(spark: SparkSession, shown: _Shown) -> Iterator[None]:
    """Watch a job that runs by Spark Connect."""
    tag = f"lancefs-{uuid.uuid4()}"

    def watch(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        shown.show(sum(stage.num_completed_tasks for stage in stages or ()))

    spark.addTag(tag)
    spark.registerProgressHandler(watch)
    try:
        yield
    except KeyboardInterrupt:
        spark.interruptTag(tag)
        raise
    finally:
        spark.removeProgressHandler(watch)
        spark.removeTag(tag)
