"""Synthetic records that look like a run on one machine, with one of everything that goes wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from random import Random

from tunnelbench.model.cipher_speed import BLOCK_BYTES, MASKED, PLAIN, CipherSpeed
from tunnelbench.model.counters import CpuUsage, PathCounters, Ping, Window
from tunnelbench.model.plan import Direction, OptionValue, Plan, TcpTraffic, TrialSpec, TunnelSpec
from tunnelbench.model.result import (
    Check,
    Interval,
    Outcome,
    RunRecord,
    TcpMeasurement,
    TrialRecord,
    TunnelProof,
    Verdict,
)

STARTED_AT = datetime(2025, 3, 14, 9, 26, 53, tzinfo=UTC)
LINUX = {"router.linux": "6.18", "server.linux": "6.18"}
OPENVPN = {
    "router.openvpn": "2.6.14",
    "server.openvpn": "2.6.14",
    "router.openssl": "3.0.19",
    "server.openssl": "3.0.19",
}
TINC = {"router.tinc": "1.0.36", "server.tinc": "1.0.36", "router.openssl": "3.0.19", "server.openssl": "3.0.19"}


@dataclass(frozen=True)
class Nature:
    """Properties of a tunnel in these tests: its versions, and its costs at a busy router [s of CPU]."""

    versions: dict[str, str]
    cpu_s_per_million_packets: float
    user_share: float
    outcome: Outcome = Outcome.MEASURED
    reason: str = ""
    is_tester_limited: bool = False


NATURES = {
    "none": Nature(LINUX, 3.1, 0.0),
    "vxlan": Nature(LINUX, 6.4, 0.0),
    "wireguard-go": Nature({"router.wireguard-go": "0.0.20220316", "server.wireguard-go": "0.0.20220316"}, 21.0, 0.5),
    "openvpn AES-128-GCM": Nature(OPENVPN, 24.8, 0.35, is_tester_limited=True),
    "openvpn none, none": Nature(OPENVPN, 19.2, 0.2, is_tester_limited=True),
    "tinc AES-128-CBC, SHA-1": Nature(TINC, 27.5, 0.45),
    "tinc BF-CBC, SHA-1": Nature(
        TINC, 0, 0, Outcome.REFUSED, "210 of 212 outer packets were not udp port 655: the data went over TCP"
    ),
    "wireguard": Nature({}, 0, 0, Outcome.UNAVAILABLE, "the kernel's wireguard is missing on router"),
}
ENCRYPTED = {"wireguard-go", "openvpn AES-128-GCM", "tinc AES-128-CBC, SHA-1", "tinc BF-CBC, SHA-1"}
KINDS = {name: name.split()[0] for name in NATURES}
OPTIONS: dict[str, dict[str, OptionValue]] = {
    "openvpn": {"transport": "udp", "mssfix": 1492, "dco": False},
    "tinc": {"compression": 0},
}


def make_tunnel(name: str = "none") -> TunnelSpec:
    kind = KINDS.get(name, name)
    return TunnelSpec(kind, name, OPTIONS.get(kind, {}))


def make_plan(rounds: int = 3) -> Plan:
    return Plan("quick", "What this machine can do", tuple(make_tunnel(name) for name in NATURES), TcpTraffic(), rounds)


def make_spec(
    sequence: int = 1,
    round_number: int = 1,
    tunnel: str = "none",
    payload_bytes: int = 1448,
    direction: Direction = Direction.IN,
) -> TrialSpec:
    return TrialSpec(sequence, round_number, make_tunnel(tunnel), payload_bytes, direction)


def make_tcp(
    throughput_bps: float = 1e9,
    *,
    payload_bytes: int = 1448,
    duration_s: float = 10.0,
    cpu_s_per_million_packets: float = 3.1,
    user_share: float = 0.0,
    tester_busy_share: float = 0.7,
    daemon_cpu_s: float | None = None,
    physical_limit_bps: float | None = None,
    foreign_cpu_s: float = 0.02,
    ping: Ping | None = None,
    mss_bytes: int | None = None,
) -> TcpMeasurement:
    """A measurement in which all figures fit each other."""
    bytes_received = round(throughput_bps * duration_s / 8)
    data_packets = -(-bytes_received // payload_bytes)
    ack_packets = data_packets // 2
    packets = data_packets + ack_packets
    inside = 0.8
    window_s = duration_s * inside
    busy_s = cpu_s_per_million_packets * round(packets * inside) / 1e6
    return TcpMeasurement(
        duration_s=duration_s,
        bytes_received=bytes_received,
        bytes_sent=bytes_received + 3_000_000,
        retransmits=12,
        mss_bytes=payload_bytes if mss_bytes is None else mss_bytes,
        counters=PathCounters(
            data_packets=data_packets,
            data_bytes=bytes_received + data_packets * 66,
            ack_packets=ack_packets,
            forwarded_packets=packets,
            outer_expected_packets=packets,
            outer_expected_bytes=bytes_received + packets * 100,
            outer_other_packets=0,
            outer_other_bytes=0,
            wan_packets=packets,
            fragments_created=0,
            reassembled=0,
            dropped_packets=0,
        ),
        window=Window(
            duration_s=window_s,
            data_packets=round(data_packets * inside),
            ack_packets=round(ack_packets * inside),
            router_cpu=CpuUsage(
                (1,), window_s, window_s - busy_s, busy_s * user_share, busy_s * 0.3, busy_s * 0.2, 0.01
            ),
            tester_cpu=CpuUsage((0,), window_s, window_s * (1 - tester_busy_share), 1.0, 4.0, 1.5, 0.01),
            busiest_tester_share=tester_busy_share,
            daemon_cpu_s=daemon_cpu_s,
            daemon_cpu_method="schedstat" if daemon_cpu_s is not None else "",
        ),
        bracket_s=duration_s + 0.4,
        foreign_cpu_s=foreign_cpu_s,
        ping=ping or Ping(100, 100, 0.412),
        physical_limit_bps=physical_limit_bps,
        intervals=(Interval(0.0, duration_s, bytes_received, 12),),
    )


def late_window() -> Window:
    """A window in which a router of fixed speed was nearly idle, and lost a fifth of the time on its clock."""
    window = make_tcp().window
    cpu = replace(window.router_cpu, wall_s=window.duration_s, idle_s=window.duration_s * 0.95)
    return replace(window, router_cpu=cpu, router_clock_lost_s=window.duration_s / 5)


def make_trial(
    spec: TrialSpec | None = None,
    tcp: TcpMeasurement | None = None,
    *,
    checks: tuple[Check, ...] = (),
    proof: TunnelProof | None = None,
    outcome: Outcome = Outcome.MEASURED,
    reason: str = "",
) -> TrialRecord:
    spec = spec or make_spec()
    if outcome is Outcome.MEASURED and tcp is None:
        tcp = make_tcp(payload_bytes=spec.payload_bytes)
    started = STARTED_AT + timedelta(seconds=15 * spec.sequence)
    return TrialRecord(
        spec=spec,
        outcome=outcome,
        reason=reason,
        started_at=started.isoformat(),
        ended_at=(started + timedelta(seconds=12)).isoformat(),
        checks=checks,
        measurement=tcp,
        proof=proof,
        raw={"iperf3-client": {"end": {"sum_received": {"bytes": 12, "seconds": 10.02}}}, "ping": "100 received"},
    )


def make_proof(name: str = "none", *, failed: str = "") -> TunnelProof:
    verdict = Verdict.VOID if failed else Verdict.OK
    return TunnelProof(
        checks=(
            Check("ping", Verdict.OK, "3 of 3 answered", 3),
            Check("outer-protocol", verdict, failed or "212 of 212 outer packets were as expected", 3),
        ),
        versions=NATURES[name].versions if name in NATURES else {},
        configuration={"router/tunnel.conf": f"# {name}\ndev tun0\n"},
        inner_mtu_bytes=1500 if name == "none" else 1420,
        is_encrypted=name in ENCRYPTED,
        raw={"router.log": f"{name}: Initialization Sequence Completed\n"},
    )


def make_records(rounds: int = 3) -> tuple[TrialRecord, ...]:
    """A whole run, its calibration first: tester-limited and void trials, refused and unavailable tunnels."""
    noise = Random(14)
    proofs = {
        name: make_proof(name, failed=nature.reason if nature.outcome is Outcome.REFUSED else "")
        for name, nature in NATURES.items()
        if nature.outcome is not Outcome.UNAVAILABLE
    }
    plan = make_plan(rounds)
    testers_alone = [
        make_trial(
            spec,
            make_tcp(
                3.1e6 * spec.payload_bytes,
                payload_bytes=spec.payload_bytes,
                ping=Ping(0, 0, None),
                cpu_s_per_million_packets=0.5,
            ),
        )
        for spec in plan.calibrations()
    ]
    trials = [_record(spec, NATURES[spec.tunnel.name], proofs.get(spec.tunnel.name), noise) for spec in plan.trials()]
    return (*testers_alone, *trials)


def make_long_run(trials: int) -> tuple[TrialRecord, ...]:
    """Return that many trials of a few rows, as a run of many rounds has."""
    base = [record for record in make_records(1) if record.spec.round]
    return tuple(
        replace(record, spec=replace(record.spec, sequence=number + 1, round=1 + number // len(base)))
        for number, record in enumerate(islice(cycle(base), trials))
    )


def _record(spec: TrialSpec, nature: Nature, proof: TunnelProof | None, noise: Random) -> TrialRecord:
    if nature.outcome is not Outcome.MEASURED:
        checks = proof.checks if proof else ()
        return make_trial(spec, outcome=nature.outcome, reason=nature.reason, proof=proof, checks=checks)
    if (spec.round, spec.tunnel.name, spec.payload_bytes, spec.direction) == (2, "vxlan", 76, Direction.OUT):
        return make_trial(spec, outcome=Outcome.VOID, reason="iperf3 ended: unable to connect", proof=proof)
    payload = min(spec.payload_bytes, 1448 if spec.tunnel.is_baseline else 1368)
    busy = noise.uniform(0.93, 0.99) * (0.8 if nature.is_tester_limited else 1.0)
    cost = nature.cpu_s_per_million_packets * noise.uniform(0.98, 1.02)
    packets_per_s = busy * 1e6 / cost
    tester_busy = 0.97 if nature.is_tester_limited else noise.uniform(0.5, 0.8)
    is_foreign = (spec.round, spec.tunnel.name, spec.payload_bytes) == (3, "none", 1448)
    tcp = make_tcp(
        packets_per_s / 1.5 * payload * 8,
        payload_bytes=payload,
        cpu_s_per_million_packets=cost,
        user_share=nature.user_share,
        tester_busy_share=tester_busy,
        daemon_cpu_s=busy * 6.4 if nature.user_share else None,
        foreign_cpu_s=1.4 if is_foreign else 0.02,
        ping=Ping(100, 97, 212.4) if nature.user_share == 0.45 else None,
    )
    return make_trial(spec, tcp, checks=_checks(tcp, spec, is_foreign), proof=proof)


def _checks(tcp: TcpMeasurement, spec: TrialSpec, is_foreign: bool) -> tuple[Check, ...]:
    limited, share = tcp.tester_busy_share > 0.95, tcp.tester_busy_share * 100
    checks = [
        Check("packet-rate", Verdict.OK, "counted and computed rates agree within 0.2 %", 16),
        Check("testers", Verdict.DOUBTFUL if limited else Verdict.OK, f"testers {share + spec.round:.1f} % busy", 6),
    ]
    if is_foreign:
        checks.append(Check("foreign-load", Verdict.VOID, "other processes took 6.7 % of the CPUs", 12))
    if not spec.tunnel.is_baseline and spec.payload_bytes > 1368:
        checks.append(Check("payload", Verdict.NOTE, "1368 of 1448 bytes fit into a segment", 15))
    return tuple(checks)


def make_speeds() -> tuple[CipherSpeed, ...]:
    """AES on the machine of all three hosts, with its instructions and without, and what has no figure."""
    usual = {
        "machine": "this machine",
        "hosts": ("router", "client", "server"),
        "flags": ("aes", "pclmulqdq"),
        "version": "OpenSSL 3.0.19",
    }
    fast, slow = (dict.fromkeys(BLOCK_BYTES, speed * 1000000.0) for speed in (800.0, 160.0))
    name, users = "aes-128-gcm", ("openvpn AES-128-GCM",)
    return (
        CipherSpeed(algorithm=name, acceleration=PLAIN, threads=1, bytes_per_s=fast, tunnels=users, **usual),  # type: ignore[arg-type]
        CipherSpeed(algorithm=name, acceleration=MASKED, threads=1, bytes_per_s=slow, tunnels=users, **usual),  # type: ignore[arg-type]
        CipherSpeed(algorithm="bf-cbc", acceleration=PLAIN, threads=1, bytes_per_s={}, reason="unsupported", **usual),  # type: ignore[arg-type]
    )


def make_run(**changes: object) -> RunRecord:
    """A run that is done; `changes` are fields of `RunRecord`."""
    fields: dict[str, object] = {
        "run_id": "20250314-092653-quick",
        "started_at": STARTED_AT.isoformat(),
        "ended_at": (STARTED_AT + timedelta(minutes=24)).isoformat(),
        "status": "done",
        "plan_name": "quick",
        "plan_title": "What this machine can do",
        "plan_text": "rounds = 3\n[tcp]\nduration_s = 2\n",
        "testbed_name": "netns",
        "testbed_text": 'kind = "netns"\n',
        "host_facts": {
            "system": "Debian GNU/Linux 12 (bookworm)",
            "kernel": "6.18.0",
            "cpu_model": "AMD EPYC 7B13",
            "cpus": 2,
            "crypto_instructions": "aes pclmulqdq sha_ni",
            "virtual": "yes",
        },
        "trials_planned": 100,
        "trials_recorded": 100,
        "tunnelbench_version": "0.1.0",
        "notes": ("2 CPUs: the testers share one.",),
    }
    return RunRecord(**{**fields, **changes})  # type: ignore[arg-type]
