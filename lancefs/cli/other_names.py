"""Names of commands and options in other programs, and what they are called here."""

from __future__ import annotations

import re
from collections.abc import Collection

from lancefs.cli.shared_options import FORMATS

COMMANDS = {
    **dict.fromkeys(("cat", "first", "rows", "view"), "head"),
    **dict.fromkeys(("check", "fsck", "validate"), "verify"),
    **dict.fromkeys(("columns", "fields", "types"), "schema"),
    **dict.fromkeys(("convert", "copy", "cp", "save", "write"), "export"),
    **dict.fromkeys(("history", "refs", "tags", "versions"), "log"),
    **dict.fromkeys(("details", "fragments", "indexes", "indices", "info", "inspect"), "show"),
    **dict.fromkeys(("profile", "stats", "summary"), "describe"),
    **dict.fromkeys(("query", "select", "shell"), "sql"),
    "branches": "tree",
    "list": "ls",
    "size": "du",
    "version": "lancefs --version",
}
# Options: which one is meant here, and how it is written.
_OPTIONS = {
    **dict.fromkeys(
        ("--count", "--limit", "--lines", "--num", "--number", "--rows", "-k"), ("-n", "-n")
    ),
    **dict.fromkeys(
        ("--offset", "--order", "--order-by", "--skip", "--sort", "--sort-by"),
        ("-n", "lancefs sql, with ORDER BY and OFFSET"),
    ),
    **dict.fromkeys(("--cols", "--select"), ("--columns", "--columns")),
    **dict.fromkeys(("--filter", "--predicate"), ("--where", "--where")),
    **dict.fromkeys(("--branch", "--ref", "--tag", "--version"), ("--as-of", "t.lance@REF")),
    **{f"--{name}": ("--format", f"--format {name}") for name in FORMATS},
}


def option(name: str, known: Collection[str]) -> str | None:
    """Return how an option of another program is written here.

    Args:
        name: The option.
        known: The options that the command has.

    Returns:
        None if it is not known what is meant, or the command has no such option.
    """
    if re.fullmatch("-[0-9]", name):  # as in `head -5`
        name = "--lines"
    meant, written = _OPTIONS.get(name, ("", ""))
    return written if meant in known else None
