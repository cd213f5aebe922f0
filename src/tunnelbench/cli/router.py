"""A router that nobody has described yet: found, drawn, confirmed, and written down as a testbed file."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import click

from tunnelbench.host.host import RUN_FOLDER
from tunnelbench.model.errors import CannotHere, WrongInput
from tunnelbench.plan import LoadedTestbed, stored_testbed
from tunnelbench.testbed import KINDS
from tunnelbench.testbed.ssh import SshTestbed
from tunnelbench.testbed.survey import Place, Survey

NAME = "router"
"""What such a testbed is called."""


def discovered(target: str, run_id: str) -> tuple[LoadedTestbed, str]:
    """The testbed of a router that is reached by SSH, with all that was found, and a drawing of it.

    Nothing is changed. Raises CannotHere where something cannot be told, FileErrors where the target is no host.
    """
    first = stored_testbed(NAME, f'kind = "ssh"\n\n[router]\nhost = {json.dumps(target)}\n', KINDS)
    folder = RUN_FOLDER / run_id
    testbed = SshTestbed(first.testbed, run_id, folder)
    try:
        testbed.look()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if testbed.survey is None:
        raise CannotHere(f"nothing was found out of {target}")
    text = as_file(target, testbed.survey)
    return stored_testbed(NAME, text, KINDS), drawing(target, testbed.survey)


def as_file(target: str, survey: Survey) -> str:
    """A testbed file that says what was found."""

    def lines(prefix: str, place: Place) -> list[str]:
        return [f'{prefix}device = "{place.device}"', f'{prefix}address = "{place.interface}"']

    return "\n".join([
        "# Found by asking the router and this machine. An address that a device does not have is added for a run.",
        'kind = "ssh"',
        f"title = {json.dumps(f'{target} between two devices of this machine')}",
        "",
        "[router]",
        f"host = {json.dumps(target)}",
        *lines("lan_", survey.router_lan),
        *lines("wan_", survey.router_wan),
        "",
        "[client]",
        'host = "local"',
        *lines("", survey.client),
        "",
        "[server]",
        'host = "local"',
        *lines("", survey.server),
        "namespace = true",
        "",
    ])  # fmt: skip


def drawing(target: str, survey: Survey) -> str:
    """The two cables, and what a run will do."""

    def end(place: Place) -> str:
        return f"{place.device} {place.interface}" + ("" if place.is_there else " (to be added)")

    lan, wan = survey.router_lan, survey.router_wan
    left = max(len(end(survey.client)), len(end(survey.server)), len("this machine"))
    middle = max(len(end(lan)), len(end(wan)))
    rows = [
        f"  {'this machine':<{left}}        {target}",
        f"  {end(survey.client):<{left}} ─────  {end(lan):<{middle}}  LAN: the client",
        f"  {end(survey.server):<{left}} ─────  {end(wan):<{middle}}  WAN: the server",
        "",
        "For the run, and put back afterwards:",
        f"  here: {survey.server.device} is moved into a namespace; a route goes through {survey.client.device}",
        "  on the router: addresses and routes as above, forwarding, rules of its firewall; files in its /tmp only",
    ]
    return "\n".join(rows)


def confirm(picture: str, *, is_agreed: bool, to_stderr: bool) -> None:
    """Show what was found and ask; WrongInput where nobody can answer, CannotHere where the answer is no."""
    click.echo(picture, err=to_stderr)
    if is_agreed:
        return
    if not sys.stdin.isatty():
        raise WrongInput("--router asks before it touches anything, and nobody is there to answer", "add --yes")
    if not click.confirm("Measure this router?", err=to_stderr):
        raise CannotHere("nothing was changed", "describe it in a testbed file and name that with --on")


def keep(text: str, path: Path) -> None:
    """Write the testbed file for next time; another one that is there stays."""
    try:
        with path.open("x") as file:
            file.write(text)
    except FileExistsError:
        if path.is_file() and path.read_text(errors="replace") == text:
            return  # the same was found before, and the answer was no
        raise WrongInput(
            f"{path} is there already, and says something else than was found now",
            f"to measure by it: tunnelbench run --on {path}; else give another name, or delete it",
        ) from None
    except OSError as error:
        raise WrongInput(f"{path} cannot be written: {error.strerror}") from None
