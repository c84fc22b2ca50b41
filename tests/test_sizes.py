"""Functions stay small, names are clear, an encoding is one file, and decoders do no I/O."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from support import REPOSITORY

from lancefs.datafile.v2_1.encodings import registry as encodings

LINES_OF_A_FUNCTION = 60

SOURCES = sorted(
    path.relative_to(REPOSITORY)
    for package in ("lancefs", "duckdb_adapter")
    for path in (REPOSITORY / package).rglob("*.py")
    if not path.name.endswith("_pb2.py")  # generated
)
DATAFILE = REPOSITORY / "lancefs" / "datafile"
# The functions that a file of `lancefs.datafile.v2_1.encodings` may have, one per position.
POSITIONS = {
    "decode_chunks",
    "decode_at",
    "most_bytes",
    "value_lengths",
    "decode_blocks",
    "decode_sequence",
    "decode_fixed",
    "decode_variable",
    "has_payload",
}
# Other public functions, which other encodings call.
SHARED = {
    "dictionary": {"look_up"},
    "fixed_size_list": {"items_are_valid"},
    "flat": {"bytes_of_bits", "checked_ends", "flat_values"},
    "general": {"decompress", "decompress_chunks"},
    "variable": {"letters_of"},
}


def names_of_types(path: Path) -> Iterator[str]:
    """Yield the names of the classes and type aliases of a module."""
    for node in ast.parse((REPOSITORY / path).read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            yield ast.unparse(node.target)


def test_no_two_classes_share_a_name() -> None:
    modules: dict[str, list[str]] = {}
    for path in SOURCES:
        for name in names_of_types(path):
            modules.setdefault(name, []).append(str(path))
    shared = {name: paths for name, paths in modules.items() if len(paths) > 1}
    assert shared == {}


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse((REPOSITORY / path).read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of lines of a function, without its docstring."""
    length = (function.end_lineno or 0) - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        length -= (docstring.end_lineno or 0) - docstring.lineno + 1
    return length


def test_functions_are_small() -> None:
    lengths = {
        f"{path}:{function.name}": length_of(function)
        for path in SOURCES
        for function in functions(path)
    }
    assert {name for name, lines in lengths.items() if lines > LINES_OF_A_FUNCTION} == set()


def _public(module: object) -> set[str]:
    """Return the names of the public functions that a module defines."""
    name = getattr(module, "__name__", "")
    members = vars(module).items()
    return {
        key
        for key, member in members
        if callable(member)
        and not key.startswith("_")
        and not isinstance(member, type)
        and member.__module__ == name
    }


def test_a_compressive_encoding_is_one_file() -> None:
    files = {path.stem for path in (DATAFILE / "v2_1" / "encodings").glob("*.py")}
    assert set(encodings.ENCODINGS) == files - {"__init__", "registry"}
    for name in encodings.ENCODINGS:
        public = _public(import_module(f"lancefs.datafile.v2_1.encodings.{name}"))
        assert public & POSITIONS, f"{name} decodes nothing"
        assert public - POSITIONS == SHARED.get(name, set())


def test_decoders_do_no_io() -> None:
    """Decoders request byte ranges (`Reads`); only what opens a data file holds a `File`.

    One kernel reads whole files of a directory that is open.
    """
    openers = {"container", "data_file", "kernels/files", "legacy/footer", "legacy/reader"}
    io = {
        path.relative_to(DATAFILE).with_suffix("").as_posix(): _from_storage(path)
        - {"ByteRange", "Bytes", "Reads", "SparseRanges", "count_pages", "together"}
        - {"GAP", "with_prefetch"}
        for path in DATAFILE.rglob("*.py")
    }
    assert {name for name, imported in io.items() if imported} == openers


def _from_storage(path: Path) -> set[str]:
    """Return the names that a file imports from `lancefs.storage`, at any depth."""
    return {
        alias.name
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lancefs.storage")
        for alias in node.names
    }
