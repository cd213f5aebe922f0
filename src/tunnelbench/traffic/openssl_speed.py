"""Command lines and output of `openssl speed`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

LEGACY = frozenset({"bf-cbc", "cast5-cbc", "rc2-cbc", "idea-cbc", "seed-cbc", "md4", "whirlpool"})
"""What OpenSSL 3 keeps in its legacy provider."""

AES_MASK_X86 = "OPENSSL_ia32cap=~0x200000200000000:~0x0"
"""Takes AES-NI (bit 57) and PCLMULQDQ (bit 33) away, and with `:~0x0` nothing of the second word: without it AVX2 and
SHA would go, too, and slow other ciphers and digests down (OPENSSL_ia32cap(3))."""

ARM_CAPABILITIES = {"asimd": 1 << 0, "sha1": 1 << 3, "sha2": 1 << 4, "sha512": 1 << 6}
"""Bits of OPENSSL_armcap (crypto/arm_arch.h) by the kernel's name of the feature; AES is 1 << 2 and PMULL 1 << 5."""

ENGINES = ("devcrypto", "cryptodev", "afalg", "padlock")
"""Offload that an OpenSSL may have."""


def command(
    algorithm: str, block_bytes: int, seconds: int, *, threads: int = 1, engine: str = "", mask: str = ""
) -> list[str]:
    """One block size; `mask`: an assignment that hides instructions from OpenSSL, empty for none."""
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
    """Asks whether an engine works."""
    return ["openssl", "engine", "-t", engine]


def is_available(text: str) -> bool:
    """Whether the engine that was asked for says so itself."""
    return "[ available ]" in text


def mask_of_aes(flags: Collection[str]) -> str:
    """The assignment that hides the AES instructions of this CPU alone; empty where it has none."""
    if "aes" not in flags:
        return ""
    if "pmull" in flags or "asimd" in flags:
        kept = sum(bit for name, bit in ARM_CAPABILITIES.items() if name in flags)
        return f"OPENSSL_armcap={kept:#x}"
    return AES_MASK_X86


FLAGS = (
    "aes", "vaes", "pclmulqdq", "vpclmulqdq", "sha_ni", "avx2", "avx512f", "pmull", "sha1", "sha2", "sha512", "asimd",
)  # fmt: skip
"""What the kernel calls a CPU's instructions for ciphers and digests."""


def flags_of(cpuinfo: str) -> tuple[str, ...]:
    """What of a CPU's flags is for ciphers and digests, from /proc/cpuinfo."""
    found = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    flags = set(found[1].split()) if found else set()
    return tuple(name for name in FLAGS if name in flags)


def parse(stdout: str, stderr: str) -> tuple[float | None, str]:
    """Bytes per second, or None and why there is none.

    The exit status says nothing: a CBC cipher whose block is no multiple of its own ends with an error and a figure,
    and an engine that is not there is passed over, the figure being that of the software.
    """
    if "Invalid engine" in stderr:
        return None, _first_line(stderr)
    totals = [float(each) for each in re.findall(r"^\+F:\d+:[^:\n]+:([\d.]+)$", stdout, re.MULTILINE)]
    if not totals or totals[-1] <= 0:
        return None, _first_line(stderr) or "openssl speed printed no figure"
    return totals[-1], ""


def _first_line(text: str) -> str:
    lines: Sequence[str] = [line for line in text.splitlines() if line.strip() and not line.startswith("+")]
    return lines[0].strip()[:200] if lines else ""
