"""The proof of a tunnel, repeated after each of its trials: it shows that the tunnel still has the same cipher and the
same path (rule 3)."""

from __future__ import annotations

from typing import Any

from tunnelbench.host.command import CommandFailed
from tunnelbench.measure.proof import attempts, gather, judge_packets, proof_payloads_bytes
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.result import Check, Verdict, reasons_of_void
from tunnelbench.testbed.base import Testbed
from tunnelbench.tunnel.base import Tunnel

PROOF_AFTER = "proof-after"


def prove_again(testbed: Testbed, tunnel: Tunnel[Any], *, is_soak: bool = False) -> Check:
    """Repeat parts (b) to (d) of the proof after a trial, with one ping of each size, and return their check.

    A soak is at most doubtful, because its series also shows the time before the change.
    """
    try:
        verdict, reason = _repeat(testbed, tunnel)
    except (TrialFailed, CommandFailed) as error:
        verdict, reason = Verdict.DOUBTFUL, f"the proof could not be repeated after the trial: {error}"
    if is_soak and verdict is Verdict.VOID:
        verdict = Verdict.DOUBTFUL
    return Check(PROOF_AFTER, verdict, reason, rule=3)


def _repeat(testbed: Testbed, tunnel: Tunnel[Any]) -> tuple[Verdict, str]:
    pieces, sizes = 0, proof_payloads_bytes(tunnel)
    if tunnel.has_exact_outer_packets:
        pieces = max(len(tunnel.outer_packets_bytes(size)) for size in sizes)
    unproven = list(tunnel.client_devices or ("",))
    for _ in attempts():
        while unproven:
            if tunnel.has_died:
                return Verdict.DOUBTFUL, "the proof could not be repeated after the trial: the tunnel has ended"
            device, version = unproven[0], tunnel.inside
            evidence = gather(testbed, sizes, 1, packets_per_ping=2 * pieces, inside=version, device=device)
            wrong = reasons_of_void((*judge_packets(evidence, tunnel, is_after_trial=True), *tunnel.negotiated()))
            if wrong or not evidence.answered:
                break
            unproven.pop(0)
        else:
            return Verdict.OK, "the tunnel passed its proof again after the trial"
    if not evidence.answered:
        return Verdict.DOUBTFUL, "the proof could not be repeated after the trial: no ping was answered"
    return Verdict.VOID, f"the tunnel no longer passed its proof after the trial: {'; '.join(wrong)}"
