"""`run --router`: find out how a router is connected, ask the user, and write a testbed file."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import click

from tunnelbench.cli.stderr_messages import say
from tunnelbench.host.host import RUN_FOLDER, make_private
from tunnelbench.host.trust import held_for_writing
from tunnelbench.model.errors import CannotHere, WrongInput
from tunnelbench.plan import LoadedTestbed, stored_testbed
from tunnelbench.testbed import KINDS
from tunnelbench.testbed.discovery import CableEnd, CableEnds
from tunnelbench.testbed.ssh import SshTestbed

ROUTER_TESTBED = "router"
"""Name of the testbed that `run --router` makes."""


def discovered(target: str, run_id: str) -> tuple[LoadedTestbed, str]:
    """Examine a router over SSH without changing it; return its testbed, and a drawing of it.

    Raises CannotHere if the cables cannot be found out, FileErrors if the target is not a host.
    """
    first = stored_testbed(ROUTER_TESTBED, f'kind = "ssh"\n\n[router]\nhost = {json.dumps(target)}\n', KINDS)
    folder = RUN_FOLDER / run_id
    make_private(RUN_FOLDER)
    testbed = SshTestbed(first.testbed, run_id, folder)
    try:
        testbed.look()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if testbed.cable_ends is None:
        raise CannotHere(f"TunnelBench could not examine {target}")
    text = as_file(target, testbed.cable_ends)
    return stored_testbed(ROUTER_TESTBED, text, KINDS), drawing(target, testbed.cable_ends)


def as_file(target: str, cable_ends: CableEnds) -> str:
    """Return the text of a testbed file."""

    def lines(prefix: str, place: CableEnd) -> list[str]:
        return [f"{prefix}device = {json.dumps(place.device)}", f"{prefix}address = {json.dumps(place.interface)}"]

    return "\n".join([
        "# TunnelBench asked the router and this machine. A run adds each address that a device does not have.",
        'kind = "ssh"',
        f"title = {json.dumps(f'{target} between two devices of this machine')}",
        "",
        "[router]",
        f"host = {json.dumps(target)}",
        *lines("lan_", cable_ends.router_lan),
        *lines("wan_", cable_ends.router_wan),
        "",
        "[client]",
        'host = "local"',
        *lines("", cable_ends.client),
        "",
        "[server]",
        'host = "local"',
        *lines("", cable_ends.server),
        "namespace = true",
        "",
    ])  # fmt: skip


def drawing(target: str, cable_ends: CableEnds) -> str:
    """Draw the two cables, and list what a run changes."""

    def end(place: CableEnd) -> str:
        return f"{place.device} {place.interface}" + ("" if place.is_there else " (to be added)")

    lan, wan, server = cable_ends.router_lan, cable_ends.router_wan, cable_ends.server
    left = max(len(end(cable_ends.client)), len(end(server)), len("this machine"))
    middle = max(len(end(lan)), len(end(wan)))
    rows = [
        f"  {'this machine':<{left}}        {target}",
        f"  {end(cable_ends.client):<{left}} ─────  {end(lan):<{middle}}  LAN: the client",
        f"  {end(server):<{left}} ─────  {end(wan):<{middle}}  WAN: the server",
        "",
        "A run changes this, and undoes it afterwards:",
        f"  here: {server.device} is moved into a namespace; a route goes through {cable_ends.client.device}",
        "  on the router: addresses and routes as above, forwarding, rules of its firewall; files in its /tmp only",
    ]
    return "\n".join(rows)


def confirm(picture: str, *, is_agreed: bool, to_stderr: bool) -> None:
    """Show the drawing and ask for permission. Raises WrongInput without a terminal, CannotHere if the user refuses."""
    say(picture, err=to_stderr)
    if is_agreed:
        return
    if not sys.stdin.isatty():
        raise WrongInput("--router asks before it changes anything, and there is no terminal to ask on", "add --yes")
    if not click.confirm("Measure this router?", err=to_stderr):
        raise CannotHere("nothing was changed", "describe the router in a testbed file and name the file with --on")


def keep(text: str, path: Path) -> None:
    """Write the testbed file. Raises WrongInput if the file exists with another content."""
    try:
        with held_for_writing(path) as place, place.open("x") as file:
            file.write(text)
    except FileExistsError:
        if path.is_file() and path.read_text(errors="replace") == text:
            return  # from an earlier attempt to which the user said no
        raise WrongInput(
            f"{path} exists, and differs from what was found now",
            f"to use that file: tunnelbench run --on {path}; else give another name, or delete it",
        ) from None
    except OSError as error:
        raise WrongInput(f"{path} cannot be written: {error.strerror}") from None
