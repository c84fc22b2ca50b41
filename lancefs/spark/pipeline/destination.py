"""What was materialized: the small manifest at a destination, and reading by it.

    _lancefs.json          which version is complete, and which files make it up
    _lineage.jsonl         where the rows of each of these files came from, for people and programs
    data/…                 the files
    _progress/…            what an unfinished run has done so far, one note a piece

The manifest is replaced in one step when all files of a version are there. So whoever reads by it
sees one whole version; the files of the version before stay until the next run ends, for those who
are still reading them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lancefs.arrow_dataset import pads
from lancefs.errors import CorruptFile, NotALanceTable, UnsupportedFeature
from lancefs.spark.pipeline.output_files import Files
from lancefs.spark.spark_types import spark_schema, with_intervals

MANIFEST = "_lancefs.json"
LINEAGE = "_lineage.jsonl"
DATA = "data"
PROGRESS = "_progress"
_FORMAT = 2
# About how large files become, unless the caller says otherwise.
TARGET_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Part:
    """A file that was written.

    Attributes:
        path: Its path below the destination.
        rows: Its number of rows.
        size: Its size in bytes.
        checksum: The checksum of its bytes, as `output_files.Checksum` makes it.
        modified: When the store says that it was written, in ISO 8601; None if it does not say.
    """

    path: str
    rows: int
    size: int
    checksum: str
    modified: str | None


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive fragments that were written together.

    Attributes:
        fragments: The id of each, and what was in it and how it was written (`Contents.key`).
        rows: How many rows a reader sees.
        parts: The files.
    """

    fragments: tuple[tuple[int, str], ...]
    rows: int
    parts: tuple[Part, ...]

    @property
    def note(self) -> str:
        """The file that says that the piece is done, while others are not."""
        return f"{PROGRESS}/{label_of(self.fragments)}.json"

    def to_json(self) -> str:
        """Return the piece as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(said: Mapping[str, Any]) -> Piece:
        """Make a piece of the decoded JSON of `to_json`."""
        fragments = tuple((int(number), str(key)) for number, key in said["fragments"])
        if not fragments:
            raise ValueError("a piece without fragments")
        return Piece(fragments, said["rows"], tuple(Part(**part) for part in said["parts"]))


def label_of(fragments: Sequence[tuple[int, str]]) -> str:
    """Return a name for fragments that are written together, which no others have.

    Args:
        fragments: Their ids and keys, at least one.
    """
    keys = "".join(key for _, key in fragments)
    return f"{fragments[0][0]}-{hashlib.sha256(keys.encode()).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a version is written.

    Attributes:
        format: `parquet` or `arrow`.
        partition_by: Columns whose values become directories.
        columns: The columns that are written; None for all.
        types: Whether values keep their Arrow types or get those that Spark has.
        target_bytes: About how large files become.
    """

    format: str = "parquet"
    partition_by: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    types: str = "arrow"
    target_bytes: int = TARGET_BYTES


@dataclass(frozen=True, slots=True)
class Materialized:
    """One whole version at a destination.

    Attributes:
        files: The files of the destination.
        source: The table.
        version: The version.
        branch: The branch that it is on; None for the main one.
        committed: When the version was committed.
        settings: How it was written.
        schema: The columns of the files, and those that are directories.
        pieces: What was written together, in the order of the table.
        previous: Paths of the version before this one that are not in it.
    """

    files: Files = field(repr=False)
    source: str
    version: int
    branch: str | None
    committed: str
    settings: Settings
    schema: pa.Schema
    pieces: tuple[Piece, ...] = field(repr=False)
    previous: tuple[str, ...] = field(default=(), repr=False)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(piece.rows for piece in self.pieces)

    @property
    def paths(self) -> list[str]:
        """The files that make up the version, below the destination, in the table's order."""
        return [part.path for piece in self.pieces for part in piece.parts]

    @property
    def urls(self) -> list[str]:
        """The files that make up the version, for any reader that takes a list of files."""
        return [f"{self.files.url}/{path}" for path in self.paths]

    def dataset(self) -> pads.Dataset:
        """Return the version as an Arrow dataset."""
        if not self.paths:
            return pads.InMemoryDataset(self.schema.empty_table())
        by = self.settings.partition_by
        keys = pa.schema([self.schema.field(name) for name in by])
        return pads.dataset(
            [self.files.full(path) for path in self.paths],
            schema=self.schema,
            format="ipc" if self.settings.format == "arrow" else "parquet",
            filesystem=self.files.fs,
            partitioning=pads.partitioning(keys, flavor="hive") if by else None,
            partition_base_dir=self.files.full(DATA),
        )

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """Return the version as a DataFrame, where it is in Parquet.

        Raises:
            ValueError: It is in Arrow files, which Spark does not read; or it has no rows.
        """
        if self.settings.format != "parquet" or not self.paths:
            raise ValueError(f"{self.files.shown} has no Parquet files, which Spark would read")
        reader = spark.read.option("basePath", f"{self.files.url}/{DATA}")
        found = reader.parquet(*self.urls)
        # Of names of directories Spark guesses that 01 is a number, and true a text.
        named = pa.schema([self.schema.field(name) for name in self.settings.partition_by])
        known = {field.name: field for field in spark_schema(named)}
        schema = StructType([known.get(field.name, field) for field in found.schema])
        schema = with_intervals(schema, pa.struct(list(self.schema)))
        return found if schema == found.schema else reader.schema(schema).parquet(*self.urls)

    def lineage(self) -> bytes:
        """Return where the rows of each file came from, as lines of JSON in the order of the table.

        `first_row` is the position of the first row of a file in the version, from which it has
        `rows` consecutive ones; null where rows were divided among directories.
        """
        lines: list[str] = []
        start = 0
        for piece in self.pieces:
            first = start
            for part in piece.parts:
                said = {
                    "file": part.path,
                    "source": self.source,
                    "version": self.version,
                    "branch": self.branch,
                    "committed": self.committed,
                    "fragments": [number for number, _ in piece.fragments],
                    "rows": part.rows,
                    "first_row": None if self.settings.partition_by else first,
                }
                lines.append(json.dumps(said) + "\n")
                first += part.rows
            start += piece.rows
        return "".join(lines).encode()

    def to_json(self) -> bytes:
        """Return the bytes of the manifest."""
        schema = self.schema.serialize().to_pybytes()
        said = {
            "lancefs": _FORMAT,
            "source": self.source,
            "version": self.version,
            "branch": self.branch,
            "committed": self.committed,
            "rows": self.rows,
            "settings": asdict(self.settings),
            "schema": base64.b64encode(schema).decode(),
            "pieces": [asdict(piece) for piece in self.pieces],
            "previous": list(self.previous),
        }
        return json.dumps(said, indent=1).encode()


def open_materialized(
    url: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> Materialized:
    """Open what `materialize` wrote: the newest version that is complete.

    Args:
        url: The destination.
        storage_options: For fsspec, such as credentials.

    Raises:
        NotALanceTable: Nothing is complete there.
        CorruptFile: The manifest is damaged.
        UnsupportedFeature: Another release of lancefs wrote it.
    """
    files = Files(url, storage_options)
    data = files.read(MANIFEST)
    if data is None:
        raise NotALanceTable(
            f"{files.url}: no version was materialized here completely; there is no {MANIFEST}"
        )
    return parse_manifest(files, data)


def parse_manifest(files: Files, data: bytes) -> Materialized:
    """Read a manifest.

    Raises:
        CorruptFile: It is not one.
        UnsupportedFeature: It is one of another release.
    """
    try:
        said = json.loads(data)
        if said["lancefs"] != _FORMAT:
            raise UnsupportedFeature(
                f"{files.shown}/{MANIFEST}: another release of lancefs wrote it (format "
                f"{said['lancefs']}, this one reads {_FORMAT}); choose another destination"
            )
        settings = said["settings"]
        columns = settings["columns"]
        return Materialized(
            files=files,
            source=said["source"],
            version=said["version"],
            branch=said["branch"],
            committed=said["committed"],
            settings=Settings(
                settings["format"],
                tuple(settings["partition_by"]),
                None if columns is None else tuple(columns),
                settings["types"],
                settings["target_bytes"],
            ),
            schema=pa.ipc.read_schema(pa.py_buffer(base64.b64decode(said["schema"]))),
            pieces=tuple(Piece.from_json(piece) for piece in said["pieces"]),
            previous=tuple(said["previous"]),
        )
    except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
        damaged = CorruptFile(f"not a manifest of lancefs: {error!r}")
        damaged.path = f"{files.url}/{MANIFEST}"
        raise damaged from error
