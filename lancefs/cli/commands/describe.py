"""`lancefs describe`: what the values of each column are like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lancefs.cli import shared_options
from lancefs.cli.exits import Failure

if TYPE_CHECKING:
    from lancefs.cli.target import Target


@shared_options.command(
    examples="""
    lancefs describe orders.lance
    lancefs describe orders.lance@prod -c city,price -w "price > 3"
    lancefs describe s3://bucket/orders.lance --sample 10000
    lancefs describe orders.lance --against v3
    lancefs describe orders.lance --format csv > columns.csv
    lancefs describe orders.lance --format json | jq '.columns[] | {name, nulls}'
    """,
    epilog="In one pass over the rows, in bounded memory: quantiles and bars of more than 131,072 "
    "rows come from a sample of that size. ≈ marks numbers that are not exact.",
)
@shared_options.table
@shared_options.columns
@shared_options.where
@click.option(
    "--sample",
    type=shared_options.WholeNumber(min=1),
    help="Read only this many rows, drawn at random.",
)
@click.option(
    "--seed",
    type=shared_options.WholeNumber(min=0),
    help="With --sample: the same seed draws the same rows.",
)
@click.option(
    "--against",
    metavar="REF",
    help="Show what differs from the values of another version: how far distributions are apart, "
    "quantiles, shares.",
)
@shared_options.output
def describe(
    target: Target,
    columns: list[str] | None,
    where: str | None,
    sample: int | None,
    seed: int | None,
    against: str | None,
    form: str,
) -> None:
    """Show nulls, distinct values, quantiles, histograms and frequent values of each column."""
    from lancefs.cli.render.grid import print_document
    from lancefs.cli.render.profile import print_drift, print_profile
    from lancefs.cli.render.progress import progress
    from lancefs.cli.render.rows import print_rows
    from lancefs.cli.render.text import to_json
    from lancefs.cli.scanning import checked_filter

    if against is not None and form not in ("table", "json"):
        raise Failure(f"--format {form} has a row a column of one version: choose json")
    filter = checked_filter(target, where)
    datasets = [target.dataset] + ([] if against is None else [target.dataset.checkout(against)])
    is_counted = filter is None and sample is None
    rows = sum(map(len, datasets)) if is_counted else None
    with progress("reading", rows) as shown:
        profile, *others = [
            dataset.describe(columns, filter, sample, seed, on_rows=shown.advance)
            for dataset in datasets
        ]
    if form == "json":
        found = profile.to_dict()
        if others:
            drift = [one.to_dict() for one in profile.drift(others[0])]
            found = {"table": profile.name, "against": others[0].name, "columns": drift}
        print_document(to_json(found, indent=2))
    elif others:
        print_drift(others[0], profile)
    elif form == "table":
        print_profile(profile)
    else:
        rows = profile.to_table()
        print_rows(rows.schema, rows.to_batches(), form)
