"""Tests of the commands that undo a change of a leased machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tunnelbench.host.command import Completed
from tunnelbench.host.host import LocalHost
from tunnelbench.host.ip_add import inverse
from tunnelbench.host.leased_host import LeasedHost
from tunnelbench.host.ssh import SshHost
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import HostAccess
from tunnelbench.testbed.virtual_host import UNWATCHED_S, VirtualHost


@pytest.mark.parametrize(
    ("command", "undone"),
    [
        ("ip route add 198.18.4.1 via 198.18.3.2 dev tun0", "ip route del 198.18.4.1"),
        ("ip link add grerouted type gre local 1.2.3.4", "ip link del grerouted"),
        ("ip link add name vx type vxlan id 7", "ip link del vx"),
        ("ip addr add 198.18.2.1/24 dev wan", "ip addr del 198.18.2.1/24 dev wan"),
        ("ip rule add from 198.18.4.1 table 7", "ip rule del from 198.18.4.1 table 7"),
        ("ip tuntap add dev tun7 mode tun", "ip tuntap del dev tun7 mode tun"),
        ("ip l2tp add tunnel tunnel_id 3 peer_tunnel_id 4", "ip l2tp del tunnel tunnel_id 3"),
    ],
)
def test_the_inverse_of_ip_add_is_the_matching_ip_del(command: str, undone: str) -> None:
    assert inverse(command.split()) == undone.split()


@pytest.mark.parametrize("command", ["ip route show", "ip link set tun0 up", "cat /proc/add", "ip -j route get add"])
def test_a_command_that_adds_nothing_has_no_inverse(command: str) -> None:
    assert not inverse(command.split())


@pytest.mark.parametrize("printed", ["", "sh: not found", "[]", "null", "{" * 5000, "\x1b[2J", "[" * 200_000])
def test_facts_that_are_no_json_object_are_a_users_error(printed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host = object.__new__(LeasedHost)
    host.name, host.script = "router", "/tmp/tunnelbench-dut"
    monkeypatch.setattr(LeasedHost, "_call_script", lambda *_words: printed)
    for ask in (host.facts, host.lease):
        with pytest.raises(CannotHere, match=r"the router answers .* with no JSON object") as caught:
            ask()
        assert "\x1b" not in caught.value.message


class FakeMachine(LeasedHost):
    """A leased host whose script is simulated: one lease, and the calls in order."""

    def __init__(self, folder: Path, run_id: str = "r1") -> None:
        super().__init__("router", HostAccess("root@r"), run_id, folder, LocalHost("local", folder, ()))
        self.found: dict[str, str] = {"state": "free"}
        self.calls: list[tuple[str, ...]] = []
        self.noted: list[str] = []

    def _bring_script(self) -> None:
        self.script = "script"

    def _call_script(self, *words: str, stdin: str = "", timeout_s: float = 0) -> str:
        self.calls.append(words)
        if words[:2] == ("undo", "add"):
            self.noted.append(stdin)
        if words[:2] == ("lease", "take") and self.found["state"] != "free":
            raise CannotHere("another controller uses this router")
        if words[0] == "clean" and words[1] == self.found.get("folder"):
            self.found = {"state": "free"}
        return json.dumps(self.found) if words == ("lease", "show") else ""

    def cleaned(self) -> list[tuple[str, ...]]:
        return [words for words in self.calls if words[0] == "clean"]


def test_taking_the_lease_again_does_not_end_that_of_another_controller(tmp_path: Path) -> None:
    host = FakeMachine(tmp_path)
    host.found = {"state": "held", "owner": "bert@other, run r2", "folder": "/tmp/tunnelbench-dut-r2"}
    with pytest.raises(CannotHere):
        host.take()
    assert host.cleaned() == [("clean", str(host.folder))], "its own files, which hold no lease"
    assert host.lease()["state"] == "held"


@pytest.mark.parametrize("state", ["stale", "held"])
def test_only_the_folder_of_the_old_lease_is_cleaned(tmp_path: Path, state: str) -> None:
    host = FakeMachine(tmp_path)
    owner = host.owner if state == "held" else "bert@other, run r2"
    host.found = {"state": state, "owner": owner, "folder": "/tmp/tunnelbench-dut-old"}
    host.take()
    assert host.cleaned() == [("clean", "/tmp/tunnelbench-dut-old")]


def test_the_watchdog_of_a_virtual_machine_sleeps_through_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run(_: LeasedHost, argv: Sequence[str], **_how: object) -> Completed:
        ran.append(list(argv))
        return Completed(tuple(argv), 0, '{"state": "free"}', "")

    monkeypatch.setattr(LeasedHost, "run", run)
    monkeypatch.setattr(LeasedHost, "_bring_script", lambda host: setattr(host, "script", "/tmp/script"))
    for kind, seconds in ((LeasedHost, 120), (VirtualHost, UNWATCHED_S)):
        extra = {"emulated_on": (0,)} if kind is VirtualHost else {}
        host = kind("router", HostAccess("root@r"), "r1", tmp_path, LocalHost("local", tmp_path, ()), **extra)
        host.take()
        (taken,) = (argv for argv in ran if "take" in argv)
        assert taken[-1] == str(seconds)
        assert (taken[:2] == ["env", f"TUNNELBENCH_DUT_NAP_LIMIT_S={UNWATCHED_S}"]) == (kind is VirtualHost)
        ran.clear()


def test_the_folder_on_the_machine_has_a_name_that_cannot_be_guessed(tmp_path: Path) -> None:
    first, second = (FakeMachine(tmp_path).folder.name for _ in range(2))
    assert first != second
    assert len(first.rpartition("-")[2]) == 16


ODD_LEASES = [{}, {"state": "odd"}, {"state": "held"}, {"state": "stale", "folder": ["/"]}, {"state": {}}]


@pytest.mark.parametrize("printed", ODD_LEASES)
def test_an_odd_lease_is_a_users_error(tmp_path: Path, printed: dict[str, str]) -> None:
    host = FakeMachine(tmp_path)
    host.found = printed
    for ask in (host.take, host.lease, host.put_back):
        with pytest.raises(CannotHere, match=r"the router answers `tunnelbench-dut lease show` with no lease"):
            ask()
    assert host.cleaned() == []


def test_facts_that_are_too_long_or_too_deep_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    host = object.__new__(LeasedHost)
    host.name, host.script = "router", "/tmp/tunnelbench-dut"
    odd = '"a": [1], "b": {"c": {"d": 1}}, "e": NaN, "f": 1e999, "g": null, "h": "' + "x" * 301 + '"'
    odd += ', "i": 99999999999999999999, "j": {"' + "x" * 301 + '": 1}'
    printed = '{"board": "Malta", "gro": {"lan": "on"}, "cpus": 2, ' + odd + "}"
    monkeypatch.setattr(LeasedHost, "_call_script", lambda *_words: printed)
    assert host.facts() == {"board": "Malta", "gro": {"lan": "on"}, "cpus": 2}


def test_the_undo_of_a_change_that_is_made_again_is_noted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeMachine(tmp_path)
    ran: list[list[str]] = []
    monkeypatch.setattr(SshHost, "run", lambda _, argv, **__: ran.append(list(argv)))
    for _ in range(2):
        host.run_undoable(["nft", "-f", "-"], ["nft", "delete", "table", "inet", "x y"], stdin="table inet x")
    assert host.noted == ["nft delete table inet 'x y' 2>/dev/null; true\n"]
    assert ran == [["nft", "-f", "-"]] * 2


@pytest.mark.parametrize("printed", ["alias tunnelbench-dut='x'", "x" * 100_000, "/tmp/$(id)/tunnelbench-dut"])
def test_an_odd_path_of_the_installed_script_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str
) -> None:
    host = LeasedHost("router", HostAccess("root@r"), "r1", tmp_path, LocalHost("local", tmp_path, ()))
    written: list[str] = []
    monkeypatch.setattr(LeasedHost, "run", lambda _self, argv, **_: Completed(tuple(argv), 0, printed, ""))
    monkeypatch.setattr(LeasedHost, "write", lambda _self, name, _content: written.append(name))
    host._bring_script()
    assert (host.script, written) == (f"{host.folder}/tunnelbench-dut", ["tunnelbench-dut"])
