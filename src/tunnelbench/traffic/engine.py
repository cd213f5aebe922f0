"""Path, command lines and JSON lines of the packet engine, which offers UDP.

The receiver or reflector starts first and ends when its standard input closes. The sender ends by itself.
"""

from __future__ import annotations

import json
import math
import shutil
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

from tunnelbench.host.parsing import UNREADABLE, count, number
from tunnelbench.model.conditions import Content
from tunnelbench.model.errors import CannotHere, TrialFailed
from tunnelbench.model.ip_versions import with_port
from tunnelbench.model.search import CatchUp
from tunnelbench.model.text import counted
from tunnelbench.model.udp import Delays, UdpCounts, UdpInterval

ENGINE_PROGRAM = "tunnelbench-engine"
ENGINE_PORT = 5202
PROTOCOL = 1
"""Version of the JSON lines."""

LATE_S = 1.0
"""Time after which a packet or an answer counts as lost [s], as in the measurements that IT168 published."""


@dataclass(frozen=True)
class SenderLoad:
    """The load that a sender offers."""

    sizes: str
    """Payloads in the form of the engine's option, such as `18` or `imix`."""
    duration_s: float | None = None
    rate_pps: float | None = None
    """Rate [packets/s]; None: flat out, or a burst."""
    burst_packets: int | None = None
    """Number of packets of a burst sent back to back; None: not a burst."""
    catch_up: CatchUp = CatchUp.FULL
    """Behaviour of the sender after a delay; only with a rate."""
    is_echo: bool = False
    takes_delays: bool = False
    """True if each packet has a system call and a time stamp of its own."""
    interval_s: float = 1.0
    port: int = ENGINE_PORT
    sleeps: bool = False
    """True if the receiver sleeps until a packet comes, so that it takes no CPU time from other programs. Arrival times
    still come from the kernel."""

    @property
    def is_flat_out(self) -> bool:
        return self.rate_pps is None and self.burst_packets is None


def locate() -> str:
    """Return the path of the engine, from the installed package or from PATH. Raises CannotHere."""
    try:
        installed = [Path(str(file.locate())) for file in files("tunnelbench") or () if file.name == ENGINE_PROGRAM]
    except PackageNotFoundError:
        installed = []
    next_to_python = [Path(sysconfig.get_path("scripts")) / ENGINE_PROGRAM]
    found = next((path.resolve() for path in (*installed, *next_to_python) if path.is_file()), None)
    on_path = shutil.which(ENGINE_PROGRAM)
    if found is None and on_path is None:
        raise CannotHere(
            f"the packet engine {ENGINE_PROGRAM} is missing, which UDP needs",
            "install TunnelBench from its wheel or its source archive, which contain it",
        )
    return str(found or on_path)


def far_end_command(
    program: str, address: str, session: str, load: SenderLoad, *, has_one_clock: bool = True, flows: int = 1
) -> list[str]:
    """Return the command of a receiver, or of a reflector for an echo; it runs until its standard input closes.

    `has_one_clock` is True if sender and receiver are on one machine. If not, one-way delays and late packets are
    unknown. A receiver of one flow keeps to one source, which takes less CPU time.
    """
    # fmt: off
    argv = [program, "reflect" if load.is_echo else "receive", "--bind", with_port(address, load.port),
            "--session", session, "--interval-s", f"{load.interval_s:g}", "--silence-s", "0"]
    # fmt: on
    if not load.is_echo:
        argv += ["--payload-bytes", load.sizes]
        argv += ["--same-clock", "--late-s", f"{LATE_S:g}"] if has_one_clock else []
        argv += ["--one-source"] if flows == 1 and not load.takes_delays else []
    return [*argv, *_ways(load), *(["--wait", "block"] if load.sleeps else [])]


def sender_command(
    program: str,
    address: str,
    session: str,
    load: SenderLoad,
    *,
    source: str,
    content: Content = Content.RANDOM,
    flows: int = 1,
) -> list[str]:
    """Return the command of the sender of one trial; `source` is its own address. Repeating content is zeros.

    Each of the `flows` has a source port of its own.
    """
    # fmt: off
    argv = [program, "send", "--target", with_port(address, load.port), "--bind", source, "--session", session,
            "--payload-bytes", load.sizes, "--interval-s", f"{load.interval_s:g}"]
    # fmt: on
    if load.burst_packets is not None:
        argv += ["--burst", str(load.burst_packets)]
    elif load.rate_pps is None:
        argv.append("--flat-out")
    else:
        argv += ["--rate-pps", f"{load.rate_pps:.6f}".rstrip("0").rstrip(".")]
        argv += ["--catch-up", load.catch_up] if load.catch_up is not CatchUp.FULL else []
    if load.duration_s is not None:
        argv += ["--duration-s", f"{load.duration_s:g}"]
    if load.is_echo:
        argv += ["--echo", "--timeout-s", f"{LATE_S:g}"]
    if content is Content.REPEATING:
        argv += ["--content", "zeros"]
    if flows > 1:
        argv += ["--flows", str(flows)]
    return [*argv, *_ways(load)]


def _ways(load: SenderLoad) -> list[str]:
    return ["--latency"] if load.takes_delays else []


@dataclass(frozen=True)
class EngineOutput:
    """The lines that one engine has printed so far."""

    hello: Mapping[str, Any] | None = None
    intervals: tuple[Mapping[str, Any], ...] = ()
    summary: Mapping[str, Any] | None = None
    error: str = ""

    @property
    def received_packets(self) -> int:
        """Packets received up to the last interval."""
        return self._total("received_packets")

    def has_last_in_order(self, sent_packets: int) -> bool:
        """Return true if the last of the sent packets has arrived, and no packet came after a later one.

        On a path that keeps the order of packets, no missing packet can then still be on its way.
        """
        return self._total("expected_packets") >= sent_packets and not self._total("reordered_packets")

    def _total(self, name: str) -> int:
        """Return the sum of a count up to the last interval."""
        return sum(_count(line, name) for line in self.intervals)


def parse_lines(text: str) -> EngineOutput:
    """Return the lines of an engine; the last one may be incomplete. Raises TrialFailed if the protocol differs."""
    found = EngineOutput()
    intervals: list[Mapping[str, Any]] = []
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue  # an incomplete line, or a message that also goes to standard error
        if not isinstance(entry, dict):
            continue
        match entry.get("type"):
            case "hello":
                if entry.get("protocol") != PROTOCOL:
                    raise TrialFailed(f"{ENGINE_PROGRAM} speaks protocol {entry.get('protocol')}, not {PROTOCOL}")
                found = replace(found, hello=entry)
            case "interval":
                intervals.append(entry)
            case "summary":
                found = replace(found, summary=entry)
            case "error":
                found = replace(found, error=str(entry.get("message", "an error without a message")))
    return replace(found, intervals=tuple(intervals))


def parse(sender_text: str, far_text: str, load: SenderLoad, *, may_be_refused: bool = False) -> UdpCounts:
    """Return the figures of a trial from the output of both ends. Raises TrialFailed with the engine's own message, or
    if the two ends contradict each other: the receiver saw more packets than were sent, or was not ready before the
    first packet. `may_be_refused` accepts that the path was missing for a while, as in a soak.
    """
    sender_lines, far_lines = parse_lines(sender_text), parse_lines(far_text)
    far_name = "reflector" if load.is_echo else "receiver"
    sender, far = _summary("sender", sender_lines, sender_text), _summary(far_name, far_lines, far_text)
    try:
        counts = _counts(sender, far, load)
        series = _series(sender_lines, sender_lines if load.is_echo else far_lines)
        refusals = "" if may_be_refused and counts.received_packets else _refusals(sender)
        contradiction = refusals or _contradiction(sender, far, load, counts)
    except UNREADABLE as error:
        raise TrialFailed(f"the engine's lines are not as expected: {error!r:.200}") from None
    if contradiction:
        raise TrialFailed(contradiction)
    return replace(counts, intervals=series)


def hello_count(text: str, name: str) -> int | None:
    """Return a count of an engine's line `hello`; None: the engine has not printed it.

    `text` is what the engine has printed so far. Raises TrialFailed if the protocol differs.
    """
    hello = parse_lines(text).hello
    try:
        return count(hello[name]) if hello else None
    except UNREADABLE:
        return None


def _contradiction(sender: Mapping[str, Any], far: Mapping[str, Any], load: SenderLoad, counts: UdpCounts) -> str:
    """Return the reason for which the counts cannot be those of this trial; empty if they can."""
    far_name = "reflector" if load.is_echo else "receiver"
    if not counts.sent_packets:
        return "the sender sent nothing"
    if far["clock_id"] == sender["clock_id"] and far["start_ns"] > sender["first_send_ns"]:
        return f"the {far_name} was not ready before the first packet was sent"
    expected = (sender if load.is_echo else far)["expected_packets"] or 0
    if max(counts.received_packets, expected) > counts.sent_packets:
        more = max(counts.received_packets, expected)
        return f"the {far_name} saw packet number {more}, but the sender sent only {counts.sent_packets}"
    return ""


def _refusals(sender: Mapping[str, Any]) -> str:
    """Return the sender's errors that mean that the far end, or the path to it, was missing."""
    fatal = ("ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EMSGSIZE", "EPERM", "EACCES")
    errors = sender.get("errors") or {}
    found = ", ".join(f"{name} {counted(count, 'time')}" for name, count in errors.items() if name in fatal)
    return f"the sender was refused: {found}" if found else ""


def summary_of(end: str, text: str) -> Mapping[str, Any]:
    """Return the summary of one end. Raises TrialFailed if it printed none; `end` is its name in the message."""
    return _summary(end, parse_lines(text), text)


def _summary(end: str, lines: EngineOutput, text: str) -> Mapping[str, Any]:
    if lines.error:
        raise TrialFailed(f"the engine's {end} says: {lines.error}")
    if lines.summary is None:
        last = text.strip().splitlines()[-1][:200] if text.strip() else "nothing"
        raise TrialFailed(f"the engine's {end} ended without a summary; it printed last: {last}")
    return lines.summary


def _counts(sender: Mapping[str, Any], far: Mapping[str, Any], load: SenderLoad) -> UdpCounts:
    counter = sender if load.is_echo else far
    duration_s = load.duration_s if load.duration_s is not None else span_s(sender, "first_send_ns", "last_send_ns")
    dropped = _count(counter, "socket_dropped_packets")
    if load.is_echo:
        dropped += _count(far, "socket_dropped_packets") + _count(far, "unanswered_packets")
    late = counter["late_packets"]
    delay = counter["rtt_ns"] if load.is_echo else counter["delay_ns"]
    return UdpCounts(
        duration_s=finite_s(duration_s),
        intended_pps=load.rate_pps,
        intended_packets=None if load.is_flat_out else load.burst_packets or _count(sender, "intended_packets"),
        sent_packets=_count(sender, "sent_packets"),
        sent_bytes=_count(sender, "sent_bytes"),
        sending_s=span_s(sender, "first_send_ns", "last_send_ns"),
        received_packets=_count(counter, "received_packets"),
        received_bytes=_count(counter, "received_bytes"),
        receiving_s=span_s(counter, "first_arrival_ns", "last_arrival_ns"),
        late_packets=None if late is None else count(late),
        duplicated_packets=_count(counter, "duplicated_packets"),
        reordered_packets=_count(counter, "reordered_packets"),
        corrupted_packets=_count(counter, "corrupted_packets"),
        foreign_packets=_count(counter, "foreign_packets"),
        tester_dropped_packets=dropped,
        unsent_packets=_count(sender, "unsent_packets"),
        stalls=_count(sender, "stalls"),
        stall_max_s=finite_s(float(sender["stall_max_ns"] or 0) / 1e9),
        sender_path=str(sender["path"]),
        receiver_path=str(far["path"]),
        delay=_delays(delay),
        delay_variation=_delays(counter["delay_variation_ns"]),
        longest_gap_s=_longest_gap_s(counter),
        longest_gap_start_s=_longest_gap_start_s(counter),
        reached_packets=_count(far, "received_packets") if load.is_echo else None,
    )


def _longest_gap_s(counter: Mapping[str, Any]) -> float | None:
    gap_ns = counter.get("longest_gap_ns")
    return None if gap_ns is None else finite_s(gap_ns / 1e9)


def _longest_gap_start_s(counter: Mapping[str, Any]) -> float | None:
    """Return the time from the first arrival to the start of the longest gap [s]; None: there is no gap."""
    if counter.get("longest_gap_start_ns") is None:
        return None
    return span_s(counter, "first_arrival_ns", "longest_gap_start_ns")


def _count(entry: Mapping[str, Any], name: str) -> int:
    """Return a count, 0 for `null`. Raises ValueError if it is negative or not a whole number."""
    return 0 if entry[name] is None else count(entry[name])


def span_s(entry: Mapping[str, Any], first: str, last: str) -> float:
    """Return the time between two times of an entry [s]; 0 if one of them is null."""
    if entry[first] is None or entry[last] is None:
        return 0.0
    return finite_s((entry[last] - entry[first]) / 1e9)


def finite_s(value: float) -> float:
    """Return a time [s]. Raises ValueError if it is negative or infinite."""
    if not 0 <= value < math.inf:
        raise ValueError(f"a time of {value!r} s")
    return float(value)


def _delays(histogram: Mapping[str, Any] | None) -> Delays | None:
    if histogram is None or not histogram["count"]:
        return None
    names = {"min_ns": "min", "mean_ns": "mean", "p50_ns": "p50", "p90_ns": "p90", "p99_ns": "p99",
             "p99_9_ns": "p99_9", "max_ns": "max"}  # fmt: skip
    return Delays(count(histogram["count"]), **{field: number(histogram[name]) for field, name in names.items()})


def delay_ns(value: object) -> float | None:
    """Return a delay of the engine's output [ns]; None: there is none."""
    return None if value is None else number(value)


def _missing(interval: Mapping[str, Any]) -> int:
    """Return the packets without an answer, or those missing between the sequence numbers that arrived."""
    if "lost_packets" in interval:
        return _count(interval, "lost_packets")
    return max(0, _count(interval, "expected_packets") - _count(interval, "received_packets"))


def _series(sent: EngineOutput, received: EngineOutput) -> tuple[UdpInterval, ...]:
    """Join the n-th interval of the sender and the n-th of the receiver: each end starts with its own first packet."""
    series: list[UdpInterval] = []
    start_s = 0.0
    for index in range(max(len(sent.intervals), len(received.intervals))):
        out = sent.intervals[index] if index < len(sent.intervals) else None
        back = received.intervals[index] if index < len(received.intervals) else None
        line = out or back or {}
        end_s = start_s + finite_s((line["end_ns"] - line["start_ns"]) / 1e9)
        delay = (back.get("rtt_ns") or back.get("delay_ns") or {}) if back else {}
        series.append(
            UdpInterval(
                start_s=start_s,
                end_s=end_s,
                sent_packets=_count(out, "sent_packets") if out else 0,
                received_packets=_count(back, "received_packets") if back else 0,
                lost_packets=_missing(back) if back else 0,
                delay_p50_ns=delay_ns(delay.get("p50")),
                delay_max_ns=delay_ns(delay.get("max")),
            )
        )
        start_s = end_s
    while series and not series[-1].sent_packets and not series[-1].received_packets:
        series.pop()  # the receiver's wait for late packets
    return tuple(series)
