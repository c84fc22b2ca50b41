"""The doors to a table, and what may come of reading a damaged one through each of them.

A door gives rows that are valid Arrow data and as many as the table has, or a `LanceError` that an
explicit check raised. Any other outcome is a `Violation`.
"""

from __future__ import annotations

import io
import time
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import duckdb_adapter
import lancefs
from damage.reading import Unacceptable, check_table
from lancefs.cli.exits import INTERNAL
from lancefs.cli.main import main as run_command
from lancefs.datafile.buffers import Ints
from lancefs.errors import CorruptFile, LanceError
from lancefs.table.row_metadata import ROW_METADATA

SECONDS = 10.0  # of the processor, for one door
BYTES = 1 << 30  # of memory, for one door
# Rows that are read at most: a damaged manifest may say of any number that it is there.
_MAX_ROWS = 1 << 20
# What is said in place of a check that is missing: by the net, by Python, by the command line.
_NET = "the bytes do not decode ("
_FOREIGN = ("Traceback", "MemoryError", "TypeError", "KeyError", "IndexError", "AttributeError")
_FOREIGN += ("OverflowError", "UnicodeDecodeError", "RecursionError", "ZeroDivisionError")
_FOREIGN += ("ArrowInvalid", "ArrowNotImplementedError", "struct.error", "bad_alloc")


class Violation(Unacceptable):
    """An outcome that no damage may have.

    Args:
        kind: The kind of it, by which violations are counted.
        message: What happened.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Known:
    """What is known of a damaged table.

    Attributes:
        url: Where it is.
        rows: Rows that it has; None where the damage may be to what says it.
        table: The values that it has; None where they may be damaged.
        columns: Names of the columns of the sound table.
    """

    url: str
    rows: int | None
    table: pa.Table | None
    columns: tuple[str, ...]


Door = Callable[[Known, np.random.Generator], object]


def judge(door: str, known: Known, rng: np.random.Generator) -> str:
    """Read a table through a door.

    Returns:
        `rows`, or the name of the `LanceError`.

    Raises:
        Violation: Anything else happened, or it took too much time or memory.
    """
    reset_peak()
    before, started = peak(), time.process_time()
    outcome = _outcome(lambda: DOORS[door](known, rng))
    seconds, size = time.process_time() - started, peak() - before
    if seconds > SECONDS:
        raise Violation("slow", f"{outcome}, after {seconds:.1f} s")
    if size > BYTES:
        raise Violation("memory", f"{outcome}, with {size >> 20} MiB")
    return outcome


def _outcome(read: Callable[[], object]) -> str:
    try:
        read()
        return "rows"
    except LanceError as error:
        if isinstance(error, CorruptFile) and error.is_caught_by_net:
            raise Violation("net", f"{error} (raised at {_origin(error)})") from error
        if not str(error):
            raise Violation("silent", f"{type(error).__name__} (at {_origin(error)})") from error
        return type(error).__name__
    except Violation:
        raise
    except Unacceptable as error:
        raise Violation("wrong", str(error)) from error
    except Exception as error:
        name, where = type(error).__name__, _origin(error)
        raise Violation(name, f"{name}: {error} (raised at {where})") from error


def _origin(error: BaseException) -> str:
    """Name the lines of lancefs that the first cause of an error came through, innermost first."""
    while error.__cause__ is not None:
        error = error.__cause__
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/tests/damage/" not in frame.filename][-2:]
    lines = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in ours]
    return " < ".join(reversed(lines))


def reset_peak() -> None:
    """Forget the largest memory of the process so far, where the system can."""
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")


def peak() -> int:
    """Return the largest resident memory of the process since `reset_peak`."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def _check(known: Known, table: pa.Table, rows: int | None) -> None:
    check_table(table, rows)
    if known.table is not None and not known.table.equals(table):
        raise Violation("wrong", "other rows, of files that are not damaged")


def _open(known: Known) -> lancefs.LanceDataset:
    dataset = lancefs.open(known.url)
    rows = dataset.count_rows()
    if known.rows is not None and rows != known.rows:
        raise Violation("wrong", f"{rows} rows are counted, there are {known.rows}")
    if rows < 0:
        raise Violation("wrong", f"{rows} rows are counted")
    return dataset


def _table(known: Known, rng: np.random.Generator) -> None:
    dataset = _open(known)
    _check(known, dataset.to_table(), dataset.count_rows())
    for field in dataset.manifest.fields:
        if field.is_blob:
            dataset.to_table(columns=[field.name], blobs="bytes").validate(full=True)


def _batches(known: Known, rng: np.random.Generator) -> None:
    dataset = _open(known)
    names = list(reversed(dataset.schema.names))
    size = int(rng.choice([1, 7, 1000]))
    rows = dataset.count_rows()
    for batch in dataset.to_batches(columns=names, batch_size=size):
        batch.validate(full=False)
        rows -= batch.num_rows
    if rows:
        raise Violation("wrong", f"batches lack {rows} rows")


def _take(known: Known, rng: np.random.Generator) -> None:
    dataset = _open(known)
    rows = dataset.count_rows()
    if 0 < rows < _MAX_ROWS:
        wanted = rng.integers(0, rows, 5)
        taken = dataset.take(wanted)
        check_table(taken, len(wanted))
        _check_taken(known, wanted, taken)
        if "_rowid" not in dataset.schema.names:  # a column may have got this name
            ids = dataset.take(wanted, columns=["_rowid"])["_rowid"]
            check_table(dataset.take(row_ids=ids), len(wanted))
    check_table(dataset.head(3), min(3, rows))


def _check_taken(known: Known, wanted: Ints, taken: pa.Table) -> None:
    """Compare rows with those of a scan, which other code decodes, and may refuse."""
    try:
        scanned = lancefs.open(known.url).to_table()
    except LanceError:
        return
    expected = scanned.take(wanted)
    for name, one, other in zip(taken.column_names, taken, expected, strict=True):
        if _as_text(one) != _as_text(other):
            raise Violation("wrong", f"rows {wanted.tolist()} of {name!r} are others in a scan")


def _as_text(column: pa.ChunkedArray) -> str:
    """Return values as text: Python has no number for some of them, and NaN equals nothing."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return str(column.combine_chunks().to_string(container_window=1000, element_size_limit=1000))


def _filters(known: Known, rng: np.random.Generator) -> None:
    dataset = _open(known)
    rows = dataset.count_rows()
    names = [name for name in dataset.schema.names if name in known.columns]
    for name in names[:6]:
        quoted = "`" + name.replace("`", "``") + "`"
        nulls = dataset.count_rows(filter=f"{quoted} IS NULL")
        rest = dataset.to_table(columns=[name], filter=pc.field(name).is_valid())
        check_table(rest, None)
        if nulls + rest.num_rows != rows:
            raise Violation("wrong", f"{nulls} nulls and {rest.num_rows} others of {rows} rows")
    dataset.to_table(filter="_rowid % 2 = 0 AND _rowoffset < 40")


def _views(known: Known, rng: np.random.Generator) -> None:
    fs = lancefs.LanceFileSystem(fo=known.url, skip_instance_cache=True)
    size = fs.info("latest.arrow")["size"]
    with fs.open("latest.arrow") as file:
        table = pa.ipc.open_file(file).read_all()
    check_table(table, known.rows)
    if len(fs.cat("latest.arrow")) != size:
        raise Violation("wrong", "a view has not the size that was said")
    with fs.open("latest.arrows") as file:
        stream = pa.ipc.open_stream(file).read_all()
    if not stream.equals(table):
        _check_same(stream, table)
    for name in ("schema.json", "manifest.json", "transaction.json", "indices.json"):
        fs.cat(f"latest/{name}")


def _check_same(one: pa.Table, other: pa.Table) -> None:
    """Compare tables that may hold NaN, which equals nothing."""
    if one.schema != other.schema or one.num_rows != other.num_rows:
        raise Violation("wrong", "the stream has other rows than the file")


def _duckdb(known: Known, rng: np.random.Generator) -> None:
    path = known.url.replace("'", "''")
    queries = [f"SELECT count(*) FROM '{path}'", f"SELECT * FROM '{path}'"]
    queries.append(f"SELECT * FROM lance_versions('{path}')")
    queries.append(f"SELECT count(DISTINCT x) FROM (SELECT t AS x FROM '{path}' t)")
    with duckdb_adapter.connect() as connection:
        for query in [*queries[:2], queries[rng.integers(2, 4)]]:
            try:
                rows = connection.execute(query).fetchall()
            except (duckdb.InternalException, duckdb.FatalException) as error:
                raise Violation(type(error).__name__, f"{query[:40]}: {error}") from error
            except duckdb.Error as error:
                _check_text(str(error))
                raise _Refused(str(error)) from error
            is_whole = known.rows is not None and query.startswith("SELECT * FROM '")
            if is_whole and len(rows) != known.rows:
                raise Violation("wrong", f"{len(rows)} rows, there are {known.rows}")


class _Refused(LanceError):
    """An engine passed a LanceError on, as an error of its own."""


def _check_text(text: str) -> None:
    """Check that a message passes on an error that an explicit check raised."""
    if _NET in text:
        raise Violation("net", text)
    for word in _FOREIGN:
        if word in text:
            raise Violation(f"{word} as text", text)


def _history(known: Known, rng: np.random.Generator) -> None:
    dataset = lancefs.open(known.url)
    versions = dataset.versions()
    reads: list[Callable[[], object]] = [
        dataset.history,
        dataset.tags,
        dataset.branches,
        dataset.transaction,
        dataset.auxiliary_data,
        dataset.indices,
        lambda: dataset.changes(versions[-2] if len(versions) > 1 else versions[-1]),
    ]
    refused = [error for read in reads if (error := _refusal(read)) is not None]
    if refused:
        raise refused[0]


def _refusal(read: Callable[[], object]) -> LanceError | None:
    """Read; where that is refused, other reads go on."""
    try:
        result = read()
        str(result)
        if isinstance(result, pa.Table):
            result.validate(full=True)
        return None
    except LanceError as error:
        if isinstance(error, CorruptFile) and error.is_caught_by_net:
            raise
        return error


def _row_metadata(known: Known, rng: np.random.Generator) -> None:
    dataset = _open(known)
    rows = dataset.count_rows()
    refused = []
    for name in ROW_METADATA:
        if rows < _MAX_ROWS:

            def read(name: str = name) -> None:
                check_table(dataset.to_table(columns=[name]), rows)

            refused.append(_refusal(read))
    if any(refused):
        raise next(error for error in refused if error is not None)


_COMMANDS: list[list[str]] = [
    ["show", "TABLE"],
    ["schema", "TABLE"],
    ["head", "TABLE", "-n", "5"],
    ["head", "TABLE", "-f", "json"],
    ["head", "TABLE", "-f", "csv"],
    ["log", "TABLE"],
    ["du", "TABLE"],
    ["verify", "TABLE"],
    ["ls", "TABLE"],
    ["tree", "TABLE"],
    ["describe", "TABLE"],
]


def _command_line(known: Known, rng: np.random.Generator) -> None:
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    words = [
        known.url if word == "TABLE" else word for word in _COMMANDS[rng.integers(len(_COMMANDS))]
    ]
    with redirect_stdout(out), redirect_stderr(err):
        code = run_command(words)
    said = _written(err)
    if code == INTERNAL:
        raise Violation("exit 70", f"{words[0]}: {said}")
    _check_text(said)
    if words[0] == "verify":
        _check_text(_written(out))
    if code:
        raise _Refused(said or f"exit {code}")


def _written(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


DOORS: dict[str, Door] = {
    "table": _table,
    "batches": _batches,
    "take": _take,
    "filters": _filters,
    "views": _views,
    "DuckDB": _duckdb,
    "history": _history,
    "row metadata": _row_metadata,
    "command line": _command_line,
}
