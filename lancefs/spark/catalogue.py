"""Tables in Spark's catalogue: `CREATE TABLE t USING lancefs OPTIONS (path '…')`.

Spark keeps a table's options, but when the table is queried it gives a Python data source none of
them, only the schema. So the schema of such a table carries them, in the metadata of its first
column. Credentials stay out of it, since schemas end up in files: they must come from the
environment, as each store's library documents.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

_KEY = "lancefs"
# What Spark adds to the options when it makes a table.
_PROVIDER = "provider"
_OWN = (_PROVIDER, "owner", "comment")


def noted(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the schema with the options in it, where a table of the catalogue is made.

    Raises:
        ValueError: There are storage options, which would not be there when it is queried.
    """
    if _PROVIDER not in options or not schema.fields:
        return schema
    if any(name == "storage" or name.startswith("storage.") for name in options):
        raise ValueError(
            "a table in the catalogue cannot have storage options, for they may be secrets: set "
            "them up for the store in the environment of driver and workers, or use CREATE "
            "TEMPORARY VIEW or spark.read"
        )
    kept = {name: value for name, value in options.items() if _is_kept(name)}
    first = schema.fields[0]
    metadata = {**first.metadata, _KEY: kept}
    noted = StructField(first.name, first.dataType, first.nullable, metadata)
    return StructType([noted, *schema.fields[1:]])


def options(schema: StructType) -> dict[str, str]:
    """Return the options that a schema carries; none where it carries none."""
    for field in schema.fields:
        if _KEY in field.metadata:
            return dict(field.metadata[_KEY])
    return {}


def _is_kept(name: str) -> bool:
    return name not in _OWN and not name.startswith("option.")
