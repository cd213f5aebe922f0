"""OpenVPN 2.5 of Debian 11, with those of its libraries that Debian 12 does not have. It is not installed.

python -m tests.lab.old_openvpn     # fetches it into .cache; `make install-dev` does this
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tunnelbench.model.errors import UserError
from tunnelbench.qemu.packages import MIRROR, Archive

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".cache" / "openvpn-2.5"
PROGRAM = FOLDER / "openvpn-2.5"
"""Shell script that starts the program with its libraries."""
SUITE = "bullseye"
MIRRORS = (MIRROR, "http://archive.debian.org/debian")
"""Servers that may have the packages: Debian moves its old releases to the second one."""
FILES = {
    "openvpn": ("usr/sbin/openvpn",),
    "libssl1.1": ("usr/lib/*/libssl.so.1.1", "usr/lib/*/libcrypto.so.1.1"),
    "libpkcs11-helper1": ("usr/lib/*/libpkcs11-helper.so.1",),
}
"""Files that are needed, by the name of their package."""
START = """\
#!/bin/sh
LD_LIBRARY_PATH={folder} exec {folder}/openvpn "$@"
"""


def fetch() -> None:
    """Fetch the program into its folder, unless it is there. Raises UserError if no mirror has its packages."""
    if PROGRAM.exists():
        return
    first, second = MIRRORS
    try:
        _fetch_from(first)
    except UserError:
        _fetch_from(second)


def _fetch_from(mirror: str) -> None:
    FOLDER.parent.mkdir(exist_ok=True)
    architecture = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout
    with TemporaryDirectory(dir=FOLDER.parent) as folder:
        archive = Archive(architecture.strip(), Path(folder) / "apt", SUITE, mirror)
        archive.refresh()
        new = Path(folder) / "new"
        new.mkdir(mode=0o755)
        for package in archive.fetch(sorted(FILES)):
            name = package.name.partition("_")[0]
            unpacked = Path(folder) / name
            if patterns := FILES.get(name):
                subprocess.run(["dpkg-deb", "-x", str(package), str(unpacked)], check=True)
            for pattern in patterns or ():
                (found,) = unpacked.glob(pattern)
                shutil.copy(found, new / found.name)
        script = new / PROGRAM.name
        script.write_text(START.format(folder=FOLDER))
        script.chmod(0o755)
        new.replace(FOLDER)


if __name__ == "__main__":
    try:
        fetch()
    except UserError as error:
        sys.exit(f"OpenVPN 2.5 for the tests: {error.message}; {error.hint}")
