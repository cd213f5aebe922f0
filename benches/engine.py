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
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lab import RECEIVER_CPU, SENDER_CPU, TARGET, Lab, engine_path, lab, run, wait_for_udp
from one_way import (
    PORT,
    Delivery,
    gso_pair,
    iperf2,
    iperf3,
    iperf3_gsro,
    last_line,
    listen,
    nuttcp,
    ours,
    send,
    session,
    trafgen,
)
from options import at_least_one, seconds
from search import free_rows, limited_rows, lossy_rows
from table import Row, print_table, spread

PACKAGES = {"iperf3": "iperf3", "iperf": "iperf", "nuttcp": "nuttcp", "trafgen": "netsniff-ng", "sockperf": "sockperf"}
RATE_TARGETS = {"iperf3": 4.0, "iperf2": 4.0, "nuttcp": 4.0, "trafgen": 3.0, "iperf3 --gsro": 1.2}
COST_TARGETS = {"iperf3": 0.25, "iperf3 --gsro": 0.6}
IPERF3_SOURCE = "https://github.com/esnet/iperf"
"""Source of the version of iperf3 that has the option --gsro, which Debian's does not have."""
MERGED_RATE_TARGETS = {"iperf3 --gsro, merged": 1.2, "GSO/GRO pair, merged": 0.9}
MERGED_COST_TARGETS = {"iperf3 --gsro, merged": 0.6}
BUILD_LIMIT_S = 300.0
"""Longest time of a step that builds a peer [s]."""


PARTS = ("one", "three", "offloads", "echo", "rtt", "pace", "binary", "limited", "lossy", "free")


def install_peers() -> None:
    """Install the missing programs from Debian, without starting a service."""
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if missing:
        print(f"installing {' '.join(missing)}", file=sys.stderr)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        subprocess.run(("apt-get", "install", "-qq", "-y", "--no-install-recommends", *missing), check=True,
                       stdout=subprocess.DEVNULL, env=environment)  # fmt: skip


def build_pair(folder: Path) -> str:
    """Compile gso_pair.c, and return the path of the program."""
    program = str(folder / "gso_pair")
    run("cc", "-O2", "-o", program, str(Path(__file__).parent / "gso_pair.c"))
    return program


def find_gsro(folder: Path) -> str | None:
    """Return the path of an iperf3 that has --gsro: IPERF3_GSRO, or one that is built from its source.

    None if it cannot be had; the reason is printed.
    """
    if program := os.environ.get("IPERF3_GSRO"):
        return program
    source = folder / "iperf3"
    steps = (
        ("git", "clone", "--quiet", "--depth", "1", IPERF3_SOURCE, str(source)),
        ("sh", "-c", 'cd "$1" && ./configure --quiet --disable-shared && make --silent', "sh", str(source)),
    )
    try:
        for step in steps:
            subprocess.run(step, check=True, capture_output=True, timeout=BUILD_LIMIT_S)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"iperf3 with --gsro is missing ({error}); IPERF3_GSRO can name one", file=sys.stderr)
        return None
    return str(source / "src" / "iperf3")


def one_way_rows(hops: int, rounds: int, duration_s: float, pair: str, gsro: str | None) -> list[Row]:
    """Return rows of the highest rate one way; all programs run in turn.

    The receiver's device merges packets for the programs that take merged ones, and not for the others.
    """
    trials: dict[str, list[Delivery]] = defaultdict(list)
    with lab(hops) as plain, lab(hops, merges=True) as merging:
        programs: list[tuple[str, Lab, Callable[[Lab, float], Delivery]]] = [
            ("ours", plain, ours),
            ("iperf3", plain, iperf3),
            ("iperf2", plain, iperf2),
            ("nuttcp", plain, nuttcp),
            ("trafgen", plain, partial(trafgen, counter=pair)),
            ("ours, merged", merging, ours),
            ("GSO/GRO pair, merged", merging, partial(gso_pair, program=pair)),
        ]
        if gsro:
            programs.append(("iperf3 --gsro", plain, partial(iperf3_gsro, program=gsro)))
            programs.append(("iperf3 --gsro, merged", merging, partial(iperf3_gsro, program=gsro)))
        for _ in range(rounds):
            for name, where, program in programs:
                trials[name].append(with_merging(where, program, duration_s))
    print(f"\n{hops} hop(s), {rounds} rounds of {duration_s:g} s", file=sys.stderr)
    for name, of_name in trials.items():
        rate, cpu = (trial.pps for trial in of_name), (trial.cpu_s_per_million for trial in of_name)
        lost = f"  lost % {spread(lost_percent(of_name), digits=3)}" if of_name[0].sent_packets else ""
        rates = f"kpps {spread(list(rate), 1e3)}  s/M {spread(list(cpu), digits=2)}"
        print(f"  {name:21} {rates}{lost}", file=sys.stderr)
    path = f"{hops} hop(s)"
    return [
        *peer_rows(path, "ours", trials, RATE_TARGETS, COST_TARGETS),
        *peer_rows(f"{path}, merged", "ours, merged", trials, MERGED_RATE_TARGETS, MERGED_COST_TARGETS),
    ]


def with_merging(where: Lab, program: Callable[[Lab, float], Delivery], duration_s: float) -> Delivery:
    """Return a trial of a program, with the CPU time of the threads that merged its packets."""
    before_s = where.merging_cpu_s()
    delivery = program(where, duration_s)
    return replace(delivery, cpu_s=delivery.cpu_s + where.merging_cpu_s() - before_s)


def lost_percent(trials: list[Delivery]) -> list[float]:
    """Return the share of the packets that each trial lost [%]."""
    return [100 * (1 - trial.packets / trial.sent_packets) for trial in trials if trial.sent_packets]


def rate_row(figure: str, mine: list[Delivery], other: list[Delivery], least: float) -> Row:
    """Return the row of a rate [1000 packets/s] that is to be at least `least` times that of another program."""
    ours_pps, theirs_pps = ([trial.pps for trial in trials] for trials in (mine, other))
    ratio = statistics.median(ours_pps) / statistics.median(theirs_pps)
    return Row(figure, spread(ours_pps, 1e3), spread(theirs_pps, 1e3), f"{ratio:.2f}", f">= {least:g}", ratio >= least)


def cost_row(figure: str, mine: list[Delivery], other: list[Delivery], most: float | None) -> Row:
    """Return the row of a CPU time that is to be at most `most` times that of another program; None: no target."""
    ours_s, theirs_s = ([trial.cpu_s_per_million for trial in trials] for trials in (mine, other))
    ratio = statistics.median(ours_s) / statistics.median(theirs_s)
    target, met = ("", None) if most is None else (f"<= {most:g}", ratio <= most)
    return Row(figure, spread(ours_s, digits=2), spread(theirs_s, digits=2), f"{ratio:.3f}", target, met)


def peer_rows(
    path: str,
    name: str,
    trials: Mapping[str, list[Delivery]],
    least: Mapping[str, float],
    most: Mapping[str, float],
) -> list[Row]:
    """Return the loss of the engine, and its rates and CPU times beside those of other programs, with the targets."""
    mine = trials[name]
    lost, dropped = lost_percent(mine), max(trial.dropped_packets or 0 for trial in mine)
    figure = f"{path}: lost %; most that our socket dropped"
    rows = [Row(figure, f"{spread(lost, digits=3)}; {dropped}", "", "", "0", max(lost) == 0)]
    for peer, target in least.items():
        figure = f"{path}: kpps against {peer}"
        if peer in trials:
            rows.append(rate_row(figure, mine, trials[peer], target))
            cost = f"{path}: CPU s per million against {peer}"
            rows.append(cost_row(cost, mine, trials[peer], most.get(peer)))
        else:
            rate = spread([trial.pps for trial in mine], 1e3)
            rows.append(Row(figure, rate, "missing", "", f">= {target:g}", None))
    return rows


def offload_rows(rounds: int, duration_s: float) -> list[Row]:
    """Return rows of the losses where bursts arrive in one piece: as fast as possible, and at 90 % of what was read."""
    flat_out, paced = [], []
    with lab(1, offloads=True) as where:
        for _ in range(rounds):
            flat_out.append(ours(where, duration_s))
            paced.append(ours(where, duration_s, ("--rate-pps", f"{0.9 * flat_out[-1].pps:.0f}")))
    lost, paced_lost = lost_percent(flat_out), lost_percent(paced)
    rate = spread([trial.pps for trial in flat_out], 1e3)
    return [
        Row("offloads at default: kpps; lost %", f"{rate}; {spread(lost, digits=3)}", "", "", "", None),
        Row("... at 90 % of that: lost %", spread(paced_lost, digits=3), "", "", "0", max(paced_lost) == 0),
    ]


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=at_least_one, default=5)
    parser.add_argument("--duration-s", type=seconds, default=3)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--searches", type=at_least_one, default=10, help="of each kind")
    options = parser.parse_args()
    # sys.exit() runs the clean-up of the namespaces.
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(143))
    install_peers()
    rounds, duration_s = options.rounds, options.duration_s
    wanted = options.only or PARTS
    with tempfile.TemporaryDirectory() as folder:
        pair = build_pair(Path(folder))
        gsro = find_gsro(Path(folder)) if {"one", "three"} & set(wanted) else None
        parts: dict[str, Callable[[], Iterable[Row]]] = {
            "one": lambda: one_way_rows(1, rounds, duration_s, pair, gsro),
            "three": lambda: one_way_rows(3, rounds, duration_s, pair, gsro),
            "offloads": lambda: offload_rows(rounds, duration_s),
            "echo": lambda: echo_rows(rounds, duration_s),
            "rtt": lambda: rtt_rows(rounds, duration_s),
            "pace": lambda: pace_rows(rounds, duration_s),
            "binary": binary_rows,
            "limited": lambda: limited_rows(options.searches),
            "lossy": lambda: lossy_rows(options.searches),
            "free": lambda: free_rows(options.searches),
        }
        print_table(row for name in wanted for row in parts[name]())


if __name__ == "__main__":
    main()
