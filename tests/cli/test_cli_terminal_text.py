"""On a terminal, names and values reach neither its title nor its cursor."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from running import run_on_terminal
from support import rewrite_manifest

from lancefs.proto import table_pb2

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202e"


@pytest.mark.parametrize(
    "arguments",
    [
        *(["head"], ["head", "--format", "csv"], ["head", "--format", "json"], ["show"], ["du"]),
        *(["schema"], ["tree", "--depth", "4"], ["verify"], ["head", "-c", HOSTILE]),
    ],
    ids=" ".join,
)
def test_a_terminal_gets_no_controls_but_ours(arguments: list[str], tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": [HOSTILE, "b"], "b": [1, 2]}), str(path))

    def change(message: table_pb2.Manifest) -> None:
        message.fields[1].name = f"b{HOSTILE}"
        message.config["key"] = HOSTILE

    rewrite_manifest(path, change)
    name, *options = arguments
    done = run_on_terminal([name, str(path), *options])
    assert done.out
    for control in ("\x1b]", "\x07", "\x1b[2J", "\u202e"):
        assert control not in done.out
