"""Show a plan: its tunnels, and its trials in order with their start times."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from rich.console import RenderableType

from tunnelbench.cli.availability import Availability, availability, packages
from tunnelbench.cli.common_options import duration_text, emit, emit_json
from tunnelbench.cli.layout import columns, drawn, facts, heading, name_and_title, reasoned, word
from tunnelbench.cli.plans import load_plan, on_virtual_router
from tunnelbench.host.preflight import probing_host
from tunnelbench.model.plan import (
    BLOCK_OVERHEAD_S,
    ConnectionTraffic,
    Direction,
    Plan,
    SoakTraffic,
    TcpTraffic,
    Test,
    TrialSpec,
    UdpTraffic,
    paced_text,
    payload_text,
)
from tunnelbench.model.text import counted


def show(reference: str, *, as_json: bool) -> None:
    """Write a plan in full, by its shipped name or its path; raises as `read_plan`."""
    plan = load_plan(reference).plan
    with probing_host() as host:
        here = {tunnel.name: availability(tunnel.kind, host, tunnel.options) for tunnel in plan.tunnels}
    if as_json:
        emit_json(entry(plan, here))
    else:
        elsewhere = on_virtual_router(reference)
        also = f"about {duration_text(elsewhere[1])} on {elsewhere[0]} with all tunnels" if elsewhere else ""
        emit(drawn(name_and_title(plan.name, plan.title), *picture(plan, here, also)))


def starts(plan: Plan, missing: Collection[str] = ()) -> Iterator[tuple[float, TrialSpec]]:
    """Yield every trial in order, calibrations included, after its expected start [s since the run's start].

    The tunnels with the names `missing` cannot come up here, so their trials take no time.
    """
    now_s = 0.0
    every = plan.every_trial()
    for (round_number, name), block in groupby(every, key=lambda spec: (spec.round, spec.tunnel.name)):
        is_missing = name in missing
        now_s += BLOCK_OVERHEAD_S if round_number and not is_missing else 0.0
        for spec in block:
            yield now_s, spec
            now_s += 0.0 if is_missing else plan.expected_trial_s(spec)


def missing_tunnels(here: Mapping[str, Availability]) -> set[str]:
    """Return the names of the tunnels that cannot come up on this machine."""
    return {name for name, found in here.items() if found.answer == "no"}


def entry(plan: Plan, here: Mapping[str, Availability]) -> Mapping[str, object]:
    """Return the plan as data for the JSON output."""
    missing = missing_tunnels(here)
    return {
        "name": plan.name,
        "title": plan.title,
        "rounds": plan.rounds,
        "tcp": plan.tcp,
        "udp": plan.udp,
        "soak": plan.soak,
        "connections": plan.connections,
        "expected_duration_s": plan.expected_duration_s(missing),
        "debian_packages": packages(plan.tunnels, "debian"),
        "crates": packages(plan.tunnels, "crate"),
        "tunnels": [
            {
                "kind": tunnel.kind,
                "name": tunnel.name,
                "options": tunnel.options,
                "available": here[tunnel.name].answer,
                "reason": here[tunnel.name].reason,
            }
            for tunnel in plan.tunnels
        ],
        "trials": [
            {
                "sequence": spec.sequence,
                "round": spec.round,
                "tunnel": spec.tunnel.name,
                "payload_bytes": spec.payload_bytes,
                "direction": spec.direction,
                "test": spec.test,
                "load": spec.load,
                "expected_start_s": round(start_s, 1),
            }
            for start_s, spec in starts(plan, missing)
        ],
    }


def picture(plan: Plan, here: Mapping[str, Availability], also: str = "") -> Iterator[RenderableType]:
    """Yield the parts of a plan's description for people, without its title; `also` is the time elsewhere."""
    missing = missing_tunnels(here)
    trials = f"{len(plan.trials())} in {plan.rounds} round{'s' * (plan.rounds > 1)}"
    calibrations = f"{len(plan.calibrations())} of the testers without a router"
    yield facts(
        [
            *zip(("Traffic", "", ""), traffic_texts(plan), strict=False),
            ("Trials", f"{trials}; before them {calibrations}"),
            ("Takes", f"about {duration_text(plan.expected_duration_s(missing))} in namespaces of this machine"),
            *([("", also)] if also else []),
            *(
                [("Needs", f"Debian packages {' '.join(debian)}")]
                if (debian := packages(plan.tunnels, "debian"))
                else []
            ),
        ]
    )
    yield heading("Tunnels")
    rows = []
    for tunnel in plan.tunnels:
        options = ", ".join(f"{key}={value}" for key, value in tunnel.options.items())
        text = f"{tunnel.kind}: {options}" if options else tunnel.kind
        rows.append((tunnel.name, word(here[tunnel.name].answer), reasoned(text, here[tunnel.name].shortfall)))
    yield columns(rows, ("name", "available", "kind and options"))
    yield heading("Trials")
    yield columns(
        [
            (spec.sequence, clock(start_s), spec.round, spec.what, spec.tunnel.name)
            for start_s, spec in starts(plan, missing)
        ],
        ("trial", "starts at", "round", "what", "tunnel"),
        numbers=(0, 1, 2),
    )


def traffic_texts(plan: Plan) -> list[str]:
    """Describe the offered traffic, a text for each protocol."""
    texts = [tcp_text(plan.tcp)] if plan.tcp else []
    texts += [udp_text(plan.udp)] if plan.udp else []
    texts += [connections_text(plan.connections)] if plan.connections else []
    return [*texts, *([soak_text(plan.soak)] if plan.soak else [])]


def tcp_text(tcp: TcpTraffic) -> str:
    return (
        f"TCP {_ways(tcp.direction)}, payload {' and '.join(map(str, tcp.payload_bytes))} bytes, "
        f"{tcp.duration_s} s each, {counted(tcp.streams, 'stream')}, {tcp.congestion_control}{_rates_text(tcp)}"
    )


def _rates_text(tcp: TcpTraffic) -> str:
    """Return a text with the rates to which the plan limits TCP; empty if it sets none."""
    rates = [paced_text(load) or "at full speed" for load in tcp.loads]
    return f", {' and '.join(rates)}" if any(tcp.loads) else ""


def _ways(directions: Iterable[Direction]) -> str:
    return " and ".join(direction.label for direction in directions)


def udp_text(udp: UdpTraffic) -> str:
    flows = f", {counted(udp.flows, 'flow')}" if udp.flows > 1 else ""
    return f"UDP {_ways(udp.direction)}, payload {sizes_text(udp.payload_bytes)} bytes{flows}: {', '.join(udp.tests)}"


def connections_text(opened: ConnectionTraffic) -> str:
    tests = {
        Test.CONNECT: f"new ones for {opened.duration_s:g} s ({' and '.join(opened.rate)})",
        Test.CONCURRENT: f"{opened.most} at the same time",
    }
    return f"TCP connections: {' and '.join(tests[test] for test in opened.tests)}"


def soak_text(soak: SoakTraffic) -> str:
    sizes = sizes_text(soak.payload_bytes)
    rate = f"{soak.rate} of the NDR" if soak.share else f"{soak.rate} packets/s"
    way = " there and back" if soak.is_echo else ""
    return f"a soak of {duration_text(soak.duration_s)} {_ways(soak.direction)}{way}, payload {sizes} bytes, {rate}"


def sizes_text(sizes: Sequence[int]) -> str:
    """List payload sizes [bytes]; 0 stands for the mix of sizes (IMIX)."""
    return " and ".join(map(payload_text, sizes))


def clock(seconds: float) -> str:
    """Format a time as 0:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
