"""A materialized version as a Delta table: its Parquet files, recorded in a log beside them.

No row is read or written for it. The library `deltalake` writes the log.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from lancefs.errors import LanceError, UnsupportedFeature
from lancefs.printable import get_logger
from lancefs.spark.pipeline.destination import Materialized, Part
from lancefs.spark.pipeline.writers import NULL_DIRECTORY

if TYPE_CHECKING:
    from deltalake import DeltaTable

logger = get_logger("lancefs.spark")

# What the protocol of Delta Lake calls the feature of times without a zone.
_TIMES = "timestampNtz"


def publish_delta(complete: Materialized, storage_options: Mapping[str, str] | None = None) -> int:
    """Let the Delta table at a destination consist of the files of a materialized version.

    One commit adds the files that are new, and removes those that are no longer in the version. It
    is made after the version is complete, so that a reader of the table sees whole versions.

    Args:
        complete: What `materialize` returned: Parquet files with the types of Spark.
        storage_options: Options of `deltalake`, such as `AWS_ENDPOINT_URL`, not those of fsspec.

    Returns:
        The version of the Delta table.

    Raises:
        ImportError: `deltalake` is not installed.
        ValueError: The version is not in Parquet, or has not the types of Spark.
        UnsupportedFeature: Delta Lake has no type for a column.
        LanceError: The table cannot be brought up to date.
    """
    where = complete.files.shown
    delta = require_delta(complete.settings.format, complete.settings.types)
    options = dict(storage_options or {})
    try:
        if not delta.DeltaTable.is_deltatable(complete.files.url, options):
            return _create(delta, complete, options)
        table = delta.DeltaTable(complete.files.url, storage_options=options)
        _update(delta, complete, table)
        table.update_incremental()
        return int(table.version())
    except (delta.exceptions.DeltaError, OSError) as error:
        raise LanceError(f"{where}: its Delta table cannot be written: {error}") from error


def require_delta(format: str, types: str) -> Any:
    """Return the library, if files like these can make up a Delta table.

    Args:
        format: The format of the files.
        types: Whose types they have: those of the table, or of Spark.

    Raises:
        ImportError: `deltalake` is not installed.
        ValueError: They cannot.
    """
    if (format, types) != ("parquet", "spark"):
        raise ValueError(
            f"a Delta table needs format = parquet and types = spark, not {format} and {types}"
        )
    try:
        import deltalake
        import deltalake.exceptions
        import deltalake.transaction
    except ImportError as error:
        raise ImportError(
            "a Delta table needs the library deltalake: pip install 'lancefs[delta]'"
        ) from error
    return deltalake


def _create(delta: Any, complete: Materialized, options: dict[str, str]) -> int:
    delta.transaction.create_table_with_add_actions(
        complete.files.url,
        _schema(delta, complete),
        [_added(delta, part) for part in _parts(complete).values()],
        partition_by=list(complete.settings.partition_by),
        storage_options=options,
        commit_properties=_properties(delta, complete),
    )
    logger.info("%s: made a Delta table of version %d", complete.files.shown, complete.version)
    return 0


def _update(delta: Any, complete: Materialized, table: DeltaTable) -> None:
    parts, schema = _parts(complete), _schema(delta, complete)
    by = list(complete.settings.partition_by)
    found = pa.table(table.get_add_actions()).column("path").to_pylist()
    there = {unquote(path) for path in found}  # the log has paths as URLs do
    has_changed = table.schema() != schema
    if table.metadata().partition_columns != by or (has_changed and not there.isdisjoint(parts)):
        raise LanceError(
            f"{complete.files.shown} holds a Delta table with other columns or directories; choose "
            "another destination"
        )
    if there == parts.keys() and not has_changed:
        return
    actions = [_added(delta, part) for path, part in parts.items() if path not in there]
    if has_changed:  # all files are replaced, with the schema
        _allow_times_without_zone(delta, complete.schema, table)
    else:
        now = int(time.time() * 1000)
        remove = delta.transaction.RemoveAction
        actions += [remove(path, True, now) for path in sorted(there - parts.keys())]
    table.create_write_transaction(
        actions,
        "overwrite" if has_changed else "append",
        schema,
        by,
        commit_properties=_properties(delta, complete),
    )
    logger.info("%s: the Delta table has version %d", complete.files.shown, complete.version)


def _allow_times_without_zone(delta: Any, schema: pa.Schema, table: DeltaTable) -> None:
    """Let a table have such times: Delta Lake counts them as a feature, which tables opt in to."""
    has_them = "timestamp_ntz" in delta.Schema.from_arrow(schema).to_json()
    if has_them and _TIMES not in (table.protocol().reader_features or ()):
        feature = delta.TableFeatures.TimestampWithoutTimezone
        table.alter.add_feature(feature, allow_protocol_versions_increase=True)


def _parts(complete: Materialized) -> dict[str, Part]:
    return {part.path: part for piece in complete.pieces for part in piece.parts}


def _added(delta: Any, part: Part) -> Any:
    modified = 0.0 if part.modified is None else datetime.fromisoformat(part.modified).timestamp()
    return delta.transaction.AddAction(
        part.path,
        part.size,
        _partition_values(part.path),
        int(modified * 1000),
        True,
        json.dumps({"numRecords": part.rows}),
    )


def _partition_values(path: str) -> dict[str, str | None]:
    """Return the values that directories are called by, as Delta Lake writes them."""
    values: dict[str, str | None] = {}
    for directory in path.split("/")[1:-1]:
        name, value = directory.split("=", 1)
        values[unquote(name)] = None if value == NULL_DIRECTORY else unquote(value)
    return values


def _schema(delta: Any, complete: Materialized) -> Any:
    refused = [field for field in complete.schema if not _has_type(field.type)]
    if refused:
        names = ", ".join(f"{field.name} ({field.type})" for field in refused)
        raise UnsupportedFeature(
            f"{complete.files.shown}: Delta tables have no type for {names}; leave such "
            "columns out (columns)"
        )
    return delta.Schema.from_arrow(complete.schema)


def _has_type(kind: pa.DataType) -> bool:
    """Whether Delta Lake has a counterpart of a type that Spark has."""
    types = pa.types
    if types.is_nested(kind):
        return all(_has_type(kind.field(i).type) for i in range(kind.num_fields))
    return not (types.is_time(kind) or types.is_duration(kind) or types.is_null(kind))


def _properties(delta: Any, complete: Materialized) -> Any:
    said = {"lancefs.source": complete.source, "lancefs.version": str(complete.version)}
    return delta.CommitProperties(custom_metadata=said)
