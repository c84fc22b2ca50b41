"""`lancefs nearest`: the rows whose vectors are nearest to a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lancefs.cli import shared_options
from lancefs.cli.exits import wrong_input
from lancefs.cli.vectors import query_vector, vector_options

if TYPE_CHECKING:
    from lancefs.cli.scanning import RowOptions
    from lancefs.cli.target import Target


@shared_options.command(
    examples="""
    lancefs nearest items.lance --column v --like 17
    lancefs nearest items.lance@prod --column v --vector query.json -n 5 -c id,name
    echo '[0.5, 1, -2]' | lancefs nearest items.lance --column v --vector - --metric cosine
    lancefs nearest items.lance --column v --like 17 -w "price < 3" --refine-factor 5 --explain
    """
)
@shared_options.table
@click.option("--column", required=True, metavar="NAME", help="The column of vectors.")
@vector_options
@click.option(
    "--metric",
    type=shared_options.NearestChoice(("l2", "cosine", "dot", "hamming")),
    help="How vectors are compared; by default as the index does, or l2.",
)
@click.option(
    "--nprobes", type=shared_options.WholeNumber(min=1), help="Partitions of an index to look at."
)
@click.option(
    "--refine-factor",
    type=shared_options.WholeNumber(min=1),
    help="Compute exact distances of this many times as many rows.",
)
@shared_options.some_rows
@click.option("--explain", is_flag=True, help="Show no rows, but how they are found.")
@shared_options.output
def nearest(
    target: Target,
    wanted: RowOptions,
    column: str,
    like: int | None,
    vector: str | None,
    metric: str | None,
    nprobes: int | None,
    refine_factor: int | None,
    explain: bool,
) -> None:
    """Show the rows whose vectors are nearest to that of a row or in a file, nearest first."""
    from lancefs.cli.scanning import checked_filter, print_found, selected_columns

    query = query_vector(target, column, like, vector)
    with wrong_input():
        search = target.dataset.vector_search(
            column,
            query,
            wanted.rows,
            metric,
            nprobes=nprobes,
            refine_factor=refine_factor,
            filter=checked_filter(target, wanted.where),
            columns=selected_columns(target, wanted.columns),
            use_index=wanted.use_index,
        )
    print_found(target, search, wanted, explain)
