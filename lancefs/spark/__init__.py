"""Lance tables in Spark: a data source, a stream over versions, and the data pipeline.

>>> import lancefs.spark
>>> lancefs.spark.register(spark)  # doctest: +SKIP
>>> spark.read.format("lancefs").option("version", 7).load("s3://b/t.lance")  # doctest: +SKIP

It needs PySpark 4.1 or newer, with lancefs installed beside it on the driver and on every worker.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lancefs.spark.requirements import require_pyspark

require_pyspark()

if TYPE_CHECKING:
    from lancefs.spark.attached import Attached, attach
    from lancefs.spark.data_source import LanceDataSource
    from lancefs.spark.lazy_table import table
    from lancefs.spark.pipeline.delta import publish_delta
    from lancefs.spark.pipeline.destination import open_materialized
    from lancefs.spark.pipeline.many import materialize_all, verify_all
    from lancefs.spark.pipeline.materialize import materialize
    from lancefs.spark.pipeline.output_check import verify_output
    from lancefs.spark.pipeline.verify_job import verify
    from lancefs.spark.session import read, register

__all__ = [
    "Attached",
    "LanceDataSource",
    "attach",
    "materialize",
    "materialize_all",
    "open_materialized",
    "publish_delta",
    "read",
    "register",
    "table",
    "verify",
    "verify_all",
    "verify_output",
]

_HOMES = {
    "Attached": "lancefs.spark.attached",
    "attach": "lancefs.spark.attached",
    "LanceDataSource": "lancefs.spark.data_source",
    "materialize": "lancefs.spark.pipeline.materialize",
    "materialize_all": "lancefs.spark.pipeline.many",
    "publish_delta": "lancefs.spark.pipeline.delta",
    "open_materialized": "lancefs.spark.pipeline.destination",
    "read": "lancefs.spark.session",
    "register": "lancefs.spark.session",
    "table": "lancefs.spark.lazy_table",
    "verify": "lancefs.spark.pipeline.verify_job",
    "verify_all": "lancefs.spark.pipeline.many",
    "verify_output": "lancefs.spark.pipeline.output_check",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lancefs.spark' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
