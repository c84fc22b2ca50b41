"""DuckDB settings that decide whether, and by which rows, a table name may be replaced."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from duckdb_adapter.pinned_versions import NameUse

# Settings without which DuckDB looks neither outside of the database nor among variables, so that
# nothing can be handed to it, and nothing may be looked at.
NEEDED_SETTINGS = ("enable_external_access", "python_enable_replacements")


def is_descending(default_order: str) -> bool:
    """Return whether the setting `default_order` puts the greatest value first."""
    return default_order.upper().startswith("DESC")


class EngineSettings(Protocol):
    """Settings of DuckDB that decide which rows a statement uses."""

    def collation(self) -> str:
        """Return how strings are compared; empty for by their bytes."""
        ...

    def descends(self) -> bool:
        """Return whether ORDER BY puts the greatest value first where it does not say."""
        ...

    def keeps_order(self) -> bool:
        """Return whether rows are used in the order in which they come."""
        ...

    def finds_file(self, path: str) -> bool:
        """Return whether there is a file that the statement may read."""
        ...

    def calls_back(self) -> bool:
        """Return whether the statement may call our function of `bind_callback`."""
        ...

    def variable(self, name: str) -> object | None:
        """Return the variable of Python that a name stands for where no table has it, if any."""
        ...


class BindContext(NamedTuple):
    """What DuckDB tells where it binds a name.

    Attributes:
        use: How often the statement uses the name.
        settings: How DuckDB answers the statement.
    """

    use: NameUse
    settings: EngineSettings
