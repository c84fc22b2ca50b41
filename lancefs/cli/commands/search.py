"""`lancefs search`: the rows whose texts fit best to a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lancefs.cli import shared_options
from lancefs.cli.exits import Failure, wrong_input
from lancefs.cli.vectors import query_vector, vector_options

if TYPE_CHECKING:
    from lancefs.cli.scanning import RowOptions
    from lancefs.cli.target import Target
    from lancefs.search.hybrid_search import HybridSearch
    from lancefs.search.text_search import TextSearch


def _fuzziness(text: str) -> int | None:
    """Return a number of edits; None for `auto`."""
    if text == "auto":
        return None
    if not text.isdecimal():
        raise click.BadParameter(f"{text!r} is neither a number from 0 on nor auto")
    return int(text)


@shared_options.command(
    examples="""
    lancefs search items.lance "quick brown fox"
    lancefs search items.lance@prod '"brown fox"' --column text -n 5 -c id,text
    lancefs search items.lance "bron fax" --fuzzy 1
    lancefs search items.lance "brown fox" --all -w "price < 3" --explain
    lancefs search items.lance "brown fox" --vector-column v --like 17
    """
)
@shared_options.table
@click.argument("query")
@click.option(
    "--column",
    "names",
    multiple=True,
    metavar="NAME",
    help="A column to search in; all that have a full-text index by default.",
)
@click.option("--all", "needs_all", is_flag=True, help="Find texts with all words, not with any.")
@click.option(
    "--fuzzy",
    type=_fuzziness,
    default="0",
    metavar="N|auto",
    help="Find words that have up to N characters more, less or changed; auto: 2 in long words.",
)
@click.option(
    "--vector-column", metavar="NAME", help="Find rows by the vectors of this column, too."
)
@vector_options
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1),
    help="Weight of the vectors' distances against the texts' scores; by default, ranks count.",
)
@shared_options.some_rows
@click.option("--explain", is_flag=True, help="Show no rows, but how they are found.")
@shared_options.output
def search(
    target: Target,
    wanted: RowOptions,
    query: str,
    names: tuple[str, ...],
    needs_all: bool,
    fuzzy: int | None,
    vector_column: str | None,
    like: int | None,
    vector: str | None,
    alpha: float | None,
    explain: bool,
) -> None:
    """Show the rows whose texts match words, or a phrase in quotation marks, best.

    With --vector-column, the rows that such a search and `lancefs nearest` rank best together.
    """
    from lancefs.cli.scanning import checked_filter, print_found, selected_columns
    from lancefs.search.text_query import MatchQuery

    words: str | MatchQuery = query
    if needs_all or fuzzy != 0:
        words = MatchQuery(query, operator="AND" if needs_all else "OR", fuzziness=fuzzy)
    shown = selected_columns(target, wanted.columns)
    filter = checked_filter(target, wanted.where)
    with wrong_input():
        found: TextSearch | HybridSearch
        if vector_column is not None:
            found = target.dataset.hybrid_search(
                vector_column,
                query_vector(target, vector_column, like, vector),
                words,
                wanted.rows,
                text_columns=list(names) or None,
                alpha=alpha,
                columns=shown,
                filter=filter,
                use_index=wanted.use_index,
            )
        elif like is None and vector is None and alpha is None:
            found = target.dataset.text_search(
                words,
                list(names) or None,
                wanted.rows,
                filter=filter,
                select=shown,
                use_index=wanted.use_index,
            )
        else:
            raise Failure("--like, --vector and --alpha are for a search with --vector-column")
        print_found(target, found, wanted, explain)
