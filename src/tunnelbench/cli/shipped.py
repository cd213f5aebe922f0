"""What `tunnelbench list` lists of what ships: plans, testbeds, kinds of tunnels, published results.

In a module of its own, for `list runs` needs none of what reads them.
"""

from __future__ import annotations

from tunnelbench.cli.drawing import reasoned, word
from tunnelbench.cli.list import Listing
from tunnelbench.cli.needs import availability, kinds
from tunnelbench.cli.output import duration_text, link_text
from tunnelbench.host.readiness import probing_host
from tunnelbench.plan import read_plan, read_testbed, shipped_plans, shipped_testbeds
from tunnelbench.reference import read_reference, reference_names
from tunnelbench.testbed import KINDS
from tunnelbench.tunnel import PLANNED, option_schemas


def plans() -> Listing:
    """The shipped plans."""
    loaded = [read_plan(name, option_schemas(), (), PLANNED).plan for name in shipped_plans()]
    entries = [
        {
            "name": plan.name,
            "title": plan.title,
            "trials": len(plan.calibrations()) + len(plan.trials()),
            "expected_duration_s": plan.expected_duration_s(),
        }
        for plan in loaded
    ]
    rows = [
        (
            plan.name,
            len(plan.calibrations()) + len(plan.trials()),
            duration_text(plan.expected_duration_s()),
            plan.title,
        )
        for plan in loaded
    ]
    return Listing(entries, ("plan", "trials", "takes about", "title"), rows, numbers=(1, 2))


def testbeds() -> Listing:
    """The shipped testbeds."""
    loaded = [read_testbed(name, (), KINDS).testbed for name in shipped_testbeds()]
    entries = [{"name": each.name, "kind": each.kind, "title": each.title, "link": each.link} for each in loaded]
    rows = [(each.name, each.kind, link_text(each.link), each.title) for each in loaded]
    return Listing(entries, ("testbed", "kind", "link", "title"), rows)


def tunnels() -> Listing:
    """Every kind of tunnel that a plan may name, and whether it can come up here."""
    with probing_host() as host:
        found = {kind: availability(kind, host) for kind in kinds()}
    entries = [
        {"kind": kind, "title": title, "available": found[kind].answer, "reason": found[kind].reason}
        for kind, title in kinds().items()
    ]
    rows = [(each["kind"], word(each["available"]), reasoned(each["title"], each["reason"])) for each in entries]
    return Listing(entries, ("kind", "available", "title"), rows)


def references() -> Listing:
    """The published results that ship."""
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
        }
        for each in loaded
    ]
    rows = [(each.name, len(each.rows), each.date, reasoned(each.title, each.comparability.label)) for each in loaded]
    return Listing(entries, ("reference", "rows", "date", "title"), rows, numbers=(1,))
