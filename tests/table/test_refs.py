"""Refs: the grammar, and what it finds."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from shutil import copy

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import frame, local_store

from lancefs.errors import CorruptFile, LanceError, NotALanceTable, RefNotFound
from lancefs.proto import table_pb2
from lancefs.storage import File, Store
from lancefs.table import manifest, refs
from lancefs.table.refs import Ref, make_ref, parse_ref, resolve
from lancefs.table.tags_and_branches import list_branches, list_tags

START = datetime(2026, 1, 1, tzinfo=UTC)


def commit(directory: Path, version: int) -> None:
    """Write a version from `START` plus as many hours as its number."""
    message = table_pb2.Manifest(version=version)
    message.timestamp.FromDatetime(START + timedelta(hours=version))
    path = directory / "_versions" / f"{2**64 - 1 - version:020}.manifest"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(frame(message))


@pytest.fixture
def table(tmp_path: Path) -> Store:
    """Versions 3–9 on main, 1–2 on branch `exp/fast`, tags on both."""
    for version in range(3, 10):
        commit(tmp_path, version)
    for version in (1, 2):
        commit(tmp_path / "tree" / "exp" / "fast", version)
    put(tmp_path, "branches/exp%2Ffast", parentBranch=None, parentVersion=4, createAt=1767225600)
    put(tmp_path, "tags/prod", branch=None, version=5, manifestSize=100)
    put(tmp_path, "tags/12", version=7)
    put(tmp_path, "tags/fast", branch="exp/fast", version=1, createdAt="2026-01-01T00:00:00Z")
    put(tmp_path, "tags/gone", version=1)
    return local_store(tmp_path)


def put(directory: Path, name: str, **said: object) -> None:
    path = directory / "_refs" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(said))


GRAMMAR = {
    "": Ref(),
    "latest": Ref(),
    " latest ": Ref(),
    "7": Ref(version=7),
    "v7": Ref(version=7),
    "007": Ref(version=7),
    "prod": Ref(tag="prod"),
    "v1.0.0": Ref(tag="v1.0.0"),
    "v": Ref(tag="v"),
    "tags/12": Ref(tag="12"),
    "tags/latest": Ref(tag="latest"),
    "exp:latest": Ref(branch="exp"),
    "exp:3": Ref(version=3, branch="exp"),
    "bugfix/issue-1:v3": Ref(version=3, branch="bugfix/issue-1"),
    "main:3": Ref(version=3),
    "main:latest": Ref(),
}


@pytest.mark.parametrize(("text", "expected"), GRAMMAR.items(), ids=lambda value: repr(str(value)))
def test_refs_are_parsed_and_written_by_the_grammar(text: str, expected: Ref) -> None:
    assert parse_ref(text) == expected
    assert make_ref(ref=text) == expected
    assert parse_ref(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("exp/fast", "exp/fast:latest"),
        ("exp:", "''"),
        (":3", "expected"),
        ("exp:prod", "'prod'"),
        ("exp:-1", "'-1'"),
        ("2026-01-31T12:00:00Z", "as_of"),
        ("a b", "expected"),
        ("-x:3@", "not a version"),
        ("../up", "expected"),
        ("..", "expected"),
        ("a/../b:3", "expected"),
        ("tags/", "expected"),
    ],
)
def test_a_text_that_is_no_ref_is_answered_with_the_grammar(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint.replace(".", r"\.")):
        parse_ref(text)


def test_a_name_that_cannot_be_is_answered_with_the_letters_of_names() -> None:
    with pytest.raises(ValueError, match="a tag; letters, digits, '_', '-' and single dots"):
        make_ref(tag="a/b")
    with pytest.raises(ValueError, match=r"a branch; .*, in parts with '/' between them"):
        make_ref(branch="a//b")


@given(st.text())
def test_any_text_is_a_ref_or_a_value_error(text: str) -> None:
    try:
        ref = parse_ref(text)
    except ValueError:
        return
    assert parse_ref(str(ref)) == ref


def test_arguments_name_versions_as_refs_do() -> None:
    assert make_ref() == Ref()
    assert make_ref(version="v3", branch="exp") == parse_ref("exp:3")
    assert make_ref(version=3, branch="main") == make_ref(ref=3) == Ref(version=3)
    assert make_ref(tag="12") == parse_ref("tags/12")
    assert make_ref(ref=Ref(tag="x")) == Ref(tag="x")
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert make_ref(as_of="2026-01-31T12:00:00Z") == Ref(as_of=noon)
    assert make_ref(as_of="2026-01-31 12:00:00") == Ref(as_of=noon)
    assert make_ref(as_of=noon.replace(tzinfo=None), branch="exp") == Ref(as_of=noon, branch="exp")
    india = noon.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert make_ref(as_of=india).as_of == noon
    assert make_ref(as_of=date(2026, 1, 31)) == make_ref(as_of="2026-01-31")


@pytest.mark.parametrize(
    "arguments",
    [
        {"version": 3, "tag": "prod"},
        {"tag": "prod", "branch": "exp"},
        {"version": 3, "as_of": START},
        {"ref": "3", "branch": "exp"},
        {"ref": "3", "version": 3},
        {"version": 3, "branch": "exp", "as_of": START},
        {"ref": "3", "as_of": START},
    ],
    ids=" and ".join,
)
def test_arguments_that_contradict_each_other_are_named(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=" and ".join(arguments) + " each name a version"):
        make_ref(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"version": -1},
        {"version": True},
        {"version": "x"},
        {"version": 2.5},
        {"tag": "a/b"},
        {"tag": ""},
        {"tag": ".."},
        {"branch": "/x"},
        {"branch": "a//b"},
        {"branch": "../../etc"},
        {"as_of": "yesterday"},
    ],
    ids=str,
)
def test_arguments_that_cannot_be_read_are_value_errors(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"is not a|cannot be"):
        make_ref(**arguments)


@pytest.mark.parametrize(
    ("text", "branch", "version"),
    [
        ("latest", None, 9),
        ("4", None, 4),
        ("prod", None, 5),
        ("tags/12", None, 7),
        ("exp/fast:latest", "exp/fast", 2),
        ("exp/fast:1", "exp/fast", 1),
        ("fast", "exp/fast", 1),
    ],
)
def test_a_ref_finds_its_version(table: Store, text: str, branch: str | None, version: int) -> None:
    found = resolve(table, parse_ref(text))
    assert (found.branch, found.file.version) == (branch, version)
    assert found.root is table
    assert found.store.root == (table.full(f"tree/{branch}") if branch else table.root)
    assert found.manifest.url == f"{found.store.url()}/{found.file.path}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("12", r"no version 12; the table has 3, 4, 5, 6, 7, 8, 9$"),
        ("2", r"cleaned up"),
        ("prd", r"no tag 'prd'; the table has the tags 12, fast, gone, prod"),
        ("exp:latest", r"no branch 'exp'; the table has the branches exp/fast"),
        ("exp/fast:3", r"no version 3; the table has 1, 2"),
        ("gone", r"tag 'gone' points to a version that is gone: .*no version 1"),
    ],
)
def test_an_unknown_ref_is_answered_with_existing_ones(
    table: Store, text: str, message: str
) -> None:
    with pytest.raises(RefNotFound, match=message):
        resolve(table, parse_ref(text))


@pytest.mark.parametrize("time", [datetime(2026, 1, 31, 12, tzinfo=UTC), date(2026, 1, 31)])
def test_a_ref_may_be_a_time(time: date) -> None:
    assert make_ref(ref=time) == make_ref(as_of=time)


def test_a_branch_taken_for_a_tag_is_pointed_out(tmp_path: Path) -> None:
    commit(tmp_path, 1)
    put(tmp_path, "branches/exp", parentVersion=1)
    with pytest.raises(RefNotFound, match="the table has no tags; for the branch say 'exp:latest'"):
        resolve(local_store(tmp_path), parse_ref("exp"))


@pytest.mark.parametrize("name", ["2026-01-31", "2026-01-31T12"])
def test_a_time_in_place_of_a_tag_is_pointed_out(table: Store, name: str) -> None:
    with pytest.raises(RefNotFound, match=r"no tag.*; a point in time goes into as_of"):
        resolve(table, parse_ref(name))


@pytest.mark.parametrize("name", ["9223372036854775808", "v18446744073709551615"])
def test_a_detached_version_in_place_of_a_tag_is_pointed_out(table: Store, name: str) -> None:
    with pytest.raises(RefNotFound, match=r"there is no .*versions of 64 bits are detached"):
        resolve(table, parse_ref(name))


def test_of_many_tags_the_nearest_are_shown(tmp_path: Path) -> None:
    commit(tmp_path, 1)
    for number in range(40):
        put(tmp_path, f"tags/release-{number}", version=1)
    with pytest.raises(RefNotFound, match=r"has 40 tags, among them .*release-33") as caught:
        resolve(local_store(tmp_path), parse_ref("relese-33"))
    assert str(caught.value).count("release") <= 12


@pytest.mark.parametrize("text", ["latest", "3", "prod", "exp:latest"])
def test_without_a_table_every_ref_says_so(tmp_path: Path, text: str) -> None:
    with pytest.raises(NotALanceTable):
        resolve(local_store(tmp_path / "nowhere"), parse_ref(text))


@pytest.mark.parametrize(
    ("hours", "version"),
    [(3, 3), (3.5, 3), (6, 6), (6.99, 6), (8.5, 8), (9, 9), (1000, 9)],
)
def test_a_point_in_time_finds_the_newest_version_by_then(
    table: Store, hours: float, version: int
) -> None:
    found = resolve(table, Ref(as_of=START + timedelta(hours=hours)))
    assert found.file.version == version


def test_a_point_in_time_before_the_first_version(table: Store) -> None:
    with pytest.raises(RefNotFound, match="the oldest, 3, is from 2026-01-01T03:00:00"):
        resolve(table, Ref(as_of=START))
    on_branch = resolve(table, Ref(as_of=START + timedelta(hours=1), branch="exp/fast"))
    assert (on_branch.branch, on_branch.file.version) == ("exp/fast", 1)


@pytest.mark.parametrize("text", ["4", "exp/fast:1", "prod"])
def test_a_version_of_a_local_table_is_found_by_its_name(
    table: Store, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = resolve(table, parse_ref(text)).file.path
    for name in ("list_versions", "numbered"):
        monkeypatch.setattr(refs, name, lambda *_, **__: pytest.fail("listed"))
    assert resolve(table, parse_ref(text)).file.path == expected


def test_a_detached_version_is_not_found_by_its_name(tmp_path: Path) -> None:
    commit(tmp_path, 1)
    (manifest,) = (tmp_path / "_versions").iterdir()
    detached = 2**63 + 5
    copy(manifest, manifest.with_name(f"{2**64 - 1 - detached:020}.manifest"))
    with pytest.raises(RefNotFound, match=f"no version {detached}"):
        resolve(local_store(tmp_path), Ref(version=detached))


def test_a_point_in_time_reads_few_manifests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in range(1, 201):
        commit(tmp_path, version)
    read: list[str] = []

    def counting(file: File) -> datetime:
        read.append(file.path)
        return original(file)

    original = manifest.read_timestamp
    monkeypatch.setattr(manifest, "read_timestamp", counting)
    found = resolve(local_store(tmp_path), Ref(as_of=START + timedelta(hours=77.5)))
    assert found.file.version == 77
    assert len(read) <= 9  # the newest, and log₂ 200
    read.clear()
    assert resolve(local_store(tmp_path), Ref(as_of=datetime.now(UTC))).file.version == 200
    assert len(read) == 1


def test_tags_and_branches_are_listed(table: Store) -> None:
    tags = list_tags(table)
    assert {name: (tag.branch, tag.version) for name, tag in tags.items()} == {
        "12": (None, 7),
        "fast": ("exp/fast", 1),
        "gone": (None, 1),
        "prod": (None, 5),
    }
    assert tags["prod"].manifest_size == 100
    assert tags["fast"].created_at == "2026-01-01T00:00:00Z"
    branch = list_branches(table)["exp/fast"]
    assert (branch.parent_branch, branch.parent_version) == (None, 4)
    assert branch.created_at == START
    assert list_tags(local_store(table.full("tree/exp/fast"))) == {}


def test_branches_spelled_as_on_the_format_page_are_read(tmp_path: Path) -> None:
    put(tmp_path, "branches/x", parent_branch="y", parent_version=3, create_at=0, manifest_size=5)
    branch = list_branches(local_store(tmp_path))["x"]
    assert (branch.parent_branch, branch.parent_version, branch.manifest_size) == ("y", 3, 5)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"version": "5"}',
        '{"version": -1}',
        '{"version": true}',
        '{"version": 5, "branch": 7}',
        '{"version": 5, "branch": "../../secret"}',
        '{"version": 5, "manifestSize": "big"}',
        "\udcff",
        "[" * 100_000,
    ],
    ids=lambda said: said[:40],
)
def test_a_damaged_tag_is_damage(table: Store, said: str) -> None:
    path = Path(table.full("_refs/tags/prod.json"))
    path.write_text(said, errors="surrogateescape")
    with pytest.raises(CorruptFile, match=r"prod\.json"):
        resolve(table, Ref(tag="prod"))
    with pytest.raises(LanceError):
        list_tags(table)


@pytest.mark.parametrize("seconds", [253_402_300_800, 10**12])
def test_a_branch_that_was_made_at_no_time_is_damage(table: Store, seconds: int) -> None:
    put(Path(table.full("")), "branches/late", parentVersion=4, createAt=seconds)
    with pytest.raises(CorruptFile, match=rf"late\.json: created {seconds} s after 1970"):
        list_branches(table)


def test_a_branch_may_have_been_made_in_the_last_second_of_9999(table: Store) -> None:
    put(Path(table.full("")), "branches/late", parentVersion=4, createAt=253_402_300_799)
    late = list_branches(table)["late"]
    assert late.created_at == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def test_a_ref_reads_well() -> None:
    assert str(Ref(as_of=START, branch="exp")) == "exp:latest?as_of=2026-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    "time",
    [pd.NaT, np.datetime64("2026-01-01"), 5, "9999-12-31T23:59:59-05:00"],
    ids=str,
)
def test_what_is_no_point_in_time_is_refused(time: object) -> None:
    with pytest.raises(ValueError, match="is not a point in time"):
        make_ref(as_of=time)  # type: ignore[arg-type]
