"""What Spark needs on a machine, and what to do where it is not there."""

from __future__ import annotations

import os
import re
import shutil

OLDEST_PYSPARK = (4, 1)
OLDEST_JAVA = 17


def require_pyspark() -> None:
    """See that a PySpark is there that has what the data source needs.

    Raises:
        ImportError: It is missing or too old; the message says how to install it.
    """
    try:
        import pyspark
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise ImportError(
            "lancefs.spark needs PySpark 4.1 or newer, which is not installed: "
            "pip install 'lancefs[spark]'"
        ) from None
    numbers = re.findall(r"\d+", pyspark.__version__)[:2]
    if tuple(map(int, numbers)) < OLDEST_PYSPARK:
        raise ImportError(
            f"lancefs.spark needs PySpark 4.1 or newer, this is {pyspark.__version__}: "
            "pip install --upgrade 'lancefs[spark]'"
        )


def require_java() -> None:
    """See that a Java is there to start Spark with.

    Raises:
        RuntimeError: There is none; the message says what to install.
    """
    home = os.environ.get("JAVA_HOME")
    if home and not shutil.which("java", path=os.path.join(home, "bin")):
        raise RuntimeError(
            f"Spark needs a Java, and JAVA_HOME is {home}, where there is no bin/java: point it to "
            f"a JDK {OLDEST_JAVA}"
        )
    if not home and not shutil.which("java"):
        raise RuntimeError(
            f"Spark needs a Java, and there is none on the PATH: install a JDK {OLDEST_JAVA} (for "
            f"instance the package openjdk-{OLDEST_JAVA}-jre-headless), or set JAVA_HOME"
        )


def no_gateway() -> RuntimeError:
    """Return the error for a Java that ended before Spark began; it has said why on stderr."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    return RuntimeError(
        f"{java} ended before Spark began (what it said is above, if anything): Spark needs a JDK "
        f"{OLDEST_JAVA} or newer, so see what '{java} -version' says, and set JAVA_HOME to another"
    )
