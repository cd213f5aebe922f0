"""Several clients of one server, on a line that gives each of them a known part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.lab.bench import check, make_plan, make_testbed, measure, processes_of

from tunnelbench.measure.router_filter import FILTER_CHECK
from tunnelbench.model.plan import Direction, TunnelSpec
from tunnelbench.model.result import Outcome, TcpMeasurement, TrialRecord, Verdict
from tunnelbench.model.testbed import ROAD_WARRIOR
from tunnelbench.testbed.netns import NetnsTestbed

pytestmark = pytest.mark.lab

LINE_MBPS = 20


@contextmanager
def line_with_parts(testbed: NetnsTestbed, parts_mbps: Sequence[float]) -> Iterator[None]:
    """Cap the server's line at LINE_MBPS while the block runs; each client has a guaranteed part of it (HTB)."""
    server, device = testbed.server, testbed.wan_device

    def tc(*words: str) -> None:
        server.run(["tc", *words])

    tc("qdisc", "add", "dev", device, "root", "handle", "1:", "htb", "default", "99")
    tc("class", "add", "dev", device, "parent", "1:", "classid", "1:1", "htb", "rate", f"{LINE_MBPS}mbit")
    tc("class", "add", "dev", device, "parent", "1:", "classid", "1:99", "htb", "rate", "1000mbit")
    rules = []
    for number, part_mbps in enumerate(parts_mbps, start=1):
        own = f"1:{10 + number}"
        rate = ["rate", f"{part_mbps}mbit", "ceil", f"{LINE_MBPS}mbit"]
        tc("class", "add", "dev", device, "parent", "1:1", "classid", own, "htb", *rate)
        rules.append(f'ip daddr 198.18.6.{number} meta priority set "{own}"')
    chain = f"chain leaving {{ type filter hook postrouting priority 0; {'; '.join(rules)}; }}"
    server.run(["nft", "-f", "-"], stdin=f"table ip parts {{\n{chain}\n}}\n")
    try:
        yield
    finally:
        tc("qdisc", "del", "dev", device, "root")
        server.run(["nft", "delete", "table", "ip", "parts"])


def require_clients(record: TrialRecord, count: int) -> TcpMeasurement:
    """Return the figures of a trial whose tunnel is proven for each of its clients."""
    assert record.outcome is Outcome.MEASURED, record.reason
    assert record.proof is not None
    assert {found.reason for found in record.proof.checks if found.verdict is not Verdict.OK} == set()
    assert f"{count} of {count} client" in " ".join(found.reason for found in record.proof.checks)
    assert {found.reason for found in record.checks if found.verdict is Verdict.VOID and found.rule != 12} == set()
    assert check(record, "proof-after").verdict is Verdict.OK
    assert record.tcp is not None
    assert len(record.tcp.clients) == count
    return record.tcp


def arrived_bytes(record: TrialRecord, device: str) -> int:
    """Return how many bytes the client's device received in a trial, by the kernel's counter."""
    before, after = (record.raw[name]["client"]["devices"][device] for name in ("counters_before", "counters_after"))
    return int(after["rx_bytes"] - before["rx_bytes"])


@pytest.mark.parametrize(
    ("kind", "parts_mbps", "shares", "index"),
    [
        ("openvpn", (10, 10), (0.5, 0.5), 1.0),
        ("openvpn", (16, 4), (0.8, 0.2), 0.735),
        ("wireguard-go", (4, 4, 4, 4, 4), (0.2,) * 5, 1.0),
    ],
)
def test_clients_on_a_capped_line_get_the_parts_that_the_line_gives_them(
    kind: str, parts_mbps: tuple[float, ...], shares: tuple[float, ...], index: float, tmp_path: Path
) -> None:
    with make_testbed(tmp_path, topology=ROAD_WARRIOR) as testbed, line_with_parts(testbed, parts_mbps):
        tunnel = TunnelSpec(kind, kind, {"clients": len(parts_mbps)})
        (record,) = measure(testbed, make_plan(tunnel, direction=(Direction.IN,), payload_bytes=(1200,), duration_s=5))
        tcp = require_clients(record, len(parts_mbps))
        assert tcp.client_shares == pytest.approx(shares, rel=0.1)
        assert tcp.jain_index == pytest.approx(index, abs=0.05)
        assert LINE_MBPS * 0.8 < tcp.throughput_bps / 1e6 < LINE_MBPS
        devices = testbed.client.ip("-o", "link").stdout
        assert "tun" not in devices, "no device of a client is left"
        assert "wg" not in devices
        assert processes_of(testbed) == []


def test_the_share_of_each_client_is_that_of_its_device(tmp_path: Path) -> None:
    with make_testbed(tmp_path, topology=ROAD_WARRIOR) as testbed:
        tunnel = TunnelSpec("openvpn", "three", {"clients": 3})
        (record,) = measure(testbed, make_plan(tunnel, direction=(Direction.IN,), payload_bytes=(1200,), duration_s=3))
        tcp = require_clients(record, 3)
        counted = [arrived_bytes(record, f"tun{number}") for number in range(3)]
        assert tcp.client_shares == pytest.approx([each / sum(counted) for each in counted], rel=0.05)
        assert tcp.bytes_received == sum(client.bytes_received for client in tcp.clients)


def test_one_client_of_a_server_is_a_tunnel_like_any_other(tmp_path: Path) -> None:
    with make_testbed(tmp_path, topology=ROAD_WARRIOR) as testbed:
        (record,) = measure(testbed, make_plan(TunnelSpec("openvpn", "one", {"clients": 1})))
        tcp = require_clients(record, 1)
        assert tcp.client_shares == (1.0,)
        assert tcp.throughput_bps == tcp.clients[0].throughput_bps


def test_the_packet_filter_holds_for_every_client_of_the_server(tmp_path: Path) -> None:
    with make_testbed(tmp_path, topology=ROAD_WARRIOR) as testbed:
        for firewall, rules in (("stateful", 0), ("stateful-nat", 3), ("none", 10)):
            tunnel = TunnelSpec("wireguard-go", "filtered", {"clients": 2, "firewall": firewall, "rules": rules})
            (record,) = measure(testbed, make_plan(tunnel, payload_bytes=(1200,), duration_s=1))
            require_clients(record, 2)
            assert check(record, FILTER_CHECK).verdict is Verdict.OK, check(record, FILTER_CHECK).reason


@pytest.mark.parametrize("kind", ["openvpn", "wireguard-go"])
def test_ipv6_can_carry_the_tunnels_of_several_clients(kind: str, tmp_path: Path) -> None:
    with make_testbed(tmp_path, topology=ROAD_WARRIOR) as testbed:
        tunnel = TunnelSpec(kind, kind, {"clients": 2, "outside": "ipv6"})
        (record,) = measure(testbed, make_plan(tunnel, payload_bytes=(1200,)))
        require_clients(record, 2)
        assert record.proof is not None
        outer = next(found.reason for found in record.proof.checks if found.name == "outer-protocol")
        assert outer.endswith("over IPv6")


def test_without_a_road_warrior_the_trial_is_unavailable(testbed: NetnsTestbed) -> None:
    (record,) = measure(testbed, make_plan(TunnelSpec("openvpn", "two", {"clients": 2})))
    assert record.outcome is Outcome.UNAVAILABLE
    assert 'topology = "road-warrior"' in record.reason
