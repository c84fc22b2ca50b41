"""DuckDB settings that decide whether, and by which rows, a table name may be replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from duckdb_adapter.pinned_versions import NameUse

# Settings without which DuckDB looks neither outside of the database nor among variables, so that
# nothing can be handed to it, and nothing may be looked at.
NEEDED_SETTINGS = ("enable_external_access", "python_enable_replacements")


class EngineSettings(NamedTuple):
    """How DuckDB answers a statement; a setting is looked up when it is asked for.

    Attributes:
        text_of: Returns a setting that is a text, by its name.
        is_set: Returns a setting that is true or false, by its name.
        finds_file: Returns whether there is a file, by its path, that the statement may read.
        variable: Returns the variable of Python that a name stands for where no table has it, if
            any.
        calls_back: Whether the statement may call our function of `bind_callback`.
    """

    text_of: Callable[[str], str]
    is_set: Callable[[str], bool]
    finds_file: Callable[[str], bool]
    variable: Callable[[str], object | None]
    calls_back: bool

    def compares_bytes(self) -> bool:
        """Return whether strings are compared by their bytes."""
        return not self.text_of("default_collation")

    def descends(self) -> bool:
        """Return whether ORDER BY puts the greatest value first where it does not say."""
        return self.text_of("default_order").upper().startswith("DESC")

    def keeps_order(self) -> bool:
        """Return whether rows are used in the order in which they come."""
        return self.is_set("preserve_insertion_order")


class BindContext(NamedTuple):
    """What DuckDB tells where it binds a name.

    Attributes:
        use: How often the statement uses the name.
        settings: How DuckDB answers the statement.
    """

    use: NameUse
    settings: EngineSettings
