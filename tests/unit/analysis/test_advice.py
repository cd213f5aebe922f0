"""Advice of a run follows from its figures, one rule after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from tests.unit.builders import make_spec, make_tcp, make_trial

from tunnelbench.analysis.advice import advise, clock_mhz
from tunnelbench.analysis.limits import Limit, LimitFinding
from tunnelbench.analysis.summary import summarise
from tunnelbench.model.plan import Direction, OptionValue, TunnelSpec
from tunnelbench.model.result import TrialRecord

CBC: Mapping[str, OptionValue] = {"cipher": "AES-128-CBC", "auth": "SHA1"}
CLEAR: Mapping[str, OptionValue] = {"cipher": "none", "auth": "SHA1"}


def trials(
    name: str,
    cost: float,
    *,
    mbps: float = 200,
    direction: Direction = Direction.IN,
    options: Mapping[str, OptionValue] | None = None,
    program: bool = False,
    spread: float = 0.01,
    rounds: int = 3,
    payload: int = 1448,
) -> list[TrialRecord]:
    """Some rounds of one tunnel around a cost [s per million packets] and a throughput."""
    found: list[TrialRecord] = []
    for number in range(rounds):
        factor = 1 + spread * (number - 1)
        tcp = make_tcp(
            mbps * factor * 1e6,
            payload_bytes=payload,
            cpu_s_per_million_packets=cost * factor,
            daemon_cpu_s=1.0 if program else None,
        )
        spec = make_spec(len(found) + 1, number + 1, name, payload, direction)
        tunnel = TunnelSpec(name.split(maxsplit=1)[0], name, options or {})
        found.append(make_trial(replace(spec, tunnel=tunnel), tcp))
    return found


def advice(
    *records: list[TrialRecord],
    limit: Limit = Limit.ROUTER_CPU,
    target_mbps: float | None = None,
    cpu_mhz: float | None = None,
    is_shared: bool = False,
    allow_plaintext: bool = True,
) -> list[tuple[str, str]]:
    rows = summarise([record for each in records for record in each])
    limits: Sequence[Sequence[LimitFinding]] = [[LimitFinding(limit, "")] for _ in rows]
    said = advise(
        rows, limits, target_mbps=target_mbps, cpu_mhz=cpu_mhz, is_shared=is_shared, allow_plaintext=allow_plaintext
    )
    return [(each.rule, each.text) for each in said]


MEASURED = "200.0 Mbit/s measured, the router's CPU about 25.9% busy at the target"
MEASURED_WITH_TWO_CPUS = "200.0 Mbit/s measured, about 1.29 router CPUs busy at the target"


def test_a_tunnel_that_carried_more_than_the_target_will_do_with_its_headroom() -> None:
    """20 s per million packets are 20e-6 x 1.5 / (1448 x 8) s a bit: 2.59 s per gigabit, 25.9 % at 100 Mbit/s."""
    assert advice(trials("vxlan", 20), target_mbps=100) == [
        ("target", f"100 Mbit/s through vxlan: yes (only down was measured). down: {MEASURED}."),
        (
            "target",
            "Of the tunnels that carry 100 Mbit/s, vxlan leaves the router the most free CPU: about 74.1% of a CPU.",
        ),
    ]


def test_the_tunnel_that_leaves_most_is_named_and_the_worse_way_counts() -> None:
    said = advice(
        trials("vxlan", 20),
        trials("vxlan", 30, direction=Direction.OUT),
        trials("gre", 25),
        trials("gre", 25, direction=Direction.OUT),
        trials("none", 5),
        trials("none", 5, direction=Direction.OUT),
        target_mbps=100,
    )
    assert (
        said[3][1]
        == "Of the tunnels that carry 100 Mbit/s, gre leaves the router the most free CPU: about 67.6% of a CPU."
    )


def test_a_target_that_takes_more_than_one_cpu_states_the_number_of_cpus() -> None:
    """100 s per million packets are 12.95 s per gigabit: 1.3 CPUs at 100 Mbit/s, which a router with two may have."""
    assert [text for _, text in advice(trials("vxlan", 100), target_mbps=100)] == [
        f"100 Mbit/s through vxlan: yes (only down was measured). down: {MEASURED_WITH_TWO_CPUS}.",
        "Of the tunnels that carry 100 Mbit/s, vxlan takes the least CPU: 1.29 router CPUs.",
    ]


def test_a_tunnel_of_unknown_cost_carries_a_target_if_no_other_does() -> None:
    unknown = [
        replace(record, measurement=replace(record.tcp, mss_bytes=None)) for record in trials("vxlan", 10) if record.tcp
    ]
    text = "vxlan carries 100 Mbit/s. The router CPU that it takes for that is unknown."
    assert advice(unknown, target_mbps=100)[-1] == ("target", text)
    assert "gre leaves the router the most free CPU" in advice(unknown, trials("gre", 20), target_mbps=100)[-1][1]


def test_a_tunnel_with_an_idle_daemon_is_not_in_user_space() -> None:
    idle = [
        replace(record, measurement=replace(record.tcp, window=replace(record.tcp.window, daemon_cpu_s=0.0)))
        for record in trials("ipsec", 2)
        if record.tcp
    ]
    ((_, text),) = advice(idle, trials("tinc", 30, program=True))
    assert "through ipsec, the cheapest tunnel in the kernel" in text


@pytest.mark.parametrize("limit", [Limit.ROUTER_CPU, Limit.ONE_CORE, Limit.LINE])
def test_a_tunnel_that_was_full_below_the_target_will_not_do(limit: Limit) -> None:
    ((_, text),) = advice(trials("vxlan", 20), target_mbps=300, limit=limit)
    assert ": no (only down was measured)" in text
    assert f"200.0 Mbit/s measured, limited by the {limit}." in text


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        (Limit.TESTER, "limited by the tester"),
        (Limit.WINDOW, "limited by the window"),
        (Limit.UNKNOWN, "limit unknown"),
    ],
)
def test_where_the_router_was_not_the_limit_less_than_the_target_shows_nothing(limit: Limit, why: str) -> None:
    ((_, text),) = advice(trials("vxlan", 20), target_mbps=300, limit=limit)
    assert f"not shown (only down was measured). down: 200.0 Mbit/s measured, {why}" in text
    assert text.endswith("one fully busy CPU would carry 386.")


def test_a_target_inside_the_spread_is_not_shown() -> None:
    ((_, text),) = advice(trials("vxlan", 20, spread=0.1), target_mbps=205)
    assert "not shown" in text
    assert text.endswith("the target is inside the spread.")


def test_one_way_that_does_not_do_is_a_no() -> None:
    ((_, text),) = advice(trials("vxlan", 20), trials("vxlan", 20, mbps=50, direction=Direction.OUT), target_mbps=100)
    assert text.startswith("100 Mbit/s through vxlan: no. down: 200.0 Mbit/s measured")


def test_what_dropping_the_cipher_gives() -> None:
    said = advice(
        trials("openvpn cbc", 30, options=CBC, program=True), trials("openvpn clear", 20, options=CLEAR, program=True)
    )
    text = (
        "1448 bytes down: a packet through openvpn clear, which has no cipher, takes 33.3% less router CPU than "
        "through openvpn cbc."
    )
    assert said == [("cipher", text)]


def test_a_cipher_whose_cost_is_inside_the_spread_is_reported_so() -> None:
    ((_, text),) = advice(
        trials("openvpn cbc", 20.1, options=CBC, program=True), trials("openvpn clear", 20, options=CLEAR, program=True)
    )
    assert text.endswith("takes within the spread as much router CPU as through openvpn cbc.")


def test_tunnels_that_differ_in_more_than_the_cipher_say_nothing_of_it() -> None:
    other = {"cipher": "none", "auth": "none"}
    assert advice(trials("openvpn cbc", 30, options=CBC), trials("openvpn clear", 20, options=other)) == []
    assert advice(trials("openvpn cbc", 30, options=CBC), trials("tinc clear", 20, options=CLEAR)) == []


def test_kernel_against_program() -> None:
    ((rule, text),) = advice(
        trials("vxlan", 4), trials("gre", 2), trials("tinc", 30, program=True), trials("openvpn", 20, program=True)
    )
    assert rule == "kernel"
    assert text.startswith(
        "1448 bytes down: a packet through openvpn, the cheapest tunnel in user space, takes 10.0 times as much"
    )
    assert "through gre, the cheapest tunnel in the kernel. Ciphers are not considered." in text


def test_one_way_dearer_than_the_other_beyond_the_spread() -> None:
    both = [trials("vxlan", 30), trials("vxlan", 20, direction=Direction.OUT)]
    assert advice(*both) == [
        (
            "asymmetry",
            "vxlan, 1448 bytes: down takes 1.50 times as much router CPU per packet as up.",
        )
    ]
    assert advice(trials("vxlan", 20.1), trials("vxlan", 20, direction=Direction.OUT)) == []
    assert advice(trials("vxlan", 30, rounds=1), trials("vxlan", 20, direction=Direction.OUT, rounds=1)) == []


def test_advice_from_single_trials_states_that_there_is_no_spread() -> None:
    ((_, text),) = advice(trials("vxlan", 4, rounds=1), trials("tinc", 20, program=True, rounds=1))
    assert "takes 5.00 times as much router CPU" in text
    assert text.endswith("These are single trials, which have no spread.")


def test_clock_for_a_megabit() -> None:
    """2.59 s per gigabit at 535 MHz."""
    said = advice(trials("vxlan", 20), cpu_mhz=535)
    assert said == [("clock", "vxlan: 1.39 MHz (down) of this CPU for 1 Mbit/s.")]
    assert clock_mhz({"cpu_mhz": 535.0}) == 535
    assert clock_mhz({}) is None


def test_advice_from_a_shared_machine_does_not_apply_to_a_device() -> None:
    said = advice(trials("vxlan", 20), cpu_mhz=535, is_shared=True)
    assert said[-1][0] == "machine"
    assert "not to a device" in said[-1][1]
    assert advice(trials("vxlan", 20), is_shared=True) == []  # nothing was said that it could be about


def test_an_aead_cipher_is_compared_with_neither_cipher_nor_digest() -> None:
    aead = {"cipher": "AES-128-GCM", "auth": "SHA1"}
    nothing = {"cipher": "none", "auth": "none"}
    said = advice(
        trials("openvpn gcm", 10, options=aead),
        trials("openvpn digest alone", 20, options=CLEAR),
        trials("openvpn nothing", 5, options=nothing),
    )
    other = "openvpn nothing, which has neither cipher nor authentication,"
    text = f"1448 bytes down: a packet through {other} takes 50.0% less router CPU than through openvpn gcm."
    assert said == [("cipher", text)]


def test_a_target_that_was_reached_once_says_so() -> None:
    said = advice(trials("openvpn", 10, rounds=1), target_mbps=100)[0]
    assert "Mbit/s measured once" in said[1]


def test_plaintext_is_no_answer_to_a_target_unless_it_is_allowed() -> None:
    records = [trials("openvpn cbc", 30, options=CBC), trials("openvpn clear", 20, options=CLEAR), trials("vxlan", 4)]
    said = [text for rule, text in advice(*records, target_mbps=100, allow_plaintext=False) if rule == "target"]
    assert [text.split(":")[0] for text in said] == [
        "100 Mbit/s through openvpn cbc",
        "Of the tunnels that carry 100 Mbit/s, openvpn cbc leaves the router the most free CPU",
    ]
    (none,) = advice(trials("vxlan", 4), target_mbps=100, allow_plaintext=False)
    assert none == ("target", "100 Mbit/s through a tunnel: no encrypted tunnel has figures.")


def test_kernel_and_program_are_compared_among_encrypted_tunnels() -> None:
    records = [trials("vxlan", 4), trials("openvpn cbc", 20, program=True, options=CBC)]
    assert advice(*records, allow_plaintext=False) == []


def test_many_tunnels_of_the_same_options_give_one_sentence_each() -> None:
    sealed = [trials(f"openvpn {number}", 30, options=CBC) for number in range(12)]
    clear = [trials(f"openvpn clear {number}", 20, options=CLEAR) for number in range(12)]
    assert [rule for rule, _ in advice(*sealed, *clear)] == 12 * ["cipher"]
