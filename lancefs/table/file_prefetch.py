"""Opening the files of a remote table together or in the background, before they are read.

A read opens files where it needs them. Behind a network, the deletion file of a fragment would be
one round of requests, and each of its data files another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import call

from lancefs.datafile.fields import Field
from lancefs.storage import prefetch
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragments import DataFile
from lancefs.table.open_version import OpenVersion
from lancefs.threads import Threads, submit

# Fragments whose files are opened together: what was fetched of them is in memory meanwhile.
_FRAGMENTS = 64
# Fragments, and files of these with deletion files included, that are opened in the background at
# most: the last 64 KiB of each data file are read.
_FEW_FRAGMENTS, _FEW_FILES = 8, 16


def open_together(readers: Sequence[FragmentReader], fields: Sequence[Field]) -> None:
    """Open what reads of live rows need of some fragments; nothing where the table is local.

    Args:
        readers: Readers of the fragments, all of one table.
        fields: The columns that will be read.

    Raises:
        MissingFile: A file is gone.
        CorruptFile: The footer of a data file, or a deletion file, is damaged.
        UnsupportedFeature: A data file has a format that this release does not read.
        ReadFailed: The store refused or failed.
    """
    if not readers or readers[0].is_local:
        return
    for start in range(0, len(readers), _FRAGMENTS):
        _open_some(readers[start : start + _FRAGMENTS], fields)


def _open_some(readers: Sequence[FragmentReader], fields: Sequence[Field]) -> None:
    if len(readers) == 1:  # parts of which several threads may read
        with readers[0].lock:
            closed, unread = _fetch(readers, fields)
    else:
        closed, unread = _fetch(readers, fields)
    for each, file in closed:
        each.open_file(file)
    for each in unread:
        _ = each.deleted


def _fetch(
    readers: Sequence[FragmentReader], fields: Sequence[Field]
) -> tuple[list[tuple[FragmentReader, DataFile]], list[FragmentReader]]:
    """Fetch what opening the files takes.

    Returns:
        The data files to open, each with the fragment that it is of; and the fragments whose
        deletions are not read.
    """
    closed = [(each, file) for each in readers for file in each.closed_data_files(fields)]
    unread = [each for each in readers if each.lacks_deletions]
    prefetch(
        [each.file(file) for each, file in closed],
        [each.files.deletion_file(each.fragment) for each in unread],
    )
    return closed, unread


@contextmanager
def opening_files(version: OpenVersion) -> Iterator[None]:
    """Open the files of a small remote table in the meantime.

    The rows that indices name lie in some of them, and are read a round of requests earlier. A
    file that cannot be opened fails the read that needs it, which opens it again.

    Args:
        version: The version; nothing is opened of a local or a large one.
    """
    closed = _closed_files(version)
    if not 0 < len(closed) <= _FEW_FILES:
        yield
        return
    with Threads(len(closed), "lancefs-open") as pool:
        for open_one in closed:
            submit(pool, call, open_one)
        yield


def _closed_files(version: OpenVersion) -> list[Callable[[], object]]:
    readers = version.readers
    if version.files.store.is_local or len(readers) > _FEW_FRAGMENTS:
        return []
    return [open_one for reader in readers for open_one in reader.closed_files()]
