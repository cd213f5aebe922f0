"""Kernels in the cache, and kernels that are here."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tunnelbench.guest import kernel as kernels
from tunnelbench.guest.kernel import Kernel, cached_kernel, find_kernel
from tunnelbench.guest.machine import INIT, Accelerator, _adapted, left_guests
from tunnelbench.host.cache import COMPLETE_FILE
from tunnelbench.model.errors import CannotHere


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tunnelbench/kernels"


def image_of(version: str) -> bytes:
    """The header of an image of x86, of one sector, with its version behind it and nothing else."""
    image = bytearray(1024 + 16)
    image[0x1F1] = 1
    image[0x1F4] = 1
    image[0x202:0x206] = b"HdrS"
    image[0x20E:0x210] = struct.pack("<H", 0x280 - 0x200)
    said = f"{version} (builder@host) #1 SMP".encode()
    image[0x280 : 0x280 + len(said)] = said
    return bytes(image)


def put_kernel(folder: Path, version: str = "6.1.0-1-amd64") -> Kernel:
    root = folder / version
    (root / "boot").mkdir(parents=True)
    image = root / "boot" / f"vmlinuz-{version}"
    image.write_bytes(image_of(version))
    modules = root / "lib/modules" / version
    modules.mkdir(parents=True)
    (modules / "modules.dep").write_text(
        "kernel/net/ipv4/ip_gre.ko: kernel/net/ipv4/gre.ko\nkernel/l2tp/l2tp_eth.ko.xz:\n"
    )
    (modules / "modules.builtin").write_text("kernel/drivers/net/tun-made.ko\n")
    return Kernel(version, image, root, "linux-image-6.1 6.1.1")


def mark(kernel: Kernel) -> None:
    content = {
        "version": kernel.version,
        "package": kernel.package,
        "image": f"boot/{kernel.image.name}",
        "sha256": kernels._fingerprint(kernel),
    }
    (kernel.root / COMPLETE_FILE).write_text(json.dumps(content))


def test_a_kernel_is_found_in_the_cache_only_when_it_is_there_whole(cache: Path) -> None:
    assert cached_kernel() is None
    kernel = put_kernel(cache)
    assert cached_kernel() is None
    mark(kernel)
    assert cached_kernel() == kernel
    assert find_kernel("debian") == kernel


@pytest.mark.parametrize(
    "damaged", ["boot/vmlinuz-6.1.0-1-amd64", "lib/modules/6.1.0-1-amd64/modules.dep", COMPLETE_FILE]
)
def test_a_damaged_kernel_is_as_good_as_none(cache: Path, damaged: str) -> None:
    kernel = put_kernel(cache)
    mark(kernel)
    (kernel.root / damaged).write_text("cut off")
    assert cached_kernel() is None


def test_modules_are_known_whether_built_in_packed_or_spelled_otherwise(cache: Path) -> None:
    kernel = put_kernel(cache)
    names = ("ip_gre", "l2tp_eth", "l2tp-eth", "tun_made", "gre", "wireguard")
    assert [name for name in names if kernel.has_module(name)] == ["ip_gre", "l2tp_eth", "l2tp-eth", "tun_made"]


def test_a_kernel_named_by_its_path_has_its_modules_beside_it(tmp_path: Path) -> None:
    kernel = put_kernel(tmp_path)
    link = tmp_path / "vmlinuz"
    link.symlink_to(kernel.image)
    plain = kernel.root / "vmlinuz"
    plain.write_bytes(kernel.image.read_bytes())
    for path in (kernel.image, link, plain):
        found = find_kernel(str(path))
        assert (found.version, found.root, found.modules) == (kernel.version, kernel.root, kernel.modules)


WRONG = {
    "missing/vmlinuz-1": "there is no kernel {}",
    "boot": "there is no kernel {}",
    "circle": "there is no kernel {}",
    "boot/text": "{} is no kernel of Linux for x86",
    "boot/short": "kernel {} is cut short",
    "boot/vmlinuz-1": "kernel {} has no modules: no folder above it holds lib/modules/1",
}


def test_a_kernel_in_a_folder_with_a_blank_is_refused(tmp_path: Path) -> None:
    boot = tmp_path / "my kernels" / "boot"
    boot.mkdir(parents=True)
    (boot / "vmlinuz-1").write_bytes(image_of("1"))
    (boot.parent / "lib/modules/1").mkdir(parents=True)
    with pytest.raises(CannotHere, match="a blank in its path"):
        find_kernel(str(boot / "vmlinuz-1"))


@pytest.mark.parametrize("name", WRONG)
def test_a_path_that_cannot_be_booted_is_reported_in_a_sentence(name: str, tmp_path: Path) -> None:
    boot = tmp_path / "boot"
    boot.mkdir()
    boot.joinpath("text").write_text("vmlinuz\n" * 200)
    boot.joinpath("short").write_bytes(image_of("1")[:-1])
    boot.joinpath("vmlinuz-1").write_bytes(image_of("1"))
    tmp_path.joinpath("circle").symlink_to(tmp_path / "circle")
    with pytest.raises(CannotHere) as caught:
        find_kernel(str(tmp_path / name))
    assert caught.value.message == WRONG[name].format(tmp_path / name)
    assert caught.value.hint


def test_modules_that_no_guest_would_see_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/nowhere")
    monkeypatch.setattr(kernels, "UNSEEN", (str(tmp_path),))
    kernel = put_kernel(tmp_path)
    with pytest.raises(CannotHere, match="which no guest sees"):
        find_kernel(str(kernel.image))


def test_without_apt_the_error_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunnelbench.guest.kernel.shutil.which", lambda _: None)
    with pytest.raises(CannotHere, match="apt-get is missing"):
        find_kernel("debian")


def test_qemu_gets_kvm_or_nothing_our_first_process_and_no_status_file() -> None:
    assert _adapted("accel=kvm:tcg", INIT, {}) == "accel=kvm"
    assert _adapted("file,id=ret,path=/tmp/x", INIT, {}) == "null,id=ret"
    assert _adapted("file,id=stdout,path=/proc/self/fd/1", INIT, {}) == "file,id=stdout,path=/proc/self/fd/1"
    adapted = _adapted("quiet init=/virtme/init", INIT, {"python": "/usr/bin/python3"})
    assert adapted == f"quiet tunnelbench_python=/usr/bin/python3 init={INIT}"
    assert INIT.is_file()


def test_a_run_without_a_guest_has_left_none() -> None:
    assert left_guests("nosuch") == []


def test_an_emulated_guest_is_called_so() -> None:
    assert [each.words for each in Accelerator] == ["inside a guest", "inside a guest, emulated"]
