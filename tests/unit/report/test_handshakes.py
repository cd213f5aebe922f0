"""A run that measures new tunnels per second: the rate, verdict, table, full report and JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.unit.builders import make_proof, make_run, make_trial, make_tunnel
from tests.unit.udp_builders import make_counts, make_delays

from tunnelbench.model.plan import Direction, Plan, Test, UdpTraffic
from tunnelbench.model.result import Check, TrialRecord, Verdict
from tunnelbench.model.udp import ClientHandshakes, HandshakeCounts, ServerMemory, UdpMeasurement
from tunnelbench.report.document import compose
from tunnelbench.report.first_screen import first_screen
from tunnelbench.report.render import render

OPENVPN = "openvpn AES-128-GCM"
RUN = make_run(plan_name="handshake")


def make_handshakes(per_s: float) -> HandshakeCounts:
    """Return four clients that make so many handshakes per second together."""
    clients = (ClientHandshakes(9, 8 * 4 / per_s),) * 4
    memory = ServerMemory(4, 2 * 2**20, 3 * 2**20)
    return HandshakeCounts(40, 0, clients, setup_p50_s=0.25, setup_max_s=0.5, memory=memory)


def records(*, is_tester_limited: bool = False) -> list[TrialRecord]:
    udp = UdpTraffic((1200,), (Direction.OUT,), (Test.HANDSHAKE,), ("500",))
    plan = Plan("handshake", "", tuple(make_tunnel(name) for name in ("none", OPENVPN)), None, rounds=2, udp=udp)
    found = []
    for spec in plan.trials():
        counts = make_counts(500, lost=7, intended_pps=500, delay=make_delays(), longest_gap_s=0.0421)
        handshakes = make_handshakes(16.0) if spec.tunnel.has_tunnel else None
        limited = Verdict.DOUBTFUL if is_tester_limited and handshakes else Verdict.OK
        checks = (Check("tester-limited", limited, "a tester's CPU", 6),)
        record = replace(make_trial(spec, checks=checks, proof=make_proof(spec.tunnel.name)))
        found.append(replace(record, measurement=UdpMeasurement(counts, handshakes=handshakes)))
    return found


def test_clients_that_finish_together_are_counted_from_their_own_first_tunnel() -> None:
    together = HandshakeCounts(24, 0, (ClientHandshakes(4, 9.0),) * 6)  # six tunnels after 3, 6, 9 and 12 s
    assert together.per_s == pytest.approx(2.0)
    assert together.finished == 24
    assert HandshakeCounts(3, 0, (ClientHandshakes(1, 0.0), ClientHandshakes(0, 0.0))).per_s is None


def test_the_memory_of_few_tunnels_or_of_none_that_is_seen_is_no_figure() -> None:
    assert ServerMemory(4, 1000, 3000).per_tunnel_bytes == 500
    assert ServerMemory(3, 1000, 3000).per_tunnel_bytes is None
    assert ServerMemory(8, 3000, 3000).per_tunnel_bytes is None


@pytest.mark.parametrize(("is_tester_limited", "bound", "mark"), [(False, "", ""), (True, "at least ", "≥")])
def test_the_screen_has_the_tunnels_per_second(is_tester_limited: bool, bound: str, mark: str) -> None:
    document = compose(RUN, records(is_tester_limited=is_tester_limited))
    text = "\n".join(line.plain for line in first_screen(document, 200))
    assert f"The server of {OPENVPN} sets up {bound}16.0 tunnels per second." in text
    (row,) = (line for line in text.splitlines() if line.strip().startswith(f"{OPENVPN}, up"))
    assert row.replace("?", "").split()[-6:] == ["42.1", "7", "80.0", f"{mark}16.0", "250", "256"]
    assert "Its programs take 2.00 MiB, and 256 KiB more for each open tunnel: 64 MiB hold about 250." in text
    narrow = first_screen(document, 80)
    assert max(len(line.plain) for line in narrow) <= 80


@pytest.mark.parametrize(("memory_mib", "most"), [(3, "4.0"), (1, "0"), (1024, "4,100")])
def test_a_plan_names_the_memory_that_is_to_hold_tunnels(memory_mib: int, most: str) -> None:
    run = replace(RUN, plan_text=f"[handshake]\nmemory_mib = {memory_mib}\n")
    text = "\n".join(line.plain for line in first_screen(compose(run, records()), 200))
    assert f"each open tunnel: {memory_mib} MiB hold about {most}." in text


def test_the_report_and_the_json_have_the_tunnels_per_second() -> None:
    assert "Tunnels/s" in render(RUN, records(), "markdown")
    rows = json.loads(render(RUN, records(), "json"))["udp_rows"]
    assert [row["figures"]["handshakes_per_s"] and row["figures"]["handshakes_per_s"]["median"] for row in rows] == [
        None,
        16.0,
    ]
