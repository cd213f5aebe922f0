"""Ciphers and digests by themselves: what an accelerator gives, where offload loses, and their part in a packet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tunnelbench.analysis.cost import TCP_HEADERS_BYTES
from tunnelbench.analysis.numbers import percent, significant
from tunnelbench.analysis.quiet import WORTH_TELLING_S
from tunnelbench.analysis.summary import Row
from tunnelbench.model.cipher_speed import MASKED, PLAIN, CipherSpeed
from tunnelbench.model.result import Verdict

PACKET_BLOCK_BYTES = 1420
"""The block that stands for a full packet."""

AES_FLAG = "aes"


def remarks(speeds: Sequence[CipherSpeed], rows: Sequence[Row]) -> tuple[str, ...]:
    """What follows from the speeds, in sentences."""
    measured = {speed.key: speed for speed in speeds if speed.bytes_per_s}
    return (
        *_failures(speeds),
        *_disturbed(speeds),
        *_accelerators(speeds, measured),
        *_offload(measured),
        *_beside_tunnels(measured, rows),
    )


def _failures(speeds: Sequence[CipherSpeed]) -> list[str]:
    failed = [speed for speed in speeds if speed.reason]
    return [f"{speed.algorithm}, {speed.acceleration}, threads: {speed.threads}: {speed.reason}" for speed in failed]


def _disturbed(speeds: Sequence[CipherSpeed]) -> list[str]:
    """What other load cost: the time waited for it to end, and the speeds that are to be doubted."""
    waited_s = sum(speed.waited_for_quiet_s or 0.0 for speed in speeds)
    waits = [f"{waited_s:.0f} s went by in waiting for other load to end"] if waited_s >= WORTH_TELLING_S else []
    return waits + [
        f"{speed.algorithm}, {speed.acceleration}, threads: {speed.threads}: {check.verdict}: {check.reason} "
        f"(rule {check.rule})"
        for speed in speeds
        for check in speed.checks
        if check.verdict is not Verdict.OK
    ]


def _accelerators(
    speeds: Sequence[CipherSpeed], measured: Mapping[tuple[str, str, str, int], CipherSpeed]
) -> list[str]:
    """What each machine says that it has, and what it makes of AES."""
    found = []
    for machine, first in {speed.machine: speed for speed in reversed(speeds)}.items():
        hosts = ", ".join(first.hosts)
        told = f"its CPU tells {' '.join(first.flags)}" if first.flags else "its CPU tells no instructions for ciphers"
        found.append(f"{machine} ({hosts}), {first.version}: {told}")
        for (own, algorithm, acceleration, threads), masked in measured.items():
            plain = measured.get((own, algorithm, PLAIN, threads))
            if own == machine and acceleration == MASKED and threads == 1 and plain:
                times = plain.bytes_per_s[PACKET_BLOCK_BYTES] / masked.bytes_per_s[PACKET_BLOCK_BYTES]
                used = "" if times > 1 else ", so they were not used"
                found.append(
                    f"{algorithm} on {machine}: {significant(times, 3)} times as fast with the AES instructions as "
                    f"without, at {PACKET_BLOCK_BYTES} bytes{used}"
                )
        if AES_FLAG not in first.flags and any(speed.algorithm.startswith("aes") for speed in speeds):
            found.append(f"{machine}: nothing to mask, AES is done without instructions of its own")
    return found


def _offload(measured: Mapping[tuple[str, str, str, int], CipherSpeed]) -> list[str]:
    """Where an engine is slower than the CPU by itself, which is so where handing over costs more than the work."""
    found = []
    for (machine, algorithm, acceleration, threads), engine in measured.items():
        plain = measured.get((machine, algorithm, PLAIN, threads))
        if not acceleration.startswith("engine ") or plain is None:
            continue
        both = [block for block in engine.bytes_per_s if block in plain.bytes_per_s]
        slower = [block for block in both if engine.bytes_per_s[block] < plain.bytes_per_s[block]]
        if slower:
            until = "every size" if len(slower) == len(both) else ", ".join(map(str, slower)) + " bytes"
            ratio = engine.bytes_per_s[slower[0]] / plain.bytes_per_s[slower[0]]
            found.append(
                f"{algorithm}, {acceleration}, threads: {threads}: slower than without at {until}; "
                f"{percent(ratio)} of the speed at {slower[0]} bytes"
            )
    return found


def _beside_tunnels(measured: Mapping[tuple[str, str, str, int], CipherSpeed], rows: Sequence[Row]) -> list[str]:
    """How much of a full packet's cost on the router its cipher and digest would be."""
    found = []
    own = [s for s in measured.values() if s.acceleration == PLAIN and s.threads == 1 and "router" in s.hosts]
    for row in rows:
        used = [speed for speed in own if row.tunnel.name in speed.tunnels]
        largest = max((other.payload_bytes for other in rows if other.tunnel == row.tunnel), default=0)
        cost = row.figures.cpu_s_per_million_packets if row.figures else None
        if not used or cost is None or row.figures is None or row.payload_bytes != largest:
            continue
        payload = row.figures.payload_bytes.median if row.figures.payload_bytes else row.payload_bytes
        size = payload + TCP_HEADERS_BYTES
        alone_us = sum(size / speed.bytes_per_s[PACKET_BLOCK_BYTES] for speed in used) * 1e6
        names = " and ".join(speed.algorithm for speed in used)
        found.append(
            f"{row.tunnel.name}, {row.payload_bytes} {row.direction}: {names} alone would take "
            f"{significant(alone_us, 3)} us for a full packet; the router "
            f"spends {significant(cost.median, 3)} us on a packet, acknowledgements counted"
        )
    return found
