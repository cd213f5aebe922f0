"""Damage to the file: a read gives the stored data or reports the damage in one sentence, and writes nothing.

`make test-damage` flips every bit. This test flips a random sample of bits.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.builders import make_proof, make_run, make_spec, make_trial

from tunnelbench.model.errors import CannotHere, UserError
from tunnelbench.store.store import Store

SAMPLE = int(os.environ.get("TUNNELBENCH_DAMAGE", "300"))
"""Number of flipped bits, and of places at which the file is cut; 0: all."""

Read = Callable[[Path], object]


def read_all(path: Path) -> object:
    """Return everything that a store holds."""
    with Store.open(path, create=False) as store:
        runs = store.runs()
        return runs, [(store.trials(run.run_id), store.cipher_speeds(run.run_id)) for run in runs]


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, object]:
    """A store's file with two runs, and what is in it."""
    path = tmp_path_factory.mktemp("intact") / "results.sqlite"
    with Store.open(path) as store:
        for run_id in "ab":
            store.begin_run(replace(make_run(run_id=run_id), plan_text="rounds = 1\n", host_facts={}))
            for sequence in (1, 2):
                store.add_trial(run_id, replace(make_trial(make_spec(sequence), proof=make_proof()), raw={"ping": "1"}))
    return path.read_bytes(), read_all(path)


def outcome(path: Path, content: bytes, expected: object) -> str:
    """Return the result of reading a damaged file: `same`, `reported`, or a description of the failure."""
    for beside in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        beside.unlink(missing_ok=True)
    path.write_bytes(content)
    try:
        found = read_all(path)
    except UserError as error:
        if not str(error.message).startswith(str(path)) or not error.hint:
            return f"reported badly: {error.message} | {error.hint}"
        result = "reported"
    except Exception as error:  # noqa: BLE001 # any other error is a traceback for the user
        return f"{type(error).__name__}: {error}"
    else:
        result = "same" if found == expected else "other data were read"
    return result if path.read_bytes() == content else "the file was changed"


def places(count: int) -> Iterator[int]:
    chosen = range(count) if not SAMPLE else sorted(random.sample(range(count), min(SAMPLE, count)))
    yield from chosen


@pytest.mark.timeout(3600)
def test_a_flipped_bit_anywhere_is_reported_or_changes_nothing(tmp_path: Path, intact: tuple[bytes, object]) -> None:
    content, expected = intact
    path, found = tmp_path / "results.sqlite", dict[str, list[int]]()
    for bit in places(len(content) * 8):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        found.setdefault(outcome(path, bytes(damaged), expected), []).append(bit)
    assert found.keys() <= {"same", "reported"}, found
    assert len(found["reported"]) > 10


@pytest.mark.timeout(3600)
def test_a_file_that_was_cut_off_anywhere_is_reported(tmp_path: Path, intact: tuple[bytes, object]) -> None:
    content, expected = intact
    path = tmp_path / "results.sqlite"
    found = dict[str, list[int]]()
    for size in places(len(content)):
        if size:  # an empty file is a store that somebody is about to begin
            found.setdefault(outcome(path, content[:size], expected), []).append(size)
    assert found.keys() == {"reported"}, {key: sizes for key, sizes in found.items() if key != "reported"}


def read_run_a(path: Path) -> None:
    with Store.open(path) as store:
        store.run("a")
        store.trials("a")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE trial SET tcp = replace(tcp, '1250000000', '1350000000')", "trial 1 of run a is not what was stored"),
        ("UPDATE trial_raw SET raw = '{}'", "the output of programs in trial 1 of run a is not what was stored"),
        ("UPDATE proof SET proof = replace(proof, '6.18', '6.19')", "a proof of run a is not what was stored"),
        ("UPDATE run SET status = 'dane'", "run a is not what was stored"),
        ("DELETE FROM trial WHERE sequence = 2", "run a has recorded 2 trials, and 1 is there"),
        ("DELETE FROM trial_raw WHERE sequence = 2", "the output of programs in 1 trial of run a is missing"),
        ("DELETE FROM proof", "the proof of trial 1 of run a is missing"),
    ],
)
def test_a_row_that_is_not_what_was_stored_is_reported_with_its_place(
    tmp_path: Path, intact: tuple[bytes, object], change: str, message: str
) -> None:
    path = tmp_path / "results.sqlite"
    path.write_bytes(intact[0])
    connection = sqlite3.connect(path)
    connection.execute(change)
    connection.commit()
    connection.close()
    with pytest.raises(CannotHere) as caught:
        read_run_a(path)
    assert caught.value.message == f"{path}: the store is damaged: {message}"


def test_a_run_that_is_hidden_is_reported(tmp_path: Path, intact: tuple[bytes, object]) -> None:
    path = tmp_path / "results.sqlite"
    path.write_bytes(intact[0])
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM run WHERE run_id = 'b'")
    connection.commit()
    connection.close()
    with Store.open(path) as store, pytest.raises(CannotHere, match="it holds 4 trials, not as many"):
        store.runs()
