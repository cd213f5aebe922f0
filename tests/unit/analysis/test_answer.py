"""The answer of a run: its verdict, figures, warnings, advice and commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import click
import pytest
from tests.unit.builders import make_records, make_run, make_spec, make_speeds, make_tcp, make_trial, make_tunnel
from tests.unit.soak_builders import make_chunks, make_reading, make_soak
from tests.unit.udp_builders import make_delays, make_udp_records

from tunnelbench import cli
from tunnelbench.analysis.answer import NO_ENCRYPTED, NO_TRIAL, Answer
from tunnelbench.analysis.answer.commands import router_of
from tunnelbench.analysis.answer.doubts import CHECKS_IN_WORDS
from tunnelbench.analysis.answer.scope import AES_INSTRUCTIONS
from tunnelbench.analysis.answer.udp import BASELINE_DELAY, LongerTrial, UdpDirectionAnswer
from tunnelbench.analysis.answer.warnings import MOST_WARNINGS
from tunnelbench.analysis.soak import summarise_soak
from tunnelbench.cli.plans import load_plan
from tunnelbench.model.plan import Direction, Test
from tunnelbench.model.result import IMPORTED, Check, Outcome, TrialRecord, TunnelProof, Verdict
from tunnelbench.model.shipped import shipped_plans, shipped_testbeds
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.plan import FileErrors, override_target, read_testbed
from tunnelbench.report.document import SoakReport, compose
from tunnelbench.testbed import KINDS

SEALED, OTHER, PLAIN = "wireguard-go", "openvpn AES-128-GCM", "vxlan"

IN_KERNEL = "Not measured: wireguard in the kernel (tunnelbench run quick --on netns-debian)."


def answered(
    records: Sequence[TrialRecord], target_mbps: float | None = None, *, plaintext: bool = False, **changes: object
) -> Answer:
    return compose(make_run(**changes), records, target_mbps, allow_plaintext=plaintext).answer


def trials(costs: dict[str, tuple[float, ...]], direction: Direction = Direction.IN) -> list[TrialRecord]:
    """Return some trials of each tunnel, given the cost of a packet [us]."""
    return [
        make_trial(
            make_spec(10 * place + number, number, tunnel, 1448, direction),
            make_tcp(1e8, cpu_s_per_million_packets=cost),
            proof=TunnelProof((), is_encrypted=tunnel in {SEALED, OTHER}),
        )
        for place, (tunnel, own) in enumerate(costs.items())
        for number, cost in enumerate(own, start=1)
    ]


def test_the_cheapest_encrypted_tunnel_is_named_with_cost_and_rates() -> None:
    found = answered(make_records())
    assert found.recommended == SEALED
    assert found.verdict == (
        "Of the 3 encrypted tunnels, wireguard-go takes the least CPU for traffic down and up.",
        "At 100 Mbit/s, wireguard-go takes 28 % of one CPU of the router for traffic down and 29 % up.",
        "wireguard-go carries 337 Mbit/s down and 329 up; limit: the router's CPU down, not known up.",
        "openvpn AES-128-GCM comes next: it takes 1.2 times as much CPU down and up.",
    )


def test_plaintext_is_never_first_unless_it_is_allowed() -> None:
    found = answered(make_records())
    ranks = [((True, False, None).index(each.is_encrypted), each.tunnel.is_baseline) for each in found.tunnels]
    assert ranks == sorted(ranks)
    assert (0, False) in ranks
    assert (1, True) in ranks
    assert not any(PLAIN in text for text in (*found.verdict, *found.advice))
    allowed = answered(make_records(), plaintext=True)
    assert allowed.recommended == PLAIN
    assert allowed.tunnels[0].name == PLAIN
    assert allowed.tunnels[-1].tunnel.is_baseline


def test_a_tunnel_of_unknown_encryption_is_not_recommended() -> None:
    unproven = [replace(record, proof=None) for record in trials({"none": (3, 3), SEALED: (6.0, 6.4)})]
    found = answered(unproven)
    assert [tunnel.is_encrypted for tunnel in found.tunnels] == [False, None]
    assert found.recommended is None
    assert found.verdict == (NO_ENCRYPTED,)


def test_the_options_state_the_encryption_of_a_trial_without_proof() -> None:
    spec = make_spec(1, 1, OTHER)
    for cipher, expected in (("AES-128-GCM", True), ("none", False)):
        tunnel = replace(spec.tunnel, options={"cipher": cipher})
        (found,) = answered([make_trial(replace(spec, tunnel=tunnel))]).tunnels
        assert found.is_encrypted is expected


def test_tunnels_that_tie_are_too_close_to_call() -> None:
    found = answered(trials({"none": (3, 3), SEALED: (6.0, 6.4), OTHER: (6.2, 6.6)}))
    assert found.verdict[0] == (
        "Of the 2 encrypted tunnels, wireguard-go probably takes the least CPU; "
        "down, both differ by no more than their trials do."
    )
    assert [(each.is_best, each.too_close) for each in found.comparisons] == [(False, (OTHER,))]
    assert not any("times" in text for text in (*found.verdict, *found.advice))


def both_ways(down: dict[str, tuple[float, ...]], up: dict[str, tuple[float, ...]]) -> list[TrialRecord]:
    """Return the trials of both directions, given the costs of a packet in each [us]."""
    back = [
        replace(record, spec=replace(record.spec, sequence=50 + record.spec.sequence))
        for record in trials(up, Direction.OUT)
    ]
    return [*trials(down), *back]


def test_the_verdict_claims_only_the_direction_that_the_spreads_show() -> None:
    found = answered(both_ways({SEALED: (6.0, 6.4), OTHER: (6.2, 6.6)}, {SEALED: (6.0, 6.1), OTHER: (12.0, 12.1)}))
    assert found.verdict[0] == (
        "Of the 2 encrypted tunnels, wireguard-go takes the least CPU for traffic up; "
        "down, both differ by no more than their trials do."
    )
    assert found.verdict[-1] == "openvpn AES-128-GCM comes next: it takes 2.0 times as much CPU up."


def test_the_verdict_names_a_tunnel_that_is_better_in_one_direction() -> None:
    found = answered(both_ways({SEALED: (6.0, 6.4), OTHER: (4.0, 4.1)}, {SEALED: (6.0, 6.1), OTHER: (12.0, 12.1)}))
    assert found.verdict[0] == (
        "Of the 2 encrypted tunnels, wireguard-go takes the least CPU for traffic up; "
        "down, openvpn AES-128-GCM takes less."
    )
    assert [each.better for each in found.comparisons] == [(OTHER,), ()]


def test_the_verdict_says_where_a_direction_has_single_trials_only() -> None:
    found = answered(both_ways({SEALED: (6.0,), OTHER: (12.0, 12.1)}, {SEALED: (6.0, 6.1), OTHER: (12.0, 12.1)}))
    assert found.verdict[0] == (
        "Of the 2 encrypted tunnels, wireguard-go takes the least CPU for traffic up; "
        "down, one trial is too few to tell."
    )
    assert [(each.untested, each.too_close) for each in found.comparisons] == [((OTHER,), ()), ((), ())]


def test_single_trials_are_no_proof() -> None:
    found = answered(trials({SEALED: (6.0,), OTHER: (12.0,)}))
    assert found.verdict[0] == (
        "Of the 2 encrypted tunnels, wireguard-go takes the least CPU, but one trial each cannot prove it."
    )
    assert found.advice == ()


def small_packets(rates: dict[str, tuple[float, ...]], *, limited: str = "") -> list[TrialRecord]:
    """Return trials with small packets, given the throughput in Mbit/s; the testers limit those of one tunnel."""
    checks = (Check("tester-limited", Verdict.DOUBTFUL, "a tester was busy", rule=6),)
    return [
        make_trial(
            make_spec(100 + 10 * place + number, number, tunnel, 76, Direction.OUT),
            make_tcp(rate * 1e6, payload_bytes=76),
            proof=TunnelProof((), is_encrypted=True),
            checks=checks if tunnel == limited else (),
        )
        for place, (tunnel, own) in enumerate(rates.items())
        for number, rate in enumerate(own, start=1)
    ]


def test_advice_names_the_tunnel_that_carries_more_small_packets() -> None:
    large = trials({SEALED: (6.0, 6.4), OTHER: (6.2, 6.6)}, Direction.OUT)
    said = answered([*large, *small_packets({SEALED: (10, 11), OTHER: (20, 21)})]).advice
    assert said == (
        "openvpn AES-128-GCM carries the most small packets up: 33.7, wireguard-go 17.3 thousand packets/s.",
    )
    assert answered([*large, *small_packets({SEALED: (10, 20), OTHER: (19, 21)})]).advice == ()
    limited = answered([*large, *small_packets({SEALED: (10, 11), OTHER: (20, 21)}, limited=SEALED)])
    assert limited.advice == ()  # the testers limited the first, which may carry more


def test_doubts_of_nearly_all_figures_are_stated_once_in_words() -> None:
    steal = (Check("steal", Verdict.DOUBTFUL, "the hypervisor took up to 6% of a CPU", rule=14),)
    records = trials({SEALED: (6.0, 6.1), OTHER: (12.0, 12.1)})
    some = [replace(record, checks=steal) for record in records if record.spec.tunnel.name == SEALED]
    found = answered([*some, *(record for record in records if record.spec.tunnel.name == OTHER)])
    sentence = "1 of 2 figures of Mbit/s is doubtful: the hypervisor took CPU time (wireguard-go)."
    assert sentence in [each.text for each in found.warnings]
    assert not found.is_nearly_all_doubtful
    found = answered([replace(record, checks=steal) for record in records])
    assert found.verdict[1] == "2 of 2 figures of Mbit/s are doubtful: the hypervisor took CPU time (all)."
    assert found.is_nearly_all_doubtful
    assert not any("doubtful" in each.text for each in found.warnings)


def test_every_check_that_makes_a_figure_doubtful_has_words() -> None:
    text = (Path(__file__).parents[3] / "docs" / "methodology.md").read_text()
    rows = re.findall(r"^\| (`[^|]+) \| \d+\w? \| [^|]+ \| ([^|]+) \|$", text, re.MULTILINE)
    pairs = [(re.findall("`(.+?)`", checks), verdict.split("; ")) for checks, verdict in rows]
    each = [
        (name, verdicts[place] if len(checks) == len(verdicts) > 1 else " ".join(verdicts))
        for checks, verdicts in pairs
        for place, name in enumerate(checks)
    ]
    names = {name for name, verdict in each if re.search("doubtful|void", verdict)}
    assert "steal" in names
    assert sorted(names - CHECKS_IN_WORDS.keys()) == []


def test_one_encrypted_tunnel_alone_is_not_called_the_cheapest() -> None:
    found = answered(trials({"none": (3, 3), SEALED: (6.0, 6.4), PLAIN: (5, 5)}))
    assert found.verdict[0].startswith("wireguard-go is the only encrypted tunnel with figures.")


def test_the_cpu_share_is_the_cost_of_a_gigabit_at_100_mbps() -> None:
    found = answered(trials({"none": (3, 3), SEALED: (6.0, 6.0)})).tunnels[0].down
    # 100 Mbit/s are 8,633 data packets of 1448 bytes and half as many acknowledgements each second.
    assert found.cpu_share is not None
    assert found.cpu_share.median == pytest.approx(8633 * 1.5 * 6.0e-6, rel=1e-3)
    assert not found.is_cpu_measured


def test_the_kernel_is_not_named_where_it_was_measured_or_has_no_such_tunnel() -> None:
    several = trials({SEALED: (6.0, 6.1), OTHER: (12.0, 12.1)})
    in_kernel = [replace(record, spec=replace(record.spec, tunnel=make_tunnel("wireguard"))) for record in several[-2:]]
    assert answered(several).scope.endswith(IN_KERNEL)
    assert "kernel" not in answered([*several, *in_kernel]).scope
    assert "kernel" not in answered(trials({OTHER: (12.0, 12.1)})).scope


def test_the_command_for_the_kernel_names_a_plan_that_has_the_tunnel() -> None:
    several = trials({SEALED: (6.0, 6.1), OTHER: (12.0, 12.1)})
    unavailable = replace(several[-1], spec=replace(several[-1].spec, tunnel=make_tunnel("wireguard")))
    unavailable = replace(unavailable, outcome=Outcome.UNAVAILABLE, measurement=None)
    planned = answered([*several, unavailable], plan_name="udp", plan_text="")
    assert planned.scope.endswith("(tunnelbench run udp --on netns-debian).")
    assert not any("without figures" in each.text for each in planned.warnings)
    clients = answered([*several, unavailable], **CLIENTS)
    assert clients.scope.endswith("(tunnelbench run clients --on netns-road-warrior --set kernel=debian).")
    assert answered(several, plan_name="cost").scope.endswith(IN_KERNEL)
    elsewhere = answered(several, testbed_name="rack", testbed_text='kind = "ssh"\n', host_facts={}).scope
    assert elsewhere.endswith("Not measured: wireguard in the kernel.")


def test_what_was_not_measured_is_named() -> None:
    one_way = answered(trials({SEALED: (6.0, 6.1), OTHER: (12.0, 12.1)})).scope
    assert "Not measured: traffic up; the plan quick has that." in one_way
    udp = answered(make_udp_records()).scope
    assert udp.endswith("Not measured: traffic down and CPU time at 100 Mbit/s of TCP; the plan quick has that.")
    assert "traffic" not in answered(make_records()).scope
    void = [
        replace(record, checks=(Check("foreign-load", Verdict.VOID, "", 12),))
        for record in trials({SEALED: (6.0, 6.1), OTHER: (12.0, 12.1)})
    ]
    assert "CPU time at" not in answered([*make_udp_records(), *void]).scope  # the plan has it


def test_aes_instructions_are_named_where_aes_is_compared_with_another_cipher() -> None:
    def scope(instructions: str, *tunnels: str) -> str:
        spec = make_tunnel(OTHER)
        records = trials(dict.fromkeys(tunnels, (6.0, 6.1)))
        with_cipher = [
            replace(each, spec=replace(each.spec, tunnel=replace(spec, options={"cipher": "AES-128-GCM"})))
            if each.spec.tunnel.name == OTHER
            else each
            for each in records
        ]
        return answered(with_cipher, host_facts={"crypto_instructions": instructions}).scope

    assert AES_INSTRUCTIONS in scope("aes avx2", SEALED, OTHER)
    assert AES_INSTRUCTIONS not in scope("vaes avx2", SEALED, OTHER)
    assert AES_INSTRUCTIONS not in scope("aes avx2", OTHER)
    assert AES_INSTRUCTIONS not in scope("aes avx2", SEALED)


def test_down_is_server_to_client() -> None:
    found = answered(trials({"none": (3, 3), SEALED: (6.0, 6.0)}, Direction.IN)).tunnels[0]
    assert found.down.throughput_bps is not None
    assert found.up.throughput_bps is None


def test_rows_of_busy_testers_are_lower_bounds() -> None:
    found = {tunnel.name: tunnel for tunnel in answered(make_records()).tunnels}
    assert found[OTHER].down.is_lower_bound
    assert found[OTHER].up.is_small_lower_bound
    assert not found[SEALED].down.is_lower_bound


def test_a_target_is_answered_by_the_encrypted_tunnel_with_most_free_cpu() -> None:
    found = answered(make_records(), 100)
    assert found.verdict[0].startswith("Of the tunnels that carry 100 Mbit/s, wireguard-go leaves")
    assert answered(make_records(), 100, plaintext=True).recommended == PLAIN


def test_a_target_that_plaintext_alone_carries_is_not_answered_by_it() -> None:
    found = answered(make_records(), 500)
    assert found.verdict == ("No encrypted tunnel was shown to carry 500 Mbit/s in both directions.",)
    assert found.recommended is None


@pytest.mark.parametrize(
    ("options", "is_warned_of"),
    [
        ({"cipher": "BF-CBC", "auth": "none"}, True),
        ({"cipher": "BF-CBC", "auth": "SHA1"}, False),
        ({"cipher": "AES-128-GCM", "auth": "none"}, False),
        ({}, False),
    ],
)
def test_a_recommended_tunnel_without_a_digest_is_warned_of(options: dict[str, str], is_warned_of: bool) -> None:
    records = [
        replace(each, spec=replace(each.spec, tunnel=replace(each.spec.tunnel, options=options)))
        if each.spec.tunnel.name == SEALED
        else each
        for each in make_records()
    ]
    found = answered(records)
    warning = f"{SEALED} has no digest: an attacker can change its packets unnoticed."
    assert found.recommended == SEALED
    assert (found.verdict[1] == warning) is is_warned_of
    assert (warning in found.verdict) is is_warned_of


def test_at_most_four_warnings_each_have_a_command() -> None:
    found = answered(make_records()).warnings
    assert [warning.text for warning in found] == [
        "8 of 24 figures of Mbit/s and packets/s are lower bounds on 2 CPUs: client and server were the limit.",
        "Without figures: tinc BF-CBC, SHA-1 (refused).",
        "3 of 100 trials do not count: background load took CPU time (2) and the measurement failed (1).",
        "3 rounds cannot prove a small difference.",
    ]
    assert len(found) == MOST_WARNINGS
    assert [warning.command for warning in found] == [
        "tunnelbench run quick --on malta",
        "tunnelbench report 20250314-092653-quick --full",
        "tunnelbench report 20250314-092653-quick --full",
        "tunnelbench run quick --set rounds=8",
    ]


def every_answer() -> Iterator[Answer]:
    """Return answers with warnings of every kind, of runs that can be repeated and of others."""
    steal = (Check("steal", Verdict.DOUBTFUL, "the hypervisor took up to 6% of a CPU", rule=14),)
    load = (Check("foreign-load", Verdict.VOID, "other programs took 9% of a CPU", rule=14),)
    whole = make_records()
    first = [replace(record, checks=(*record.checks, *steal)) for record in whole[:5]]
    void = [replace(record, outcome=Outcome.VOID, checks=load) for record in whole[:5]]
    runs: list[dict[str, Any]] = [{}, {"status": IMPORTED}, {"plan_name": "mine.toml"}, {"testbed_name": "malta"}]
    for changes in runs:
        for records in (whole, whole[:40], [*first, *whole[5:]], [*void, *whole[5:]], make_udp_records()):
            yield answered(records, **changes)
    yield answered(with_late_clock(40), **AT_125_MIPS)


AT_125_MIPS: dict[str, Any] = {
    "testbed_name": "malta",
    "testbed_text": read_testbed("malta", KINDS).text,
    "host_facts": {"cpus": 2, "guest_speed_mips": 125.0},
}


def with_late_clock(count: int) -> list[TrialRecord]:
    """Return records of a virtual router whose clock was too late in the first `count` trials."""
    late = (Check("router-clock", Verdict.VOID, "the router's clock lost 20.0% of the time", rule=14),)
    records = make_records()
    return [*(replace(record, checks=late) for record in records[:count]), *records[count:]]


def test_each_warning_has_a_command_that_the_parser_accepts() -> None:
    warnings = {warning for found in every_answer() for warning in found.warnings}
    assert len({warning.text for warning in warnings}) > MOST_WARNINGS
    for warning in warnings:
        program, verb, *words = shlex.split(warning.command)
        assert program == "tunnelbench", warning
        parent = click.Context(cli.main, **cli.main.context_settings)
        context = cli.main.commands[verb].make_context(verb, words, parent)  # raises an error for what it does not know
        if context.params.get("plan"):
            assert context.params["plan"] in (*shipped_plans(), "mine.toml")
        if context.params.get("testbed"):
            assert context.params["testbed"] in shipped_testbeds()


def test_an_interrupted_run_is_resumed_next_and_an_imported_one_is_not() -> None:
    some = make_records()[:40]
    assert answered(some).next_commands[0].command == "tunnelbench run --resume 20250314-092653-quick"
    assert all("--resume" not in each.command for each in answered(some, status=IMPORTED).next_commands)


def test_commands_name_the_testbed() -> None:
    found = answered(make_records(), testbed_name="malta").warnings
    assert any("--on malta" in warning.command for warning in found)


def test_advice_has_the_largest_effect_first() -> None:
    assert answered(make_records()).advice == (
        "tinc AES-128-CBC, SHA-1 takes 1.3 times as much CPU down and up as wireguard-go.",
    )
    several = both_ways({SEALED: (6.0, 6.1), OTHER: (12.0, 12.1)}, {SEALED: (4.5, 4.6), OTHER: (12.0, 12.1)})
    assert answered(several).advice == (
        "openvpn AES-128-GCM takes 2.0 times as much CPU down and 2.6 times as much up as wireguard-go.",
        "wireguard-go takes 1.3 times as much CPU down as up.",
    )


def test_figures_of_a_machine_of_its_own_apply_to_it() -> None:
    sentence = "the figures are not those of a device."
    assert sentence in answered(make_records()).scope
    assert sentence not in answered(make_records(), testbed_text='kind = "ssh"\n', host_facts={}).scope


def test_udp_is_answered_by_the_pdr_of_the_smallest_packets() -> None:
    found = answered(make_udp_records())
    assert found.recommended == OTHER
    assert found.verdict == (
        "openvpn AES-128-GCM is the only encrypted tunnel with figures of UDP.",
        "With at most 0.5 % loss, openvpn AES-128-GCM carries 36.4 thousand packets/s up (UDP packets of 18 bytes).",
    )
    assert [each.name for each in found.udp] == [OTHER, "tinc BF-CBC, SHA-1", PLAIN, "none"]
    longer = found.udp[0].up.ndr_refutation
    assert longer is not None
    assert longer.loss_ratio > 0
    assert found.udp[0].up.pdr_refutation is None
    assert found.udp[1].reason


def test_a_soak_that_loses_more_refutes_the_rate_of_a_search() -> None:
    def soaked(pps: int) -> Answer:
        chunks = make_chunks([make_reading(second, pps - 9, 9, sent_packets=pps) for second in range(10)])
        soak = make_soak()
        spec = replace(soak.spec, payload_bytes=18)
        summary = summarise_soak(replace(soak, spec=spec, rate_pps=float(pps)), ((1, chunk) for chunk in chunks))
        return compose(make_run(), make_udp_records(), soaks=[SoakReport(soak, summary, lambda: ())]).answer

    refuted = soaked(1000)
    assert refuted.verdict[1] == (
        "openvpn AES-128-GCM carries less than 1.00 thousand packets/s up: a short search found 36.4 thousand "
        "packets/s, and a longer trial at 1.00 thousand packets/s lost 0.900 %."
    )
    assert refuted.udp[0].up.pdr_refutation == LongerTrial(1000.0, 0.009)
    for pps in (40_000, 10_000):  # above the rate of the search, or with less than 0.5 % loss
        assert soaked(pps).udp[0].up.pdr_refutation is None


def test_a_confirming_trial_of_a_sender_that_stalled_refutes_nothing() -> None:
    offered = Check("offered", Verdict.DOUBTFUL, "9 of 10 intended packets were offered", rule=7)
    records = make_udp_records()
    stalled = [
        replace(record, checks=(*record.checks, offered)) if record.spec.test is Test.SEARCH else record
        for record in records
    ]
    assert answered(records).udp[0].up.ndr_refutation is not None
    found = answered(stalled).udp[0].up
    assert found.ndr_refutation is None
    assert found.doubts == ("offered",)


def test_a_delay_of_the_baseline_above_that_of_a_tunnel_is_doubtful() -> None:
    def baseline(delay_ns: float, *, at_half_load: bool = True) -> UdpDirectionAnswer:
        changed = []
        for record in make_udp_records():
            udp, spec = record.udp, record.spec
            is_delay = spec.test is Test.LATENCY and spec.tunnel.is_baseline
            if is_delay and not at_half_load and spec.load == "50%":
                continue
            if is_delay and udp and udp.counts:
                counts = replace(udp.counts, delay=make_delays(delay_ns))
                record = replace(record, measurement=replace(udp, counts=counts))  # noqa: PLW2901
            changed.append(record)
        return answered(changed).udp[-1].up

    assert baseline(1e3).delay_doubts == ()
    assert baseline(1e9).delay_doubts == (BASELINE_DELAY,)
    assert baseline(1e9, at_half_load=False).delay_doubts == (BASELINE_DELAY,)


def test_the_rate_of_large_packets_is_stated_in_mbps_as_well() -> None:
    large = [replace(each, spec=replace(each.spec, payload_bytes=1400)) for each in make_udp_records()]
    assert (
        "carries 36.6 thousand packets/s, or 410 Mbit/s, up (UDP packets of 1400 bytes)." in answered(large).verdict[1]
    )


def test_a_doubtful_figure_of_a_rival_leaves_the_verdict_open() -> None:
    records = trials({"none": (3, 3), SEALED: (6.0, 6.1), OTHER: (12.0, 12.1), PLAIN: (4.0, 4.1)})
    steal = Check("steal", Verdict.DOUBTFUL, "the hypervisor took up to 6% of a CPU", rule=14)
    doubtful = [
        replace(record, checks=(*record.checks, steal)) if record.spec.tunnel.name == OTHER else record
        for record in records
    ]
    assert answered(doubtful).verdict[0] == (
        "Of the 2 encrypted tunnels, wireguard-go probably takes the least CPU; "
        "down, the figure of openvpn AES-128-GCM is doubtful."
    )


def test_ciphers_alone_are_answered_by_the_fastest() -> None:
    found = compose(make_run(), [], speeds=make_speeds()).answer
    assert found.verdict == ("aes-128-gcm is the fastest algorithm: 800 MB/s with blocks of 1420 bytes.",)


def test_a_run_in_which_nothing_counts_answers_nothing() -> None:
    void = [make_trial(make_spec(), outcome=Outcome.VOID, reason="the cable was cut")]
    for found in (answered(void), answered([])):
        assert found.verdict == (NO_TRIAL,)
        assert found.scope == ""


def test_a_second_run_that_helps_is_one_command() -> None:
    found = answered(make_records())
    commands = [each.command for each in found.next_commands]
    assert commands[0] == "tunnelbench run quick --on malta --set rounds=8"
    assert found.next_commands[0].aim == "find the router's own limit and to show small differences"
    assert found.next_commands[0].note == (
        "malta: a virtual router of fixed speed. Or your own: --router root@192.168.1.1"
    )
    assert len(set(commands)) == len(commands)
    assert commands[0] not in {warning.command for warning in found.warnings}


CLIENTS: dict[str, Any] = {
    "plan_name": "clients",
    "plan_text": load_plan("clients").text,
    "testbed_name": "netns-road-warrior",
    "testbed_text": read_testbed("netns-road-warrior", KINDS).text,
}


def test_a_router_that_is_a_server_has_a_virtual_router_that_is_one() -> None:
    (first, *_) = answered(make_records(), **CLIENTS).next_commands
    assert first.command == "tunnelbench run clients --on malta-road-warrior --set rounds=8"
    assert first.note == "malta-road-warrior: a virtual router of fixed speed."


@pytest.mark.parametrize("name", shipped_plans())
def test_the_advised_router_can_carry_out_the_plan(name: str) -> None:
    for testbed in (read_testbed(each, KINDS) for each in shipped_testbeds()):
        here = testbed.testbed
        if can_run(name, here):
            texts = {"plan_text": load_plan(name).text, "testbed_text": testbed.text}
            change = router_of(make_run(plan_name=name, testbed_name=here.name, **texts))
            option, where = change.options if change else ("--on", here.name)
            advised = TestbedSpec("router", "ssh") if option == "--router" else read_testbed(where, KINDS).testbed
            assert can_run(name, advised), f"{name} on {here.name}"


def can_run(plan: str, testbed: TestbedSpec) -> bool:
    with suppress(FileErrors):
        return bool(load_plan(plan, (), testbed))
    return False


@pytest.mark.parametrize(
    ("option", "elsewhere"),
    [
        ('line = "adsl"', None),
        ("bridged = true", None),
        ("cpus = [1, 2]", "--router"),
        ("window_bytes = 65536", "--router"),
    ],
)
def test_no_router_is_advised_that_cannot_do_what_the_plan_asks_for(option: str, elsewhere: str | None) -> None:
    plan = f'[[tunnel]]\nkind = "openvpn"\n{option}\n'
    commands = [each.command for each in answered(make_records(), plan_text=plan).next_commands]
    assert not any("--on malta" in each for each in commands)
    assert any("--router" in each for each in commands) is (elsewhere == "--router")
    assert any("rounds=8" in each for each in commands)


def test_no_virtual_router_is_advised_for_a_window_of_all_tunnels() -> None:
    (first, *_) = answered(make_records(), plan_text="rounds = 3\n[tcp]\nwindow_bytes = 65536\n").next_commands
    assert first.command.startswith("tunnelbench run quick --router root@192.168.1.1 ")


def with_set(plan: str, *texts: str, testbed: str = "netns") -> dict[str, Any]:
    """Return the fields of a run that `run PLAN --on TESTBED --set ...` stores."""
    sets = {kind: [text for text in texts if override_target(text) == kind] for kind in ("plan", "testbed")}
    where = read_testbed(testbed, KINDS, sets["testbed"])
    loaded = load_plan(plan, sets["plan"], where.testbed)
    return {"plan_name": plan, "plan_text": loaded.text, "testbed_name": testbed, "testbed_text": where.text}


def test_an_advised_run_has_the_values_of_set() -> None:
    found = answered(make_records(), **with_set("mtu", "link.mtu_bytes=1492", "udp.test=rate", "rounds=2"))
    assert found.next_commands[0].command == (
        "tunnelbench run mtu --on malta --set rounds=8 --set udp.test=rate --set link.mtu_bytes=1492"
    )
    lists = answered(make_records(), **with_set("quick", "tcp.payload_bytes=[1448]", "title=mine"))
    assert lists.next_commands[0].command.endswith("--set 'tcp.payload_bytes=[1448]'")


def test_a_plan_of_another_person_makes_no_endless_command() -> None:
    text = "rounds = 3\n'a b' = 1\n" + "".join(f"x{number} = 1\n" for number in range(1000))
    found = answered(make_records(), plan_text=text, status=IMPORTED)
    commands = [*(each.command for each in found.warnings), *(each.command for each in found.next_commands)]
    assert all(len(command) < 200 for command in commands)
    assert len({each.command for each in found.next_commands}) == len(found.next_commands)
    strange = answered(make_records(), plan_text="rounds = 3\n'a\tb' = 1\n").next_commands
    assert strange[0].command == "tunnelbench run quick --on malta --set rounds=8"


def test_a_topology_of_set_has_its_own_virtual_router() -> None:
    run = with_set("clients", "topology=road-warrior")
    found = answered(make_records(), **run)
    assert found.next_commands[0].command == "tunnelbench run clients --on malta-road-warrior --set rounds=8"
    here = {each.command for each in found.warnings}
    assert "tunnelbench run clients --set rounds=8 --set topology=road-warrior" in here


def test_doctor_is_not_advised_for_a_testbed_that_set_changed() -> None:
    lacking = replace(make_trial(make_spec()), outcome=Outcome.UNAVAILABLE, measurement=None)
    for texts, advised in (((), "doctor"), (("rounds=1",), "doctor"), (("link.mtu_bytes=1492",), "report")):
        (warning, *_) = answered([lacking], **with_set("quick", *texts), trials_planned=1).warnings
        assert warning.command.split()[1] == advised


def test_a_tunnel_that_a_virtual_router_lacks_has_its_reason_in_the_report() -> None:
    lacking = replace(make_trial(make_spec()), outcome=Outcome.UNAVAILABLE, measurement=None)
    facts = {"guest_board": "Malta, a MIPS board"}
    (warning, *_) = answered([lacking], **with_set("quick", testbed="malta"), host_facts=facts).warnings[1:]
    assert warning.text == "Without figures: none (unavailable)."
    assert warning.command.endswith(" --full")


def test_cables_of_set_that_no_virtual_router_has_are_not_left_out() -> None:
    found = answered(make_records(), **with_set("quick", "link.rate_out_mbps=100"))
    assert not any("malta" in each.command for each in found.next_commands)
    assert any("--set rounds=8 --set link.rate_out_mbps=100" in each.command for each in found.next_commands)


def test_a_machine_too_slow_for_its_virtual_router_is_pointed_to_a_slower_one() -> None:
    found = answered(with_late_clock(40), **AT_125_MIPS)
    slower = "tunnelbench run quick --on malta --set speed_mips=62.5"
    assert found.warnings[0].text == (
        "35 of 100 trials do not count: this machine was too slow for the router's speed (32),"
        " background load took CPU time (2) and the measurement failed (1)."
    )
    assert found.warnings[0].command == slower
    assert found.next_commands[0].command == slower
    assert found.next_commands[0].aim == "measure a slower router"


def test_few_late_trials_are_no_reason_for_a_slower_router() -> None:
    found = answered(with_late_clock(3), **AT_125_MIPS)
    assert any("too slow" in warning.text for warning in found.warnings[1:])
    assert all("speed_mips" not in warning.command for warning in found.warnings)
    assert all("speed_mips" not in each.command for each in found.next_commands)


def test_lower_bounds_on_a_shared_machine_point_to_the_virtual_router_of_fixed_speed() -> None:
    here, there = (answered(make_records(), testbed_name=name).next_commands[0].command for name in ("netns", "malta"))
    assert "--on malta" in here
    assert "--router root@192.168.1.1" in there


def on_lines(*lines: str) -> list[TrialRecord]:
    """Return trials of two tunnels on some lines; each tunnel on a line has a name of its own."""
    found = []
    for place, (kind, line) in enumerate(product(("wireguard-go", "openvpn AES-128-GCM"), lines), start=1):
        spec = make_spec(place, tunnel=kind)
        tunnel = replace(spec.tunnel, name=f"{kind}, {line}", options={**spec.tunnel.options, "line": line})
        proof = TunnelProof((), is_encrypted=True)
        found.append(make_trial(replace(spec, tunnel=tunnel), make_tcp(1e7 * place), proof=proof))
    return found


def test_tunnels_are_compared_on_one_line_and_not_at_a_rate_above_that_of_the_line() -> None:
    found = answered(on_lines("adsl", "gigabit"))
    assert found.verdict[0].startswith("On the line gigabit: Of the 2 encrypted tunnels, ")
    assert found.recommended is not None
    assert found.recommended.endswith("gigabit")
    shares = {each.name: each.up.cpu_share or each.down.cpu_share for each in found.tunnels}
    assert {name for name, share in shares.items() if share is None} == {name for name in shares if "adsl" in name}


def test_tunnels_on_slow_lines_alone_are_compared_at_a_rate_that_the_line_carries() -> None:
    found = answered(on_lines("adsl"))
    assert "encrypted tunnels" in found.verdict[0]
    assert {each.reference_mbps for each in found.tunnels} <= {1.0, 10.0}
