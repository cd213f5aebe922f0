"""Command lines and JSON lines of the packet engine when it opens TCP connections.

The far end accepts connections until its standard input closes. The client's engine ends by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tunnelbench.host.parsing import UNREADABLE, count
from tunnelbench.model.connections import ConnectionCounts
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.ip_versions import with_port
from tunnelbench.traffic.engine import delay_ns, finite_s, hello_count, span_s, summary_of

CONNECTION_PORT = 5204

TIMEOUT_S = 3.0
"""Time after which a connection that is not established has failed [s]. TCP repeats a lost SYN after 1 s, and again
after 2 s more."""

OTHER_FILES = 10
"""Number of files that the engine has open beside its connections, at most."""

PENDING_MAX = 64
"""Most connections that wait for their establishment at the same time, if they are opened as fast as possible."""


@dataclass(frozen=True)
class ConnectionLoad:
    """The connections that a client opens."""

    duration_s: float
    """Time in which connections are opened; if they are kept, the time until they are reset [s]."""
    rate_per_s: float | None = None
    """New connections per second; None: as fast as possible."""
    kept: int | None = None
    """Number of connections to open and to keep until the end; None: each is closed at once."""


def accept_command(program: str, address: str, session: str) -> list[str]:
    """Return the command of the far end; it runs until its standard input closes."""
    return [program, "accept", "--bind", with_port(address, CONNECTION_PORT), "--session", session]


def connect_command(program: str, address: str, session: str, load: ConnectionLoad, *, source: str) -> list[str]:
    """Return the command of the client; `source` is its own address."""
    # fmt: off
    argv = [program, "connect", "--target", with_port(address, CONNECTION_PORT), "--bind", source, "--session", session,
            "--duration-s", f"{load.duration_s:g}", "--timeout-s", f"{TIMEOUT_S:g}", "--interval-s", "0.1"]
    # fmt: on
    if load.rate_per_s is None:
        argv += ["--flat-out", "--pending-max", str(PENDING_MAX)]
    else:  # all connections of the time until they have failed may be pending
        argv += ["--rate", f"{load.rate_per_s:g}", "--pending-max", str(round(load.rate_per_s * (TIMEOUT_S + 1)) + 1)]
    return argv if load.kept is None else [*argv, "--keep", "--count", str(load.kept)]


def require_open_files(end: str, text: str, load: ConnectionLoad) -> None:
    """Raise TrialFailed if an engine may not have as many files open as connections are kept.

    `end` is the engine's name in the message, `text` what it has printed so far.
    """
    limit = hello_count(text, "open_files_max")
    if limit is not None and load.kept is not None and limit < load.kept + OTHER_FILES:
        raise TrialFailed(
            f"{load.kept} open connections need as many open files, and the engine's {end} may open {limit}: "
            "raise the limit (ulimit -Hn), or set a lower connections.most"
        )


def parse(connect_text: str, accept_text: str, load: ConnectionLoad) -> ConnectionCounts:
    """Return the counts of a trial from the output of both ends. Raises TrialFailed with the engine's own message, or
    if the two ends contradict each other."""
    require_open_files("client", connect_text, load)
    near, far = summary_of("client", connect_text), summary_of("far end", accept_text)
    try:
        counts = _counts(near, far, load)
    except UNREADABLE as error:
        raise TrialFailed(f"the engine's lines are not as expected: {error!r:.200}") from None
    outcomes = counts.established + counts.refused + counts.timed_out + counts.failed
    if outcomes != counts.begun:
        raise TrialFailed(f"{counts.begun} connections were begun, but {outcomes} have an outcome")
    if counts.established > counts.accepted:
        raise TrialFailed(
            f"the client says that {counts.established} connections were established, but the far end accepted "
            f"{counts.accepted}"
        )
    return counts


def _counts(near: Mapping[str, Any], far: Mapping[str, Any], load: ConnectionLoad) -> ConnectionCounts:
    def of(name: str) -> int:
        return count(near[f"{name}_connections"])

    establishment = near["establishment_ns"]
    return ConnectionCounts(
        duration_s=finite_s(load.duration_s),
        intended_per_s=load.rate_per_s,
        begun=of("begun"),
        established=of("established"),
        refused=of("refused"),
        timed_out=of("timed_out"),
        failed=of("failed"),
        closed=of("closed"),
        broken=of("broken"),
        unsent=of("unsent"),
        open_max=of("open_max"),
        accepted=count(far["accepted_connections"]),
        opening_s=span_s(near, "first_established_ns", "last_established_ns"),
        establishment_p50_ns=delay_ns(establishment["p50"]),
        establishment_p99_ns=delay_ns(establishment["p99"]),
        establishment_max_ns=delay_ns(establishment["max"]),
    )
