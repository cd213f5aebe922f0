"""Answers of runs in which tunnels lack rows, are paced, or use more than one CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.analysis.test_answer import OTHER, PLAIN, SEALED, answered, small_packets, trials
from tests.unit.builders import make_records, make_spec, make_tcp, make_trial
from tests.unit.udp_builders import make_udp_records

from tunnelbench.analysis.answer import NO_ENCRYPTED, Answer
from tunnelbench.model.plan import Direction, Test
from tunnelbench.model.result import IMPORTED, Outcome, TrialRecord, TunnelProof


def test_small_packets_of_a_tunnel_without_large_ones_are_not_large_packets() -> None:
    large = trials({OTHER: (12.0, 12.1)}, Direction.OUT)
    found = {each.name: each for each in answered([*large, *small_packets({SEALED: (10, 11)})]).tunnels}
    assert found[SEALED].up.throughput_bps is None
    assert found[SEALED].up.cpu_share is None
    assert found[SEALED].up.small_pps is not None
    assert found[OTHER].up.throughput_bps is not None
    assert list(found) == [OTHER, SEALED]


def test_a_target_that_needs_two_cpus_has_a_recommendation_in_its_verdict() -> None:
    found = answered(trials({SEALED: (200.0, 201.0), OTHER: (300.0, 301.0)}), 90)
    assert found.recommended == SEALED
    assert found.verdict[0].startswith("Of the tunnels that carry 90 Mbit/s, wireguard-go takes the least CPU: 2.")


@pytest.mark.parametrize(("plaintext", "kind"), [(True, "tunnel"), (False, "encrypted tunnel")])
def test_a_target_that_nothing_carries_names_the_tunnels_considered(plaintext: bool, kind: str) -> None:
    found = answered(trials({SEALED: (6.0, 6.1)}), 900, plaintext=plaintext)
    assert found.verdict == (f"No {kind} was shown to carry 900 Mbit/s in both directions.",)


@pytest.mark.parametrize(("daemon_cpu_s", "is_in_kernel"), [(None, True), (0.0, True), (0.05, True), (4.0, False)])
def test_a_tunnel_with_an_idle_daemon_is_in_the_kernel(daemon_cpu_s: float | None, is_in_kernel: bool) -> None:
    (found,) = answered([make_trial(make_spec(1, 1, SEALED), make_tcp(1e8, daemon_cpu_s=daemon_cpu_s))]).tunnels
    assert found.is_in_kernel is is_in_kernel


@pytest.mark.parametrize(("mbps", "is_bound"), [(337, False), (499, True)])
def test_a_paced_rate_is_a_lower_bound_only_if_it_was_carried(mbps: float, is_bound: bool) -> None:
    spec = replace(make_spec(1, 1, SEALED), load="500")
    (found,) = answered([make_trial(spec, make_tcp(mbps * 1e6))]).tunnels
    assert found.down.is_lower_bound is is_bound


def test_a_void_row_does_not_count_as_the_fewest_trials() -> None:
    good = trials({SEALED: (6.0, 6.1, 6.2)})
    void = make_trial(make_spec(90, 1, SEALED, 76), outcome=Outcome.VOID, reason="the cable was cut")
    (found,) = answered([*good, void]).tunnels
    assert found.repeats == 3


def test_a_tunnel_with_figures_of_other_packet_sizes_only_says_so() -> None:
    middle = replace(make_spec(90, 1, SEALED, 500), sequence=90)
    large = make_trial(make_spec(91, 1, SEALED), outcome=Outcome.VOID, reason="the cable was cut")
    counted = [*trials({OTHER: (6.0, 6.1)}), make_trial(middle, make_tcp(1e8)), large]
    reasons = {each.name: each.reason for each in answered(counted).tunnels}
    assert reasons == {OTHER: "", SEALED: "figures with other packet sizes only; void: the cable was cut"}


def test_plaintext_alone_is_reported_once_for_tcp_and_udp() -> None:
    records = [record for record in (*make_records(1), *make_udp_records()) if record.spec.tunnel.name == PLAIN]
    assert answered(records).verdict.count(NO_ENCRYPTED) == 1


def one_way_udp(also: str) -> list[TrialRecord]:
    """Return UDP trials of two tunnels, of which one has both directions and the slower rate."""
    found: list[TrialRecord] = []
    for record in make_udp_records():
        if record.spec.tunnel.name not in {PLAIN, OTHER}:
            continue
        sealed = replace(record, proof=TunnelProof((), is_encrypted=True))
        found.append(sealed)
        if record.spec.tunnel.name == also:
            found.append(replace(sealed, spec=replace(sealed.spec, direction=Direction.IN)))
    return found


def test_a_udp_tunnel_that_lacks_a_direction_comes_after_the_others() -> None:
    assert [each.name for each in answered(one_way_udp("")).udp] == [PLAIN, OTHER]
    assert [each.name for each in answered(one_way_udp(OTHER)).udp] == [OTHER, PLAIN]


def test_the_loss_of_a_udp_rate_is_stated_for_its_own_direction() -> None:
    records = [
        record
        for record in one_way_udp(OTHER)
        if record.spec.tunnel.name == OTHER
        and (record.spec.direction is Direction.OUT or record.spec.test is not Test.SEARCH)
    ]
    down, up = answered(records).verdict[-2:]
    assert down == "At full load, openvpn AES-128-GCM carries 38.1 thousand packets/s down (UDP packets of 18 bytes)."
    assert up.startswith("With at most 0.5 % loss, openvpn AES-128-GCM carries 36.4 thousand packets/s up")


def commands_of(found: Answer) -> list[str]:
    return [*(each.command for each in found.warnings), *(each.command for each in found.next_commands)]


def test_a_plan_of_ones_own_is_run_again_by_its_path() -> None:
    found = answered(make_records(), plan_name="my.toml").next_commands[0]
    assert found.command == "tunnelbench run my.toml --on malta --set rounds=8"
    assert found.note.endswith("my.toml: give the path of your plan.")


def test_no_command_names_another_persons_plan() -> None:
    found = commands_of(answered(make_records(), plan_name="my.toml", status=IMPORTED))
    assert not any(command.startswith(("tunnelbench run ", "tunnelbench doctor")) for command in found)


def test_the_plan_of_an_imported_run_can_be_run_here() -> None:
    found = {command for command in commands_of(answered(make_records(), status=IMPORTED)) if " report " not in command}
    assert found == {
        "tunnelbench run quick --on malta",
        "tunnelbench run quick --set rounds=8",
        "tunnelbench run quick --on malta --set rounds=8",
    }


def test_no_command_names_a_testbed_that_is_not_shipped() -> None:
    found = answered(make_records(), testbed_name="router", testbed_text='kind = "ssh"\n')
    words = {word for command in commands_of(found) for word in command.split()}
    assert words.isdisjoint({"--on", "--router", "doctor"})
