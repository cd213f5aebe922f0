"""A testbed with a router of its own, as far as it is known before anybody is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tunnelbench.host.radio import Antenna
from tunnelbench.model.testbed import HostAccess, RouterSpec, TestbedSpec, TesterSpec
from tunnelbench.testbed.base import SLOW_START_S
from tunnelbench.testbed.discovery import CableEnd, CableEnds
from tunnelbench.testbed.ssh import NO_IW_NOTE, SLOW_START_OVER_SSH_S, LocalTester, SshTestbed
from tunnelbench.testbed.undo_journal import UndoJournal

CABLE_ENDS = CableEnds(
    client=CableEnd("wlan0", "192.168.1.100/24", is_there=True),
    router_lan=CableEnd("br-lan", "192.168.1.1/24", is_there=True),
    router_wan=CableEnd("wan", "198.18.2.1/24", is_there=True),
    server=CableEnd("enx02", "198.18.2.2/24", is_there=True),
)


def make_testbed(folder: Path, server: str = "local") -> SshTestbed:
    tester = TesterSpec(HostAccess(server), namespace=server == "local")
    spec = TestbedSpec("mine", "ssh", router=RouterSpec(HostAccess("root@192.168.1.1")), server=tester)
    return SshTestbed(spec, "20260101-120000-abcdef", folder)


def test_where_a_tester_is_read_over_ssh_the_first_packets_may_be_noticed_late(tmp_path: Path) -> None:
    assert make_testbed(tmp_path).slow_start_s == SLOW_START_S
    assert make_testbed(tmp_path, "root@other-laptop").slow_start_s == SLOW_START_OVER_SSH_S


@pytest.mark.parametrize(
    ("has_iw", "is_wireless", "is_noted"), [(False, True, True), (True, True, False), (False, False, False)]
)
def test_a_wireless_client_without_iw_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_iw: bool, is_wireless: bool, is_noted: bool
) -> None:
    found: dict[str, Antenna] = {}
    monkeypatch.setattr("tunnelbench.host.radio.antennas", lambda *_: found)
    monkeypatch.setattr("tunnelbench.host.radio.is_wireless", lambda *_: is_wireless)
    made = make_testbed(tmp_path)
    monkeypatch.setattr(made.local, "has_program", lambda _: has_iw)
    assert made._radios(made.local, made.router, CABLE_ENDS) == {}
    assert (NO_IW_NOTE in made.notes) is is_noted


def test_the_journal_of_a_local_tester_has_each_undo_once_even_after_many_blocks(tmp_path: Path) -> None:
    journal = UndoJournal(tmp_path)
    tester = LocalTester("server", tmp_path, (0,), journal)
    undos = [["true", "first"], ["true", "second"]]
    for _ in range(3):
        for undo in undos:
            tester.run_undoable(["true"], undo)
    assert journal.entries() == [[undo] for undo in undos]
    assert journal.undo_all() == 2
    tester.run_undoable(["true"], undos[0])
    assert journal.entries() == [[undos[0]]]
