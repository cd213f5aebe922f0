"""The ends of a tunnel, by the topology of the testbed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tunnelbench.measure.live_tunnel import tunnel_ends
from tunnelbench.model.testbed import GATEWAY_PAIR, ROAD_WARRIOR, ROUTER_SERVER, TestbedSpec
from tunnelbench.testbed.netns import NetnsTestbed


@pytest.mark.parametrize(
    ("topology", "server", "is_target_behind"),
    [(ROUTER_SERVER, "server", False), (ROAD_WARRIOR, "router", True), (GATEWAY_PAIR, "gateway", True)],
)
def test_only_a_server_is_the_target_of_the_traffic_itself(topology: str, server: str, is_target_behind: bool) -> None:
    spec = TestbedSpec("lab", "netns", topology=topology)
    ends = tunnel_ends(NetnsTestbed(spec, "20251127-000000-abcdef", Path("/nowhere")))
    assert (ends.server.host.name, ends.is_target_behind_server) == (server, is_target_behind)
