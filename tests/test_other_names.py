"""Names that users of pylance and pandas try: the error says what lancefs has in their place."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import lance
import pytest
from support import ORDERS

import lancefs
from lancefs import other_names
from lancefs.forks import cached_property
from lancefs.scan.scanner import LanceScanner


@pytest.fixture
def orders() -> lancefs.LanceDataset:
    return lancefs.open(ORDERS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ds.checkout_version(2)", r"no attribute 'checkout_version': checkout\(2\) returns"),
        ("ds.list_indices()", r"indices\(\) lists the indices"),
        ("ds.delete('true')", "lancefs only reads; write with pylance"),
        ("ds.columns", "schema.names has the names"),
        ("ds.dtypes", "schema.types has the types"),
        ("ds.iter_batches()", r"to_batches\(\) iterates"),
        ("ds.groupby('city')", r"to_table\(…\).group_by"),
        ("ds.to_pylist()", r"to_table\(\).to_pylist\(\)"),
        ("ds.get_fragment(0).physical_rows", "metadata.physical_rows has it"),
        ("ds.scanner().to_pandas()", r"to_table\(\).to_pandas\(\) returns a frame"),
        ("lancefs.write_dataset", "'lancefs' has no attribute 'write_dataset': lancefs only reads"),
        ("ds.to_csv('x.csv')", r"to_pandas\(\) returns a frame"),
        ("ds.city", r"no attribute 'city': to_table\(columns=\['city'\]\) reads the column"),
        ("lancefs.read_table(url)", r"lancefs.open\(url\) returns a table"),
        ("lancefs.connect('lake')", r"no attribute 'connect': lancefs.open\(url\) returns a table"),
        ("ds.nothing", "'LanceDataset' object has no attribute 'nothing'$"),
        ("lancefs.nothing", "'lancefs' has no attribute 'nothing'$"),
    ],
)
def test_a_missing_attribute_names_what_there_is(
    orders: lancefs.LanceDataset, text: str, expected: str
) -> None:
    with pytest.raises(AttributeError, match=expected):
        eval(text, {"ds": orders, "lancefs": lancefs})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ds.to_table(nearest={})", r"argument 'nearest': dataset.nearest\(column, q, k\)"),
        ("ds.head(3, order_by=['city'])", r"'order_by': dataset.to_table\(…\).sort_by"),
        ("ds.count_rows(use_scalar_index=False)", "'use_scalar_index': the .* called use_index"),
        ("ds.get_fragment(0).to_table(column=['city'])", "'column': did you mean columns"),
        ("ds.scanner(nothing_like_it=1)", "argument 'nothing_like_it'$"),
        ("lancefs.dataset(url, asof='2026-01-01')", "'asof': the argument is called as_of"),
        ("lancefs.open(url, anon=True)", r"'anon': storage_options=\{…\} takes the options"),
        ("ds.to_table(where='price > 3')", "'where': the argument is called filter"),
        ("ds.to_pandas(usecols=['city'], nrows=3)", "'usecols': the argument is called columns"),
        ("lancefs.open(url, versoin=2)", "'versoin': did you mean version"),
        ("lancefs.open(url, block_size=4096)", "no such setting; leave it out"),
        ("lancefs.open(url, columns=['city'])", r"methods that read take it.*to_table"),
        ("ds.sample(3, random_state=1)", "the argument is called seed"),
        ("ds['city']", r"a LanceDataset has no items: to_table\(\) reads the rows, take"),
        ("ds.get_fragment(0)[0:5]", "a LanceFragment has no items"),
        ("list(ds)", r"to_batches\(\) iterates over them"),
        ("lancefs.LanceDataset(url)", r"lancefs.open\(url\) returns"),
    ],
)
def test_an_unknown_argument_names_what_there_is(
    orders: lancefs.LanceDataset, text: str, expected: str
) -> None:
    with pytest.raises(TypeError, match=expected):
        eval(text, {"ds": orders, "lancefs": lancefs, "url": ORDERS})


@pytest.mark.parametrize(
    ("meant", "ours", "theirs"),
    [
        (other_names.DATASET, lancefs.LanceDataset, lance.LanceDataset),
        (other_names.FRAGMENT, lancefs.LanceFragment, lance.LanceFragment),
        (other_names.SCANNER, LanceScanner, lance.LanceScanner),
        (other_names.MODULE, lancefs, lance),
    ],
    ids=["dataset", "fragment", "scanner", "module"],
)
def test_what_is_said_to_be_missing_is_missing(
    meant: Mapping[str, str], ours: object, theirs: object
) -> None:
    assert not set(meant) & set(dir(ours))
    writing = {name for name, text in meant.items() if text == other_names.DATASET["delete"]}
    assert writing <= set(dir(theirs))


def test_what_messages_about_datasets_name_is_there(orders: lancefs.LanceDataset) -> None:
    assert orders.checkout(2).version == 2
    assert orders.checkout("latest").version == 4
    assert [fragment.id for fragment in orders.fragments] == [0, 1]
    manifest, metadata = orders.manifest, orders.get_fragment(0).metadata
    assert manifest.data_version == "2.1"
    assert (dict(manifest.config), manifest.base_paths, len(manifest.fields)) == ({}, (), 8)
    assert (metadata.physical_rows, metadata.num_deleted, len(metadata.files)) == (1200, 12, 2)


def test_an_attribute_error_within_a_property_is_not_hidden() -> None:
    class Broken(lancefs.LanceFragment):
        @cached_property
        def schema(self) -> Any:
            return self.metadata.no_such_thing

    fragment = lancefs.open(ORDERS).get_fragment(0)
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = Broken(fragment._dataset, 0).schema


def test_a_fragment_is_found_by_its_id(orders: lancefs.LanceDataset) -> None:
    fragment = orders.get_fragment(1)
    assert fragment.to_table() == orders.to_table(fragments=[1])
    assert pickle.loads(pickle.dumps(fragment)).fragment_id == 1
    with pytest.raises(ValueError, match="no fragment 2; it has 2 fragments, of the ids 0 to 1"):
        orders.get_fragment(2)
    with pytest.raises(TypeError, match="fragment_id is None; a whole number was expected"):
        orders.get_fragment(None)  # type: ignore[arg-type]


def test_only_columns_and_filter_are_taken_by_position(orders: lancefs.LanceDataset) -> None:
    """The third argument is `limit` in pylance, and `batch_size` in pyarrow."""
    with pytest.raises(TypeError, match="positional arguments"):
        orders.scanner(["city"], "quantity > 3", 5)  # type: ignore[misc]


def test_a_path_of_bytes_is_a_path() -> None:
    assert lancefs.open(ORDERS.encode()).version == 4  # type: ignore[arg-type]
