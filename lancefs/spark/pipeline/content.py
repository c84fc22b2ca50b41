"""A digest of the content of a fragment: equal digests mean equal rows."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from lancefs.datafile.fields import Field
from lancefs.lance_dataset import LanceDataset
from lancefs.spark.pipeline.destination import Settings
from lancefs.spark.spark_types import arrow_schema, spark_schema
from lancefs.table.fragments import DataFile, DataOverlay, Fragment
from lancefs.table.row_metadata import ROW_METADATA, is_row_metadata


class Contents:
    """Tells what is written of fragments of a version.

    Args:
        dataset: The version.
        settings: How it is written.

    Raises:
        ColumnNotFound: A column is not there.
    """

    def __init__(self, dataset: LanceDataset, settings: Settings) -> None:
        fields = _written(dataset, settings)
        how = {name: value for name, value in asdict(settings).items() if name != "target_bytes"}
        self._how: list[object] = [[_field(field) for field in fields], how]
        if settings.types == "spark":  # of which a later release may choose others
            chosen = dataset.scanner(settings.columns).projected_schema
            self._how.append(str(arrow_schema(spark_schema(chosen))))
        self._has_row_metadata = any(is_row_metadata(field) for field in fields)

    def key(self, fragment: Fragment) -> str:
        """Return a key for the rows of a fragment, as they are written.

        Two versions in which the key of a fragment is the same have the same rows in it: files of a
        table never change, and no name is used twice.
        """
        said: list[object] = [
            [_file(file) for file in fragment.files],
            None if fragment.deletion_file is None else fragment.deletion_file._asdict(),
            [_overlay(overlay) for overlay in fragment.overlays],
            self._how,
        ]
        if self._has_row_metadata:
            lineages = (fragment.row_ids, fragment.created_at_versions)
            said.append([repr(one) for one in (*lineages, fragment.last_updated_at_versions)])
        text = json.dumps(said, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:24]


def _written(dataset: LanceDataset, settings: Settings) -> list[Field]:
    own = {field.name: field for field in dataset.manifest.fields}
    if settings.columns is None:
        return list(own.values())
    names = dataset.scanner(settings.columns).projected_schema.names
    return [{**ROW_METADATA, **own}[name] for name in names]


def _file(file: DataFile) -> list[object]:
    return [file.path, file.base_id, file.fields, file.column_indices]


def _overlay(overlay: DataOverlay) -> list[object]:
    rows = b"|".join([overlay.shared_coverage or b"", *overlay.field_coverage])
    return [_file(overlay.file), overlay.committed_version, hashlib.sha256(rows).hexdigest()]


def _field(field: Field) -> list[object]:
    metadata = sorted((key.hex(), value.hex()) for key, value in field.metadata.items())
    below = [_field(child) for child in field.children]
    return [field.id, field.name, field.logical_type, field.nullable, metadata, below]
