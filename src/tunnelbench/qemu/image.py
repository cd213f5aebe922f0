"""Images of virtual routers: built of Debian's packages, kept in the cache, never changed by what runs on them."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from tunnelbench.host.cache import cache_folder, only_one_fetches
from tunnelbench.host.command import run_command
from tunnelbench.model.errors import CannotHere
from tunnelbench.qemu import cpio
from tunnelbench.qemu.boards import Board
from tunnelbench.qemu.packages import ASSUMED, SUITE, Archive

MARK = "complete.json"
"""Written last: an image without it is not looked at."""

BUILD_TIMEOUT_S = 300.0

NEEDED_BYTES = 900_000_000
"""Free space for a build: packages, lists, all of it unpacked, and the disk. What remains is a fifth of it."""

LARGEST_FILE_BYTES = 1_000_000_000

PROGRAMS = {"apt-get": "apt", "dpkg-deb": "dpkg", "depmod": "kmod", "mke2fs": "e2fsprogs"}
"""What a build needs, and the Debian package that holds it."""

PACKAGES = (
    "busybox", "dropbear-bin", "ethtool", "iproute2", "nftables", "openssl", "openvpn", "ppp", "tcpdump", "tinc",
    "wireguard-tools", "xl2tpd",
)  # fmt: skip
"""Not busybox-static: as Debian builds that one, its shell prefers its own, small `ip` to the real one."""

MODULE_FOLDERS = (
    "arch", "crypto", "drivers/block/virtio_blk.ko", "drivers/net", "drivers/virtio",
    "fs/ext4", "fs/jbd2", "fs/mbcache.ko", "fs/overlayfs", "lib", "net",
)  # fmt: skip
"""What a router's kernel may load, below its `kernel`; the rest is hardware and file systems that it has not."""

MODULE_FOLDERS_NOT = ("drivers/net/ethernet", "drivers/net/wireless", "drivers/net/usb", "drivers/net/phy")

FIRST_MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "ext4", "overlay")
"""Without these there is no disk and no network; on x86-64 some of them need a module for CRC32C, found by name."""

UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/include")

ACCOUNTS = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\nnogroup:x:65534:\ndip:x:30:\n",
    "shadow": "root:*:19000:0:99999:7:::\nnobody:*:19000:0:99999:7:::\n",
    "shells": "/bin/sh\n",
    "hosts": "127.0.0.1 localhost virtual-router\n",
    "os-release": 'PRETTY_NAME="Debian packages of bookworm, put together by TunnelBench"\nID=debian\n',
}
"""Made by the installation of packages, and here they are only unpacked. The passwords match nothing."""

SCRIPTS = {"initramfs": "initramfs.sh", "init": "init.sh"}


@dataclass(frozen=True)
class Image:
    """What a virtual router boots from; it only reads it."""

    folder: Path
    kernel_version: str
    packages: tuple[str, ...]
    """Name and version of each, the kernel's first."""

    @property
    def kernel(self) -> Path:
        return self.folder / "kernel"

    @property
    def initramfs(self) -> Path:
        return self.folder / "initramfs"

    @property
    def disk(self) -> Path:
        return self.folder / "disk.ext4"


Tell = Callable[[str], object]
"""Is told what is being done, in words."""


def cached_image(board: Board) -> Image | None:
    """The image of a board, if it is in the cache whole and built as this program builds it."""
    folder = _folder(board)
    try:
        found = json.loads((folder / MARK).read_text())
        image = Image(folder, found["kernel_version"], tuple(found["packages"]))
        is_good = found["recipe"] == recipe(board) and found["sha256"] == _fingerprint(image)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return image if is_good else None


def find_image(board: Board, tell: Tell, *, anew: bool = False) -> Image:
    """The image of a board, built where it must be, or `anew` in any case; CannotHere where it cannot be."""
    with only_one_fetches(_folder(board).parent):
        return (None if anew else cached_image(board)) or _build(board, tell)


def recipe(board: Board) -> str:
    """SHA-256 of all that an image is made by: one that was made otherwise is not used."""
    lists = (PACKAGES, ASSUMED, SUITE, MODULE_FOLDERS, MODULE_FOLDERS_NOT, FIRST_MODULES, ACCOUNTS, UNUSED)
    parts = [repr(asdict(board)), *map(repr, lists)]
    parts += [_script(name).decode() for name in SCRIPTS]
    return sha256("\0".join(parts).encode()).hexdigest()


def _folder(board: Board) -> Path:
    return cache_folder() / "images" / board.name


def _script(name: str) -> bytes:
    return Path(__file__).with_name(SCRIPTS[name]).read_bytes()


def _build(board: Board, tell: Tell) -> Image:
    _require_programs()
    final = _folder(board)
    if (free_bytes := shutil.disk_usage(final.parent).free) < NEEDED_BYTES:
        raise CannotHere(
            f"{final.parent} has {free_bytes / 1e6:.0f} MB free, and building an image takes {NEEDED_BYTES / 1e6:.0f}",
            "make room there, or set XDG_CACHE_HOME to a folder elsewhere",
        )
    for left in final.parent.glob("unpacking-*"):  # of a build that was killed: nobody else builds now
        shutil.rmtree(left)
    archive = Archive(board.architecture, final.parent / f"packages-{board.architecture}")
    tell(f"fetching Debian's packages for {board.architecture}")
    archive.refresh()
    packages = archive.fetch([board.kernel_package, *PACKAGES])
    size_bytes = sum(path.stat().st_size for path in packages)
    tell(f"unpacking {len(packages)} packages, {size_bytes / 1e6:.0f} MB")
    with tempfile.TemporaryDirectory(prefix="unpacking-", dir=final.parent) as name:
        root, made = Path(name, "root"), Path(name, "image")
        root.mkdir(mode=0o755)
        made.mkdir(mode=0o755)
        for package in packages:
            run_command(
                ["dpkg-deb", "-x", str(package), str(root)],
                timeout_s=BUILD_TIMEOUT_S,
                file_limit_bytes=LARGEST_FILE_BYTES,
            )
        image = Image(made, _take_kernel(root, made), _names(packages, board))
        tell("making the disk")
        _write_initramfs(root, image, board)
        _complete_root(root)
        _write_disk(root, image)
        mark = {
            "kernel_version": image.kernel_version,
            "packages": image.packages,
            "recipe": recipe(board),
            "sha256": _fingerprint(image),
        }
        (made / MARK).write_text(json.dumps(mark, indent=1) + "\n")
        shutil.rmtree(final, ignore_errors=True)
        made.rename(final)
    shutil.rmtree(archive.folder, ignore_errors=True)
    return Image(final, image.kernel_version, image.packages)


def _require_programs() -> None:
    if missing := [program for program in PROGRAMS if shutil.which(program, path=WHERE_PROGRAMS_ARE) is None]:
        packages = " ".join(sorted({PROGRAMS[program] for program in missing}))
        raise CannotHere(f"an image cannot be built: {', '.join(missing)} missing", f"apt-get install {packages}")


WHERE_PROGRAMS_ARE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _names(files: Sequence[Path], board: Board) -> tuple[str, ...]:
    """Name and version of packages, from their files' names; the kernel itself, not its meta-package, comes first."""
    names = []
    for file in files:
        name, version, _ = file.name.split("_", 2)
        if name != board.kernel_package:
            names.append(f"{name} {version.replace('%3a', ':')}")
    return tuple(sorted(names, key=lambda each: (not each.startswith("linux-image-"), each)))


def _take_kernel(root: Path, made: Path) -> str:
    """Move the kernel to its place and leave of its modules what a router may load; returns its version."""
    (kernel,) = (root / "boot").glob("vmlinu[xz]-*")
    version = kernel.name.partition("-")[2]
    shutil.move(kernel, made / "kernel")
    shutil.rmtree(root / "boot")
    modules = root / "lib/modules" / version
    kept = [modules / "kernel" / folder for folder in MODULE_FOLDERS]
    dropped = [modules / "kernel" / folder for folder in MODULE_FOLDERS_NOT]
    for module in modules.rglob("*.ko*"):
        is_kept = any(module.is_relative_to(place) for place in kept)
        if not is_kept or any(module.is_relative_to(place) for place in dropped):
            module.unlink()
    run_command(["depmod", "-b", str(root), "-a", version], timeout_s=BUILD_TIMEOUT_S)
    return version


def _write_initramfs(root: Path, image: Image, board: Board) -> None:
    """The first file system: busybox, the modules of disk and network, and the script that loads them."""
    modules = root / "lib/modules" / image.kernel_version
    order = load_order((modules / "modules.dep").read_text(), FIRST_MODULES)
    entries = {
        "bin": (cpio.FOLDER, b""),
        "bin/busybox": (cpio.PROGRAM, (root / "bin/busybox").read_bytes()),
        "init": (cpio.PROGRAM, _script("initramfs")),
        "lib": (cpio.FOLDER, b""),
        str(Path(board.loader).parent): (cpio.FOLDER, b""),
        board.loader: (cpio.PROGRAM, (root / "lib" / board.triplet / Path(board.loader).name).read_bytes()),
        "modules": (cpio.FILE, "".join(f"/lib/{Path(path).name}\n" for path in order).encode()),
    }
    for library in ("libc.so.6", "libresolv.so.2"):
        entries[f"lib/{library}"] = (cpio.PROGRAM, (root / "lib" / board.triplet / library).read_bytes())
    for path in order:
        entries[f"lib/{Path(path).name}"] = (cpio.FILE, (modules / path).read_bytes())
    image.initramfs.write_bytes(cpio.archive(entries))


def load_order(modules_dep: str, names: Sequence[str]) -> list[str]:
    """Paths of modules and of what they need, each after what it needs; from the text of modules.dep.

    What the kernel has built in is no module and not in there. A module of a checksum that others find by its name
    comes with them.
    """
    needs = {}
    for line in modules_dep.splitlines():
        path, _, others = line.partition(":")
        needs[path] = others.split()
    paths = {re.sub(r"\.ko.*", "", Path(path).name).replace("-", "_"): path for path in needs}
    order: list[str] = []
    for name in ("crc32c_generic", *names):
        if name in paths:
            # modules.dep lists what comes last first.
            order += [path for path in [*reversed(needs[paths[name]]), paths[name]] if path not in order]
    return order


def _complete_root(root: Path) -> None:
    """Add what an installation would have made, and drop what a router does not read."""
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
        file_limit_bytes=LARGEST_FILE_BYTES,
    )
    # fmt: on


def _fingerprint(image: Image) -> str:
    """SHA-256 of all that is booted: a half-deleted or damaged image is not."""
    digest = sha256()
    for path in (image.kernel, image.initramfs, image.disk):
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
