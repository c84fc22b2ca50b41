"""Value ranges on disk, with which other processes can skip rows.

A table has one file, named by the digest of its directory. It holds what scans have seen of the
columns of each data file (`value_ranges`), with the identity of the file: device, number, size and
time of change must be the same when the ranges are used, as in memory. Nothing else tells whether
ranges are right, so the content is checked by a checksum before it is looked at, and the directory
and its files belong to the user alone (`PrivateFolder`). A file that is damaged or of another table
is logged as a warning, and made anew.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.forks import Lock
from lancefs.printable import get_logger
from lancefs.scan import value_ranges
from lancefs.scan.value_ranges import Numbers, ZoneRanges
from lancefs.storage import file_identity
from lancefs.storage.private_folder import InvalidContent, PrivateFolder, seal, unseal

logger = get_logger(__name__)

VARIABLE = "LANCEFS_RANGES"
_MAGIC = b"lancefs ranges 3\n"
# Bytes of the file of a table, and files in the directory: the oldest ones make room.
_MAX_BYTES, _MAX_TABLES = 4 * 1024 * 1024, 128
_SUFFIX = ".ranges"


class _ColumnRanges(NamedTuple):
    """The ranges of a column of a data file.

    Attributes:
        name: Path of the file in the directory of the table.
        field_id: Id of the field.
        zones: The ranges.
    """

    name: str
    field_id: int
    zones: ZoneRanges


class _RangesFolder:
    """Where ranges are kept, and the tables whose ranges were loaded by this process."""

    def __init__(self) -> None:
        setting = os.environ.get(VARIABLE)
        self.folder = PrivateFolder(Path(setting)) if setting else None
        self.loaded: set[str] = set()


_state = _RangesFolder()
_lock = Lock()


def keep_ranges(directory: str | os.PathLike[str] | None) -> None:
    """Keep on disk the ranges of values that filters have seen, for other processes.

    A second query of a local table skips rows and fragments that cannot match. With this call, the
    second query may be in another process. The environment variable `LANCEFS_RANGES` names a
    directory for processes that do not call this.

    Args:
        directory: A local directory, created when ranges are first kept, for the user alone. None
            to keep ranges in memory only.
    """
    with _lock:
        _state.folder = None if directory is None else PrivateFolder(Path(directory))
        _state.loaded.clear()


def forget() -> None:
    """Load ranges from disk again when they are next asked for."""
    with _lock:
        _state.loaded.clear()


def load(root: str) -> None:
    """Load the ranges of a table that are kept on disk, once a process.

    Args:
        root: Directory of the table, local.
    """
    folder = _state.folder
    if folder is None or root in _state.loaded:
        return
    with _lock:
        if root in _state.loaded:
            return
        for entry in _read(folder, root):
            value_ranges.restore(f"{root}/{entry.name}", entry.field_id, entry.zones)
        _state.loaded.add(root)


def save(root: str) -> None:
    """Write the known ranges of a table to disk, beside those that other processes wrote.

    Args:
        root: Directory of the table, local.
    """
    folder = _state.folder
    if folder is None:
        return
    with _lock:
        known = [
            _ColumnRanges(place.removeprefix(f"{root}/"), field_id, zones)
            for place, field_id, zones in value_ranges.known_below(f"{root}/")
        ]
        ours = {(entry.name, entry.field_id) for entry in known}
        others = [one for one in _read(folder, root) if (one.name, one.field_id) not in ours]
        data = _format(root, known + others)
        if len(data) > _MAX_BYTES:
            data = _format(root, known)
        if len(data) > _MAX_BYTES:
            return
        try:
            folder.write(_name(root), data)
            folder.keep_newest(_SUFFIX, _MAX_TABLES)
        except OSError as error:
            logger.warning("%s: ranges cannot be kept: %s", folder.path, error.strerror or error)


def _name(root: str) -> str:
    return hashlib.sha256(os.fsencode(root)).hexdigest()[:40] + _SUFFIX


def _read(folder: PrivateFolder, root: str) -> list[_ColumnRanges]:
    """Return the ranges of a table that are on disk."""
    path = folder.path / _name(root)
    try:
        return _parse(root, folder.read(path.name, _MAX_BYTES))
    except FileNotFoundError:
        return []
    except OSError as error:
        logger.warning("%s: ranges cannot be read: %s", path, error.strerror or error)
    except InvalidContent as error:
        logger.warning("%s: not ranges of %s, or damaged (%s); made anew", path, root, error)
    return []


def _format(root: str, entries: list[_ColumnRanges]) -> bytes:
    """Return a sealed file of compressed JSON."""
    types: dict[pa.DataType, int] = {}
    files: dict[tuple[str, Any], list[Any]] = {}
    for name, field_id, zones in entries:
        number = types.setdefault(zones.data_type, len(types))
        columns = files.setdefault((name, zones.identity), [])
        items = None if zones.items is None else _to_json(zones.items)
        parts = zones.seen.tolist(), _to_json(zones.low), _to_json(zones.high), items
        columns.append([field_id, number, zones.low.dtype.str, *parts])
    schema = pa.schema([(str(number), each) for each, number in types.items()])
    content = {
        "root": root,
        "zone_rows": value_ranges.ZONE_ROWS,
        "types": base64.b64encode(schema.serialize().to_pybytes()).decode(),
        "files": [[name, identity, columns] for (name, identity), columns in files.items()],
    }
    return seal(_MAGIC, zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 1))


def _parse(root: str, data: bytes) -> list[_ColumnRanges]:
    """Return the ranges in a file.

    Raises:
        InvalidContent: It is damaged, or of another table.
    """
    content = json.loads(zlib.decompress(unseal(_MAGIC, data)))  # bytes that this release wrote
    if content["root"] != root:
        raise InvalidContent(f"it is of {content['root']}")
    if content["zone_rows"] != value_ranges.ZONE_ROWS:
        raise InvalidContent(f"its zones have {content['zone_rows']} rows")
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(content["types"])))
    return [
        _ColumnRanges(
            name, field_id, _zones(file_identity(*identity), schema.types[number], *numbers)
        )
        for name, identity, columns in content["files"]
        for field_id, number, *numbers in columns
    ]


def _zones(
    identity: Any, data_type: pa.DataType, dtype: str, seen: Any, low: Any, high: Any, items: Any
) -> ZoneRanges:
    bounds = _from_json(low, dtype), _from_json(high, dtype)
    kept = None if items is None else _from_json(items, dtype)
    shaped = np.array(seen, np.int64).reshape(-1, 2)
    return ZoneRanges(identity, data_type, shaped, *bounds, kept)


def _to_json(bounds: Numbers) -> list[Any]:
    """Return bounds as values of JSON: the key of a text as a string with a character a byte."""
    listed: list[Any] = bounds.tolist()
    return [key.decode("latin-1") for key in listed] if bounds.dtype.kind == "S" else listed


def _from_json(listed: list[Any], dtype: str) -> Numbers:
    is_text = np.dtype(dtype).kind == "S"
    return np.array([key.encode("latin-1") for key in listed] if is_text else listed, dtype)
