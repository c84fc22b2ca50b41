"""`lancefs export`: a version as files that everything reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lancefs.cli import shared_options
from lancefs.cli.exits import Failure
from lancefs.cli.render.grid import tell
from lancefs.cli.render.text import plural, size

if TYPE_CHECKING:
    from lancefs.cli.target import Target

_FORMATS = ("parquet", "arrow", "csv")


@shared_options.command(
    examples="""
    lancefs export orders.lance@prod out/
    lancefs export orders.lance@prod orders.parquet -c city,price
    lancefs export s3://bucket/big.lance gs://bucket/out/ --format arrow
    """,
    epilog="A folder gets one file a fragment. When it is interrupted, the same command goes on: "
    "files that are complete are kept.",
)
@shared_options.table
@click.argument("dest", metavar="DEST")
@click.option(
    "--format",
    "-f",
    "form",
    type=shared_options.NearestChoice(_FORMATS),
    help="By default, what the ending of DEST says, or parquet.",
)
@shared_options.columns
@shared_options.where
@shared_options.no_index
@click.option("--overwrite", is_flag=True, help="Replace what another export left in DEST.")
@click.option(
    "--to-storage-option",
    "to_options",
    multiple=True,
    metavar="KEY=VALUE",
    callback=lambda _ctx, _param, value: shared_options.read_options(value),
    help="For the store of DEST, as --storage-option.",
)
def export(
    target: Target,
    dest: str,
    form: str | None,
    columns: list[str] | None,
    where: str | None,
    use_index: bool,
    overwrite: bool,
    to_options: dict[str, Any],
) -> None:
    """Write a version as Parquet, Arrow or CSV: a file, or a folder of one file a fragment."""
    from lancefs.cli.exporting import Export, export_file, export_folder
    from lancefs.cli.render.progress import progress
    from lancefs.cli.scanning import checked_filter, selected_columns
    from lancefs.cli.target import open_store

    ending = dest.rpartition(".")[2].lower() if "." in dest.rpartition("/")[2] else ""
    is_file = ending in _FORMATS and not dest.endswith("/")
    if is_file and form not in (None, ending):
        raise Failure(f"{dest}: its ending says {ending}, --format says {form}")
    work = Export(
        name=target.address,
        dataset=target.dataset,
        columns=selected_columns(target, columns),
        filter=checked_filter(target, where),
        store=open_store(dest, to_options),
        form=form or (ending if is_file else "parquet"),
        selection={"columns": columns, "where": where},
        use_index=use_index,
    )
    with progress("exporting", target.dataset.count_rows()) as shown:
        written = (
            export_file(work, shown.advance, overwrite)
            if is_file
            else export_folder(work, shown.advance, overwrite)
        )
    kept = f", {plural(written.kept, 'file')} of them from before" if written.kept else ""
    tell(
        f"{target.name}: {plural(written.rows, 'row')} in {plural(written.files, 'file')}, "
        f"{size(written.size)}{kept}"
    )
