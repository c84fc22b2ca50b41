"""What names, values and messages of a stranger's table cannot do where they are shown.

A name may change what a terminal does, hide what was printed before it, or be a part of a page.
"""

from __future__ import annotations

import html.parser
import json
import logging
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support import rewrite_manifest

import lancefs
from lancefs.cli.main import main
from lancefs.errors import (
    ColumnNotFound,
    CorruptFile,
    LanceError,
    MissingFile,
    NoSuchPath,
    RefNotFound,
)
from lancefs.filesystem import LanceFileSystem
from lancefs.printable import get_logger, printable
from lancefs.proto import table_pb2

# What a terminal acts on: escape, bell, carriage return, backspace, delete, C1 controls, changes of
# the direction of writing, line separators.
CONTROLS = "\x1b[31m\a\r\b\x7f\x9b31m\u202e\u2066\u2069\u2028\u200f"
HTML = "<script>alert(1)</script><!--\"'&amp;]]>-->"
HOSTILE = f"x{CONTROLS}{HTML}"


def assert_shown(text: str) -> None:
    """Assert that a terminal shows a text, and nothing more."""
    found = {char for char in text if not char.isprintable() and char != "\n"}
    assert found == set(), text


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose names, values, settings, tags and folder are hostile."""
    path = tmp_path_factory.mktemp("hostile") / "t.lance"
    rows = {
        "s": [HOSTILE, HTML],
        "n": [1, 2],
        "l": [[HOSTILE], []],
        "d": [{"x": HOSTILE}, {"x": "b"}],
    }
    lance.write_dataset(pa.table(rows), str(path))
    lance.write_dataset(pa.table(rows), str(path), mode="append")
    lance.dataset(str(path)).tags.create("prod", 2)
    tags = path / "_refs" / "tags"
    (tags / "prod.json").rename(tags / f"{CONTROLS}.json")

    def change(message: table_pb2.Manifest) -> None:
        message.fields[0].name = HOSTILE
        message.fields[1].name = f"n{CONTROLS}"
        message.config[HOSTILE] = HOSTILE
        message.table_metadata[HOSTILE] = HOSTILE
        message.writer_version.library = HOSTILE
        message.writer_version.version = HOSTILE
        for field in message.fields:
            field.metadata[HOSTILE] = HOSTILE.encode()

    rewrite_manifest(path, change)
    return path.rename(path.with_name(f"t{CONTROLS}.lance"))


COMMANDS = [
    *(["ls"], ["ls", "-l"], ["tree"], ["tree", "--depth", "3"], ["head"], ["schema"], ["log"]),
    *(["show"], ["show", "--all"], ["verify"], ["du"], ["describe"], ["log", "-x"]),
    *(
        [name, "--format", "json"]
        for name in ("ls", "tree", "head", "schema", "log", "show", "du", "describe")
    ),
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_no_command_sends_control_characters_to_a_terminal(
    arguments: list[str], table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *options = arguments
    main([name, str(table), *options])
    out, err = capsys.readouterr()
    assert out
    assert_shown(out)
    assert_shown(err)


def test_a_folder_is_listed_without_control_characters(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["ls"], ["ls", "-l"], ["tree"]):
        assert main([*arguments, str(table.parent)]) == 0
        out = capsys.readouterr().out
        assert "\\x1b" in out
        assert_shown(out)


def test_versions_are_compared_without_control_characters(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["diff", str(table), "1", "2", "--rows"])
    main(["diff", str(table), "1", "2"])
    main(["describe", str(table), "--against", "1"])
    out, err = capsys.readouterr()
    assert "\\x1b" in out
    assert_shown(out)
    assert_shown(err)


def test_queries_show_no_control_characters(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quoted = str(table).replace("'", "''")
    for query in (f"FROM '{quoted}'", f"SELECT {HOSTILE!r}", "SELECT chr(27) AS a, chr(13) AS b"):
        for form in ("table", "json"):
            main(["sql", query, "--format", form])
            out, err = capsys.readouterr()
            assert_shown(out)
            assert_shown(err)


def test_errors_show_no_control_characters(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["head", f"{table}@{HOSTILE}"],
        ["head", f"{table}{CONTROLS}"],
        ["head", str(table), "-c", CONTROLS],
        ["head", str(table), "-w", f"'{CONTROLS}' > 3"],
        [CONTROLS],
        ["--debug", "head", f"{table}@{HOSTILE}"],
    ):
        assert main(arguments) != 0
        out, err = capsys.readouterr()
        assert out == ""
        assert_shown(err)


def test_json_that_is_printed_is_the_same_data(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["head", str(table), "--format", "json", "-n", "1"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row[HOSTILE] == HOSTILE
    assert row["l"] == [HOSTILE]
    assert main(["show", str(table), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["config"] == {HOSTILE: HOSTILE}


@pytest.mark.parametrize("kind", [LanceError, CorruptFile, ColumnNotFound, MissingFile, NoSuchPath])
def test_every_error_shows_no_control_characters(kind: type[LanceError]) -> None:
    assert_shown(str(kind(HOSTILE)))
    error = kind(HOSTILE)
    if isinstance(error, CorruptFile):
        error.path, error.place = HOSTILE, [HOSTILE]
        assert_shown(str(error))
    assert str(kind("Größe 3 – „ä“ 文字")) == "Größe 3 – „ä“ 文字"


def test_a_missing_ref_lists_the_others_without_control_characters(table: Path) -> None:
    with pytest.raises(RefNotFound) as caught:
        lancefs.open(table, tag="nothing")
    assert "\\x1b" in str(caught.value)
    assert_shown(str(caught.value))


def test_logs_show_no_control_characters(caplog: pytest.LogCaptureFixture) -> None:
    logger = get_logger("lancefs.test")
    get_logger("lancefs.test").warning("%s %d %s", HOSTILE, 3, CorruptFile(HOSTILE))
    assert_shown(caplog.records[-1].getMessage())
    assert len(logger.filters) == 1
    assert logger is logging.getLogger("lancefs.test")


def test_reprs_show_no_control_characters(table: Path) -> None:
    dataset = lancefs.open(table)
    fs = LanceFileSystem(fo=str(table))
    for shown in (repr(dataset), repr(fs), repr(dataset.fragments[0]), str(dataset)):
        assert_shown(shown)


class _Elements(html.parser.HTMLParser):
    """The elements of a page, and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes.update(name for name, _ in attrs)


def assert_harmless(page: str) -> None:
    elements = _Elements()
    elements.feed(page)
    assert elements.names.isdisjoint({"script", "img", "iframe", "object", "a", "form"})
    assert not any(name.startswith("on") for name in elements.attributes)
    assert_shown(page)


def test_html_for_notebooks_holds_names_and_values_as_text(table: Path) -> None:
    page = lancefs.open(table)._repr_html_()
    assert "&lt;script&gt;" in page
    assert_harmless(page)


def test_a_report_holds_names_as_text(table: Path, tmp_path: Path) -> None:
    assert main(["report", str(table), "-o", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "&lt;script&gt;" in page
    assert_harmless(page.replace('<link rel="icon" href="data:,">', ""))


@pytest.mark.parametrize("name", ["$\\frac{1}$", "a$b", "--><script>x</script>", '" onload="x'])
def test_a_chart_takes_any_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(10), "b": ["x"] * 10}), str(path))

    def change(message: table_pb2.Manifest) -> None:
        message.fields[0].name = name

    rewrite_manifest(path, change)
    assert main(["report", str(path), "-o", str(tmp_path / "report.html")]) == 0
    assert_harmless((tmp_path / "report.html").read_text())


def test_what_is_printable_stays_as_it_is() -> None:
    for text in ("", "plain text", "Größe – „ä“ 文字 😀", "C:\\x1b"):
        assert printable(text) == text
    assert printable(CONTROLS).startswith("\\x1b[31m\\x07\\r\\x08\\x7f\\x9b31m\\u202e")
