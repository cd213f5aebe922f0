"""A testbed: its link, and who would get which CPU here."""

from __future__ import annotations

import os

from tunnelbench.cli.drawing import drawn, facts, title
from tunnelbench.cli.output import emit, emit_json, link_text
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import TOPOLOGIES
from tunnelbench.plan import read_testbed
from tunnelbench.testbed import KINDS
from tunnelbench.testbed.netns import share_cpus


def show(reference: str, *, as_json: bool) -> None:
    """Write what there is to say of a testbed, by its shipped name or its path; raises as `read_testbed`."""
    testbed = read_testbed(reference, (), KINDS).testbed
    if as_json:
        emit_json(testbed)
        return
    text = drawn(
        title(f"{testbed.name}: {testbed.title}" if testbed.title else testbed.name),
        facts(
            [
                ("Kind", testbed.kind),
                ("Link", f"{link_text(testbed.link)}; MTU {testbed.link.mtu_bytes} bytes"),
                ("Topology", f"{testbed.topology}: {TOPOLOGIES[testbed.topology]}"),
                ("Router's CPU", "the last one" if testbed.router_cpu is None else str(testbed.router_cpu)),
                ("CPUs here", cpus_here(testbed.router_cpu)),
                ("Quiet", f"a trial waits at most {testbed.quiet_wait_s} s for other load to end"),
            ]
        ),
    )
    emit(text)


def cpus_here(router_cpu: int | None) -> str:
    """Who would get which CPU of this machine, and what is to be said of that."""
    try:
        router, testers, notes = share_cpus(sorted(os.sched_getaffinity(0)), router_cpu)
    except CannotHere as error:
        return error.message
    return "; ".join([f"router on CPU {router}, testers on CPU {', '.join(map(str, testers))}", *notes])
