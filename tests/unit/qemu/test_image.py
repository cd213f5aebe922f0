"""Images in the cache, and what is told of them without building one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tunnelbench.model.errors import CannotHere, WrongInput
from tunnelbench.qemu import image as images
from tunnelbench.qemu.boards import BOARDS, MALTA, board_named
from tunnelbench.qemu.image import cached_image, find_image, load_order, recipe

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
    folder = tmp_path / "tunnelbench/images/malta"
    folder.mkdir(parents=True)
    return folder


def put_image(folder: Path) -> None:
    for name in ("kernel", "initramfs", "disk.ext4"):
        (folder / name).write_bytes(name.encode())
    image = images.Image(folder, "6.1.0-1-4kc-malta", ("linux-image-6.1.0-1-4kc-malta 6.1.1",))
    mark = {
        "kernel_version": image.kernel_version,
        "packages": image.packages,
        "recipe": recipe(MALTA),
        "sha256": images._fingerprint(image),
    }
    (folder / images.MARK).write_text(json.dumps(mark))


def test_an_image_is_found_in_the_cache_only_when_it_is_there_whole(cache: Path) -> None:
    assert cached_image(MALTA) is None
    put_image(cache)
    found = cached_image(MALTA)
    assert found is not None
    assert found.packages[0] == "linux-image-6.1.0-1-4kc-malta 6.1.1"
    found.disk.write_bytes(b"half")
    assert cached_image(MALTA) is None


def test_an_image_that_an_older_program_built_otherwise_is_not_used(cache: Path) -> None:
    put_image(cache)
    mark = json.loads((cache / images.MARK).read_text())
    (cache / images.MARK).write_text(json.dumps({**mark, "recipe": "another"}))
    assert cached_image(MALTA) is None


def test_no_build_begins_without_room_for_it(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = SimpleNamespace(free=12_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    with pytest.raises(CannotHere, match=r"images has 12 MB free, and building an image takes 900$") as caught:
        find_image(MALTA, print)
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


def test_a_board_that_there_is_not_is_told_with_those_that_there_are() -> None:
    assert board_named("malta") is MALTA
    with pytest.raises(WrongInput, match="there is no virtual router molta") as caught:
        board_named("molta")
    assert caught.value.hint == f"there are {', '.join(BOARDS)}"


def test_packages_are_named_with_their_versions_the_kernel_first() -> None:
    files = [
        Path("linux-image-4kc-malta_6.1.176-1_mipsel.deb"),
        Path("busybox_1%3a1.35.0-4_mipsel.deb"),
        Path("linux-image-6.1.0-50-4kc-malta_6.1.176-1_mipsel.deb"),
    ]
    assert images._names(files, MALTA) == ("linux-image-6.1.0-50-4kc-malta 6.1.176-1", "busybox 1:1.35.0-4")
