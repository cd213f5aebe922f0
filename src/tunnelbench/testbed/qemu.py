"""Testbed `qemu`: a virtual router in QEMU stands between two namespaces of this machine.

    client(lan) --- tap (lan)router(wan) tap --- (wan)server                          the tunnel ends on the server,
    client(lan) --- tap (lan)router(wan) --- (wan)far end(far) tap --- (far)server    or on a virtual machine before it

With the topology `road-warrior`, the tunnel joins client and router in the first of these.

Router and far end are driven over SSH, as a real router is. Their devices are on taps inside the testers' namespaces,
and on a cable between the two.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tunnelbench.host.cpu_polling import polled
from tunnelbench.host.host import Host, LocalHost
from tunnelbench.host.namespace import NamespaceHost
from tunnelbench.host.programs import qemu_version
from tunnelbench.host.realtime import TESTER_PRIORITY
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import HOST_KERNEL, HostAccess, KindSettings, TestbedSpec
from tunnelbench.qemu.boards import BOARDS, EMULATED, Board
from tunnelbench.qemu.image import Image, cached_image
from tunnelbench.qemu.instruction_profile import PROFILE_KEY, can_profile
from tunnelbench.qemu.machine import ALIAS, Nic, VirtualMachine, cable, can_run_first, require_machine_programs
from tunnelbench.qemu.programs import INSTALL_SCRIPT, programs_text, read_programs
from tunnelbench.qemu.taps import open_tap
from tunnelbench.testbed.discovery import CableEnd, CableEnds
from tunnelbench.testbed.leased import LeasedTestbed
from tunnelbench.testbed.netns import share_cpus
from tunnelbench.testbed.virtual_host import CATCH_UP_LIMIT_S, VirtualHost

RECEIVE_WINDOW_BYTES = 262144
RECEIVE_BUFFERS = "4096 6291456 6291456"
"""Sizes of a tester's receive buffer of TCP: least, default and most [bytes]. The default is the usual maximum."""
SEND_BUFFERS = "4096 524288 4194304"
"""The same of its send buffer. The kernel's usual default, 16384, grows with the congestion window only."""

NOT_FIRST = (
    "QEMU does not run before other programs, because this system refuses the nice value -20: the figures depend on "
    "other work of this machine; a container needs CAP_SYS_NICE"
)
"""Note on a run on a router of fixed speed whose QEMU keeps its usual priority."""

NO_PROFILE = (
    f"there is no profile of instructions ({PROFILE_KEY} = true), because this machine's QEMU was built without plugins"
)
"""Note on a run whose testbed file asks for a profile that QEMU cannot count."""

SOCKET_BUFFERS_SCRIPT = """
set -e
for name in rmem_max rmem_default wmem_max wmem_default; do
    echo 4194304 >"/proc/sys/net/core/$name"
done
"""
"""Gives the sockets of a virtual machine buffers [bytes] for a receive window of the smallest segments. It is one
command, because each one takes some tenths of a second on a slow router."""


class QemuTestbed(LeasedTestbed):
    """Two namespaces as the testers, an emulated machine as the router, and optionally another as the far end."""

    kind = "qemu"
    settings = KindSettings(
        {
            "router_cpu": (),
            "kernel": (HOST_KERNEL,),  # the virtual router has a kernel of its own
            "topology": (),
            "link.mtu_bytes": (),
            "board": (),
            "far_board": (),
            "programs": (),
            "far_programs": (),
            "speed_mips": (),
            "profile": (),
        },
        required={"board": 'board = "malta"'},
    )

    client: NamespaceHost
    server: NamespaceHost
    router: VirtualHost

    def __init__(self, spec: TestbedSpec, run_id: str, folder: Path) -> None:
        super().__init__(spec, run_id, folder)
        self.board = BOARDS[spec.board]
        router_cpu, tester_cpus, self.notes = share_cpus(sorted(os.sched_getaffinity(0)), spec.router_cpu)
        if spec.speed_mips is not None:
            self.notes += (f"the virtual router executes {spec.speed_mips:g} million instructions per second",)
        self.goes_first = spec.speed_mips is not None and router_cpu not in tester_cpus
        """True if QEMU runs before other programs: a router of fixed speed would lose time to them, and a slow gateway
        would be the limit instead. On a machine with one CPU, the testers must keep their part of it."""
        if spec.speed_mips is not None:
            self.receive_window_bytes = RECEIVE_WINDOW_BYTES
        self.has_profile = False
        """True if the run counts the router's instructions by address."""
        self.far: VirtualHost | None = None
        far_cpu = tester_cpus[-1]
        if spec.far_board and len(tester_cpus) > 1:  # the far end gets a CPU of its own
            tester_cpus = tester_cpus[:-1]
        self.local = LocalHost("local", folder / "local", tester_cpus)
        self.client = self._namespace_host("client", tester_cpus)
        self.server = self._namespace_host("server", tester_cpus)
        self.router = self._virtual("router", router_cpu)
        if spec.far_board:
            self.far = self._virtual("gateway", far_cpu)
        self.leased = list(self.virtual)
        self._known_programs: dict[str, Mapping[str, bytes]] = {}
        """The user's programs of each virtual machine that were read, by its name."""

    def _virtual(self, role: str, cpu: int) -> VirtualHost:
        access = HostAccess(ALIAS, config=str(self._machine_folder(role) / "ssh_config"))
        return VirtualHost(role, access, f"{self.run_id}-{role}", self.folder / role, self.local, emulated_on=(cpu,))

    def _machine_folder(self, role: str) -> Path:
        return self.folder / f"machine-{role}"

    @property
    def far_host(self) -> Host:
        return self.far or self.server

    @property
    def virtual(self) -> list[VirtualHost]:
        """The virtual machines: the router, and the far end if there is one."""
        return [self.router, *([self.far] if self.far else [])]

    def look(self) -> Mapping[str, Any]:
        """Return facts of the virtual machines; they are the same at each start. Raises CannotHere without an image."""
        a = self.addresses
        server = CableEnd(self.server_device, f"{a.server_far}/24", is_there=True)
        self.cable_ends = CableEnds(
            client=CableEnd(self.lan_device, f"{a.client_lan}/24", is_there=True),
            router_lan=CableEnd(self.router_lan_device, f"{a.router_lan}/24", is_there=True),
            router_wan=CableEnd(self.router_wan_device, f"{a.router_wan}/24", is_there=True),
            server=server if self.far else CableEnd(self.wan_device, f"{a.server_wan}/24", is_there=True),
        )
        image = self._image(self.board)
        require_machine_programs(self.board)
        self.has_profile = self.spec.profile and can_profile(self.board.program)
        if self.spec.profile and not self.has_profile:
            self.notes += (NO_PROFILE,)
        if self.goes_first and not can_run_first():
            self.notes += (NOT_FIRST,)
        facts: dict[str, Any] = {
            "guest": EMULATED,
            "guest_board": self.board.title,
            "guest_kernel": image.kernel_version,
            "guest_package": image.packages[0],
            "guest_qemu": qemu_version(self.board.program),
        }
        if self.spec.speed_mips is not None:
            facts["guest_speed_mips"] = self.spec.speed_mips
        for fact, host in (("guest_programs", self.router), ("guest_far_programs", self.far)):
            if host and (programs := self._programs(host)):
                facts[fact] = programs_text(programs)
        if self.far:
            board = BOARDS[self.spec.far_board]
            facts["guest_far_end"] = f"{board.title}, kernel {self._image(board).kernel_version}"
        return facts

    def _programs(self, host: VirtualHost) -> Mapping[str, bytes]:
        """Return the user's programs for a virtual machine. Raises CannotHere if their folder cannot be used.

        They are read once: if a build replaces a file meanwhile, the machine still gets the file that the facts name.
        """
        if host.name not in self._known_programs:
            folder = self.spec.programs if host is self.router else self.spec.far_programs
            self._known_programs[host.name] = read_programs(folder) if folder else {}
        return self._known_programs[host.name]

    def _image(self, board: Board) -> Image:
        image = cached_image(board)
        if image is None:
            raise CannotHere(
                f"there is no image of the virtual machine {board.name}",
                f"tunnelbench testbed build {self.spec.name}",
            )
        return image

    def _set_up_testers(self) -> None:
        """Make a namespace with a tap for each tester, and boot the virtual machines between them."""
        cable_ends, a = self.known_cable_ends, self.addresses
        with ExitStack() as stack:

            def closed_later(descriptor: int) -> int:
                stack.callback(os.close, descriptor)  # QEMU has its own copy by then
                return descriptor

            taps = []
            for host, end in ((self.client, cable_ends.client), (self.server, cable_ends.server)):
                host.create()
                if self.spec.speed_mips is not None:
                    self._acknowledge_each_second_segment(host)
                taps.append(closed_later(open_tap(host.namespace, end.device)))
                self._set_up_tap(host, end)
            nic = partial(Nic, mtu_bytes=self.spec.link.mtu_bytes)
            lan = nic(cable_ends.router_lan.device, cable_ends.router_lan.interface, taps[0], 1)
            wan = cable_ends.router_wan
            if self.far is None:
                emulators = [self._start(self.router, self.board, [lan, nic(wan.device, wan.interface, taps[1], 2)])]
            else:
                near, far = map(closed_later, cable())
                beyond = [
                    nic(self.wan_device, f"{a.server_wan}/24", far, 3, is_tap=False),
                    nic(self.far_device, f"{a.far_lan}/24", taps[1], 4),
                ]
                emulators = [  # both boot at the same time
                    self._start(self.router, self.board, [lan, nic(wan.device, wan.interface, near, 2, is_tap=False)]),
                    self._start(self.far, BOARDS[self.spec.far_board], beyond),
                ]
        for emulator in emulators:
            emulator.wait_until_up()

    def _acknowledge_each_second_segment(self, host: NamespaceHost) -> None:
        """Make the number of a tester's ACKs independent of the load of this machine (RFC 5681, section 4.2).

        A receiver that reads late sends fewer ACKs, because its window cannot move while unread data fill the buffer:
        for the same row, there were 0.05 to 0.5 ACKs for each data packet, and the router carried up to a third more
        or less. With a receive window (`receive_window_bytes`) far below the buffer's size, the window can always move,
        so that the kernel sends the ACK at once. Linux 6.7 and later also join ACKs if a program is reading meanwhile.

        A sender whose buffer is small waits for room after every few segments, and marks the last of them (PSH). Linux
        6.6 and later acknowledge such a segment as soon as it is read (tcp_measure_rcv_mss). If the congestion window
        stayed small, as in some trials of slow tunnels, there were up to a fifth more ACKs.
        """
        host.set_kernel_file("/proc/sys/net/ipv4/tcp_rmem", RECEIVE_BUFFERS)
        host.set_kernel_file("/proc/sys/net/ipv4/tcp_wmem", SEND_BUFFERS)
        if Path("/proc/sys/net/ipv4/tcp_backlog_ack_defer").exists():
            host.set_kernel_file("/proc/sys/net/ipv4/tcp_backlog_ack_defer", "0")

    @staticmethod
    def _enlarge_socket_buffers(host: VirtualHost) -> None:
        """Make the buffers of all sockets large enough for what can be on its way.

        With the usual size a burst was lost at the UDP socket of a tunnel's program whenever that program ran late, on
        the router or on the other end. After a loss, a connection of a few seconds left the router idle for up to 12 %
        of the time, and its throughput differed from trial to trial by as much.
        """
        host.shell(SOCKET_BUFFERS_SCRIPT)

    def _set_up_tap(self, host: NamespaceHost, end: CableEnd) -> None:
        """Set up a tester's tap so that each frame holds one packet with a complete checksum."""
        self.prepare_tunnel_device(host, end.device)
        host.run(["ethtool", "-K", end.device, "tx", "off"])
        host.ip("addr", "add", end.interface, "dev", end.device)
        host.ip("link", "set", end.device, "up")

    def _start(self, host: VirtualHost, board: Board, nics: Sequence[Nic]) -> VirtualMachine:
        host.emulator = emulator = VirtualMachine(
            board,
            self._image(board),
            self.mark,
            self._machine_folder(host.name),
            role=host.name,
            nics=nics,
            cpus=host.emulated_on,
            speed_mips=self.spec.speed_mips if host is self.router else None,
            programs=self._programs(host),
            is_first=self.goes_first,
            has_profile=self.has_profile and host is self.router,
        )
        return emulator

    def _set_up_paths(self) -> None:
        super()._set_up_paths()
        for host in self.virtual:
            if self.spec.speed_mips is not None:
                self._enlarge_socket_buffers(host)
            if self._programs(host):
                host.shell(INSTALL_SCRIPT)

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Keep the CPUs of the virtual machines awake, so that a router of fixed speed starts in time after each wait.

        In trials at 60 and 360 packets/s on a machine whose hypervisor had other work, the router's clock lost 3.0 % of
        the time, and 0.9 % with awake CPUs. A WireGuard packet of 18 bytes took 2.5 % more instructions.

        The router and the testers get a real-time class, so that packets come and are handled one by one also beside
        other programs (docs/methodology.md, rule 14, has figures).
        """
        if self.spec.speed_mips is None:
            yield
            return
        cpus = {cpu for host in self.virtual for cpu in host.emulated_on}
        with ExitStack() as stack:
            self.pollers = stack.enter_context(polled(self.local, cpus))
            stack.callback(setattr, self, "pollers", {})
            if self.goes_first and self._has_realtime(stack):
                for tester in (self.client, self.server):
                    tester.realtime_priority = TESTER_PRIORITY
                    stack.callback(setattr, tester, "realtime_priority", 0)
            yield

    def _has_realtime(self, stack: ExitStack) -> bool:
        """Give the router's QEMU a real-time class until the stack is closed; returns False if that is refused."""
        emulator = self.router.emulator
        return emulator is not None and stack.enter_context(emulator.in_realtime())

    def try_out(self) -> str:
        """Keep the router busy for a short time, and return whether this machine holds its speed."""
        found = self.router.try_speed()
        return "" if found is None else found.text("tunnelbench run PLAN --on " + self.spec.name)

    def hold(self, seconds: float) -> None:
        super().hold(seconds + CATCH_UP_LIMIT_S)  # the router's clock may have to catch up first

    def recover(self) -> str:
        for host in self.virtual:
            host.require_running()
        return super().recover()

    def take_down(self) -> None:
        try:
            super().take_down()
        finally:
            for host in self.virtual:
                host.shut_down()
