"""A path whose losses are known to the packet, and exchanges over it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.lab.bench import NO_TUNNEL, open_tunnel

from tunnelbench.host.host import Host
from tunnelbench.measure.companion import TrafficPath
from tunnelbench.measure.counters import Place
from tunnelbench.measure.udp_exchange import Exchanger
from tunnelbench.model.plan import Direction
from tunnelbench.run import on_cpus
from tunnelbench.testbed.netns import NetnsTestbed
from tunnelbench.traffic import engine


@contextmanager
def plain_path(testbed: NetnsTestbed, direction: Direction = Direction.OUT, sizes: str = "18") -> Iterator[Exchanger]:
    """Client and server with the router between them, and no tunnel."""
    a = testbed.addresses
    with on_cpus(testbed.local.cpus), open_tunnel(testbed, NO_TUNNEL) as tunnel:
        place = Place(direction, testbed.lan_device, tunnel.device_at(tunnel.ends.server), testbed.wan_device)
        path = TrafficPath(a.client_lan, a.target, place)
        yield Exchanger(testbed, path, engine.locate(), sizes)


def set_rules(host: Host, rules: str) -> None:
    """Rules that see the engine's packets as the host forwards them; `dropped` and `passed` are counters."""
    ruleset = f"""
        table ip exact
        delete table ip exact
        table ip exact {{
            counter dropped {{}}
            counter passed {{}}
            chain judged {{
                {rules}
                counter name passed
            }}
            chain forwarded {{
                type filter hook forward priority 0
                udp dport {engine.PORT} jump judged
                udp sport {engine.PORT} jump judged
            }}
        }}
    """
    host.run(["nft", "-f", "-"], stdin=ruleset)


def counted(host: Host) -> dict[str, int]:
    """Packets by counter."""
    listed = json.loads(host.run(["nft", "--json", "list", "counters", "table", "ip", "exact"]).stdout)
    entries: list[dict[str, Any]] = [entry["counter"] for entry in listed["nftables"] if "counter" in entry]
    return {entry["name"]: int(entry["packets"]) for entry in entries}
