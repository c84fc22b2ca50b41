"""Tables with indices and random histories, and random filters over them."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from lance.indices import IndexConfig

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.uint8()),
        ("real", pa.float64()),
        ("cat", pa.string()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("price", pa.decimal128(9, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("flag", pa.bool_()),
        ("level", pa.int32()),
        ("ratio", pa.float32()),
        ("word", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("marks", pa.list_(pa.int16())),
        ("text", pa.string()),
        ("code", pa.int64()),
        ("key", pa.string()),
        ("heat", pa.float32()),
        ("plain", pa.int32()),  # has no index
    ]
)
KINDS = {
    "id": "BTREE",
    "small": "BITMAP",
    "real": "BTREE",
    "cat": "BITMAP",
    "name": "BTREE",
    "day": "BTREE",
    "price": "BTREE",
    "at": "BTREE",
    "flag": "BITMAP",
    "level": "ZONEMAP",
    "ratio": "ZONEMAP",
    "word": "ZONEMAP",
    "tags": "LABEL_LIST",
    "marks": "LABEL_LIST",
    "text": "NGRAM",
    "code": "BLOOMFILTER",
    "key": "BLOOMFILTER",
    "heat": "BLOOMFILTER",
}
# Zones of few rows, so that fragments have several.
_CONFIGS = {
    "ZONEMAP": IndexConfig(index_type="zonemap", parameters={"rows_per_zone": 16}),
    "BLOOMFILTER": IndexConfig(index_type="bloomfilter", parameters={"number_of_items": 16}),
}
_WORDS = ("green tea", "Grün", "GREEN", "café 7", "x", "no1", "Earl Grey", "ab-abc", "İstanbul")
FIRST_ROWS = 300


def rows(first: int, count: int, seed: int) -> pa.Table:
    """Rows with ids from `first` on, in random order; other values repeat, and some are missing."""
    draw = np.random.default_rng(seed)
    ids = draw.permutation(np.arange(first, first + count))
    values = [
        {
            "id": int(number),
            "small": int(number) % 5,
            "real": _nan(number) if number % 11 == 0 else float(draw.integers(-40, 40)) / 2,
            "cat": f"c{number % 4}",
            "name": f"n{draw.integers(0, 100):03d}é",
            "day": date(2020, 1, 1) + timedelta(days=int(draw.integers(0, 60))),
            "price": Decimal(int(draw.integers(-500, 500))) / 100,
            "at": datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=int(draw.integers(0, 90))),
            "flag": bool(draw.integers(0, 2)),
            "level": int(number) // 4,
            "ratio": float("nan") if number % 90 == 3 else float(number % 300) / 4,
            "word": "w" * (number % 700) + "é" + str(number % 10),
            "tags": _tags(draw, number),
            "marks": draw.integers(0, 9, draw.integers(0, 4)).tolist(),
            "text": " ".join(draw.choice(_WORDS, draw.integers(0, 5))) + str(number % 30),
            "code": int(number) // 2 - 20,
            "key": f"k{number // 3}",
            "heat": draw.choice([-0.0, 0.0, 0.1, float("nan"), float(number % 40)]),
            "plain": int(draw.integers(0, 50)),
        }
        for number in ids
    ]
    for row in values:
        for name in SCHEMA.names[1:]:
            if draw.random() < 0.05:
                row[name] = None
    return pa.Table.from_pylist(values, schema=SCHEMA)


def _nan(number: int) -> float:
    """NaN with a sign, as 0 / 0 is on many processors, or without one."""
    return math.copysign(math.nan, -1 if number % 2 else 1)


def _tags(draw: np.random.Generator, number: int) -> list[str | None]:
    """A few labels, some of them rare, missing or twice."""
    tags: list[str | None] = [f"t{tag}" for tag in draw.integers(0, 6, draw.integers(0, 5))]
    return [*tags, None] if number % 13 == 0 else [*tags, f"rare {number}"]


def create(path: Path, is_stable: bool, version: str) -> None:
    """Write a table of three fragments, with an index over each column but one."""
    lance.write_dataset(
        rows(0, FIRST_ROWS, 1),
        path,
        max_rows_per_file=100,
        data_storage_version=version,
        enable_stable_row_ids=is_stable,
    )
    for column, kind in KINDS.items():
        lance.dataset(path).create_scalar_index(column, _CONFIGS.get(kind, kind))


def _append(path: Path, number: int) -> None:
    lance.write_dataset(rows(1000 * (number + 1), 60, number), path, mode="append")


def _delete(path: Path, number: int) -> None:
    lance.dataset(path).delete(f"id % 7 = {number % 7}")


def _update(path: Path, number: int) -> None:
    lance.dataset(path).update(
        {"cat": f"'c{number % 4}'", "price": f"cast({number}.25 as decimal(9, 2))"},
        where=f"plain < {number % 20}",
    )


def _update_key(path: Path, number: int) -> None:
    lance.dataset(path).update({"id": f"id + {number % 3}"}, where=f"small = {number % 5}")


def _merge(path: Path, number: int) -> None:
    merge = lance.dataset(path).merge_insert("id")
    merge.when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows(50 * (number % 7), 80, number + 50))


def _rewrite(path: Path, number: int) -> None:
    """Give some rows of a fragment other values of one column, in a file of its own."""
    dataset = lance.dataset(path)
    fragment = dataset.get_fragments()[number % len(dataset.get_fragments())]
    name = ["real", "cat", "day", "flag", "level", "key", "text"][number % 7]
    old = fragment.scanner(columns=["id", name], with_row_id=True).to_table()
    values = old[name].combine_chunks().take(pa.array(np.arange(len(old))[::-1]))
    rows = pa.table({"_rowid": old["_rowid"], name: values}).slice(0, len(old) // 2)
    changed, fields = fragment.update_columns(rows, left_on="_rowid", right_on="_rowid")
    update = lance.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields)
    lance.LanceDataset.commit(path, update, read_version=dataset.version)


def _restore(path: Path, number: int) -> None:
    versions = lance.dataset(path).versions()
    lance.dataset(path, version=versions[number % len(versions)]["version"]).restore()


def _index_anew(path: Path, number: int) -> None:
    """Make an index of another kind over a column, beside the one that it has, or in its place."""
    name = ["id", "name", "day", "level", "code", "key", "cat"][number % 7]
    own = {"name": f"{name}_other"} if number % 2 else {}
    kind = ["BTREE", "BITMAP", "ZONEMAP"][number % 3]
    lance.dataset(path).create_scalar_index(name, _CONFIGS.get(kind, kind), replace=True, **own)


def _compact(path: Path, number: int) -> None:
    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=250)


def _compact_deferred(path: Path, number: int) -> None:
    dataset = lance.dataset(path)
    if not dataset.has_stable_row_ids:
        dataset.optimize.compact_files(target_rows_per_fragment=250, defer_index_remap=True)


def _optimize(path: Path, number: int) -> None:
    lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=number % 3)


def _clean_up(path: Path, number: int) -> None:
    lance.dataset(path).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)


OPERATIONS: dict[str, Callable[[Path, int], None]] = {
    "append": _append,
    "delete": _delete,
    "update": _update,
    "update key": _update_key,
    "merge": _merge,
    "rewrite": _rewrite,
    "restore": _restore,
    "index anew": _index_anew,
    "compact": _compact,
    "compact deferred": _compact_deferred,
    "optimize": _optimize,
    "clean up": _clean_up,
}
_step = st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 20))
steps = st.lists(_step, min_size=1, max_size=6)
long_steps = st.lists(_step, min_size=6, max_size=14)

_LITERALS: dict[str, st.SearchStrategy[Any]] = {
    "id": st.integers(-2, FIRST_ROWS + 2) | st.integers(990, 4100),
    "small": st.integers(0, 6),
    "real": st.integers(-50, 50).map(lambda half: half / 2),
    "cat": st.integers(0, 5).map(lambda number: f"'c{number}'"),
    "name": st.integers(0, 105).map(lambda number: f"'n{number:03d}é'"),
    "day": st.integers(1, 31).map(lambda day: f"date '2020-01-{day:02d}'"),
    "price": st.integers(-510, 510).map(lambda cents: f"{Decimal(cents) / 100}"),
    "at": st.integers(0, 23).map(lambda hour: f"timestamp '2024-01-02T{hour:02d}:00:00Z'"),
    "level": st.integers(-1, 80),
    "ratio": st.integers(-2, 310).map(lambda number: f"{number / 4}"),
    "word": st.integers(0, 710).map(lambda number: f"'{'w' * number}é{number % 10}'"),
    "code": st.integers(-25, 140) | st.integers(480, 1600),
    "key": st.integers(-1, 110).map(lambda number: f"'k{number}'"),
    "heat": st.sampled_from(["0", "-0.0", "0.1", "0.5", "7", "39", "41"]),
    "plain": st.integers(0, 50),
}
_tag = st.integers(0, 7).map(lambda number: f"'t{number}'") | st.integers(0, 310).map(
    lambda number: f"'rare {number}'"
)
_mark = st.integers(-1, 10)
_piece = st.sampled_from(
    ["green", "tea", "GREEN", "rün", "Earl Grey", "stan", "abc", "b-a", "x", "fé 7", "no12", "qqq"]
)


def _list_terms(column: str, item: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    """A condition on a column of lists."""
    forms = ["array_has({c}, {a})", "array_has_any({c}, [{a}, {b}])", "{c} IS NULL"]
    forms += ["array_has_all({c}, [{a}, {b}])", "{c} IS NOT NULL"]
    return st.builds(
        lambda form, a, b: form.format(c=column, a=a, b=b), st.sampled_from(forms), item, item
    )


def _text_terms() -> st.SearchStrategy[str]:
    """A condition on parts of texts."""
    forms = ["contains(text, '{a}')", "text LIKE '%{a}%{b}%'", "text LIKE '{a}_%'"]
    forms += ["starts_with(text, '{a}')", "text ILIKE '%{a}%'", "text IS NULL", "text = '{a}'"]
    forms += ["text NOT LIKE '%{a}%'", "ends_with(text, '{a}')", "text IN ('{a}', '{b}1')"]
    return st.builds(
        lambda form, a, b: form.format(a=a, b=b), st.sampled_from(forms), _piece, _piece
    )


@st.composite
def _terms(draw: st.DrawFn) -> str:
    """A condition on one column."""
    column = draw(st.sampled_from([*_LITERALS, "flag", "tags", "marks", "text"]))
    if column in ("tags", "marks"):
        return draw(_list_terms(column, _tag if column == "tags" else _mark))
    if column == "text":
        return draw(_text_terms())
    if column == "flag":
        return draw(st.sampled_from(["flag", "NOT flag", "flag IS NULL", "flag = true"]))
    literal = _LITERALS[column]
    forms = ["{c} = {a}", "{c} IN ({a}, {b})", "{c} BETWEEN {a} AND {b}", "{c} < {a}"]
    forms += ["{c} >= {a}", "{c} != {a}", "{c} IS NULL", "{c} IS NOT NULL", "{c} NOT IN ({a}, {b})"]
    if column == "name":
        forms += ["name LIKE 'n0{d}%'", "starts_with(name, 'n1')", "name LIKE '%5é'"]
    form = draw(st.sampled_from(forms))
    return form.format(c=column, a=draw(literal), b=draw(literal), d=draw(st.integers(0, 9)))


filters = st.recursive(
    _terms(),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"({two[0]} AND {two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]} OR {two[1]})"),
        inner.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=4,
)
