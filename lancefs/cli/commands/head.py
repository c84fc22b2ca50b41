"""`lancefs head`: the first rows of a version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lancefs.cli import shared_options

if TYPE_CHECKING:
    from lancefs.cli.scanning import RowOptions
    from lancefs.cli.target import Target


@shared_options.command(
    examples="""
    lancefs head orders.lance
    lancefs head orders.lance@7 -n 3 -c city,price -w "price > 3 and city in ('Gent', 'Lyon')"
    lancefs head s3://bucket/orders.lance --storage-option anon=true --format json | jq .
    lancefs head orders.lance -n 1000000 --format arrow > orders.arrows
    """
)
@shared_options.table
@shared_options.some_rows
@click.option(
    "--explain", is_flag=True, help="Show no rows, but which indices are used and what is scanned."
)
@shared_options.output
def head(target: Target, wanted: RowOptions, explain: bool) -> None:
    """Show the first rows of a version, and read no others."""
    from lancefs.cli.render.grid import print_document
    from lancefs.cli.scanning import print_some, scanner

    scan = scanner(target, wanted, limit=wanted.rows)
    if explain:
        print_document(scan.explain())
        return
    print_some(target, scan.to_reader(), wanted)
