"""A plan: its tunnels, and its trials in order with the time that they take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from rich.console import RenderableType

from tunnelbench.cli.drawing import columns, drawn, facts, heading, reasoned, title, word
from tunnelbench.cli.needs import Availability, availability
from tunnelbench.cli.output import duration_text, emit, emit_json
from tunnelbench.host.readiness import probing_host
from tunnelbench.model.plan import BLOCK_OVERHEAD_S, Plan, SoakTraffic, TcpTraffic, TrialSpec, UdpTraffic
from tunnelbench.plan import read_plan
from tunnelbench.tunnel import PLANNED, option_schemas


def show(reference: str, *, as_json: bool) -> None:
    """Write what there is to say of a plan, by its shipped name or its path; raises as `read_plan`."""
    plan = read_plan(reference, option_schemas(), (), PLANNED).plan
    with probing_host() as host:
        here = {tunnel.name: availability(tunnel.kind, host, tunnel.options) for tunnel in plan.tunnels}
    if as_json:
        emit_json(entry(plan, here))
    else:
        emit(drawn(title(f"{plan.name}: {plan.title}" if plan.title else plan.name), *picture(plan, here)))


def starts(plan: Plan) -> Iterator[tuple[float, TrialSpec]]:
    """Every trial in order, the calibration too, and about when it starts after the run has [s]."""
    now_s = 0.0
    every = (*plan.calibrations(), *plan.trials())
    for (round_number, _), block in groupby(every, key=lambda spec: (spec.round, spec.tunnel.name)):
        now_s += BLOCK_OVERHEAD_S if round_number else 0.0
        for spec in block:
            yield now_s, spec
            now_s += plan.expected_trial_s(spec)


def entry(plan: Plan, here: Mapping[str, Availability]) -> Mapping[str, object]:
    """All of it, for programs."""
    return {
        "name": plan.name,
        "title": plan.title,
        "rounds": plan.rounds,
        "tcp": plan.tcp,
        "udp": plan.udp,
        "soak": plan.soak,
        "expected_duration_s": plan.expected_duration_s(),
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
            for start_s, spec in starts(plan)
        ],
    }


def picture(plan: Plan, here: Mapping[str, Availability]) -> Iterator[RenderableType]:
    """All of it but the title, for people."""
    trials = f"{len(plan.trials())} in {plan.rounds} round{'s' * (plan.rounds > 1)}"
    calibrations = f"{len(plan.calibrations())} of the testers back to back"
    yield facts(
        [
            *zip(("Traffic", "", ""), traffic_texts(plan), strict=False),
            ("Trials", f"{trials}, and before them {calibrations}"),
            ("Takes", f"about {duration_text(plan.expected_duration_s())}"),
        ]
    )
    yield heading("Tunnels")
    rows = []
    for tunnel in plan.tunnels:
        options = ", ".join(f"{key}={value}" for key, value in tunnel.options.items())
        text = f"{tunnel.kind}: {options}" if options else tunnel.kind
        rows.append((tunnel.name, word(here[tunnel.name].answer), reasoned(text, here[tunnel.name].reason)))
    yield columns(rows, ("name", "available", "kind and options"))
    yield heading("Trials")
    yield columns(
        [(spec.sequence, clock(start_s), spec.round, spec.what, spec.tunnel.name) for start_s, spec in starts(plan)],
        ("trial", "starts at", "round", "what", "tunnel"),
        numbers=(0, 1, 2),
    )


def traffic_texts(plan: Plan) -> list[str]:
    """What is offered, by protocol."""
    texts = [tcp_text(plan.tcp)] if plan.tcp else []
    texts += [udp_text(plan.udp)] if plan.udp else []
    return [*texts, *([soak_text(plan.soak)] if plan.soak else [])]


def tcp_text(tcp: TcpTraffic) -> str:
    """What TCP is offered."""
    return (
        f"TCP {' and '.join(tcp.direction)}, payload {' and '.join(map(str, tcp.payload_bytes))} bytes, "
        f"{tcp.duration_s} s each, {tcp.streams} stream{'s' * (tcp.streams > 1)}, {tcp.congestion_control}"
    )


def udp_text(udp: UdpTraffic) -> str:
    """What UDP is offered."""
    sizes = " and ".join(str(size) if size else "imix" for size in udp.payload_bytes)
    tests = ", ".join(udp.tests)
    return f"UDP {' and '.join(udp.direction)}, payload {sizes} bytes: {tests}"


def soak_text(soak: SoakTraffic) -> str:
    """What soaks."""
    sizes = " and ".join(str(size) if size else "imix" for size in soak.payload_bytes)
    rate = f"{soak.rate} of the NDR" if soak.share else f"{soak.rate} packets/s"
    way = " there and back" if soak.is_echo else ""
    return (
        f"a soak of {duration_text(soak.duration_s)} {' and '.join(soak.direction)}{way}, payload {sizes} bytes, {rate}"
    )


def clock(seconds: float) -> str:
    """A time of the run as 0:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
