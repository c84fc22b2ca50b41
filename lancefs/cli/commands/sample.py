"""`lancefs sample`: rows of a version that are drawn at random."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lancefs.cli import shared_options

if TYPE_CHECKING:
    from lancefs.cli.scanning import RowOptions
    from lancefs.cli.target import Target


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
