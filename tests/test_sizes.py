"""Files and functions stay small, and an encoding is one small file with one entry."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from support import REPOSITORY

from lancefs.datafile.legacy import registry as legacy
from lancefs.datafile.v2_0 import registry as arrays
from lancefs.datafile.v2_1.encodings import registry as encodings

LINES_OF_A_FILE = 500
LINES_OF_A_FUNCTION = 60

# Larger ones -> the reason why they may be.
LARGER: dict[str, str] = {
    "duckdb_adapter/arrow_source.py:_source_classes": "classes made once their base is known",
}

SOURCES = sorted(
    path.relative_to(REPOSITORY)
    for package in ("lancefs", "duckdb_adapter")
    for path in (REPOSITORY / package).rglob("*.py")
    if not path.name.endswith("_pb2.py")  # generated
)
DATAFILE = REPOSITORY / "lancefs" / "datafile"
# What `lancefs.datafile.v2_1.encodings` says that a file of it may have: one function a position.
POSITIONS = {
    "decode_chunks",
    "decode_at",
    "value_lengths",
    "decode_blocks",
    "decode_sequence",
    "decode_fixed",
    "decode_variable",
    "has_payload",
}
# Public functions beside them, which others build on.
SHARED = {
    "dictionary": {"look_up"},
    "fixed_size_list": {"items_are_valid"},
    "flat": {"flat_values"},
    "general": {"decompress", "decompress_chunks"},
}


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse((REPOSITORY / path).read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function, without those of its docstring."""
    length = (function.end_lineno or 0) - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        length -= (docstring.end_lineno or 0) - docstring.lineno + 1
    return length


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_files_and_functions_are_small(path: Path) -> None:
    lines = (REPOSITORY / path).read_text("utf-8").count("\n")
    assert lines <= LINES_OF_A_FILE or str(path) in LARGER, f"{path} has {lines} lines"
    for function in functions(path):
        length = length_of(function)
        name = f"{path}:{function.name}"
        assert length <= LINES_OF_A_FUNCTION or name in LARGER, f"{name} has {length} lines"


def test_what_may_be_larger_still_is() -> None:
    for name in LARGER:
        path, _, function = name.partition(":")
        lengths = [length_of(f) for f in functions(Path(path)) if f.name == function]
        assert max(lengths, default=0) > LINES_OF_A_FUNCTION, f"{name} needs no exception any more"


def _files(room: str, besides: set[str]) -> set[str]:
    return {path.stem for path in (DATAFILE / room).glob("*.py")} - {"__init__", *besides}


def _public(module: object) -> set[str]:
    """The public functions that a module defines itself."""
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
    assert sorted(encodings._MODULES.values()) == sorted(_files("v2_1/encodings", {"registry"}))
    for name in encodings._MODULES.values():
        public = _public(import_module(f"lancefs.datafile.v2_1.encodings.{name}"))
        assert public & POSITIONS, f"{name} decodes nothing"
        assert public - POSITIONS == SHARED.get(name, set())


def test_an_array_encoding_is_one_file_with_one_entry() -> None:
    shared = {
        "compression",
        "extents",
        "array_outlines",
        "array_page",
        "reader",
        "registry",
        "widths",
    }
    assert sorted(arrays._MODULES.values()) == sorted(_files("v2_0", shared))
    for name in arrays._MODULES.values():
        assert "read" in _public(import_module(f"lancefs.datafile.v2_0.{name}"))


def test_a_legacy_encoding_is_one_file_with_one_entry() -> None:
    shared = {
        "column",
        "footer",
        "offsets",
        "outlines",
        "page_table",
        "page_slots",
        "reader",
        "registry",
    }
    names = {reader.__module__.rpartition(".")[2] for reader in legacy._READERS.values()}
    assert names == _files("legacy", shared)
    assert {reader.__name__ for reader in legacy._READERS.values()} == {"read"}


def test_decoders_do_no_io() -> None:
    """They ask for byte ranges (`Steps`); only readers of whole files hold a `File`."""
    openers = {
        "container",
        "data_file",
        "legacy/reader",
        "legacy/footer",
        "v2_1/reader",
        "v2_0/reader",
    }
    for path in DATAFILE.rglob("*.py"):
        name = path.relative_to(DATAFILE).with_suffix("").as_posix()
        tree = ast.parse(path.read_text("utf-8"))
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "lancefs.storage"
            for alias in node.names
        }
        if name not in openers:
            assert imported <= {"ByteRange", "Bytes", "Steps", "together"}, name
