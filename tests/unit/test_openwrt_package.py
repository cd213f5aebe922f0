"""The package for OpenWrt, made without OpenWrt's build system."""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import tarfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.release import CHANGELOG, faults

from tunnelbench.tunnel import adapters

ROOT = Path(__file__).parents[2]
FEED = ROOT / "openwrt"
SCRIPT = ROOT / "src" / "tunnelbench" / "data" / "router" / "tunnelbench-dut"


def build(folder: Path, umask: int = 0o022, **environment: str) -> Path:
    built = subprocess.run(
        [str(FEED / "build-ipk"), str(folder)],
        env=os.environ | environment, umask=umask, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return Path(built.stdout.strip())


def members(content: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        return {member.name: member for member in archive}


def member(content: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        file = archive.extractfile(name)
        assert file
        return file.read()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("package"))


def test_the_layout_is_what_opkg_reads(package: Path) -> None:
    content = package.read_bytes()
    assert list(members(content)) == ["./debian-binary", "./data.tar.gz", "./control.tar.gz"]
    assert member(content, "./debian-binary") == b"2.0\n"
    assert list(members(member(content, "./control.tar.gz"))) == [".", "./control"]
    data = member(content, "./data.tar.gz")
    files = members(data)
    assert list(files) == [".", "./usr", "./usr/sbin", "./usr/sbin/tunnelbench-dut"]
    assert {(file.uid, file.gid, file.uname, file.mode) for file in files.values()} == {(0, 0, "", 0o755)}
    assert member(data, "./usr/sbin/tunnelbench-dut") == SCRIPT.read_bytes()


def test_the_control_file_says_what_the_package_is(package: Path) -> None:
    version = tomllib.loads((ROOT / "engine" / "Cargo.toml").read_text())["package"]["version"]
    control = member(member(package.read_bytes(), "./control.tar.gz"), "./control").decode()
    fields = dict(re.findall(r"^([A-Z][A-Za-z-]*): (.*(?:\n .*)*)", control, re.MULTILINE))
    assert int(fields.pop("Installed-Size")) > SCRIPT.stat().st_size
    assert fields.pop("Description").startswith("Says what this router is, ")
    assert fields == {
        "Package": "tunnelbench-dut",
        "Version": f"{version}-r1",
        "Depends": "libc",
        "Source": "feeds/tunnelbench/tunnelbench-dut",
        "SourceName": "tunnelbench-dut",
        "License": "Apache-2.0",
        "Section": "net",
        "Maintainer": "The TunnelBench contributors",
        "Architecture": "all",
    }
    assert package.name == f"tunnelbench-dut_{version}-r1_all.ipk"


def test_the_same_tree_makes_the_same_bytes(package: Path, tmp_path: Path) -> None:
    def digest(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    assert digest(build(tmp_path / "again", umask=0o077, LC_ALL="C", TZ="Asia/Tokyo")) == digest(package)
    assert digest(build(tmp_path / "later", SOURCE_DATE_EPOCH="1700000000")) != digest(package)


def test_the_feed_has_one_package_in_a_folder_of_its_name_with_the_program() -> None:
    # `make package/NAME/compile` goes by the name of the folder (OpenWrt's include/subdir.mk, `diralias`).
    assert [path.parent.name for path in FEED.rglob("Makefile")] == ["tunnelbench-dut"]
    assert (FEED / "tunnelbench-dut" / "files" / "tunnelbench-dut").resolve() == SCRIPT
    makefile = (FEED / "tunnelbench-dut" / "Makefile").read_text()
    assert "PKG_NAME:=tunnelbench-dut\n" in makefile
    assert makefile.endswith("$(eval $(call BuildPackage,tunnelbench-dut))\n")


def symbol(kind: str) -> str:
    """Return the name of a tunnel in OpenWrt's configuration."""
    return f"TUNNELBENCH_DUT_{kind.upper().replace('-', '_')}"


def openwrt_packages(kind: str) -> tuple[str, ...]:
    """Return the OpenWrt packages of a tunnel with its default options; empty if a requirement names none."""
    tunnel = adapters()[kind]
    wanted = [each for each in tunnel.requirements(tunnel.options_type()) if not each.makes_keys]
    if not all(requirement.openwrt for requirement in wanted):
        return ()
    return tuple(dict.fromkeys(package for requirement in wanted for package in requirement.openwrt.split()))


def offered() -> dict[str, tuple[str, ...]]:
    """Return the OpenWrt packages of each tunnel whose requirements all have one."""
    return {kind: packages for kind in sorted(adapters()) if (packages := openwrt_packages(kind))}


def with_menu(makefile: str, kinds: Sequence[str]) -> str:
    """Return the feed's Makefile with a menu of these tunnels, and their packages as dependencies."""
    flags = "".join(f"\tCONFIG_{symbol(kind)} \\\n" for kind in kinds)
    depends = "".join(f"\t+{symbol(kind)}:{package} \\\n" for kind in kinds for package in offered()[kind])
    menu = "".join(f'\t\tconfig {symbol(kind)}\n\t\t\tbool "{adapters()[kind].title}"\n\n' for kind in kinds)
    for block, head, end in (
        (flags, "PKG_CONFIG_DEPENDS:= \\\n", "\tCONFIG_TUNNELBENCH_DUT_ETHTOOL"),
        (depends, "  DEPENDS:= \\\n", "\t+TUNNELBENCH_DUT_ETHTOOL"),
        (menu, "\t\tdepends on PACKAGE_tunnelbench-dut\n\n", "\t\tconfig TUNNELBENCH_DUT_ETHTOOL"),
    ):
        before, _, rest = makefile.partition(head)
        makefile = before + head + block + end + rest.partition(end)[2]
    return makefile


def test_the_menu_of_tunnels_is_made_from_the_adapters(request: pytest.FixtureRequest) -> None:
    path = FEED / "tunnelbench-dut" / "Makefile"
    makefile = path.read_text()
    if request.config.getoption("force_regen"):
        path.write_text(with_menu(makefile, [*offered()]))
        return
    symbols = set(re.findall(r"^\t\tconfig (TUNNELBENCH_DUT_\w+)$", makefile, re.MULTILINE))
    kinds = [kind for kind in offered() if symbol(kind) in symbols]
    assert symbols == {*map(symbol, kinds), "TUNNELBENCH_DUT_ETHTOOL"}
    assert faults(kinds, [*offered()], CHANGELOG.read_text()) == [], "run `make docs`"
    assert makefile == with_menu(makefile, kinds), "run `make docs`"
