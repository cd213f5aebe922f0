"""A testbed: its link, and who would get which CPU here."""

from __future__ import annotations

import os

from tunnelbench.cli.drawing import drawn, facts, title
from tunnelbench.cli.output import emit, emit_json, link_text
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import TOPOLOGIES, Port, TestbedSpec, TesterSpec
from tunnelbench.plan import read_testbed
from tunnelbench.qemu.boards import BOARDS
from tunnelbench.testbed import KINDS
from tunnelbench.testbed.netns import share_cpus


def show(reference: str, *, as_json: bool) -> None:
    """Write what there is to say of a testbed, by its shipped name or its path; raises as `read_testbed`."""
    testbed = read_testbed(reference, (), KINDS).testbed
    if as_json:
        emit_json(testbed)
        return
    if testbed.router:
        emit(drawn(title(f"{testbed.name}: {testbed.title}" if testbed.title else testbed.name), facts(hosts(testbed))))
        return
    text = drawn(
        title(f"{testbed.name}: {testbed.title}" if testbed.title else testbed.name),
        facts(
            [
                ("Kind", testbed.kind),
                *board(testbed),
                ("Link", f"{link_text(testbed.link)}; MTU {testbed.link.mtu_bytes} bytes"),
                ("Topology", f"{testbed.topology}: {TOPOLOGIES[testbed.topology]}"),
                ("Router's CPU", "the last one" if testbed.router_cpu is None else str(testbed.router_cpu)),
                ("CPUs here", cpus_here(testbed.router_cpu)),
                ("Quiet", f"a trial waits at most {testbed.quiet_wait_s} s for other load to end"),
            ]
        ),
    )
    emit(text)


def board(testbed: TestbedSpec) -> list[tuple[str, str]]:
    """What QEMU is to emulate, of a testbed with a virtual router."""
    if not testbed.board:
        return []
    share = testbed.cpu_share_percent
    held = "all that it can use of a CPU" if share is None else f"{share:g} % of a CPU"
    if testbed.finds_cpu_share:
        held = "as much of a CPU as leaves it the limit, found before the run"
    rows = [("Virtual router", f"{BOARDS[testbed.board].title}, emulated; {held}")]
    return [*rows, ("Far end", f"{BOARDS[testbed.far_board].title}, emulated")] if testbed.far_board else rows


def hosts(testbed: TestbedSpec) -> list[tuple[str, str]]:
    """What the file says of the three hosts; what it leaves out is found when a run begins."""
    if testbed.router is None:
        return []
    router = testbed.router

    def end(port: Port) -> str:
        device = port.device or "device to be found"
        return f"{device} {port.address}" if port.address else f"{device}, with the address that it has"

    def tester(spec: TesterSpec) -> str:
        where = "this machine" if spec.access.is_local else spec.access.host
        return f"{where}, {end(spec.port)}" + (", moved into a namespace for the run" if spec.namespace else "")

    rows = [
        ("Kind", testbed.kind),
        ("Router", router.access.host),
        ("LAN", f"router {end(router.lan)}; client on {tester(testbed.client)}"),
        ("WAN", f"router {end(router.wan)}; server on {tester(testbed.server)}"),
        ("Link", f"{link_text(testbed.link)}; MTU {testbed.link.mtu_bytes} bytes"),
    ]
    told = [f"{router.watts:g} W"] if router.watts is not None else []
    told += [router.price] if router.price else []
    return [*rows, ("Told of it", ", ".join(told))] if told else rows


def cpus_here(router_cpu: int | None) -> str:
    """Who would get which CPU of this machine, and what is to be said of that."""
    try:
        router, testers, notes = share_cpus(sorted(os.sched_getaffinity(0)), router_cpu)
    except CannotHere as error:
        return error.message
    return "; ".join([f"router on CPU {router}, testers on CPU {', '.join(map(str, testers))}", *notes])
