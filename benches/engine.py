#!/usr/bin/env python3
"""Measure the packet engine and similar programs of Debian in turn, and print the ratios.

It needs root, works in namespaces of its own, and removes them at the end. `make bench-engine` runs it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab import RECEIVER_CPU, SENDER_CPU, TARGET, Lab, engine_path, lab, run, wait_for_udp
from one_way import PEERS, PORT, Delivery, last_line, listen, ours, send, session
from table import Row, print_table, spread

PACKAGES = {"iperf3": "iperf3", "iperf": "iperf", "nuttcp": "nuttcp", "trafgen": "netsniff-ng", "sockperf": "sockperf"}
RATE_TARGETS = {"iperf3": 4.0, "iperf2": 4.0, "nuttcp": 4.0, "trafgen": 3.0}


PARTS = ("one", "three", "echo", "rtt", "pace", "binary", "limited", "free")


def install_peers() -> None:
    """Install the missing programs from Debian, without starting a service."""
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if missing:
        print(f"installing {' '.join(missing)}", file=sys.stderr)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        subprocess.run(("apt-get", "install", "-qq", "-y", "--no-install-recommends", *missing), check=True,
                       stdout=subprocess.DEVNULL, env=environment)  # fmt: skip


def one_way_rows(hops: int, rounds: int, duration_s: float) -> list[Row]:
    """Return rows of the highest rate one way; all programs run in turn."""
    trials: dict[str, list[Delivery]] = defaultdict(list)
    with lab(hops) as where:
        for _ in range(rounds):
            trials["ours"].append(ours(where, duration_s))
            for name, peer in PEERS.items():
                trials[name].append(peer(where, duration_s))
    print(f"\n{hops} hop(s), {rounds} rounds of {duration_s:g} s", file=sys.stderr)
    for name, of_name in trials.items():
        rate, cpu = (trial.pps for trial in of_name), (trial.cpu_s_per_million for trial in of_name)
        print(f"  {name:8} kpps {spread(list(rate), 1e3)}  s/M {spread(list(cpu), digits=2)}", file=sys.stderr)
    best = statistics.median(trial.pps for trial in trials["ours"])
    rows = []
    mine = spread([trial.pps for trial in trials["ours"]], 1e3)
    for name, target in RATE_TARGETS.items():
        other = [trial.pps for trial in trials[name]]
        ratio = best / statistics.median(other)
        figure, met = f"{hops} hop(s): kpps against {name}", ratio >= target
        rows.append(Row(figure, mine, spread(other, 1e3), f"{ratio:.2f}", f">= {target:g}", met))
    lost = [100 * (1 - trial.packets / trial.sent_packets) for trial in trials["ours"] if trial.sent_packets]
    dropped = max(trial.dropped_packets or 0 for trial in trials["ours"])
    figure = f"{hops} hop(s): lost %; most that our socket dropped"
    rows.append(Row(figure, f"{spread(lost, digits=3)}; {dropped}", "", "", "0", max(lost) == 0))
    costs = {name: [trial.cpu_s_per_million for trial in trials[name]] for name in ("ours", "iperf3")}
    ratio = statistics.median(costs["ours"]) / statistics.median(costs["iperf3"])
    cost, other_cost = (spread(costs[name], digits=2) for name in ("ours", "iperf3"))
    figure = f"{hops} hop(s): CPU s per million delivered, against iperf3"
    rows.append(Row(figure, cost, other_cost, f"{ratio:.3f}", "<= 0.25", ratio <= 0.25))
    return rows


def _echo(where: Lab, duration_s: float, reflecting: tuple[str, ...], sending: tuple[str, ...]) -> dict[str, Any]:
    """Run the engine's sender with its reflector, and return the sender's summary."""
    common = ("--session", session(), "--interval-s", "0")
    reflector = listen(where, "reflect", *common, *reflecting)
    summary = last_line(send(where, duration_s, "--echo", *common, *sending))
    reflector.finish()
    return summary


def echo_rows(rounds: int, duration_s: float) -> list[Row]:
    """Return rows of round trips per second: GSO both ways, sendmmsg both ways, and GSO there with sendmmsg back."""
    ways = {"gso": ("gso", "gso"), "mmsg": ("mmsg", "mmsg"), "mmsg back": ("gso", "mmsg")}
    rates: dict[str, list[float]] = defaultdict(list)
    lost = []
    with lab(1) as where:
        for _ in range(rounds):
            for way, (there, back) in ways.items():
                load = ("--window", "1024", "--wait", "nap", "--path", there)
                summary = _echo(where, duration_s, ("--path", back), load)
                rates[way].append(summary["received_packets"] / duration_s)
                lost.append(summary["lost_packets"])
    mine = spread(rates["gso"], 1e3)
    both, back_only = (statistics.median(rates["gso"]) / statistics.median(rates[way]) for way in ("mmsg", "mmsg back"))
    figure = "echo: thousand round trips/s against recvmmsg + sendmmsg"
    return [
        Row(f"{figure} at both ends", mine, spread(rates["mmsg"], 1e3), f"{both:.2f}", ">= 2", both >= 2),
        Row(f"{figure} in the reflector", mine, spread(rates["mmsg back"], 1e3), f"{back_only:.2f}", "", None),
        Row("echo: lost of the packets sent", f"{max(lost):g}", "", "", "0", max(lost) == 0),
    ]


def _sockperf_rtt_us(where: Lab, duration_s: float) -> float:
    """Return sockperf's median of the full round trip, both ends polling [microseconds]."""
    at = ("-i", TARGET, "-p", str(PORT), "--nonblocked")
    server = where.start(where.receiver, RECEIVER_CPU, "sockperf", "server", *at, quiet=True)
    wait_for_udp(where.receiver, PORT)
    load = ("-m", "18", "-t", f"{duration_s:.0f}", "--full-rtt")
    output = where.start(where.sender, SENDER_CPU, "sockperf", "ping-pong", *at, *load).finish().output
    server.finish(signal.SIGKILL)
    found = re.search(r"percentile 50\.0+ =\s*([\d.]+)", output)
    assert found is not None, output
    return float(found.group(1))


def rtt_rows(rounds: int, duration_s: float) -> list[Row]:
    """Return rows of the round trip of one packet at a time, both ends polling."""
    medians_us: dict[str, list[float]] = defaultdict(list)
    with lab(1) as where:
        for _ in range(rounds):
            for stamps in ("user", "kernel"):
                summary = _echo(where, duration_s, ("--latency",), ("--window", "1", "--stamps", stamps))
                medians_us[stamps].append(summary["rtt_ns"]["p50"] / 1e3)
            medians_us["sockperf"].append(_sockperf_rtt_us(where, duration_s))
    ratio = statistics.median(medians_us["user"]) / statistics.median(medians_us["sockperf"])
    mine, kernel, other = (spread(medians_us[name], digits=2) for name in ("user", "kernel", "sockperf"))
    return [
        Row("RTT median us, spinning, against sockperf", mine, other, f"{ratio:.2f}", "<= 1.15", ratio <= 1.15),
        Row("RTT median us with the kernel's stamps", kernel, "", "", "", None),
    ]


def pace_rows(rounds: int, duration_s: float) -> list[Row]:
    """Return rows of the pacing at 50,000 packets/s, one packet in each call."""
    errors_ppm, even = [], []
    with lab(1) as where:
        for _ in range(rounds):
            token = ("--session", session())
            receiver = listen(where, "receive", *token)
            sent = last_line(send(where, duration_s, *token, "--rate-pps", "50000"))
            receiver.finish()
            elapsed_s = (sent["last_send_ns"] - sent["first_send_ns"]) / 1e9
            errors_ppm.append(((sent["sent_packets"] - 1) / elapsed_s / 50_000 - 1) * 1e6)
            even.append(100 * sent["gaps_within_10_percent"] / sent["gaps"])
    worst = max(abs(error) for error in errors_ppm)
    steady = statistics.median(even)
    return [
        Row("50,000 packets/s: error of the rate, ppm", spread(errors_ppm, digits=1), "", "", "<= 20", worst <= 20),
        Row("50,000 packets/s: gaps within 10 %, %", spread(even, digits=1), "", "", ">= 95", steady >= 95),
    ]


def binary_rows() -> list[Row]:
    """Return rows of the size of the binary, and of the duration of `--version`."""
    size = Path(engine_path()).stat().st_size / 2**20
    times_ms = []
    for _ in range(300):
        start = time.perf_counter()
        run(engine_path(), "--version")
        times_ms.append((time.perf_counter() - start) * 1e3)
    least_ms = min(times_ms)  # a busy machine adds to each time
    return [
        Row("binary, MiB", f"{size:.2f}", "", "", "<= 1", size <= 1),
        Row("start to end of --version, least of 300, ms", f"{least_ms:.1f}", "", "", "<= 3", least_ms <= 3),
    ]


def search_rows(kind: str, count: int) -> list[Row]:
    """Return rows of searches. Only this part needs the package."""
    from search import free_rows, limited_rows  # noqa: PLC0415 - only this part needs the package

    return limited_rows(count) if kind == "limited" else free_rows(count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--duration-s", type=float, default=3)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--searches", type=int, default=10, help="of each kind")
    options = parser.parse_args()
    # sys.exit() runs the clean-up of the namespaces.
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(143))
    install_peers()
    rounds, duration_s = options.rounds, options.duration_s
    parts: dict[str, Callable[[], list[Row]]] = {
        "one": lambda: one_way_rows(1, rounds, duration_s),
        "three": lambda: one_way_rows(3, rounds, duration_s),
        "echo": lambda: echo_rows(rounds, duration_s),
        "rtt": lambda: rtt_rows(rounds, duration_s),
        "pace": lambda: pace_rows(rounds, duration_s),
        "binary": binary_rows,
        "limited": lambda: search_rows("limited", options.searches),
        "free": lambda: search_rows("free", options.searches),
    }
    rows = [row for name in options.only or parts for row in parts[name]()]
    print_table(rows)


if __name__ == "__main__":
    main()
