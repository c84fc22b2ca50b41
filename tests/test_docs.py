"""The code in the documents runs as it stands there, and prints what they say it prints.

- ```python blocks of a document run one after the other, in one namespace.
- ```console blocks hold commands after `$`, and their output; a line `…` stands for any lines.
  `python tests/test_docs.py` writes the output anew.
- Documents run in a directory of their own that has `examples/`.
- `<!-- test: spark -->` before a block: it needs Spark, and runs with the slow tests.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from support import REPOSITORY

from lancefs.cli import main

# Documents whose code is run by tests of their room, which have what it needs.
ELSEWHERE = {"duckdb.md": "tests/sql/test_duckdb_docs.py"}
# Documents whose code needs Spark throughout; without it, it must be Python.
PARSED = {"spark.md"}
# What the code of a document takes for granted.
GIVEN = {
    "architecture.md": """
from collections.abc import Generator, Sequence
from typing import TypeAlias, TypeVar

import pyarrow as pa
from lancefs.storage import ByteRange, Bytes

T = TypeVar("T")
"""
}
BLOCK = re.compile(
    r"(?:<!-- test: (?P<needs>\w+) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
# Languages whose blocks are not run: shell lines that install, and drawings.
SHOWN = {"", "sh"}
DOCUMENTS = sorted(
    path
    for path in [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md")]
    if path.name not in ELSEWHERE
)


@dataclass(frozen=True)
class Block:
    """A block of code, and what it needs."""

    language: str
    code: str
    needs: str | None


def blocks(path: Path) -> list[Block]:
    found = BLOCK.finditer(path.read_text("utf-8"))
    return [Block(one["language"], one["code"], one["needs"]) for one in found]


def run_commands(code: str, where: Path) -> Iterator[tuple[str, str]]:
    """Run the commands of a console block; yield each with its output."""
    command = f"{sys.executable} -m lancefs"
    env = {**os.environ, "COLUMNS": "100", "PYTHONPATH": str(REPOSITORY), "NO_COLOR": "1"}
    for line in code.splitlines():
        if not line.startswith("$ "):
            continue
        shell = f'lancefs() {{ {command} "$@"; }}\n{line[2:]}'
        done = subprocess.run(
            ["bash", "-c", shell],
            cwd=where,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        lines = [text.rstrip() for text in done.stdout.replace(f"{where}/", "").splitlines()]
        yield line, "\n".join(lines).rstrip()


def console(code: str, where: Path) -> str:
    """Return a console block with the output that its commands have now."""
    parts = [f"{line}\n{output}" if output else line for line, output in run_commands(code, where)]
    return "\n".join(parts) + "\n"


def is_as_said(said: str, output: str) -> bool:
    """Compare a console block with what its commands print; `…` is any lines but an error."""
    lines = ["(?!lancefs: ).*" if line == "…" else re.escape(line) for line in said.splitlines()]
    return re.fullmatch("\n".join(lines), output.rstrip("\n"), re.DOTALL) is not None


def prepare(where: Path) -> None:
    (where / "examples").symlink_to(REPOSITORY / "examples")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_code_of_a_document_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "document"}
    exec(GIVEN.get(path.name, ""), names)
    for block in blocks(path):
        if block.language == "python" and (block.needs or path.name in PARSED):
            ast.parse(block.code)
        elif block.language == "python":
            exec(compile(block.code, path.name, "exec"), names)
        elif block.language == "console":
            output = console(block.code, tmp_path)
            assert is_as_said(block.code, output), output
        else:
            assert path.name in PARSED or block.language in SHOWN, block


def test_each_option_of_the_command_line_is_documented() -> None:
    text = (REPOSITORY / "docs" / "command-line.md").read_text("utf-8")
    context = click.Context(main.lancefs)
    commands = [main.lancefs.get_command(context, name) for name in main.COMMANDS]
    lacking = {
        f"{command.name} {'/'.join(option.opts)}"
        for command in commands
        if command is not None
        for option in command.params
        if isinstance(option, click.Option)
        if not any(re.search(rf"(?<![\w-]){name}\b", text) for name in option.opts)
    }
    assert lacking == set()


def test_each_command_is_in_the_table_of_commands() -> None:
    text = (REPOSITORY / "docs" / "command-line.md").read_text("utf-8")
    assert {name for name in main.COMMANDS if f"\n| `{name}" not in text} == set()


def spark_program(path: Path) -> str:
    """Return the code of a document that needs Spark as a program: SQL is run by the session."""
    lines = []
    for block in blocks(path):
        if block.language == "python" and (block.needs == "spark" or path.name == "spark.md"):
            lines.append(block.code)
        elif block.language == "sql":
            code = re.sub(r"--.*", "", block.code)
            statements = [one.strip() for one in code.split(";") if one.strip()]
            lines += [f"spark.sql({statement!r}).show()" for statement in statements]
    return "\n".join(lines)


_SESSION = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").getOrCreate()
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["README.md", "docs/spark.md"])
def test_the_code_for_spark_runs(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed: make test-spark")
    prepare(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", _SESSION + spark_program(REPOSITORY / name)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if "JAVA_HOME" in done.stderr or "JAVA_GATEWAY_EXITED" in done.stderr:
        pytest.skip("there is no Java")
    assert done.returncode == 0, done.stderr
    assert "count" in done.stdout


def test_the_notebook_runs_and_shows_what_it_did() -> None:
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    path = REPOSITORY / "docs" / "tour.ipynb"
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    fresh = nbformat.from_dict(book)
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name))
        client.NotebookClient(
            fresh, timeout=120, kernel_name="python3", resources={"metadata": {"path": name}}
        ).execute()
    cells = [cell for cell in fresh.cells if cell.cell_type == "code"]
    assert len(cells) >= 6
    assert "text/html" in cells[0].outputs[0]["data"]
    assert [cell.source for cell in fresh.cells] == [cell.source for cell in book.cells]


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_what_is_tested_elsewhere_is(name: str) -> None:
    assert name in (REPOSITORY / ELSEWHERE[name]).read_text("utf-8")


def anchors(path: Path) -> set[str]:
    """Return what a link can name in a document, as GitHub makes it of the headings."""
    text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one).strip().lower().replace(" ", "-") for one in headings}


LINKING = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")]


@pytest.mark.parametrize("path", LINKING, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    for link, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", path.read_text("utf-8")):
        target = path.parent / link if link else path
        assert target.exists(), f"{path.name} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"{path.name} links to {link}#{anchor}"


def test_the_reading_order_takes_an_afternoon() -> None:
    text = (REPOSITORY / "docs" / "architecture.md").read_text("utf-8")
    steps = text.split("\n## A reading order\n")[1].split("\n## ")[0]
    sources = re.findall(r"`(lancefs/[\w/]+\.py)`", steps)
    assert len(sources) >= 10
    lines = [(REPOSITORY / source).read_text("utf-8").count("\n") for source in sources]
    assert sum(lines) < 4000


def write_output() -> None:
    """Write the output of all console blocks anew."""
    for path in DOCUMENTS:
        with tempfile.TemporaryDirectory() as name:
            where = Path(name)
            prepare(where)
            os.chdir(where)
            text, names = path.read_text("utf-8"), {"__name__": "document"}

            def renew(match: re.Match[str], where: Path = where, names: dict = names) -> str:
                if match["language"] == "python" and "lance.write" in match["code"]:
                    exec(match["code"], names)
                if match["language"] != "console":
                    return match[0]
                output = console(match["code"], where)
                return match[0] if is_as_said(match["code"], output) else f"```console\n{output}```"

            path.write_text(BLOCK.sub(renew, text), "utf-8")


if __name__ == "__main__":
    write_output()
