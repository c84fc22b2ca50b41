"""The options of the data source, as Spark hands them over: texts, with names in any case."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

from lancefs.masking import mask_secrets
from lancefs.spark.option_names import STORAGE, check_names
from lancefs.spark.stores import absolute
from lancefs.table.base_paths import BaseRules, Follow
from lancefs.table.refs import Ref, make_ref
from lancefs.table.row_metadata import ROW_METADATA, ROW_OFFSET

# What becomes of nanoseconds, which Spark has no types for.
Nanoseconds: TypeAlias = Literal["error", "long", "truncate"]
# What becomes of columns of types that Spark has no counterpart for.
Unsupported: TypeAlias = Literal["error", "string", "skip"]

# Second names of options: those that Delta Lake and Iceberg have for the same.
_ALSO = {"versionAsOf": "version", "timestampAsOf": "asOf"}
# What a task knows of its rows: all but how many come before them in the table.
TASK_ROW_METADATA = tuple(name for name in ROW_METADATA if name != ROW_OFFSET.name)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How a table is opened.

    Attributes:
        url: Its directory; local paths are absolute.
        storage: For fsspec, such as credentials.
        follow: How far base paths are followed.
        moved: Where the files below base paths are now, by the base paths of the manifest.
    """

    url: str
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)  # may hold secrets
    follow: Follow = "store"
    moved: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"TableOptions({mask_secrets(self.url)!r})"

    @property
    def base_rules(self) -> BaseRules:
        """The rules by which base paths are followed."""
        return BaseRules(follow=self.follow, moved=self.moved)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How rows come out of a table.

    Attributes:
        columns: The columns to read, in order; None for all.
        filter: A condition in SQL, or an expression as `filters.serialize` writes it; None for all
            rows.
        with_row_id: Whether a column `_rowid` comes last.
        batch_rows: At most this many rows a batch; None for what the columns' width suggests.
        rows_per_partition: At most about this many rows a task.
        bytes_per_partition: At most about this many bytes of data files a task.
        nanoseconds: What becomes of nanoseconds.
        unsupported: What becomes of types that Spark does not have.
        use_index: Whether filters may be looked up in the indices of the table.
        push_filters: Whether conditions that Spark pushes are taken. Spark up to 4.3 applies them
            to other reads of the DataFrame, too.
    """

    columns: tuple[str, ...] | None = None
    filter: str | None = None
    with_row_id: bool = False
    batch_rows: int | None = None
    rows_per_partition: int | None = None
    bytes_per_partition: int | None = None
    nanoseconds: Nanoseconds = "error"
    unsupported: Unsupported = "error"
    use_index: bool = True
    push_filters: bool = False


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a stream goes through the versions.

    Attributes:
        starting_version: The first version whose rows come; None for the next one that is written.
        starting_time: In place of `starting_version`: rows come from the first version on that was
            committed at this time or later.
        max_versions: At most this many versions a micro-batch; None for all that there are.
        max_rows: At most this many new rows a micro-batch, but at least one version; None for all.
        skip_changes: Whether versions that change or replace rows are passed over.
        change_feed: Whether all changes are wanted, not only appended rows.
    """

    starting_version: int | None = None
    starting_time: datetime | None = None
    max_versions: int | None = None
    max_rows: int | None = None
    skip_changes: bool = False
    change_feed: bool = False

    @property
    def row_options(self) -> list[str]:
        """The options that are given, and tell which rows come: a batch has others."""
        given = {
            "startingVersion": self.starting_version is not None,
            "startingTimestamp": self.starting_time is not None,
            "readChangeFeed": self.change_feed,
        }
        return [name for name, is_given in given.items() if is_given]


@dataclass(frozen=True, slots=True)
class Options:
    """All options of one use of the data source."""

    table: TableOptions
    ref: Ref
    read: ReadOptions
    stream: StreamOptions


def parse_options(given: Mapping[str, str]) -> Options:
    """Read the options of the data source.

    Args:
        given: As Spark hands them over.

    Raises:
        ValueError: An option is not known, makes no sense, or contradicts another.
    """
    check_names(given)
    said = {key.lower(): value for key, value in given.items()}
    _take_second_names(said)
    ref = make_ref(
        version=said.get("version"),
        tag=said.get("tag"),
        branch=said.get("branch"),
        as_of=said.get("asof"),
    )
    return Options(_table(said), ref, _read(said), _stream(said))


def names_table(given: Mapping[str, str]) -> bool:
    """Return whether options say which table is meant; `location` comes from Spark's catalogue."""
    return any(name.lower() in ("path", "location") and value for name, value in given.items())


def _take_second_names(said: dict[str, str]) -> None:
    times = [name for name in ("asOf", "timestampAsOf") if name.lower() in said]
    numbers = [name for name in ("version", "versionAsOf", "tag") if name.lower() in said]
    if times and numbers:
        raise ValueError(
            f"{numbers[0]} and {times[0]} each name a version; give one of them, with branch or not"
        )
    for second, first in _ALSO.items():
        if second.lower() in said:
            if first.lower() in said:
                raise ValueError(f"{first} and {second} are the same option; give one of them")
            said[first.lower()] = said.pop(second.lower())


def _table(said: Mapping[str, str]) -> TableOptions:
    path = said.get("path") or said.get("location")
    if not path:
        raise ValueError("no table is named: say .load('s3://bucket/t.lance'), or the option path")
    follow = said.get("followbasepaths", "store")
    _check_choice("followBasePaths", follow, get_args(Follow))
    moved = _json("basePaths", said.get("basepaths", "{}"))
    if not isinstance(moved, dict) or not all(isinstance(new, str) for new in moved.values()):
        raise ValueError(
            'basePaths must be an object in JSON, such as {"/old/place": "/new/place"}'
        )
    storage = _storage_options(said)
    return TableOptions(absolute(path), storage, follow, moved)  # type: ignore[arg-type]


def _read(said: Mapping[str, str]) -> ReadOptions:
    nanoseconds = said.get("nanoseconds", "error")
    _check_choice("nanoseconds", nanoseconds, get_args(Nanoseconds))
    unsupported = said.get("unsupported", "error")
    _check_choice("unsupported", unsupported, get_args(Unsupported))
    columns = parse_columns(said["columns"]) if "columns" in said else None
    return ReadOptions(
        columns=columns,
        filter=said.get("filter"),
        with_row_id=_flag(said, "withRowId"),
        batch_rows=_positive(said, "batchSize"),
        rows_per_partition=_positive(said, "rowsPerPartition"),
        bytes_per_partition=_positive(said, "bytesPerPartition"),
        nanoseconds=nanoseconds,  # type: ignore[arg-type]
        unsupported=unsupported,  # type: ignore[arg-type]
        use_index=_flag(said, "useIndex", "true"),
        push_filters=_flag(said, "pushFilters"),
    )


def _stream(said: Mapping[str, str]) -> StreamOptions:
    version, time = _positive(said, "startingVersion"), said.get("startingtimestamp")
    if version is not None and time is not None:
        raise ValueError("startingVersion and startingTimestamp each name a version; name one")
    return StreamOptions(
        starting_version=version,
        starting_time=None if time is None else make_ref(as_of=time).as_of,
        max_versions=_positive(said, "maxVersionsPerTrigger"),
        max_rows=_positive(said, "maxRowsPerTrigger"),
        skip_changes=_flag(said, "skipChanges"),
        change_feed=_flag(said, "readChangeFeed"),
    )


def parse_columns(text: str) -> tuple[str, ...]:
    """Read names of columns: a list in JSON, or names with commas between them.

    Raises:
        ValueError: It is neither.
    """
    if text.strip().startswith("["):
        names = _json("columns", text)
        if not all(isinstance(name, str) for name in names):
            raise ValueError(f"columns is {text!r}; a list of names was expected")
    else:
        names = [name.strip() for name in text.split(",")]
    if not names or not all(names) or len(set(names)) != len(names):
        raise ValueError(f"columns is {text!r}; names were expected, each once")
    return tuple(names)


def _storage_options(said: Mapping[str, str]) -> dict[str, Any]:
    """`storage` is an object in JSON; `storage.x` is one text, or JSON where it looks like that."""
    options: dict[str, Any] = {}
    if "storage" in said:
        options = _json("storage", said["storage"])
        if not isinstance(options, dict):
            raise ValueError('storage must be an object in JSON, such as {"anon": true}')
    for name, value in said.items():
        if name.startswith(STORAGE):
            looks = value[:1] in ("{", "[", '"') or value in ("true", "false", "null")
            options[name.removeprefix(STORAGE)] = _json(name, value) if looks else value
    return options


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:  # without the text, which may be a secret
        raise ValueError(f"the option {name} is not JSON: {error}") from None


def _flag(said: Mapping[str, str], name: str, default: str = "false") -> bool:
    value = said.get(name.lower(), default).lower()
    _check_choice(name, value, ("true", "false"))
    return value == "true"


def _positive(said: Mapping[str, str], name: str) -> int | None:
    value = said.get(name.lower())
    if value is None:
        return None
    if not value.strip().isdecimal() or int(value) == 0:
        raise ValueError(f"{name} is {value!r}; a positive number was expected")
    return int(value)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; one of {', '.join(choices)} was expected")
