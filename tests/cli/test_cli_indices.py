"""What `lancefs show` tells of indices."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from running import Here


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.lance"
    rows = pa.table({"id": range(100), "tags": [["a", "b"]] * 100})
    lance.write_dataset(rows, path).create_scalar_index("id", "BTREE")
    lance.dataset(path).create_scalar_index("tags", "LABEL_LIST")
    lance.write_dataset(rows, path, mode="append")
    lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=0, index_names=["id_idx"])
    return path


def test_show_says_what_an_index_answers_and_covers(table: Path, here: Here) -> None:
    lines = here("show", str(table)).out.splitlines()
    (of_id,) = [line.split() for line in lines if line.startswith("id_idx")]
    (of_tags,) = [line.split() for line in lines if line.startswith("tags_idx")]
    assert of_id[1:10] == ["BTree", "id", "2", "2", "of", "2", "200", "100", "%"]
    assert of_tags[1:10] == ["LabelList", "tags", "1", "1", "of", "2", "100", "50.0", "%"]
    assert "array_has," in of_tags
    assert "2 indices" in lines


def test_show_tells_programs_too(table: Path, here: Here) -> None:
    segments = json.loads(here("show", str(table), "--format", "json").out)["indices"]
    of_tags = next(one for one in segments if one["name"] == "tags_idx")
    assert of_tags["answers"] == ["array_has", "array_has_any", "array_has_all", "IS NULL"]
    assert (of_tags["covered_rows"], of_tags["uncovered_rows"]) == (100, 100)
    assert of_tags["bytes"] > 0
