"""`lancefs count`: the number of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lancefs.cli import shared_options

if TYPE_CHECKING:
    from lancefs.cli.target import Target


@shared_options.command(
    examples="""
    lancefs count orders.lance
    lancefs count orders.lance@prod -w "price > 3"
    """
)
@shared_options.table
@shared_options.where
@shared_options.no_index
def count(target: Target, where: str | None, use_index: bool) -> None:
    """Print the number of rows, of all or of those for which a condition is true."""
    from lancefs.cli.scanning import checked_filter

    filter = checked_filter(target, where)
    click.echo(target.dataset.count_rows(filter, use_index=use_index))
