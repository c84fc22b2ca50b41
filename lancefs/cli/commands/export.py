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
    from lancefs.storage import Store

_FORMATS = ("parquet", "arrow", "csv", "tsv", "ndjson", "xlsx")


@shared_options.command(
    examples="""
    lancefs export orders.lance@prod out/
    lancefs export orders.lance@prod orders.parquet -c city,price
    lancefs export s3://bucket/big.lance gs://bucket/out/ --format arrow
    """,
    epilog="DEST is a file if it ends in .parquet, .arrow, .csv, .tsv, .ndjson or .xlsx, and a "
    "folder if it ends in / or has no ending. A folder gets one file a fragment. When it is "
    "interrupted, the same command goes on: files that are complete are kept.",
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
@shared_options.pairs_option(
    "--to-storage-option", "to_options", help="For the store of DEST, as --storage-option."
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
    """Write a version as files: Parquet, Arrow, CSV, TSV, NDJSON, or Excel's xlsx."""
    from lancefs.cli.exporting import Export, export_file, export_folder
    from lancefs.cli.render.progress import progress
    from lancefs.cli.scanning import checked_filter, selected_columns
    from lancefs.cli.target import open_store, refuse_inside_table

    if dest in ("-", "/dev/stdout"):
        raise Failure(
            f"{dest}: an export writes files; for standard output there is "
            f"lancefs sql \"FROM '{target.name}'\" --format csv"
        )
    store = open_store(dest, to_options)
    refuse_inside_table(store)
    is_file, form = _kind(dest, store, form)
    work = Export(
        name=target.address,
        dataset=target.dataset,
        columns=selected_columns(target, columns),
        filter=checked_filter(target, where),
        store=store,
        form=form,
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


def _kind(dest: str, store: Store, form: str | None) -> tuple[bool, str]:
    """Return whether DEST is a file rather than a folder, and the format.

    Args:
        dest: DEST, as it was written.
        store: The same, as a directory.
        form: The format that was asked for; None for what the ending says.

    Raises:
        Failure: The ending is not that of a format, or that of another one; or a file has the name
            of the folder.
    """
    name = dest.rpartition("/")[2]
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    if ending in _FORMATS:
        if form not in (None, ending):
            raise Failure(f"{dest}: its ending says {ending}, --format says {form}")
        return True, ending
    if ending and form is None and not store.fs.isdir(store.root):
        raise Failure(
            f"{dest}: .{ending} is the ending of no format; choose from {', '.join(_FORMATS)}. For "
            f"a folder of files write {dest}/, or add --format"
        )
    if store.fs.exists(store.root) and not store.fs.isdir(store.root):  # also one of a device
        raise Failure(f"{dest}: there is a file of that name; choose another folder")
    return False, form or "parquet"
