"""A run over variants of one tunnel whose parts are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from tests.unit.builders import make_proof, make_spec, make_tcp, make_trial

from tunnelbench.model.cipher_speed import BLOCK_BYTES, PLAIN, CipherSpeed
from tunnelbench.model.plan import Direction, TunnelSpec
from tunnelbench.model.result import TrialRecord

COSTS_US = {
    "forwarding": (2.0, 0.0002),
    "tunnel": (12.0, 0.0005),
    "AES-128-CBC": (0.4, 0.0015),
    "SHA1": (0.8, 0.002),
    "AES-128-GCM": (0.3, 0.0004),
}
"""Fixed and per byte cost of a part [microseconds]."""


def variant(cipher: str, auth: str, *, kind: str = "openvpn", digest_is: str = "auth", mode: str = "x") -> TunnelSpec:
    return TunnelSpec(kind, f"{kind} {cipher}/{auth}", {"mode": mode, "cipher": cipher, digest_is: auth, "mssfix": 0})


BASELINE = TunnelSpec("none", "none", {})
FOUR = tuple(variant(cipher, auth) for cipher in ("none", "AES-128-CBC") for auth in ("none", "SHA1"))


def packet_us(tunnel: TunnelSpec, size_bytes: float) -> float:
    parts = ["forwarding"]
    if not tunnel.is_baseline:
        digest = str(tunnel.options.get("auth", tunnel.options.get("digest")))
        cipher = str(tunnel.options["cipher"])
        parts += ["tunnel", cipher, "none" if cipher.endswith("GCM") else digest]
    return sum(fixed + per_byte * size_bytes for fixed, per_byte in (COSTS_US[p] for p in parts if p != "none"))


def trial(
    tunnel: TunnelSpec, payload: int, direction: Direction, number: int, *, sequence: int = 1, factor: float = 1.0
) -> TrialRecord:
    """Half an acknowledgement for each data packet; a tunnel takes 100 bytes less of a full segment."""
    carried = payload if tunnel.is_baseline else min(payload, 1348)
    cost = factor * (packet_us(tunnel, carried + 52) + 0.5 * packet_us(tunnel, 52)) / 1.5
    tcp = make_tcp(40e6, payload_bytes=carried, cpu_s_per_million_packets=cost)
    spec = replace(make_spec(sequence, number, "none", payload, direction), tunnel=tunnel)
    return make_trial(spec, tcp, proof=make_proof())


def run(
    tunnels: Sequence[TunnelSpec] = (BASELINE, *FOUR),
    payloads: Sequence[int] = (300, 1448),
    directions: Sequence[Direction] = (Direction.OUT,),
    speed_of_round: Sequence[float] = (1.0, 1.0, 1.0),
    noise: float = 0.0,
) -> list[TrialRecord]:
    """Each round slower by a factor; every trial costs what its parts do, times that, give or take `noise`."""
    chance = Random(3)
    places = [
        (tunnel, payload, direction, number)
        for number in range(1, len(speed_of_round) + 1)
        for tunnel in tunnels
        for payload in payloads
        for direction in directions
    ]
    return [
        trial(*place, sequence=sequence, factor=speed_of_round[place[-1] - 1] * chance.uniform(1 - noise, 1 + noise))
        for sequence, place in enumerate(places, 1)
    ]


def speed(algorithm: str, rate: float, **changes: object) -> CipherSpeed:
    """The same at every block."""
    found = CipherSpeed("this machine", ("router", "client"), algorithm, PLAIN, 1, dict.fromkeys(BLOCK_BYTES, rate))
    return replace(found, **changes)  # type: ignore[arg-type]


SPEEDS = (speed("aes-128-cbc", 1e9), speed("sha1", 5e8), speed("aes-128-cbc", 2e9, threads=2))
