"""The state of the test's connection, read from the sender's kernel."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.output.samples import samples
from tests.unit.builders import make_spec, make_tcp

from tunnelbench.host.host import THIS_MACHINE
from tunnelbench.measure.checks import TrialContext
from tunnelbench.measure.meter import blaming_restart, naming_changes, throttled_s_by_process
from tunnelbench.measure.tcp_trial import OfferedTcp, TcpMeter, parse_mss, parse_sender, parse_starts, require_data
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.plan import TcpTraffic
from tunnelbench.model.result import Sender, Verdict
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.testbed.base import Testbed
from tunnelbench.traffic.iperf3 import Iperf3Result

LISTS = samples("iproute2-*/ss-*-sender.txt")


@pytest.mark.parametrize("name", LISTS)
def test_the_segments_of_the_test_are_read_off_its_own_connection(name: str) -> None:
    assert len(LISTS[name].splitlines()) == 2, "a control connection and one for the data"
    assert parse_mss(LISTS[name], 1448) == 1448


@pytest.mark.parametrize("name", LISTS)
def test_the_connection_that_sent_most_carries_the_test_in_whatever_order(name: str) -> None:
    data, control = sorted(LISTS[name].splitlines(), key=lambda line: "bytes_retrans" in line, reverse=True)
    control = control.replace(" mss:1448", " mss:536")
    data = data.replace(" mss:1448", " mss:1368")
    assert parse_mss(f"{control}\n{data}\n", 1448) == parse_mss(f"{data}\n{control}\n", 1448) == 1368


@pytest.mark.parametrize(
    "sockets",
    [
        "",
        "0 0 198.18.1.2:40000 198.18.4.1:22 cubic mss:1448 bytes_sent:1000\n",
        "0 0 198.18.1.2:40000 198.18.4.1:5201 cubic mss:1448\n",
        "0 0 198.18.1.2:40000 198.18.4.1:5201 cubic rcvmss:536 advmss:1448 bytes_sent:1000\n",
    ],
)
def test_without_the_kernels_value_there_is_no_size(sockets: str) -> None:
    assert parse_mss(sockets, 1448) is None


@pytest.mark.parametrize("name", LISTS)
def test_a_control_connection_that_is_left_alone_is_not_taken_for_the_test(name: str) -> None:
    (control,) = [line for line in LISTS[name].splitlines() if "bytes_retrans" not in line][:1]
    assert "mss:1448" in control
    assert parse_mss(control, 76) is None
    assert parse_sender(control, 76) is None


@pytest.mark.parametrize("sockets", ["", "0 0 198.18.1.2:40000 198.18.4.1:22 cubic rtt:1/1 bytes_sent:1000\n"])
def test_without_the_kernels_values_the_state_of_the_sender_is_unknown(sockets: str) -> None:
    assert parse_sender(sockets, 1448) is None


def test_what_held_the_sender_back_is_read_off_its_connection() -> None:
    out = LISTS["iproute2-6.1.0/ss-out-sender.txt"]
    assert parse_sender(out, 1448) == Sender(busy_s=1.012, receiver_window_s=0, send_buffer_s=0, rtt_ms=1.11)
    held = out.replace("busy:1012ms", "busy:1012ms rwnd_limited:880ms(87.0%) sndbuf_limited:16ms(1.6%)")
    assert parse_sender(held, 1448) == Sender(busy_s=1.012, receiver_window_s=0.88, send_buffer_s=0.016, rtt_ms=1.11)


@given(st.text(alphabet=st.sampled_from("0123456789:5201 mss bytes_sent\n")))
def test_any_list_can_be_read(sockets: str) -> None:
    parse_mss(sockets, 1448)
    parse_sender(sockets, 1448)


@pytest.mark.parametrize(("name", "start_s"), [("in", -1.004), ("out", -1.012)])
def test_a_test_started_with_the_last_message_of_its_control_connection(name: str, start_s: float) -> None:
    sockets = LISTS[f"iproute2-6.1.0/ss-{name}-sender.txt"]
    assert parse_starts(sockets, [5201]) == [start_s]
    others = sockets.replace(":5201", ":5202").replace("lastsnd:10", "lastsnd:9").replace("lastrcv:10", "lastrcv:9")
    assert parse_starts(others + sockets, [5201, 5202]) == [start_s, pytest.approx(start_s + 0.1)]
    assert parse_starts(sockets, [5201, 5202]) == [], "a test without connections has no known start"


def test_connections_without_times_say_no_starts() -> None:
    assert parse_starts("0 0 198.18.1.2:40000 198.18.4.1:5201 cubic mss:1448 bytes_sent:1000\n", [5201]) == []


@pytest.mark.parametrize(("burst_bytes", "verdict"), [(0, Verdict.DOUBTFUL), (3100, Verdict.OK)])
def test_a_short_trial_may_carry_the_burst_of_its_link_as_well(burst_bytes: int, verdict: Verdict) -> None:
    usual = make_tcp((1e6 + 3100 * 8 / 2) * 1448 / 1538, duration_s=2.0)
    result = Iperf3Result(2.0, usual.bytes_received, usual.bytes_sent, 0, usual.intervals, {})
    offered = OfferedTcp(result=result, mss_bytes=1448, sender=None, window=usual.window, ping=usual.ping)
    context = TrialContext(usual.bracket_s, {}, link_mbps=1.0, link_burst_bytes=burst_bytes)
    testbed = SimpleNamespace(client=Mock(), server=Mock(), spec=TestbedSpec("lab", "netns"))
    meter = TcpMeter(cast("Testbed", testbed), TcpTraffic(), lambda *_: None)
    _, checks = meter.judge(make_spec(), offered, usual.counters, context)
    (found,) = [check for check in checks if check.name == "physical-limit"]
    assert found.verdict is verdict
    assert found.reason.startswith("100.0%" if burst_bytes else "101.2%")


def test_a_test_that_transferred_nothing_fails_with_its_bytes() -> None:
    empty = Iperf3Result(2.0, 0, 131_072, 4, (), {})
    with pytest.raises(TrialFailed, match=r"iperf3 received 0 bytes in 2\.0 s: .* \(MTU\)"):
        require_data(empty)
    require_data(replace(empty, bytes_received=1))


@pytest.mark.parametrize(
    ("changed", "words"),
    [((), "no data"), (("changed on the router during the trial: a route",), "no data; changed on the router during")],
)
def test_a_failed_trial_names_what_was_changed_meanwhile(changed: tuple[str, ...], words: str) -> None:
    with pytest.raises(TrialFailed, match=words), naming_changes(lambda: changed):
        raise TrialFailed("no data")


@pytest.mark.parametrize(
    ("said", "too_long", "reason"),
    [
        ("", "", "the device ppp0 has gone"),
        (
            "xl2tpd on the router: pppd exited\x1b",
            "",
            "the device ppp0 has gone; xl2tpd on the router: pppd exited\\x1b",
        ),
        (
            "",
            "openvpn on the router: Message too long",
            "the device ppp0 has gone; openvpn on the router: Message too long",
        ),
    ],
)
def test_a_trial_that_fails_says_what_became_of_the_tunnel(said: str, too_long: str, reason: str) -> None:
    error = TrialFailed("the device ppp0 has gone")
    error.raw = {"ping": "1 packet"}
    tunnel = Mock(restart_since=Mock(return_value=said), too_long_since=Mock(return_value=too_long))
    with pytest.raises(TrialFailed) as caught, blaming_restart(tunnel):
        raise error
    assert str(caught.value) == reason
    assert caught.value.raw == {"ping": "1 packet"}


@pytest.mark.parametrize(("machine", "asked"), [(THIS_MACHINE, ["self", "77", "78"]), ("router.lan", ["self", "78"])])
def test_quotas_are_read_of_programs_on_this_machine_only(
    machine: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tunnelbench.host.cgroup.throttled_s_by_process", lambda pids: {pid: {} for pid in pids})
    hosts = SimpleNamespace(machine=machine), SimpleNamespace(machine=THIS_MACHINE)
    ends = Mock(router=Mock(host=hosts[0]), server=Mock(host=hosts[1]))
    tunnel = Mock(ends=ends, router_daemons=[Mock(pid=77)], server_daemons=[Mock(pid=78)])
    assert list(throttled_s_by_process(tunnel)) == asked
