"""The commands `ip ... add`: how each is undone, and whether what it would add is there already.

A host that exists without the run notes the undo of each change before the change. What is there before the run belongs
to somebody else, and its undo is never noted: the names of a run's devices and addresses are fixed, so that the undo
would delete the owner's.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tunnelbench.host.command import CommandFailed, Completed
from tunnelbench.host.host import Host

EXISTS_STATUS = 2
"""Exit status of `ip` if the kernel refuses a change."""


class AlreadyThere(CommandFailed):
    """A command was not run, because what it would add is on the host and was not added by the run."""

    def __init__(self, argv: Sequence[str], host: str, thing: str) -> None:
        super().__init__(argv, "was not run", f"{thing} exists")
        self.message = f"the {host} has {thing} already, which this run did not add: remove or rename it for the run"
        self.hint = (
            "`tunnelbench clean` removes what a killed run has left; "
            f"if nothing needs it, this removes it: {shlex.join(inverse(argv))}"
        )
        self.args = (self.message,)


def inverse(argv: Sequence[str]) -> list[str]:
    """Return the command that undoes an `ip ... add`; empty for a command that leaves nothing behind."""
    if argv[0] != "ip" or "add" not in argv[1:3]:
        return []
    what, rest = argv[1], list(argv[argv.index("add") + 1 :])
    if what in ("link", "tunnel"):
        named = rest[rest.index("name") + 1] if "name" in rest else next(iter(rest), "")
        return ["ip", what, "del", named]
    if what in ("tuntap", "rule", "addr", "address"):
        return ["ip", what, "del", *rest]
    if what == "route":
        return ["ip", "route", "del", *rest[:1]]
    if what == "l2tp" and "tunnel_id" in rest:
        place = rest.index("tunnel_id")
        return ["ip", "l2tp", "del", "tunnel", *rest[place : place + 2]]
    return []


def existing(host: Host, argv: Sequence[str]) -> str:
    """Return the name of what `argv`, which `inverse` knows, would add and what is on the host; empty if it is not."""
    undo = inverse(argv)
    what, last = undo[1], undo[-1]
    if what in ("addr", "address"):
        interface, device = undo[3], last
        shown = _shown(host, "-o", "addr", "show", "dev", device)
        return f"the address {interface} on {device}" if interface in shown.split() else ""
    if what == "route":
        family = ["-6"] if ":" in last else []
        return f"a route to {last}" if _shown(host, *family, "route", "show", "exact", last) else ""
    if what == "l2tp":  # `ip l2tp show tunnel tunnel_id 42` prints the other tunnels, too
        tunnels = _shown(host, "l2tp", "show", "tunnel").splitlines()
        return f"an L2TP tunnel {last}" if any(line.startswith(f"Tunnel {last},") for line in tunnels) else ""
    if what in ("link", "tunnel", "tuntap"):
        device = undo[undo.index("dev") + 1] if "dev" in undo else undo[3]
        return f"a network device {device}" if _shown(host, "link", "show", "dev", device) else ""
    return ""


def _shown(host: Host, *arguments: str) -> str:
    """Return what `ip` prints; nothing if there is no such thing, or if the kernel does not have that feature."""
    return host.run(["ip", *arguments], check=False).stdout.strip()


def not_added(argv: Sequence[str], host: Host, thing: str, *, check: bool) -> Completed:
    """Return the result of a command that was not run, as `ip` says that something exists. Raises AlreadyThere with
    `check`."""
    if check:
        raise AlreadyThere(argv, host.name, thing)
    return Completed(tuple(argv), EXISTS_STATUS, "", f"{thing} exists")
