"""What lies where in the files of a table, so that small but important regions get their share."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from fsspec.implementations.local import LocalFileSystem

from lancefs.datafile.container import Container
from lancefs.errors import LanceError
from lancefs.storage import Store


@dataclass(frozen=True)
class Region:
    """Some bytes of a file, and what they are."""

    path: Path
    kind: str
    start: int
    end: int


def regions_of(table: Path) -> list[Region]:
    """Return the regions of all files that are read of the newest version and of the history."""
    found = [region for path in sorted((table / "data").glob("*.lance")) for region in _data(path)]
    for path in sorted((table / "_versions").glob("*.manifest")):
        found += _manifest(path)
    for path in sorted((table / "_deletions").glob("*")):
        found.append(Region(path, f"deletions {path.suffix}", 0, path.stat().st_size))
    for directory in ("_refs", "_transactions"):
        for path in sorted(table.glob(f"{directory}/**/*.*")):
            found.append(Region(path, f"metadata {path.suffix}", 0, path.stat().st_size))
    return [region for region in found if region.start < region.end]


def _manifest(path: Path) -> list[Region]:
    """The length of the message, the message, and the footer."""
    size = path.stat().st_size
    (start,) = struct.unpack_from("<Q", path.read_bytes(), size - 16)
    return [
        Region(path, "manifest sections", 0, start),
        Region(path, "manifest length", start, start + 4),
        Region(path, "manifest message", start + 4, size - 16),
        Region(path, "manifest footer", size - 16, size),
    ]


def _data(path: Path) -> list[Region]:
    """The parts of a data file: of one in the old format, its beginning, middle and end."""
    size = path.stat().st_size
    try:
        container = Container(Store(LocalFileSystem(), str(path.parent)).file(path.name))
    except LanceError:
        return [
            Region(path, "0.1 pages", 0, max(0, size - 4000)),
            Region(path, "0.1 metadata", max(0, size - 4000), size - 16),
            Region(path, "0.1 footer", size - 16, size),
        ]
    version = ".".join(map(str, container.footer.version))
    found = [Region(path, f"{version} footer", size - 40, size)]
    for start, end in container.footer.columns:
        found.append(Region(path, f"{version} column metadata", start, end))
    tables = max(end for _, end in container.footer.columns)
    found.append(Region(path, f"{version} offset tables", tables, size - 40))
    for start, end in container.footer.global_buffers:
        found.append(Region(path, f"{version} global buffer", start, end))
    for index in range(len(container.footer.columns)):
        for page in container.column(index).pages:
            layout = _layout(page.encoding.type_name, page.encoding.data)
            for number, (start, end) in enumerate(page.buffers):
                found.append(Region(path, f"{version} {layout} buffer {number}", start, end))
    return found


def _layout(type_name: str, data: bytes) -> str:
    """Name the layout of a page by the one field that its message has."""
    fields = {1: "mini-block", 2: "constant", 3: "full-zip", 4: "blob", 5: "sparse"}
    if not type_name.endswith("PageLayout") or not data:
        return "page"
    return fields.get(data[0] >> 3, "page")
