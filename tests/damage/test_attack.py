"""Mutants of small tables give rows or a `LanceError` through every door; see `damage.attack`."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from support import copy_table, corpus_case, needs_corpus

import lancefs
from damage.attack import Report, attack
from damage.attacked_tables import attacked_tables, movable_cases
from damage.doors import DOORS, Known, Violation, judge
from damage.messages import messages_of
from damage.mutants import SoundTable, draw_mutant, read_table
from damage.wire import damage, parse, serialize, varint
from lancefs.errors import CorruptFile, MissingFile

pytestmark = needs_corpus

TABLES = ["feat_nested_evolve-f2.0-w14.0.2", "strs_short-f0.1-w14.0.2", "strs_short-f2.1-w14.0.2"]


@pytest.fixture(params=TABLES)
def sound(request: pytest.FixtureRequest) -> SoundTable:
    return read_table(corpus_case(request.param).directory / "table.lance")


def test_messages_are_taken_apart_and_put_together(sound: SoundTable) -> None:
    messages = messages_of(sound.files)
    assert {message.kind for message in messages} > {"manifest", "transaction"}
    for message in messages:
        assert serialize(parse(message.data)) == message.data


def test_a_message_that_is_put_back_changes_nothing(sound: SoundTable, tmp_path: Path) -> None:
    for message in messages_of(sound.files):
        (tmp_path / message.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / message.path).write_bytes(sound.files[message.path])
        if not message.kind.endswith(("metadata", "schema")):  # these change the size of a file
            (tmp_path / message.path).write_bytes(message.put(message.data))
    assert lancefs.open(tmp_path).to_table().num_rows == lancefs.open(tmp_path).count_rows() > 0


def test_a_message_is_damaged_in_its_fields() -> None:
    message = varint(1 << 3) + varint(300) + varint(2 << 3 | 2) + varint(3) + b"abc"
    damaged = {damage(message, np.random.default_rng(seed))[0] for seed in range(200)}
    assert len(damaged) > 100
    assert b"" not in damaged or len(damaged) > 100
    assert varint(1 << 3) + varint(300) in damaged  # without the text
    assert message[3:] in damaged  # without the number


def test_a_seed_always_makes_the_same_mutant(sound: SoundTable) -> None:
    for seed in range(20):
        one, other = (draw_mutant(sound, np.random.default_rng(seed)) for _ in range(2))
        assert one.files == other.files
        assert one.what == other.what


def test_a_mutant_of_another_seed_is_another(sound: SoundTable) -> None:
    mutants = [draw_mutant(sound, np.random.default_rng(seed)) for seed in range(50)]
    assert len({str(sorted(mutant.files.items())) for mutant in mutants}) > 40


def test_every_door_opens_a_sound_table() -> None:
    case = corpus_case(TABLES[-1])
    dataset = lancefs.open(case.table())
    known = Known(case.table(), dataset.count_rows(), None, tuple(dataset.schema.names))
    for door in DOORS:
        for seed in range(12):  # of the command line, another command each time
            assert judge(door, known, np.random.default_rng(seed)) == "rows"


@pytest.mark.parametrize("error", [TypeError("x"), MemoryError(), OSError(5, "x"), KeyError("x")])
def test_another_error_is_a_violation(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Violation) as raised:
        judge_raising(error, monkeypatch)
    assert raised.value.kind == type(error).__name__


def test_an_error_of_ours_is_none_unless_the_net_caught_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert judge_raising(MissingFile("gone"), monkeypatch) == "MissingFile"
    damaged = CorruptFile("damaged")
    assert judge_raising(damaged, monkeypatch) == "CorruptFile"
    damaged.is_caught_by_net = True
    with pytest.raises(Violation) as raised:
        judge_raising(damaged, monkeypatch)
    assert raised.value.kind == "net"


def judge_raising(error: Exception, monkeypatch: pytest.MonkeyPatch) -> str:
    """Judge a door at which an error is raised."""

    def door(known: Known, rng: np.random.Generator) -> None:
        raise error

    monkeypatch.setitem(DOORS, "broken", door)
    return judge("broken", Known("t.lance", None, None, ()), np.random.default_rng(0))


def check(report: Report) -> None:
    print(report)
    assert not report.violations, str(report)
    outcomes = {outcome for _, outcome in report.outcomes}
    assert {"rows", "CorruptFile"} <= outcomes
    assert {door for door, _ in report.outcomes} == set(DOORS)


def test_mutants_give_rows_or_a_lance_error() -> None:
    tables = {case.name: case.directory / "table.lance" for case in movable_cases()}
    check(attack(range(60), doors=2, workers=1, tables=tables))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_three_thousand_mutants_give_rows_or_a_lance_error(tmp_path: Path) -> None:
    tables = attacked_tables(tmp_path)
    check(attack(range(3000), doors=3, workers=os.cpu_count() or 1, tables=tables))


def test_a_manifest_of_another_version_is_refused(tmp_path: Path) -> None:
    table = copy_table(corpus_case("feat_del_few-f2.1-w14.0.2"), tmp_path)
    newest, older, *_ = sorted((table / "_versions").iterdir())
    newest.write_bytes(older.read_bytes())
    with pytest.raises(CorruptFile, match=r"the manifest of version \d+ is that of \d+"):
        lancefs.open(table)
