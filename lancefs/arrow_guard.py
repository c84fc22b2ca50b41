"""What pyarrow's C++ sees of a Lance dataset: a dataset that refuses to be read, with a reason.

pyarrow's own functions reach through a dataset object for a C++ dataset behind it. Where there is
none they crash the process. So a Lance dataset has one: a union of one child, whose only file
raises an error that says what to do.
"""

from __future__ import annotations

import atexit
import time
from functools import cache
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.arrow_dataset import pads

# Shows up in pyarrow's own messages where it looks for a column of the table.
_COLUMN = "call_methods_of_the_LanceDataset_instead"
_ADVICE = (
    "this pyarrow function scans datasets in C++ and cannot read a Lance table; give it the "
    "result of dataset.to_table(...), dataset.to_reader(...) or dataset.scanner(...).to_reader()"
)


# Seconds that Arrow's threads have at the end to drop the errors that they raised.
_SETTLE = 0.1


@cache
def _settle_at_the_end() -> None:
    """Have the interpreter wait, once it ends, for the threads of Arrow that were refused.

    Such a thread still drops the error, a Python object, when its caller has it already. If the
    interpreter is taken down meanwhile, it ends the thread, at which C++ aborts the process.
    """
    atexit.register(time.sleep, _SETTLE)


@cache
def refusing_child() -> pads.Dataset:
    """Return the C++ dataset that stands behind every Lance dataset."""
    import pyarrow.fs as pafs

    class RefusingHandler(pafs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
        """A filesystem of which no file can be opened."""

        def get_type_name(self) -> str:
            return "lance"

        def normalize_path(self, path: str) -> str:
            return path

        def __eq__(self, other: object) -> bool:
            return isinstance(other, RefusingHandler)

        def __ne__(self, other: object) -> bool:
            return not self == other

        def __hash__(self) -> int:
            return hash(RefusingHandler)

        def _refuse(self, *_: Any) -> NoReturn:
            _settle_at_the_end()
            raise TypeError(_ADVICE)

        open_input_stream = open_input_file = open_output_stream = open_append_stream = _refuse
        get_file_info = get_file_info_selector = _refuse
        create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
        delete_file = move = copy_file = _refuse

    filesystem = pafs.PyFileSystem(RefusingHandler())
    form = pads.IpcFileFormat()
    fragment = form.make_fragment("lance", filesystem)
    schema = pa.schema([pa.field(_COLUMN, pa.null())])
    return pads.FileSystemDataset([fragment], schema, form, filesystem)


class GuardedDataset(pads.UnionDataset):  # type: ignore[misc]  # pyarrow has no types
    """The base of a Lance dataset: each inherited method that would read in C++ is overridden here.

    The others, such as `scanner` and `to_table`, are those of the dataset.
    """

    def __init__(self) -> None:
        child = refusing_child()
        super().__init__(child.schema, [child])

    @property
    def children(self) -> list[pads.Dataset]:
        """The datasets that a union joins: none, this is one table."""
        return []

    @property
    def partition_expression(self) -> pc.Expression:
        """An expression that is true for all rows: `true`, since nothing else is known."""
        return pc.scalar(True)

    def replace_schema(self, schema: pa.Schema) -> pads.Dataset:
        """Read all rows into memory, and return them with another schema as a dataset."""
        return self._in_memory().replace_schema(schema)

    def sort_by(self, sorting: str | list[tuple[str, str]], **kwargs: Any) -> pads.Dataset:
        """Read all rows into memory, and return them sorted as a dataset."""
        return self._in_memory().sort_by(sorting, **kwargs)

    def join(self, right_dataset: pads.Dataset, *args: Any, **kwargs: Any) -> pads.Dataset:
        """Join in memory; arguments as for `pyarrow.dataset.Dataset.join`."""
        return self._in_memory().join(_readable(right_dataset), *args, **kwargs)

    def join_asof(self, right_dataset: pads.Dataset, *args: Any, **kwargs: Any) -> pads.Dataset:
        """Join as of in memory; arguments as for `pyarrow.dataset.Dataset.join_asof`."""
        return self._in_memory().join_asof(_readable(right_dataset), *args, **kwargs)

    def _in_memory(self) -> pads.InMemoryDataset:
        return pads.InMemoryDataset(self.to_table())


def _readable(dataset: pads.Dataset) -> pads.Dataset:
    """Return a dataset that pyarrow's C++ can read."""
    return dataset._in_memory() if isinstance(dataset, GuardedDataset) else dataset
