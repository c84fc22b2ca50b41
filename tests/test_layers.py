"""Packages depend on each other in one direction only.

The reasons are in docs/architecture.md. A new package gets a place there and in `MAY_IMPORT`.
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

# Package -> the other packages that it may know. "lancefs" is `lancefs/__init__.py`.
MAY_IMPORT: dict[str, set[str]] = {
    "__main__": {"cli"},
    "arguments": set(),
    "masking": set(),
    "printable": set(),
    "errors": {"masking", "printable"},
    "forks": set(),
    "other_names": {"arguments"},
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
    "short_texts": {"datafile", "printable"},
    "showing": _FORMAT | {"short_texts"},
    "profile": _FORMAT | {"scan", "short_texts", "showing"},
    "lance_dataset": _FORMAT
    | {"arrow_dataset", "arrow_guard", "profile", "scan", "search", "showing"},
    "opening": _FORMAT | {"lance_dataset", "scan"},
    "views": _READING | {"version"},
    "filesystem": _READING | {"views"},
    "s3_ddb": {"errors", "storage", "table", "views"},  # of the views, that they are read-only
    "lancefs": _READING | {"opening", "views", "filesystem", "version", "duckdb_adapter"},
    # It makes no pages: whoever serves hands them in.
    "serve": _READING | {"views", "filesystem"},
    "spark": _READING | {"views", "filesystem", "lancefs", "version"},
    "duckdb_adapter": _READING | {"version"},
    "cli": _READING
    | {"short_texts", "showing", "views", "filesystem", "lancefs", "serve", "spark"}
    | {"duckdb_adapter", "version"},
}

SOURCES = sorted(
    path.relative_to(REPOSITORY)
    for package in ("lancefs", "duckdb_adapter")
    for path in (REPOSITORY / package).rglob("*.py")
)


# Packages of which the map in docs/architecture.md names each file.
MAPPED = ["lancefs", *(f"lancefs/{name}" for name in ("storage", "table", "scan", "search"))]
MAPPED += [f"lancefs/{name}" for name in ("profile", "views", "views/arrow", "s3_ddb", "serve")]
MAPPED += [f"lancefs/datafile{name}" for name in ("", "/v2_0", "/v2_1", "/v2_1/layouts")]
MAPPED += [f"lancefs/index{name}" for name in ("", "/vectors", "/text")]
MAPPED += [f"lancefs/cli{name}" for name in ("", "/render", "/report", "/pages")]
MAPPED += ["lancefs/spark", "lancefs/spark/pipeline"]
MAPPED += [f"duckdb_adapter{name}" for name in ("", "/queries", "/sources")]


def test_the_map_of_packages_names_each_file_and_no_other() -> None:
    text = (REPOSITORY / "docs" / "architecture.md").read_text("utf-8")
    drawn = set(re.findall(r"\w+\.py", text.split("\n## The map\n")[1].split("```")[1]))
    assert drawn <= {path.name for path in SOURCES}
    files = {path.name for package in MAPPED for path in (REPOSITORY / package).glob("*.py")}
    assert files <= drawn | {"__init__.py", "__main__.py"}


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


def package_of(module: str) -> str | None:
    """Return the package that a dotted name is in, or None where it is not ours."""
    top, _, rest = module.partition(".")
    if top == "duckdb_adapter":
        return top
    if top != "lancefs":
        return None
    name = rest.partition(".")[0]
    places = (REPOSITORY / "lancefs" / name, REPOSITORY / "lancefs" / f"{name}.py")
    is_package = name in MAY_IMPORT or (name != "" and any(place.exists() for place in places))
    return name if is_package else "lancefs"


def package_of_file(path: Path) -> str:
    """Return the package that a file of ours is in."""
    package = package_of(".".join(path.with_suffix("").parts))
    assert package is not None
    return "lancefs" if package == "__init__" else package


def imported_packages(source: str, path: Path) -> set[str]:
    """Return the other packages that a file knows."""
    packages = {package_of(module) for module in imported_modules(source, path)}
    return {package for package in packages if package is not None} - {package_of_file(path)}


def test_a_file_imports_only_packages_further_inside() -> None:
    packages = {package_of_file(path) for path in SOURCES}
    assert packages <= set(MAY_IMPORT), "a new package: give it a place in MAY_IMPORT"
    for path in SOURCES:
        outside = imported_packages(source_of(path), path) - MAY_IMPORT[package_of_file(path)]
        assert not outside, f"{path} may not know {sorted(outside)}, see docs/architecture.md"


def test_the_format_layers_know_no_engine() -> None:
    for path in SOURCES:
        if package_of_file(path) in _FORMAT:
            tops = {module.partition(".")[0] for module in imported_modules(source_of(path), path)}
            assert not ENGINES & tops, path


def source_of(path: Path) -> str:
    return (REPOSITORY / path).read_text("utf-8")


def test_importing_lancefs_imports_no_engine_and_no_bitmaps() -> None:
    modules = modules_after("import lancefs")
    assert "lancefs" in modules
    assert not (ENGINES | {"pyroaring"}) & modules


@pytest.mark.parametrize(
    ("path", "source", "packages"),
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
def test_every_way_to_import_is_seen(path: str, source: str, packages: set[str]) -> None:
    assert imported_packages(source, Path(path)) == packages
