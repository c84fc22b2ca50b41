"""URLs of files of the tree, there and back; and tables that an archive is made of."""

from __future__ import annotations

import zipfile
from pathlib import Path

import fsspec
import lance
import pyarrow as pa

import lancefs
from lancefs.filesystem import LanceFileSystem


def test_the_url_of_a_file_opens_it(table: str) -> None:
    fs = LanceFileSystem(fo=table)
    url = fs.unstrip_protocol("versions/1.arrow")
    assert fs.cat(url) == fs.cat("versions/1.arrow")
    assert fs.open(fs.open("versions/1.arrow").full_name).read() == fs.cat("versions/1.arrow")
    with fsspec.open(url) as file:
        assert file.read() == fs.cat("versions/1.arrow")


def test_the_url_of_a_column_with_colons_in_its_name_opens_it(tmp_path: Path) -> None:
    names = ["std::string", "::", ":", "lance::x", "a:", ":::b"]
    lance.write_dataset(pa.table({name: [name] for name in names}), tmp_path / "t.lance")
    fs = LanceFileSystem(fo=str(tmp_path / "t.lance"))
    found = []
    for path in fs.ls("versions/1/columns", detail=False):
        with fsspec.open(fs.unstrip_protocol(path)) as file:
            found += pa.ipc.open_file(file).read_all().column_names
    assert found == names


def test_a_table_at_the_root_of_an_archive_is_read(tmp_path: Path) -> None:
    path, archive = tmp_path / "t.lance", tmp_path / "t.zip"
    rows = pa.table({"a": range(50)})
    lance.write_dataset(rows, path)
    with zipfile.ZipFile(archive, "w") as packed:
        for file in sorted(path.rglob("*")):
            packed.write(file, file.relative_to(path))
    assert lancefs.open(f"zip://::file://{archive}").to_table() == rows
