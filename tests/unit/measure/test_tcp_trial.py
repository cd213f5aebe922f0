"""What the sender's kernel tells of the test's connection."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.output.samples import samples

from tunnelbench.measure.tcp_trial import TrialFindings, blaming_restart, parse_mss, parse_sender
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.result import Sender

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
def test_where_the_kernel_does_not_tell_there_is_no_size(sockets: str) -> None:
    assert parse_mss(sockets, 1448) is None


@pytest.mark.parametrize("name", LISTS)
def test_a_control_connection_that_is_left_alone_is_not_taken_for_the_test(name: str) -> None:
    (control,) = [line for line in LISTS[name].splitlines() if "bytes_retrans" not in line][:1]
    assert "mss:1448" in control
    assert parse_mss(control, 76) is None
    assert parse_sender(control, 76) is None


@pytest.mark.parametrize("sockets", ["", "0 0 198.18.1.2:40000 198.18.4.1:22 cubic rtt:1/1 bytes_sent:1000\n"])
def test_where_the_kernel_does_not_tell_nothing_is_known_of_the_sender(sockets: str) -> None:
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


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", "the device ppp0 has gone"),
        ("xl2tpd on the router: pppd exited\x1b", "the device ppp0 has gone; xl2tpd on the router: pppd exited\\x1b"),
    ],
)
def test_a_trial_that_fails_says_what_became_of_the_tunnel(said: str, reason: str) -> None:
    def trial() -> TrialFindings:
        error = TrialFailed("the device ppp0 has gone")
        error.raw = {"ping": "1 packet"}
        raise error

    tunnel = Mock(restart_since=Mock(return_value=said))
    with pytest.raises(TrialFailed) as caught:
        blaming_restart(tunnel, trial)
    assert str(caught.value) == reason
    assert caught.value.raw == {"ping": "1 packet"}


def test_a_trial_that_does_not_fail_is_what_it_found() -> None:
    found = TrialFindings(None, (), {})
    assert blaming_restart(Mock(), lambda: found) is found
