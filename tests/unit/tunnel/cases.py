"""Facts of each kind of tunnel for the tests that all kinds share. Each stands in the test file of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.unit.tunnel.fakes import make_ends

from tunnelbench.tunnel import adapter
from tunnelbench.tunnel.base import Tunnel

INNER_BYTES = 239
"""Length of the inner packet of `lengths`: a ping with 211 bytes of payload."""

Options = Mapping[str, Any]

IP_VERSIONS: tuple[Options, ...] = (
    {"outside": "ipv6"},
    {"inside": "ipv6"},
    {"inside": "ipv6", "outside": "ipv6"},
)
"""IP versions other than the usual ones, for `TunnelCase.exact`."""

Ping = Callable[[], object]
"""Sends two pings through the tunnel."""
Captured = Iterator[tuple[str, str]]
"""File names of samples, with their text."""


def router_log(name: str, tunnel: Tunnel[Any], ping: Ping) -> Captured:
    """Yield the log of the router's first daemon, after two pings, as NAME.log."""
    ping()
    yield f"{name}.log", tunnel.router_daemons[0].output()


@dataclass(frozen=True)
class TunnelCase:
    """Facts of one kind of tunnel, for tests. A test file lists those of its kinds as TUNNELS."""

    kind: str
    lengths: tuple[tuple[Options, int], ...]
    """Options, and the length that an outer packet was seen to have for an inner one of INNER_BYTES [bytes]."""
    seen: tuple[tuple[Options, str], ...]
    """Options, and what is seen on the WAN, such as `udp port 4789, exact, readable`."""
    refused: tuple[Options, ...] = ()
    """Options with a value just outside what the adapter takes."""
    accepted: tuple[Options, ...] = ()
    """Options with values at the ends of their ranges."""
    exact: tuple[Options, ...] = ({},)
    """Options with which captured packets of 18 sizes are compared with the adapter's arithmetic."""
    measured: tuple[Options, ...] = ({},)
    """Options with which one trial is measured, in addition to those in the plan `quick`."""
    needs_kernel: bool = False
    """True if the kernel of a test machine may lack the tunnel: `exact` is then tried inside a guest, at two sizes."""
    may_change_machine: bool = False
    """True if its programs would change routes, the resolver or files in /run of the machine by default."""
    version_commands: Mapping[str, tuple[str, ...]] | None = None
    """Command whose output is kept as version.txt, by the program's name in `versions`; the first names the samples'
    folder."""
    samples: Mapping[str, Options] | None = None
    """Options with which samples of output are captured, by the name of the sample."""
    capture: Callable[[str, Tunnel[Any], Ping], Captured] = router_log
    """Captures the output of a tunnel that is up."""


@cache
def tunnel_cases() -> Mapping[str, TunnelCase]:
    """Return the cases of all test files in this folder, by kind."""
    modules = (import_module(f"tests.unit.tunnel.{path.stem}") for path in sorted(Path(__file__).parent.glob("test_*")))
    cases = [case for module in modules for case in getattr(module, "TUNNELS", ())]
    assert len({case.kind for case in cases}) == len(cases), "a kind stands in two test files"
    return {case.kind: case for case in cases}


def make_tunnel(kind: str, options: Options, folder: Path = Path("/nowhere")) -> Tunnel[Any]:
    """Return a tunnel on hosts that run nothing."""
    adapter_class = adapter(kind)
    return adapter_class(adapter_class.options_type.model_validate(options), make_ends(folder))


def require_growth(tunnel: Tunnel[Any], inner_bytes: int) -> None:
    """Assert that a tunnel adds its headers to a packet, and does not shorten the outer packet of a longer one."""
    least = {"plain": 0, "udp": 28, "tcp": 52}.get(tunnel.outer.protocol, 20)
    shorter, longer = (tunnel.outer_packet_bytes(inner_bytes + more) for more in (0, 1))
    assert inner_bytes + least <= shorter <= longer <= shorter + 17
