"""Testbeds provide client, router and server; each kind of testbed is one file."""

from __future__ import annotations

import os
from pathlib import Path

from tunnelbench.model.conditions import CONTENT_OPTION, CPUS_OPTION, MOST_ROUTER_CPUS, TCP_OPTIONS, WINDOW_OPTION
from tunnelbench.model.firewall import FILTER_OPTIONS
from tunnelbench.model.ip_versions import SMALLEST_IPV6_MTU_BYTES, VERSION_OPTIONS
from tunnelbench.model.lines import LINE_OPTION
from tunnelbench.model.plan import BRIDGED_OPTION, GATEWAY_NEEDED
from tunnelbench.model.testbed import ROAD_WARRIOR, TestbedSpec
from tunnelbench.testbed.base import FIXED_CPUS, FIXED_WINDOW, NO_BRIDGE, NO_BRIDGE_TO_LAN, NO_LINES, Testbed
from tunnelbench.testbed.netns import NetnsTestbed, too_few_cpus
from tunnelbench.testbed.qemu import QemuTestbed
from tunnelbench.testbed.simulated import SimulatedTestbed
from tunnelbench.testbed.ssh import SshTestbed

KINDS: dict[str, type[Testbed]] = {
    kind.kind: kind for kind in (NetnsTestbed, QemuTestbed, SimulatedTestbed, SshTestbed)
}


def refused_in_plans(spec: TestbedSpec) -> dict[str, str]:
    """Return, by their keys, the tables of plans and the options of tunnels that cannot run on a testbed, each with the
    reason."""
    if spec.is_simulated:
        reason = f"cannot run on testbed {spec.name}: a simulated testbed has a model of "
        no_model = dict.fromkeys(("udp", "soak", "cipher_speed"), f"{reason}TCP only")
        of_one = ("clients", "handshake", "connections")
        usual = {
            LINE_OPTION: f"{reason}cables without a line",
            CPUS_OPTION: f"{reason}a router with one CPU",
            CONTENT_OPTION: f"{reason}data that no tunnel compresses",
            BRIDGED_OPTION: f"{reason}a router that routes",
            GATEWAY_NEEDED: f"{reason}a tunnel that ends on the server",
            **dict.fromkeys(FILTER_OPTIONS, f"{reason}a router without a packet filter"),
            **dict.fromkeys(VERSION_OPTIONS, f"{reason}IPv4 only"),
            **dict.fromkeys(TCP_OPTIONS, f"{reason}the usual buffers and writes of iperf3"),
        }
        return no_model | dict.fromkeys(of_one, f"{reason}the throughput of one client only") | usual
    refused = _refused_by_topology(spec)
    if KINDS[spec.kind].use_line is Testbed.use_line:
        refused[LINE_OPTION] = f"cannot be had on testbed {spec.name}: {NO_LINES}"
    if KINDS[spec.kind].use_router_cpus is Testbed.use_router_cpus:
        refused[CPUS_OPTION] = f"cannot be chosen on testbed {spec.name}: {FIXED_CPUS}"
    elif not KINDS[spec.kind].has_own_router and (
        too_few := too_few_cpus(MOST_ROUTER_CPUS, len(os.sched_getaffinity(0)), spec.topology)
    ):
        refused[CPUS_OPTION] = f"cannot be chosen on testbed {spec.name}: {too_few}"
    if KINDS[spec.kind].use_bridge is Testbed.use_bridge:
        refused[BRIDGED_OPTION] = f"cannot be had on testbed {spec.name}: {NO_BRIDGE}"
    elif spec.topology == ROAD_WARRIOR:
        refused[BRIDGED_OPTION] = f"cannot be had on testbed {spec.name}: {NO_BRIDGE_TO_LAN}"
    if spec.link.mtu_bytes < SMALLEST_IPV6_MTU_BYTES:
        reason = (
            f"IPv6 needs cables of {SMALLEST_IPV6_MTU_BYTES} bytes or more (RFC 8200), and those of testbed {spec.name}"
            f" have {spec.link.mtu_bytes}: set link.mtu_bytes to {SMALLEST_IPV6_MTU_BYTES} or more, or take ipv4"
        )
        refused |= dict.fromkeys(VERSION_OPTIONS, reason)
    if spec.speed_mips is not None:
        refused[WINDOW_OPTION] = f"cannot be chosen on testbed {spec.name}: {FIXED_WINDOW}"
    if KINDS[spec.kind].settings.has_soaks and not spec.needs_guest:
        return refused
    where = "a guest" if spec.needs_guest else f'a testbed of kind "{spec.kind}"'
    return refused | {"soak": f"cannot run on testbed {spec.name}: {where} has no soaks yet; leave [soak] out"}


def _refused_by_topology(spec: TestbedSpec) -> dict[str, str]:
    """Return the tables and keys of plans that need another machine at an end of the tunnel, each with the reason."""
    refused = {}
    cannot = f"cannot run on testbed {spec.name}:"
    is_virtual = spec.kind == QemuTestbed.kind
    if spec.topology != ROAD_WARRIOR:
        shipped = f"{'malta' if is_virtual else 'netns'}-{ROAD_WARRIOR}"
        reason = (
            f'{cannot} its clients connect to the router, which needs topology = "{ROAD_WARRIOR}"; the shipped testbed '
            f"{shipped} has it"
        )
        refused = dict.fromkeys(("clients", "handshake"), reason)
    if not spec.has_gateway:
        shipped = "malta" if is_virtual else "netns-gateways"
        refused[GATEWAY_NEEDED] = (
            f"{cannot} the tunnels need a gateway in front of the server; the shipped testbed {shipped} has one"
        )
    return refused


def open_testbed(spec: TestbedSpec, run_id: str, folder: Path) -> Testbed:
    """Return the testbed of a specification, not yet set up; `with` sets it up and takes it down."""
    return KINDS[spec.kind](spec, run_id, folder)
