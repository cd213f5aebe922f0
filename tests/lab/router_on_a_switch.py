"""Program that runs a virtual router between two taps of its network namespace, behind a power switch for labgrid.

    python router_on_a_switch.py BOARD FOLDER SSH_PORT SWITCH_PORT [OPTION OF QEMU]...

The switch has labgrid's model `rest`: `PUT /1` with 0 kills the router, and with 1 starts it. The SSH keys and the port
of the router stay the same, as those of a real one. The file `ssh_config` in FOLDER reaches it.
"""

from __future__ import annotations

import http.server
import subprocess
import sys
from pathlib import Path

from tunnelbench.qemu.boards import BOARDS
from tunnelbench.qemu.image import cached_image
from tunnelbench.qemu.machine import Boot, Nic, write_access, write_initramfs
from tunnelbench.qemu.taps import _open

DEVICES = (("nic0", "lan", "198.18.1.1/24"), ("nic1", "wan", "198.18.2.1/24"))
"""Taps of the namespace, each with the router's device behind it and the address of that device."""


class PowerSocket(http.server.BaseHTTPRequestHandler):
    """The power switch; `argv` is the command that starts the router."""

    argv: tuple[str, ...] = ()
    descriptors: tuple[int, ...] = ()
    folder = Path()
    machine: subprocess.Popen[bytes] | None = None

    @classmethod
    def switch(cls, *, is_on: bool) -> None:
        if cls.machine:
            cls.machine.kill()
            cls.machine.wait()
            cls.machine = None
        if is_on:
            with (cls.folder / "console.log").open("ab") as log:
                cls.machine = subprocess.Popen(
                    cls.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=cls.descriptors
                )

    def do_PUT(self) -> None:
        value = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.switch(is_on=value == "1")
        with (self.folder / "switched").open("a") as log:
            log.write(value)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


def main() -> None:
    board, folder, ssh_port, switch_port = BOARDS[sys.argv[1]], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    image = cached_image(board)
    assert image is not None
    taps = tuple(_open(tap) for tap, _, _ in DEVICES)
    nics = [
        Nic(name, address, tap, number)
        for number, (tap, (_, name, address)) in enumerate(zip(taps, DEVICES, strict=True), start=1)
    ]
    write_access(folder, ssh_port)
    boot = Boot(board, image, write_initramfs(image, folder, nics, {}), "switched-router", ssh_port, nics)
    PowerSocket.argv, PowerSocket.descriptors, PowerSocket.folder = (*boot.command(), *sys.argv[5:]), taps, folder
    PowerSocket.switch(is_on=True)
    print("ready", flush=True)
    http.server.HTTPServer(("127.0.0.1", switch_port), PowerSocket).serve_forever()


if __name__ == "__main__":
    main()
