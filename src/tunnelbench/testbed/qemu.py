"""Testbed `qemu`: a virtual router in QEMU between two namespaces of this machine.

    client(lan) --- tap (lan)router(wan) tap --- (wan)server                          the tunnel ends on the server,
    client(lan) --- tap (lan)router(wan) --- (wan)far end(far) tap --- (far)server    or on a virtual machine before it

Router and far end are driven by SSH, as any small router is: nothing here is easier for it than for a box on the table.
Their devices are on taps that were made inside the testers' namespaces, and on a cable between the two.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tunnelbench.host.command import run_command
from tunnelbench.host.host import Host, LocalHost, NamespaceHost
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import Access, TestbedSpec
from tunnelbench.qemu.boards import BOARDS, Board
from tunnelbench.qemu.image import Image, cached_image
from tunnelbench.qemu.machine import ALIAS, Machine, Nic, cable
from tunnelbench.qemu.taps import open_tap
from tunnelbench.testbed import nic
from tunnelbench.testbed.base import Testbed
from tunnelbench.testbed.changes import Changes
from tunnelbench.testbed.netns import SYSCTLS_EVERYWHERE, namespace_name, share_cpus
from tunnelbench.testbed.ssh import FORWARDING, SshTestbed
from tunnelbench.testbed.survey import Place, Survey
from tunnelbench.testbed.virtual import VirtualHost


class QemuTestbed(SshTestbed):
    """Two namespaces as the testers, an emulated machine as the router, and perhaps another as the tunnel's far end."""

    kind = "qemu"

    client: NamespaceHost
    server: NamespaceHost
    router: VirtualHost

    def __init__(self, spec: TestbedSpec, run_id: str, folder: Path) -> None:
        Testbed.__init__(self, spec, run_id, folder)  # no router of the file's
        self.board = BOARDS[spec.board]
        router_cpu, tester_cpus, self.notes = share_cpus(sorted(os.sched_getaffinity(0)), spec.router_cpu)
        if spec.cpu_share_percent is not None:
            held = f"the virtual router was held to {spec.cpu_share_percent:g} % of a CPU, which is 100 % of its own"
            self.notes += (held,)
        self.far: VirtualHost | None = None
        far_cpu = tester_cpus[-1]
        if spec.far_board and len(tester_cpus) > 1:  # a CPU for itself, where there is one
            tester_cpus = tester_cpus[:-1]
        self.local = LocalHost("local", folder / "local", tester_cpus)
        self.changes = Changes(folder)
        self.client = self._namespace("client", tester_cpus)
        self.server = self._namespace("server", tester_cpus)
        self.router = self._virtual("router", router_cpu)
        if spec.far_board:
            self.far = self._virtual("gateway", far_cpu)
        self.survey: Survey | None = None

    def _namespace(self, role: str, cpus: Sequence[int]) -> NamespaceHost:
        return NamespaceHost(role, self.folder / role, cpus, namespace_name(self.mark, role))

    def _virtual(self, role: str, cpu: int) -> VirtualHost:
        access = Access(ALIAS, config=str(self._machine_folder(role) / "ssh_config"))
        return VirtualHost(role, access, f"{self.run_id}-{role}", self.folder / role, self.local, emulated_on=(cpu,))

    def _machine_folder(self, role: str) -> Path:
        return self.folder / f"machine-{role}"

    @property
    def far_host(self) -> Host:
        return self.far or self.server

    @property
    def virtual(self) -> list[VirtualHost]:
        """The emulated machines."""
        return [self.router, *([self.far] if self.far else [])]

    def look(self) -> Mapping[str, Any]:
        """What the router will be: it is the same at each start."""
        a = self.addresses
        server = Place(self.server_device, f"{a.server_far}/24", is_there=True)
        self.survey = Survey(
            client=Place(self.lan_device, f"{a.client_lan}/24", is_there=True),
            router_lan=Place(self.router_lan_device, f"{a.router_lan}/24", is_there=True),
            router_wan=Place(self.router_wan_device, f"{a.router_wan}/24", is_there=True),
            server=server if self.far else Place(self.wan_device, f"{a.server_wan}/24", is_there=True),
        )
        image = self._image(self.board)
        facts: dict[str, Any] = {
            "guest": "on a virtual router, emulated",
            "guest_board": self.board.title,
            "guest_kernel": image.kernel_version,
            "guest_package": image.packages[0],
        }
        if self.spec.cpu_share_percent is not None:
            facts["guest_cpu_share_percent"] = self.spec.cpu_share_percent
        if self.far:
            board = BOARDS[self.spec.far_board]
            facts["guest_far_end"] = f"{board.title}, kernel {self._image(board).kernel_version}"
        return facts

    def _image(self, board: Board) -> Image:
        image = cached_image(board)
        if image is None:
            raise CannotHere(
                f"there is no image of the virtual machine {board.name}",
                f"tunnelbench testbed build {self.spec.name}",
            )
        return image

    def _set_up_testers(self) -> None:
        """Namespaces with a tap each, the router between them, and before the server the far end."""
        survey, a = self._known(), self.addresses
        with ExitStack() as stack:

            def ours(descriptor: int) -> int:
                stack.callback(os.close, descriptor)  # QEMU has it by then
                return descriptor

            taps = []
            for host, place in ((self.client, survey.client), (self.server, survey.server)):
                self._make_namespace(host)
                taps.append(ours(open_tap(host.namespace, place.device)))
                self._settle(host, place)
            lan = Nic(survey.router_lan.device, survey.router_lan.interface, taps[0], 1)
            wan = survey.router_wan
            if self.far is None:
                self._boot(self.router, self.board, [lan, Nic(wan.device, wan.interface, taps[1], 2)])
                return
            near, far = map(ours, cable())
            self._boot(self.router, self.board, [lan, Nic(wan.device, wan.interface, near, 2, is_tap=False)])
            beyond = [
                Nic(self.wan_device, f"{a.server_wan}/24", far, 3, is_tap=False),
                Nic(self.server_device, f"{a.far_lan}/24", taps[1], 4),
            ]
            self._boot(self.far, BOARDS[self.spec.far_board], beyond)

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

    def _boot(self, host: VirtualHost, board: Board, nics: Sequence[Nic]) -> None:
        host.emulator = Machine(
            board,
            self._image(board),
            self.mark,
            self._machine_folder(host.name),
            role=host.name,
            nics=nics,
            cpus=host.emulated_on,
            share_percent=self.spec.cpu_share_percent if host is self.router else None,
        )

    def _set_up_paths(self) -> None:
        super()._set_up_paths()
        if self.far:
            a = self.addresses
            self.far.set_kernel_file(FORWARDING, "1")
            self.far.ip("route", "add", f"{a.target}/32", "via", a.server_far)
            self.server.ip("route", "replace", a.lan_network, "via", a.far_lan)

    def recover(self) -> None:
        for host in self.virtual:
            host.require_running()
        super().recover()

    def prepare_tunnel_device(self, host: Host, device: str) -> None:
        """Everywhere one frame is one packet (rule 1): this router is nobody's as it is."""
        for name in nic.merging_at(host, device):
            host.run(["ethtool", "-K", device, name, "off"], check=False)

    def take_down(self) -> None:
        try:
            super().take_down()
        finally:
            for host in self.virtual:
                host.shut_down()
