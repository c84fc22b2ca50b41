"""`lancefs verify`: decode all values of a version."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from lancefs.cli import shared_options
from lancefs.cli.exits import DONE, PROBLEMS
from lancefs.cli.render.grid import Styled, print_document, print_line
from lancefs.cli.render.text import plural, size, to_json

if TYPE_CHECKING:
    from lancefs.cli.target import Target


@shared_options.command(
    examples="""
    lancefs verify orders.lance
    lancefs verify orders.lance@prod && echo fine
    lancefs verify orders.lance --format json | jq .problems
    """,
    epilog="The exit code is 0 without problems, and 1 with problems.",
)
@shared_options.table
@shared_options.table_or_json
def verify(target: Target, form: str) -> int:
    """Decode all values and row ids of a version, and compare counts with the manifest.

    The format has no checksums: a changed byte of a value may be another value.
    """
    from lancefs.cli.render.progress import progress
    from lancefs.table.verification import Verifier

    manifest, start = target.manifest, time.monotonic()
    results, verifier = [], Verifier(target.opened)
    with progress("verifying", manifest.physical_rows or 0) as bar:
        for fragment in manifest.fragments:
            results.append(verifier.verify(fragment))
            bar.advance(results[-1].rows)
    problems = [problem for result in results for problem in result.problems]
    counts: dict[str, int] = {
        "fragments": len(results),
        "rows": sum(result.rows for result in results),
        "deleted": sum(result.deleted for result in results),
        "values": sum(result.values for result in results),
        "file_bytes": sum(result.file_bytes for result in results),
    }
    seconds = round(time.monotonic() - start, 3)
    if form == "json":
        summary = {
            "table": target.name,
            "good": not problems,
            **counts,
            "seconds": seconds,
            "problems": [asdict(problem) for problem in problems],
        }
        print_document(to_json(summary, indent=1))
    else:
        print_line(
            f"{target.name}: {plural(len(results), 'fragment')}, {plural(counts['rows'], 'row')} "
            f"({counts['deleted']:,} deleted), {counts['values']:,} values, "
            f"{size(counts['file_bytes'])} in {seconds:.1f} s"
        )
        for problem in problems:
            place = f"fragment {problem.fragment}, {problem.place}"
            print_line(Styled(f"  {place}: {problem.kind}: {problem.message}", "red"))
        print_line(
            Styled(plural(len(problems), "problem"), "red")
            if problems
            else Styled("all is well", "green")
        )
    return PROBLEMS if problems else DONE
