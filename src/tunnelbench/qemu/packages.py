"""Debian's packages for another architecture, through apt with lists and a state of its own: this machine's stay as
they are."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tunnelbench.host.command import CommandFailed, run_command
from tunnelbench.model.errors import CannotHere

MIRROR = "http://deb.debian.org/debian"
SUITE = "bookworm"
"""The last release with 32-bit MIPS."""

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
KEYRING_PACKAGE = "debian-archive-keyring"

LISTS_TIMEOUT_S = 300.0
FETCH_TIMEOUT_S = 900.0
LARGEST_FILE_BYTES = 1_000_000_000

ASSUMED = (
    "debconf", "dpkg", "init-system-helpers", "initramfs-tools", "kmod", "libpam-modules", "libpam-runtime",
    "linux-base", "lsb-base", "perl", "perl-base", "procps", "sysvinit-utils", "tar", "usrmerge",
)  # fmt: skip
"""What packages ask for in order to be installed, started or booted as a Debian: said to be there, and left out."""


@dataclass(frozen=True)
class Archive:
    """Debian's archive as a machine of that architecture sees it; everything of it lies in a folder of ours."""

    architecture: str
    folder: Path

    def refresh(self) -> None:
        """Fetch the lists; apt checks them against Debian's keys. CannotHere where that fails."""
        if not KEYRING.exists():
            raise CannotHere(f"{KEYRING} is missing: packages could not be checked", f"install {KEYRING_PACKAGE}")
        for name in ("lists/partial", "archives/partial"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        source = f"deb [arch={self.architecture} signed-by={KEYRING}] {MIRROR} {SUITE} main\n"
        (self.folder / "sources.list").write_text(source)
        (self.folder / "status").write_text("".join(map(self._assumed, ASSUMED)))
        # Without it apt takes an old list for good where the mirror cannot be reached, with a warning only.
        self._apt_get(["-o", "APT::Update::Error-Mode=any", "update", "-qq"], LISTS_TIMEOUT_S)

    def fetch(self, packages: Sequence[str]) -> list[Path]:
        """Packages and all that they depend on, as files; what an earlier, broken attempt has fetched is used."""
        printed = self._apt_get(["install", "--print-uris", "-qq", "-y", *packages], LISTS_TIMEOUT_S)
        names = [shlex.split(line)[1] for line in printed.splitlines() if line.startswith("'")]
        self._apt_get(["install", "--download-only", "-qq", "-y", *packages], FETCH_TIMEOUT_S)
        return [self.folder / "archives" / name for name in names]

    def _assumed(self, name: str) -> str:
        fields = {
            "Package": name,
            "Status": "install ok installed",
            "Architecture": self.architecture,
            "Multi-Arch": "foreign",
            "Version": "999",
            "Maintainer": "nobody",
            "Description": "assumed",
        }
        return "".join(f"{key}: {value}\n" for key, value in fields.items()) + "\n"

    def _apt_get(self, arguments: Sequence[str], timeout_s: float) -> str:
        settings = {
            "APT::Architecture": self.architecture,
            "APT::Architectures": self.architecture,
            "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "root",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            "Acquire::Languages": "none",
            "Dir::Cache": str(self.folder),
            "Dir::Cache::pkgcache": "",
            "Dir::Cache::srcpkgcache": "",
            "Dir::Etc::sourcelist": str(self.folder / "sources.list"),
            "Dir::Etc::sourceparts": "-",
            "Dir::State": str(self.folder),
            "Dir::State::status": str(self.folder / "status"),
            "Debug::NoLocking": "true",  # whoever builds holds a lock of ours
        }
        options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        try:
            return run_command(
                ["apt-get", *options, *arguments], timeout_s=timeout_s, file_limit_bytes=LARGEST_FILE_BYTES
            ).stdout
        except CommandFailed as error:
            said = error.output.strip().splitlines()[-1:] or ["it said nothing"]
            raise CannotHere(
                f"Debian's packages for {self.architecture} cannot be fetched: {said[0]}",
                f"a network that reaches {MIRROR}; what has been fetched is kept for the next attempt",
            ) from None
