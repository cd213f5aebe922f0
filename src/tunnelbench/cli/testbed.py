"""`tunnelbench testbed`: build a virtual router's image, look inside, end what was left running."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import click

from tunnelbench.cli.telling import say
from tunnelbench.host.command import run_attached
from tunnelbench.model.errors import CannotHere, WrongInput
from tunnelbench.plan import read_testbed
from tunnelbench.qemu.boards import BOARDS, Board
from tunnelbench.qemu.image import find_image
from tunnelbench.qemu.machine import (
    Boot,
    free_port,
    left_machines,
    require_programs,
    write_access,
    write_initramfs,
)
from tunnelbench.testbed import KINDS


@click.group()
def command() -> None:
    """Build the image of a virtual router, look inside, or end what was left running."""


@command.command()
@click.argument("testbed")
@click.option("--anew", is_flag=True, help="Build it even if it is there: with today's packages.")
def build(testbed: str, *, anew: bool) -> None:
    """Build the images of TESTBED's virtual router and far end from Debian's packages, and keep them in the cache.

    Nothing is installed on this machine. What a broken attempt has fetched is used by the next one.
    """
    for board in boards_of(testbed):
        image = find_image(board, say, anew=anew)
        click.echo(f"{image.folder}: kernel {image.kernel_version}, {len(image.packages)} packages")


@command.command()
@click.argument("testbed")
def shell(testbed: str) -> None:
    """Boot TESTBED's virtual router by itself, with a shell on its console.

    What is written there is kept in its memory only; `exit` ends it.
    """
    board = board_of(testbed)
    require_programs(board)
    image = find_image(board, say)
    with tempfile.TemporaryDirectory(prefix="tunnelbench-shell-") as name:
        folder = Path(name)
        port = free_port()
        access = write_access(folder, port)
        boot = Boot(board, image, write_initramfs(image, folder, ()), f"{shell_mark(board)}-router", port)
        say(f"tunnelbench: booting, some 10 s; from another terminal: ssh -F {access.config} {access.alias}")
        run_attached(boot.command(on_terminal=True))


@command.command()
@click.argument("testbed")
def stop(testbed: str) -> None:
    """End what `testbed shell TESTBED` has started; runs are left alone."""
    board = board_of(testbed)
    ended = left_machines(shell_mark(board))
    for pid in ended:
        try:
            os.kill(pid, signal.SIGKILL)
        except PermissionError:
            raise CannotHere(f"process {pid} is somebody else's", "run it again as root, or with sudo") from None
    click.echo(f"ended: process {', '.join(map(str, ended))}" if ended else f"no shell of {testbed} is running")


def shell_mark(board: Board) -> str:
    """Stands where a run's mark stands."""
    return f"shell-{board.name}"


def board_of(reference: str) -> Board:
    """The board of a testbed's router; WrongInput where that is not a virtual one."""
    return boards_of(reference)[0]


def boards_of(reference: str) -> list[Board]:
    """The boards of a testbed, the router's first; WrongInput where that is not a virtual one."""
    spec = read_testbed(reference, (), KINDS).testbed
    if not spec.board:
        raise WrongInput(f"testbed {spec.name} has no virtual router", f'take one of kind "qemu", such as {VIRTUAL}')
    return [BOARDS[name] for name in spec.boards]


VIRTUAL = "malta"
