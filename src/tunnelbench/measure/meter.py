"""The interface of a meter, which measures one kind of trial, and the steps that TCP and UDP trials share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from tunnelbench.host import cgroup
from tunnelbench.host.host import THIS_MACHINE
from tunnelbench.measure.balance_checks import check_balance
from tunnelbench.measure.checks import TrialContext, check_line, sharing
from tunnelbench.measure.counters import (
    Arrivals,
    arrivals,
    data_shares,
    direct_counters,
    direct_place,
    path_counters,
    read_host,
    read_path,
)
from tunnelbench.measure.cpu import BackgroundLoad, BackgroundWatch, cpus_here
from tunnelbench.measure.live_tunnel import LiveTunnel
from tunnelbench.measure.path_balance import devices_of, path_balance
from tunnelbench.measure.router_filter import InstalledFilter, check_filter, read_filter
from tunnelbench.measure.trial_monitor import OnSecond, TrafficPath, path_through
from tunnelbench.model.counters import PathCounters, Ping
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.plan import FLAT_OUT, Direction, Test, TrialSpec
from tunnelbench.model.result import Check, Measurement, TcpMeasurement, TrialRecord
from tunnelbench.model.text import printable
from tunnelbench.testbed.base import BackToBack, Testbed
from tunnelbench.tunnel.base import Tunnel

INNER_BYTES = 1400
"""Length of an inner IP packet that shows if a tunnel splits packets [bytes]."""


@dataclass(frozen=True)
class TrialFindings:
    """The measurement of a trial, its checks, and the program output from which both were made."""

    measurement: Measurement
    checks: tuple[Check, ...]
    raw: dict[str, Any]


class Meter(ABC):
    """Measures trials of one kind on a testbed that is up, and keeps the results that later trials need."""

    def __init__(self, testbed: Testbed, on_second: OnSecond) -> None:
        self.testbed = testbed
        self.on_second = on_second

    @abstractmethod
    def warm_up(self, tunnel: Tunnel[Any]) -> None:
        """Send traffic that is not timed, so that paths, ARP and CPU clocks settle (rule 23)."""

    @abstractmethod
    def measure(self, spec: TrialSpec, live: LiveTunnel) -> TrialFindings:
        """Measure one trial through a tunnel. Raises TrialFailed where it ends without a figure."""

    @abstractmethod
    def remember(self, record: TrialRecord) -> None:
        """Keep the results of a record that later trials need; ignore records of other kinds."""

    @abstractmethod
    def versions(self) -> Mapping[str, str]:
        """Return the versions of the programs that make the traffic, as in `TunnelProof.versions`."""

    def calibrate(self, spec: TrialSpec, link: BackToBack) -> TrialFindings:
        """Measure the testers alone (rule 6). Raises ValueError where trials of this kind need no calibration."""
        raise ValueError(f"{spec.what} has no calibration on {link}")


@dataclass(kw_only=True)
class Offered:
    """The results of the traffic of one trial."""

    ping: Ping = field(default_factory=lambda: Ping(0, 0, None))
    raw: dict[str, Any] = field(default_factory=dict)
    sampling: tuple[Check, ...] = ()
    """Check of the CPU time that the CPU readings cost a real router; empty for other routers."""
    misplaced: tuple[str, ...] = ()
    """Programs of the router that could run on the CPU of another host during the traffic, as sentences."""
    quota_files: Collection[Path] = ()
    """Files of `TrialMonitor.quota_files`."""
    first_arrivals: Arrivals | None = None
    """Arrivals just before the traffic; None if the counters may include packets from before the traffic."""
    engine_sent_packets: int | None = None
    """Packets that the packet engine says it has sent; None: there is no engine."""
    beside: tuple[Arrivals, ...] = ()
    """Arrivals without offered traffic, to be subtracted: the SSH connection to a real router uses the LAN's cable."""


O = TypeVar("O", bound=Offered)  # noqa: E741

Judged = tuple[Measurement, tuple[Check, ...]]


class TrafficMeter(Meter, Generic[O]):
    """A meter that reads the path's counters before and after the traffic of a trial."""

    @abstractmethod
    def offer(self, spec: TrialSpec, path: TrafficPath) -> O:
        """Offer the traffic of a trial. Raises TrialFailed where it ends without a figure."""

    @abstractmethod
    def judge(self, spec: TrialSpec, offered: O, counters: PathCounters, context: TrialContext) -> Judged:
        """Return the figures of a trial, and its checks."""

    def calibrate(self, spec: TrialSpec, link: BackToBack) -> TrialFindings:
        place = direct_place(link, spec.direction)
        before = read_host(self.testbed.client), read_host(self.testbed.server)
        offered, load = self._observed(spec, TrafficPath(link.client_address, link.server_address, place))
        after = read_host(self.testbed.client), read_host(self.testbed.server)
        context = TrialContext(load.bracket_s, load.by_name, is_calibration=True)
        figures, checks = self.judge(spec, offered, direct_counters(before, after, place), context)
        read = [{"client": asdict(client), "server": asdict(server)} for client, server in (before, after)]
        raw = offered.raw | {"foreign_cpu_s": load.by_name, "counters_before": read[0], "counters_after": read[1]}
        return TrialFindings(figures, checks, raw)

    def measure(self, spec: TrialSpec, live: LiveTunnel) -> TrialFindings:
        with blaming_restart(live.tunnel):
            return self._measure(spec, live.tunnel, live.packet_filter)

    def _measure(self, spec: TrialSpec, tunnel: Tunnel[Any], installed: InstalledFilter) -> TrialFindings:
        testbed = self.testbed
        path = path_through(testbed, tunnel, spec.direction)
        link_mbps = None if tunnel.compresses else link_rate_mbps(testbed, spec.direction)
        inner_mtu_bytes = None if link_mbps is None else tunnel.inner_mtu_bytes()
        log_sizes, asked_before = tunnel.log_sizes(), len(tunnel.keep_alives())
        tunnel.rekeys_since(log_sizes)  # some kinds compare with the last look
        throttled_before = throttled_s_by_process(tunnel)
        with testbed.watched() as changes:
            filter_before = read_filter(testbed, spec.tunnel.packet_filter, installed)
            before, packets_before = read_path(testbed), testbed.router_packets()
            # Not for tests of delays and gaps: a hypervisor stops a CPU that never sleeps for some ms now and then.
            is_paced = spec.test in {Test.TCP, Test.RATE} and spec.load not in {"", FLAT_OUT}
            # Devices of clients that set up their tunnels come and go.
            named = nullcontext() if spec.tunnel.handshakes else naming_changes(changes)
            with named, testbed.awake() if is_paced else nullcontext():
                offered, load = self._observed(spec, path)
            after, packets_after = read_path(testbed), testbed.router_packets()
            filter_after = read_filter(testbed, spec.tunnel.packet_filter, installed)
            changed = changes()
        beside = list(offered.beside)
        if offered.first_arrivals is not None:
            beside.append(offered.first_arrivals - arrivals(before.client, before.server, path.place))
        cables = testbed.router_lan_device, testbed.router_wan_device
        balance = path_balance(before, after, path.place, *cables, tunnel=devices_of(tunnel))
        rekeys, own_rekeys = rekeys_in_trial(spec, tunnel, log_sizes)
        context = TrialContext(
            load.bracket_s,
            load.by_name,
            outer=str(tunnel.outer),
            exact_outer_packets=tunnel.has_exact_packets_under_load,
            router_cpu_doubt=router_cpu_doubt(testbed, tunnel),
            restart=tunnel.restart_since(log_sizes),
            rekeys=rekeys,
            own_rekeys=own_rekeys,
            must_rekey=spec.test is Test.REKEY and spec.tunnel.has_tunnel,
            late_offloads=testbed.late_offloads(),
            merging=testbed.merging,
            misplaced=tuple(dict.fromkeys((*offered.misplaced, *testbed.misplaced(tunnel.daemons_under_test)))),
            altered=(*changed, *testbed.altered()),
            late_rules=testbed.late_rules(),
            router_packets=_increase(packets_before, packets_after),
            throttled_s=cgroup.increase_s(throttled_before, throttled_s_by_process(tunnel), offered.quota_files),
            cut_by_router_packets=balance.added_by_router_packets,
            keep_alives=tunnel.keep_alives()[asked_before:],
            has_own_router=testbed.has_own_router,
            counted_bytes=tunnel.counted_bytes,
            wire_bytes=tunnel.wire_bytes,
            inner_header_bytes=tunnel.inside.header_bytes,
            link_mbps=link_mbps,
            inner_mtu_bytes=inner_mtu_bytes,
            has_tunnel=spec.tunnel.has_tunnel,
            link_burst_bytes=0 if link_mbps is None else testbed.link_burst_bytes(link_mbps),
            compression=tunnel.compression,
        )
        counters = without(path_counters(before, after, path.place), beside)
        figures, checks = self.judge(spec, offered, counters, context)
        balanced = check_balance(
            balance,
            counters,
            tcp=figures if isinstance(figures, TcpMeasurement) else None,
            # Handshakes of other clients are on the path, too.
            one_outer_packet=own_rekeys is None
            and tunnel.has_exact_packets_under_load
            and len(tunnel.outer_packets_bytes(INNER_BYTES)) == 1,
            has_own_router=testbed.has_own_router,
            has_uncounted_queue=tunnel.works_on_all_cpus,
            engine_sent_packets=offered.engine_sent_packets,
        )
        filtered = check_filter(
            spec.tunnel.packet_filter,
            filter_before,
            filter_after,
            counters,
            has_own_router=testbed.has_own_router,
            cut_by_router_packets=balance.added_by_router_packets,
        )
        checks = (
            *checks,
            *balanced,
            *filtered,
            *(sharing(data_shares(before, after, path.place), spec.test) if own_rekeys is None else ()),
            *offered.sampling,
        )
        if testbed.line:
            checks = (*checks, check_line(testbed.line, testbed.line_lacks))
        read = {"counters_before": asdict(before), "counters_after": asdict(after)}
        if filter_before and filter_after and not spec.tunnel.packet_filter.is_empty:
            read |= {"firewall_before": asdict(filter_before), "firewall_after": asdict(filter_after)}
        return TrialFindings(figures, checks, offered.raw | {"foreign_cpu_s": load.by_name} | read)

    def _observed(self, spec: TrialSpec, path: TrafficPath) -> tuple[O, BackgroundLoad]:
        router = self.testbed.router
        testers = [host for host in self.testbed.hosts if host is not router]
        watch = BackgroundWatch(cpus_here(*self.testbed.hosts), router, testers)
        return self.offer(spec, path), watch.load()


def rekeys_in_trial(
    spec: TrialSpec, tunnel: Tunnel[Any], log_sizes: tuple[int, ...]
) -> tuple[list[str], list[str] | None]:
    """Return `rekeys` and `own_rekeys` of a TrialContext."""
    lines = tunnel.rekeys_since(log_sizes)
    if spec.test is not Test.REKEY or not spec.tunnel.others_rekey:
        return lines, None
    own = [line for line in lines if not tunnel.is_of_another_client(line)]
    return [line for line in lines if tunnel.is_of_another_client(line)], own


def _increase(before: tuple[int, int] | None, after: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return the increase of both counts; None if they were not read."""
    return (after[0] - before[0], after[1] - before[1]) if before and after else None


@contextmanager
def blaming_restart(tunnel: Tunnel[Any]) -> Iterator[None]:
    """Add to a TrialFailed from the block what a daemon reported meanwhile: a restart, or too long packets."""
    log_sizes = tunnel.log_sizes()
    try:
        yield
    except TrialFailed as error:
        if said := tunnel.restart_since(log_sizes) or tunnel.too_long_since(log_sizes):
            error.args = (f"{error}; {printable(said)}",)
        raise


@contextmanager
def naming_changes(changes: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Add to a TrialFailed from the block what was changed on the path meanwhile, which may be its cause."""
    try:
        yield
    except TrialFailed as error:
        if changed := changes():
            error.args = (f"{error}; {'; '.join(changed)}",)
        raise


def throttled_s_by_process(tunnel: Tunnel[Any]) -> cgroup.ThrottledTimes:
    """Return for how long CPU quotas have stopped the groups of this process and of the tunnel's programs so far [s].

    A program on another machine has a process number of that machine, so it is left out.
    """
    router, server = tunnel.ends.router.host, tunnel.ends.server.host
    programs = [(router, each) for each in tunnel.router_daemons] + [(server, each) for each in tunnel.server_daemons]
    pids = [str(daemon.pid) for host, daemon in programs if host.machine == THIS_MACHINE]
    return cgroup.throttled_s_by_process(["self", *pids])


def router_cpu_doubt(testbed: Testbed, tunnel: Tunnel[Any]) -> str:
    """Return the reason why the router's busy time may include work of other hosts; empty if it does not."""
    if testbed.has_own_router:
        return ""
    if {*testbed.router.cpus} & {*testbed.client.cpus, *testbed.server.cpus}:
        return "router and testers share one CPU, so its busy time includes the work of both"
    if tunnel.works_on_all_cpus:
        return "the kernel spreads this tunnel's work over all CPUs, so the router's part is unknown"
    return ""


def link_rate_mbps(testbed: Testbed, direction: Direction) -> float | None:
    """Return the rate of the testbed's link in a direction [Mbit/s]; None: the link has no rate limit."""
    link = testbed.link
    return link.rate_in_mbps if direction is Direction.IN else link.rate_out_mbps


def without(counters: PathCounters, beside: Sequence[Arrivals]) -> PathCounters:
    """Subtract the arrivals `beside` from a trial's counters: packets that arrived while no traffic was offered."""
    return replace(
        counters,
        data_packets=counters.data_packets - sum(each.data_packets for each in beside),
        data_bytes=counters.data_bytes - sum(each.data_bytes for each in beside),
        ack_packets=counters.ack_packets - sum(each.ack_packets for each in beside),
    )
