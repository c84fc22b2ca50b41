"""`lancefs report`: an HTML page about a version of a table."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lancefs.cli import shared_options
from lancefs.cli.exits import MISSING, Failure
from lancefs.cli.render.grid import tell
from lancefs.cli.render.text import size

if TYPE_CHECKING:
    from lancefs.cli.target import Target


@shared_options.command(
    examples="""
    lancefs report orders.lance -o report.html
    lancefs report orders.lance@prod -o - > report.html
    lancefs report orders.lance -o report.html --describe --sample 10000
    """
)
@shared_options.table
@click.option(
    "--output", "-o", metavar="FILE", required=True, help="The file to write; - is standard output."
)
@click.option(
    "--describe", "is_described", is_flag=True, help="Read the rows, and show what values are like."
)
@click.option(
    "--sample",
    type=shared_options.WholeNumber(min=1),
    help="With --describe: read only this many rows, drawn at random.",
)
def report(target: Target, output: str, is_described: bool, sample: int | None) -> None:
    """Write a page about a table: versions, fragments, storage, columns, indices, findings.

    One HTML file that needs no network.
    """
    try:
        import matplotlib  # noqa: F401  # charts need it: fail before the table is read
    except ImportError as error:
        raise Failure(
            "report needs matplotlib, which is not installed: pip install 'lancefs[report]'",
            MISSING,
        ) from error
    if sample is not None and not is_described:
        raise Failure("--sample is for --describe: add --describe")
    from lancefs.cli.render.progress import progress
    from lancefs.cli.report.facts import gather
    from lancefs.cli.report.page import make_page
    from lancefs.cli.target import open_store, refuse_inside_table

    if output != "-":
        refuse_inside_table(open_store(os.path.abspath(output), {}))
    profile = None
    if is_described:
        rows = None if sample is not None else len(target.dataset)
        with progress("reading", rows) as shown:
            profile = target.dataset.describe(sample=sample, on_rows=shown.advance)
    data = make_page(gather(target, profile)).encode("utf-8", "xmlcharrefreplace")
    if output == "-":
        sys.stdout.buffer.write(data)
        return
    try:
        Path(output).write_bytes(data)
    except OSError as error:
        raise Failure(f"-o {output}: {error.strerror or error}") from error
    tell(f"{output}: {size(len(data))}")
