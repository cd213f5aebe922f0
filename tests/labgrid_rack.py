"""A coordinator of labgrid, an exporter and a power switch for tests, all real and on the loopback of a namespace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_LIMIT_S = 120.0
"""Longest start of a program of labgrid on a busy machine [s]."""

EXPORTER = "rack"
ALICE = "elsewhere/alice"
"""Another user of the places."""

SWITCH = """
import http.server
import sys

class Switch(http.server.BaseHTTPRequestHandler):
    def do_PUT(self):
        value = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with open(sys.argv[2], "a") as log:
            log.write(value)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Switch).serve_forever()
"""
"""A power switch for labgrid's model `rest`, which appends each value, `0` or `1`, to a file."""


@dataclass(frozen=True)
class LabgridRack:
    """A coordinator that is up, with the resources of an exporter."""

    coordinator: str
    switched: Path
    """File with the values that the power switch got, such as `01` for off and on."""
    prefix: tuple[str, ...]
    """Words that start a program in the rack's network namespace."""

    def labgrid_client(self, *words: str, user: str = ALICE) -> str:
        """Run labgrid-client as a user, and return its output."""
        machine, _, name = user.partition("/")
        environment = {**os.environ, "LG_HOSTNAME": machine, "LG_USERNAME": name}
        argv = [*self.prefix, _program("labgrid-client"), "-x", self.coordinator, *words]
        return subprocess.run(
            argv, env=environment, capture_output=True, text=True, check=True, timeout=START_LIMIT_S
        ).stdout

    def holder_of(self, place: str) -> str:
        """Return who has acquired a place, `None` if nobody has."""
        (line,) = [
            line for line in self.labgrid_client("-p", place, "show").splitlines() if line.startswith("  acquired: ")
        ]
        return line.removeprefix("  acquired: ")

    def has_waiting_run(self) -> bool:
        return "-tunnelbench-" in self.labgrid_client("reservations")


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def service(address: str, username: str = "root", port: int = 22) -> dict[str, Any]:
    """Return the parameters of a resource NetworkService."""
    return {"address": address, "username": username, "port": port}


@contextmanager
def labgrid_rack(
    folder: Path,
    port: int,
    groups: Mapping[str, Mapping[str, Any]],
    prefix: tuple[str, ...] = (),
    *,
    has_switch: bool = False,
) -> Iterator[LabgridRack]:
    """Start a coordinator on a port, and an exporter with groups of resources; each group is a place of its name.

    A group's resource `NetworkPowerPort` is replaced by one for the power switch on the next port. With `has_switch`,
    the caller has started one there.
    """
    coordinator, switched = f"127.0.0.1:{port}", folder / "switched"
    power = {"model": "rest", "host": f"http://127.0.0.1:{port + 1}/{{index}}", "index": "1"}
    resources = {
        group: {name: power if name == "NetworkPowerPort" else each for name, each in content.items()}
        for group, content in groups.items()
    }
    (folder / "resources.yaml").write_text(json.dumps(resources))
    matches = {group: [{"exporter": EXPORTER, "group": group, "cls": "*"}] for group in groups}
    (folder / "places.yaml").write_text(json.dumps({group: {"matches": match} for group, match in matches.items()}))
    switched.touch()
    with ExitStack() as stack:

        def started(name: str, *argv: str) -> Path:
            log = folder / f"{name}.log"
            with log.open("wb") as file:
                process = subprocess.Popen(
                    [*prefix, *argv],
                    stdout=file,
                    stderr=file,
                    stdin=subprocess.DEVNULL,
                    cwd=folder,
                    env={**os.environ, "PYTHONUNBUFFERED": "1"},
                )
            stack.callback(_end, process)
            return log

        _await(started("coordinator", _program("labgrid-coordinator"), "-l", coordinator), "listening on")
        if not has_switch:
            started("switch", sys.executable, "-c", SWITCH, str(port + 1), str(switched))
        exporter = [_program("labgrid-exporter"), "-c", coordinator, "-n", EXPORTER, str(folder / "resources.yaml")]
        _await(started("exporter", *exporter), "Exporter ready")
        rack = LabgridRack(coordinator, switched, prefix)
        wanted = sum(map(len, groups.values()))
        deadline = time.monotonic() + START_LIMIT_S
        while len(rack.labgrid_client("resources").splitlines()) < wanted:
            assert time.monotonic() < deadline, (folder / "exporter.log").read_text()
        yield rack


def _await(log: Path, text: str) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
