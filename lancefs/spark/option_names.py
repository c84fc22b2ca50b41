"""Which names of options there are, and which unknown ones are refused.

Spark hands all options of a reader to it, also those of other formats and of its catalogue, and
readers pass over what they do not know. That is kept, but for names that look like a slip, and for
those that ask for other rows than the ones that would come: a version, above all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from lancefs.arguments import similar_names

NAMES = (
    "path",
    "version",
    "tag",
    "branch",
    "asOf",
    "versionAsOf",
    "timestampAsOf",
    "columns",
    "filter",
    "withRowId",
    "batchSize",
    "rowsPerPartition",
    "bytesPerPartition",
    "nanoseconds",
    "unsupported",
    "useIndex",
    "pushFilters",
    "followBasePaths",
    "basePaths",
    "storage",
    "startingVersion",
    "startingTimestamp",
    "maxVersionsPerTrigger",
    "maxRowsPerTrigger",
    "skipChanges",
    "readChangeFeed",
)
_KNOWN = {name.lower(): name for name in NAMES}
STORAGE = "storage."
# What stands before the name in the second copy of each option that Spark's catalogue hands over.
CATALOGUE_COPY = "option."
# What Spark adds to the options when a table is made in its catalogue.
PROVIDER = "provider"
# What Spark makes of `.load([…])` with more than one path.
_PATHS = "paths"
_SEPARATORS = re.compile("[-_.]")
# What other readers, and the functions of lancefs, call an option; in small letters, without
# separators.
_ELSEWHERE = {
    "asofinstant": "asOf",
    "asoftimestamp": "asOf",
    "snapshotid": "version",
    "tableversion": "version",
    "versionnumber": "version",
    "ref": "tag",
    "reference": "tag",
    "checkout": "version",
    "revision": "version",
    "startingoffsets": "startingVersion",
    "startsnapshotid": "startingVersion",
    "streamfromtimestamp": "startingTimestamp",
    "select": "columns",
    "predicate": "filter",
    "where": "filter",
}
# Parts of the names of options by which readers are told a version.
_OF_VERSIONS = re.compile("version|snapshot|branch|timestamp|asof|^tag|tag$|^commit(id|hash)?$")
# Options of Spark's own formats that only look so: how times are spelt in CSV and JSON.
_OF_TEXTS = ("timestampformat", "timestampntzformat")


def check_names(given: Mapping[str, str]) -> None:
    """Refuse options that are not known and that a reader must not pass over.

    Args:
        given: The options as Spark hands them over.

    Raises:
        ValueError: A name is a slip of a known one, another reader's name for it, or asks for a
            version in a way that lancefs does not know.
    """
    said = {name.lower() for name in given}
    if _PATHS in said:
        raise ValueError(
            "several tables are named, and lancefs reads one at a time: load each of them, and "
            "join the DataFrames with unionByName"
        )
    for name in given:
        lower = name.lower()
        is_free = lower.startswith((STORAGE, CATALOGUE_COPY)) or is_property(lower, said)
        if not is_free and lower not in _KNOWN:
            _check_unknown(name)


def is_property(name: str, said: Collection[str]) -> bool:
    """Return whether what comes among options is a property of a table that the catalogue makes.

    Properties have no copies. One that has the name of an option is one.

    Args:
        name: The name, in small letters.
        said: All names that come, in small letters.
    """
    return PROVIDER in said and CATALOGUE_COPY + name not in said and name not in _KNOWN


def _check_unknown(name: str) -> None:
    plain = _SEPARATORS.sub("", name.lower())
    if plain in _OF_TEXTS:
        return
    near = similar_names(plain, _KNOWN, most=1, cutoff=0.75)
    meant = _ELSEWHERE.get(plain) or (_KNOWN[near[0]] if near else None)
    if meant is not None:
        raise ValueError(f"lancefs has no option {name!r}; did you mean {meant!r}?")
    if _OF_VERSIONS.search(plain):
        raise ValueError(
            f"lancefs has no option {name!r}; version, tag, branch and asOf say which version is "
            "read, and startingVersion and startingTimestamp where a stream begins"
        )
