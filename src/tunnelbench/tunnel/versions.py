"""Versions of kernels, programs and libraries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tunnelbench.host.host import Host

UNKNOWN = "unknown"


def kernel_version(host: Host) -> Mapping[str, str]:
    """Return {"linux": release} of a host."""
    return {"linux": host.read_machine("/proc/sys/kernel/osrelease").strip()}


def version_of(host: Host, argv: Sequence[str], pattern: str) -> str:
    """Return the match of the first group of `pattern` in a program's output; `unknown` if there is none."""
    match = re.search(pattern, printed_by(host, argv))
    return match[1] if match else UNKNOWN


def printed_by(host: Host, argv: Sequence[str]) -> str:
    """Return a program's output. Its exit status does not matter: `openvpn --version` ends with 1."""
    completed = host.run(argv, check=False)
    return completed.stdout + completed.stderr


def openssl_version(host: Host) -> str:
    """Return the version of the OpenSSL that the distribution's programs share."""
    return version_of(host, ["openssl", "version"], r"^OpenSSL (\S+)")


def library_version(host: Host, program: str, library: str) -> str:
    """Return the version of a shared library of a program, as in the library's file name: `23.3.0`."""
    path = host.run(["which", program], check=False).stdout.strip()
    linked = re.search(rf"(?<!\S){re.escape(library)}\.so\S* => (\S+)", host.run(["ldd", path], check=False).stdout)
    if not linked:
        return UNKNOWN
    return version_of(host, ["readlink", "-f", linked[1]], r"\.so\.([\d.]+)$")
