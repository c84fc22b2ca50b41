"""Tables in Spark's catalogue: `CREATE TABLE t USING lancefs OPTIONS (path '…')`.

Spark keeps a table's options, but when the table is queried it gives a Python data source none of
them, only the schema. So the schema of such a table carries them, in the metadata of its first
column. Credentials stay out of it, since schemas end up in files: they must come from the
environment, as each store's library documents.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql.types import StructField, StructType

from lancefs.errors import LanceError
from lancefs.spark.option_names import CATALOGUE_COPY, PROVIDER, is_property

_KEY = "lancefs"
# What Spark adds to the options when it makes a table.
_OWN = (PROVIDER, "owner", "comment")


def noted(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the schema with the options in it, where a table of the catalogue is made.

    Raises:
        ValueError: There are storage options, which would not be there when it is queried.
    """
    if PROVIDER not in options or not schema.fields:
        return schema
    if any(name == "storage" or name.startswith("storage.") for name in options):
        raise ValueError(
            "a table in the catalogue cannot have storage options, for they may be secrets: set "
            "them up for the store in the environment of driver and workers, or use CREATE "
            "TEMPORARY VIEW or spark.read"
        )
    names = {name.lower() for name in options}
    kept = {name: value for name, value in options.items() if _is_kept(name.lower(), names)}
    first = schema.fields[0]
    metadata = {**first.metadata, _KEY: kept}
    noted = StructField(first.name, first.dataType, first.nullable, metadata)
    return StructType([noted, *schema.fields[1:]])


def options(schema: StructType, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a table of the catalogue.

    Args:
        schema: The columns of the table, which carry its own options.
        given: What a query says beside them, which goes first.

    Raises:
        ValueError: The columns carry none.
    """
    for field in schema.fields:
        if _KEY in field.metadata:
            own = {name.lower(): value for name, value in field.metadata[_KEY].items()}
            return own | {name.lower(): value for name, value in given.items()}
    raise ValueError(
        "no table is named: say .load('s3://bucket/t.lance'), or the option path. Of a table of "
        "the catalogue, Spark tells a Python data source only the columns; lancefs keeps the path "
        "there if the table is created without a list of columns: CREATE TABLE t USING lancefs "
        "OPTIONS (path 's3://bucket/t.lance')"
    )


def outdated(error: LanceError | ValueError) -> ValueError:
    """Say of a table of the catalogue that its columns are not those of the version.

    Args:
        error: What is wrong with them.
    """
    return ValueError(
        f"{error}. Spark's catalogue has the columns of when the table was created there: CREATE "
        "OR REPLACE TABLE … USING lancefs takes those of now; a version with other columns can be "
        "read by a CREATE TEMPORARY VIEW"
    )


def _is_kept(name: str, names: Collection[str]) -> bool:
    is_of_spark = name in _OWN or name.startswith(CATALOGUE_COPY)
    return not is_of_spark and not is_property(name, names)
