"""What the Spark tests share: all are slow, and most use one session."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import spark_support

MISSING = spark_support.missing()
if MISSING and os.environ.get("LANCEFS_SPARK") == "required":
    raise pytest.UsageError(f"the Spark tests must run here, but {MISSING}")
# Workers run the Python that runs the tests.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
# The dozens of Javas that tests start end before code of the second compiler pays off, and need not
# verify Spark's own classes: the two took half of their processor time.
os.environ.setdefault(
    "JDK_JAVA_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for mark in spark_support.MARKS:
                item.add_marker(mark)


@pytest.fixture(autouse=True, scope="session")
def spark_is_there() -> None:
    """Skip all that needs Spark where it is not."""
    if MISSING:
        pytest.skip(MISSING)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session on two local cores, in which the format is known."""
    import lancefs.spark

    with spark_support.session("local[2]", tmp_path_factory.mktemp("spark")) as found:
        lancefs.spark.register(found)
        yield found


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The table of four versions that `make_versions` describes, for tests that only read."""
    return spark_support.make_versions(tmp_path_factory.mktemp("versions") / "t.lance")
