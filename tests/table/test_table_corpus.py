"""Every version of every table of the corpus: found, counted, and of the expected schema."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from support import (
    UNCOUNTED,
    CorpusCase,
    CorpusRef,
    copy_table,
    corpus_case,
    local_store,
    needs_corpus,
    of_each_case,
)

import lancefs
from lancefs.errors import MissingFile
from lancefs.table.base_paths import BaseRules, TableFiles
from lancefs.table.deletions import read_deletions
from lancefs.table.manifest import Manifest, read_manifest, read_timestamp
from lancefs.table.refs import Ref, Resolved, resolve
from lancefs.table.tags_and_branches import list_branches, list_tags
from lancefs.table.versions import list_versions

pytestmark = needs_corpus

_OPENED: dict[str, tuple[Resolved, Manifest]] = {}


def opened(ref: CorpusRef) -> tuple[Resolved, Manifest]:
    if str(ref) not in _OPENED:
        found = resolve(ref.case.store(), ref.ref)
        _OPENED[str(ref)] = found, read_manifest(found.manifest)
    return _OPENED[str(ref)]


@of_each_case
def test_versions_tags_and_branches_are_those_of_the_table(case: CorpusCase) -> None:
    store = case.store()
    own = {ref.ref.version for ref in case.refs if ref.ref.branch is None and not ref.ref.tag}
    versions = list_versions(store)
    assert {file.version for file in versions} == own
    assert str(versions[-1].version) == str(case.info["latest"])
    assert set(list_tags(store)) == {ref.name for ref in case.refs if ref.info.get("tag")}
    branches = case.info.get("branches", {})
    assert {
        name: (branch.parent_branch, branch.parent_version)
        for name, branch in list_branches(store).items()
    } == {name: (info["parent_branch"], info["parent_version"]) for name, info in branches.items()}
    for name, info in branches.items():
        assert resolve(store, Ref(branch=name)).file.version == info["latest"]


@of_each_case
def test_every_version_is_read_and_counted(case: CorpusCase) -> None:
    for ref in case.refs:
        _, manifest = opened(ref)
        assert manifest.version == ref.info.get("version", ref.ref.version), str(ref)
        assert len(manifest.fragments) == ref.info["fragments"], str(ref)
        expected = None if case.name.endswith(UNCOUNTED) else ref.info["num_rows"]
        assert manifest.num_rows == expected, str(ref)
        counts = [fragment.num_rows for fragment in manifest.fragments]
        assert None in counts if expected is None else sum(filter(None, counts)) == expected
        assert manifest.branch == ref.info.get("branch"), str(ref)


@of_each_case
def test_every_schema_is_the_expected_one(case: CorpusCase) -> None:
    for ref in case.refs:
        for kind, blobs in (("", "descriptors"), ("blobs", "bytes")):
            path = ref.expected(kind)
            if path is not None:
                _, manifest = opened(ref)
                with pa.ipc.open_file(path) as reader:
                    schema = pa.schema(
                        [field.to_arrow(blobs) for field in manifest.fields],
                        metadata=manifest.schema_metadata,
                    )
                    assert schema.equals(reader.schema, check_metadata=True), f"{ref} {kind}"
                for field in manifest.fields:
                    special = {b"ARROW:extension:name"} & {
                        k for f in field.walk() for k in f.metadata
                    }
                    if not special and not any(f.is_blob or f.is_json for f in field.walk()):
                        assert field.storage_type == field.to_arrow().type


@of_each_case
def test_every_file_that_a_manifest_names_is_there(case: CorpusCase) -> None:
    for ref in case.refs:
        found, manifest = opened(ref)
        files = TableFiles(found.store, manifest.base_paths, root=found.root)
        for fragment in manifest.fragments:
            for data in fragment.files:
                file = files.data_file(data)
                size = os.path.getsize(file.store.full(file.path))
                assert data.size in (None, size), f"{ref} {file}"
            deleted = read_deletions(files, fragment)
            assert fragment.num_deleted in (None, len(deleted)), str(ref)


@of_each_case
def test_later_versions_are_never_older(case: CorpusCase) -> None:
    store = case.store()
    times = [read_timestamp(store.file(file.path)) for file in list_versions(store)]
    assert times == sorted(times)


def test_the_rows_of_writers_that_did_not_count_deletions_are_known_from_the_files() -> None:
    case = corpus_case("hist_with-deletions-w0.7.5")
    found, manifest = opened(case.refs[-1])
    files = TableFiles(found.store, manifest.base_paths)
    assert (manifest.physical_rows, manifest.fragments[0].num_deleted) == (None, None)
    assert len(read_deletions(files, manifest.fragments[0], physical_rows=100)) == 10


def test_a_branch_of_a_table_that_moved_is_read_with_its_new_place(tmp_path) -> None:
    case = corpus_case("feat_branches-f2.1-w14.0.2")
    table = copy_table(case, tmp_path)
    found = resolve(local_store(table), Ref(branch="dev2"))
    manifest = read_manifest(found.manifest)
    rules = BaseRules("table", moved={f"{case.info['relocate']}/table.lance": str(table)})
    files = TableFiles(found.store, manifest.base_paths, rules, found.root)
    for fragment in manifest.fragments:
        for data in fragment.files:
            file = files.data_file(data)
            assert file.url.startswith(str(table))
            assert file.size == data.size


def test_base_paths_are_mapped_by_whoever_opens_a_table(tmp_path) -> None:
    case = corpus_case("feat_branches-f2.1-w14.0.2")
    table = copy_table(case, tmp_path)
    moved = {f"{case.info['relocate']}/table.lance": str(table)}
    dataset = lancefs.open(table, branch="dev2", base_rules=BaseRules("table"), base_paths=moved)
    assert dataset.to_table().num_rows == dataset.count_rows()


def test_a_version_that_is_cleaned_up_while_it_is_opened_is_missing(tmp_path) -> None:
    table = copy_table(corpus_case("feat_tags-f2.1-w14.0.2"), tmp_path)
    found = resolve(local_store(table))
    os.unlink(found.store.full(found.file.path))
    with pytest.raises(MissingFile, match="is gone"):
        read_manifest(found.manifest)
