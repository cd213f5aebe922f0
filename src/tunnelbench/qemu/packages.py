"""Fetches Debian's packages for another architecture or release. apt uses separate lists, so that this machine's do not
change."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tunnelbench.host.cache import FETCH_TIMEOUT_S
from tunnelbench.host.command import CommandFailed, last_lines, run_command
from tunnelbench.model.errors import CannotHere

MIRROR = "http://deb.debian.org/debian"
SUITE = "bookworm"
"""Debian release of the packages, the last one with 32-bit MIPS."""

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
KEYRING_PACKAGE = "debian-archive-keyring"

LISTS_TIMEOUT_S = 300.0
PACKAGE_LIMIT_BYTES = 1_000_000_000
"""Limit for each file that apt, dpkg and mke2fs write [bytes]."""

ASSUMED = (
    "debconf", "dpkg", "init-system-helpers", "initramfs-tools", "kmod", "libpam-modules", "libpam-runtime",
    "linux-base", "lsb-base", "perl", "perl-base", "procps", "sysvinit-utils", "tar", "usrmerge",
)  # fmt: skip
"""Packages that are needed only to install or boot a Debian system; apt is configured to see them as installed."""

CLEARED = (
    "APT::Default-Release", "APT::Install-Suggests", "APT::Update::Post-Invoke", "APT::Update::Post-Invoke-Success",
    "APT::Update::Pre-Invoke",
)  # fmt: skip
"""Settings of this machine's apt that are not used: they would run its commands, or choose other packages. All others
are used, such as those of a proxy."""


@dataclass(frozen=True)
class Archive:
    """Debian's archive for an architecture, with all files of apt in one folder."""

    architecture: str
    folder: Path
    suite: str = SUITE
    mirror: str = MIRROR

    def refresh(self) -> None:
        """Fetch the lists, which apt checks against Debian's keys. Raises CannotHere if that fails."""
        if not KEYRING.exists():
            raise CannotHere(f"{KEYRING} is missing: packages cannot be verified", f"install {KEYRING_PACKAGE}")
        for name in ("lists/partial", "archives/partial"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        source = f"deb [arch={self.architecture} signed-by={KEYRING}] {self.mirror} {self.suite} main\n"
        (self.folder / "sources.list").write_text(source)
        (self.folder / "apt.conf").write_text("".join(f"#clear {name};\n" for name in CLEARED))
        (self.folder / "status").write_text("".join(map(self._assumed, ASSUMED)))
        # Without this option apt only warns, and uses an old list, if it cannot reach the mirror.
        self._apt_get(["-o", "APT::Update::Error-Mode=any", "update", "-qq"], LISTS_TIMEOUT_S)

    def fetch(self, packages: Sequence[str]) -> list[Path]:
        """Fetch packages and all their dependencies, and return the files; files of an earlier attempt are reused."""
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
            "Dir::Etc::preferences": "/dev/null",  # pins of this machine are for its own packages
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::Etc::sourcelist": str(self.folder / "sources.list"),
            "Dir::Etc::sourceparts": "-",
            "Dir::State": str(self.folder),
            "Dir::State::status": str(self.folder / "status"),
            "Debug::NoLocking": "true",  # a build holds a lock of the cache
        }
        # apt reads this file after those of the machine, and the options after the file.
        options = ["-c", str(self.folder / "apt.conf")]
        options += [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        try:
            return run_command(
                ["apt-get", *options, *arguments], timeout_s=timeout_s, file_limit_bytes=PACKAGE_LIMIT_BYTES
            ).stdout
        except CommandFailed as error:
            raise CannotHere(
                f"Debian's packages for {self.architecture} cannot be fetched: {last_lines(error.output, 1)}",
                f"connect to a network that reaches {self.mirror}; fetched files are kept for the next attempt",
            ) from None
