"""The packet engine on the testers: this machine's own, and on one behind SSH its own, or a copy of ours."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

from tunnelbench import __version__
from tunnelbench.host.host import THIS_MACHINE, Host
from tunnelbench.host.ssh import in_shell
from tunnelbench.model.errors import CannotHere
from tunnelbench.testbed.base import Testbed
from tunnelbench.traffic import engine

FIND = """
uname -m
installed=$(readlink -f "$(command -v tunnelbench)" 2>/dev/null)
for each in "$(command -v "$1")" "${installed%/*}/$1" "$HOME/.local/bin/$1" "$3"; do
    [ -x "$each" ] && [ "$("$each" --version 2>/dev/null)" = "$1 $2" ] || continue
    echo "$each"
    exit
done
"""
"""Prints the architecture, then where an engine ($1) of a version ($2) is, if anywhere: a search path without a login
is short, so also beside the script `tunnelbench`, where `pip install --user` puts it, and where we put one ($3)."""

HINT = "install TunnelBench there, from its wheel or its source archive, or leave [udp] out"


def engines_of(testbed: Testbed) -> Mapping[str, str]:
    """The engine's path on each machine that is a tester, by machine; it is brought to where it is not.

    Raises CannotHere where a tester has none and ours does not run on it.
    """
    testers = {host.machine: host for host in (testbed.client, testbed.server)}
    return {machine: engine_on(host) for machine, host in testers.items()}


def engine_on(host: Host) -> str:
    """The engine's path on a host; errors as `engines_of`."""
    if host.machine == THIS_MACHINE:
        return engine.locate()
    architecture, found = find_engine(host)
    if found:
        return found
    if architecture != platform.machine():
        raise CannotHere(
            f"the {host.name} has no packet engine {engine.PROGRAM} {__version__}, "
            f"and that of this machine is for {platform.machine()}, not {architecture}",
            HINT,
        )
    brought = host.bring(Path(engine.locate()))
    told = host.run([str(brought), "--version"], check=False)
    if told.returncode != 0:
        said = (told.stderr or told.stdout).strip().splitlines()
        host.remove(brought)
        raise CannotHere(
            f"the {host.name} has no packet engine {engine.PROGRAM} {__version__}, and this machine's does not run on "
            f"it: {said[-1] if said else f'status {told.returncode}'}",
            HINT,
        )
    return str(brought)


def find_engine(host: Host) -> tuple[str, str]:
    """The host's architecture, and where it has an engine of our version; empty where it has none."""
    own = str(host.folder / engine.PROGRAM)
    printed = host.run(in_shell(FIND, engine.PROGRAM, __version__, own)).stdout.split("\n")
    return printed[0], printed[1] if len(printed) > 1 else ""
