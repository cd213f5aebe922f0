"""A machine behind SSH that is leased for a run: every change on it is undone, by its own watchdog if necessary.

The script `tunnelbench-dut` on that machine (docs/router-script.md) keeps the lease and the list of changes. The undo
of each change is added to that list before the change is made.
"""

from __future__ import annotations

import getpass
import json
import logging
import platform
import re
import secrets
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from tunnelbench.host.command import DEFAULT_TIMEOUT_S, Completed
from tunnelbench.host.cpu_samples import RemoteSampler
from tunnelbench.host.daemon import Daemon
from tunnelbench.host.host import Host, Sampler
from tunnelbench.host.ip_add import existing, inverse, not_added
from tunnelbench.host.kernel_file import set_noted
from tunnelbench.host.ssh import LinkLost, SshHost
from tunnelbench.host.ssh_programs import by_shell, in_shell
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import HostAccess
from tunnelbench.model.text import printable

log = logging.getLogger("tunnelbench.lease")

SCRIPT = "tunnelbench-dut"
INSTALLED = re.compile(rf"/[A-Za-z0-9._/+-]{{0,200}}/{SCRIPT}")
"""Path of an installed script; a machine may print anything else, such as an alias."""

REMOTE_FOLDER_PREFIX = "/tmp/tunnelbench-dut-"  # noqa: S108 # a folder of another user is refused
"""Beginning of the folders that the script accepts; /tmp is in memory on a small router.

A random part follows the run and the role: no other user of the machine can make the folder before the run does.
"""

LEASE_MARGIN_S = 30
"""Time that is added to each extension of a lease [s]."""

CLEAN_LIMIT_S = 120.0
"""Time limit for undoing all changes [s]; each undo command has 20 s."""

TAKEN, STALE, FAILED_TO_UNDO = 3, 4, 5
"""Exit codes of the script `tunnelbench-dut`."""

LEASED = ("held", "stale")
"""States of a lease that has an owner and a folder."""

LONGEST_FACT = 300
"""Largest length of a fact's text [characters], and of its name; what is longer is left out."""

LEASE_NEEDED = (("lease", "extend"), ("lease", "release"))
"""Calls that fail if the lease has ended."""

RUN_VARIABLE = "TUNNELBENCH_RUN"
"""Environment variable of every program started there: the lease's undo finds and ends programs by it."""

CHANGE = """
number=$(printf "%s\\n" "$3" | sh "$1" undo add "$2") || exit 125
script=$1 folder=$2
shift 3
"$@" && exit
status=$?
sh "$script" undo drop "$folder" "$number" >&2
exit "$status"
"""
"""Shell script that first stores the undo command of a change on the machine, then makes the change.

It drops the undo command if the change fails: whatever is there then belongs to somebody else.
"""

NOT_NOTED = 125
"""Exit status of CHANGE if the undo command could not be stored."""


class LeasedHost(SshHost):
    """An SshHost with a lease, which reserves the machine for one run. `take` starts the lease, `release` ends it."""

    has_owner = True
    """False if the run has made the machine: everything on it is the run's, and it need not look before a change."""

    first_lease_s = 120
    """Length of a new lease [s]."""

    script_environment: tuple[str, ...] = ()
    """Beginning of a command that starts the script with other settings."""

    def __init__(self, name: str, access: HostAccess, run_id: str, log_folder: Path, via: Host) -> None:
        folder = Path(f"{REMOTE_FOLDER_PREFIX}{run_id}-{secrets.token_hex(8)}")
        super().__init__(name, access, folder, log_folder, via)
        self.owner = f"{getpass.getuser()}@{platform.node()}, run {run_id}"
        self.script = ""
        """Path of the script `tunnelbench-dut` on the machine."""
        self._noted: set[str] = set()
        self._has_lease = False

    def visit(self, run_id: str, via: Host) -> LeasedHost:
        """Return the same machine as a host of another run, in order to clean up after that run; `via` is the host from
        which SSH connects."""
        return LeasedHost(self.name, self.access, run_id, self.log_folder, via)

    # The lease

    def take(self) -> None:
        """Take the lease of a connected host, and first undo the changes that an earlier lease of this run, or a lease
        whose controller has ended, has left.

        Raises CannotHere if another controller has the lease, which stays as it is. No file of this run stays there.
        """
        self._has_lease = False
        self._bring_script()
        lease = self.lease()
        if lease["state"] == "stale" or lease.get("owner") == self.owner:
            log.warning("undoing the changes that %s left on the %s", lease.get("owner", "an earlier run"), self.name)
            self._call_script("clean", lease["folder"], timeout_s=CLEAN_LIMIT_S)
            self._bring_script()
        try:
            self._call_script("lease", "take", str(self.folder), self.owner, str(self.first_lease_s))
        except CannotHere:
            with suppress(CannotHere):
                # Not `forget`: if only the answer was lost, the folder has the lease, which ends as well.
                self._call_script("clean", str(self.folder), timeout_s=CLEAN_LIMIT_S)
            raise
        self._has_lease = True
        self._noted.clear()
        ours = f"for f in $(grep -ls {RUN_VARIABLE}={self.folder.name} /proc/[0-9]*/environ); do f=${{f#/proc/}}; "
        self._note_undo(ours + "kill -KILL ${f%/environ}; done 2>/dev/null; true")

    def hold(self, seconds: float) -> None:
        """Extend the lease for that long and LEASE_MARGIN_S more [s].

        Raises LinkLost if the lease has ended: all changes are undone then.
        """
        self._call_script("lease", "extend", str(self.folder), self.owner, str(round(seconds) + LEASE_MARGIN_S))

    def release(self) -> None:
        """Undo all changes and end the lease; does nothing when called twice.

        Raises LinkLost if the lease has ended: all changes are undone then.
        """
        if self._has_lease and self.is_connected:
            self._has_lease = False
            self._call_script("lease", "release", str(self.folder), self.owner, timeout_s=CLEAN_LIMIT_S)

    def lease(self) -> dict[str, Any]:
        """Return the lease: `state`, and if there is a lease also `owner`, `folder` and `left_s`."""
        found = self._object_of("lease", "show")
        is_free, folder = found.get("state") == "free", found.get("folder")
        if not is_free and (found.get("state") not in LEASED or not isinstance(folder, str)):
            raise self._odd_answer("lease show", "no lease", json.dumps(found))
        return found

    def forget(self) -> None:
        """Remove the folder that a connection without a lease has made, with its copy of the script."""
        self.run(["rm", "-rf", str(self.folder)], check=False)

    def put_back(self) -> str:
        """Undo the changes of every run on the machine, and return a sentence about what was undone."""
        self._bring_script()
        lease = self.lease()
        own = str(self.folder)
        left = self.shell(f'for f in {REMOTE_FOLDER_PREFIX}*; do [ -O "$f" ] && echo "$f"; done; true').split()
        self._call_script("clean", "--all", timeout_s=CLEAN_LIMIT_S)
        if lease["state"] != "free":
            return f"undid the changes of {lease.get('owner', 'an earlier run')}"
        return "removed files of earlier runs" if set(left) - {own} else "no run left anything there"

    def facts(self) -> dict[str, Any]:
        """Return facts of the machine (docs/router-script.md)."""
        if not self.script:
            self._bring_script()
        return {name: value for name, value in self._object_of("facts").items() if _is_fact(value)}

    def _object_of(self, *words: str) -> dict[str, Any]:
        """Return the JSON object that the script prints. Raises CannotHere if it prints anything else."""
        printed = self._call_script(*words)
        try:
            found = json.loads(printed)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise self._odd_answer(" ".join(words), "no JSON object", printed)
        return found

    def _odd_answer(self, call: str, what: str, printed: str) -> CannotHere:
        return CannotHere(
            f"the {self.name} answers `{SCRIPT} {call}` with {what}: {printable(printed[:60])}",
            f"compare {self.script} on it with docs/router-script.md",
        )

    def _bring_script(self) -> None:
        """Find the installed script, or copy the script there; a copy is replaced, and never trusted."""
        installed = self.run(["command", "-v", SCRIPT], check=False).stdout.strip()
        is_installed = INSTALLED.fullmatch(installed) is not None
        self.script = installed if is_installed else str(self.folder / SCRIPT)
        if not is_installed:
            text = (files("tunnelbench") / "data" / "router" / SCRIPT).read_text(encoding="utf-8")
            self.write(SCRIPT, text)

    def _call_script(self, *words: str, stdin: str = "", timeout_s: float = DEFAULT_TIMEOUT_S) -> str:
        """Run the script and return its output. Raises CannotHere with its message, LinkLost if the lease has ended."""
        argv = [*self.script_environment, *by_shell(self.script, *words)]
        done = self.run(argv, stdin=stdin, timeout_s=timeout_s, check=False)
        if done.returncode == 0:
            return done.stdout
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        message = lines[-1].removeprefix(f"{SCRIPT}: ")
        if words[:2] in LEASE_NEEDED and done.returncode not in (TAKEN, FAILED_TO_UNDO):
            # A copy of the script is removed with the lease: its shell then ends with a status of its own.
            raise LinkLost(f"the lease of the {self.name}, {self.access.host}, has ended: {message}")
        hint = {
            TAKEN: "wait until it ends; if the other run is dead, tunnelbench clean --on TESTBED ends its lease",
            STALE: "tunnelbench clean --on TESTBED undoes the changes of the earlier run",
            FAILED_TO_UNDO: "log in and look, or restart it: a restart removes all changes",
        }.get(done.returncode, "")
        raise CannotHere(f"the {self.name}, {self.access.host}: {message}", hint)

    # Changes, each noted before it is made

    def run(
        self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = DEFAULT_TIMEOUT_S, check: bool = True
    ) -> Completed:
        undo = inverse(argv)
        piece = _undo_text(undo)
        if not undo or not self._has_lease or piece in self._noted:
            return super().run(argv, stdin=stdin, timeout_s=timeout_s, check=check)
        if self.has_owner and (thing := existing(self, argv)):
            return not_added(argv, self, thing, check=check)
        self._noted.add(piece)
        change = in_shell(CHANGE, self.script, str(self.folder), piece, *argv)
        done = super().run(change, stdin=stdin, timeout_s=timeout_s, check=False)
        if done.returncode != 0:
            self._noted.discard(piece)
        if done.returncode == NOT_NOTED:
            raise CannotHere(f"the {self.name} could not note how to undo a change: {done.stderr.strip()}")
        return self._finished(argv, done, check=check)

    def change(self, argv: Sequence[str], undo: str) -> None:
        """Run a command that changes something; `undo` is POSIX shell that undoes it and may run twice."""
        self._note_undo(undo)
        self.run(argv)

    def run_undoable(self, argv: Sequence[str], undo: Sequence[str], *, stdin: str = "") -> None:
        piece = _undo_text(undo)
        if piece not in self._noted:
            self._note_undo(piece)
            self._noted.add(piece)
        self.run(argv, stdin=stdin)

    def _note_undo(self, undo: str) -> None:
        self._call_script("undo", "add", str(self.folder), stdin=undo + "\n")

    def set_kernel_file(self, path: str, value: str) -> None:
        set_noted(self, path, value, self._noted, self._note_former)

    def _note_former(self, path: str, value: str) -> None:
        self._note_undo(f"echo {shlex.quote(value)} >{shlex.quote(path)}; true")

    def ip_batch(self, *lines: str) -> None:
        for line in lines:  # each has its own undo
            self.ip(*shlex.split(line))

    def start(self, argv: Sequence[str], *, has_input: bool = False, name: str = "") -> Daemon:
        marked = ["env", f"{RUN_VARIABLE}={self.folder.name}", *argv] if self._has_lease else list(argv)
        return super().start(marked, has_input=has_input, name=name or Path(argv[0]).name)

    def sampler(self, daemons: Sequence[Daemon], limit_s: float) -> Sampler | None:
        return RemoteSampler(self, daemons, limit_s)

    def close(self) -> None:
        with suppress(LinkLost):
            self.release()
        super().close()


def _is_fact(value: object) -> bool:
    """Return True for a short text, a number that a store can hold, and an object of these."""
    if isinstance(value, dict):
        return all(len(name) <= LONGEST_FACT and not isinstance(each, dict) and _is_fact(each)
                   for name, each in value.items())  # fmt: skip
    if isinstance(value, str):
        return len(value) <= LONGEST_FACT
    return isinstance(value, int | float) and abs(value) < sys.maxsize  # NaN is not smaller, either


def _undo_text(undo: Sequence[str]) -> str:
    """Return shell for a command that undoes a change; it may fail, because the change may be undone already."""
    return f"{shlex.join(undo)} 2>/dev/null; true"
