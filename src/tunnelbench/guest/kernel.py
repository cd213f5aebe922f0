"""Provides kernels for guests: Debian's package, fetched through apt into the cache, or a kernel of this machine."""

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

from tunnelbench.host.cache import COMPLETE_FILE, FETCH_TIMEOUT_S, cache_folder, only_one_fetches
from tunnelbench.host.command import CommandFailed, run_command
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import DEBIAN_KERNEL

LARGEST_PACKAGE_BYTES = 1_000_000_000

UNPACK_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Kernel:
    """A kernel that a guest can boot."""

    version: str
    """Version, as `uname -r` prints it."""
    image: Path
    root: Path
    """Folder that has the modules in lib/modules/VERSION."""
    package: str = ""
    """Name and version of its Debian package; empty where it is unknown."""

    @property
    def boot_image(self) -> Path:
        """File that QEMU loads: the unpacked kernel if there is one, else the packed image."""
        unpacked = unpacked_path(self.image)
        return unpacked if unpacked.exists() else self.image

    @property
    def modules(self) -> Path:
        return self.root / "lib/modules" / self.version

    def has_module(self, name: str) -> bool:
        """Return True if the kernel has a module, either as a file or built in."""
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
    """Return the path of the unpacked kernel of an image."""
    return image.with_name(image.name.replace("vmlinuz", "vmlinux", 1))


def unpack_image(image: Path) -> None:
    """Write the kernel in an x86 image to a file next to the image, in the form that QEMU can start (PVH, CONFIG_PVH).

    Under emulation, a kernel takes longer to unpack itself than for the rest of its boot. The image's header has the
    kernel's position (Documentation/arch/x86/boot.rst: setup_sects, payload_offset, payload_length). A kernel that is
    not packed by xz is left as it is.
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
    """Return the kernel that a testbed names; fetch it if missing. Raises CannotHere where it is unavailable."""
    return debian_kernel() if name == DEBIAN_KERNEL else local_kernel(Path(name))


def local_kernel(image: Path) -> Kernel:
    """Return a kernel of this machine, with lib/modules/VERSION below one of its parent folders."""
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
    if any(len(str(path).split()) > 1 for path in (image, root)):
        raise CannotHere(
            f"kernel {image}: a blank in its path, or in that of its modules, would divide the kernel's command line",
            "move it to a folder without blanks in its name",
        )
    if any(root.is_relative_to(folder) for folder in UNSEEN) and not root.is_relative_to(cache_folder()):
        raise CannotHere(
            f"kernel {image} has its modules in {root}, which no guest sees", "move it all to another folder"
        )
    return Kernel(version, image, root)


UNSEEN = ("/run", "/dev", "/proc", "/sys", "/var/tmp", "/var/log", "/var/lib/private")  # noqa: S108 # nothing is put there
"""Folders of this machine that a guest cannot see, because it mounts its own folders over them (init.sh)."""

IMAGE_HEADER_BYTES = 65536
"""Number of bytes at the start of an x86 kernel image that contain its header and version (at most 64 sectors)."""


def _image_version(image: Path) -> str:
    """Return the version in an x86 image, as `uname -r` prints it. Raises CannotHere for other and truncated files.

    Documentation/arch/x86/boot.rst: header ("HdrS"), kernel_version, and the two fields that make the length.
    """
    with image.open("rb") as file:
        header = file.read(IMAGE_HEADER_BYTES)
    if header[0x202:0x206] != b"HdrS":
        raise CannotHere(f"{image} is no kernel of Linux for x86", "kernel = names an image, such as /boot/vmlinuz-...")
    sectors, paragraphs = header[0x1F1] or 4, struct.unpack_from("<I", header, 0x1F4)[0]
    if image.stat().st_size < (sectors + 1) * 512 + paragraphs * 16:
        raise CannotHere(f"kernel {image} is cut short", "copy it again")
    start = struct.unpack_from("<H", header, 0x20E)[0] + 0x200
    return header[start:].split(b"\0", 1)[0].split(b" ", 1)[0].decode(errors="replace")


def debian_kernel() -> Kernel:
    """Return Debian's kernel from the cache, or fetch it first. It stays in the cache until a user deletes it."""
    folder = cache_folder() / "kernels"
    with only_one_fetches(folder):
        return cached_kernel() or _fetch(folder)


def cached_kernel() -> Kernel | None:
    """Return the newest complete Debian kernel in the cache; None where there is none."""
    marks = sorted((cache_folder() / "kernels").glob(f"*/{COMPLETE_FILE}"), key=lambda mark: mark.stat().st_mtime)
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
        (root / COMPLETE_FILE).write_text(json.dumps(mark, indent=1) + "\n")
        final = folder / version
        shutil.rmtree(final, ignore_errors=True)
        root.rename(final)
    return Kernel(version, final / mark["image"], final, kernel.package)


def _package_name() -> str:
    """Return the name of the kernel package on which Debian's meta-package for this architecture currently depends."""
    architecture = run_command(["dpkg", "--print-architecture"]).stdout.strip()
    meta = f"linux-image-{architecture}"
    listed = run_command(["apt-cache", "depends", meta], check=False).stdout
    found = re.search(r"^[ \t]*Depends: (linux-image-\S+)$", listed, re.MULTILINE)
    if found is None:
        raise CannotHere(f"apt knows no package {meta}", "apt-get update, with Debian's archive among apt's sources")
    return found[1]


def _fingerprint(kernel: Kernel) -> str:
    """Return the SHA-256 of the kernel and of its list of modules; it shows that a kernel in the cache is damaged."""
    digest = sha256(kernel.boot_image.read_bytes())
    digest.update((kernel.modules / "modules.dep").read_bytes())
    return digest.hexdigest()
