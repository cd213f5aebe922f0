"""Decides from stored facts if a tunnel encrypts its packets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tunnelbench.analysis.algorithms import CIPHER_OPTION, NO_ALGORITHM, algorithms_of
from tunnelbench.model.plan import CALIBRATION_KIND, TunnelSpec
from tunnelbench.model.result import TrialRecord


def states_encryption(options: Mapping[str, object]) -> bool | None:
    """Return whether the options, or the columns of a published table, name a cipher; None if they do not say.

    fastd calls it `null` if a method has no cipher, and adds a digest to it, such as in `null+salsa2012+umac`.
    """
    cipher = algorithms_of(options).get(CIPHER_OPTION)
    return None if cipher is None else cipher.lower().partition("+")[0] not in {NO_ALGORITHM, "null"}


def lacks_digest(options: Mapping[str, object]) -> bool:
    """Return whether the options, or the columns of a published table, say that no digest protects the packets.

    fastd calls a cipher without a digest `cipher-test`.
    """
    stated = algorithms_of(options)
    cipher = stated.get(CIPHER_OPTION, "").lower()
    return stated.get("digest", "").lower() == NO_ALGORITHM or cipher.endswith("+cipher-test")


def is_encrypted(tunnel: TunnelSpec, records: Iterable[TrialRecord]) -> bool | None:
    """Return whether a tunnel encrypts, by the proofs of its trials and else by its options; None if unknown."""
    if not tunnel.has_tunnel or tunnel.kind == CALIBRATION_KIND:
        return False
    proven = [record.proof.is_encrypted for record in records if record.proof]
    known = [each for each in proven if each is not None]
    return all(known) if known else states_encryption(tunnel.options)
