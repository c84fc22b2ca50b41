"""`lancefs search`: the rows whose texts fit best to a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lancefs.cli import shared_options

if TYPE_CHECKING:
    from lancefs.cli.target import Target


@shared_options.command(
    examples="""
    lancefs search items.lance "quick brown fox"
    lancefs search items.lance@prod '"brown fox"' --column text -n 5 -c id,text
    lancefs search items.lance "brown fox" --all -w "price < 3" --explain
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
@shared_options.some_rows
@click.option("--explain", is_flag=True, help="Show no rows, but how they are found.")
@shared_options.output
def search(
    target: Target,
    query: str,
    names: tuple[str, ...],
    needs_all: bool,
    rows: int,
    columns: list[str] | None,
    where: str | None,
    use_index: bool,
    is_wide: bool,
    explain: bool,
    form: str,
) -> None:
    """Show the rows whose texts fit best to words, or to a phrase in quotation marks."""
    from lancefs.cli.exits import Failure
    from lancefs.cli.scanning import checked_filter, print_explained, print_some, selected_columns
    from lancefs.search.text_query import MatchQuery

    try:
        found = target.dataset.text_search(
            MatchQuery(query, operator="AND") if needs_all else query,
            list(names) or None,
            rows,
            filter=checked_filter(target, where),
            select=selected_columns(target, columns),
            use_index=use_index,
        )
        if explain:
            print_explained(found.explain())
            return
        table = found.to_table()
    except (TypeError, ValueError, ImportError) as error:
        raise Failure(str(error)) from error
    print_some(target, table, form, is_wide, where)
