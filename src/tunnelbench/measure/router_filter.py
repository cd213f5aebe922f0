"""Sets up the packet filter of a plan on the router, and proves by its counters that the trials passed it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tunnelbench.host.command import CommandFailed
from tunnelbench.host.host import Host
from tunnelbench.model.counters import PathCounters
from tunnelbench.model.errors import TunnelUnavailable
from tunnelbench.model.firewall import RouterFilter
from tunnelbench.model.result import Check, Verdict
from tunnelbench.model.text import counted, printable
from tunnelbench.testbed.base import Testbed
from tunnelbench.testbed.iptables_filter import Iptables
from tunnelbench.testbed.nftables_filter import FROM_CLIENT, FROM_ROUTER, SEEN_TABLE, Nftables, seen_ruleset
from tunnelbench.testbed.router_filter import (
    ESTABLISHED,
    FILTER_NAME,
    NEW,
    OTHER,
    TRANSLATED,
    FilterChange,
    FilterProgram,
    first_difference,
)
from tunnelbench.tunnel.base import undone_unless_kept

FILTER_CHECK = "firewall"

FILTER_PROGRAMS: tuple[FilterProgram, ...] = (Nftables(), Iptables())
"""Programs that can set up the filter; the first one that the router has is used."""

SEEN = Nftables(SEEN_TABLE)
"""Table of the server, which is a tester and has nft."""

TRACKED_CONNECTIONS = "/proc/sys/net/netfilter/nf_conntrack_count"
"""Number of connections that the kernel tracks now in the network of the reading process."""

FILTERED_LEAST_SHARE = 0.98
"""Smallest share of the arrived packets that the rules of the filter must have counted."""

MERGED_LEAST_SHARE = 0.5
"""The same share of the arrived bytes, for a router that may merge packets: it then counts their headers once."""

LATE_PACKETS = 60
"""Largest number of packets that may arrive without passing the filter, such as those of the last trial."""


@dataclass(frozen=True)
class InstalledFilter:
    """The packet filter of a tunnel's trials, as the router had it when it was set up."""

    program: FilterProgram | None
    """Program with which the router lists it; None: the router has none."""
    text: str = ""
    """The rules as the program lists them; empty if the plan asks for no filter."""


@contextmanager
def installed_filter(testbed: Testbed, wanted: RouterFilter, *, keep: bool = False) -> Iterator[InstalledFilter]:
    """Give the router a packet filter for the block, and with NAT let the server count by the address that it sees.

    Yields the filter, with which `read_filter` compares that of later. With `keep`, the filter stays after a failure,
    for a user to examine. Raises TunnelUnavailable if the router cannot have the filter, or has a firewall of its own,
    whose cost would be measured, too.
    """
    router, server, a = testbed.router, testbed.server, testbed.addresses
    program = next((each for each in FILTER_PROGRAMS if all(map(router.has_program, each.programs))), None)
    if wanted.is_empty:
        yield InstalledFilter(program)
        return
    if own := testbed.own_firewall():
        raise TunnelUnavailable(
            f"the router has a firewall of its own ({own}), which would be measured, too: stop it for the run, or leave"
            " firewall and rules out of the plan"
        )
    if program is None:
        raise TunnelUnavailable(
            "firewall and rules need nft on the router, or iptables with iptables-restore and iptables-save"
        )
    added = [(router, program.change(wanted, testbed.clients_of_traffic, a.target))]
    if wanted.firewall.has_nat:
        seen = seen_ruleset((a.router_inner, a.router_wan), testbed.clients_of_traffic, a.target)
        added.append((server, SEEN.loading(seen)))
    with undone_unless_kept(keep) as stack:
        if wanted.firewall.has_nat and testbed.has_own_far_end:  # the server is not at the end of the tunnel then
            for address in (a.router_inner, a.router_wan):
                way = [f"{address}/32", "via", a.far_lan]
                stack.callback(server.run, ["ip", "route", "del", *way], check=False)
                server.ip("route", "add", *way)
        for host, change in added:
            stack.callback(host.run, change.undo, check=False)
            _add(host, change, wanted)
        listed = program.read(router)
        yield InstalledFilter(program, listed.text if listed else "")


def _add(host: Host, change: FilterChange, wanted: RouterFilter) -> None:
    try:
        host.run_undoable(change.argv, change.undo, stdin=change.stdin)
    except CommandFailed as error:
        said = printable(error.output.strip().partition("\n")[0][:200])
        raise TunnelUnavailable(f"the {host.name} cannot set up {wanted}: {said}") from None


@dataclass(frozen=True)
class FilterReading:
    """The counters of the filter and of connection tracking, read at one moment."""

    counters: Mapping[str, tuple[int, int]] | None = None
    """Packets and bytes by the counter's name; None: the router has no filter of a plan."""
    rules: int = 0
    """Number of rules that match nothing."""
    connections: int | None = None
    """Number of tracked connections; None: the kernel does not report it."""
    seen: Mapping[str, tuple[int, int]] | None = None
    """Counters of the server; None unless the filter has NAT."""
    changed: str = ""
    """Difference of the rules from those that were set up; empty if there is none."""
    program: str = "nft"
    """Name of the program that has set up the filter."""


def read_filter(testbed: Testbed, wanted: RouterFilter, installed: InstalledFilter) -> FilterReading | None:
    """Read the filter's counters; None if the router has a firewall of its own, and no filter from the plan.

    `installed` is the filter that `installed_filter` has yielded; without its text, the rules are not compared.
    """
    if wanted.is_empty and testbed.own_firewall():
        return None
    count = testbed.router.run(["cat", TRACKED_CONNECTIONS], check=False).stdout.strip()
    connections = int(count) if count.isdecimal() and len(count) < 20 else None
    program = installed.program
    found = program.read(testbed.router) if program else None
    seen = SEEN.read(testbed.server) if wanted.firewall.has_nat else None
    return FilterReading(
        found.counters if found else None,
        found.unmatched if found else 0,
        connections,
        seen.counters if seen else None,
        first_difference(installed.text, found.text) if installed.text and found else "",
        program.name if program else "",
    )


def check_filter(
    wanted: RouterFilter,
    before: FilterReading | None,
    after: FilterReading | None,
    path: PathCounters,
    *,
    has_own_router: bool,
    cut_by_router_packets: int = 0,
) -> tuple[Check, ...]:
    """Check that the traffic of a trial passed the filter that the plan asks for, and no other (rule 12).

    `cut_by_router_packets` is `PathBalance.added_by_router_packets`: the router cuts packets behind the filter.
    No check where the filter is not the plan's: a real router that keeps its own firewall.
    """
    if before is None or after is None:
        return ()
    if wanted.is_empty:
        return _untracked(before, after, has_own_router=has_own_router)
    carried = path.data_packets + path.ack_packets - cut_by_router_packets
    reasons = list(_faults(wanted, before, after, carried, path.data_bytes, has_own_router=has_own_router))
    verdict = Verdict.VOID if reasons else Verdict.OK
    return (Check(FILTER_CHECK, verdict, "; ".join(reasons) or _found(wanted, before, after), rule=12),)


def _untracked(before: FilterReading, after: FilterReading, *, has_own_router: bool) -> tuple[Check, ...]:
    """Check that the router has no filter of a plan, and tracked no connection.

    The list of tracked connections may hold those of earlier trials for minutes; they only disappear, so that a growing
    list shows new connections. A real router may track the connections of others, so that the trial is only doubtful
    there.
    """
    if before.counters is not None or after.counters is not None:
        reason = f"the router had the rules {FILTER_NAME} of an earlier trial, although the plan has no firewall"
        return (Check(FILTER_CHECK, Verdict.VOID, reason, rule=12),)
    added = (after.connections or 0) - (before.connections or 0)
    if added > 0:
        reason = f"the router tracked {counted(added, 'new connection')}, although the plan has no firewall"
        verdict = Verdict.DOUBTFUL if has_own_router else Verdict.VOID
        return (Check(FILTER_CHECK, verdict, reason, rule=12),)
    return (Check(FILTER_CHECK, Verdict.OK, "the router tracked no new connection", rule=12),)


def _faults(
    wanted: RouterFilter,
    before: FilterReading,
    after: FilterReading,
    carried: int,
    data_bytes: int,
    *,
    has_own_router: bool,
) -> Iterator[str]:
    """Yield the counters, in words, that show that a trial did not pass the whole filter.

    `carried` packets with `data_bytes` bytes of data must have passed it.
    """
    if before.counters is None or after.counters is None:
        yield f"the rules of {wanted} are no longer on the router"
        return
    if after.rules != wanted.rules:
        yield f"the router had {after.rules} of {counted(wanted.rules, 'rule')} after the trial"
    if changed := before.changed or after.changed:
        yield f"the rules on the router were not those that were set up: {changed}"
    names = (ESTABLISHED, NEW) if wanted.firewall.tracks else (OTHER,)
    passed, passed_bytes = (sum(_added(name, unit, before, after) for name in names) for unit in (0, 1))
    what = "by the state of their connection" if wanted.firewall.tracks else "by the rules"
    if has_own_router and passed_bytes < data_bytes * MERGED_LEAST_SHARE:
        yield f"only {passed_bytes} bytes were forwarded {what}, and {data_bytes} bytes of data arrived"
    elif not has_own_router and passed < carried * FILTERED_LEAST_SHARE - LATE_PACKETS:
        yield f"only {passed} of {carried} packets were forwarded {what}"
    if wanted.firewall.tracks and not after.connections and after.connections is not None:
        yield "the router tracks no connection"
    if wanted.firewall.has_nat:
        yield from _nat_faults(before, after)


def _nat_faults(before: FilterReading, after: FilterReading) -> Iterator[str]:
    """Yield the counters, in words, that show that the server also saw other addresses than the router's."""
    if before.seen is None or after.seen is None:
        yield "the server no longer counts the addresses that it sees"
        return
    own, foreign = (_seen(name, before, after) for name in (FROM_ROUTER, FROM_CLIENT))
    if foreign or not own:
        yield f"the server saw {own} packets from the router's address and {foreign} from the client's"


def _found(wanted: RouterFilter, before: FilterReading, after: FilterReading) -> str:
    """Return a sentence on the parts of a filter that worked, with their counters."""
    compared = f"each packet was compared with {counted(wanted.rules, 'rule')}" if wanted.rules else "no further rules"
    rules = f"{compared} of {after.program}"
    if not wanted.firewall.tracks:
        return f"{_added(OTHER, 0, before, after)} packets passed the packet filter: {rules}; no connection tracking"
    known, first = (_added(name, 0, before, after) for name in (ESTABLISHED, NEW))
    words = f"{known} packets of known connections and {first} of new ones were forwarded by their state; {rules}"
    if after.connections is not None:
        words += f"; {after.connections} connections are tracked"
    if wanted.firewall.has_nat:
        translated = _added(TRANSLATED, 0, before, after)
        own = _seen(FROM_ROUTER, before, after)
        words += f"; NAT of {counted(translated, 'connection')}: the server saw {own} packets, all from the router"
    return words


def _added(name: str, unit: int, before: FilterReading, after: FilterReading) -> int:
    """Return the increase of a counter of the router: its packets (unit 0) or its bytes (unit 1)."""
    before_it, after_it = ((reading.counters or {}).get(name, (0, 0))[unit] for reading in (before, after))
    return max(after_it - before_it, 0)  # a rule that was removed, or is new, begins at 0


def _seen(name: str, before: FilterReading, after: FilterReading) -> int:
    return (after.seen or {}).get(name, (0, 0))[0] - (before.seen or {}).get(name, (0, 0))[0]
