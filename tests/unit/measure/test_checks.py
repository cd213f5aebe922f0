"""Each check of a trial, at its threshold and across it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.builders import make_spec, make_tcp

from tunnelbench.measure.checks import TrialContext, check_trial, checks_of_stored, kept_alive, sharing
from tunnelbench.measure.setup_checks import softirq
from tunnelbench.model.conditions import Compression
from tunnelbench.model.counters import CpuUsage, Ping
from tunnelbench.model.plan import Test
from tunnelbench.model.result import Check, Interval, Sender, TcpMeasurement, Verdict

OK, NOTE, DOUBTFUL, VOID = Verdict.OK, Verdict.NOTE, Verdict.DOUBTFUL, Verdict.VOID
CLEAN = make_tcp()
RULES = {
    "merged-frames": 1,
    "outer-protocol-in-trial": 3,
    "restart": 3,
    "rekeys": 3,
    "offloads": 1,
    "router-setup": 12,
    "path-setup": 9,
    "softirq": 12,
    "cpu-quota": 14,
    "fragments": 4,
    "drops": 9,
    "tester-limited": 6,
    "router-cpu": 12,
    "foreign-load": 12,
    "steal": 14,
    "payload": 15,
    "packet-rate": 16,
    "acks": 16,
    "sender": 7,
    "physical-limit": 17,
    "stalls": 8,
    "responsiveness": 22,
}


def checks(tcp: TcpMeasurement, rules: dict[str, int] = RULES, **circumstances: Any) -> dict[str, Check]:
    usual: dict[str, Any] = {
        "outer": "udp port 1194",
        "exact_outer_packets": True,
        "foreign": {},
    }
    testers_bps = circumstances.pop("testers_bps", None)
    found = check_trial(make_spec(), tcp, TrialContext(10.0, **{**usual, **circumstances}), testers_bps)
    assert {check.name: check.rule for check in found} == rules
    return {check.name: check for check in found}


def counted(**changes: int) -> TcpMeasurement:
    """A clean trial with some of its counters changed by so much."""
    counters = CLEAN.counters
    return replace(
        CLEAN,
        counters=replace(
            counters, **{name: (getattr(counters, name) or 0) + change for name, change in changes.items()}
        ),
    )


def stored_check(name: str, tcp: TcpMeasurement, *, compresses: bool = False, **options: int | str) -> Check:
    """Return one check of a trial through a tunnel with these options."""
    spec = make_spec()
    spec = replace(spec, tunnel=replace(spec.tunnel, options=options))
    (found,) = (check for check in checks_of_stored(spec, tcp, compresses=compresses) if check.name == name)
    return found


def test_a_tunnel_that_began_anew_makes_a_trial_void() -> None:
    check = checks(CLEAN, restart="openvpn on the router: SIGUSR1[soft] received, process restarting\x1b")["restart"]
    assert check.verdict is VOID
    assert check.reason.endswith("process restarting\\x1b")


def test_a_change_of_keys_is_noted_with_the_daemons_line() -> None:
    check = checks(CLEAN, rekeys=["openvpn on the router: Control Channel: TLSv1.3"])["rekeys"]
    assert check.verdict is NOTE
    assert check.reason.endswith("1 time during the trial; first: openvpn on the router: Control Channel: TLSv1.3")


@pytest.mark.parametrize(
    ("names", "verdict"),
    [(["tx-checksum-ip-generic"], DOUBTFUL), (["tx-checksum-ip-generic", "tcp-segmentation-offload"], VOID)],
)
def test_an_offload_that_is_on_after_the_trial_is_named(names: list[str], verdict: Verdict) -> None:
    check = checks(CLEAN, late_offloads={"wan on the server": names})["offloads"]
    assert (check.verdict, check.reason) == (verdict, f"on after the trial: {', '.join(names)} of wan on the server")


@pytest.mark.parametrize(
    ("late", "verdict", "reason"),
    [
        ({"misplaced": ["openvpn on the router may run on CPU 0"], "late_rules": 3}, VOID, "may run on CPU 0"),
        (
            {"late_rules": 3},
            DOUBTFUL,
            "a packet filter of 3 lines, which costs CPU time for each packet",
        ),
    ],
)
def test_a_router_that_is_not_as_it_was_set_up_is_found(late: dict[str, Any], verdict: Verdict, reason: str) -> None:
    check = checks(CLEAN, **late)["router-setup"]
    assert (check.verdict, check.reason.endswith(reason)) == (verdict, True), check


@pytest.mark.parametrize(("stopped_s", "verdict"), [(0.09, OK), (0.11, DOUBTFUL)])
def test_a_quota_that_stops_the_programs_of_the_run_is_doubtful(stopped_s: float, verdict: Verdict) -> None:
    assert checks(CLEAN, throttled_s=stopped_s)["cpu-quota"].verdict is verdict


@pytest.mark.parametrize(
    ("processed", "verdict"),
    [(None, OK), ((100_000, 100_000), OK), ((103_900, 100_000), OK), ((104_100, 100_000), DOUBTFUL)],
)
def test_packets_of_other_networks_on_the_routers_cpu_are_doubtful(
    processed: tuple[int, int] | None, verdict: Verdict
) -> None:
    assert softirq(processed, 2.0).verdict is verdict  # 2 % of 100,000 packets, and 1,000/s for 2 s


def test_what_a_tunnels_device_counts_beside_the_packet_is_no_merged_frame() -> None:
    larger = counted(data_bytes=CLEAN.counters.data_packets * 30)
    assert checks(larger)["merged-frames"].verdict is VOID
    assert checks(larger, counted_bytes=lambda packet: packet + 14 + 30)["merged-frames"].verdict is Verdict.OK
    twice = counted(data_bytes=CLEAN.counters.data_bytes)
    assert checks(twice, counted_bytes=lambda packet: packet + 14 + 30)["merged-frames"].verdict is VOID


def test_unanswered_keep_alives_are_noted_only_where_a_tunnel_has_keep_alives() -> None:
    (lost,) = kept_alive((True, False, True))
    assert (lost.verdict, lost.rule) == (Verdict.NOTE, 22)
    assert lost.reason == "the tunnel's other end answered 2 of 3 keep-alives"
    (kept,) = kept_alive((True, True))
    assert kept.verdict is Verdict.OK
    assert kept_alive(()) == ()


def test_a_trial_of_a_tunnel_with_keep_alives_reports_them() -> None:
    keep_alives = {"keep-alives": 22}
    assert checks(CLEAN, RULES | keep_alives, keep_alives=(True,))["keep-alives"].verdict is Verdict.OK


def test_a_clean_trial_passes_every_check() -> None:
    found = checks(CLEAN)
    assert {name: check.verdict for name, check in found.items()} == dict.fromkeys(RULES, OK)
    assert all(check.reason for check in found.values())


# rule 1

PACKETS = CLEAN.counters.data_packets
CARRIED = CLEAN.carried_packets
SEGMENT_BYTES = 1448 + 52 + 14


@pytest.mark.parametrize(("mean_bytes", "verdict"), [(SEGMENT_BYTES * 1.009, OK), (SEGMENT_BYTES * 1.011, VOID)])
def test_frames_larger_than_a_segment_are_merged_ones(mean_bytes: float, verdict: Verdict) -> None:
    tcp = counted(data_bytes=round(PACKETS * mean_bytes) - CLEAN.counters.data_bytes)
    check = checks(tcp)["merged-frames"]
    assert check.verdict is verdict
    assert f"frames of {mean_bytes:.0f} bytes on average where one segment makes 1514" in check.reason


def test_a_short_trial_may_have_frames_of_the_control_connection_next_to_it() -> None:
    few = make_tcp(payload_bytes=76)
    few = replace(few, counters=replace(few.counters, data_packets=2000, data_bytes=2000 * (76 + 52 + 14)))
    for other_bytes, verdict in ((19_000, OK), (24_000, VOID)):
        counters = replace(few.counters, data_bytes=few.counters.data_bytes + other_bytes, forwarded_packets=10**7)
        assert checks(replace(few, counters=counters))["merged-frames"].verdict is verdict


def test_frames_are_held_against_the_segments_of_the_trial() -> None:
    small = make_tcp(payload_bytes=76)
    assert checks(small)["merged-frames"].verdict is OK
    two_in_one = replace(small.counters, data_packets=small.counters.data_packets // 2)
    assert checks(replace(small, counters=two_in_one))["merged-frames"].verdict is VOID


def test_without_a_segment_size_frames_are_held_against_ethernets_largest() -> None:
    assert checks(replace(CLEAN, mss_bytes=None))["merged-frames"].verdict is OK
    large = counted(data_bytes=PACKETS * 1540 - CLEAN.counters.data_bytes)
    assert checks(replace(large, mss_bytes=None))["merged-frames"].verdict is VOID


@pytest.mark.parametrize(
    ("missing", "verdict"), [(CARRIED // 100 + 60, OK), (CARRIED // 100 + 61, VOID), (-CARRIED // 100, OK)]
)
@pytest.mark.parametrize("cut", [0, 5000])
def test_a_router_that_forwards_fewer_packets_than_arrive_has_merged_them(
    missing: int, verdict: Verdict, cut: int
) -> None:
    tcp = counted(forwarded_packets=-missing - cut)
    check = checks(tcp, cut_by_router_packets=cut)["merged-frames"]
    assert check.verdict is verdict
    said = f"router forwarded {CARRIED - missing - cut} packets{', made 5000 more by cutting them' * bool(cut)}, "
    assert f"{said}{CARRIED} arrived" in check.reason


def test_a_trial_without_packets_is_void() -> None:
    check = checks(counted(data_packets=-PACKETS))["merged-frames"]
    assert (check.verdict, check.reason) == (VOID, "no data packets were counted")


# rule 3

EXPECTED_BYTES = CLEAN.counters.outer_expected_bytes


def allowed_astray_bytes() -> int:
    """The most that may be beside the tunnel: 1 % of all, and what control connections send."""
    return int((EXPECTED_BYTES * 0.01 + 20_000) / 0.99)


@pytest.mark.parametrize(("more", "verdict"), [(0, OK), (2, VOID)])
def test_data_beside_the_tunnel_make_a_trial_void(more: int, verdict: Verdict) -> None:
    astray = allowed_astray_bytes() + more
    check = checks(counted(outer_other_bytes=astray, outer_other_packets=9))["outer-protocol-in-trial"]
    assert check.verdict is verdict
    total = EXPECTED_BYTES + astray
    assert check.reason.startswith(f"{EXPECTED_BYTES} of {total} bytes on the WAN were udp port 1194")


@pytest.mark.parametrize(("share", "verdict"), [(0.981, OK), (0.979, VOID)])
def test_a_tunnel_that_carried_less_than_arrived_makes_a_trial_void(share: float, verdict: Verdict) -> None:
    tcp = counted(outer_expected_bytes=round(CLEAN.bytes_received * share) - EXPECTED_BYTES)
    assert checks(tcp)["outer-protocol-in-trial"].verdict is verdict


def test_data_that_may_have_shrunk_are_held_to_their_packets() -> None:
    tcp = counted(outer_expected_bytes=round(CLEAN.bytes_received * 0.1) - EXPECTED_BYTES)
    assert checks(tcp, compression=Compression())["outer-protocol-in-trial"].verdict is OK
    few = replace(tcp, counters=replace(tcp.counters, wan_packets=round(CARRIED * 0.979)))
    assert checks(few, compression=Compression())["outer-protocol-in-trial"].verdict is VOID


@pytest.mark.parametrize(
    ("share", "longest_bytes", "verdict"), [(0.979, 99, OK), (0.981, 99, VOID), (1.1, 99, VOID), (1.1, 1500, OK)]
)
def test_data_that_must_have_shrunk_took_fewer_bytes_than_without_compression(
    share: float, longest_bytes: int, verdict: Verdict
) -> None:
    outer = Compression(lambda inner_bytes: inner_bytes + 50, longest_bytes)
    counters = CLEAN.counters
    inner_bytes = counters.data_bytes // counters.data_packets - 14
    uncompressed_bytes = counters.data_packets * (inner_bytes + 50) + counters.ack_packets * (40 + 50)
    tcp = counted(outer_expected_bytes=round(uncompressed_bytes * share) - EXPECTED_BYTES)
    check = checks(tcp, compression=outer)["outer-protocol-in-trial"]
    assert check.verdict is verdict
    assert (f"and its packets take {uncompressed_bytes} without compression" in check.reason) == (verdict is VOID)


def test_short_packets_need_not_shrink() -> None:
    counters = CLEAN.counters
    for inner_bytes, verdict in ((127, OK), (128, VOID)):
        tcp = counted(data_bytes=counters.data_packets * (inner_bytes + 14) - counters.data_bytes)
        found = checks(tcp, compression=Compression(lambda inner: inner))
        assert found["outer-protocol-in-trial"].verdict is verdict


@pytest.mark.parametrize(
    ("compresses", "options", "verdict"),
    [
        (True, {"content": "random"}, VOID),
        (True, {"content": "repeating"}, OK),
        (True, {"write_bytes": 9000}, VOID),
        (True, {"write_bytes": 8999}, OK),
        (False, {"content": "repeating"}, VOID),
        (False, {"write_bytes": 1000}, VOID),
    ],
)
def test_stored_data_may_have_shrunk_only_if_they_could(
    compresses: bool, options: dict[str, int | str], verdict: Verdict
) -> None:
    tcp = counted(outer_expected_bytes=round(CLEAN.bytes_received * 0.1) - EXPECTED_BYTES)
    found = stored_check("outer-protocol-in-trial", tcp, compresses=compresses, **options)
    assert found.verdict is verdict


@pytest.mark.parametrize(("share", "exact", "verdict"), [(0.981, True, OK), (0.979, True, VOID), (0.1, False, OK)])
def test_fewer_outer_packets_than_inner_ones_are_for_streams_only(share: float, exact: bool, verdict: Verdict) -> None:
    tcp = counted(wan_packets=round(CARRIED * share) - CLEAN.counters.wan_packets)
    check = checks(tcp, exact_outer_packets=exact)["outer-protocol-in-trial"]
    assert check.verdict is verdict
    if verdict is VOID:
        assert check.reason.endswith(f"({round(CARRIED * share)} frames for {CARRIED} inner packets)")


@pytest.mark.parametrize(("more", "verdict"), [(0, OK), (2, VOID)])
def test_small_packets_outside_the_tunnel_are_counted_as_packets(more: int, verdict: Verdict) -> None:
    other = int((CARRIED * 0.001 + 60) / (1 - 0.001)) + more
    check = checks(counted(outer_other_packets=other))["outer-protocol-in-trial"]
    assert check.verdict is verdict
    assert (f"and {other} of {CARRIED + other} packets were not" in check.reason) is (verdict is VOID)


# rule 4


def test_fragments_inside_and_outside_the_tunnel_are_named() -> None:
    check = checks(counted(fragments_created=400, reassembled=200, inner_fragments=100, outer_fragments=300))[
        "fragments"
    ]
    assert check.reason.startswith(
        "400 fragments made, 200 packets put together again; 100 fragments arrived inside the tunnel and 300 outside"
    )


def test_fragments_that_are_all_inside_the_tunnel_are_not_blamed_on_a_large_mtu() -> None:
    made = {"fragments_created": CARRIED, "reassembled": CARRIED // 2}
    inside = checks(counted(**made, inner_fragments=CARRIED, outer_fragments=0))["fragments"]
    assert inside.verdict is NOTE
    assert inside.reason.endswith("; a larger tunnel MTU or smaller packets would spare the sender this")
    outside = checks(counted(**made, inner_fragments=0, outer_fragments=CARRIED))["fragments"]
    assert outside.reason.endswith("; a smaller tunnel MTU or mssfix would spare the router this")


def test_fragments_of_unknown_place_get_no_advice() -> None:
    tcp = counted(fragments_created=CARRIED, reassembled=CARRIED // 2, inner_fragments=400)
    check = checks(tcp)["fragments"]
    assert check.verdict is NOTE
    assert check.reason.endswith("; 400 fragments arrived inside the tunnel and an unknown number outside")


def test_the_baseline_is_not_advised_to_change_a_tunnel() -> None:
    tcp = counted(fragments_created=CARRIED, reassembled=1, inner_fragments=CARRIED, outer_fragments=0)
    assert checks(tcp, has_tunnel=False)["fragments"].reason == (
        f"{CARRIED} fragments made, 1 packets put together again; {CARRIED} fragments arrived; smaller packets would "
        "spare the sender this"
    )


@pytest.mark.parametrize("name", ["fragments_created", "reassembled"])
@pytest.mark.parametrize(("more", "verdict"), [(0, OK), (1, NOTE)])
def test_fragments_are_noted_with_what_would_spare_them(name: str, more: int, verdict: Verdict) -> None:
    check = checks(counted(**{name: CARRIED // 1000 + more}, outer_fragments=1))["fragments"]
    assert check.verdict is verdict
    assert ("mssfix" in check.reason) is (verdict is NOTE)


# rule 9


@pytest.mark.parametrize(("dropped", "verdict"), [(0, OK), (CARRIED // 100, OK), (CARRIED // 100 + 1, NOTE)])
def test_drops_on_the_path_are_noted_above_one_in_a_hundred(dropped: int, verdict: Verdict) -> None:
    check = checks(counted(dropped_packets=dropped))["drops"]
    assert check.verdict is verdict
    assert check.reason == f"the path's devices dropped {dropped} of {CARRIED + dropped} packets"


# rule 6


@pytest.mark.parametrize(("share", "verdict"), [(0.9499, OK), (0.95, DOUBTFUL), (1.0, DOUBTFUL)])
def test_a_tester_without_a_cpu_to_spare_was_the_limit(share: float, verdict: Verdict) -> None:
    tcp = replace(CLEAN, window=replace(CLEAN.window, busiest_tester_share=share))
    check = checks(tcp)["tester-limited"]
    assert check.verdict is verdict
    assert f"a tester's CPU was {share:.0%} busy" in check.reason
    assert check.reason.endswith("the testers were the limit") is (verdict is DOUBTFUL)


@pytest.mark.parametrize(("reached", "verdict"), [(0.899, OK), (0.901, DOUBTFUL)])
def test_a_figure_that_the_testers_hardly_exceed_back_to_back_is_theirs(reached: float, verdict: Verdict) -> None:
    check = checks(CLEAN, testers_bps=CLEAN.throughput_bps / reached)["tester-limited"]
    assert check.verdict is verdict
    assert f"{reached:.0%} of the throughput of the testers without a router" in check.reason


@pytest.mark.parametrize(("share", "router_idle_s", "verdict"), [(0.49, 4, OK), (0.5, 4, DOUBTFUL), (0.9, 0, OK)])
@pytest.mark.parametrize("buffer", ["receiver_window_s", "send_buffer_s"])
def test_a_socket_buffer_of_a_tester_was_the_limit_unless_the_router_was_full(
    buffer: str, share: float, router_idle_s: float, verdict: Verdict
) -> None:
    sender = replace(Sender(busy_s=5.0, receiver_window_s=0.0, send_buffer_s=0.0, rtt_ms=0.4), **{buffer: 5.0 * share})
    router = replace(CLEAN.window.router_cpu, idle_s=router_idle_s)
    window = replace(CLEAN.window, router_cpu=router, router_by_cpu=(router,))
    check = checks(replace(CLEAN, sender=sender, window=window))["tester-limited"]
    assert check.verdict is verdict, check.reason
    assert ("limited the sender" in check.reason) is (verdict is DOUBTFUL)


def test_a_buffer_that_the_plan_sets_is_no_fault_of_the_testers() -> None:
    sender = Sender(busy_s=5.0, receiver_window_s=4.5, send_buffer_s=0.0, rtt_ms=0.4)
    router = replace(CLEAN.window.router_cpu, idle_s=4)
    tcp = replace(CLEAN, sender=sender, window=replace(CLEAN.window, router_cpu=router, router_by_cpu=(router,)))
    found = stored_check("tester-limited", tcp), stored_check("tester-limited", tcp, window_bytes=65_536)
    assert [check.verdict for check in found] == [DOUBTFUL, OK]
    limited = "the receiver's window limited the sender 90% of the time"
    assert found[0].reason.endswith(f"{limited}: the testers were the limit")
    assert found[1].reason.endswith(f"{limited}, as the plan has window_bytes = 65536")


# rule 12


def test_a_router_that_shares_its_cpu_is_doubtful() -> None:
    assert checks(CLEAN, router_cpu_doubt="router and testers share one CPU")["router-cpu"].verdict is DOUBTFUL


@pytest.mark.parametrize(("share", "verdict"), [(0.05, OK), (0.0501, VOID)])
def test_foreign_load_above_a_twentieth_of_a_cpu_makes_a_trial_void(share: float, verdict: Verdict) -> None:
    tcp = replace(CLEAN, bracket_s=10.0, foreign_cpu_s=share * 10)
    foreign = {"cron": 0.01, "cc1": 0.3, "backup": 0.12, "sshd": 0.02}
    check = checks(tcp, foreign=foreign)["foreign-load"]
    assert check.verdict is verdict
    assert check.reason == f"other processes took {share:.1%} of a CPU (cc1 0.30 s, backup 0.12 s, sshd 0.02 s)"


def test_without_foreign_load_nobody_is_named() -> None:
    check = checks(replace(CLEAN, foreign_cpu_s=0.0))["foreign-load"]
    assert check.reason == "other processes took 0.0% of a CPU"


# rule 14


def with_steal(router_s: float, tester_s: float) -> TcpMeasurement:
    router = CpuUsage((1,), 10.0, 5.0, 1.0, 1.0, 1.0, router_s)
    testers = CpuUsage((0, 2), 10.0, 5.0, 1.0, 1.0, 1.0, tester_s)
    return replace(CLEAN, window=replace(CLEAN.window, router_cpu=router, tester_cpu=testers))


@pytest.mark.parametrize(
    ("router_s", "tester_s", "verdict"),
    [
        (0.0, 0.0, OK),
        (0.1, 0.2, OK),
        (0.11, 0.0, NOTE),
        (0.0, 0.21, NOTE),
        (0.5, 1.0, NOTE),
        (0.51, 0.0, DOUBTFUL),
        (0.0, 1.01, DOUBTFUL),
    ],
)
def test_time_that_the_hypervisor_took_is_noted_and_above_a_twentieth_doubtful(
    router_s: float, tester_s: float, verdict: Verdict
) -> None:
    assert checks(with_steal(router_s, tester_s))["steal"].verdict is verdict


# rules 15 and 16


@pytest.mark.parametrize(("mss_bytes", "verdict"), [(1448, OK), (1368, NOTE), (1449, NOTE), (None, DOUBTFUL)])
def test_segments_that_carried_something_else_than_asked_for_are_noted(mss_bytes: int | None, verdict: Verdict) -> None:
    check = checks(replace(CLEAN, mss_bytes=mss_bytes))["payload"]
    assert check.verdict is verdict
    if verdict is NOTE:
        assert check.reason == f"the plan asks for segments of 1448 bytes of payload; the kernel used {mss_bytes}"


LOWEST = CLEAN.bytes_received / 1448
HIGHEST = CLEAN.bytes_sent / 1448 + (CLEAN.retransmits or 0)


@pytest.mark.parametrize(
    ("data_packets", "verdict"),
    [
        (LOWEST * 0.979, DOUBTFUL),
        (LOWEST * 0.981, OK),
        (LOWEST, OK),
        (HIGHEST, OK),
        (HIGHEST * 1.02 + 59, OK),
        (HIGHEST * 1.02 + 61, DOUBTFUL),
    ],
)
def test_counted_packets_agree_with_those_that_the_payload_takes(data_packets: float, verdict: Verdict) -> None:
    tcp = counted(data_packets=round(data_packets) - PACKETS)
    check = checks(tcp)["packet-rate"]
    assert check.verdict is verdict
    assert check.reason == (
        f"{round(data_packets)} data packets counted; the payload needs at least {LOWEST:.0f} "
        f"(ratio {round(data_packets) / LOWEST:.3f})"
    )


@pytest.mark.parametrize(
    "tcp", [replace(CLEAN, mss_bytes=None), replace(CLEAN, mss_bytes=0), replace(CLEAN, bytes_received=0)]
)
def test_without_throughput_there_is_nothing_to_compare_packets_with(tcp: TcpMeasurement) -> None:
    assert checks(tcp)["packet-rate"].verdict is DOUBTFUL


def test_a_receiver_that_counts_more_than_was_sent_is_believed() -> None:
    assert checks(replace(CLEAN, bytes_sent=0, retransmits=None))["packet-rate"].verdict is OK


@pytest.mark.parametrize(("more", "verdict"), [(0.1, OK), (0.25, DOUBTFUL)])
def test_writes_that_do_not_fill_their_last_segment_make_more_packets(more: float, verdict: Verdict) -> None:
    tcp = counted(data_packets=round(CLEAN.counters.data_packets * more))
    assert stored_check("packet-rate", tcp, write_bytes=8192).verdict is verdict
    assert stored_check("packet-rate", tcp).verdict is DOUBTFUL


@pytest.mark.parametrize(("acks", "verdict"), [(PACKETS // 1000 + 1, OK), (PACKETS // 1000 - 1, VOID), (0, VOID)])
def test_data_without_acks_on_the_path_are_void(acks: int, verdict: Verdict) -> None:
    check = checks(counted(ack_packets=acks - CLEAN.counters.ack_packets, forwarded_packets=PACKETS))["acks"]
    assert check.verdict is verdict
    assert check.reason.startswith(f"{acks} ACKs came back through the path for {PACKETS} data packets")


# rule 7


@pytest.mark.parametrize(("busy_s", "verdict"), [(4.9, OK), (1.01, OK), (0.99, DOUBTFUL), (0.1, DOUBTFUL)])
def test_a_sender_that_mostly_has_no_data_in_flight_is_doubtful(busy_s: float, verdict: Verdict) -> None:
    check = checks(replace(CLEAN, sender=Sender(busy_s, 0.0, 0.0, 1.0)))["sender"]
    assert check.verdict is verdict
    assert ("application-limited" in check.reason) is (verdict is DOUBTFUL)


# rule 17


@pytest.mark.parametrize(("share", "verdict"), [(0.3, OK), (1.0, OK), (1.0049, OK), (1.0051, DOUBTFUL)])
def test_more_than_the_link_can_carry_is_doubtful(share: float, verdict: Verdict) -> None:
    tcp = replace(CLEAN, physical_limit_bps=CLEAN.throughput_bps / share)
    check = checks(tcp)["physical-limit"]
    assert check.verdict is verdict
    assert check.reason.startswith(f"{share:.1%} of the {CLEAN.throughput_bps / share / 1e6:.2f} Mbit/s")


def test_a_link_without_a_rate_has_no_limit() -> None:
    assert checks(CLEAN)["physical-limit"].reason == "the link has no rate limit"


# rule 8


def series(*readings: tuple[float, float, int]) -> TcpMeasurement:
    return replace(CLEAN, intervals=tuple(Interval(start, end, count, None) for start, end, count in readings))


def test_an_interval_in_which_nothing_arrived_is_doubtful() -> None:
    check = checks(series((0, 1, 500), (1, 2, 0), (2, 2.5, 0), (2.5, 3, 1)))["stalls"]
    assert (check.verdict, check.reason) == (DOUBTFUL, "nothing arrived for 1.5 s in all")


def test_a_byte_in_every_interval_is_no_stall() -> None:
    assert checks(series((0, 1, 1), (1, 2, 1)))["stalls"].verdict is OK


@pytest.mark.parametrize(("length_s", "verdict"), [(0.0013, OK), (0.049, OK), (0.051, DOUBTFUL)])
def test_the_last_milliseconds_of_a_series_are_too_short_to_be_a_stall(length_s: float, verdict: Verdict) -> None:
    assert checks(series((0, 1, 1), (1, 2, 1), (2, 2 + length_s, 0)))["stalls"].verdict is verdict


@pytest.mark.parametrize(("least", "verdict"), [(51, OK), (49, DOUBTFUL)])
def test_an_interval_below_half_the_median_is_doubtful(least: int, verdict: Verdict) -> None:
    check = checks(series((0, 1, 5), (1, 2, 100), (2, 3, least), (3, 4, 100), (4, 4.001, 0)))["stalls"]
    assert check.verdict is verdict
    if verdict is DOUBTFUL:
        assert check.reason == "an interval carried 49% of the median of all"


def test_two_intervals_after_the_first_have_no_median_to_compare_with() -> None:
    assert checks(series((0, 1, 100), (1, 2, 10), (2, 3, 100)))["stalls"].verdict is OK


# rule 22


@pytest.mark.parametrize(
    ("ping", "verdict", "words"),
    [
        (Ping(100, 100, 2.5), OK, "answered 100 of 100 pings, worst 2.5 ms"),
        (Ping(100, 99, 812.0), NOTE, "answered 99 of 100 pings, worst 812 ms"),
        (Ping(100, 0, None), NOTE, "answered 0 of 100 pings, worst none came back"),
        (Ping(0, 0, None), NOTE, "ping gave no summary"),
    ],
)
def test_a_router_that_leaves_pings_unanswered_is_noted(ping: Ping, verdict: Verdict, words: str) -> None:
    check = checks(replace(CLEAN, ping=ping))["responsiveness"]
    assert check.verdict is verdict
    assert words in check.reason


# the testers alone


def test_testers_back_to_back_are_not_blamed_for_being_the_limit() -> None:
    alone = replace(
        CLEAN,
        counters=replace(CLEAN.counters, forwarded_packets=0, outer_expected_packets=0, outer_expected_bytes=0),
        window=replace(CLEAN.window, busiest_tester_share=1.0),
    )
    found = check_trial(make_spec(), alone, TrialContext(10.0, {}, is_calibration=True))
    assert {check.name for check in found} == {
        "foreign-load",
        "steal",
        "payload",
        "packet-rate",
        "acks",
        "stalls",
        "sender",
    }
    assert {check.verdict for check in found} == {OK}


@pytest.mark.parametrize(("acks", "verdict"), [(0.0009, OK), (0.00005, VOID)])
def test_testers_back_to_back_need_fewer_acks(acks: float, verdict: Verdict) -> None:
    few = replace(CLEAN, counters=replace(CLEAN.counters, ack_packets=int(CLEAN.counters.data_packets * acks)))
    found = check_trial(make_spec(), few, TrialContext(10.0, {}, is_calibration=True))
    assert [check.verdict for check in found if check.name == "acks"] == [verdict]


def test_testers_back_to_back_beside_foreign_load_are_void() -> None:
    found = check_trial(
        make_spec(), replace(CLEAN, foreign_cpu_s=5.0), TrialContext(10.0, {"cc1": 5.0}, is_calibration=True)
    )
    assert [check.name for check in found if check.verdict is VOID] == ["foreign-load"]


@pytest.mark.parametrize(
    ("packets", "verdict", "reason"),
    [
        (
            {"tun0": 6000, "tun1": 4000},
            Verdict.OK,
            "each parallel tunnel carried data; shares of the packets: tun0 60%, tun1 40%",
        ),
        ({"tun0": 9941, "tun1": 59}, Verdict.VOID, "tun1 carried no data (tun0 99%, tun1 1%)"),
        ({"tun0": 0, "tun1": 0}, Verdict.VOID, "tun0 and tun1 carried no data (tun0 0%, tun1 0%)"),
    ],
)
def test_a_trial_in_which_one_of_several_tunnels_idles_is_void(
    packets: dict[str, int], verdict: Verdict, reason: str
) -> None:
    (found,) = sharing(packets, Test.TCP)
    assert found.verdict is verdict
    assert found.reason.startswith(reason)


def test_one_tunnel_shares_nothing() -> None:
    assert sharing({"tun0": 7}, Test.TCP) == ()


@pytest.mark.parametrize(("test", "key"), [(Test.TCP, "tcp.streams"), (Test.RATE, "udp.flows")])
def test_an_idle_tunnel_is_reported_with_the_key_that_shares_out_better(test: Test, key: str) -> None:
    (found,) = sharing({"tun0": 100, "tun1": 0}, test)
    assert found.reason.endswith(f"({key}) share out better")
