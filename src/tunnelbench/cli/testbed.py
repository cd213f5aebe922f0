"""`tunnelbench testbed`: build a virtual router's image, open a shell on it, or end that shell."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import click

from tunnelbench.cli.command_log import log_options
from tunnelbench.cli.common_options import emit
from tunnelbench.cli.stderr_messages import say
from tunnelbench.host.command import run_attached
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.shipped import VIRTUAL_ROUTER
from tunnelbench.plan import read_testbed
from tunnelbench.qemu.boards import BOARDS, Board
from tunnelbench.qemu.image import find_image
from tunnelbench.qemu.machine import (
    ALIAS,
    Boot,
    left_machines,
    require_machine_programs,
    reserved_port,
    write_access,
    write_initramfs,
)
from tunnelbench.testbed import KINDS
from tunnelbench.tunnel import virtual_router_packages


@click.group()
def command() -> None:
    """Build the image of a virtual router, open a shell on it, or end that shell."""


@command.command()
@click.argument("testbed")
@click.option("--anew", is_flag=True, help="Build it again, with today's packages.")
@log_options
def build(testbed: str, *, anew: bool) -> None:
    """Build the images of TESTBED's virtual router and far end from Debian's packages, and keep them in the cache.

    Nothing is installed on this machine. Packages that an interrupted build has fetched are used by the next one.
    """
    for board in {board.system: board for board in boards_of(testbed)}.values():  # boards of one system share its image
        image = find_image(board, virtual_router_packages(), say, anew=anew)
        emit(f"{image.folder}: kernel {image.kernel_version}, {len(image.packages)} packages\n")


@command.command()
@click.argument("testbed")
@log_options
def shell(testbed: str) -> None:
    """Boot TESTBED's virtual router alone, with a shell on its console.

    The router's files are in memory only and are lost at the end; `exit` ends it.
    """
    board = board_of(testbed)
    require_machine_programs(board)
    image = find_image(board, virtual_router_packages(), say)
    with tempfile.TemporaryDirectory(prefix="tunnelbench-shell-") as name, reserved_port() as port:
        folder = Path(name)
        config = write_access(folder, port)
        boot = Boot(board, image, write_initramfs(image, folder, (), {}), f"{shell_mark(board)}-router", port)
        say(f"tunnelbench: booting takes about 10 s; from another terminal: ssh -F {config} {ALIAS}")
        run_attached(boot.command(on_terminal=True))


@command.command()
@click.argument("testbed")
def stop(testbed: str) -> None:
    """End your shells that `testbed shell TESTBED` has started. Runs and the shells of other users are not affected."""
    board = board_of(testbed)
    ended = left_machines(shell_mark(board))
    for pid in ended:
        os.kill(pid, signal.SIGKILL)
    emit(f"ended: process {', '.join(map(str, ended))}\n" if ended else f"you have no running shell of {testbed}\n")


def shell_mark(board: Board) -> str:
    """Return the mark of the user's shells on a board, by which their processes are found (a run has its own mark)."""
    return f"shell-{os.getuid()}-{board.name}"


def board_of(reference: str) -> Board:
    """Return the board of a testbed's router. Raises WrongInput if the router is not virtual."""
    return boards_of(reference)[0]


def boards_of(reference: str) -> list[Board]:
    """Return the boards of a testbed, the router's first. Raises WrongInput if the router is not virtual."""
    spec = read_testbed(reference, KINDS).testbed
    if not spec.board:
        hint = f'name a testbed of kind "qemu", such as {VIRTUAL_ROUTER}'
        raise WrongInput(f"testbed {spec.name} has no virtual router", hint)
    return [BOARDS[name] for name in spec.boards]
