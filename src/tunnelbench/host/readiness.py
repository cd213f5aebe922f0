"""What a run needs of this machine: each thing looked up or tried, what it is for, and what mends it.

Kernel features are tried in a scratch network namespace; nothing in the machine's own changes.
"""

from __future__ import annotations

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

from tunnelbench.host.command import CommandFailed, run_command, undisturbed
from tunnelbench.host.host import RUN_FOLDER, Host, LocalHost, NamespaceHost
from tunnelbench.host.procfs import all_processes, foreign_cpu_s
from tunnelbench.host.programs import REQUIRED_PROGRAMS
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
}
"""What each of REQUIRED_PROGRAMS is for."""

VERSION_ARGUMENTS = {
    **dict.fromkeys(("ip", "tc", "ss", "ping", "ssh", "mke2fs"), "-V"),
    "openssl": "version",
    "busybox": "--help",
}
"""How a program is asked for its version where it is not by `--version`."""

VERSION = re.compile(r"(?<![\w.])(?:v|OpenSSH_)?(\d[\w.]*)")
"""The first number that stands alone: 6.1.0 in `ip utility, iproute2-6.1.0, libbpf 1.1.2`."""

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
    """What became of one thing that a run may need."""

    OK = "ok"
    WARNING = "warning"
    """A run is possible, and its figures suffer."""
    MISSING = "missing"
    """Without it there is no run, or not a whole one of the shipped plan `quick`."""
    ABSENT = "absent"
    """Missing, and only needed by what `why` names."""
    UNKNOWN = "unknown"
    """It could not be tried, for the reason in `found`."""


@dataclass(frozen=True)
class Finding:
    """One thing that a run may need."""

    name: str
    status: Status
    found: str
    """What is there, such as a version, or what is wrong; may be empty."""
    why: str
    """Why it matters, in a phrase."""
    remedy: str = ""
    """The command that mends it, or what else to do; empty where it is ok."""


@dataclass(frozen=True)
class Wanted:
    """Something to try; the fields are those of its Finding."""

    name: str
    why: str
    remedy: str
    lacking: Status = Status.MISSING
    """Its status where it is not there."""

    def found(self, status: Status, found: str = "") -> Finding:
        is_to_mend = status in (Status.MISSING, Status.ABSENT)
        return Finding(self.name, status, found, self.why, self.remedy if is_to_mend else "")


class BlindHost(LocalHost):
    """This machine where nothing may be tried: each command raises CannotHere with the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__("local", Path(), ())
        self.reason = reason

    def command(self, argv: Sequence[str]) -> list[str]:
        raise CannotHere(self.reason)


@contextmanager
def scratch_namespace() -> Iterator[Host]:
    """A network namespace to try things in, gone with all that is in it when the block is left, on every way out.

    Raises CannotHere where none can be made.
    """
    if os.geteuid() != 0:
        raise CannotHere("only root can try it")
    # Called and marked as a run's are, so that `clean` finds what stays when we are killed.
    mark = secrets.token_hex(3)
    folder, name = RUN_FOLDER / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{mark}", f"tb-{mark}-scratch"
    try:
        try:
            folder.mkdir(mode=0o700, parents=True)
        except OSError as error:
            name = ""
            raise CannotHere(f"{folder} cannot be made: {error.strerror}") from None
        try:
            run_command(["ip", "netns", "add", name])
        except CommandFailed:
            name = ""  # not ours to be removed
            raise
        yield NamespaceHost("scratch", folder, sorted(os.sched_getaffinity(0)), name)
    finally:
        with undisturbed():
            if name and shutil.which("ip"):
                run_command(["ip", "netns", "del", name], check=False)
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def probing_host() -> Iterator[Host]:
    """The scratch namespace, or where there can be none, a BlindHost that says why."""
    with ExitStack() as stack:
        host: Host
        try:
            host = stack.enter_context(scratch_namespace())
        except CannotHere as error:
            host = BlindHost(_told(error))
        yield host


# The machine


def root() -> Finding:
    """Whether we are root."""
    why = "makes network namespaces and devices"
    if os.geteuid() == 0:
        return Finding("root", Status.OK, "", why)
    return Finding("root", Status.MISSING, "not root", why, "run it as root")


def namespaces(host: Host) -> Finding:
    """Whether network namespaces can be made; `host` is the probing one."""
    name, why = "namespaces", "client, router and server are one each"
    if not isinstance(host, BlindHost):
        return Finding(name, Status.OK, "", why)
    if os.geteuid() != 0 or not host.has_program("ip"):
        return Finding(name, Status.UNKNOWN, host.reason, why)
    return Finding(name, Status.MISSING, host.reason, why, "in a container: start it with --privileged")


def tun_device(host: Host) -> Finding:
    """Whether programs can make tunnel devices; `host` is the probing one."""
    wanted = Wanted("/dev/net/tun", "tunnels in user space get their device from it", "modprobe tun")
    if not Path(wanted.name).exists():
        return wanted.found(Status.MISSING)
    return _tried(host, wanted, ["ip", "tuntap", "add", "tbprobe1", "mode", "tun"])


def governor(cpus: Path = Path("/sys/devices/system/cpu")) -> Finding:
    """Whether the CPUs keep their clock."""
    name, why = "CPU governor", "a clock that follows the load makes figures drift"
    found = sorted({file.read_text().strip() for file in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor")})
    if not found:
        return Finding(name, Status.UNKNOWN, "not shown here", why)
    if found == ["performance"]:
        return Finding(name, Status.OK, found[0], why)
    remedy = "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
    return Finding(name, Status.WARNING, ", ".join(found), why, remedy)


def schedstat(own: Path = Path("/proc/self/schedstat")) -> Finding:
    """Whether the kernel tells the CPU time of a process in nanoseconds."""
    name = "schedstat"
    try:
        is_counted = int(own.read_text().split()[0]) > 0
    except FileNotFoundError:
        is_counted = False
    if is_counted:
        return Finding(name, Status.OK, "", "times the tunnel's programs to the nanosecond")
    why = "the CPU time of the tunnel's programs is known in steps of 10 ms only"
    return Finding(name, Status.WARNING, "", why, "a kernel built with CONFIG_SCHED_INFO")


def foreign_load(cpus: Sequence[int], window_s: float, limit_share: float) -> Finding:
    """What programs other than ours take of these CPUs just now; over `limit_share` of one CPU it is too much."""
    before = all_processes()
    time.sleep(window_s)
    strangers = foreign_cpu_s(before, all_processes(), os.getpid(), cpus)
    share = sum(strangers.values()) / window_s
    found = f"{share:.0%} of one CPU"
    if share <= limit_share:
        return Finding("other load", Status.OK, found, f"a trial is void above {limit_share:.0%}")
    busiest = sorted(strangers, key=lambda name: -strangers[name])[:3]
    why = f"{', '.join(busiest)}; a trial is void above {limit_share:.0%}"
    return Finding("other load", Status.WARNING, found, why, "end it, or wait until it ends")


def writable(path: Path) -> Finding:
    """Whether results can be kept in a file at `path`, of which nothing need be there yet."""
    name, why = "results", f"kept in {path}"
    remedy = "make the folder writable for you, or set XDG_DATA_HOME to one that is"
    try:
        folder = next(each for each in path.absolute().parents if each.exists())
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
        if path.exists():
            path.open("r+b").close()
    except OSError as error:
        return Finding(name, Status.MISSING, (error.strerror or str(error)).lower(), why, remedy)
    return Finding(name, Status.OK, "writable", why)


# Programs and kernel features


def required_programs() -> list[Finding]:
    """The programs that every run starts."""
    return [
        program(Wanted(name, PURPOSES[name], f"apt-get install {package}"))
        for name, package in REQUIRED_PROGRAMS.items()
    ]


def program(wanted: Wanted) -> Finding:
    """A program by name or path, with its version."""
    if shutil.which(wanted.name) is None:
        return wanted.found(wanted.lacking)
    arguments = VERSION_ARGUMENTS.get(wanted.name, "--version")
    try:
        completed = run_command([wanted.name, arguments], timeout_s=VERSION_TIMEOUT_S, check=False)
    except (CannotHere, OSError) as error:  # OSError: it is there, and no program
        return wanted.found(wanted.lacking, f"does not run: {_told(error)}")
    version = VERSION.search(completed.stdout or completed.stderr)
    return wanted.found(Status.OK, version[1] if version else "version unknown")


def base_features(host: Host) -> list[Finding]:
    """What the testbed asks of the kernel; `host` is the probing one."""
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


def met(wanted: Wanted, is_met: Callable[[], bool]) -> Finding:
    """A thing that answers by yes or no, or by CannotHere where it cannot be tried."""
    try:
        return wanted.found(Status.OK if is_met() else wanted.lacking)
    except CannotHere as error:
        return wanted.found(Status.UNKNOWN, _told(error))


def _link_type(host: Host, wanted: Wanted) -> Finding:
    return met(wanted, lambda: host.has_link_type(wanted.name))


def _tried(host: Host, wanted: Wanted, argv: list[str], *, stdin: str = "") -> Finding:
    """Whether a command works on the probing host."""
    for needed in (argv[0], "taskset"):
        if not host.has_program(needed):
            return wanted.found(Status.UNKNOWN, f"cannot be tried without {needed}")
    try:
        host.run(argv, stdin=stdin)
    except CommandFailed as error:
        return wanted.found(wanted.lacking, _told(error))
    except CannotHere as error:
        return wanted.found(Status.UNKNOWN, _told(error))
    return wanted.found(Status.OK)


def _module(name: str) -> str:
    return f"modprobe {name}, or a kernel that has it"


def _told(error: Exception) -> str:
    """An error in one line: of a command its last words."""
    if isinstance(error, CommandFailed):
        return (error.output.strip().splitlines() or [error.message])[-1].rstrip(".")
    return error.message if isinstance(error, CannotHere) else str(error)
