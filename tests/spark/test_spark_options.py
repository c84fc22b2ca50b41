"""Options that lancefs does not know: which are passed over, as Spark does, and which refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from spark_support import append, make_table

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lancefs[spark]'")

from lancefs.spark.table_options import parse_options


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("snapshotId", "version"),
        ("snapshot-id", "version"),
        ("tableVersion", "version"),
        ("table_version", "version"),
        ("versionNumber", "version"),
        ("VERSION_AS_OF", "versionAsOf"),
        ("as-of-timestamp", "asOf"),
        ("as.of.instant", "asOf"),
        ("ref", "tag"),
        ("branchName", "branch"),
        ("startingOffsets", "startingVersion"),
        ("start-snapshot-id", "startingVersion"),
        ("stream-from-timestamp", "startingTimestamp"),
        ("where", "filter"),
        ("select", "columns"),
        ("batch_size", "batchSize"),
        ("verison", "version"),
    ],
)
def test_other_names_of_an_option_are_answered_with_its_own(name: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"^lancefs has no option '{name}'; .* '{meant}'"):
        parse_options({"path": "t.lance", name: "1"})


@pytest.mark.parametrize(
    "name",
    [
        "snapshot",
        "end-snapshot-id",
        "endingVersion",
        "commitVersion",
        "tagged",
        "nessieBranchName",
    ],
)
def test_an_unknown_option_that_asks_for_a_version_is_refused(name: str) -> None:
    """The rows of another version would come."""
    says = f"^lancefs has no option '{name}'; version, tag, branch and asOf say which version"
    with pytest.raises(ValueError, match=says):
        parse_options({"path": "t.lance", name: "3"})


@pytest.mark.parametrize(
    "name",
    ["mergeSchema", "header", "inferSchema", "timestampFormat", "recursiveFileLookup", "comment"],
)
def test_options_of_other_formats_are_passed_over(name: str) -> None:
    assert parse_options({"path": "t.lance", name: "true"}).ref.version is None


def test_options_of_a_store_may_have_any_name() -> None:
    options = parse_options({"path": "t.lance", "storage.version_aware": "true"})
    assert options.table.storage == {"version_aware": True}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"versionAsOf": "1", "timestampAsOf": "2026-01-01"}, "versionAsOf and timestampAsOf each"),
        ({"version": "1", "asOf": "2026-01-01"}, "version and asOf each name a version"),
        ({"tag": "prod", "timestampAsOf": "2026-01-01"}, "tag and timestampAsOf each name"),
        ({"tag": "prod", "versionAsOf": "1"}, "each name a version"),
    ],
    ids=str,
)
def test_a_version_has_one_name(options: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_options({"path": "t.lance", **options})


def test_a_table_of_the_catalogue_has_properties_of_any_name_but_not_options(
    spark: Any, tmp_path: Path
) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    append(path, 100, 10)
    create = f"CREATE TABLE noted USING lancefs OPTIONS (path '{path}'"
    with pytest.raises(Exception, match=r"no option '.*napshot.*'; did you mean 'version'"):
        spark.sql(f"{create}, snapshotId '1')")
    spark.sql(f"{create}) TBLPROPERTIES ('schema_version' = '7', 'snapshotId' = '1')")
    try:
        assert spark.sql("SELECT id FROM noted").count() == 110
        with pytest.raises(Exception, match=r"no option '.*napshot.*'; did you mean 'version'"):
            spark.sql("SELECT id FROM noted WITH (snapshotId = 1)").count()
        assert spark.sql("SELECT id FROM noted WITH (version = 1)").count() == 100
    finally:
        spark.sql("DROP TABLE noted")
