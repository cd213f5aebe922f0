"""Builds of a VPN program for the virtual MIPS router: the usual one, and one whose cipher path is slower."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

COMPILER = "mipsel-linux-gnu-gcc"
SOURCE = Path(__file__).with_name("slower_cipher.c")
LIBRARY = "slower-cipher.so"
INSTRUCTIONS_PER_TURN = 3
SEGMENT_BYTES, ACK_BYTES = 1500, 52
"""Lengths of the packets in the tunnel, with the headers of IP and TCP."""

START = """\
#!/bin/sh
{preload}exec /usr/sbin/openvpn "$@"
"""


def put_usual(folder: Path, name: str) -> None:
    """Put Debian's OpenVPN into a folder of programs, by another name."""
    _put(folder, name, "")


def put_slower(folder: Path, name: str, instructions_per_byte: float) -> None:
    """Put an OpenVPN into a folder of programs that executes more instructions for each byte of its payload."""
    turns = round(instructions_per_byte / INSTRUCTIONS_PER_TURN * 256)
    folder.mkdir(parents=True, exist_ok=True)
    argv = [COMPILER, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-nostdlib", f"-DTURNS_PER_256_BYTES={turns}"]
    subprocess.run([*argv, "-o", str(folder / LIBRARY), str(SOURCE)], check=True, timeout=60)
    _put(folder, name, f"export LD_PRELOAD=/usr/sbin/{LIBRARY}\n")


def _put(folder: Path, name: str, preload: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(START.format(preload=preload))


def instructions_per_byte(results: Iterable[dict[str, Any]]) -> float:
    """Return the router's instructions for each byte of the packets in the tunnel, acknowledgements included.

    `results` are the TCP results of trials with the largest segments, as in `show --json`.
    """
    windows = [result["window"] for result in results]
    instructions = sum(window["router_instructions"] for window in windows)
    data_bytes = SEGMENT_BYTES * sum(window["data_packets"] for window in windows)
    ack_bytes = ACK_BYTES * sum(window["ack_packets"] for window in windows)
    return float(instructions / (data_bytes + ack_bytes))
