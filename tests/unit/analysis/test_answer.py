"""Two sentences that say no more than the figures do."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.builders import make_records, make_run, make_spec, make_tcp, make_trial
from tests.unit.udp_builders import make_udp_records

from tunnelbench.analysis.answer import NOTHING, Answer
from tunnelbench.model.plan import Direction, Test
from tunnelbench.model.result import Outcome, TrialRecord
from tunnelbench.report.document import compose


def answered(records: Sequence[TrialRecord], target_mbps: float | None = None, **changes: object) -> Answer:
    return compose(make_run(**changes), records, target_mbps).answer


def trials(costs: dict[str, tuple[float, ...]], direction: Direction = Direction.IN) -> list[TrialRecord]:
    """Of each tunnel some trials, by what a packet costs [us]."""
    return [
        make_trial(
            make_spec(10 * place + number, number, tunnel, 1448, direction),
            make_tcp(1e8, cpu_s_per_million_packets=cost),
        )
        for place, (tunnel, own) in enumerate(costs.items())
        for number, cost in enumerate(own, start=1)
    ]


def test_the_cheapest_tunnel_is_named_with_its_cost_and_the_baselines_for_each_direction() -> None:
    said = answered(make_records()).tunnel
    assert said.startswith("Of 5 tunnels this costs the router least CPU per packet with 1448 bytes of payload, ")
    assert "in: vxlan (6.33 us), without a tunnel 3.10 us" in said
    assert "out: vxlan (6.34 us)" in said
    assert "single" not in said


def test_tunnels_that_tie_are_named_together() -> None:
    said = answered(
        trials({"none": (3, 3), "vxlan": (6.0, 6.4), "wireguard-go": (6.2, 6.6), "openvpn none, none": (20, 21)})
    )
    assert "in: vxlan (6.20 us) and wireguard-go (6.40 us), without a tunnel 3.00 us" in said.tunnel


def test_single_trials_are_called_so() -> None:
    assert "by single trials, which show no spread" in answered(make_records(rounds=1)).tunnel


def test_one_tunnel_alone_is_not_called_the_cheapest() -> None:
    said = answered(trials({"none": (3, 3), "vxlan": (6.0, 6.4)})).tunnel
    assert said.startswith("CPU that the router needs per packet with 1448 bytes of payload: in: vxlan (6.20 us)")
    assert "least" not in said


def test_tunnels_that_have_no_direction_in_common_are_not_compared() -> None:
    records = [*trials({"none": (3,), "vxlan": (6,)}), *trials({"tinc AES-128-CBC, SHA-1": (5,)}, Direction.OUT)]
    numbered = [
        make_trial(make_spec(n, 1, r.spec.tunnel.name, 1448, r.spec.direction), r.tcp) for n, r in enumerate(records, 1)
    ]
    assert answered(numbered).tunnel == "No two tunnels have figures that can be compared with 1448 bytes of payload."


def test_the_limits_are_counted_and_what_is_not_known_is_said() -> None:
    said = answered(make_records()).limit
    assert said.startswith("Of 24 rows the throughput was limited in ")
    assert "in 8 by the testers, not the router" in said
    assert said.endswith("all of it holds for this machine, not for a device.")


def test_a_machine_of_its_own_is_not_called_shared() -> None:
    said = answered(make_records(), testbed_text='kind = "ssh"\n', host_facts={}).limit
    assert "this machine" not in said


def test_a_target_is_answered_by_the_tunnel_with_most_headroom() -> None:
    assert answered(make_records(), 100).tunnel.startswith("Of the tunnels that carry 100 Mbit/s, vxlan leaves")


def test_a_target_that_nothing_carries_is_said_to_be_so() -> None:
    said = answered(make_records(), 90_000).tunnel
    assert said == "Nothing was shown to carry 90000 Mbit/s both ways; the advice has why."


def test_a_target_that_the_baseline_alone_carries_is_left_to_the_advice() -> None:
    said = answered(make_records(), 1_500).tunnel
    assert said == "What carries 1500 Mbit/s, and what was not shown to, is in the advice."


def test_udp_is_answered_by_the_pdr_of_the_smallest_packets() -> None:
    said = answered(make_udp_records())
    assert (
        "forwarded most UDP packets of 18 bytes of payload, with at most 0.5 % lost: out: vxlan (146,000" in said.tunnel
    )
    assert said.limit.startswith("In 4 of ")


def test_udp_at_a_given_rate_names_the_load() -> None:
    records = [record for record in make_udp_records() if record.spec.test is Test.RATE and record.spec.load == "5000"]
    assert "at the load 5000: out: " in answered(records).tunnel


def test_a_run_in_which_nothing_counts_answers_nothing() -> None:
    void = [make_trial(make_spec(), outcome=Outcome.VOID, reason="the cable was cut")]
    assert answered(void).tunnel == NOTHING
    assert answered([]).tunnel == NOTHING
