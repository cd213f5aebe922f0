"""The proof that is repeated after a trial."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.measure.test_proof import INNER_BYTES, PATTERN, Claimed, crossing

from tunnelbench.host.command import CommandFailed
from tunnelbench.measure import proof, repeated_proof
from tunnelbench.measure.capture import Packet
from tunnelbench.measure.proof import Evidence
from tunnelbench.measure.repeated_proof import prove_again
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.result import Check, Verdict


class Running(Claimed):
    """A tunnel that is up; `reported` is what it says of its cipher."""

    has_died = False
    reported: tuple[Check, ...] = ()

    def negotiated(self) -> tuple[Check, ...]:
        return self.reported


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "SETTLE_TIMEOUT_S", 0.0)


def prove(monkeypatch: pytest.MonkeyPatch, *attempts: Any, tunnel: Any = None, is_soak: bool = False) -> Check:
    """Return the check of attempts that capture these packets, or raise these errors; the last one is repeated."""
    left = list(attempts)

    def gather(*_: object, **__: object) -> Evidence:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return Evidence(tuple(found), PATTERN, 2 if found else 0, INNER_BYTES)

    monkeypatch.setattr(repeated_proof, "gather", gather)
    return prove_again(None, tunnel or Running(), is_soak=is_soak)  # type: ignore[arg-type]


def pings(content: bytes = b"") -> list[Packet]:
    return [packet for size in INNER_BYTES for packet in crossing(size, content)]


def test_a_tunnel_that_is_as_before_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    check = prove(monkeypatch, pings())
    assert (check.name, check.verdict, check.rule) == ("proof-after", Verdict.OK, 3), check.reason


def test_a_tunnel_that_no_longer_hides_the_payload_is_void(monkeypatch: pytest.MonkeyPatch) -> None:
    check = prove(monkeypatch, pings(PATTERN))
    assert check.verdict is Verdict.VOID
    assert check.reason == (
        "the tunnel no longer passed its proof after the trial: the payload should be hidden; a known pattern was "
        "readable in 4 of 4 packets"
    )


def test_a_soak_is_doubtful_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    assert prove(monkeypatch, pings(PATTERN), is_soak=True).verdict is Verdict.DOUBTFUL


def test_a_tunnel_that_reports_another_cipher_is_void(monkeypatch: pytest.MonkeyPatch) -> None:
    tunnel = Running()
    tunnel.reported = (Check("cipher", Verdict.VOID, "asked for AES, in use: none", rule=3),)
    check = prove(monkeypatch, pings(), tunnel=tunnel)
    assert (check.verdict, check.reason.endswith("asked for AES, in use: none")) == (Verdict.VOID, True)


def test_late_packets_of_the_trial_and_one_lost_ping_do_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    late = [*pings(), *crossing(1400)]
    assert prove(monkeypatch, late, pings()[:3], pings()).verdict is Verdict.OK


@pytest.mark.parametrize("error", [TrialFailed("tcpdump does not start"), CommandFailed(["ip"], "no device", "")])
def test_a_proof_that_cannot_be_repeated_is_doubtful(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    check = prove(monkeypatch, error)
    assert check.verdict is Verdict.DOUBTFUL
    assert str(error) in check.reason


def test_every_client_of_a_server_is_proven_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def gather(*_: object, device: str, **__: object) -> Evidence:
        asked.append(device)
        answered = 0 if asked.count("tun1") == 1 and device == "tun1" else 2
        return Evidence(tuple(pings()) if answered else (), PATTERN, answered, INNER_BYTES)

    monkeypatch.setattr(repeated_proof, "gather", gather)
    check = prove_again(None, Running(client_devices=("tun0", "tun1", "tun2")))  # type: ignore[arg-type]
    assert check.verdict is Verdict.OK
    assert asked == ["tun0", "tun1", "tun1", "tun2"], "one that was lost is tried again"


def test_a_tunnel_that_answers_no_ping_or_has_ended_is_doubtful(monkeypatch: pytest.MonkeyPatch) -> None:
    assert prove(monkeypatch, []).reason.endswith("no ping was answered")
    tunnel = Running()
    tunnel.has_died = True
    check = prove(monkeypatch, pings(), tunnel=tunnel)
    assert (check.verdict, check.reason.endswith("the tunnel has ended")) == (Verdict.DOUBTFUL, True)
