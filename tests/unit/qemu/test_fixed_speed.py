"""The speeds that QEMU can hold, and what its monitor reports of them."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tunnelbench.host.parsing import UnexpectedOutput
from tunnelbench.model.errors import CannotHere
from tunnelbench.qemu.fixed_speed import Monitor, nearest_speed, speed_options

TRANSLATION = "TB count            271770\r\nHost - Guest clock  {lag} ms\r\nMax guest delay     7811 ms\r\n"
EVENT = {"event": "RTC_CHANGE", "data": {}}


@contextmanager
def monitor(folder: Path, *connections: Sequence[Any]) -> Iterator[Monitor]:
    """Connect to a monitor that gives these answers on each connection, one to each command after the greeting.

    Then it hangs up on the last connection. On the others it stays silent until the other end closes them.
    """
    path = folder / "monitor"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            for number, answers in enumerate(connections, start=1):
                connection, _ = listener.accept()
                with connection, connection.makefile("rw") as lines:
                    lines.write('{"QMP": {}}\n')
                    lines.flush()
                    for answer in ({}, *answers):
                        lines.readline()
                        lines.write(f"{json.dumps(EVENT)}\n{json.dumps({'return': answer})}\n")
                        lines.flush()
                    if number < len(connections):
                        lines.read()

        serving = threading.Thread(target=serve)
        serving.start()
        found = Monitor(path, 125)
        try:
            yield found
        finally:
            found.close()
            serving.join()


def test_a_speed_is_set_by_the_time_of_an_instruction() -> None:
    words = speed_options(125, Path("/run/m"))
    assert words[words.index("-icount") + 1] == "shift=3,align=on"
    assert words[words.index("-rtc") + 1].startswith("clock=vm,base=20")
    assert "shift=0,align=on" in speed_options(1000, Path("/run/m"))


@pytest.mark.parametrize(("wanted", "nearest"), [(100, 125), (5000, 1000), (0.01, 1000 / 1024), (60, 62.5)])
def test_the_nearest_speed_that_qemu_has_is_found(wanted: float, nearest: float) -> None:
    assert nearest_speed(wanted) == nearest


@pytest.mark.parametrize(("lag", "lag_s"), [("2376", 2.376), ("-3", -0.003), ("0", 0.0)])
def test_instructions_and_the_lag_of_the_clock_are_read(tmp_path: Path, lag: str, lag_s: float) -> None:
    answers = [{"mode": "none", "icount": 5997171708}, TRANSLATION.format(lag=lag)]
    with monitor(tmp_path, answers) as asked:
        found = asked.work()
    assert (found.instructions, found.lag_s) == (5997171708, lag_s)


@pytest.mark.parametrize(
    "answers",
    [({"icount": 7}, "TB count 5\r\n"), ({"mode": "none"}, TRANSLATION), ({"icount": -1}, TRANSLATION), (7, 7)],
)
def test_another_answer_of_the_monitor_is_an_error_that_names_it(tmp_path: Path, answers: Sequence[Any]) -> None:
    with monitor(tmp_path, answers) as asked, pytest.raises(UnexpectedOutput, match="QEMU's monitor is not in the"):
        asked.work()


def test_a_qemu_that_has_ended_is_the_error_of_a_closed_connection(tmp_path: Path) -> None:
    with monitor(tmp_path, []) as asked, pytest.raises(ConnectionError):
        asked.work()


def test_a_qemu_that_ends_within_an_answer_is_the_error_of_a_closed_connection(tmp_path: Path) -> None:
    path = tmp_path / "monitor"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rw") as lines:
                for answer in ('{"QMP": {}}\n', '{"return": {}}\n'):
                    lines.write(answer)
                    lines.flush()
                    lines.readline()
                lines.write('{"return": {"icou')

        serving = threading.Thread(target=serve)
        serving.start()
        asked = Monitor(path, 125)
        with pytest.raises(ConnectionError):
            asked.work()
        asked.close()
        serving.join()


def test_a_qemu_that_answers_late_is_asked_again_on_a_new_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tunnelbench.qemu.fixed_speed.MONITOR_LIMIT_S", 0.2)
    answers = [{"icount": 500}, TRANSLATION.format(lag="7")]
    with monitor(tmp_path, [], answers) as asked:
        found = asked.work()
    assert (found.instructions, found.lag_s) == (500, 0.007)


def test_a_qemu_without_a_monitor_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CannotHere, match="QEMU's monitor does not answer"):
        Monitor(tmp_path / "monitor", 125)
