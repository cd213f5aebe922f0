"""A path whose losses are known to the packet, and exchanges over it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from tests.lab.bench import NO_TUNNEL, open_tunnel

from tunnelbench.host.host import THIS_MACHINE, Host
from tunnelbench.measure.counters import place_of
from tunnelbench.measure.trial_monitor import TrafficPath
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
        # Hosts know each other's hardware addresses: a queue for an unknown one loses packets that no rule counts.
        testbed.client.run(["ping", "-c", "1", "-W", "5", "-I", str(a.client_lan), str(a.target)])
        place = place_of(testbed, tunnel, direction)
        path = TrafficPath(a.client_lan, a.target, place)
        yield Exchanger(testbed, path, {THIS_MACHINE: engine.locate()}, sizes)


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
                udp dport {engine.ENGINE_PORT} jump judged
                udp sport {engine.ENGINE_PORT} jump judged
            }}
        }}
    """
    host.run(["nft", "-f", "-"], stdin=ruleset)


def counted(host: Host) -> dict[str, int]:
    """Packets by counter."""
    listed = json.loads(host.run(["nft", "--json", "list", "counters", "table", "ip", "exact"]).stdout)
    entries: list[dict[str, Any]] = [entry["counter"] for entry in listed["nftables"] if "counter" in entry]
    return {entry["name"]: int(entry["packets"]) for entry in entries}


class Forwarder:
    """The router's own way with packets from the client, made by `forwarder.py` while the block runs."""

    def __init__(self, testbed: NetnsTestbed, what: str, every: int, delay_s: float = 0.0) -> None:
        self.testbed = testbed
        self.arguments = [what, str(every), str(delay_s)]
        self.seen = self.done = 0

    def __enter__(self) -> Self:
        router = self.testbed.router
        program = str(Path(__file__).with_name("forwarder.py"))
        self.daemon = router.start([sys.executable, program, "odd", *self.arguments], has_input=True)
        assert self.daemon.wait_for("ready", 5), self.daemon.output()
        router.ip("link", "set", "odd", "up")
        router.ip("route", "add", "default", "dev", "odd", "table", "100")
        router.ip("rule", "add", "iif", self.testbed.lan_device, "lookup", "100")
        return self

    def __exit__(self, *_: object) -> None:
        self.daemon.close_input()
        ended = self.daemon.wait(3)
        printed = self.daemon.output()
        self.daemon.stop()
        assert ended, printed
        counts = json.loads(printed.splitlines()[-1])
        self.seen, self.done = counts["seen"], counts["done"]
