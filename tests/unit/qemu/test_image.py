"""Images in the cache, without building one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tunnelbench.host.cache import COMPLETE_FILE
from tunnelbench.model.errors import CannotHere
from tunnelbench.qemu import image as images
from tunnelbench.qemu.boards import MALTA, MIPSEL, PC_X86_64, PC_X86_64_NO_AES, VIRT_ARM64, X86_64_PC
from tunnelbench.qemu.image import BASE_PACKAGES, Image, cached_image, current_image, find_image, load_order, recipe

MODULES_DEP = """\
kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko kernel/fs/mbcache.ko kernel/lib/crc16.ko
kernel/fs/jbd2/jbd2.ko:
kernel/fs/mbcache.ko:
kernel/lib/crc16.ko:
kernel/drivers/net/virtio_net.ko: kernel/net/core/failover.ko kernel/lib/crc16.ko
kernel/net/core/failover.ko:
kernel/crypto/crc32c_generic.ko:
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "tunnelbench/images/mipsel"
    folder.mkdir(parents=True)
    return folder


def put_image(folder: Path) -> None:
    for name in ("kernel", "initramfs", "disk.ext4"):
        (folder / name).write_bytes(name.encode())
    image = images.Image(folder, "6.1.0-1-4kc-malta", ("linux-image-6.1.0-1-4kc-malta 6.1.1",))
    mark = {
        "kernel_version": image.kernel_version,
        "packages": image.packages,
        "recipe": recipe(MALTA, BASE_PACKAGES),
        "sha256": images._fingerprint(image),
    }
    (folder / COMPLETE_FILE).write_text(json.dumps(mark))


def test_an_image_is_found_in_the_cache_only_when_it_is_there_whole(cache: Path) -> None:
    assert cached_image(MALTA) is None
    put_image(cache)
    found = cached_image(MALTA)
    assert found is not None
    assert found.packages[0] == "linux-image-6.1.0-1-4kc-malta 6.1.1"
    found.disk.write_bytes(b"half")
    assert cached_image(MALTA) is None


def test_boards_of_one_system_have_one_image(cache: Path) -> None:
    put_image(cache)
    folder = cache.with_name("amd64")
    shutil.copytree(cache, folder)
    found = cached_image(PC_X86_64)
    assert found is not None
    assert found.folder == folder
    assert cached_image(PC_X86_64_NO_AES) == cached_image(X86_64_PC) == found
    assert len({recipe(board, ()) for board in (PC_X86_64, PC_X86_64_NO_AES, X86_64_PC)}) == 1
    assert cached_image(VIRT_ARM64) is None
    assert recipe(VIRT_ARM64, ()) != recipe(PC_X86_64, ())


def test_an_image_of_another_recipe_is_built_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_image(cache)
    built = Image(cache, "7.0", ())
    monkeypatch.setattr(images, "_build", lambda *_: built)
    assert find_image(MALTA, (), print) == cached_image(MALTA)
    assert find_image(MALTA, ("util-linux",), print) == cached_image(MALTA)
    assert find_image(MALTA, ("tinc",), print) is built
    assert find_image(MALTA, (), print, anew=True) is built


def test_no_build_begins_without_room_for_it(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = SimpleNamespace(free=12_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    with pytest.raises(CannotHere, match=r"images has 12 MB free, and an image needs 900 MB$") as caught:
        find_image(MALTA, (), print)
    assert "XDG_CACHE_HOME" in caught.value.hint


def test_modules_are_loaded_after_what_they_need_and_once() -> None:
    assert load_order(MODULES_DEP, ("virtio_net", "ext4", "built_in")) == [
        "kernel/crypto/crc32c_generic.ko",
        "kernel/lib/crc16.ko",
        "kernel/net/core/failover.ko",
        "kernel/drivers/net/virtio_net.ko",
        "kernel/fs/mbcache.ko",
        "kernel/fs/jbd2/jbd2.ko",
        "kernel/fs/ext4/ext4.ko",
    ]


def test_packages_are_named_with_their_versions_the_kernel_first() -> None:
    files = [
        Path("linux-image-4kc-malta_6.1.176-1_mipsel.deb"),
        Path("busybox_1%3a1.35.0-4_mipsel.deb"),
        Path("linux-image-6.1.0-50-4kc-malta_6.1.176-1_mipsel.deb"),
    ]
    assert images._names(files, MIPSEL) == ("linux-image-6.1.0-50-4kc-malta 6.1.176-1", "busybox 1:1.35.0-4")


def test_an_image_is_current_only_with_the_packages_that_a_run_asks_for(cache: Path) -> None:
    put_image(cache)
    assert current_image(MALTA, ()) == cached_image(MALTA)
    assert current_image(MALTA, ("tinc",)) is None
