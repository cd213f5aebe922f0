"""Tests that a run leaves what a host has: real devices, addresses and routes in a network of the test's own."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.unit.router_script.conftest import SCRIPT as SCRIPT_FILE

from tunnelbench.host import leased_host
from tunnelbench.host.command import DEFAULT_TIMEOUT_S, CommandFailed, Completed, run_command
from tunnelbench.host.host import Host, LocalHost
from tunnelbench.host.inside import CLONE_NEWNET
from tunnelbench.host.ip_add import AlreadyThere, existing, inverse
from tunnelbench.host.ipv6 import DEVICE_SETTINGS, add_ipv6_address
from tunnelbench.host.leased_host import LeasedHost
from tunnelbench.model.testbed import HostAccess
from tunnelbench.testbed import ssh
from tunnelbench.testbed.ssh import LocalTester
from tunnelbench.testbed.undo_journal import UndoJournal

DEVICE, PEER = "tbtest0", "tbtest1"

DEVICE_ADD = ["ip", "link", "add", "vxlan0", "type", "vxlan", "id", "7", "dstport", "4789", "dev", DEVICE]
ADDRESS_ADD = ["ip", "addr", "add", "198.18.4.1/32", "dev", "lo"]
ADDRESS6_ADD = ["ip", "addr", "add", "fe80::1/64", "dev", DEVICE]
ROUTE_ADD = ["ip", "route", "add", "198.18.4.1/32", "dev", DEVICE]
ROUTE6_ADD = ["ip", "route", "add", "fd00:7::/64", "dev", DEVICE]
ADDS = {
    "a network device vxlan0": DEVICE_ADD,
    "the address 198.18.4.1/32 on lo": ADDRESS_ADD,
    f"the address fe80::1/64 on {DEVICE}": ADDRESS6_ADD,
    "a route to 198.18.4.1/32": ROUTE_ADD,
    "a route to fd00:7::/64": ROUTE6_ADD,
}


@pytest.fixture
def own_network(lab_obstacle: str) -> Iterator[None]:
    """A network namespace of this test alone, with a pair of devices that are up; it ends with the test."""
    if lab_obstacle:
        pytest.skip(lab_obstacle)
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        assert libc.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        for line in (
            "link set lo up",
            f"link add {DEVICE} type veth peer name {PEER}",
            f"link set {DEVICE} up",
            f"link set {PEER} up",
        ):
            run_command(["ip", *line.split()])
        yield
    finally:
        assert libc.setns(before, CLONE_NEWNET) == 0
        os.close(before)


class LeasedHere(LeasedHost):
    """A leased host whose commands run on this machine in place of another, with the real script."""

    is_connected = True

    def __init__(self, folder: Path) -> None:
        super().__init__("router", HostAccess("root@r"), "r1", folder, LocalHost("local", folder, ()))
        self.folder = folder / self.folder.name
        self.script = str(SCRIPT_FILE)

    def _bring_script(self) -> None:
        pass

    def _run(self, argv: Sequence[str], stdin: str | bytes, timeout_s: float) -> Completed:
        return run_command(argv, stdin=stdin, timeout_s=timeout_s, check=False)

    def undos(self) -> list[str]:
        """Return the noted undo commands, without the one that ends programs."""
        return [path.read_text() for path in sorted((self.folder / "undo").glob("1*"))[1:]]


class Tried:
    """A host with what notes its changes: a lease of a router, or the journal of this machine."""

    def __init__(self, host: Host, undo_all: Callable[[], object], undos: Callable[[], Sequence[object]]) -> None:
        self.host, self.undo_all, self.undos = host, undo_all, undos


@pytest.fixture(params=["router", "this machine"])
def tried(
    request: pytest.FixtureRequest, own_network: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Tried]:
    if request.param == "router":
        monkeypatch.setenv("TUNNELBENCH_DUT_ROOT", str(tmp_path))
        leased = LeasedHere(tmp_path)
        leased.take()
        yield Tried(leased, leased.release, leased.undos)
        leased.release()
    else:
        journal = UndoJournal(tmp_path)
        yield Tried(LocalTester("client", tmp_path / "client", (0,), journal), journal.undo_all, journal.entries)


def is_there(argv: Sequence[str]) -> bool:
    return bool(existing(LocalHost("local", Path("/"), ()), argv))


@pytest.mark.parametrize("thing", ADDS)
def test_what_a_host_has_already_is_refused_by_name_and_stays(tried: Tried, thing: str) -> None:
    run_command(ADDS[thing])
    with pytest.raises(AlreadyThere) as caught:
        tried.host.run(ADDS[thing])
    assert caught.value.message.startswith(f"the {tried.host.name} has {thing} already, which this run did not add: ")
    assert not tried.undos()
    tried.undo_all()
    assert is_there(ADDS[thing])


@pytest.mark.parametrize("thing", ADDS)
def test_what_the_run_adds_is_noted_once_and_undone(tried: Tried, thing: str) -> None:
    tried.host.run(ADDS[thing])
    assert is_there(ADDS[thing])
    with pytest.raises(CommandFailed, match=r"exists|assigned"):
        tried.host.run(ADDS[thing])  # the run's own
    assert len(tried.undos()) == 1
    tried.undo_all()
    assert not is_there(ADDS[thing])


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("thing", ADDS)
def test_what_the_owner_adds_after_the_look_stays(
    tried: Tried, monkeypatch: pytest.MonkeyPatch, thing: str, check: bool
) -> None:
    for module in (leased_host, ssh):
        monkeypatch.setattr(module, "existing", lambda *_: "")
    run_command(ADDS[thing])
    if check:
        with pytest.raises(CommandFailed, match=r"exists|assigned"):
            tried.host.run(ADDS[thing])
    else:
        assert tried.host.run(ADDS[thing], check=False).returncode != 0
    assert not tried.undos()
    run_command(inverse(ADDS[thing]))
    tried.host.run(ADDS[thing])
    assert len(tried.undos()) == 1  # it is the run's now


def test_an_address_that_a_device_has_already_is_accepted_and_stays(tried: Tried) -> None:
    run_command([*ADDRESS6_ADD, "nodad"])
    with ExitStack() as stack:
        add_ipv6_address(tried.host, "fd00:2::1/64", DEVICE, stack)
        assert not any("fe80::1" in str(undo) for undo in tried.undos())
    tried.undo_all()
    assert is_there(ADDRESS6_ADD)
    assert not is_there(["ip", "addr", "add", "fd00:2::1/64", "dev", DEVICE])


def settings() -> dict[str, str]:
    return {name: Path(f"/proc/sys/net/ipv6/conf/{DEVICE}/{name}").read_text().strip() for name, _ in DEVICE_SETTINGS}


def test_settings_of_a_device_are_as_before_after_a_killed_run(tried: Tried) -> None:
    Path(f"/proc/sys/net/ipv6/conf/{DEVICE}/addr_gen_mode").write_text("0")
    before = settings()
    lost = ExitStack()  # of the killed run, so that nobody closes it
    add_ipv6_address(tried.host, "fd00:2::1/64", DEVICE, lost)
    assert settings() == dict(DEVICE_SETTINGS) != before
    tried.undo_all()
    assert settings() == before


def test_a_file_that_had_the_first_value_is_noted_before_it_gets_another(tried: Tried) -> None:
    path = f"/proc/sys/net/ipv6/conf/{DEVICE}/accept_ra"
    before = Path(path).read_text().strip()
    for value in (before, "0", "2"):
        tried.host.set_kernel_file(path, value)
    assert len(tried.undos()) == 1
    tried.undo_all()
    assert Path(path).read_text().strip() == before


class Answering(LocalHost):
    """A host on which `ip` prints a given text."""

    def __init__(self, printed: str) -> None:
        super().__init__("router", Path("/"), ())
        self.printed = printed

    def run(
        self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = DEFAULT_TIMEOUT_S, check: bool = True
    ) -> Completed:
        return Completed(tuple(argv), 0, self.printed, "")


@pytest.mark.parametrize(("number", "found"), [("42", "an L2TP tunnel 42"), ("4", ""), ("2", "")])
def test_an_l2tp_tunnel_is_found_by_its_whole_number(number: str, found: str) -> None:
    printed = "Tunnel 42, encap IP\n  From 127.0.0.1 to 127.0.0.2\n  Peer tunnel 4\n"
    add = ["ip", "l2tp", "add", "tunnel", "tunnel_id", number, "peer_tunnel_id", number, "encap", "ip"]
    assert existing(Answering(printed), add) == found
