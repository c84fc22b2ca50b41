"""`lancefs show`: what a version is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lancefs.cli import shared_options
from lancefs.cli.render.grid import Column, heading, is_terminal, print_grid, print_plain, styled
from lancefs.cli.render.text import count, moment, plural, share, size, to_json, words
from lancefs.errors import LanceError

if TYPE_CHECKING:
    from lancefs.cli.target import Target
    from lancefs.table.fragments import Fragment

_MOST = 20  # fragments that are shown, unless --all asks for more


@shared_options.command(
    examples="""
    lancefs show orders.lance
    lancefs show orders.lance@prod --all
    lancefs show orders.lance@7 --format json | jq '.fragments[].files[].path'
    """
)
@shared_options.table
@click.option("--all", "-a", "everything", is_flag=True, help="Show all fragments.")
@shared_options.table_or_json
def show(target: Target, everything: bool, form: str) -> None:
    """Show what a version is made of: fragments, files, deletions, indices, flags, settings."""
    said = describe(target)
    if form == "json":
        print_plain(to_json(said, indent=1))
        return
    _print_facts(said)
    fragments = said["fragments"]
    shown = fragments if everything else fragments[:_MOST]
    if fragments:
        print_plain()
        heading(plural(len(fragments), "fragment"))
        _print_fragments(shown)
        if len(shown) < len(fragments):
            print_plain(f"… {len(fragments) - len(shown):,} more; --all shows them")
    if said["indices"]:
        print_plain()
        heading(plural(len(said["indices"]), "index"))
        _print_indices(said["indices"])
    for name in ("config", "table_metadata", "base_paths"):
        if said[name]:
            print_plain()
            heading(name.replace("_", " "))
            for key, value in said[name].items():
                print_plain(f"  {key} = {value}")


def describe(target: Target) -> dict[str, Any]:
    """Return what a version is made of, as plain values."""
    manifest, problems = target.manifest, []
    indices: list[dict[str, Any]] = []
    fresher: list[dict[str, Any]] = []
    try:
        indices, fresher = _indices(target)
    except LanceError as error:
        problems = [f"indices: {error}"]
    try:
        transaction = _transaction(target)
    except LanceError as error:
        transaction, problems = None, [*problems, f"transaction: {error}"]
    return {
        "table": target.resolved.root.url(),
        "version": manifest.version,
        "branch": target.resolved.branch,
        "tags": _tags(target),
        "committed": manifest.timestamp,
        "operation": transaction,
        "rows": manifest.num_rows,
        "deleted_rows": _difference(manifest.physical_rows, manifest.num_rows),
        "columns": len(manifest.fields),
        "data_format": manifest.data_version,
        "writer": str(manifest.writer and f"{manifest.writer.library} {manifest.writer.version}"),
        "flags": [str(flag.name).lower() for flag in manifest.reader_flags],
        "manifest": target.resolved.manifest.url,
        "fragments": [_fragment(one) for one in manifest.fragments],
        "indices": indices,
        "unmerged_generations": fresher,
        "config": dict(manifest.config),
        "table_metadata": dict(manifest.table_metadata),
        "base_paths": {base.name or str(base.id): base.path for base in manifest.base_paths},
        "problems": problems,
    }


def _tags(target: Target) -> list[str]:
    from lancefs.table.refs import list_tags

    where = target.resolved
    tags = list_tags(where.root).values()
    return [
        tag.name for tag in tags if (tag.version, tag.branch) == (where.file.version, where.branch)
    ]


def _transaction(target: Target) -> str | None:
    from lancefs.table.transactions import read_transaction

    where = target.resolved
    done = read_transaction(where.store, where.manifest, target.manifest)
    return None if done is None else done.summary


def _indices(target: Target) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the indices, and the flushed rows that one of them says are not merged yet."""
    from lancefs.table.indices import read_indices, uncovered_rows
    from lancefs.table.mem_wal import fresher_generations

    found = read_indices(target.resolved.manifest, target.manifest, target.files)
    uncovered = uncovered_rows(found, target.manifest)
    fresher = fresher_generations(target.resolved.store, found)
    described = [
        {
            "name": index.name,
            "type": index.type,
            "columns": list(index.columns),
            "uuid": index.uuid,
            "fragments": None if index.fragment_ids is None else sorted(index.fragment_ids),
            "uncovered_rows": uncovered.get(index.name),
            "bytes": index.size,
            "made_from_version": index.dataset_version,
            "is_system": index.is_system,
        }
        for index in found
    ]
    return described, [
        {"shard": one.shard, "generation": one.number, "path": one.path, "rows": one.rows}
        for one in fresher
    ]


def _fragment(fragment: Fragment) -> dict[str, Any]:
    deletion = fragment.deletion_file
    return {
        "id": fragment.id,
        "rows": fragment.num_rows,
        "physical_rows": fragment.physical_rows,
        "deleted": fragment.num_deleted,
        "bytes": fragment.size,
        "deletion_file": None if deletion is None else deletion.path(fragment.id),
        "overlays": len(fragment.overlays),
        "files": [
            {
                "path": file.path,
                "format": file.version,
                "bytes": file.size,
                "fields": [one for one in file.fields if one >= 0],
                "tombstones": sum(one == -2 for one in file.fields),
            }
            for file in fragment.files
        ],
    }


def _difference(larger: int | None, smaller: int | None) -> int | None:
    return None if larger is None or smaller is None else larger - smaller


def _print_facts(said: dict[str, Any]) -> None:
    sizes = [one["bytes"] for one in said["fragments"]]
    total = None if None in sizes else sum(sizes)
    files = sum(len(one["files"]) for one in said["fragments"])
    ref = f"{said['branch']}:{said['version']}" if said["branch"] else said["version"]
    print_plain(styled(f"{said['table']}@{ref}", "bold"))
    deleted = said["deleted_rows"]
    facts = {
        "committed": f"{moment(said['committed'])} UTC",
        "operation": said["operation"],
        "tags": words(said["tags"]),
        "rows": count(said["rows"]) + (f" ({count(deleted)} deleted)" if deleted else ""),
        "columns": count(said["columns"]),
        "data files": f"{plural(files, 'file')}, {size(total)}",
        "format": said["data_format"],
        "writer": said["writer"] if said["writer"] != "None" else None,
        "flags": words(said["flags"]),
        "manifest": said["manifest"],
        "fresher": _fresher(said["unmerged_generations"]),
        "problems": "; ".join(said["problems"]),
    }
    for name, value in facts.items():
        if value:
            print_plain(
                f"  {styled(name.ljust(11), 'dim') if is_terminal() else name.ljust(11)}{value}"
            )


def _fresher(generations: list[dict[str, Any]]) -> str | None:
    """Say that rows were flushed that the table does not have yet."""
    if not generations:
        return None
    rows = sum(one["rows"] or 0 for one in generations)
    told = f", {count(rows)} rows," if rows else ""
    flushed = plural(len(generations), "generation")
    return f"{flushed}{told} flushed and not merged; open(…, fresh=True) reads them"


def _print_fragments(fragments: list[dict[str, Any]]) -> None:
    rows = [
        (
            one["id"],
            one["rows"],
            one["deleted"],
            one["deleted"] / one["physical_rows"]
            if one["physical_rows"] and one["deleted"] is not None
            else None,
            one["bytes"],
            len(one["files"]),
            sorted({file["format"] for file in one["files"]}),
            sum(file["tombstones"] for file in one["files"]),
            one["overlays"],
        )
        for one in fragments
    ]
    columns = [
        Column("id", "", str, right=True, style="cyan"),
        Column("rows", "", count, right=True),
        Column("deleted", "", count, right=True),
        Column("share", "", share, right=True),
        Column("bytes", "", size, right=True),
        Column("files", "", count, right=True),
        Column("format", "", words),
        Column("tombstones", "", count, right=True),
        Column("overlays", "", count, right=True),
    ]
    print_grid(columns, rows)


def _print_indices(indices: list[dict[str, Any]]) -> None:
    rows = [
        (
            one["name"],
            one["type"],
            one["columns"],
            None if one["fragments"] is None else len(one["fragments"]),
            one["uncovered_rows"],
            one["bytes"],
        )
        for one in indices
    ]
    columns = [
        Column("name", "", str, style="cyan"),
        Column("kind", "", lambda value: value or "–"),
        Column("columns", "", words),
        Column("fragments", "", count, right=True),
        Column("rows not covered", "", count, right=True),
        Column("bytes", "", size, right=True),
    ]
    print_grid(columns, rows)
