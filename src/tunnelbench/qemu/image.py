"""Images of virtual routers: built from Debian's packages, kept in the cache, and read-only to virtual machines."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from tunnelbench.host.cache import COMPLETE_FILE, cache_folder, only_one_fetches
from tunnelbench.host.command import run_command
from tunnelbench.host.programs import require_programs
from tunnelbench.model.errors import CannotHere
from tunnelbench.qemu import cpio
from tunnelbench.qemu.boards import Board, System
from tunnelbench.qemu.packages import ASSUMED, PACKAGE_LIMIT_BYTES, SUITE, Archive

BUILD_TIMEOUT_S = 300.0

NEEDED_BYTES = 900_000_000
"""Free space for a build [bytes]: packages, lists, unpacked files and the disk. A fifth of it remains in use."""

PROGRAM_FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BUILD_PROGRAMS = {"apt-get": "apt", "dpkg-deb": "dpkg", "depmod": "kmod", "mke2fs": "e2fsprogs"}
"""Programs that a build needs, each with its Debian package."""

BASE_PACKAGES = ("busybox", "dropbear-bin", "ethtool", "iproute2", "nftables", "openssl", "tcpdump")
"""Packages of every virtual router, with busybox, not busybox-static: in Debian's build, its shell prefers BusyBox's
own `ip` to iproute2's."""

REPLACED_PACKAGES = frozenset({"util-linux"})
"""Packages that an image leaves out although a tunnel names them: BusyBox has their programs."""

MODULE_FOLDERS = (
    "arch", "crypto", "drivers/block/virtio_blk.ko", "drivers/net", "drivers/virtio",
    "fs/ext4", "fs/jbd2", "fs/mbcache.ko", "fs/overlayfs", "lib", "net",
)  # fmt: skip
"""Folders of kernel modules that an image keeps, below `kernel`; the virtual router has no use for the others."""

MODULE_FOLDERS_NOT = ("drivers/net/ethernet", "drivers/net/wireless", "drivers/net/usb", "drivers/net/phy")

FIRST_MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "ext4", "overlay")
"""Modules of the disk and the network; on x86-64 some of them need a module for CRC32C, which they find by its name."""

UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/include")

ACCOUNTS = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\nnogroup:x:65534:\ndip:x:30:\n",
    "shadow": "root:*:19000:0:99999:7:::\nnobody:*:19000:0:99999:7:::\n",
    "shells": "/bin/sh\n",
    "hosts": "127.0.0.1 localhost virtual-router\n",
    "os-release": 'PRETTY_NAME="Debian packages of bookworm, put together by TunnelBench"\nID=debian\n',
}
"""Files of /etc that an installation would make; here packages are only unpacked. No password matches them."""

SCRIPTS = {"initramfs": "initramfs.sh", "init": "init.sh"}


@dataclass(frozen=True)
class Image:
    """Files that a virtual router boots from and does not write to."""

    folder: Path
    kernel_version: str
    packages: tuple[str, ...]
    """Name and version of each Debian package, the kernel's first."""
    recipe: str = ""
    """SHA-256 of all inputs of the build."""

    @property
    def kernel(self) -> Path:
        return self.folder / "kernel"

    @property
    def initramfs(self) -> Path:
        return self.folder / "initramfs"

    @property
    def disk(self) -> Path:
        return self.folder / "disk.ext4"


Report = Callable[[str], object]
"""A function that shows a line on the progress of a build."""


def cached_image(board: Board) -> Image | None:
    """Return the image of a board if the cache has it complete; otherwise None."""
    folder = _folder(board)
    try:
        found = json.loads((folder / COMPLETE_FILE).read_text())
        image = Image(folder, found["kernel_version"], tuple(found["packages"]), found["recipe"])
        is_good = found["sha256"] == _fingerprint(image)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return image if is_good else None


def current_image(board: Board, packages: Sequence[str]) -> Image | None:
    """Return the cached image of a board if it was built by the present recipe with these additional packages;
    otherwise None."""
    image = cached_image(board)
    return image if image and image.recipe == recipe(board, _all_packages(packages)) else None


def find_image(board: Board, packages: Sequence[str], report: Report, *, anew: bool = False) -> Image:
    """Return the image of a board with some Debian packages in addition to BASE_PACKAGES.

    Builds the image if the cache has none of the present recipe, or if `anew` is True. Raises CannotHere if it cannot.
    """
    with only_one_fetches(_folder(board).parent):
        cached = None if anew else current_image(board, packages)
        return cached or _build(board, _all_packages(packages), report)


def images_folder() -> Path:
    """Return the folder of all images, which may not exist yet. Raises CannotHere if root must not use the cache."""
    return cache_folder() / "images"


NEEDED_ROOM = f"{NEEDED_BYTES / 1e6:.0f} MB"
MORE_ROOM = "make room there, or set XDG_CACHE_HOME to another folder"
"""Advice if an image does not fit into the cache."""


def room_in_cache() -> tuple[bool, str]:
    """Return True if the cache has room for the build of an image, and the free space in words."""
    folder = images_folder()
    while not folder.exists():
        folder = folder.parent
    free_bytes = shutil.disk_usage(folder).free
    return free_bytes >= NEEDED_BYTES, f"{free_bytes / 1e6:.0f} MB free"


def _all_packages(packages: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({*BASE_PACKAGES, *packages} - REPLACED_PACKAGES))


def recipe(board: Board, packages: tuple[str, ...]) -> str:
    """Return the SHA-256 of all inputs of an image's build. A cached image with another SHA-256 is not used."""
    lists = (packages, ASSUMED, SUITE, MODULE_FOLDERS, MODULE_FOLDERS_NOT, FIRST_MODULES, ACCOUNTS, UNUSED)
    parts = [repr(asdict(board.system)), *map(repr, lists)]
    parts += [_script(name).decode() for name in SCRIPTS]
    return sha256("\0".join(parts).encode()).hexdigest()


def _folder(board: Board) -> Path:
    return images_folder() / board.system.architecture


def _script(name: str) -> bytes:
    return Path(__file__).with_name(SCRIPTS[name]).read_bytes()


def _build(board: Board, wanted: tuple[str, ...], report: Report) -> Image:
    require_programs(BUILD_PROGRAMS, "building an image", PROGRAM_FOLDERS)
    final = _folder(board)
    has_room, free = room_in_cache()
    if not has_room:
        raise CannotHere(f"{final.parent} has {free}, and an image needs {NEEDED_ROOM}", MORE_ROOM)
    for left in final.parent.glob("unpacking-*"):  # of a build that was killed; the lock keeps out other builds
        shutil.rmtree(left)
    system = board.system
    archive = Archive(system.architecture, final.parent / f"packages-{system.architecture}")
    report(f"fetching Debian's packages for {system.architecture}")
    archive.refresh()
    packages = archive.fetch([system.kernel_package, *wanted])
    size_bytes = sum(path.stat().st_size for path in packages)
    report(f"unpacking {len(packages)} packages, {size_bytes / 1e6:.0f} MB")
    with tempfile.TemporaryDirectory(prefix="unpacking-", dir=final.parent) as name:
        root, made = Path(name, "root"), Path(name, "image")
        root.mkdir(mode=0o755)
        made.mkdir(mode=0o755)
        for package in packages:
            run_command(
                ["dpkg-deb", "-x", str(package), str(root)],
                timeout_s=BUILD_TIMEOUT_S,
                file_limit_bytes=PACKAGE_LIMIT_BYTES,
            )
        image = Image(made, _take_kernel(root, made), _names(packages, system))
        report("making the disk")
        _write_initramfs(root, image, system)
        _complete_root(root)
        _write_disk(root, image)
        mark = {
            "kernel_version": image.kernel_version,
            "packages": image.packages,
            "recipe": recipe(board, wanted),
            "sha256": _fingerprint(image),
        }
        (made / COMPLETE_FILE).write_text(json.dumps(mark, indent=1) + "\n")
        shutil.rmtree(final, ignore_errors=True)
        made.rename(final)
    shutil.rmtree(archive.folder, ignore_errors=True)
    return Image(final, image.kernel_version, image.packages)


def _names(files: Sequence[Path], system: System) -> tuple[str, ...]:
    """Return name and version of packages from the names of their files, the kernel (not its meta-package) first."""
    names = []
    for file in files:
        name, version, _ = file.name.split("_", 2)
        if name != system.kernel_package:
            names.append(f"{name} {version.replace('%3a', ':')}")
    return tuple(sorted(names, key=lambda each: (not each.startswith("linux-image-"), each)))


def _take_kernel(root: Path, made: Path) -> str:
    """Move the kernel to its place, delete modules that a router never loads, and return the kernel's version."""
    (kernel,) = (root / "boot").glob("vmlinu[xz]-*")
    version = kernel.name.partition("-")[2]
    shutil.move(kernel, made / "kernel")
    shutil.rmtree(root / "boot")
    shutil.rmtree(root / f"usr/lib/linux-image-{version}", ignore_errors=True)  # device trees of real boards
    modules = root / "lib/modules" / version
    kept = [modules / "kernel" / folder for folder in MODULE_FOLDERS]
    dropped = [modules / "kernel" / folder for folder in MODULE_FOLDERS_NOT]
    for module in modules.rglob("*.ko*"):
        is_kept = any(module.is_relative_to(place) for place in kept)
        if not is_kept or any(module.is_relative_to(place) for place in dropped):
            module.unlink()
    run_command(["depmod", "-b", str(root), "-a", version], timeout_s=BUILD_TIMEOUT_S)
    return version


def _write_initramfs(root: Path, image: Image, system: System) -> None:
    """Write the first file system: busybox, the modules of disk and network, and the script that loads them."""
    modules = root / "lib/modules" / image.kernel_version
    order = load_order((modules / "modules.dep").read_text(), FIRST_MODULES)
    entries = {
        "bin": (cpio.FOLDER_MODE, b""),
        "bin/busybox": (cpio.PROGRAM_MODE, (root / "bin/busybox").read_bytes()),
        "init": (cpio.PROGRAM_MODE, _script("initramfs")),
        "lib": (cpio.FOLDER_MODE, b""),
        str(Path(system.loader).parent): (cpio.FOLDER_MODE, b""),
        system.loader: (cpio.PROGRAM_MODE, (root / "lib" / system.triplet / Path(system.loader).name).read_bytes()),
        "modules": (cpio.FILE_MODE, "".join(f"/lib/{Path(path).name}\n" for path in order).encode()),
    }
    for library in ("libc.so.6", "libresolv.so.2"):
        entries[f"lib/{library}"] = (cpio.PROGRAM_MODE, (root / "lib" / system.triplet / library).read_bytes())
    for path in order:
        entries[f"lib/{Path(path).name}"] = (cpio.FILE_MODE, (modules / path).read_bytes())
    image.initramfs.write_bytes(cpio.archive(entries))


def load_order(modules_dep: str, names: Sequence[str]) -> list[str]:
    """Return the paths of modules and of their dependencies, each after its dependencies, from the text of modules.dep.

    Features that are built into the kernel are not in modules.dep. The module of CRC32C, which others find by its
    name, is added.
    """
    needs = {}
    for line in modules_dep.splitlines():
        path, _, others = line.partition(":")
        needs[path] = others.split()
    paths = {re.sub(r"\.ko.*", "", Path(path).name).replace("-", "_"): path for path in needs}
    order: list[str] = []
    for name in ("crc32c_generic", *names):
        if name in paths:
            # modules.dep lists the dependencies in reverse order.
            order += [path for path in [*reversed(needs[paths[name]]), paths[name]] if path not in order]
    return order


def _complete_root(root: Path) -> None:
    """Add the files that an installation makes, and delete those that a router does not read."""
    for folder in UNUSED:
        shutil.rmtree(root / folder, ignore_errors=True)
    for name in ("dev", "proc", "sys", "run", "tmp", "root", "etc", "var/log", "bin", "sbin"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, text in ACCOUNTS.items():
        (root / "etc" / name).write_text(text)
    if not (root / "bin/sh").exists():
        (root / "bin/sh").symlink_to("busybox")
    script = root / "sbin/tunnelbench-init"
    script.write_bytes(_script("init"))
    script.chmod(0o755)


def _write_disk(root: Path, image: Image) -> None:
    size_bytes = sum(path.lstat().st_size for path in root.rglob("*"))
    blocks = (size_bytes * 5 // 4 + 16_000_000) // 4096
    # fmt: off
    run_command(
        ["mke2fs", "-q", "-t", "ext4", "-b", "4096", "-O", "^has_journal", "-m", "0", "-E", "root_owner=0:0",
         "-d", str(root), str(image.disk), str(blocks)],
        timeout_s=BUILD_TIMEOUT_S,
        file_limit_bytes=PACKAGE_LIMIT_BYTES,
    )
    # fmt: on


def _fingerprint(image: Image) -> str:
    """Return the SHA-256 of all files that a virtual machine boots from; it shows that an image in the cache is
    damaged."""
    digest = sha256()
    for path in (image.kernel, image.initramfs, image.disk):
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
