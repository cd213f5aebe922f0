"""Finds the packet engine on each tester. A tester behind SSH without an engine gets a copy of this machine's."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

from tunnelbench import __version__
from tunnelbench.host.host import THIS_MACHINE, Host
from tunnelbench.host.ssh_programs import in_shell
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
"""Prints the architecture, then the path of an engine ($1) of a version ($2), if there is one.

The search path without a login is short. So the script also looks next to the script `tunnelbench`, where
`pip install --user` puts the engine, and where TunnelBench puts its copy ($3)."""

INSTALL_HINT = "install TunnelBench there, from its wheel or its source archive, or leave [udp] out"


def engines_of(testbed: Testbed) -> Mapping[str, str]:
    """Return the engine's path on each machine that is a tester, and copy the engine to those without one.

    Raises CannotHere if a tester has no engine and this machine's engine does not run there.
    """
    testers = {host.machine: host for host in (testbed.client, testbed.server)}
    return {machine: engine_on(host) for machine, host in testers.items()}


def engine_on(host: Host) -> str:
    """Return the engine's path on a host; copy the engine there if it is missing. Raises CannotHere as `engines_of`."""
    if host.machine == THIS_MACHINE:
        return engine.locate()
    architecture, found = find_engine(host)
    if found:
        return found
    if architecture != platform.machine():
        raise CannotHere(
            f"the {host.name} has no packet engine {engine.ENGINE_PROGRAM} {__version__}, "
            f"and that of this machine is for {platform.machine()}, not {architecture}",
            INSTALL_HINT,
        )
    brought = host.bring(Path(engine.locate()))
    version = host.run([str(brought), "--version"], check=False)
    if version.returncode != 0:
        lines = (version.stderr or version.stdout).strip().splitlines()
        host.remove(brought)
        raise CannotHere(
            f"the {host.name} has no packet engine {engine.ENGINE_PROGRAM} {__version__}, "
            f"and this machine's does not run on it: {lines[-1] if lines else f'status {version.returncode}'}",
            INSTALL_HINT,
        )
    return str(brought)


def find_engine(host: Host) -> tuple[str, str]:
    """Return the host's architecture and the path of its engine of this version; the path is empty if there is none."""
    own = str(host.folder / engine.ENGINE_PROGRAM)
    printed = host.run(in_shell(FIND, engine.ENGINE_PROGRAM, __version__, own)).stdout.split("\n")
    return printed[0], printed[1] if len(printed) > 1 else ""
