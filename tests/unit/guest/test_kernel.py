"""Kernels in the cache, and kernels that are here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tunnelbench.guest import kernel as kernels
from tunnelbench.guest.kernel import Kernel, cached_kernel, find_kernel
from tunnelbench.guest.machine import INIT, Accelerator, _adapted, left_guests
from tunnelbench.model.errors import CannotHere


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tunnelbench/kernels"


def put_kernel(folder: Path, version: str = "6.1.0-1-amd64") -> Kernel:
    root = folder / version
    (root / "boot").mkdir(parents=True)
    image = root / "boot" / f"vmlinuz-{version}"
    image.write_bytes(b"kernel")
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
    (kernel.root / kernels.MARK).write_text(json.dumps(content))


def test_a_kernel_is_found_in_the_cache_only_when_it_is_there_whole(cache: Path) -> None:
    assert cached_kernel() is None
    kernel = put_kernel(cache)
    assert cached_kernel() is None
    mark(kernel)
    assert cached_kernel() == kernel
    assert find_kernel("debian") == kernel


@pytest.mark.parametrize(
    "damaged", ["boot/vmlinuz-6.1.0-1-amd64", "lib/modules/6.1.0-1-amd64/modules.dep", kernels.MARK]
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
    found = find_kernel(str(kernel.image))
    assert (found.version, found.root, found.modules) == (kernel.version, kernel.root, kernel.modules)


@pytest.mark.parametrize("name", ["/boot/vmlinuz-9.9-none", "/etc/passwd"])
def test_a_path_that_is_no_kernel_is_refused(name: str) -> None:
    with pytest.raises(CannotHere, match="there is no kernel"):
        find_kernel(name)


def test_a_kernel_without_its_modules_is_refused(tmp_path: Path) -> None:
    image = tmp_path / "boot/vmlinuz-1"
    image.parent.mkdir()
    image.write_bytes(b"")
    with pytest.raises(CannotHere, match="has no modules"):
        find_kernel(str(image))


def test_without_apt_the_error_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunnelbench.guest.kernel.shutil.which", lambda _: None)
    with pytest.raises(CannotHere, match="apt-get is missing"):
        find_kernel("debian")


def test_qemu_is_told_kvm_or_nothing_our_first_process_and_to_write_no_status() -> None:
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
