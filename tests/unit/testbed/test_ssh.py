"""A testbed with a router of its own, as far as it is known before anybody is asked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tunnelbench.host.command import DEFAULT_TIMEOUT_S, CommandFailed, Completed
from tunnelbench.host.radio import Antenna
from tunnelbench.measure import ipv6_paths
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import HostAccess, Link, RouterSpec, TestbedSpec, TesterSpec
from tunnelbench.testbed.base import SLOW_START_S
from tunnelbench.testbed.discovery import CableEnd, CableEnds, GatewayEnds
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


class RecordingTester(LocalTester):
    """A tester whose `ip` answers with the MTU of its device, and that refuses what its driver would."""

    mtu = 1500

    def run(
        self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = DEFAULT_TIMEOUT_S, check: bool = True
    ) -> Completed:
        if argv[:3] == ["ip", "link", "set"]:
            if int(argv[-1]) > 4000:
                raise CommandFailed(list(argv), "ended with status 2", "Error: mtu greater than device maximum.")
            self.mtu = int(argv[-1])
        return Completed(tuple(argv), 0, f"2: eth0: <UP> mtu {self.mtu} qdisc fq_codel", "")


@pytest.mark.parametrize("wanted", [1492, 4000, 1500])
def test_a_device_gets_the_mtu_of_the_testbed_file_and_its_own_one_back(tmp_path: Path, wanted: int) -> None:
    made = make_testbed(tmp_path)
    made.spec = replace(made.spec, link=Link(mtu_bytes=wanted, has_mtu=True))
    tester = RecordingTester("client", tmp_path, (0,), made.journal)
    made._set_mtu(tester, "eth0")
    assert tester.mtu == wanted
    back = [[["ip", "link", "set", "dev", "eth0", "mtu", "1500"]]]
    assert made.journal.entries() == ([] if wanted == 1500 else back)


def test_an_mtu_that_a_device_refuses_is_an_error_with_its_name(tmp_path: Path) -> None:
    made = make_testbed(tmp_path)
    made.spec = replace(made.spec, link=Link(mtu_bytes=9000, has_mtu=True))
    tester = RecordingTester("client", tmp_path, (0,), made.journal)
    with pytest.raises(CannotHere, match=r"^eth0 on the client cannot have link.mtu_bytes = 9000: Error: mtu greater"):
        made._set_mtu(tester, "eth0")


def test_the_devices_of_all_cables_get_the_mtu(tmp_path: Path) -> None:
    made = make_testbed(tmp_path)
    made._use(CABLE_ENDS)
    places = [(host.name, device) for host, device in made._cable_devices()]
    assert places == [("client", "wlan0"), ("router", "br-lan"), ("router", "wan"), ("server", "enx02")]


def with_gateway(folder: Path) -> SshTestbed:
    between = GatewayEnds(
        CableEnd("up", "198.18.2.2/24", is_there=True), CableEnd("down", "10.2.0.1/24", is_there=True)
    )
    site = RouterSpec(HostAccess("root@192.168.1.1")), RouterSpec(HostAccess("root@192.168.3.1"))
    spec = TestbedSpec("mine", "ssh", topology="gateway-pair", router=site[0], gateway=site[1])
    made = SshTestbed(spec, "20260101-120000-abcdef", folder)
    made._use(replace(CABLE_ENDS, server=CableEnd("enx02", "10.2.0.2/24", is_there=True), gateway=between))
    return made


def test_the_devices_of_a_gateways_cables_get_the_mtu_too(tmp_path: Path) -> None:
    places = [(host.name, device) for host, device in with_gateway(tmp_path)._cable_devices()]
    assert places[3:] == [("gateway", "up"), ("gateway", "down"), ("server", "enx02")]


def test_each_end_of_a_gateways_cable_gets_its_ipv6_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[tuple[str, str]] = []
    monkeypatch.setattr(ipv6_paths, "add_ipv6_address", lambda host, _, device, __: added.append((host.name, device)))
    for name in ("add_route", "set_for_block"):
        monkeypatch.setattr(ipv6_paths, name, lambda *_, **__: None)
    ipv6_paths._set_up(with_gateway(tmp_path), ExitStack())
    assert added[-2:] == [("gateway", "down"), ("server", "enx02")]
