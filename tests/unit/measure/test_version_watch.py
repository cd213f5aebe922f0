"""Versions of programs that change during a run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.builders import make_proof, make_spec, make_trial

from tunnelbench import __version__
from tunnelbench.analysis.summary import joined_versions
from tunnelbench.measure.version_watch import VersionWatch
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.result import TrialRecord, TunnelProof, Verdict
from tunnelbench.report.table import version_lines

OLD = {"router.openvpn": "2.6.14", "server.openvpn": "2.6.14"}
NEW = {"router.openvpn": "2.7.0", "server.openvpn": "2.6.14"}


def proof(versions: dict[str, str]) -> TunnelProof:
    return replace(make_proof(), versions=versions)


def record(versions: dict[str, str], sequence: int = 1) -> TrialRecord:
    return make_trial(make_spec(sequence), proof=proof(versions))


def test_a_version_that_changes_in_mid_run_makes_later_trials_doubtful() -> None:
    watch = VersionWatch(__version__)
    first = record(OLD)
    name = first.spec.tunnel.name
    assert watch.check(name, OLD) == ()
    watch.note(first)
    assert watch.check(name, OLD) == ()
    watch.note(record(NEW, 2))
    (check,) = watch.check(name, NEW)
    assert (check.name, check.verdict, check.rule) == ("versions", Verdict.DOUBTFUL, 21)
    assert check.reason == "in earlier trials router.openvpn was 2.6.14, and is 2.7.0 now"
    assert watch.check("another tunnel", NEW) == ()


def test_trials_of_another_version_of_tunnelbench_are_doubtful() -> None:
    (check,) = VersionWatch("0.0.1").check("none", {})
    assert check.reason == f"in earlier trials TunnelBench was 0.0.1, and is {__version__} now"


def test_a_resumed_run_refuses_programs_that_have_changed() -> None:
    watch = VersionWatch(__version__)
    first = record(OLD)
    watch.note(first)
    name = first.spec.tunnel.name
    watch.require_same(name, OLD)
    watch.require_same("a tunnel without trials", NEW)
    with pytest.raises(WrongInput) as caught:
        watch.require_same(name, NEW)
    assert caught.value.message == (
        f"{name}: programs have changed since the run began: in earlier trials router.openvpn was 2.6.14, and is 2.7.0"
        " now"
    )
    assert "--accept-versions" in caught.value.hint


def test_a_generator_is_compared_with_the_trials_of_all_tunnels() -> None:
    watch = VersionWatch(__version__)
    watch.note(record({**OLD, "client.iperf3": "3.12"}))
    assert watch.check("another tunnel", {**NEW, "client.iperf3": "3.12", "client.tunnelbench-engine": "0.1.0"}) == ()
    (check,) = watch.check("another tunnel", {"client.iperf3": "3.18"})
    assert check.reason == "in earlier trials client.iperf3 was 3.12, and is 3.18 now"
    with pytest.raises(WrongInput, match=r"client\.iperf3 was 3\.12, and is 3\.18 now"):
        watch.require_same("another tunnel", {"client.iperf3": "3.18"})


def test_a_generator_is_compared_with_the_calibration() -> None:
    watch = VersionWatch(__version__)
    watch.note_generators({"client.iperf3": "3.12"})
    watch.note(record({**OLD, "client.iperf3": "3.18"}))
    (check,) = watch.check("a tunnel", {"client.iperf3": "3.18"})
    assert check.reason == "in earlier trials client.iperf3 was 3.12, and is 3.18 now"


def test_a_report_names_the_programs_of_the_tunnel_and_no_generator() -> None:
    assert version_lines({**OLD, "client.iperf3": "3.12"}) == ("openvpn 2.6.14 (2.6.14)",)


def test_a_row_has_all_versions_of_its_own_trials() -> None:
    assert joined_versions([record(OLD), record(NEW, 2), record(OLD, 3)]) == {
        "router.openvpn": "2.6.14, 2.7.0",
        "server.openvpn": "2.6.14",
    }
    assert joined_versions([]) == {}
