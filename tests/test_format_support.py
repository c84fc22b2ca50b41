"""`docs/format-support.md` says what is true: of the code, and of the files of the corpus."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from corpus_pages import occurrences
from support import REPOSITORY, corpus_cases, corpus_refs, needs_corpus

from lancefs.datafile import logical_types
from lancefs.datafile.legacy import encodings as legacy_encodings
from lancefs.datafile.v2_0 import encodings as array_encodings
from lancefs.datafile.v2_1.encodings import registry as encodings
from lancefs.proto.encodings_v2_0_pb2 import ArrayEncoding
from lancefs.proto.encodings_v2_1_pb2 import CompressiveEncoding, PageLayout
from lancefs.proto.encodings_v2_3_pb2 import StructuralPlane, ValuePlane
from lancefs.table.flags import ReaderFlags

PAGE = (REPOSITORY / "docs" / "format-support.md").read_text("utf-8")
VERSIONS = ("0.1", "2.0", "2.1", "2.2", "2.3")
Cells = dict[tuple[str, str], str]  # row and file version -> what the page says

# How the page spells layouts -> how the messages do.
LAYOUTS = {
    "mini-block": "mini_block_layout",
    "full-zip": "full_zip_layout",
    "constant": "constant_layout",
    "blob": "blob_layout",
}


def rows_of(title: str) -> Iterator[dict[str, str]]:
    """Yield the rows of the tables below a heading, each by the titles of its columns."""
    section = PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    head: list[str] = []
    for line in section.splitlines():
        if not line.startswith("|"):
            head = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not head:
            head = cells
        elif not set(cells[0]) <= {"-"}:
            yield dict(zip(head, cells, strict=True))


def cells_of(title: str) -> Cells:
    """Return what a table says of each of its rows, by file version."""
    found = {}
    for row in rows_of(title):
        name = next(iter(row.values()))
        for version in VERSIONS:
            found[name, version] = row.get(version, "–")
    assert set(found.values()) <= {"yes", "(yes)", "–"}
    return found


def names(cells: Cells) -> set[str]:
    return {name for name, _ in cells}


TABLES = {
    "layout": "Page layouts",
    "encoding": "Compressive encodings",
    "array": "Array encodings",
    "legacy": "Encodings of 0.1",
    "type": "Types",
}


def test_every_layout_is_on_the_page() -> None:
    structures = StructuralPlane.DESCRIPTOR.oneofs_by_name["codec"].fields
    values = ValuePlane.DESCRIPTOR.oneofs_by_name["codec"].fields
    planar = {f"{one.name} × {other.name}" for one in structures for other in values}
    planar.discard("dense × indexed")  # is refused
    read = {field.name for field in PageLayout.DESCRIPTOR.oneofs_by_name["layout"].fields}
    read.discard("sparse_layout")  # is refused
    assert {LAYOUTS.get(name, name) for name in names(cells_of("Page layouts"))} == read | planar


def test_every_encoding_is_on_the_page() -> None:
    known = set(encodings.ENCODINGS)
    assert names(cells_of("Compressive encodings")) == known
    oneof = CompressiveEncoding.DESCRIPTOR.oneofs_by_name["compression"]
    assert {field.name for field in oneof.fields} == known


def test_every_array_encoding_is_on_the_page() -> None:
    # Lists and structs span columns: the reader itself puts them together.
    assert names(cells_of("Array encodings")) == {*array_encodings.READERS, "list", "struct"}
    assert set(array_encodings.READERS) <= set(ArrayEncoding.DESCRIPTOR.fields_by_name)


def test_every_legacy_encoding_is_on_the_page() -> None:
    assert names(cells_of("Encodings of 0.1")) == {kind.name for kind in legacy_encodings.READERS}


def test_every_type_is_on_the_page() -> None:
    plain = {name.partition(":")[0] for name in logical_types.PLAIN}
    nested = {"struct", "list", "large_list", "map"}
    extensions = {"lance.json", "lance.bfloat16", "arrow.uuid", "arrow.fixed_shape_tensor"}
    assert names(cells_of("Types")) == plain | set(logical_types._FAMILIES) | nested | extensions


def test_every_reader_flag_is_on_the_page() -> None:
    rows = [(int(row["flag"]), row["name"]) for row in rows_of("Reader feature flags")]
    assert rows == [(flag.value, flag.name) for flag in ReaderFlags]


@needs_corpus
@pytest.mark.parametrize("kind", TABLES)
def test_yes_means_that_real_files_have_it(kind: str) -> None:
    cells = cells_of(TABLES[kind])
    spelled = LAYOUTS if kind == "layout" else {}
    said = {(spelled.get(name, name), v) for (name, v), mark in cells.items() if mark == "yes"}
    real = {(name, version) for of, name, version in occurrences() if of == kind}
    assert real - said == set(), "in files of the corpus, but not on the page"
    assert said - real == set(), "on the page, but in no file of the corpus"


@needs_corpus
def test_the_page_counts_the_corpus() -> None:
    expected = sum(ref.expected() is not None for ref in corpus_refs())
    assert f"None of the {len(corpus_cases())} tables" in PAGE.replace("\n", " ")
    assert f"all {expected} versions with expected rows" in PAGE.replace("\n", " ")


def refusals() -> Iterator[str]:
    """Yield the messages of `UnsupportedFeature` in the decoders, `…` for what is filled in."""
    rooms = [*(REPOSITORY / "lancefs" / "datafile").rglob("*.py")]
    for path in [*rooms, REPOSITORY / "lancefs" / "table" / "blobs.py"]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "UnsupportedFeature":
                yield _template(node.args[0], path)


def _template(message: ast.expr, path: Path) -> str:
    if isinstance(message, ast.Constant):
        return str(message.value)
    assert isinstance(message, ast.JoinedStr), f"{path}: a message that is no plain string"
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else "…" for part in message.values
    )


def test_what_is_refused_is_on_the_page() -> None:
    listed = {row["message"].strip("`") for row in rows_of("What is refused")}
    raised = set(refusals())
    assert raised - listed == set(), "raised, but not on the page"
    assert listed - raised == set(), "on the page, but never raised"


def test_what_lance_cannot_read_is_tried() -> None:
    source = (REPOSITORY / "tests" / "test_beyond_lance.py").read_text("utf-8")
    told = [row["what"] for row in rows_of("Read here, but not by pylance 14")]
    assert told
    missing = [what for what in told if f'"{what}"' not in source]
    assert not missing
