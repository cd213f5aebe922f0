"""Testbed `qemu`: a virtual router in QEMU between two namespaces of this machine.

    client(lan) --- tap (lan)router(wan) tap --- (wan)server

The router is driven by SSH, as any small router is: nothing here is easier for it than for a box on the table. Its
devices are on taps that were made inside the testers' namespaces. How busy it was is told by QEMU's threads on this
machine: held to a share of a CPU, a guest takes the time in which it stands still for idle.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tunnelbench.host.command import Daemon, run_command
from tunnelbench.host.host import CpuReading, Host, LocalHost, NamespaceHost, Sampler, Samples
from tunnelbench.host.lent import LentHost
from tunnelbench.host.procfs import TICK_S, CpuTimes, parse_stat
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import Access, TestbedSpec
from tunnelbench.qemu.boards import BOARDS
from tunnelbench.qemu.image import cached_image
from tunnelbench.qemu.machine import ALIAS, Machine, Nic, Threads
from tunnelbench.qemu.taps import open_tap
from tunnelbench.testbed import nic
from tunnelbench.testbed.base import Testbed
from tunnelbench.testbed.changes import Changes
from tunnelbench.testbed.netns import SYSCTLS_EVERYWHERE, namespace_name, share_cpus
from tunnelbench.testbed.ssh import SshTestbed
from tunnelbench.testbed.survey import Place, Survey

LOOK_EVERY_S = 0.5
"""At QEMU's threads, in a trial."""

METHOD = "ticks"
"""How the guest counts what its programs use."""


class VirtualRouter(LentHost):
    """The router as SSH shows it, its CPU as this machine sees it."""

    emulator: Machine | None = None
    emulated_on: tuple[int, ...] = ()

    @property
    def cpus_here(self) -> tuple[int, ...]:
        return self.emulated_on

    def sampler(self, daemons: Sequence[Daemon], limit_s: float) -> Sampler | None:
        if self.emulator is None:
            raise ValueError("the virtual router is not up")
        return ThreadSampler(self, self.emulator, daemons)

    def account(self, daemons: Sequence[Daemon]) -> Account:
        """What the guest itself says of its CPU, and of some of its programs."""
        programs = {daemon.pid: daemon.name for daemon in daemons}
        paths = ["/proc/stat", *(f"/proc/{pid}/stat" for pid in programs)]
        return parse_account(self.run(["cat", *paths], check=False).stdout, programs)

    def _as_user(self, folder: Path) -> list[str]:
        return []  # its key is root's


@dataclass(frozen=True)
class Account:
    """What a guest counts, in clock ticks [s since boot]."""

    user_s: float
    system_s: float
    softirq_s: float
    programs_s: Mapping[str, float]
    """By the program's name."""


def parse_account(text: str, programs: Mapping[int, str]) -> Account:
    """/proc/stat of a machine with one CPU, and /proc/PID/stat of some programs (proc_pid_stat(5)); no I/O."""
    (times,) = parse_stat(text).values()
    spent_s = dict.fromkeys(programs.values(), 0.0)
    for pid, fields in re.findall(r"^(\d+) \(.*\) (.*)$", text, re.MULTILINE):
        user, system = fields.split()[11:13]
        spent_s[programs[int(pid)]] += (int(user) + int(system)) * TICK_S
    return Account(times.user_s, times.system_s, times.softirq_s, spent_s)


class ThreadSampler:
    """Looks at QEMU's threads beside the traffic. In the router nothing runs for it: before and after it, it is asked
    what part of its work was whose."""

    def __init__(self, router: VirtualRouter, emulator: Machine, daemons: Sequence[Daemon]) -> None:
        self._router = router
        self._emulator = emulator
        self._daemons = daemons
        self._samples: Samples | None = None
        self._before = router.account(daemons)
        self._looks = [emulator.threads()]
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        with suppress(OSError):  # it has died: the trial finds that out
            while not self._is_over.wait(LOOK_EVERY_S):
                self._looks.append(self._emulator.threads())

    def stop(self) -> Samples:
        if self._samples is None:
            self._is_over.set()
            self._thread.join()
            after = self._router.account(self._daemons)
            share = (self._emulator.share_percent or 100.0) / 100.0
            readings = read_looks(self._looks, share, self._before, after)
            raw = "".join(f"{look.clock_s:.6f} {dict(look.spent_s)}\n" for look in self._looks)
            self._samples = Samples(tuple(readings), 0.0, raw)
        return self._samples


def read_looks(looks: Sequence[Threads], share: float, before: Account, after: Account) -> Iterator[CpuReading]:
    """What QEMU's threads say of the router's CPU, as it is read elsewhere; no I/O.

    Its one CPU is `share` of this machine's: it is busy for all of a second in which QEMU uses up that much. What part
    of that was the user's, the system's, softirqs' or a program's is the guest's own word, for the whole time.
    """
    first = looks[0]
    split = [after.user_s - before.user_s, after.system_s - before.system_s, after.softirq_s - before.softirq_s]
    counted_s = sum(split)
    user, system, softirq = [part / counted_s for part in split] if counted_s > 0 else (0.0, 1.0, 0.0)
    total_s = (looks[-1] - first).total_s
    programs_s = {name: spent_s - before.programs_s[name] for name, spent_s in after.programs_s.items()}
    for look in looks:
        spent = look - first
        busy_s = spent.total_s / share
        so_far = spent.total_s / total_s if total_s > 0 else 0.0
        times = CpuTimes(busy_s * user, busy_s * system, spent.clock_s - busy_s, busy_s * softirq, steal_s=0.0)
        spent_s = {name: whole_s * so_far for name, whole_s in programs_s.items()} if programs_s else None
        yield CpuReading(look.clock_s, {0: times}, spent_s, METHOD if programs_s else "")


class QemuTestbed(SshTestbed):
    """Two namespaces as the testers, an emulated machine as the router."""

    kind = "qemu"

    client: NamespaceHost
    server: NamespaceHost
    router: VirtualRouter

    def __init__(self, spec: TestbedSpec, run_id: str, folder: Path) -> None:
        Testbed.__init__(self, spec, run_id, folder)  # no router of the file's
        self.board = BOARDS[spec.board]
        router_cpu, tester_cpus, self.notes = share_cpus(sorted(os.sched_getaffinity(0)), spec.router_cpu)
        if spec.cpu_share_percent is not None:
            held = f"the virtual router was held to {spec.cpu_share_percent:g} % of a CPU, which is 100 % of its own"
            self.notes += (held,)
        self.local = LocalHost("local", folder / "local", tester_cpus)
        self.changes = Changes(folder)
        self.client = self._namespace("client", tester_cpus)
        self.server = self._namespace("server", tester_cpus)
        access = Access(ALIAS, config=str(self._machine_folder / "ssh_config"))
        self.router = VirtualRouter("router", access, f"{run_id}-router", folder / "router", self.local)
        self.router.emulated_on = (router_cpu,)
        self.survey: Survey | None = None

    def _namespace(self, role: str, cpus: Sequence[int]) -> NamespaceHost:
        return NamespaceHost(role, self.folder / role, cpus, namespace_name(self.mark, role))

    @property
    def _machine_folder(self) -> Path:
        return self.folder / "machine"

    def look(self) -> Mapping[str, Any]:
        """What the router will be: it is the same at each start."""
        image = cached_image(self.board)
        if image is None:
            raise CannotHere(
                f"there is no image of the virtual router {self.board.name}",
                f"tunnelbench testbed build {self.spec.name}",
            )
        a = self.addresses
        self.survey = Survey(
            client=Place(self.lan_device, f"{a.client_lan}/24", is_there=True),
            router_lan=Place(self.router_lan_device, f"{a.router_lan}/24", is_there=True),
            router_wan=Place(self.router_wan_device, f"{a.router_wan}/24", is_there=True),
            server=Place(self.wan_device, f"{a.server_wan}/24", is_there=True),
        )
        facts: dict[str, Any] = {
            "guest": "on a virtual router, emulated",
            "guest_board": self.board.title,
            "guest_kernel": image.kernel_version,
            "guest_package": image.packages[0],
        }
        if self.spec.cpu_share_percent is not None:
            facts["guest_cpu_share_percent"] = self.spec.cpu_share_percent
        return facts

    def _set_up_testers(self) -> None:
        """Namespaces with a tap each, and the router between them."""
        survey = self._known()
        nics = []
        try:
            for host, place, router in (
                (self.client, survey.client, survey.router_lan),
                (self.server, survey.server, survey.router_wan),
            ):
                self._make_namespace(host)
                nics.append(Nic(router.device, router.interface, open_tap(host.namespace, place.device)))
                self._settle(host, place)
            self._boot(nics)
        finally:
            for each in nics:  # QEMU has them now
                os.close(each.tap)

    def _make_namespace(self, host: NamespaceHost) -> None:
        host.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        run_command(["ip", "netns", "add", host.namespace])
        for path, value in SYSCTLS_EVERYWHERE.items():
            if Path(path).exists():
                host.set_kernel_file(path, value)
        host.ip("link", "set", "lo", "up")
        host.drop_anchor()

    def _settle(self, host: NamespaceHost, place: Place) -> None:
        """A tester's tap: one frame is one packet, and its checksums are made before the router gets it."""
        self.prepare_tunnel_device(host, place.device)
        host.run(["ethtool", "-K", place.device, "tx", "off"])
        host.ip("addr", "add", place.interface, "dev", place.device)
        host.ip("link", "set", place.device, "up")

    def _boot(self, nics: Sequence[Nic]) -> None:
        image = cached_image(self.board)
        if image is None:
            raise CannotHere(f"the image of the virtual router {self.board.name} is gone", "start the run again")
        self.router.emulator = Machine(
            self.board,
            image,
            self.mark,
            self._machine_folder,
            nics=nics,
            cpus=self.router.emulated_on,
            share_percent=self.spec.cpu_share_percent,
        )

    def recover(self) -> None:
        if self.router.emulator is not None and not self.router.emulator.is_running:
            raise CannotHere(f"the virtual router has ended; {self.router.emulator.last_words()}")
        super().recover()

    def prepare_tunnel_device(self, host: Host, device: str) -> None:
        """Everywhere one frame is one packet (rule 1): this router is nobody's as it is."""
        for name in nic.merging_at(host, device):
            host.run(["ethtool", "-K", device, name, "off"], check=False)

    def take_down(self) -> None:
        try:
            super().take_down()
        finally:
            if self.router.emulator is not None:
                self.router.emulator.stop()
                self.router.emulator = None
