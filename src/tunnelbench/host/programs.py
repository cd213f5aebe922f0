"""The programs that every run needs on the machine of the controller."""

from __future__ import annotations

import shutil

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
}
"""Program and the Debian package that holds it."""


def require_programs() -> None:
    """Raises CannotHere that names every missing program and the packages to install."""
    missing = [program for program in REQUIRED_PROGRAMS if shutil.which(program) is None]
    if missing:
        packages = " ".join(sorted({REQUIRED_PROGRAMS[program] for program in missing}))
        raise CannotHere(f"missing here: {', '.join(missing)}", f"apt-get install {packages}")
