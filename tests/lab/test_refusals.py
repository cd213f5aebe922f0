"""A tunnel that fails its proof is refused with the reason and not measured."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.lab.bench import make_plan, measure, processes_of
from tests.watcher import Watcher

from tunnelbench.model.plan import Direction, TunnelSpec
from tunnelbench.model.result import Check, Outcome, TrialRecord, Verdict
from tunnelbench.testbed.netns import NetnsTestbed
from tunnelbench.tunnel import adapter
from tunnelbench.tunnel.base import End, Tunnel
from tunnelbench.tunnel.openvpn import OpenVpn
from tunnelbench.tunnel.vxlan import Vxlan

pytestmark = pytest.mark.lab

BOTH = (Direction.IN, Direction.OUT)


def refused(testbed: NetnsTestbed, tunnel: TunnelSpec) -> TrialRecord:
    """Return the record of a tunnel that is refused. The test fails if a trial is started."""
    watcher = Watcher(at_trial=lambda spec: pytest.fail(f"{spec} was timed"))
    records = measure(testbed, make_plan(tunnel, direction=BOTH), watcher)
    assert [record.outcome for record in records] == [Outcome.REFUSED, Outcome.REFUSED], records[0].reason
    assert [record.tcp for record in records] == [None, None]
    assert records[0].reason == records[1].reason
    assert watcher.tunnels == [tunnel.name]
    assert processes_of(testbed) == []
    return records[0]


def test_tinc_with_blowfish_is_refused_by_its_outer_traffic(testbed: NetnsTestbed) -> None:
    record = refused(testbed, TunnelSpec("tinc", "tinc Blowfish", {"cipher": "bf-cbc", "digest": "sha1"}))
    assert "data travels by tcp port 655, not by udp port 655" in record.reason
    assert "digital envelope routines::unsupported" in record.reason
    assert record.proof is not None
    verdicts = {found.name: found.verdict for found in record.proof.checks}
    assert verdicts["reach"] is Verdict.OK, "it pings"
    assert verdicts["cipher"] is Verdict.OK, "and says that it uses Blowfish"
    assert verdicts["outer-protocol"] is Verdict.VOID


class DeafVxlan(Vxlan):
    """VXLAN whose server listens on another port than the router sends to."""

    def _add_device(self, end: End, *arguments: str, device: str = "") -> None:
        port = str(self.options.port + (end is self.ends.server))
        words = [port if word == str(self.options.port) else word for word in arguments]
        super()._add_device(end, *words, device=device)


class LeakingOpenVpn(OpenVpn):
    """OpenVPN that never encrypts, and claims to."""

    def _config(self, *arguments: Any) -> str:
        return super()._config(*arguments).replace(self.options.cipher, "none")

    def negotiated(self) -> tuple[Check, ...]:
        return (Check("cipher", Verdict.OK, "all is well", rule=3),)


class CompressingOpenVpn(OpenVpn):
    """OpenVPN that compresses packets although its plan asks for none."""

    def _config(self, *arguments: Any) -> str:
        return f"{super()._config(*arguments)}allow-compression yes\ncompress lz4\n"


class DetouredVxlan(Vxlan):
    """VXLAN that is up while the router still sends over the plain WAN."""

    def _route(self) -> None:
        for end, other in self.ends:
            end.host.ip("route", "add", end.reaches, "via", other.wan_address, "dev", end.wan_device)
            self._stack.callback(end.host.run, ["ip", "route", "del", end.reaches], check=False)


@pytest.fixture
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kind under which plans of this test name the adapter of the parameter."""
    adapter_class: type[Tunnel[Any]] = request.param
    monkeypatch.setitem(Tunnel._registry, "test-adapter", adapter_class)
    assert adapter("test-adapter") is adapter_class
    return "test-adapter"


@pytest.mark.parametrize("kind", [DeafVxlan], indirect=True)
def test_a_tunnel_that_comes_up_and_carries_nothing_is_refused(
    testbed: NetnsTestbed, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tunnelbench.measure.proof.ANSWER_TIMEOUT_S", 2.0)
    record = refused(testbed, TunnelSpec(kind, "deaf"))
    assert record.reason == "the tunnel came up but carries nothing: no ping was answered through it in 2 s"


@pytest.mark.parametrize("kind", [LeakingOpenVpn], indirect=True)
def test_a_tunnel_that_sends_in_the_clear_is_refused_by_the_pattern(testbed: NetnsTestbed, kind: str) -> None:
    record = refused(testbed, TunnelSpec(kind, "leaking", {"cipher": "AES-128-GCM"}))
    assert "the payload should be hidden; a known pattern was readable in 12 of 12 packets" in record.reason
    assert record.proof is not None
    assert {found.name for found in record.proof.checks if found.verdict is Verdict.VOID} == {
        "payload-pattern",
        "outer-length",
    }


@pytest.mark.parametrize("kind", [CompressingOpenVpn], indirect=True)
def test_a_tunnel_that_compresses_is_refused_with_the_lengths_that_were_seen(testbed: NetnsTestbed, kind: str) -> None:
    record = refused(testbed, TunnelSpec(kind, "compressing", {"cipher": "AES-128-GCM"}))
    assert re.search(r"the packets on udp port 1194 have at most \d+ bytes, and those of the pings", record.reason)
    assert "the tunnel compresses them, or they travel elsewhere" in record.reason
    assert "no data was seen" not in record.reason


@pytest.mark.parametrize("kind", [DetouredVxlan], indirect=True)
def test_a_tunnel_that_nothing_is_routed_through_is_refused(testbed: NetnsTestbed, kind: str) -> None:
    record = refused(testbed, TunnelSpec(kind, "detoured"))
    assert "router routes 198.18.4.1 through wan, expected vxlan0" in record.reason
    assert "data travels by icmp, not by udp port 4789" in record.reason


def test_a_program_that_is_missing_makes_a_tunnel_unavailable_with_what_to_install(testbed: NetnsTestbed) -> None:
    spec = TunnelSpec("openvpn", "other", {"program": "/nonexistent/openvpn"})
    (record,) = measure(testbed, make_plan(spec))
    assert record.outcome is Outcome.UNAVAILABLE
    assert record.reason == ("on the router: the program /nonexistent/openvpn is missing (apt-get install openvpn)")


class ImpossibleVxlan(Vxlan):
    """A tunnel of a type that no kernel knows."""

    def _add_device(self, end: End, *arguments: str, device: str = "") -> None:
        super()._add_device(end, "type", "no-such-type", device=device)


@pytest.mark.parametrize("kind", [ImpossibleVxlan], indirect=True)
def test_a_command_that_fails_while_a_tunnel_comes_up_makes_it_refused(testbed: NetnsTestbed, kind: str) -> None:
    (record,) = measure(testbed, make_plan(TunnelSpec(kind, "impossible")))
    assert record.outcome is Outcome.REFUSED
    assert record.reason == (
        f"`ip -n tb-{testbed.mark}-router link add vxlan0 type no-such-type` ended with status 2: "
        "Error: Unknown device type."
    )


def test_a_daemon_that_does_not_come_up_is_refused_with_its_own_words(testbed: NetnsTestbed) -> None:
    record = refused(testbed, TunnelSpec("openvpn", "echo", {"program": "false"}))
    assert re.fullmatch(
        r"openvpn: false on the (router|server) ended while the tunnel came up; last: no output"
        r"(; false on the (router|server) ended \d\.\d\d s later; last: no output)?",
        record.reason,
    )
    assert set(record.raw.values()) == {""}
