"""Index files written anew with other values, as damage or a faulty writer may leave them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from lance.file import LanceFileReader, LanceFileWriter

import lancefs


def index_file(table: Path, index: str, name: str) -> Path:
    """The path of a file of the first segment of an index."""
    (segment, *_) = [one for one in lancefs.open(table).indices() if one.name == index]
    return table / "_indices" / segment.uuid / name


def rewrite(file: Path, change: Callable[[pa.Table], pa.Table], keeps_types: bool = True) -> None:
    """Write an index file anew, changed; its columns keep their types, unless told otherwise."""
    reader = LanceFileReader(str(file))
    schema = reader.metadata().schema
    changed = change(reader.read_all().to_table())
    if keeps_types:
        changed = changed.cast(schema)
    schema = changed.schema.with_metadata(schema.metadata)
    file.unlink()
    with LanceFileWriter(str(file), schema, version="2.1") as writer:
        writer.write_batch(changed)
