"""A bridge of the router between its LAN and a tunnel, and where it cannot be had."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.unit.plan.texts import errors_of, plan_of
from tests.unit.tunnel.fakes import FakeHost

from tunnelbench.model.errors import TunnelUnavailable
from tunnelbench.model.testbed import GATEWAY_PAIR, ROAD_WARRIOR, ROUTER_SERVER, TestbedSpec
from tunnelbench.testbed.netns import NetnsTestbed

RUN_ID = "20250314-092653-abcdef"
PLAN = '[[tunnel]]\nkind = "openvpn"\nname = "bridged"\ndev = "tap"\nbridged = true\n'


def bed_of(folder: Path, topology: str) -> tuple[NetnsTestbed, FakeHost, FakeHost, FakeHost]:
    """Return a testbed whose hosts run nothing: client, router and far end."""
    made = NetnsTestbed(TestbedSpec("lab", "netns", topology=topology), RUN_ID, folder)
    client, router, far = (FakeHost(name, folder / name) for name in ("client", "router", "far"))
    made.client, made.router = client, router  # type: ignore[assignment]
    if topology == GATEWAY_PAIR:
        made.far = far  # type: ignore[assignment]
    else:
        made.server = far  # type: ignore[assignment]
    return made, client, router, far


def routes(host: FakeHost, verb: str) -> list[str]:
    return [" ".join(argv[3:]) for argv in host.commands if argv[:3] == ["ip", "route", verb]]


@pytest.mark.parametrize("topology", [ROUTER_SERVER, GATEWAY_PAIR])
def test_a_bridge_takes_the_address_of_the_lan_and_gives_it_back(topology: str, tmp_path: Path) -> None:
    testbed, client, router, far = bed_of(tmp_path, topology)
    to_target, to_client = "198.18.4.1 via 198.18.3.2 dev lan onlink", "198.18.1.2 dev tap0"
    with ExitStack() as undo:
        testbed.use_bridge("tun0", "tap0", undo)
        assert (routes(client, "add"), routes(far, "add")) == ([to_target], [to_client])
        assert ["ip", "-batch", "-"] in router.commands
        assert routes(client, "del") == routes(far, "del") == []
    assert (routes(client, "del"), routes(far, "del")) == ([to_target], [to_client])
    assert router.commands[-2:] == [
        ["ip", "link", "del", "bridge"],
        ["ip", "addr", "replace", "198.18.1.1/24", "dev", "lan"],
    ]
    assert client.commands.count(["ip", "neigh", "flush", "dev", "lan"]) == 2


def test_a_bridge_cannot_join_a_tunnel_on_the_lan_with_the_lan(tmp_path: Path) -> None:
    testbed, *_ = bed_of(tmp_path, ROAD_WARRIOR)
    with pytest.raises(TunnelUnavailable, match="topology is on the LAN"):
        testbed.use_bridge("tun0", "tap0", ExitStack())


@pytest.mark.parametrize("has_module", [True, False])
def test_frames_do_not_pass_the_rules_of_packets(has_module: bool, tmp_path: Path) -> None:
    testbed, _, router, _ = bed_of(tmp_path, ROUTER_SERVER)
    router.has_path = lambda path: has_module and path.startswith("/proc/sys/net/bridge/")  # type: ignore[method-assign]
    written: list[tuple[str, str]] = []
    router.set_kernel_file = lambda path, value: written.append((path, value))  # type: ignore[method-assign]
    testbed.use_bridge("tun0", "tap0", ExitStack())
    files = ("bridge-nf-call-iptables", "bridge-nf-call-ip6tables", "bridge-nf-call-arptables")
    assert written == ([(f"/proc/sys/net/bridge/{file}", "0") for file in files] if has_module else [])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (TestbedSpec("lab", "netns"), ""),
        (TestbedSpec("lab", "netns", topology=ROAD_WARRIOR), "the tunnel of this topology is on the LAN"),
        (TestbedSpec("lab", "ssh"), "the router and its neighbours must be namespaces"),
        (TestbedSpec("lab", "qemu"), "the router and its neighbours must be namespaces"),
    ],
    ids=["netns", "road warrior", "ssh", "qemu"],
)
def test_check_says_where_a_bridge_cannot_be_had(spec: TestbedSpec, message: str, tmp_path: Path) -> None:
    found = errors_of(tmp_path, PLAN, spec)
    if not message:
        assert found == []
        return
    (error,) = found
    assert error.startswith(f"5: tunnel[1].bridged: cannot be had on testbed lab: {message}")


@pytest.mark.parametrize(
    ("spec", "option", "usual", "other"),
    [
        (TestbedSpec("lab", "ssh"), "bridged", "false", "[false, true]"),
        (TestbedSpec("lab", "qemu"), "cpus", "1", "[1, 2]"),
        (TestbedSpec("lab", "qemu", speed_mips=125), "window_bytes", "[0]", "65536"),
        (TestbedSpec("lab", "simulated"), "content", '"random"', '"repeating"'),
        (TestbedSpec("lab", "simulated"), "write_bytes", "131072", "1000"),
    ],
)
def test_a_value_that_changes_nothing_is_refused_nowhere(
    spec: TestbedSpec, option: str, usual: str, other: str, tmp_path: Path
) -> None:
    plan = PLAN.replace("bridged = true", f"{option} = {{}}").replace('"bridged"', '"row"')
    assert errors_of(tmp_path, plan.format(usual), spec) == []
    assert any(option in error and "lab" in error for error in errors_of(tmp_path, plan.format(other), spec))


def test_a_row_that_is_not_bridged_has_no_option_for_it(tmp_path: Path) -> None:
    on, off = (plan_of(tmp_path, PLAN.replace("true", value)).tunnels[1].options for value in ("true", "false"))
    assert on["bridged"] is True
    assert "bridged" not in off
