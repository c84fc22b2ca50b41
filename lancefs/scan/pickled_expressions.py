"""Reading the pickled form of an Arrow expression, since Arrow has no API for its structure.

The pickled form is an Arrow file. Its columns are literals and options; the metadata of its schema
are the steps, of which many have the same key, so that a dictionary of them loses some.
"""

from __future__ import annotations

import re

import pyarrow as pa

_LINE = re.compile(r"(\w+): '(.*)'$", re.DOTALL)


def read_steps(pickled: pa.RecordBatchFileReader) -> list[tuple[str, str]] | None:
    """Return the steps of a pickled expression; None if a line has another form."""
    text = pickled.schema.to_string(
        show_field_metadata=False, show_schema_metadata=True, truncate_metadata=False
    )
    steps = []
    for line in text.partition("-- schema metadata --\n")[2].split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        steps.append((match[1], match[2]))
    return steps
