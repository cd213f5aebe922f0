"""Scope of an answer: the machines that its figures apply to, and what the run did not measure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tunnelbench.analysis.algorithms import CIPHER_OPTION, algorithms_of
from tunnelbench.analysis.answer import commands
from tunnelbench.analysis.answer.figures import ShownFigures
from tunnelbench.analysis.answer.tunnels import REFERENCES_MBPS, TunnelAnswer
from tunnelbench.analysis.answer.udp import UdpAnswer
from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.model.shipped import DEFAULT_TESTBED, FIRST_PLAN
from tunnelbench.model.text import joined

ONLY_THIS_MACHINE = "The figures apply to this machine only, not to a device."
COMPARE_ONLY = "Compare tunnels only: the figures are not those of a device."
COMPARE_WITHIN_DIRECTION = "Compare tunnels only, in one direction: the figures are not those of a device."
"""The client merges what has arrived and the end of the tunnel does not, so that TCP up has more ACKs than down."""
AES_INSTRUCTIONS = "This CPU has AES instructions, which make AES cheaper."

KINDS_IN_KERNEL = {"wireguard-go": "wireguard", "boringtun": "wireguard", "ipsec-userspace": "ipsec"}
"""Kinds of tunnels whose data a program carries, with the kind that carries the same protocol in the kernel."""


def machine_scope(run: RunRecord, tunnels: Sequence[TunnelAnswer], shown: ShownFigures) -> Iterator[str]:
    """Yield sentences on the machine that is the router and the testers as well."""
    has_both_directions = any(each.tunnel.has_tunnel and len(each.measured_directions) > 1 for each in tunnels)
    compare = COMPARE_WITHIN_DIRECTION if has_both_directions else COMPARE_ONLY
    yield compare if shown.every else ONLY_THIS_MACHINE
    ciphers = {algorithms_of(each.tunnel.options).get(CIPHER_OPTION, "") for each in tunnels if each.is_encrypted}
    uses_aes = {cipher.upper().startswith("AES") for cipher in ciphers}
    is_own_cpu = "guest_board" not in run.host_facts
    if is_own_cpu and uses_aes == {True, False} and "aes" in str(run.host_facts.get("crypto_instructions", "")).split():
        yield AES_INSTRUCTIONS


def not_measured(
    run: RunRecord,
    records: Sequence[TrialRecord],
    tunnels: Sequence[TunnelAnswer],
    udp: Sequence[UdpAnswer],
    *,
    has_soaks: bool = False,
) -> Iterator[str]:
    """Yield sentences on what the choice of a tunnel needs and this run lacks, with the plan or command that has it."""
    every: list[TunnelAnswer | UdpAnswer] = [*tunnels, *udp]
    ways = {way for each in every for way in each.measured_directions}
    lacking = [f"traffic {way}" for way in ("down", "up") if ways and way not in ways]
    if (udp or has_soaks) and not tunnels:  # trials of TCP that do not count have a warning of their own
        lacking.append(f"CPU time at {REFERENCES_MBPS[0]:g} Mbit/s of TCP")
    if lacking:
        yield f"Not measured: {joined(lacking)}; the plan {FIRST_PLAN} has that."
    kind, in_kernel = unmeasured_in_kernel(records)
    if kind:
        is_planned = any(record.spec.tunnel.kind == in_kernel for record in records)
        command = commands.on_other_kernel(run, is_planned=is_planned).command
        where = f" ({command})" if run.testbed_name.startswith(DEFAULT_TESTBED) else ""
        yield f"Not measured: {in_kernel} in the kernel{where}."


def unmeasured_in_kernel(records: Sequence[TrialRecord]) -> tuple[str, str]:
    """Return a kind of tunnel whose data a program carries, and the kind in the kernel that no trial measured.

    Both are empty if there is none.
    """
    measured = {record.spec.tunnel.kind for record in records if record.counts}
    found = [pair for pair in KINDS_IN_KERNEL.items() if pair[0] in measured and pair[1] not in measured]
    return found[0] if found else ("", "")
