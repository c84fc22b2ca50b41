"""The DuckDB release in use, and the error about one that cannot be extended."""

from __future__ import annotations

from lancefs.errors import LanceError

# Releases with the C API that `capi` declares. This API is not stable yet.
_WITH_KNOWN_API = ((2, 0),)


class UnsupportedDuckDB(LanceError, RuntimeError):
    """This DuckDB, or the interpreter that it runs in, cannot be extended in the way asked for."""


def is_new() -> bool:
    """Whether this is DuckDB 2.0 or later."""
    import duckdb

    return int(duckdb.__version__.split(".")[0]) >= 2


def reads_encoded_lists() -> bool:
    """Whether DuckDB reads lists with dictionary-encoded items, also where all lists are empty.

    DuckDB 2.0.0 refuses batches of empty lists; 1.4 and 1.5 write beyond the end of a mask.
    """
    import duckdb

    return is_new() and duckdb.__version__ != "2.0.0"


def require_known_api() -> None:
    """Check that DuckDB has the extension interface that we know.

    Raises:
        UnsupportedDuckDB: It has another one, or none.
    """
    import duckdb

    version = duckdb.__version__
    if tuple(int(part) for part in version.split(".")[:2] if part.isdecimal()) in _WITH_KNOWN_API:
        return
    known = ", ".join(f"{major}.{minor}" for major, minor in _WITH_KNOWN_API)
    raise UnsupportedDuckDB(
        f"duckdb_adapter.install() knows the extension interface of DuckDB {known}, and this is "
        f"{version}; duckdb_adapter.connect() and duckdb_adapter.wrap(connection) give the same SQL"
    )
