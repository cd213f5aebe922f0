"""Names the programs that the controller's machine must have, with their Debian packages, and checks for them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping

from tunnelbench.host.command import run_command
from tunnelbench.model.errors import CannotHere

REQUIRED_PROGRAMS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "ss": "iproute2",
    "ethtool": "ethtool",
    "tcpdump": "tcpdump",
    "iperf3": "iperf3",
    "ping": "iputils-ping",
    "nft": "nftables",
    "taskset": "util-linux",
    "setpriv": "util-linux",
    "prlimit": "util-linux",
}
"""Programs that every run needs, each with its Debian package."""


def missing_programs(programs: Mapping[str, str], path: str | None = None) -> tuple[list[str], str]:
    """Return the programs that are missing, and the command that installs their Debian packages."""
    missing = [program for program in programs if shutil.which(program, path=path) is None]
    return missing, f"apt-get install {' '.join(sorted({programs[program] for program in missing}))}"


def require_programs(
    programs: Mapping[str, str] = REQUIRED_PROGRAMS, purpose: str = "a run", path: str | None = None
) -> None:
    """Raises CannotHere with every missing program and the packages to install."""
    missing, hint = missing_programs(programs, path)
    if missing:
        raise CannotHere(f"{purpose} needs programs that are missing here: {', '.join(missing)}", hint)


def qemu_version(program: str) -> str:
    """Return the version of a program of QEMU; empty if it does not state one."""
    found = re.search(r"version (\S+)", run_command([program, "--version"]).stdout)
    return found[1] if found else ""
