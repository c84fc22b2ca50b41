"""What an encoding is told of a field in one data file."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lancefs.datafile.fields import DictionaryLocation
from lancefs.datafile.legacy.page_slots import Pages


@dataclass(slots=True)
class DictionaryValues:
    """The values of a dictionary, which are read once."""

    location: DictionaryLocation
    values: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A field that has pages of its own."""

    data_type: pa.DataType
    nullable: bool
    pages: Pages
    dictionary: DictionaryValues | None = None
