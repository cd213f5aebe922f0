"""A testbed with a router of its own, as far as it is known before anybody is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tunnelbench.host.radio import Antenna
from tunnelbench.model.testbed import Access, RouterSpec, TestbedSpec, TesterSpec
from tunnelbench.testbed.base import SLOW_START_S
from tunnelbench.testbed.ssh import RADIO_NOT_TOLD, SLOW_START_BEHIND_SSH_S, SshTestbed
from tunnelbench.testbed.survey import Place, Survey

SURVEY = Survey(
    client=Place("wlan0", "192.168.1.100/24", is_there=True),
    router_lan=Place("br-lan", "192.168.1.1/24", is_there=True),
    router_wan=Place("wan", "198.18.2.1/24", is_there=True),
    server=Place("enx02", "198.18.2.2/24", is_there=True),
)


def make_testbed(folder: Path, server: str = "local") -> SshTestbed:
    tester = TesterSpec(Access(server), namespace=server == "local")
    spec = TestbedSpec("mine", "ssh", router=RouterSpec(Access("root@192.168.1.1")), server=tester)
    return SshTestbed(spec, "20260101-120000-abcdef", folder)


def test_where_a_tester_is_read_over_ssh_the_first_packets_may_be_noticed_late(tmp_path: Path) -> None:
    assert make_testbed(tmp_path).slow_start_s == SLOW_START_S
    assert make_testbed(tmp_path, "root@other-laptop").slow_start_s == SLOW_START_BEHIND_SSH_S


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
    assert made._radios(made.local, made.router, SURVEY) == {}
    assert (RADIO_NOT_TOLD in made.notes) is is_noted
