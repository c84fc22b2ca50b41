"""The reading methods that datasets and fragments share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Unpack

import pyarrow as pa

from lancefs.scan.projection import Columns
from lancefs.scan.scanner import Filter, LanceScanner, ScanOptions

if TYPE_CHECKING:
    import pandas
    import polars


class ReadingMethods:
    """Reading methods in terms of `scanner`."""

    @abstractmethod
    def scanner(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        **options: Unpack[ScanOptions],
    ) -> LanceScanner:
        """Return a scanner for some columns and rows; see `LanceDataset.scanner`."""

    def to_batches(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        **options: Unpack[ScanOptions],
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows in batches; arguments as for `scanner`."""
        return self.scanner(columns=columns, filter=filter, **options).to_batches()

    def to_reader(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        **options: Unpack[ScanOptions],
    ) -> pa.RecordBatchReader:
        """Return a stream of rows; arguments as for `scanner`."""
        return self.scanner(columns=columns, filter=filter, **options).to_reader()

    def to_table(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        **options: Unpack[ScanOptions],
    ) -> pa.Table:
        """Read rows into memory; arguments as for `scanner`."""
        return self.scanner(columns=columns, filter=filter, **options).to_table()

    def to_pandas(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        **options: Unpack[ScanOptions],
    ) -> pandas.DataFrame:
        """Read rows into a pandas DataFrame; arguments as for `scanner`.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        _require("pandas")
        return self.to_table(columns=columns, filter=filter, **options).to_pandas()

    def to_polars(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        **options: Unpack[ScanOptions],
    ) -> polars.DataFrame:
        """Read rows into a polars DataFrame; arguments as for `scanner`.

        Raises:
            ModuleNotFoundError: polars is not installed.
        """
        _require("polars")
        import polars

        frame = polars.from_arrow(self.to_table(columns=columns, filter=filter, **options))
        assert isinstance(frame, polars.DataFrame)
        return frame

    def head(
        self,
        num_rows: int,
        columns: Columns | None = None,
        filter: Filter | None = None,
        **options: Unpack[ScanOptions],
    ) -> pa.Table:
        """Read the first rows, decoding little more; other arguments as for `scanner`."""
        return self.scanner(columns=columns, filter=filter, **options).head(num_rows)

    def tail(
        self,
        num_rows: int,
        columns: Columns | None = None,
        filter: Filter | None = None,
        **options: Unpack[ScanOptions],
    ) -> pa.Table:
        """Read the last rows, in the order of the table; other arguments as for `scanner`."""
        return self.scanner(columns=columns, filter=filter, **options).tail(num_rows)

    def sample(
        self,
        num_rows: int,
        seed: int | None = None,
        columns: Columns | None = None,
        filter: Filter | None = None,
        **options: Unpack[ScanOptions],
    ) -> pa.Table:
        """Read a random sample of rows without replacement, in the order of the table.

        Args:
            num_rows: Number of rows; all rows if there are fewer.
            seed: The same seed draws the same rows of a version; None draws new ones each time.
            columns: As for `scanner`.
            filter: As for `scanner`.
            **options: As for `scanner`.
        """
        return self.scanner(columns=columns, filter=filter, **options).sample(num_rows, seed)


def _require(package: str) -> None:
    """Import a package that is an extra of lancefs.

    Args:
        package: Its name, which is also that of the extra and of the method `to_…`.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ModuleNotFoundError(
            f"to_{package} needs {package}, which is not installed: "
            f"pip install 'lancefs[{package}]'",
            name=package,
        ) from None
