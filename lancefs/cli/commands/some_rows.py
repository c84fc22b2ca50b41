"""`lancefs head`, `tail` and `sample`: some rows of a version."""

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


@shared_options.command(
    examples="""
    lancefs tail orders.lance
    lancefs tail orders.lance@7 -n 3 -c city,price -w "price > 3"
    """
)
@shared_options.table
@shared_options.some_rows
@shared_options.output
def tail(target: Target, wanted: RowOptions) -> None:
    """Show the last rows of a version, in the order of the table."""
    from lancefs.cli.scanning import print_some, scanner

    print_some(target, scanner(target, wanted).tail(wanted.rows), wanted)


@shared_options.command(
    examples="""
    lancefs sample orders.lance
    lancefs sample orders.lance@7 -n 100 --seed 1 --format csv > sample.csv
    """
)
@shared_options.table
@shared_options.some_rows
@click.option(
    "--seed", type=shared_options.WholeNumber(min=0), help="The same seed draws the same rows."
)
@shared_options.output
def sample(target: Target, wanted: RowOptions, seed: int | None) -> None:
    """Show a random sample of rows without replacement, in the order of the table."""
    from lancefs.cli.scanning import print_some, scanner

    print_some(target, scanner(target, wanted).sample(wanted.rows, seed), wanted)
