"""`tunnelbench serve`: show runs, racks and results live in a browser."""

from __future__ import annotations

import os
import re
import socket
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tunnelbench.cli.command_log import log_options
from tunnelbench.cli.common_options import store_option
from tunnelbench.cli.stderr_messages import say
from tunnelbench.host.input_files import read_regular
from tunnelbench.host.python_packages import SERVE, install_hint
from tunnelbench.model.errors import CannotHere, WrongInput
from tunnelbench.model.text import printable
from tunnelbench.store.location import default_path

if TYPE_CHECKING:
    from tunnelbench.serve.access import Access

PAGES_PORT = 8710
LOOPBACK = ("127.0.0.1", "::1")
PASSWORD_VARIABLE = "TUNNELBENCH_SERVE_PASSWORD"  # noqa: S105 - a name
MOST_PASSWORD_BYTES = 1000
HEADER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,60}")
HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")


@click.command()
@click.option(
    "--listen", "place", metavar="[ADDRESS:]PORT", default=f"{LOOPBACK[0]}:{PAGES_PORT}", show_default=True,
    help="Address and port of the pages. Another address than localhost needs a password or a proxy's header.",
)  # fmt: skip
@click.option(
    "--password-file", metavar="FILE", help=f"File with the password of the pages; or set {PASSWORD_VARIABLE}."
)
@click.option("--user-header", metavar="NAME", help="Header in which a reverse proxy names the user that it signed in.")
@click.option(
    "--proxy", "proxies", metavar="ADDRESS", multiple=True,
    help="With --user-header: address of the reverse proxy.  [default: this machine]",
)  # fmt: skip
@click.option("--name", "names", metavar="HOST", multiple=True, help="Name of this machine in the browser's address.")
@log_options
@store_option
def command(  # noqa: PLR0917 - click hands them over by name
    place: str,
    password_file: str | None,
    user_header: str | None,
    proxies: tuple[str, ...],
    names: tuple[str, ...],
    store_location: str | None,
) -> None:
    """Show runs, racks and results in a browser, also while they are measured, until a signal ends the server.

    The pages change nothing in the store. Only signed-in users can cancel and resubmit jobs of racks.
    """
    lacking = [package for package in SERVE if find_spec(package) is None]
    if lacking:
        plural = "s" if len(lacking) > 1 else ""
        raise CannotHere(
            f"serve needs the Python package{plural} {' and '.join(lacking)}, which "
            f"{'are' if plural else 'is'} missing",
            install_hint(*lacking),
        )
    address, port = parsed_place(place)
    access = checked_access(address, read_password(password_file), user_header, proxies, names)
    from tunnelbench.serve.server import serve  # noqa: PLC0415 - only this verb needs Starlette

    with listening(address, port) as listener:
        serve(listener, store_location or default_path(), access, say)


def parsed_place(place: str) -> tuple[str, int]:
    """Return address and port of `--listen`. Raises WrongInput."""
    address, colon, port = place.rpartition(":")
    address = address.removeprefix("[").removesuffix("]") if colon else LOOPBACK[0]
    address = LOOPBACK[0] if address == "localhost" else address
    try:
        number = int(port) if port.isascii() and port.isdigit() else -1
        ip_address(address)
    except ValueError:
        number = -1
    if not 0 <= number < 65536:
        raise WrongInput(
            f"--listen: {printable(place)[:80]} is no address with a port", "write for example 192.0.2.1:8710 or 8710"
        )
    return address, number


def read_password(path: str | None) -> str | None:
    """Return the password of a file or of the environment; None if there is none. Raises WrongInput."""
    if path is None:
        return os.environ.pop(PASSWORD_VARIABLE, None) or None
    try:
        content = read_regular(path, MOST_PASSWORD_BYTES)
        mode = Path(path).stat().st_mode
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise WrongInput(f"--password-file: {printable(path)} cannot be read: {why}", "name another file") from None
    if mode & 0o007:
        raise WrongInput(f"--password-file: every user can read {printable(path)}", "chmod 600 it")
    try:
        return content[:MOST_PASSWORD_BYTES].decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise WrongInput(f"--password-file: {printable(path)} is not UTF-8 text", "write the password anew") from None


def checked_access(
    address: str, password: str | None, user_header: str | None, proxies: tuple[str, ...], names: tuple[str, ...]
) -> Access:
    """Return the rules of access. Raises WrongInput for options that would leave the pages open."""
    from tunnelbench.serve.access import SHORTEST_PASSWORD, Access  # noqa: PLC0415 - only this verb needs it

    if password is not None and user_header is not None:
        raise WrongInput("a password and --user-header contradict each other", "leave one of them out")
    if password is not None and len(password) < SHORTEST_PASSWORD:
        raise WrongInput(
            f"the password has less than {SHORTEST_PASSWORD} characters", "make one: openssl rand -base64 18"
        )
    check_proxy(user_header, proxies)
    for name in names:
        if not HOST_NAME.fullmatch(name):
            raise WrongInput(f"--name: {printable(name)[:80]} is no name of a machine", "write for example rack.lan")
    is_open = not ip_address(address).is_loopback
    if is_open and password is None and user_header is None:
        raise WrongInput(
            f"--listen {address} would show the results to everybody who can reach this machine",
            f"add --password-file or --user-header, or leave it out and use ssh -L {PAGES_PORT}:localhost:{PAGES_PORT}",
        )
    if is_open and password is not None:
        say("tunnelbench: the password travels unencrypted; put a reverse proxy with TLS in front, or use ssh -L")
    if is_open and os.geteuid() == 0:
        say("tunnelbench: serve runs as root; a user who can read the store or its database is enough")
    return Access(password, user_header, proxies or LOOPBACK, {name.lower() for name in names})


def check_proxy(user_header: str | None, proxies: tuple[str, ...]) -> None:
    """Raise WrongInput for options that describe no reverse proxy."""
    if user_header is not None and not HEADER_NAME.fullmatch(user_header):
        raise WrongInput("--user-header: no name of a header", "write for example X-Remote-User")
    if proxies and user_header is None:
        raise WrongInput("--proxy goes with --user-header", "leave it out, or name the header")
    for each in proxies:
        try:
            ip_address(each)
        except ValueError:
            raise WrongInput(f"--proxy: {printable(each)[:80]} is no address", "write for example 192.0.2.1") from None


def listening(address: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises CannotHere."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family)
    except OSError as error:
        raise CannotHere(
            f"--listen: port {port} of {address} cannot be used: {error.strerror}", "name another one with --listen"
        ) from None
