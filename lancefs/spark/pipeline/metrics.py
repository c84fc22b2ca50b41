"""Measurements of the pipeline, as lines of JSON that programs collect."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lancefs.errors import LanceError


class Metrics:
    """A file of the driver to which runs append what they did, one JSON object a line.

    Args:
        path: The file; None for nowhere.
        common: What each line says, such as the table and the version.

    Raises:
        LanceError: The file cannot be written.
    """

    def __init__(self, path: str | Path | None, **common: Any) -> None:
        self._path = None if path is None else Path(path)
        self._common = common
        self.add()

    def add(self, *lines: dict[str, Any]) -> None:
        """Append lines.

        Args:
            *lines: What each says, beside the time and what all of them say.

        Raises:
            LanceError: The file cannot be written.
        """
        if self._path is None:
            return
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        texts = [json.dumps({"time": time, **self._common, **line}) + "\n" for line in lines]
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write("".join(texts))
        except OSError as error:
            raise LanceError(f"{self._path}: metrics cannot be written: {error}") from error
