"""Show a testbed: its link, and which host would get which CPU of this machine."""

from __future__ import annotations

import os

from tunnelbench.cli.common_options import emit, emit_json, speed_text
from tunnelbench.cli.layout import drawn, facts, name_and_title
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import TOPOLOGIES, Port, TestbedSpec, TesterSpec
from tunnelbench.plan import read_testbed
from tunnelbench.qemu.boards import BOARDS
from tunnelbench.testbed import KINDS
from tunnelbench.testbed.netns import share_cpus


def show(reference: str, *, as_json: bool) -> None:
    """Write a testbed in full, by its shipped name or its path; raises as `read_testbed`."""
    testbed = read_testbed(reference, KINDS).testbed
    if as_json:
        emit_json(testbed)
        return
    if testbed.router:
        emit(drawn(name_and_title(testbed.name, testbed.title), facts(hosts(testbed))))
        return
    text = drawn(
        name_and_title(testbed.name, testbed.title),
        facts(
            [
                ("Kind", testbed.kind),
                *board(testbed),
                ("Link", f"{speed_text(testbed.link)}; MTU {testbed.link.mtu_bytes} bytes"),
                ("Topology", f"{testbed.topology}: {TOPOLOGIES[testbed.topology]}"),
                ("Router's CPU", "the last one" if testbed.router_cpu is None else str(testbed.router_cpu)),
                ("CPUs here", cpus_here(testbed.router_cpu)),
                ("Quiet", f"a trial waits at most {testbed.quiet_wait_s} s for other load to end"),
            ]
        ),
    )
    emit(text)


def board(testbed: TestbedSpec) -> list[tuple[str, str]]:
    """Describe the machines that QEMU emulates; empty if the router is not virtual."""
    if not testbed.board:
        return []
    mips = testbed.speed_mips
    speed = "as fast as one CPU of this machine" if mips is None else f"{mips:g} million instructions per second"
    rows = [("Virtual router", f"{BOARDS[testbed.board].title}, emulated; {speed}")]
    rows += [("Its programs", testbed.programs)] if testbed.programs else []
    rows += [("Far end", f"{BOARDS[testbed.far_board].title}, emulated")] if testbed.far_board else []
    return [*rows, ("Its programs", testbed.far_programs)] if testbed.far_programs else rows


def hosts(testbed: TestbedSpec) -> list[tuple[str, str]]:
    """Describe the hosts of a testbed with a real router. A run finds devices that the file leaves out."""
    if testbed.router is None:
        return []
    router, gateway = testbed.router, testbed.gateway

    def end(port: Port) -> str:
        device = port.device or "device: found at the start of the run"
        return f"{device} {port.address}" if port.address else f"{device}, with its present address"

    def tester(spec: TesterSpec) -> str:
        where = "this machine" if spec.access.is_local else spec.access.host
        return f"{where}, {end(spec.port)}" + (", moved into a namespace for the run" if spec.namespace else "")

    link = testbed.link
    mtu = f"MTU {link.mtu_bytes} bytes" if link.has_mtu else "the MTU that the devices have"
    rows = [
        ("Kind", testbed.kind),
        ("Router", f"place {testbed.place.name} of labgrid" if testbed.place else router.access.host),
        ("LAN", f"router {end(router.lan)}; client on {tester(testbed.client)}"),
        *(
            [
                ("Gateway", gateway.access.host),
                ("WAN", f"router {end(router.wan)}; gateway {end(gateway.wan)}"),
                ("Gateway's LAN", f"gateway {end(gateway.lan)}; server on {tester(testbed.server)}"),
            ]
            if gateway
            else [("WAN", f"router {end(router.wan)}; server on {tester(testbed.server)}")]
        ),
        ("Topology", f"{testbed.topology}: {TOPOLOGIES[testbed.topology]}"),
        ("Link", f"{speed_text(link)}; {mtu}"),
    ]
    known = [f"{router.watts:g} W"] if router.watts is not None else []
    known += [router.price] if router.price else []
    return [*rows, ("Power and price", ", ".join(known))] if known else rows


def cpus_here(router_cpu: int | None) -> str:
    """Describe which host would get which CPU of this machine."""
    try:
        router, testers, notes = share_cpus(sorted(os.sched_getaffinity(0)), router_cpu)
    except CannotHere as error:
        return error.message
    return "; ".join([f"router on CPU {router}, testers on CPU {', '.join(map(str, testers))}", *notes])
