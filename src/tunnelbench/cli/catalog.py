"""Lists the plans, testbeds, kinds of tunnels and published results that TunnelBench ships.

The lists have their own module because `list runs` needs none of its imports.
"""

from __future__ import annotations

from tunnelbench.cli.availability import availability, kinds
from tunnelbench.cli.common_options import duration_text, link_text
from tunnelbench.cli.layout import reasoned, word
from tunnelbench.cli.list import Listing
from tunnelbench.cli.plans import load_plan, on_virtual_router
from tunnelbench.host.preflight import probing_host
from tunnelbench.plan import read_testbed, shipped_plans, shipped_testbeds
from tunnelbench.reference import read_reference, reference_names
from tunnelbench.testbed import KINDS


def plans() -> Listing:
    """Return the shipped plans, with their times in namespaces and on a virtual router that can run them."""
    loaded = [load_plan(name).plan for name in shipped_plans()]
    entries = [
        {
            "name": plan.name,
            "title": plan.title,
            "trials": len(plan.every_trial()),
            "expected_duration_s": plan.expected_duration_s(),
        }
        for plan in loaded
    ]
    rows = [
        (
            plan.name,
            len(plan.every_trial()),
            duration_text(plan.expected_duration_s()),
            duration_text(found[1]) if (found := on_virtual_router(plan.name)) else "-",
            plan.title,
        )
        for plan in loaded
    ]
    return Listing(entries, ("plan", "trials", "in namespaces", "virtual router", "title"), rows, numbers=(1, 2, 3))


def testbeds() -> Listing:
    """Return the shipped testbeds."""
    loaded = [read_testbed(name, KINDS).testbed for name in shipped_testbeds()]
    entries = [{"name": each.name, "kind": each.kind, "title": each.title, "link": each.link} for each in loaded]
    rows = [(each.name, each.kind, link_text(each.link), each.title) for each in loaded]
    return Listing(entries, ("testbed", "kind", "link", "title"), rows)


def tunnels() -> Listing:
    """Return every kind of tunnel that a plan may name, and whether it can come up on this machine."""
    with probing_host() as host:
        found = {kind: availability(kind, host) for kind in kinds()}
    entries = [
        {"kind": kind, "title": title, "available": found[kind].answer, "reason": found[kind].reason}
        for kind, title in kinds().items()
    ]
    rows = [(kind, word(found[kind].answer), reasoned(title, found[kind].shortfall)) for kind, title in kinds().items()]
    return Listing(entries, ("kind", "available", "title"), rows)


def references() -> Listing:
    """Return the published results: those that TunnelBench ships, then those that the user imported."""
    loaded = [read_reference(name) for name in reference_names()]
    entries = [
        {
            "name": each.name,
            "title": each.title,
            "source": each.source,
            "url": each.url,
            "date": each.date,
            "method": each.method,
            "comparability": each.comparability,
            "rows": len(each.rows),
            "is_imported": each.is_imported,
        }
        for each in loaded
    ]
    rows = [(each.name, len(each.rows), each.date, reasoned(each.title, each.comparability.label)) for each in loaded]
    return Listing(entries, ("reference", "rows", "date", "title"), rows, numbers=(1,))
