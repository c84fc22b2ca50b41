"""`lancefs verify`: whether a version can be read in full."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from lancefs.cli import shared_options
from lancefs.cli.exits import DONE, PROBLEMS
from lancefs.cli.render.grid import print_plain, styled
from lancefs.cli.render.text import plural, size, to_json

if TYPE_CHECKING:
    from lancefs.cli.target import Target


@shared_options.command(
    examples="""
    lancefs verify orders.lance
    lancefs verify orders.lance@prod && echo fine
    lancefs verify orders.lance --format json | jq .problems
    """,
    epilog="Exits with 0 where all is well, with 1 where something is wrong.",
)
@shared_options.table
@shared_options.table_or_json
def verify(target: Target, form: str) -> int:
    """Decode every value of a version, and compare counts and lengths with the manifest.

    The format has no checksums: a changed byte of a value may be another value.
    """
    from lancefs.cli.render.progress import progress
    from lancefs.table.verification import verify_fragment

    manifest, began = target.manifest, time.monotonic()
    results = []
    with progress("verifying", manifest.physical_rows or 0) as shown:
        for fragment in manifest.fragments:
            results.append(verify_fragment(target.files, fragment, manifest.fields))
            shown.advance(results[-1].rows)
    problems = [problem for one in results for problem in one.problems]
    counts: dict[str, int] = {
        "fragments": len(results),
        "rows": sum(one.rows for one in results),
        "deleted": sum(one.deleted for one in results),
        "values": sum(one.values for one in results),
        "file_bytes": sum(one.file_bytes for one in results),
    }
    seconds = round(time.monotonic() - began, 3)
    if form == "json":
        said: dict[str, object] = {
            "table": target.name,
            "good": not problems,
            **counts,
            "seconds": seconds,
        }
        said["problems"] = [asdict(problem) for problem in problems]
        print_plain(to_json(said, indent=1))
    else:
        print_plain(
            f"{target.name}: {plural(len(results), 'fragment')}, {plural(counts['rows'], 'row')} "
            f"({counts['deleted']:,} deleted), {counts['values']:,} values, "
            f"{size(counts['file_bytes'])} in {seconds:.1f} s"
        )
        for one in problems:
            place = f"fragment {one.fragment}, {one.place}"
            print_plain(styled(f"  {place}: {one.kind}: {one.message}", "red"))
        print_plain(
            styled(plural(len(problems), "problem"), "red")
            if problems
            else styled("all is well", "green")
        )
    return PROBLEMS if problems else DONE
