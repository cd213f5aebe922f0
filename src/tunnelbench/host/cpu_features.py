"""CPU instructions for ciphers and digests: those that a CPU has, and the mask that hides AES from OpenSSL."""

from __future__ import annotations

import re

AES_MASK_X86 = "OPENSSL_ia32cap=~0x200000200000000:~0x0"
"""Assignment that hides AES-NI (bit 57) and PCLMULQDQ (bit 33) from OpenSSL (OPENSSL_ia32cap(3)).

`:~0x0` keeps the second word: without it AVX2 and SHA would be hidden, too, and other algorithms would be slower.
"""

FLAGS = (
    "aes", "vaes", "pclmulqdq", "vpclmulqdq", "sha_ni", "avx2", "avx512f",
    "pmull", "sha1", "sha2", "sha512", "asimd", "neon",
)  # fmt: skip
"""The kernel's names of CPU instructions for ciphers and digests."""


def crypto_flags(cpuinfo: str) -> tuple[str, ...]:
    """Return the flags in /proc/cpuinfo that are for ciphers and digests."""
    found = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    flags = set(found[1].split()) if found else set()
    return tuple(name for name in FLAGS if name in flags)
