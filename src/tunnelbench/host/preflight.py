"""Checks the programs and kernel features that a run needs on this machine, and names a remedy for each missing one.

Kernel features are tried in a temporary network namespace; the machine's own network does not change.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from tunnelbench.host.command import CommandFailed, run_command
from tunnelbench.host.host import RUN_FOLDER, Host, LocalHost, make_private
from tunnelbench.host.namespace import NamespaceHost
from tunnelbench.host.procfs import all_processes, foreign_cpu_s
from tunnelbench.host.programs import REQUIRED_PROGRAMS
from tunnelbench.host.signals import undisturbed
from tunnelbench.host.trust import require_trusted_store
from tunnelbench.model.errors import CannotHere

PURPOSES = {
    "ip": "makes namespaces, devices and routes",
    "tc": "gives a cable its rate and its delay",
    "ss": "reads the segment size that TCP really uses",
    "ethtool": "switches off what merges packets",
    "tcpdump": "shows what a tunnel sends on the WAN",
    "iperf3": "offers and receives the TCP traffic",
    "ping": "proves that the tunnel and the router answer",
    "nft": "counts what the WAN carries",
    "taskset": "keeps each program on its CPU",
    "setpriv": "ends every program of a run that is killed",
    "prlimit": "limits the files that a program writes",
}
"""Purpose of each of REQUIRED_PROGRAMS."""

VERSION_ARGUMENTS = {
    **dict.fromkeys(("ip", "tc", "ss", "ping", "ssh", "mke2fs"), "-V"),
    "openssl": "version",
    "busybox": "--help",
}
"""Argument that asks a program for its version, if it is not `--version`."""

VERSION = re.compile(r"(?<![\w.])(?:v|OpenSSH_)?(\d[\w.]*)")
"""First number that stands alone, such as 6.1.0 in `ip utility, iproute2-6.1.0, libbpf 1.1.2`."""

VERSION_TIMEOUT_S = 5.0

COUNTING_RULES = """
table ip tunnelbench_probe {
    counter seen {}
    chain arriving {
        type filter hook prerouting priority -450
        meta l4proto udp counter name seen accept
    }
}
"""


class Status(StrEnum):
    """Result of the check of one requirement."""

    OK = "ok"
    WARNING = "warning"
    """A run is possible, but its figures suffer."""
    MISSING = "missing"
    """A run is not possible without the requirement, or the shipped plan `quick` is incomplete without it."""
    ABSENT = "absent"
    """The requirement is missing; only the feature that `why` names needs it."""
    UNKNOWN = "unknown"
    """The check was not possible; `found` has the reason."""


@dataclass(frozen=True)
class PreflightResult:
    """The result of the check of one requirement of a run."""

    name: str
    status: Status
    found: str
    """Version or state of the requirement, or its fault; may be empty."""
    why: str
    """Use of the requirement, in a phrase."""
    remedy: str = ""
    """Command or advice that fixes the fault; empty if the check is ok."""


@dataclass(frozen=True)
class Wanted:
    """A requirement that is still to be checked; the fields are those of its PreflightResult."""

    name: str
    why: str
    remedy: str
    lacking: Status = Status.MISSING
    """Status of the result if the requirement is not met."""

    def found(self, status: Status, found: str = "") -> PreflightResult:
        """Return the result of the requirement's check."""
        needs_fix = status in (Status.MISSING, Status.ABSENT, Status.WARNING)
        return PreflightResult(self.name, status, found, self.why, self.remedy if needs_fix else "")


class BlindHost(LocalHost):
    """A host without commands, used if tests are not possible: each command raises CannotHere with the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__("local", Path(), ())
        self.reason = reason

    def command(self, argv: Sequence[str]) -> list[str]:
        raise CannotHere(self.reason)


IN_USE = "in-use"
"""File in a folder of RUN_FOLDER that a running program keeps locked; the kernel frees the lock of a dead process."""


@contextmanager
def marked_as_in_use(folder: Path) -> Iterator[None]:
    """Keep `clean` from removing a folder while the block runs. Raises CannotHere if the folder cannot be marked."""
    try:
        descriptor = os.open(folder / IN_USE, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise CannotHere(f"{folder / IN_USE} cannot be made: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_in_use(folder: Path) -> bool:
    """Return True if a running program has marked a folder as its own."""
    try:
        descriptor = os.open(folder / IN_USE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def scratch_namespace() -> Iterator[Host]:
    """Make a temporary network namespace for tests of kernel features; it is deleted when the block ends.

    Raises CannotHere if no network namespace can be made.
    """
    if os.geteuid() != 0:
        raise CannotHere("only root can test this")
    # It is named and marked as a run's, so that `clean` finds what stays if this process is killed.
    mark = secrets.token_hex(3)
    folder, name = RUN_FOLDER / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{mark}", f"tb-{mark}-scratch"
    make_private(RUN_FOLDER)
    try:
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            name = ""
            raise CannotHere(f"{folder} cannot be made: {error.strerror}") from None
        with marked_as_in_use(folder):
            try:
                run_command(["ip", "netns", "add", name])
            except CommandFailed:
                name = ""  # it is not ours, so it is not removed
                raise
            yield NamespaceHost("scratch", folder, sorted(os.sched_getaffinity(0)), name)
    finally:
        with undisturbed:
            if name and shutil.which("ip"):
                run_command(["ip", "netns", "del", name], check=False)
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def probing_host() -> Iterator[Host]:
    """Yield a temporary namespace for tests, or a BlindHost with the reason if that is not possible."""
    with ExitStack() as stack:
        host: Host
        try:
            host = stack.enter_context(scratch_namespace())
        except CannotHere as error:
            host = BlindHost(_one_line(error))
        yield host


# The machine


def root() -> PreflightResult:
    """Check that this process runs as root."""
    why = "makes network namespaces and devices"
    if os.geteuid() == 0:
        return PreflightResult("root", Status.OK, "", why)
    return PreflightResult("root", Status.MISSING, "not root", why, "run it as root")


def namespaces(host: Host) -> PreflightResult:
    """Check that network namespaces can be made; `host` comes from `probing_host`."""
    name, why = "namespaces", "client, router and server each have one"
    if not isinstance(host, BlindHost):
        return PreflightResult(name, Status.OK, "", why)
    if os.geteuid() != 0 or not host.has_program("ip"):
        return PreflightResult(name, Status.UNKNOWN, host.reason, why)
    return PreflightResult(name, Status.MISSING, host.reason, why, "in a container: start it with --privileged")


def tun_device(host: Host) -> PreflightResult:
    """Check that programs can make tunnel devices; `host` comes from `probing_host`."""
    wanted = Wanted("/dev/net/tun", "tunnels in user space get their device from it", "modprobe tun")
    if not Path(wanted.name).exists():
        return wanted.found(Status.MISSING)
    return _tried(host, wanted, ["ip", "tuntap", "add", "tbprobe1", "mode", "tun"])


def governor(cpus: Path = Path("/sys/devices/system/cpu")) -> PreflightResult:
    """Check that the CPUs' clock frequency is fixed."""
    name, why = "CPU governor", "a clock that follows the load makes figures drift"
    found = sorted({file.read_text().strip() for file in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor")})
    if not found:
        return PreflightResult(name, Status.UNKNOWN, "not shown here", why)
    if found == ["performance"]:
        return PreflightResult(name, Status.OK, found[0], why)
    remedy = "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
    return PreflightResult(name, Status.WARNING, ", ".join(found), why, remedy)


def schedstat(own: Path = Path("/proc/self/schedstat")) -> PreflightResult:
    """Check that the kernel reports the CPU time of a process in nanoseconds."""
    name = "schedstat"
    try:
        is_counted = int(own.read_text().split()[0]) > 0
    except FileNotFoundError:
        is_counted = False
    if is_counted:
        return PreflightResult(name, Status.OK, "", "times the tunnel's programs to the nanosecond")
    why = "the CPU time of the tunnel's programs is known in steps of 10 ms only"
    return PreflightResult(name, Status.WARNING, "", why, "a kernel built with CONFIG_SCHED_INFO")


def foreign_load(cpus: Sequence[int], window_s: float, limit_share: float) -> PreflightResult:
    """Measure the background load on some CPUs, and warn if it is above `limit_share` of one CPU."""
    before = all_processes()
    time.sleep(window_s)
    others = foreign_cpu_s(before, all_processes(), os.getpid(), cpus)
    share = sum(others.values()) / window_s
    found = f"{share:.0%} of one CPU"
    if share <= limit_share:
        return PreflightResult("other load", Status.OK, found, f"a trial is void above {limit_share:.0%}")
    busiest = sorted(others, key=lambda name: -others[name])[:3]
    why = f"{', '.join(busiest)}; a trial is void above {limit_share:.0%}"
    return PreflightResult("other load", Status.WARNING, found, why, "end that process, or wait until it ends")


def writable(path: Path) -> PreflightResult:
    """Check that results can be kept in a file at `path`; neither file nor folder need exist yet."""
    name, why = "results", f"kept in {path}"
    remedy = "make the folder writable for you, or set XDG_DATA_HOME to one that is"
    try:
        require_trusted_store(path)
        folder = next(each for each in path.absolute().parents if each.exists())
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
        if path.exists():
            path.open("r+b").close()
    except OSError as error:
        return PreflightResult(name, Status.MISSING, (error.strerror or str(error)).lower(), why, remedy)
    except CannotHere as error:
        remedy = "set XDG_DATA_HOME to a folder that only root can write to"
        return PreflightResult(name, Status.MISSING, error.message, why, remedy)
    return PreflightResult(name, Status.OK, "writable", why)


# Programs and kernel features


def required_programs() -> list[PreflightResult]:
    """Check the programs that every run starts."""
    return [
        program(Wanted(name, PURPOSES[name], f"apt-get install {package}"))
        for name, package in REQUIRED_PROGRAMS.items()
    ]


def program(wanted: Wanted) -> PreflightResult:
    """Check a program, by name or path, and ask for its version."""
    if shutil.which(wanted.name) is None:
        return wanted.found(wanted.lacking)
    arguments = VERSION_ARGUMENTS.get(wanted.name, "--version")
    try:
        completed = run_command([wanted.name, arguments], timeout_s=VERSION_TIMEOUT_S, check=False)
    except (CannotHere, OSError) as error:  # OSError: the file is no program
        return wanted.found(wanted.lacking, f"does not run: {_one_line(error)}")
    version = VERSION.search(completed.stdout or completed.stderr)
    if version and completed.returncode and not completed.stdout and "." not in version[1]:
        version = None  # the error of a program without such an option, which may begin with a date
    return wanted.found(Status.OK, version[1] if version else "version unknown")


def base_features(host: Host) -> list[PreflightResult]:
    """Check the kernel features that testbeds need; `host` comes from `probing_host`."""
    counters = Wanted("nftables counters", "counts what the WAN carries", _module("nf_tables"))
    shaper = Wanted("sch_tbf", "for testbeds whose link has a rate", _module("sch_tbf"), Status.ABSENT)
    delay = Wanted("sch_netem", "for testbeds whose link has a delay", _module("sch_netem"), Status.ABSENT)
    cable = "for testbeds whose link has a rate or a delay"
    # fmt: off
    return [
        _link_type(host, Wanted("veth", "joins the namespaces", _module("veth"))),
        _tried(host, counters, ["nft", "-f", "-"], stdin=COUNTING_RULES),
        _link_type(host, Wanted("bridge", cable, _module("bridge"), Status.ABSENT)),
        _tried(host, shaper, ["tc", "qdisc", "replace", "dev", "lo", "root", "stab", "overhead", "24",
                              "tbf", "rate", "1gbit", "burst", "64kb", "latency", "50ms"]),
        _tried(host, delay, ["tc", "qdisc", "replace", "dev", "lo", "root", "netem", "delay", "1ms"]),
    ]
    # fmt: on


def met(wanted: Wanted, is_met: Callable[[], bool]) -> PreflightResult:
    """Return the result of `check`, a function that returns True or False, or raises CannotHere if the check is not
    possible."""
    try:
        return wanted.found(Status.OK if is_met() else wanted.lacking)
    except CannotHere as error:
        return wanted.found(Status.UNKNOWN, _one_line(error))


def _link_type(host: Host, wanted: Wanted) -> PreflightResult:
    return met(wanted, lambda: host.has_link_type(wanted.name))


def _tried(host: Host, wanted: Wanted, argv: list[str], *, stdin: str = "") -> PreflightResult:
    """Check that a command works on the host of `probing_host`."""
    for needed in (argv[0], "taskset"):
        if not host.has_program(needed):
            return wanted.found(Status.UNKNOWN, f"cannot be tried without {needed}")
    try:
        host.run(argv, stdin=stdin)
    except CommandFailed as error:
        return wanted.found(wanted.lacking, _one_line(error))
    except CannotHere as error:
        return wanted.found(Status.UNKNOWN, _one_line(error))
    return wanted.found(Status.OK)


def _module(name: str) -> str:
    return f"modprobe {name}, or a kernel that has it"


def _one_line(error: Exception) -> str:
    """Return an error in one line; of a failed command the last line that it printed."""
    if isinstance(error, CommandFailed):
        return (error.output.strip().splitlines() or [error.message])[-1].rstrip(".")
    return error.message if isinstance(error, CannotHere) else str(error)
