"""For any output of a program, a parser returns sane figures or a sentence with the reason; it never breaks a run."""

from __future__ import annotations

import json
import math
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.output.samples import samples
from tests.unit.measure.pcap import pcap

from tunnelbench.measure.capture import read_pcap
from tunnelbench.measure.tcp_trial import parse_mss
from tunnelbench.model.counters import Ping
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.plan import Direction
from tunnelbench.traffic import iperf3, ping
from tunnelbench.tunnel.openvpn_output import first_complaint, parse_data_channel
from tunnelbench.tunnel.tinc import parse_node

unhurried = settings(deadline=None)
"""Without a time limit for each example: tests may run on a busy machine."""

IPERF3 = samples("iperf3-*/*-*.json")
PINGS = samples("iputils-*/ping-*.txt")
LOGS = samples("openvpn-*/*.log")
NODES = samples("tinc-*/nodes-*.txt")
SOCKETS = samples("iproute2-*/ss-*.txt")
PIECES = st.sampled_from(
    ["", "\0", "\x1b[2J", "\ufffd", "-1", "1e999", "NaN", "9" * 5000, "1.2.3", "{", "}", "[]", '"', "null", "\n", "=",
     "packets transmitted, ", "cipher ", " at ", "mss:", "bytes_sent:", ":5201", "Cipher '", "error", "é"]
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, texts: dict[str, str]) -> str:
    """Draw a captured text with pieces removed and inserted, or any text."""
    text = draw(st.sampled_from(sorted(texts.values())))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        length = draw(st.sampled_from([0, 0, 1, 2, 7, 40, 4000]))
        text = text[:start] + draw(PIECES | st.text(max_size=3)) + text[start + length :]
    return draw(st.just(text) | st.text(max_size=30)) if draw(st.booleans()) else text


def replaced(document: Any, choose: random.Random) -> Any:
    """Return a JSON document with one value replaced, at any place."""
    if isinstance(document, dict) and document and choose.random() < 0.9:
        key = choose.choice(sorted(document))
        return {**document, key: replaced(document[key], choose)}
    if isinstance(document, list) and document and choose.random() < 0.9:
        position = choose.randrange(len(document))
        return [*document[:position], replaced(document[position], choose), *document[position + 1 :]]
    return choose.choice(STRANGE)


STRANGE: list[Any] = [None, -1, -0.5, 1e308, math.nan, math.inf, 10**400, "text", "7", True, [], {}, [[]], {"a": 1}]


def is_sane(found: iperf3.Iperf3Result) -> bool:
    """Return True if a store and the arithmetic accept the result."""
    counts = [found.bytes_received, found.bytes_sent, *(each.bytes for each in found.intervals)]
    optional = [found.retransmits, *(each.retransmits for each in found.intervals)]
    times = [found.duration_s, *(time for each in found.intervals for time in (each.start_s, each.end_s))]
    return (
        all(type(count) is int and 0 <= count < 2**63 for count in counts)
        and all(count is None or (type(count) is int and 0 <= count < 2**63) for count in optional)
        and all(type(time) is float and math.isfinite(time) for time in times)
    )


def parse_iperf3(client: str, server: str, direction: Direction) -> None:
    try:
        found = iperf3.parse(client, server, direction)
    except TrialFailed:
        return
    assert is_sane(found)


@unhurried
@given(damaged(IPERF3), damaged(IPERF3), st.sampled_from(Direction))
def test_whatever_iperf3_prints(client: str, server: str, direction: Direction) -> None:
    parse_iperf3(client, server, direction)
    iperf3.without_host_name(client)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(Direction))
def test_whatever_value_stands_in_iperf3s_json(seed: int, direction: Direction) -> None:
    choose = random.Random(seed)
    (folder,) = {name.rpartition("/")[0] for name in IPERF3}
    texts = [IPERF3[f"{folder}/{direction}-{end}.json"] for end in ("client", "server")]
    position = choose.randrange(2)
    texts[position] = json.dumps(replaced(json.loads(texts[position]), choose))
    parse_iperf3(texts[0], texts[1], direction)


@unhurried
@given(damaged(PINGS), st.booleans())
def test_whatever_ping_prints(text: str, interrupted: bool) -> None:
    found = ping.parse(text, interrupted=interrupted)
    assert isinstance(found, Ping)
    assert 0 <= found.sent < 2**63
    assert 0 <= found.answered < 2**63
    assert found.worst_ms is None or math.isfinite(found.worst_ms)


@unhurried
@given(damaged(LOGS))
def test_whatever_openvpn_prints(text: str) -> None:
    assert all(parse_data_channel(text))
    first_complaint(text)


@unhurried
@given(damaged(NODES))
def test_whatever_tinc_prints(text: str) -> None:
    found = parse_node(text, "server")
    assert found.cipher
    assert found.digest


@unhurried
@given(damaged(SOCKETS))
def test_whatever_ss_prints(text: str) -> None:
    found = parse_mss(text, 1448)
    assert found is None or 0 <= found <= 1448


@unhurried
@given(data=st.data())
def test_whatever_a_capture_holds(data: st.DataObject) -> None:
    content = bytearray(pcap([bytes(range(64)), b"\x45" + bytes(60)]))
    for _ in range(data.draw(st.integers(0, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    for packet in read_pcap(bytes(content[: data.draw(st.integers(0, len(content)))])):
        assert packet.protocol
        assert 0 <= packet.length_bytes < 65536
