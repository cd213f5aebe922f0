"""A virtual router that is up between two taps of a network namespace, with SSH on a port of the namespace."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.awaiting import await_text, until
from tests.lab.rig import end_all_of, run

from tunnelbench.qemu.boards import Board
from tunnelbench.qemu.image import find_image
from tunnelbench.qemu.machine import ALIAS
from tunnelbench.tunnel import virtual_router_packages

BENCH = "tbt-switched"
SSH_PORT, SWITCH_PORT = 20422, 20409
ENTER = ("nsenter", f"--net=/run/netns/{BENCH}")
TESTBED = """
kind = "ssh"
quiet_wait_s = 0
{more}
[router]
{router}
config = "{config}"
lan_device = "lan"
wan_device = "wan"
[client]
device = "nic0"
address = "198.18.1.2/24"
[server]
device = "nic1"
address = "198.18.2.2/24"
"""
SLOW_S = 600.0
"""Time limit for an emulated machine on a busy machine [s]."""


@contextmanager
def switched_router(folder: Path, board: Board, *options: str) -> Iterator[Path]:
    """Start a virtual router with `options` of QEMU, and yield the path of its SSH configuration when it is up."""
    find_image(board, virtual_router_packages(), print)
    run("ip", "netns", "add", BENCH)
    run("ip", "-n", BENCH, "link", "set", "lo", "up")
    program = [sys.executable, str(Path(__file__).with_name("router_on_a_switch.py")), board.name, str(folder)]
    log = folder / "machine.log"
    with log.open("wb") as out:
        router = subprocess.Popen([*ENTER, *program, str(SSH_PORT), str(SWITCH_PORT), *options], stdout=out, stderr=out)
    try:
        await_text(log, "ready")
        config = folder / "ssh_config"
        config.write_text(config.read_text().replace(f"Host {ALIAS}", "Host *"))
        for device, address in (("nic0", "198.18.1.2/24"), ("nic1", "198.18.2.2/24")):
            run("ip", "-n", BENCH, "link", "set", device, "up")
            run("ip", "-n", BENCH, "addr", "add", address, "dev", device)
        argv = on_router(config, "true")
        until(
            lambda: subprocess.run(argv, check=False, capture_output=True).returncode == 0, "the router is up", SLOW_S
        )
        yield config
    finally:
        router.kill()
        router.wait()
        end_all_of(BENCH)
        run("ip", "netns", "del", BENCH)


def on_router(config: Path, script: str) -> list[str]:
    """Return the command that runs a script on the router."""
    return [*ENTER, "ssh", "-F", str(config), "-p", str(SSH_PORT), "root@127.0.0.1", script]
