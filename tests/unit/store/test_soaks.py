"""The series of soaks is written and read chunk by chunk, and damage to it is reported."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.builders import make_run
from tests.unit.soak_builders import make_chunks, make_part, make_reading, make_soak, sample_soak
from tests.unit.store.make_sample import put_soak

from tunnelbench.analysis.soak import summarise_soak
from tunnelbench.host.procfs import resident_bytes
from tunnelbench.model.errors import CannotHere
from tunnelbench.store.store import Store

RUN = "20250314-092653-quick"
DAY_S = 86_400
MOST_GROWTH_BYTES = 16_000_000
"""Largest growth of a process that reads or writes a week; the whole series has over 200 MB in memory."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "results.sqlite"
    with Store.open(path) as store:
        store.begin_run(make_run(run_id=RUN))
        put_soak(store, RUN)
    return path


def test_what_was_stored_comes_back_with_its_parts_and_its_gap(path: Path) -> None:
    soak, chunks = sample_soak()
    with Store.open(path) as store:
        assert store.soaks(RUN).soak(soak.spec.sequence) == soak
        assert list(store.soaks(RUN).chunks(soak.spec.sequence)) == chunks
        assert store.soaks(RUN).soak(99) is None


def test_a_piece_is_never_stored_twice(path: Path) -> None:
    soak, chunks = sample_soak()
    with Store.open(path) as store, pytest.raises(ValueError, match="is stored already"):
        store.soaks(RUN).add_chunk(soak.spec.sequence, 1, 0, chunks[0][1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE soak_chunk SET content = replace(content, '970', '971')", "is not what was stored"),
        ("DELETE FROM soak_chunk WHERE part = 1 AND chunk = 1", "is missing"),
        ("UPDATE soak_part SET details = replace(details, 'interrupted', 'done')", "is not what was stored"),
        ("PRAGMA foreign_keys = OFF; DELETE FROM soak_part WHERE part = 2", "has recorded 2 parts"),
    ],
)
def test_a_series_that_was_changed_by_hand_is_reported(path: Path, change: str, message: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.executescript(change)
    connection.close()
    with Store.open(path) as store, pytest.raises(CannotHere, match=message):
        list(store.soaks(RUN).chunks(store.soaks(RUN).all()[0].spec.sequence))


WRITER = """
import sys
from pathlib import Path
from tests.unit.soak_builders import make_chunks, make_part, make_reading, make_soak
from tunnelbench.store.store import Store

soak = make_soak(make_part(), tunnel="none")
with Store.open(Path(sys.argv[1])) as store:
    tables = store.soaks(sys.argv[2])
    tables.begin_part(soak, soak.parts[0])
    for number, chunk in enumerate(make_chunks(map(make_reading, range(1_000_000)))):
        tables.add_chunk(soak.spec.sequence, 1, number, chunk)
        print(number, flush=True)
"""


def test_what_was_acknowledged_stays_after_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store.open(path) as store:
        store.begin_run(make_run(run_id=RUN))
    argv = [sys.executable, "-c", WRITER, str(path), RUN]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as writer:
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(50)][-1]
        os.kill(writer.pid, signal.SIGKILL)
    with Store.open(path) as store:
        readings = [reading for _, chunk in store.soaks(RUN).chunks(40) for reading in chunk.readings]
    assert len(readings) >= (acknowledged + 1) * 5
    assert [reading.start_s for reading in readings] == list(range(len(readings)))


def test_a_day_goes_through_the_store_and_the_summary_in_constant_memory(tmp_path: Path) -> None:
    soak = make_soak(make_part(), duration_s=DAY_S)
    memory = {"router/openvpn": 9_000_000}
    readings = (make_reading(s, *((PART, 1000 - PART) if s == 50_000 else ())) for s in range(DAY_S))
    early = 0
    with Store.open(tmp_path / "results.sqlite") as store:
        store.begin_run(make_run(run_id=RUN))
        tables = store.soaks(RUN)
        tables.begin_part(soak, soak.parts[0])
        # In production a piece has 5 readings; here more, so that the test takes seconds.
        for number, chunk in enumerate(make_chunks(readings, size=300, memory_bytes=memory)):
            tables.add_chunk(soak.spec.sequence, 1, number, chunk)
            if number == 30:
                early = resident_bytes(os.getpid()) or 0
        written = resident_bytes(os.getpid()) or 0
        summary = summarise_soak(soak, tables.chunks(soak.spec.sequence))
    read = resident_bytes(os.getpid()) or 0
    assert written - early < MOST_GROWTH_BYTES
    assert read - written < 4 * MOST_GROWTH_BYTES  # 500 pieces of 300 readings are read together
    assert (summary.measured_s, summary.sent_packets) == (DAY_S, DAY_S * 1000)
    assert (summary.lost_packets, summary.seconds_with_loss) == (1000 - PART, 1)
    assert summary.worst_second is not None
    assert (summary.worst_second.at_s, summary.longest_loss_free_s) == (50_000, 50_000)
    assert [trend.growth for trend in summary.memory] == ["does not grow"]


PART = 940
