"""Remarks on the speed of ciphers and digests: CPU instructions, offload engines, part of the CPU time of a packet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tunnelbench.analysis.background_load import SHORTEST_WAIT_S, waited
from tunnelbench.analysis.cost_components import is_router_speed
from tunnelbench.analysis.number_format import percent, significant
from tunnelbench.analysis.summary import Row
from tunnelbench.model.cipher_speed import MASKED, PLAIN, CipherSpeed
from tunnelbench.model.conditions import can_shrink
from tunnelbench.model.frames import tcp_packet_bytes
from tunnelbench.model.result import Verdict

FULL_PACKET_BLOCK_BYTES = 1420
"""Block size that represents a full packet [bytes]."""

AES_FLAG = "aes"

MeasuredSpeeds = Mapping[tuple[str, str, str, int], CipherSpeed]
"""Speeds that were measured, by machine, algorithm, acceleration and threads."""


def cipher_remarks(speeds: Sequence[CipherSpeed], rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the statements that follow from the speeds."""
    measured = {speed.key: speed for speed in speeds if speed.bytes_per_s}
    return (
        *(f"{_label(speed)}: {speed.reason}" for speed in speeds if speed.reason),
        *_disturbed(speeds),
        *_accelerators(speeds, measured),
        *_offload(measured),
        *_share_of_packet(speeds, rows),
    )


def _label(speed: CipherSpeed) -> str:
    return f"{speed.algorithm}, {speed.acceleration}, threads: {speed.threads}"


def _disturbed(speeds: Sequence[CipherSpeed]) -> list[str]:
    """Return the effect of background load: the time waited for it to end, and the checks that are not ok."""
    waited_s = sum(speed.waited_for_quiet_s or 0.0 for speed in speeds)
    waits = [waited(waited_s).rstrip(".")] if waited_s >= SHORTEST_WAIT_S else []
    return waits + [
        f"{_label(speed)}: {check.verdict}: {check.reason} (rule {check.rule})"
        for speed in speeds
        for check in speed.checks
        if check.verdict is not Verdict.OK
    ]


def _accelerators(speeds: Sequence[CipherSpeed], measured: MeasuredSpeeds) -> list[str]:
    """Return the cipher instructions of each machine and the speed-up of AES that they give."""
    found = []
    for machine, first in {speed.machine: speed for speed in reversed(speeds)}.items():
        hosts = ", ".join(first.hosts)
        flags = " ".join(first.flags) or "none"
        found.append(f"{machine} ({hosts}), {first.version}: cipher instructions of the CPU: {flags}")
        for (own, algorithm, acceleration, threads), masked in measured.items():
            plain = measured.get((own, algorithm, PLAIN, threads))
            if own == machine and acceleration == MASKED and threads == 1 and plain:
                block = FULL_PACKET_BLOCK_BYTES
                times = plain.bytes_per_s[block] / masked.bytes_per_s[block]
                used = "" if times > 1 else ", so they were not used"
                found.append(
                    f"{algorithm} on {machine}: {significant(times, 3)} times as fast with the AES instructions as "
                    f"without, at {block} bytes{used}"
                )
        if AES_FLAG not in first.flags and any(speed.algorithm.startswith("aes") for speed in speeds):
            found.append(f"{machine}: the CPU has no AES instructions, so none were masked")
    return found


def _offload(measured: MeasuredSpeeds) -> list[str]:
    """Report engines that are slower than the CPU, because handing over a block takes longer than the cipher."""
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
                f"{_label(engine)}: slower than without at {until}; {percent(ratio)} of the speed at {slower[0]} bytes"
            )
    return found


def _share_of_packet(speeds: Sequence[CipherSpeed], rows: Sequence[Row]) -> list[str]:
    """Compare the time of cipher and digest for a full packet with the router's CPU time per packet."""
    found = []
    own = [speed for speed in speeds if is_router_speed(speed)]
    for row in rows:
        used = [speed for speed in own if row.tunnel.name in speed.tunnels]
        largest = max((other.payload_bytes for other in rows if other.tunnel == row.tunnel), default=0)
        cost = row.figures.cpu_s_per_million_packets if row.figures else None
        if not used or cost is None or row.figures is None or row.payload_bytes != largest:
            continue
        conditions = row.tunnel.conditions
        if can_shrink(conditions.content, conditions.write_bytes):  # a tunnel that compresses encrypts fewer bytes
            continue
        payload = row.figures.payload_bytes.median if row.figures.payload_bytes else row.payload_bytes
        size = tcp_packet_bytes(round(payload), row.tunnel.conditions.inside.header_bytes)
        alone_us = sum(size / speed.bytes_per_s[FULL_PACKET_BLOCK_BYTES] for speed in used) * 1e6
        names = " and ".join(speed.algorithm for speed in used)
        found.append(
            f"{row.tunnel.name}, {row.payload_bytes} {row.direction.label}: {names} alone takes "
            f"{significant(alone_us, 3)} µs for a full packet; the router spends {significant(cost.median, 3)} µs per "
            "packet, acknowledgements included"
        )
    return found
