"""Kernels for guests: Debian's own package, fetched through apt and unpacked into the cache, or one that is here."""

from __future__ import annotations

import json
import lzma
import re
import shutil
import struct
import tempfile
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from tunnelbench.host.cache import cache_folder, only_one_fetches
from tunnelbench.host.command import CommandFailed, run_command
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import DEBIAN_KERNEL

FETCH_TIMEOUT_S = 900.0
"""For some 70 MB."""

LARGEST_PACKAGE_BYTES = 1_000_000_000

UNPACK_TIMEOUT_S = 300.0

MARK = "complete.json"
"""Written last: an unpacked kernel without it is not looked at."""


@dataclass(frozen=True)
class Kernel:
    """A kernel that a guest can boot."""

    version: str
    """As `uname -r` says it."""
    image: Path
    root: Path
    """Its modules are in lib/modules/VERSION below it."""
    package: str = ""
    """Name and version of its Debian package; empty where it is not known."""

    @property
    def boot_image(self) -> Path:
        """What QEMU is to load: the kernel unpacked already, where that was done."""
        unpacked = unpacked_path(self.image)
        return unpacked if unpacked.exists() else self.image

    @property
    def modules(self) -> Path:
        return self.root / "lib/modules" / self.version

    def has_module(self, name: str) -> bool:
        """Whether it has a module or what would be one built in."""
        plain = name.replace("-", "_")
        for listing in ("modules.dep", "modules.builtin"):
            try:
                text = (self.modules / listing).read_text()
            except OSError:
                continue
            for line in text.splitlines():
                stem = Path(line.partition(":")[0]).name.partition(".ko")[0]
                if stem.replace("-", "_") == plain:
                    return True
        return False


def unpacked_path(image: Path) -> Path:
    """Where the unpacked kernel of an image would be."""
    return image.with_name(image.name.replace("vmlinuz", "vmlinux", 1))


def unpack_image(image: Path) -> None:
    """Put the kernel that an image of x86 holds beside it, as QEMU can start it (PVH, CONFIG_PVH).

    A kernel that unpacks itself under emulation takes longer for that than for the rest of its start. The image's
    header says where it is (Documentation/arch/x86/boot.rst: setup_sects, payload_offset, payload_length). Does nothing
    where it is packed otherwise than by xz.
    """
    data = image.read_bytes()
    offset, length = struct.unpack_from("<II", data, 0x248)
    start = (data[0x1F1] + 1) * 512 + offset
    try:
        kernel = lzma.LZMADecompressor().decompress(data[start : start + length])
    except lzma.LZMAError:
        return
    if kernel.startswith(b"\x7fELF"):
        unpacked_path(image).write_bytes(kernel)


def find_kernel(name: str) -> Kernel:
    """The kernel that a testbed names, fetched where it must be. CannotHere where it cannot be had."""
    return debian_kernel() if name == DEBIAN_KERNEL else local_kernel(Path(name))


def local_kernel(image: Path) -> Kernel:
    """A kernel that is here, with lib/modules/VERSION below one of the folders that it lies in, as in its package."""
    try:
        image = image.resolve(strict=True)
        is_file = image.is_file()
    except (OSError, RuntimeError):  # RuntimeError: symlinks in a circle
        is_file = False
    if not is_file:
        raise CannotHere(f"there is no kernel {image}", "kernel = names an image, such as /boot/vmlinuz-6.1.0-56-amd64")
    version = _image_version(image)
    root = next((folder for folder in image.parents if (folder / "lib/modules" / version).is_dir()), None)
    if root is None:
        raise CannotHere(
            f"kernel {image} has no modules: no folder above it holds lib/modules/{version}", "unpack its whole package"
        )
    if any(root.is_relative_to(folder) for folder in UNSEEN) and not root.is_relative_to(cache_folder()):
        raise CannotHere(
            f"kernel {image} has its modules in {root}, which no guest sees", "move it all to another folder"
        )
    return Kernel(version, image, root)


UNSEEN = ("/run", "/dev", "/proc", "/sys", "/var/tmp", "/var/log", "/var/lib/private")  # noqa: S108 # nothing is put there
"""Folders of this machine over which a guest has its own (init.sh)."""

HEADER_BYTES = 65536
"""The part of an image of x86 that holds its header and its version is shorter (at most 64 sectors)."""


def _image_version(image: Path) -> str:
    """What an image of x86 says that its version is, as `uname -r` would; CannotHere where it is none, or not whole.

    Documentation/arch/x86/boot.rst: header ("HdrS"), kernel_version, and the two fields that make the length.
    """
    with image.open("rb") as file:
        header = file.read(HEADER_BYTES)
    if header[0x202:0x206] != b"HdrS":
        raise CannotHere(f"{image} is no kernel of Linux for x86", "kernel = names an image, such as /boot/vmlinuz-...")
    sectors, paragraphs = header[0x1F1] or 4, struct.unpack_from("<I", header, 0x1F4)[0]
    if image.stat().st_size < (sectors + 1) * 512 + paragraphs * 16:
        raise CannotHere(f"kernel {image} is cut short", "copy it again")
    start = struct.unpack_from("<H", header, 0x20E)[0] + 0x200
    return header[start:].split(b"\0", 1)[0].split(b" ", 1)[0].decode(errors="replace")


def debian_kernel() -> Kernel:
    """Debian's kernel from the cache, or else fetched into it. What is there stays in use until it is deleted."""
    folder = cache_folder() / "kernels"
    with only_one_fetches(folder):
        return cached_kernel() or _fetch(folder)


def cached_kernel() -> Kernel | None:
    """Debian's kernel, if it is in the cache whole; the newest of several."""
    marks = sorted((cache_folder() / "kernels").glob(f"*/{MARK}"), key=lambda mark: mark.stat().st_mtime)
    for mark in reversed(marks):
        try:
            found = json.loads(mark.read_text())
            kernel = Kernel(found["version"], mark.parent / found["image"], mark.parent, found["package"])
            if found["sha256"] == _fingerprint(kernel):
                return kernel
        except (OSError, ValueError, KeyError):
            continue
    return None


def _fetch(folder: Path) -> Kernel:
    for program, package in (("apt-get", "apt"), ("dpkg", "dpkg"), ("depmod", "kmod")):
        if shutil.which(program) is None:
            raise CannotHere(f"Debian's kernel cannot be fetched: {program} is missing", f"install {package}")
    package = _package_name()
    with tempfile.TemporaryDirectory(prefix="unpacking-", dir=folder) as name:
        place = Path(name)
        download, root = place / "download", place / "root"
        download.mkdir()
        root.mkdir(mode=0o755)
        try:
            # apt checks the package against the signed list of its archive.
            run_command(
                ["env", "-C", str(download), "apt-get", "-o", "APT::Sandbox::User=root", "download", "-q", package],
                timeout_s=FETCH_TIMEOUT_S,
                file_limit_bytes=LARGEST_PACKAGE_BYTES,
            )
        except CommandFailed as error:
            raise CannotHere(
                f"Debian's kernel cannot be fetched: {error.message}", "apt-get update, with a network"
            ) from None
        (archive,) = download.glob("*.deb")
        run_command(["dpkg", "-x", str(archive), str(root)], timeout_s=UNPACK_TIMEOUT_S)
        if not (root / "lib").exists():
            (root / "lib").symlink_to("usr/lib")
        (image,) = (root / "boot").glob("vmlinuz-*")
        version = image.name.removeprefix("vmlinuz-")
        run_command(["depmod", "-b", str(root), "-a", version], timeout_s=UNPACK_TIMEOUT_S)
        named = run_command(["dpkg-deb", "-f", str(archive), "Package", "Version"]).stdout
        fields = dict(line.split(": ", 1) for line in named.splitlines())
        unpack_image(image)
        kernel = Kernel(version, image, root, f"{fields['Package']} {fields['Version']}")
        mark = {
            **{key: str(value) for key, value in asdict(kernel).items() if key in ("version", "package")},
            "image": str(image.relative_to(root)),
            "sha256": _fingerprint(kernel),
        }
        (root / MARK).write_text(json.dumps(mark, indent=1) + "\n")
        final = folder / version
        shutil.rmtree(final, ignore_errors=True)
        root.rename(final)
    return Kernel(version, final / mark["image"], final, kernel.package)


def _package_name() -> str:
    """The package that Debian's own meta-package for this architecture stands for today."""
    architecture = run_command(["dpkg", "--print-architecture"]).stdout.strip()
    meta = f"linux-image-{architecture}"
    listed = run_command(["apt-cache", "depends", meta], check=False).stdout
    found = re.search(r"^\s*Depends: (linux-image-\S+)$", listed, re.MULTILINE)
    if found is None:
        raise CannotHere(f"apt knows no package {meta}", "apt-get update, with Debian's archive among apt's sources")
    return found[1]


def _fingerprint(kernel: Kernel) -> str:
    """SHA-256 of what is booted and of the list of modules: a half-deleted or damaged kernel is not booted."""
    digest = sha256(kernel.boot_image.read_bytes())
    digest.update((kernel.modules / "modules.dep").read_bytes())
    return digest.hexdigest()
