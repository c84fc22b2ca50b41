"""`lancefs show`: the contents of a manifest: fragments, files, indices, settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from lancefs.cli import shared_options
from lancefs.cli.render.grid import (
    GridColumn,
    Styled,
    heading,
    print_document,
    print_grid,
    print_line,
)
from lancefs.cli.render.text import count, moment, plural, share, size, to_json, words
from lancefs.errors import LanceError
from lancefs.masking import mask_secrets

if TYPE_CHECKING:
    from lancefs.cli.target import Target
    from lancefs.table.fragments import Fragment
    from lancefs.table.indices import Index

_MAX_FRAGMENTS = 20  # shown without --all
# By kind, what a filter may ask. An index narrows the scan; the filter is evaluated all the same.
_FILTERS: Mapping[str, tuple[str, ...]] = {
    "BTree": ("=", "IN", "ranges", "IS NULL", "prefixes"),
    "Bitmap": ("=", "<>", "IN", "ranges", "LIKE", "IS NULL", "counts"),
    "ZoneMap": ("=", "IN", "ranges", "IS NULL", "prefixes"),
    "LabelList": ("array_has", "array_has_any", "array_has_all"),
    "NGram": ("contains", "LIKE", "ILIKE", "starts_with", "ends_with", "=", "IN", "IS NULL"),
    "BloomFilter": ("=", "IN", "IS NULL"),
}


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
    facts = describe(target)
    if form == "json":
        print_document(to_json(facts, indent=1))
        return
    _print_facts(facts)
    fragments = facts["fragments"]
    shown = fragments if everything else fragments[:_MAX_FRAGMENTS]
    if fragments:
        print_line()
        heading(plural(len(fragments), "fragment"))
        _print_fragments(shown)
        if len(shown) < len(fragments):
            print_line(f"… {len(fragments) - len(shown):,} more; --all shows them")
    if facts["indices"]:
        print_line()
        names = {index["name"] for index in facts["indices"]}
        heading(plural(len(names), "index"))
        _print_indices(facts["indices"], [one["id"] for one in fragments], facts["rows"])
    for name in ("config", "table_metadata", "base_paths"):
        if facts[name]:
            print_line()
            heading(name.replace("_", " "))
            for key, value in facts[name].items():
                print_line(f"  {key} = {value}")


def describe(target: Target) -> dict[str, Any]:
    """Return the facts about a version as values that JSON can hold."""
    manifest, problems = target.manifest, []
    indices: list[dict[str, Any]] = []
    generations: list[dict[str, Any]] = []
    try:
        indices, generations = _indices(target)
    except LanceError as error:
        problems = [f"indices: {error}"]
    try:
        transaction = _transaction(target)
    except LanceError as error:
        transaction, problems = None, [*problems, f"transaction: {error}"]
    return {
        "table": mask_secrets(target.resolved.root.url()),
        "version": manifest.version,
        "branch": target.resolved.branch,
        "tags": _tags(target),
        "committed": manifest.timestamp,
        "operation": transaction,
        "rows": manifest.num_rows,
        "deleted_rows": _difference(manifest.physical_rows, manifest.num_rows),
        "columns": len(manifest.fields),
        "data_format": manifest.data_version,
        "writer": None if manifest.writer is None else str(manifest.writer),
        "flags": [str(flag.name).lower() for flag in manifest.reader_flags],
        "manifest": mask_secrets(target.resolved.manifest.url),
        "fragments": [_describe_fragment(fragment) for fragment in manifest.fragments],
        "indices": indices,
        "unmerged_generations": generations,
        "config": dict(manifest.config),
        "table_metadata": dict(manifest.table_metadata),
        "base_paths": {
            base.name or str(base.id): mask_secrets(base.path) for base in manifest.base_paths
        },
        "problems": problems,
    }


def _tags(target: Target) -> list[str]:
    from lancefs.table.tags_and_branches import list_tags

    where = target.resolved
    tags = list_tags(where.root).values()
    return [
        tag.name for tag in tags if (tag.version, tag.branch) == (where.file.version, where.branch)
    ]


def _transaction(target: Target) -> str | None:
    from lancefs.table.transactions import read_transaction

    where = target.resolved
    transaction = read_transaction(where.store, where.manifest, target.manifest)
    return None if transaction is None else transaction.summary


def _indices(target: Target) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the indices, and the flushed generations that are not merged into the table yet."""
    from lancefs.table.indices import read_indices, uncovered_rows
    from lancefs.table.mem_wal import fresher_generations

    indices = read_indices(target.resolved.manifest, target.manifest, target.files)
    uncovered = uncovered_rows(indices, target.manifest)
    generations = fresher_generations(target.resolved.store, indices)
    return [
        {
            "name": index.name,
            "type": index.type,
            "columns": list(index.columns),
            "answers": list(_answers_of(index)),
            "uuid": index.uuid,
            "fragments": None if index.fragment_ids is None else sorted(index.fragment_ids),
            "covered_rows": _difference(target.manifest.num_rows, uncovered.get(index.name)),
            "uncovered_rows": uncovered.get(index.name),
            "bytes": index.size,
            "made_from_version": index.dataset_version,
            "is_system": index.is_system,
        }
        for index in indices
    ], [
        {"shard": item.shard, "generation": item.number, "path": item.path, "rows": item.rows}
        for item in generations
    ]


def _answers_of(index: Index) -> tuple[str, ...]:
    """Return what a segment of an index is asked by lancefs; nothing where it is only listed.

    Args:
        index: The segment.
    """
    from lancefs.index.segments import (
        HOLDS_ROW_IDS,
        TEXTS_HOLD_ROW_IDS,
        VECTORS_HOLD_ROW_IDS,
        is_over_vectors,
    )

    version = index.index_version or 0
    if is_over_vectors(index):
        return ("nearest",) if version in VECTORS_HOLD_ROW_IDS else ()
    kind = index.type or ""
    if kind == "Inverted":
        return ("search",) if version in TEXTS_HOLD_ROW_IDS else ()
    if version not in HOLDS_ROW_IDS.get(kind, {}):
        return ()
    has_nulls = kind == "LabelList" and version > 0
    return (*_FILTERS[kind], "IS NULL") if has_nulls else _FILTERS[kind]


def _describe_fragment(fragment: Fragment) -> dict[str, Any]:
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
                "fields": [field_id for field_id in file.fields if field_id >= 0],
                "tombstones": sum(field_id == -2 for field_id in file.fields),
            }
            for file in fragment.files
        ],
    }


def _difference(larger: int | None, smaller: int | None) -> int | None:
    return None if larger is None or smaller is None else larger - smaller


def _print_facts(facts: dict[str, Any]) -> None:
    sizes = [fragment["bytes"] for fragment in facts["fragments"]]
    total = None if None in sizes else sum(sizes)
    files = sum(len(fragment["files"]) for fragment in facts["fragments"])
    ref = f"{facts['branch']}:{facts['version']}" if facts["branch"] else facts["version"]
    print_line(Styled(f"{facts['table']}@{ref}", "bold"))
    deleted = facts["deleted_rows"]
    lines = {
        "committed": f"{moment(facts['committed'])} UTC",
        "operation": facts["operation"],
        "tags": words(facts["tags"]),
        "rows": count(facts["rows"]) + (f" ({count(deleted)} deleted)" if deleted else ""),
        "columns": count(facts["columns"]),
        "data files": f"{plural(files, 'file')}, {size(total)}",
        "format": facts["data_format"],
        "writer": facts["writer"],
        "flags": words(facts["flags"]),
        "manifest": facts["manifest"],
        "fresher": _unmerged_text(facts["unmerged_generations"]),
        "problems": "; ".join(facts["problems"]),
    }
    for name, value in lines.items():
        if value:
            print_line("  ", Styled(name.ljust(11), "dim"), str(value))


def _unmerged_text(generations: list[dict[str, Any]]) -> str | None:
    """Return a line about rows that were flushed and are not merged; None if there are none."""
    if not generations:
        return None
    rows = sum(generation["rows"] or 0 for generation in generations)
    rows_part = f", {count(rows)} rows," if rows else ""
    total = plural(len(generations), "generation")
    return f"{total}{rows_part} flushed and not merged; open(…, fresh=True) reads them"


def _print_fragments(fragments: list[dict[str, Any]]) -> None:
    rows = [
        (
            fragment["id"],
            fragment["rows"],
            fragment["deleted"],
            fragment["deleted"] / fragment["physical_rows"]
            if fragment["physical_rows"] and fragment["deleted"] is not None
            else None,
            fragment["bytes"],
            len(fragment["files"]),
            sorted({file["format"] for file in fragment["files"]}),
            sum(file["tombstones"] for file in fragment["files"]),
            fragment["overlays"],
        )
        for fragment in fragments
    ]
    columns = [
        GridColumn("id", "", str, right=True, style="cyan"),
        GridColumn("rows", "", count, right=True),
        GridColumn("deleted", "", count, right=True),
        GridColumn("share", "", share, right=True),
        GridColumn("bytes", "", size, right=True),
        GridColumn("files", "", count, right=True),
        GridColumn("format", "", words),
        GridColumn("tombstones", "", count, right=True),
        GridColumn("overlays", "", count, right=True),
    ]
    print_grid(columns, rows)


def _print_indices(indices: list[dict[str, Any]], fragments: list[int], rows: int | None) -> None:
    """Show a line for each index, its segments together.

    Args:
        indices: The segments.
        fragments: Ids of the fragments of the table.
        rows: Number of rows of the table, if it is known.
    """
    by_name: dict[str, list[dict[str, Any]]] = {}
    for index in indices:
        by_name.setdefault(index["name"], []).append(index)
    lines = []
    for name, segments in by_name.items():
        first, sizes = segments[0], [segment["bytes"] for segment in segments]
        covered = first["covered_rows"]
        lines.append(
            (
                name,
                first["type"],
                first["columns"],
                len(segments),
                _fragments_text([segment["fragments"] for segment in segments], fragments),
                covered,
                covered / rows if rows and covered is not None else None,
                None if None in sizes else sum(sizes),
                first["answers"],
            )
        )
    columns = [
        GridColumn("name", "", str, style="cyan"),
        GridColumn("kind", "", lambda value: value or "–"),
        GridColumn("columns", "", words),
        GridColumn("segments", "", count, right=True),
        GridColumn("fragments", "", str, right=True),
        GridColumn("rows covered", "", count, right=True),
        GridColumn("share", "", share, right=True),
        GridColumn("bytes", "", size, right=True),
        GridColumn("answers", "", lambda value: words(value) or "–"),
    ]
    print_grid(columns, lines)


def _fragments_text(named: list[list[int] | None], fragments: list[int]) -> str:
    """Return how many fragments segments name; those from before a compaction are not counted.

    Args:
        named: Ids of the fragments of each segment; None for a segment that names none.
        fragments: Ids of the fragments of the table.
    """
    known = [ids for ids in named if ids is not None]
    if len(known) < len(named):
        return "–"
    own = set(fragments) & {number for ids in known for number in ids}
    return f"{len(own):,} of {len(fragments):,}"
