"""The files of the tree: which version each shows, and which part of it."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from functools import cached_property, partial
from typing import Final, Literal, TypeAlias

import pyarrow as pa

from lancefs.table.refs import Ref
from lancefs.version import __version__
from lancefs.views.arrow.arrow_file import encode
from lancefs.views.arrow.arrow_stream import encode_stream
from lancefs.views.arrow.lazy_file import LazyFile
from lancefs.views.documents import document
from lancefs.views.file_objects import ForwardFile
from lancefs.views.open_tables import Selection, Table, Version
from lancefs.views.view import Key, View, WholeView, known_size
from lancefs.views.view_batches import BATCH_ROWS

# What the bytes of a view depend on besides the version. The number is raised by whoever changes
# what is written: batches, options, documents, or values that were wrong before.
LAYOUT = f"3, lancefs {__version__}, pyarrow {pa.__version__}"

FILE: Final = ".arrow"
STREAM: Final = ".arrows"

Form: TypeAlias = Literal[".arrow", ".arrows", ".json"]


class Handle:
    """A version, by the name that it has in the tree.

    Args:
        table: The table.
        ref: Which version.
    """

    def __init__(self, table: Table, ref: Ref) -> None:
        self.table = table
        self.ref = ref

    @property
    def is_fixed(self) -> bool:
        """Whether the name will always mean this version."""
        return self.ref.version is not None

    @cached_property
    def version(self) -> Version:
        """The version, opened; raises as `Table.open` does."""
        return self.table.open(self.ref)

    @property
    def known_version(self) -> Version | None:
        """The version, where it is open already."""
        return self.__dict__.get("version")

    @property
    def fixed_name(self) -> str:
        """The path in the tree, without an ending, that will always mean this version."""
        branch = self.version.resolved.branch
        where = "" if branch is None else f"branches/{branch}/"
        return f"{where}versions/{self.version.manifest.version}"


class Leaf:
    """A file of the tree.

    Args:
        handle: The version that it shows.
        name: The rest of its path, as it is written in listings: `.arrow`, `/columns/a.arrow`, …
        form: What it is.
        selection: What part of the version it shows.
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
        """Whether it can only be read from the beginning to the end."""
        return self.form == STREAM

    @property
    def fixed_path(self) -> str:
        """The path in the tree that will always mean these bytes."""
        return self.handle.fixed_name + self.name

    @property
    def digest(self) -> str:
        """What tells these bytes from all others, also from those of another release."""
        parts = (LAYOUT, self.handle.version.identity, self.name)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def known_size(self) -> int | None:
        """The size in bytes where that is known without reading anything."""
        if self.is_stream or self.handle.known_version is None:
            return None
        return known_size(self._key())

    def view(self) -> View:
        """Return the bytes, for a file that is not a stream."""
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

    def stream(self, path: str) -> ForwardFile:
        """Open a stream.

        Args:
            path: What it is called.
        """
        return ForwardFile(encode_stream(*self.handle.version.rows(self.selection)), path)

    def _key(self) -> Key:

        table = self.handle.table
        return table.sharer, table.url, self.digest


class WholeLeaf(Leaf, ABC):
    """A file of rows that are made all at once, in memory."""

    @abstractmethod
    def rows(self) -> pa.Table:
        """Make the rows."""

    def view(self) -> View:
        """Return the bytes, for a file that is not a stream."""
        return WholeView(self._key(), lambda: encode(*self._batches()))

    def stream(self, path: str) -> ForwardFile:
        """Open a stream.

        Args:
            path: What it is called.
        """
        return ForwardFile(encode_stream(*self._batches()), path)

    def _batches(self) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        rows = self.rows()
        return rows.schema, rows.combine_chunks().to_batches(BATCH_ROWS)
