"""Spark's daemon of Python processes, which has imported what lancefs reads with.

Spark forks its Python processes from a daemon that has imported little, so that each imports
PySpark's worker, pyarrow and lancefs anew: the most of a small query. It lets go of a process that
was idle for a minute, and of one whose query was content with some of its rows (`LIMIT`, `show`).
A session with `spark.python.daemon.module` = `lancefs.spark.daemon` has this daemon instead.
"""

from __future__ import annotations

import gc

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import lancefs.spark.column_reader
import lancefs.spark.data_source
import lancefs.spark.task_rows  # noqa: F401

if __name__ == "__main__":
    gc.freeze()  # what is imported is not looked at between tasks, and stays shared with the forks
    manager()
