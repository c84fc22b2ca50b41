"""The rooms of the house depend on each other in one direction only.

The reasons are in docs/architecture.md. A new room gets its place in `MAY_IMPORT` here and there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import REPOSITORY, modules_after

ENGINES = {"duckdb", "pandas", "polars", "pyspark"}

_FORMAT = {
    "arguments",
    "masking",
    "errors",
    "forks",
    "other_names",
    "printable",
    "proto",
    "storage",
    "datafile",
    "table",
    "threads",
}
_READING = _FORMAT | {
    *("arrow_dataset", "index", "lance_dataset", "profile", "scan", "search"),
}

# Room -> the other rooms that it may know. "lancefs" is the front door, `lancefs/__init__.py`.
MAY_IMPORT: dict[str, set[str]] = {
    "arguments": set(),
    "masking": set(),
    "printable": set(),
    "errors": {"masking", "printable"},
    "forks": set(),
    "other_names": set(),
    "version": set(),
    "threads": {"forks"},
    "arrow_dataset": set(),
    "arrow_guard": {"arrow_dataset"},
    "proto": set(),
    "storage": {"masking", "errors", "forks", "printable"},
    "datafile": {"errors", "forks", "proto", "storage"},
    "table": _FORMAT - {"table"},
    "index": _FORMAT,
    "scan": _FORMAT | {"arrow_dataset", "index"},
    "search": _FORMAT | {"index", "scan"},
    "showing": _FORMAT,
    "profile": _FORMAT | {"scan", "showing"},
    "lance_dataset": _FORMAT
    | {"arrow_dataset", "arrow_guard", "profile", "scan", "search", "showing"},
    "opening": _FORMAT | {"lance_dataset", "scan"},
    "views": _READING | {"version"},
    "filesystem": _READING | {"views"},
    "s3_ddb": {"errors", "storage", "table", "views"},  # of the views, that they are read-only
    "lancefs": _READING | {"opening", "views", "filesystem", "version", "duckdb_adapter"},
    # It makes no pages: whoever serves hands them in.
    "serve": _READING | {"views", "filesystem"},
    "spark": _READING | {"views", "filesystem", "lancefs"},
    "duckdb_adapter": _READING | {"version"},
    "cli": _READING
    | {"showing", "views", "filesystem", "lancefs", "serve", "spark", "duckdb_adapter", "version"},
}

SOURCES = sorted(
    path.relative_to(REPOSITORY)
    for package in ("lancefs", "duckdb_adapter")
    for path in (REPOSITORY / package).rglob("*.py")
)


# Rooms, and packages in them, of which the map of the house names each file.
MAPPED = ("storage", "datafile", "datafile/v2_1", "table", "index", "index/vectors", "index/text")
MAPPED += ("scan", "search", "profile")


def test_the_map_of_the_house_names_each_file_and_no_other() -> None:
    text = (REPOSITORY / "docs" / "architecture.md").read_text("utf-8")
    drawn = set(re.findall(r"\w+\.py", text.split("```")[1]))
    assert drawn <= {path.name for path in SOURCES}
    rooms = [REPOSITORY / "lancefs" / room for room in MAPPED]
    files = {path.name for room in rooms for path in room.glob("*.py")}
    assert files <= drawn | {"__init__.py"}


def imported_modules(source: str, path: Path) -> Iterator[str]:
    """Yield the absolute dotted name of everything that a file imports, at any depth."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # A file's own package is its directory, also for an `__init__.py`.
            base = path.parent.parts[: len(path.parent.parts) - node.level + 1]
            parents = [*(base if node.level else ()), *([node.module] if node.module else [])]
            yield from (".".join([*parents, alias.name]) for alias in node.names)


def room_of(module: str) -> str | None:
    """Return the room that a dotted name is in, or None where it is not ours."""
    top, _, rest = module.partition(".")
    if top == "duckdb_adapter":
        return top
    if top != "lancefs":
        return None
    name = rest.partition(".")[0]
    places = (REPOSITORY / "lancefs" / name, REPOSITORY / "lancefs" / f"{name}.py")
    is_room = name in MAY_IMPORT or (name != "" and any(place.exists() for place in places))
    return name if is_room else "lancefs"


def room_of_file(path: Path) -> str:
    """Return the room that a file of ours is in."""
    room = room_of(".".join(path.with_suffix("").parts))
    assert room is not None
    return "lancefs" if room == "__init__" else room


def imported_rooms(source: str, path: Path) -> set[str]:
    """Return the other rooms that a file knows."""
    rooms = {room_of(module) for module in imported_modules(source, path)}
    return {room for room in rooms if room is not None} - {room_of_file(path)}


def test_a_file_imports_only_rooms_further_inside() -> None:
    rooms = {room_of_file(path) for path in SOURCES}
    assert rooms <= set(MAY_IMPORT), "a new room: give it a place in MAY_IMPORT"
    for path in SOURCES:
        outside = imported_rooms(source_of(path), path) - MAY_IMPORT[room_of_file(path)]
        assert not outside, f"{path} may not know {sorted(outside)}, see docs/architecture.md"


def test_the_format_layers_know_no_engine() -> None:
    for path in SOURCES:
        if room_of_file(path) in _FORMAT:
            tops = {module.partition(".")[0] for module in imported_modules(source_of(path), path)}
            assert not ENGINES & tops, path


def source_of(path: Path) -> str:
    return (REPOSITORY / path).read_text("utf-8")


def test_importing_lancefs_imports_no_engine_and_no_bitmaps() -> None:
    modules = modules_after("import lancefs")
    assert "lancefs" in modules
    assert not (ENGINES | {"pyroaring"}) & modules


@pytest.mark.parametrize(
    ("path", "source", "rooms"),
    [
        (
            "lancefs/table/refs.py",
            "from lancefs.lance_dataset import LanceDataset",
            {"lance_dataset"},
        ),
        ("lancefs/table/refs.py", "from ..lance_dataset import L", {"lance_dataset"}),
        ("lancefs/table/refs.py", "from .. import lance_dataset", {"lance_dataset"}),
        (
            "lancefs/table/refs.py",
            "def f():\n    import lancefs.lance_dataset as d",
            {"lance_dataset"},
        ),
        ("lancefs/table/refs.py", "from . import manifest", set()),
        ("lancefs/table/__init__.py", "from .refs import Ref", set()),
        (
            "lancefs/storage/store.py",
            "import fsspec\nfrom lancefs.errors import LanceError",
            {"errors"},
        ),
        ("lancefs/storage/store.py", "from .. import errors", {"errors"}),
        ("lancefs/storage/store.py", "from lancefs import open", {"lancefs"}),
        (
            "lancefs/__init__.py",
            "from lancefs.lance_dataset import LanceDataset",
            {"lance_dataset"},
        ),
        ("lancefs/lance_dataset.py", "import duckdb_adapter", {"duckdb_adapter"}),
        ("duckdb_adapter/scan.py", "import lancefs", {"lancefs"}),
    ],
)
def test_every_way_to_import_is_seen(path: str, source: str, rooms: set[str]) -> None:
    assert imported_rooms(source, Path(path)) == rooms
