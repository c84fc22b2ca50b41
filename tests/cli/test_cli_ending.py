"""How commands end: errors in one line, exit codes, pipes, Ctrl-C, and how they start."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from running import (
    COMMAND,
    ENVIRONMENT,
    Here,
    interrupt_when_it_prints,
    run,
    run_program,
    run_without,
)
from support import ORDERS

WRONG = {
    "a command": (["hed", ORDERS], "there is no command 'hed': did you mean head?"),
    "a command of others": (["versions", ORDERS], "no command 'versions': did you mean log?"),
    "an option of others": (["head", ORDERS, "--json"], "'--json'. Did you mean --format json?"),
    "rows as an option": (["head", "-5", ORDERS], "no such option '-5'. Did you mean -n?"),
    "a version as an option": (["log", ORDERS, "--version", "2"], "Did you mean t.lance@REF?"),
    "a query for a predicate": (["head", ORDERS, "-w", "where price > 3"], "without where, at"),
    "an option": (["head", ORDERS, "--formt", "csv"], "Did you mean '--format'?"),
    "a format": (["head", ORDERS, "-f", "jsn"], "did you mean json or ndjson?"),
    "a path": (["head", f"{ORDERS[:-1]}"], "did you mean orders.lance?"),
    "a version": (["head", f"{ORDERS}@9"], "there is no version 9; the table has 1, 2, 3, 4"),
    "a tag": (["log", f"{ORDERS}@prd"], "no tag 'prd'; the table has the tags prod"),
    "a branch": (["show", f"{ORDERS}@exp:2"], "no branch 'exp'; the table has no branches"),
    "a ref": (["show", f"{ORDERS}@a b"], "'a b' is not a ref"),
    "a column": (["head", ORDERS, "-c", "cty"], "no column 'cty'; did you mean city?"),
    "columns": (["head", ORDERS, "-c", "city,,tea"], "names separated by commas"),
    "columns in lines": (["head", ORDERS, "-c", "city\nid"], "names separated by commas"),
    "a time out of range": (
        ["head", ORDERS, "--as-of", "9999-12-31T23:59:59-05:00"],
        "is not a point in time",
    ),
    "a number": (["head", ORDERS, "-n", "many"], "many: a whole number from 0 on was expected"),
    "a protocol": (["head", "fil://x.lance"], "did you mean file"),
    "a time": (["head", ORDERS, "--as-of", "yesterday"], "'yesterday' is not a point in time"),
    "a column in a predicate": (["head", ORDERS, "-w", "prize > 3"], "did you mean 'price'?"),
    "a predicate": (["head", ORDERS, "-w", "price >> 3"], "at character 8 of the filter: '> 3'"),
    "types in a predicate": (["head", ORDERS, "-w", "city > quantity"], "do not go together"),
    "a query": (["sql", "SELEC 1"], 'syntax error at or near "SELEC"'),
    "a query that is no text": (["sql", "SELECT '\udcff'"], "the query is not in UTF-8"),
    "a table in a query": (["sql", f"FROM '{ORDERS}@prd'"], "no tag 'prd'"),
    "a query of nothing": (["sql", "/* not yet */ ;"], "an empty query; give SQL"),
    "a query of a comment": (["sql", "-- not yet"], "an empty query; give SQL"),
    "an order of rows": (["head", ORDERS, "--sort-by", "price"], "Did you mean lancefs sql, with"),
    "a number of others": (["search", ORDERS, "tea", "-k", "3"], "'-k'. Did you mean -n?"),
    "a device for a folder": (
        ["export", ORDERS, "/dev/null", "-f", "csv"],
        "/dev/null: there is a file of that name",
    ),
    "the root": (["head", "/"], "lancefs: /: not a Lance table"),
    "an order": (["diff", ORDERS, "4", "1"], "the older version is expected first"),
    "a shell": (["completion", "bsh"], "did you mean bash"),
    "nothing": (["head"], "missing argument 'TABLE[@REF]'"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_input_gets_one_line_with_what_would_be_right(what: str, here: Here) -> None:
    arguments, expected = WRONG[what]
    done = here(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert done.err.startswith("lancefs: ")
    assert expected in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("option", ["--select", "--json", "-5"])
def test_no_option_is_suggested_that_a_command_has_not(option: str, here: Here) -> None:
    done = here("count", ORDERS, option)
    assert done.code == 2
    assert not any(name in done.err for name in ("--columns", "--format", "Did you mean -n"))


def test_a_process_ends_with_the_code_and_the_line() -> None:
    done = run("head", f"{ORDERS}@9")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("lancefs: ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--debug", "head"], ["head", "--debug"]])
def test_debug_shows_the_traceback(arguments: list[str], here: Here) -> None:
    done = here(*arguments, f"{ORDERS}@9")
    assert done.code == 2
    assert "Traceback" in done.err
    assert done.err.splitlines()[-1].startswith("lancefs: ")


def test_a_damaged_table_has_a_code_of_its_own(tmp_path: Path, here: Here) -> None:
    lance.write_dataset(pa.table({"a": range(100)}), tmp_path / "t.lance")
    (data,) = (tmp_path / "t.lance" / "data").iterdir()
    data.write_bytes(data.read_bytes()[:-8])
    done = here("head", str(tmp_path / "t.lance"))
    assert done.code == 3
    assert data.name in done.err
    assert done.err.count("\n") == 1


def test_an_error_of_a_store_is_told_as_it_is(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoCredentials(Exception):
        pass

    def refuse(*_: object, **__: object) -> None:
        raise NoCredentials("Unable to locate credentials")

    NoCredentials.__module__ = "botocore.exceptions"
    monkeypatch.setattr("lancefs.cli.target.resolve", refuse)
    done = here("log", ORDERS)
    assert done.code == 3
    assert done.err == "lancefs: NoCredentials: Unable to locate credentials\n"


def test_a_name_with_control_characters_does_not_steer_the_terminal(here: Here) -> None:
    done = here("head", "nowhere\x1b[2J.lance")
    assert done.code == 2
    assert "\x1b" not in done.err
    assert "\\x1b[2J" in done.err


@pytest.mark.parametrize("form", ["table", "json", "csv", "arrow"])
def test_a_reader_that_goes_away_ends_it_quietly(form: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": range(300_000)}), path)
    with subprocess.Popen(
        [*COMMAND, "head", path, "-n", "300000", "-f", form],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1)
        process.stdout.close()
        err = process.stderr.read()
        assert (process.wait(60), err) == (141, b"")


def test_ctrl_c_ends_it_quietly(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": range(3_000_000)}), path)
    done = interrupt_when_it_prints(["head", path, "-n", "3000000", "-f", "json"])
    assert (done.code, done.err) == (130, "")


def test_bytes_do_not_go_to_a_terminal() -> None:
    from running import run_on_terminal

    done = run_on_terminal(["head", ORDERS, "-f", "arrow"])
    assert done.code == 2
    assert "send it to a file or a program" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["--help"], ["numpy", "pyarrow", "fsspec", "rich", "duckdb"]),
        (["head", "--help"], ["numpy", "pyarrow", "fsspec", "rich", "duckdb"]),
        (["ls", ORDERS], ["pandas", "duckdb", "rich", "pyarrow.dataset", "pyarrow.compute"]),
        (["log", ORDERS], ["pandas", "duckdb", "rich", "pyarrow.dataset", "pyarrow.compute"]),
        (["show", ORDERS], ["pandas", "duckdb", "rich", "pyarrow.dataset"]),
        (["head", ORDERS, "-c", "city,price"], ["pandas", "duckdb", "rich"]),
        (
            ["count", ORDERS, "-w", "city in ('Gent', 'Graz') and quantity > 3 and price < 20.5"],
            ["pandas", "duckdb", "rich"],
        ),
        (
            ["head", ORDERS, "-c", "tea", "-w", "lower(tea) like '%grey' and price in (3, 4.5)"],
            ["pandas", "duckdb", "rich"],
        ),
    ],
    ids=" ".join,
)
def test_what_a_command_does_not_need_is_not_imported(
    arguments: list[str], unwanted: list[str]
) -> None:
    program = (
        "import sys; from lancefs.cli.entry import main; sys.argv[0] = 'lancefs'; code = main(); "
        "print('\\0', *sys.modules); sys.exit(code)"
    )
    done = run_program(program, *arguments)
    assert done.code == 0, done.err
    assert not set(unwanted) & set(done.out.rpartition("\0")[2].split())


def test_a_command_does_not_look_for_garbage_when_it_ends() -> None:
    program = (
        "import atexit, gc, sys; atexit.register(lambda: print('\\0', gc.get_freeze_count() > 0)); "
        "from lancefs.cli.entry import main; sys.exit(main())"
    )
    done = run_program(program, "schema", ORDERS)
    assert done.code == 0, done.err
    assert done.out.rpartition("\0")[2].strip() == "True"


def test_without_its_libraries_it_says_how_to_get_them() -> None:
    done = run_without("click")
    assert done.code == 4
    assert "pip install 'lancefs[cli]'" in done.err
    assert done.err.count("\n") == 1


def test_a_report_says_what_it_needs() -> None:
    done = run_without("matplotlib", "report", ORDERS, "-o", "r.html")
    assert done.code == 4
    assert "pip install 'lancefs[report]'" in done.err


@pytest.fixture
def complete(tmp_path: Path) -> Callable[[str], list[str]]:
    """Return what bash makes of a line and a tabulator: the words that it would insert.

    bash splits words at `@`, `:` and `=`, too, and replaces the last part only.
    """
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    script, command = run("completion", "bash").out, tmp_path / "command"
    command.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    command.chmod(0o700)

    def complete(line: str) -> list[str]:
        words = [one for one in re.split(r"(\s+|[@:=]+)", line) if not one.isspace()]
        words = [one for one in words[:-1] if one] + ([words[-1]] if words[-1] else [])
        words += [""] if line[-1].isspace() else []
        program = f"""
            compopt() {{ COMPREPLY+=("<$2>"); }}
            {script}
            COMP_WORDBREAKS=$' \\t\\n"\\'@><=;|&(:' COMP_LINE={shlex.quote(line)}
            COMP_POINT=${{#COMP_LINE}} COMP_WORDS=({shlex.join(words)})
            COMP_CWORD={len(words) - 1}
            _lancefs_completion {command}
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        done = subprocess.run(
            ["bash", "-c", program], capture_output=True, text=True, env=ENVIRONMENT, check=True
        )
        assert done.stderr == ""
        return done.stdout.splitlines()

    return complete


def test_completion_knows_commands_options_and_refs(
    complete: Callable[[str], list[str]], tmp_path: Path
) -> None:
    assert complete("lancefs he") == ["head"]
    assert complete("A=b lancefs head --form") == ["--format"]
    assert complete("lancefs head ord") == ["<default>"]
    assert complete(f"lancefs head {ORDERS}@") == ["latest", "prod", "4", "3", "2", "1"]
    path = tmp_path / "a b.lance"
    lance.write_dataset(pa.table({"a": [1]}), path)
    lance.dataset(path).create_branch("exp", 1)
    assert complete(f"lancefs head {str(path).replace(' ', chr(92) + ' ')}@exp:") == ["latest"]


def test_completion_inserts_nothing_that_a_shell_acts_on(
    complete: Callable[[str], list[str]], tmp_path: Path
) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": [1]}), path)
    lance.dataset(path).tags.create("prod", 1)
    (tag,) = (path / "_refs" / "tags").iterdir()
    for name in ("p$(touch${IFS}x)", "p;reboot", "p`x`", "p\nplain,x", "p\x1b[31m", "p*", "p x"):
        (tag.parent / f"{name}.json").write_bytes(tag.read_bytes())
    assert complete(f"lancefs head {path}@p") == ["prod"]


def test_a_long_predicate_is_read_or_refused_in_one_line(here: Here) -> None:
    done = here("head", ORDERS, "-n", "1", "-f", "csv", "-w", " AND ".join(["price > 3"] * 3000))
    assert done.code == 0
    assert done.out.count("\n") == 2
    done = here("head", ORDERS, "-w", f"price > {'9' * 100_000}")
    assert (done.code, done.out) == (2, "")
    assert "a number of 100,000 digits; at most 400 are read" in done.err
    assert done.err.count("\n") == 1
    assert len(done.err) < 400


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_what_the_output_cannot_encode_is_escaped(tmp_path: Path, encoding: str) -> None:
    lance.write_dataset(pa.table({"Łódź": ["日本"]}), str(tmp_path / "t.lance"))
    for arguments in (["tree", str(tmp_path)], ["head", str(tmp_path / "t.lance")]):
        done = run(*arguments, env={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"})
        assert (done.code, done.err) == (0, "")
    assert "\\u65e5\\u672c" in done.out


@pytest.mark.skipif(os.name != "posix", reason="closes descriptors in a shell")
def test_streams_that_are_closed_are_not_written_to() -> None:
    def run_closed(arguments: list[str], closed: str) -> subprocess.CompletedProcess[str]:
        line = f"{shlex.join([*COMMAND, *arguments])} {closed}"
        return subprocess.run(
            ["sh", "-c", line], capture_output=True, text=True, env=ENVIRONMENT, check=False
        )

    done = run_closed(["count", ORDERS], "2>&-")
    assert (done.returncode, done.stdout.strip().isdecimal()) == (0, True)
    done = run_closed(["count", f"{ORDERS}@9"], "2>&-")
    assert (done.returncode, done.stdout) == (2, "")
    for command in ("count", "log"):
        assert run_closed([command, ORDERS], ">&-").returncode == 0
    assert run_closed(["describe", ORDERS], "2>&-").returncode == 0
    done = run_closed(["sql"], "<&-")
    assert done.returncode == 2
    assert "a query was expected" in done.stderr


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_a_query_from_a_pipe_that_is_no_text(
    errors: str, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped = io.TextIOWrapper(io.BytesIO(b"SELECT '\xff'"), "utf-8", errors)
    monkeypatch.setattr("sys.stdin", piped)
    done = here("sql")
    assert done.code == 2
    assert done.err == "lancefs: the query is not in UTF-8, as DuckDB expects it\n"


def test_a_folder_of_one_file_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "README.txt").write_text("hello")
    done = run("ls", str(tmp_path))
    assert done.code == 0
    assert "a file" not in done.err


@pytest.mark.parametrize("words", [["diff"], ["search", "tea", "--column", "body"]])
def test_a_damaged_file_is_no_wrong_input(words: list[str], tmp_path: Path, here: Here) -> None:
    path = tmp_path / "t.lance"
    rows = pa.table({"id": [1], "body": ["tea"]})
    lance.write_dataset(rows, path)
    lance.write_dataset(rows, path, mode="append")
    for file in (path / "data").iterdir():
        file.write_bytes(bytes(file.stat().st_size))
    done = here(words[0], str(path), *words[1:])
    assert done.code == 3, done.err
    assert "/data/" in done.err
