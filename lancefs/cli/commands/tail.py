"""`lancefs tail`: the last rows of a version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancefs.cli import shared_options

if TYPE_CHECKING:
    from lancefs.cli.scanning import RowOptions
    from lancefs.cli.target import Target


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
