"""Objects on their way to Spark's workers.

Spark pickles what a task needs and unpickles it in Python processes on other machines. Where one
of them has no lancefs, the unpickling alone would say `No module named 'lancefs'` and leave it to
the user to find out which machine, which Python and what to do; and another release may take for
something else what is shipped. So it is rebuilt by a function that travels by value and says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark import cloudpickle

from lancefs.version import __version__

Shipped: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]


def ship(owner: Callable[..., Any], *arguments: Any) -> Shipped:
    """Return what `__reduce__` wants, for an object that `owner(*arguments)` makes.

    Args:
        owner: A class or function at the top of a module.
        *arguments: What to call it with.
    """
    package = Path(__file__).parents[2]
    shipped = str(package) if package.is_file() else None  # a zip, of `addPyFile` or `addArtifacts`
    pickled = cloudpickle.dumps(arguments)
    return rebuild, (owner.__module__, owner.__qualname__, pickled, __version__, shipped)


def rebuild(module, name, pickled, release, shipped=None):  # type: ignore[no-untyped-def]
    """Call `name` of `module`, or say who lacks lancefs, or this release. Travels by value."""
    # Nothing of this module is there when this runs, not even for annotations: it may use only what
    # every Python has. So the arguments, of classes of lancefs, are unpickled when that is known to
    # be there.
    import os
    import pickle
    import socket
    import sys
    from importlib import import_module

    # A process that plans a stream is beside the one that shipped to it, but Spark tells it another
    # place for shipped files (4.1 to 4.3: `streaming_job` in its `PythonStreamingSourceRunner`).
    if shipped is not None and shipped not in sys.path and os.path.exists(shipped):
        sys.path.append(shipped)
    python = f"{sys.executable} on {socket.gethostname()}, which Spark uses, has"
    try:
        found = import_module("lancefs.version").__version__
        if found != release:
            raise ImportError(
                f"{python} lancefs {found}, and the driver has {release}: install the same release "
                "on the driver and on every worker"
            )
        owner, arguments = getattr(import_module(module), name), pickle.loads(pickled)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{python} no module {error.name!r}: install lancefs there (pip install "
            "'lancefs[spark]'), on the driver and on every worker, or name a Python that has it in "
            "PYSPARK_PYTHON (spark.pyspark.python)"
        ) from None
    return owner(*arguments)


# Functions of `__main__` are pickled by value. (Annotations would be shipped along, hence none.)
rebuild.__module__ = "__main__"


def task(owner: Callable[..., Any], *arguments: Any) -> Callable[[Any], Any]:
    """Return a function for `DataFrame.mapInArrow`, which travels by value.

    Args:
        owner: A function at the top of a module: of these arguments it makes one that takes the
            number of a piece of work, and returns what JSON can say.
        *arguments: As for `ship`.
    """
    return batches_of(_telling, owner, arguments)


def _telling(
    owner: Callable[..., Any], arguments: tuple[Any, ...]
) -> Callable[[int], Iterator[pa.RecordBatch]]:
    """Return what a worker does for `task`: yield the JSON as a batch of one row."""
    work = owner(*arguments)

    def tell(number: int) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([json.dumps(work(number))])], names=["result"])

    return tell


def batches_of(owner: Callable[..., Any], *arguments: Any) -> Callable[[Any], Any]:
    """Return a function for `DataFrame.mapInArrow`, which travels by value.

    Args:
        owner: A function at the top of a module: of these arguments it makes one that takes the
            number of a piece of work, and yields Arrow batches.
        *arguments: As for `ship`.
    """
    make, arguments = ship(owner, *arguments)

    def run(numbers):  # type: ignore[no-untyped-def]
        read = make(*arguments)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from read(number)

    return run


def function(owner: Callable[..., Any], *arguments: Any) -> Callable[[Any], Any]:
    """Return a function for `arrow_udf`, which travels by value.

    Args:
        owner: A function at the top of a module: of these arguments it makes one that takes
            arrays, and returns one.
        *arguments: As for `ship`.
    """
    make, arguments = ship(owner, *arguments)
    made: list[Any] = []  # on the worker, which unpickles this function once for each task

    def run(*arrays):  # type: ignore[no-untyped-def]
        if not made:
            made.append(make(*arguments))
        return made[0](*arrays)

    return run
