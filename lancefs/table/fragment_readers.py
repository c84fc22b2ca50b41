"""The readers of a version's fragments, made on first use and kept open for the next reader."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from lancefs.datafile.fields import Field
from lancefs.table.base_paths import TableFiles
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragments import Fragment

# Fragment readers that a version keeps open.
_OPEN = 256


class _OpenReaders:
    """Makes readers and keeps the most recently used ones."""

    def __init__(self, files: TableFiles, fields: Sequence[Field]) -> None:
        self._files = files
        self._fields = tuple(fields)
        self._readers: OrderedDict[int, FragmentReader] = OrderedDict()
        self._lock = threading.Lock()

    def reader(self, fragment: Fragment) -> FragmentReader:
        with self._lock:
            reader = self._readers.pop(fragment.id, None)
            if reader is None:
                reader = FragmentReader(self._files, fragment, self._fields)
            self._readers[fragment.id] = reader
            if len(self._readers) > _OPEN:
                self._readers.popitem(last=False)
            return reader


class FragmentReaders(Sequence[FragmentReader]):
    """A reader for each fragment; slices share the open readers.

    Args:
        files: Finds the files of the version.
        fragments: The fragments.
        fields: The columns of the table.
    """

    def __init__(
        self, files: TableFiles, fragments: Sequence[Fragment], fields: Sequence[Field]
    ) -> None:
        self._fragments = fragments
        self._open = _OpenReaders(files, fields)

    def __len__(self) -> int:
        return len(self._fragments)

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            return self._open.reader(self._fragments[index])
        part = FragmentReaders.__new__(FragmentReaders)
        part._fragments, part._open = self._fragments[index], self._open
        return part
