"""The package for OpenWrt, made without OpenWrt's build system."""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest

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


def test_the_feed_has_its_one_package_in_a_folder_of_that_name_with_the_program_itself() -> None:
    # `make package/NAME/compile` goes by the name of the folder (OpenWrt's include/subdir.mk, `diralias`).
    assert [path.parent.name for path in FEED.rglob("Makefile")] == ["tunnelbench-dut"]
    assert (FEED / "tunnelbench-dut" / "files" / "tunnelbench-dut").resolve() == SCRIPT
    makefile = (FEED / "tunnelbench-dut" / "Makefile").read_text()
    assert "PKG_NAME:=tunnelbench-dut\n" in makefile
    assert makefile.endswith("$(eval $(call BuildPackage,tunnelbench-dut))\n")


def test_each_tunnel_of_the_menu_is_a_dependency_and_the_other_way_round() -> None:
    makefile = (FEED / "tunnelbench-dut" / "Makefile").read_text()
    offered = set(re.findall(r"^\t\tconfig (TUNNELBENCH_DUT_\w+)$", makefile, re.MULTILINE))
    assert offered == set(re.findall(r"^\t\+(TUNNELBENCH_DUT_\w+):[\w-]+", makefile, re.MULTILINE))
    assert offered == set(re.findall(r"^\tCONFIG_(TUNNELBENCH_DUT_\w+)", makefile, re.MULTILINE))
    assert len(offered) > 5
