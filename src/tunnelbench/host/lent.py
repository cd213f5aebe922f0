"""A machine that is lent for a run: what is changed on it is put back, by its own watchdog where we cannot.

`tunnelbench-dut` on that machine (docs/router-script.md) keeps the lease and the list of what is to be undone. Before
each change it is told how to undo it.
"""

from __future__ import annotations

import getpass
import json
import logging
import platform
import shlex
from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from tunnelbench.host.command import DEFAULT_TIMEOUT_S, CommandFailed, Completed, Daemon
from tunnelbench.host.host import Host, Sampler
from tunnelbench.host.samples import RemoteSampler
from tunnelbench.host.ssh import LinkLost, SshHost, by_shell, in_shell
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import Access

log = logging.getLogger("tunnelbench.lease")

SCRIPT = "tunnelbench-dut"
FOLDER_PREFIX = "/tmp/tunnelbench-dut-"  # noqa: S108 # the script refuses a folder that is somebody else's
"""What the script takes for a folder begins so; /tmp is memory on a small router."""

LEASE_BEYOND_S = 30
"""How long a lease outlives what it was held for."""

FIRST_LEASE_S = 120
CLEAN_LIMIT_S = 120.0
"""Each piece of undo has 20 s."""

TAKEN, STALE, FAILED_TO_UNDO = 3, 4, 5
"""Exit codes of the script."""

MARK = "TUNNELBENCH_RUN"
"""In the environment of every program that we start there: by it they are found and ended."""

CHANGE = 'printf "%s\\n" "$3" | sh "$1" undo add "$2" >/dev/null || exit 125; shift 3; exec "$@"'
"""Say how a change is undone, then make it."""

NOT_NOTED = 125


class LentHost(SshHost):
    """An SshHost under a lease. `with` takes and releases it."""

    def __init__(self, name: str, access: Access, run_id: str, log_folder: Path, via: Host) -> None:
        super().__init__(name, access, Path(f"{FOLDER_PREFIX}{run_id}"), log_folder, via)
        self.owner = f"{getpass.getuser()}@{platform.node()}, run {run_id}"
        self.script = ""
        """Its path there."""
        self._noted: set[str] = set()
        self._is_held = False

    # The lease

    def take(self) -> None:
        """Take the lease; the host must be connected.

        Raises CannotHere where somebody else has it. What a killed run has left there is put back first.
        """
        self._bring_script()
        lease = self.lease()
        if lease["state"] == "stale" or lease.get("folder") == str(self.folder):
            log.warning("what %s left on the %s is put back first", lease.get("owner", "somebody"), self.name)
            self.clean_all()
            self._bring_script()
        self._tell("lease", "take", str(self.folder), self.owner, str(FIRST_LEASE_S))
        self._is_held = True
        self._noted.clear()
        ended = f"for f in $(grep -ls {MARK}={self.folder.name} /proc/[0-9]*/environ); do f=${{f#/proc/}}; "
        self._tell("undo", "add", str(self.folder), stdin=ended + "kill -KILL ${f%/environ}; done 2>/dev/null; true\n")

    def hold(self, seconds: float) -> None:
        """Keep the lease for so long, and LEASE_BEYOND_S more. LinkLost where it has ended: all was put back there."""
        self._tell("lease", "extend", str(self.folder), self.owner, str(round(seconds) + LEASE_BEYOND_S))

    def release(self) -> None:
        """Put everything back and give the machine up; does no harm when called twice."""
        if self._is_held and self.is_connected:
            self._is_held = False
            self._tell("lease", "release", str(self.folder), self.owner, timeout_s=CLEAN_LIMIT_S)

    def lease(self) -> dict[str, Any]:
        """What the script says of the lease: `state`, and where there is one `owner`, `folder`, `left_s`."""
        found: dict[str, Any] = json.loads(self._tell("lease", "show"))
        return found

    def forget(self) -> None:
        """Remove what a mere look has left there: the copy of the script."""
        self.run(["rm", "-rf", str(self.folder)], check=False)

    def clean_all(self) -> None:
        """Put back whatever any run has left there."""
        self._bring_script()
        self._tell("clean", "--all", timeout_s=CLEAN_LIMIT_S)

    def put_back(self) -> str:
        """The same; returns what there was in words."""
        self._bring_script()
        lease = self.lease()
        own = str(self.folder)
        left = self.shell(f'for f in {FOLDER_PREFIX}*; do [ -d "$f" ] && echo "$f"; done; true').split()
        self.clean_all()
        if lease["state"] != "free":
            return f"put back what {lease.get('owner', 'somebody')} had changed"
        return "removed files of earlier runs" if set(left) - {own} else "nothing of ours was left there"

    def facts(self) -> dict[str, Any]:
        """What the machine is (docs/router-script.md)."""
        if not self.script:
            self._bring_script()
        found: dict[str, Any] = json.loads(self._tell("facts"))
        return found

    def _bring_script(self) -> None:
        """Use the script that is installed there, or bring it; a copy is never written over while it may run."""
        installed = self.run(["command", "-v", SCRIPT], check=False).stdout.strip()
        self.script = installed or str(self.folder / SCRIPT)
        if not installed and not self.has_path(self.script):
            text = (files("tunnelbench") / "data" / "router" / SCRIPT).read_text(encoding="utf-8")
            self.write(SCRIPT, text)

    def _tell(self, *words: str, stdin: str = "", timeout_s: float = DEFAULT_TIMEOUT_S) -> str:
        """Run the script; errors in its own words."""
        done = self.run(by_shell(self.script, *words), stdin=stdin, timeout_s=timeout_s, check=False)
        if done.returncode == 0:
            return done.stdout
        said = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1].removeprefix(f"{SCRIPT}: ")
        if words[:2] == ("lease", "extend") and done.returncode != TAKEN:
            # A copy of the script goes with the lease: then its shell ends with a status of its own.
            raise LinkLost(f"the lease of the {self.name}, {self.access.host}, has ended: {said}")
        hint = {
            TAKEN: "wait until it ends; where nobody uses it any more, tunnelbench clean --on TESTBED ends it",
            STALE: "tunnelbench clean --on TESTBED puts back what is left there",
            FAILED_TO_UNDO: "log in and look, or restart it: nothing that was changed survives that",
        }.get(done.returncode, "")
        raise CannotHere(f"the {self.name}, {self.access.host}: {said}", hint)

    # What is changed is noted first

    def run(
        self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = DEFAULT_TIMEOUT_S, check: bool = True
    ) -> Completed:
        piece = inverse(argv)
        if not piece or not self._is_held or piece in self._noted:
            return super().run(argv, stdin=stdin, timeout_s=timeout_s, check=check)
        self._noted.add(piece)
        change = in_shell(CHANGE, self.script, str(self.folder), piece, *argv)
        done = super().run(change, stdin=stdin, timeout_s=timeout_s, check=False)
        if done.returncode == NOT_NOTED:
            self._noted.discard(piece)
            raise CannotHere(f"the {self.name} cannot note how to undo a change: {done.stderr.strip()}")
        if check and done.returncode != 0:
            raise CommandFailed(argv, f"ended with status {done.returncode} on the {self.name}", done.stderr)
        return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)

    def change(self, argv: Sequence[str], undo: str) -> None:
        """Run a command that changes something; `undo` is the POSIX shell that puts it back, twice without harm."""
        self._tell("undo", "add", str(self.folder), stdin=undo + "\n")
        self.run(argv)

    def set_kernel_file(self, path: str, value: str) -> None:
        if path not in self._noted:
            self._noted.add(path)
            was = self.read(path).strip()
            if was == value:
                return
            self._tell("undo", "add", str(self.folder), stdin=f"echo {shlex.quote(was)} >{shlex.quote(path)}; true\n")
        self.run(["tee", path], stdin=value)

    def ip_batch(self, *lines: str) -> None:
        for line in lines:  # each with its own way back
            self.ip(*shlex.split(line))

    def start(self, argv: Sequence[str], *, has_input: bool = False, name: str = "") -> Daemon:
        called = name or Path(argv[0]).name
        marked = ["env", f"{MARK}={self.folder.name}", *argv] if self._is_held else list(argv)
        return super().start(marked, has_input=has_input, name=called)

    def sampler(self, daemons: Sequence[Daemon], limit_s: float) -> Sampler | None:
        return RemoteSampler(self, daemons, limit_s)

    def close(self) -> None:
        with suppress(LinkLost):
            self.release()
        super().close()


def inverse(argv: Sequence[str]) -> str:
    """The shell that undoes an `ip ... add`; empty for what changes nothing that would stay."""
    if argv[0] != "ip" or "add" not in argv[1:3]:
        return ""
    what, rest = argv[1], list(argv[argv.index("add") + 1 :])
    if what in ("link", "tunnel"):
        named = rest[rest.index("name") + 1] if "name" in rest else next(iter(rest), "")
        back = ["ip", what, "del", named]
    elif what in ("tuntap", "rule", "addr", "address"):
        back = ["ip", what, "del", *rest]
    elif what == "route":
        back = ["ip", "route", "del", *rest[:1]]
    elif what == "l2tp" and "tunnel_id" in rest:
        place = rest.index("tunnel_id")
        back = ["ip", "l2tp", "del", "tunnel", *rest[place : place + 2]]
    else:
        return ""
    return f"{shlex.join(back)} 2>/dev/null; true"
