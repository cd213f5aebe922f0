"""The state of the machine that a run could change, for a comparison of before and after."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import subprocess
import time
from pathlib import Path

from tests.conftest import traces

from tunnelbench.host.host import RUN_FOLDER
from tunnelbench.tunnel.wireguard import CONTROL_SOCKETS

VOLATILE = re.compile(
    r"^(fs\.(dentry|inode|file-nr|quota|mqueue|aio-nr)|kernel\.(random|ns_last_pid|pty\.nr|sched|perf_event_max|tainted)"
    r"|net\.netfilter\.nf_conntrack_count|fs\.binfmt)"
)
"""Kernel settings that are readings or that change without a cause on our side."""


OWN_RUN_FILES = ("charon", "ocserv", "sshd")
"""Names in /run that programs of tunnels use unless they are prevented."""

SETTLING_S = 3.0


def snapshot() -> set[str]:
    """Return everything that must be the same after a run, as lines. The difference of two snapshots is the change."""
    return {
        *traces(),
        *(f"ip {line}" for line in network()),
        *(f"nft {line}" for line in output("nft", "list", "ruleset").splitlines()),
        *(f"sysctl {line}" for line in settings()),
        *(f"mount {line}" for line in Path("/proc/mounts").read_text().splitlines()),
        *(f"run folder {entry.name}" for entry in entries(RUN_FOLDER) if entry.name != "lock"),
        *(f"socket {entry.name}" for entry in entries(CONTROL_SOCKETS)),
        *(f"netns file {entry.name}" for entry in entries(Path("/run/netns"))),
        *(f"/run {entry.name}" for name in OWN_RUN_FILES for entry in Path("/run").glob(f"{name}*")),
        *(f"/etc {line}" for line in files(Path("/etc"))),
    }


def changed_since(before: set[str]) -> set[str]:
    """Return the lines that differ from an earlier snapshot. Killed processes get some seconds to end."""
    deadline = time.monotonic() + SETTLING_S
    while (changed := snapshot() ^ before) and time.monotonic() < deadline:
        time.sleep(0.1)
    return changed


def network() -> list[str]:
    """Return devices, addresses, routes and rules of the machine's own namespace."""
    found = []
    for words in (["link"], ["address"], ["route", "show", "table", "all"], ["-6", "route", "show", "table", "all"],
                  ["rule"], ["-6", "rule"]):  # fmt: skip
        for entry in json.loads(output("ip", "-j", *words) or "[]"):
            for name in ("expires", "valid_life_time", "preferred_life_time", "used", "cache"):
                entry.pop(name, None)
            for address in entry.get("addr_info", []):
                for name in ("valid_life_time", "preferred_life_time"):
                    address.pop(name, None)
            found.append(f"{' '.join(words)}: {json.dumps(entry, sort_keys=True)}")
    return found


def settings() -> list[str]:
    lines = output("sysctl", "-a", "-e").splitlines()
    return [line for line in lines if not VOLATILE.match(line)]


def files(folder: Path) -> list[str]:
    """Return each file with its mode and the hash of its content, and each link with its target."""
    found = []
    for directory, _, names in os.walk(folder):
        for name in names:
            path = Path(directory, name)
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                content = str(path.readlink())
            elif stat.S_ISREG(status.st_mode):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                content = "special"
            found.append(f"{path} {stat.filemode(status.st_mode)} {content}")
    return found


def entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def output(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout
