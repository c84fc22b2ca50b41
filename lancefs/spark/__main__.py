"""The data pipeline on the command line: `python -m lancefs.spark materialize|verify …`."""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from lancefs.errors import LanceError
from lancefs.spark.folders import find_tables
from lancefs.spark.pinned_version import open_table
from lancefs.spark.pipeline.delta import publish_delta, require_delta
from lancefs.spark.pipeline.destination import TARGET_BYTES
from lancefs.spark.pipeline.many import materialize_all, verify_all
from lancefs.spark.pipeline.materialize import FORMATS, TYPES, materialize
from lancefs.spark.pipeline.output_check import OutputReport, verify_output
from lancefs.spark.pipeline.verify_job import Report, verify
from lancefs.spark.session import start_session
from lancefs.spark.stores import absolute
from lancefs.spark.table_options import TableOptions, parse_columns
from lancefs.table.refs import make_ref

_EXAMPLES = """\
examples:
  python -m lancefs.spark materialize s3://bucket/t.lance s3://bucket/t-parquet --incremental
  python -m lancefs.spark materialize t.lance out --ref prod --format arrow --partition-by city
  python -m lancefs.spark materialize --all 's3://bucket/*.lance' out --incremental
  python -m lancefs.spark verify t.lance --json
  python -m lancefs.spark verify --all 's3://bucket/*.lance' --output out

Spark itself is configured as always: spark-defaults.conf, SPARK_CONF_DIR, or spark-submit.
"""


_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: Those of the command line, by default.

    Returns:
        The exit code: 0 where all is well, 1 where `verify` found something wrong, 2 where the
        command could not be carried out.
    """
    given = _parser().parse_args(arguments)
    level = logging.DEBUG if given.verbose else logging.WARNING if given.quiet else logging.INFO
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("lancefs").setLevel(level)
    try:
        # Before Spark starts, which takes a while: what is wrong is then said at once.
        writes = given.command == "materialize"
        if writes and given.delta:
            require_delta(given.format, given.types)
        for url in _tables(given).values():
            table = TableOptions(absolute(url), given.storage, moved=given.base_paths)
            open_table(table, make_ref(ref=given.ref))
        shows_progress = sys.stderr.isatty() and not given.quiet
        spark = start_session(given.master, f"lancefs {given.command}", shows_progress)
        return (
            _materialize(spark, given) if given.command == "materialize" else _verify(spark, given)
        )
    except (LanceError, ImportError, RuntimeError, ValueError) as error:
        print(f"lancefs: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130  # what a shell says of a command that was interrupted


def _materialize(spark: Any, given: argparse.Namespace) -> int:
    how: dict[str, Any] = {
        "ref": given.ref,
        "format": given.format,
        "partition_by": _names(given.partition_by) or (),
        "columns": _names(given.columns),
        "types": given.types,
        "target_file_size": given.target_file_size,
        "incremental": given.incremental,
        "check": given.check,
        "metrics": given.metrics,
        "storage_options": given.storage,
        "destination_options": given.to_storage,
        "base_paths": given.base_paths,
    }
    if given.all:
        results = list(materialize_all(spark, given.source, given.destination, **how).values())
    else:
        results = [materialize(spark, given.source, given.destination, **how)]
    for result in results:
        print(f"{result.files.shown}: version {result.version}, {result.rows:,} rows")
        if given.delta:
            publish_delta(result, given.delta_storage)
    return 0


def _verify(spark: Any, given: argparse.Namespace) -> int:
    how: dict[str, Any] = {
        "ref": given.ref,
        "storage_options": given.storage,
        "base_paths": given.base_paths,
        "metrics": given.metrics,
    }
    if given.all:
        reports = verify_all(spark, given.source, **how)
    else:
        reports = {"": verify(spark, given.source, **how)}
    is_good = _show(reports, given)
    if given.output is not None:
        top = given.output.rstrip("/")
        places = {name: f"{top}/{name}" if name else given.output for name in reports}
        outputs = {n: verify_output(spark, at, given.to_storage) for n, at in places.items()}
        is_good = _show(outputs, given) and is_good
    return 0 if is_good else 1


def _show(reports: Mapping[str, Report | OutputReport], given: argparse.Namespace) -> bool:
    """Print reports by the names of their tables; return whether nothing is wrong."""
    if given.json and given.all:
        print(json.dumps({name: json.loads(one.to_json()) for name, one in reports.items()}))
    else:
        for report in reports.values():
            print(report.to_json() if given.json else report)
    return all(report.is_good for report in reports.values())


def _tables(given: argparse.Namespace) -> dict[str, str]:
    """Return the URLs of the tables that are meant, by their names."""
    return find_tables(given.source, given.storage) if given.all else {"": given.source}


def _json_object(text: str) -> dict[str, Any]:
    try:
        options = json.loads(text)
    except ValueError:
        options = None
    if not isinstance(options, dict):  # said without the text, which may hold a secret
        raise argparse.ArgumentTypeError('an object in JSON was expected, such as {"anon": true}')
    return options


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+) ?([kmg]?)(?:i?b)?", text.strip().lower())
    size = int(found[1]) * _UNITS[found[2]] if found else 0
    if size <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; one like 64MB was expected")
    return size


def _names(text: str | None) -> list[str] | None:
    return None if text is None else list(parse_columns(text))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lancefs.spark",
        description="Write versions of Lance tables as files, and verify them, with Spark.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    _add_materialize(commands)
    _add_verify(commands)
    for command in commands.choices.values():
        command.add_argument(
            "--all",
            action="store_true",
            help="SOURCE is a folder of tables, or a pattern; each has a folder in DESTINATION",
        )
        command.add_argument("--ref", help="a version, a tag, or branch:version; latest by default")
        command.add_argument("--master", help="where Spark runs, for instance local[4]")
        command.add_argument(
            "--storage",
            type=_json_object,
            default={},
            metavar="JSON",
            help="fsspec options of the table",
        )
        command.add_argument(
            "--to-storage",
            type=_json_object,
            default={},
            metavar="JSON",
            help="fsspec options of the destination",
        )
        command.add_argument(
            "--base-paths",
            type=_json_object,
            default={},
            metavar="JSON",
            help='where files below base paths of the table are now: {"/old": "/new"}',
        )
        command.add_argument(
            "--metrics", metavar="FILE", help="append what was done to FILE, as lines of JSON"
        )
        command.add_argument("-q", "--quiet", action="store_true", help="say only what is wrong")
        command.add_argument("-v", "--verbose", action="store_true", help="log every fragment")
    return parser


def _add_materialize(commands: Any) -> None:
    write = commands.add_parser("materialize", help="write a version as Parquet or Arrow files")
    write.add_argument("source", help="the table")
    write.add_argument("destination", help="a directory on any store, the same on every worker")
    write.add_argument(
        "--format",
        choices=FORMATS,
        default="parquet",
        help="the format of the files; parquet by default",
    )
    write.add_argument("--partition-by", metavar="A,B", help="columns that become directories")
    write.add_argument("--columns", metavar="A,B", help="the columns to write; all by default")
    write.add_argument(
        "--types", choices=TYPES, default="arrow", help="the types of the table, or of Spark"
    )
    write.add_argument(
        "--target-file-size",
        type=_size,
        default=TARGET_BYTES,
        metavar="SIZE",
        help="about how large files become, such as 64MB; 256MB by default",
    )
    write.add_argument(
        "--delta",
        action="store_true",
        help="let DESTINATION be a Delta table of these files, too; needs --types spark",
    )
    write.add_argument(
        "--delta-storage",
        type=_json_object,
        default={},
        metavar="JSON",
        help="options of the library deltalake for the destination",
    )
    write.add_argument("--incremental", action="store_true", help="keep what has not changed")
    write.add_argument(
        "--check", action="store_true", help="read files that are kept, and compare their checksums"
    )


def _add_verify(commands: Any) -> None:
    check = commands.add_parser("verify", help="decode everything, and compare with the manifest")
    check.add_argument("source", help="the table")
    check.add_argument(
        "--output", metavar="DESTINATION", help="read back what 'materialize' wrote there, too"
    )
    check.add_argument("--json", action="store_true", help="print the report for programs")


if __name__ == "__main__":
    sys.exit(main())
