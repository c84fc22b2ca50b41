"""The files of the tree: which version each file shows, which part of it, and in which format."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from functools import partial
from typing import Final, Literal, TypeAlias

import pyarrow as pa

from lancefs.forks import cached_property
from lancefs.table.refs import Ref
from lancefs.version import __version__
from lancefs.views.arrow.arrow_file import encode
from lancefs.views.arrow.arrow_stream import encode_stream
from lancefs.views.arrow.lazy_file import LazyFile
from lancefs.views.documents import document
from lancefs.views.open_tables import Selection, TableSession, ViewedVersion
from lancefs.views.view import Key, View, WholeView, known_size

# Everything that the bytes of a view depend on besides the version. Raise the number with any
# change to the bytes that are written: batches, IPC options, documents, corrected values.
LAYOUT = f"3, lancefs {__version__}, pyarrow {pa.__version__}"

FILE: Final = ".arrow"
STREAM: Final = ".arrows"

# The formats of files: Arrow IPC file, Arrow IPC stream, JSON document.
Form: TypeAlias = Literal[".arrow", ".arrows", ".json"]


class Handle:
    """A version of a table, named by a ref, that is opened at the first use.

    Args:
        table: The table.
        ref: The version.
    """

    def __init__(self, table: TableSession, ref: Ref) -> None:
        self.table = table
        self.ref = ref

    @cached_property
    def version(self) -> ViewedVersion:
        """The opened version; the first access raises as `TableSession.open` does."""
        return self.table.open(self.ref)

    @property
    def known_version(self) -> ViewedVersion | None:
        """The opened version, or None before the first access to `version`."""
        return self.__dict__.get("version")

    @property
    def fixed_name(self) -> str:
        """Path in the tree, without a suffix, that always means this version: `versions/7`."""
        branch = self.version.resolved.branch
        where = "" if branch is None else f"branches/{branch}/"
        return f"{where}versions/{self.version.manifest.version}"


class FileNode:
    """A file of the tree.

    Args:
        handle: The version that the file shows.
        name: The path after the version's name, in canonical spelling: `.arrow`,
            `/columns/a.arrow`, …
        form: The format of the file.
        selection: The part of the version that the file shows; everything by default.
    """

    def __init__(
        self, handle: Handle, name: str, form: Form, selection: Selection | None = None
    ) -> None:
        self.handle = handle
        self.name = name
        self.form = form
        self.selection = selection or Selection()

    @property
    def is_stream(self) -> bool:
        """Whether the file can only be read once, from the beginning to the end."""
        return self.form == STREAM

    @property
    def fixed_path(self) -> str:
        """Path in the tree that always means these bytes."""
        return self.handle.fixed_name + self.name

    @property
    def digest(self) -> str:
        """Identity of the bytes: a SHA-256 over the version, the path, and the releases.

        Other releases of lancefs or pyarrow may write other bytes.
        """
        parts = (LAYOUT, self.handle.version.identity, self.name)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def known_size(self) -> int | None:
        """Return the size in bytes if it is cached, else None. Nothing is read."""
        if self.is_stream or self.handle.known_version is None:
            return None
        return known_size(self._key())

    def view(self) -> View:
        """Return the bytes of a file that is not a stream. Values are read on demand."""
        if self.form == ".json":
            return WholeView(self._key(), partial(document, self.name[1:], self.handle.version))
        version, selection = self.handle.version, self.selection
        if not version.can_be_laid_out(selection):
            return WholeView(self._key(), lambda: encode(*version.rows(selection)))
        table = self.handle.table
        sharer = table.sharer, table.url
        return LazyFile(
            self._key(),
            version.schema(selection),
            partial(version.measures, sharer, selection),
            table.layouts,
        )

    def stream(self) -> Generator[memoryview, None, None]:
        """Return the bytes of a stream. They are read as they are taken."""
        return encode_stream(*self.handle.version.rows(self.selection))

    def _key(self) -> Key:
        table = self.handle.table
        return table.sharer, table.url, self.digest
