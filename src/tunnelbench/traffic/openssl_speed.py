"""Command lines and output of `openssl speed`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from tunnelbench.host.cpu_features import AES_MASK_X86

LEGACY = frozenset({"bf-cbc", "cast5-cbc", "rc2-cbc", "idea-cbc", "seed-cbc", "md4", "whirlpool"})
"""Algorithms that OpenSSL 3 has in its legacy provider."""

ARM_CAPABILITIES = {"asimd": 1 << 0, "sha1": 1 << 3, "sha2": 1 << 4, "sha512": 1 << 6}
"""Bits of OPENSSL_armcap (crypto/arm_arch.h) by the kernel's name of the feature; AES is 1 << 2 and PMULL 1 << 5."""

ENGINES = ("devcrypto", "cryptodev", "afalg", "padlock")
"""Engines for hardware accelerators that an OpenSSL may have."""


def command(
    algorithm: str, block_bytes: int, seconds: int, *, threads: int = 1, engine: str = "", mask: str = ""
) -> list[str]:
    """Return the command for one block size; `mask` is an assignment that hides CPU instructions, or empty."""
    argv = ["env", mask, "openssl", "speed"] if mask else ["openssl", "speed"]
    if algorithm in LEGACY:
        argv += ["-provider", "legacy", "-provider", "default"]
    if engine:
        argv += ["-engine", engine]
    if threads > 1:
        argv += ["-multi", str(threads)]
    argv += ["-evp", algorithm, "-elapsed", "-mr", "-bytes", str(block_bytes), "-seconds", str(seconds)]
    return argv


def engine_command(engine: str) -> list[str]:
    """Return the command that tests an engine."""
    return ["openssl", "engine", "-t", engine]


def is_available(text: str) -> bool:
    """Return True if the output of `engine_command` says that the engine works."""
    return "[ available ]" in text


def mask_of_aes(flags: Collection[str]) -> str:
    """Return the assignment that hides only the AES instructions of this CPU; empty if the CPU has none."""
    if "aes" not in flags:
        return ""
    if "pmull" in flags or "asimd" in flags:
        kept = sum(bit for name, bit in ARM_CAPABILITIES.items() if name in flags)
        return f"OPENSSL_armcap={kept:#x}"
    return AES_MASK_X86


def parse(stdout: str, stderr: str) -> tuple[float | None, str]:
    """Return bytes per second and an empty text, or None and the reason.

    The exit status is not used. A block that is not a multiple of a CBC cipher's own block gives an error together with
    a figure. If an engine is missing, OpenSSL continues with the software and gives its figure.
    """
    if "Invalid engine" in stderr:
        return None, _first_line(stderr)
    totals = [float(each) for each in re.findall(rf"^\+F:\d+:[^:\n]+:({NUMBER})$", stdout, re.MULTILINE)]
    if not totals or totals[-1] <= 0:
        return None, _first_line(stderr) or "openssl speed printed no figure"
    return totals[-1], ""


NUMBER = r"\d{1,15}(?:\.\d{1,9})?"
"""Pattern of a count or a time in OpenSSL's output."""

FIGURE_TOLERANCE = 0.02
"""Largest share by which OpenSSL's figure may differ from its counts."""


def contradiction(stdout: str, stderr: str, algorithm: str, block_bytes: int) -> str:
    """Return how the output of `command` contradicts itself, or what was asked for; empty if it does not.

    OpenSSL prints the name and the block size with its figure. One process prints how many blocks it did in which time.
    Several processes print that at the same time, so that their lines may be mixed up; OpenSSL then repeats the figure
    of each of them. An output without these lines is not examined.
    """
    names = re.findall(r"^\+F:\d+:([^:\n]+):", stdout, re.MULTILINE)
    if others := [name for name in names if name.lower() != algorithm]:
        return f"openssl measured {others[0]} in place of {algorithm}"
    blocks = [int(found) for found in re.findall(r"^\+H:(\d{1,9})$", stdout, re.MULTILINE)]
    if others := [str(block) for block in blocks if block != block_bytes]:
        return f"openssl measured blocks of {others[0]} bytes in place of {block_bytes}"
    parts = [float(rate) for rate in re.findall(rf"^Got: \+F:\d+:[^:\n]+:({NUMBER}) from \d+$", stdout, re.MULTILINE)]
    if not parts:
        runs = re.findall(rf"^\+R:(\d{{1,15}}):[^:\n]+:({NUMBER})$", f"{stdout}\n{stderr}", re.MULTILINE)
        parts = [int(done) * block_bytes / float(time_s) for done, time_s in runs if float(time_s)]
    counted, figure = sum(parts), parse(stdout, stderr)[0]
    if counted and figure is not None and abs(figure / counted - 1) > FIGURE_TOLERANCE:
        return f"openssl prints {figure:.3g} bytes/s, but its processes counted {counted:.3g}"
    return ""


def _first_line(text: str) -> str:
    lines: Sequence[str] = [line for line in text.splitlines() if line.strip() and not line.startswith("+")]
    return lines[0].strip()[:200] if lines else ""
