"""How programs tell their version."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tunnelbench.host.host import Host

UNKNOWN = "unknown"


def kernel_version(host: Host) -> Mapping[str, str]:
    """{"linux": release} of a host."""
    return {"linux": host.run(["uname", "-r"]).stdout.strip()}


def version_of(host: Host, argv: Sequence[str], pattern: str) -> str:
    """What the first group of `pattern` finds in a program's output; `unknown` where it finds nothing.

    The exit status is not looked at: `openvpn --version` ends with 1.
    """
    completed = host.run(argv, check=False)
    match = re.search(pattern, completed.stdout + completed.stderr)
    return match[1] if match else UNKNOWN


def openssl_version(host: Host) -> str:
    """Version of the OpenSSL that the distribution's programs share."""
    return version_of(host, ["openssl", "version"], r"^OpenSSL (\S+)")


def library_version(host: Host, program: str, library: str) -> str:
    """Version of a shared library that a program is linked with, as in the library's file name: `23.3.0`."""
    path = host.run(["which", program], check=False).stdout.strip()
    linked = re.search(rf"{re.escape(library)}\.so\S* => (\S+)", host.run(["ldd", path], check=False).stdout)
    if not linked:
        return UNKNOWN
    return version_of(host, ["readlink", "-f", linked[1]], r"\.so\.(\S+)$")
