"""The user's programs for a virtual machine are read, named by their content, and put in Debian's place."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tunnelbench.model.errors import CannotHere
from tunnelbench.qemu import programs
from tunnelbench.qemu.programs import INSTALL_SCRIPT, handed_programs, programs_text, read_programs


def test_two_builds_of_a_program_have_different_texts(tmp_path: Path) -> None:
    for build in ("old", "new"):
        (tmp_path / build).mkdir()
        (tmp_path / build / "openvpn").write_text(build)
    texts = {programs_text(read_programs(str(tmp_path / build))) for build in ("old", "new")}
    assert len(texts) == 2
    assert all(text.startswith("openvpn ") for text in texts)


def test_a_program_is_handed_over_with_its_folder_before_it() -> None:
    entries = handed_programs({"openvpn": b"code"})
    assert list(entries) == ["handed/programs", "handed/programs/openvpn"]
    assert entries["handed/programs/openvpn"] == (0o100755, b"code")
    assert handed_programs({}) == {}


@pytest.mark.parametrize(
    ("name", "message"), [("", "is empty"), ("-x", "contains '-x', which is no program"), ("a b", "no program")]
)
def test_a_folder_with_anything_but_programs_is_refused(tmp_path: Path, name: str, message: str) -> None:
    if name:
        (tmp_path / name).touch()
    with pytest.raises(CannotHere, match=message):
        read_programs(str(tmp_path))


def test_a_folder_that_is_missing_or_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotHere, match="cannot be read: No such file"):
        read_programs(str(tmp_path / "none"))
    monkeypatch.setattr(programs, "MOST_BYTES", 3)
    (tmp_path / "openvpn").write_bytes(b"code")
    with pytest.raises(CannotHere, match="more than 0 MB"):
        read_programs(str(tmp_path))


@pytest.mark.skipif(os.geteuid() != 0, reason="the rule is for root")
def test_a_program_that_another_user_could_change_is_refused(tmp_path: Path) -> None:
    (program := tmp_path / "openvpn").write_bytes(b"code")
    os.chown(program, 65534, 65534)
    with pytest.raises(CannotHere, match=f"{program} is not used, because this is root and"):
        read_programs(str(tmp_path))
    os.chown(program, 0, 0)
    assert read_programs(str(tmp_path)) == {"openvpn": b"code"}


def test_a_program_takes_the_place_of_its_namesake_even_if_installed_twice(tmp_path: Path) -> None:
    handed, search, other = tmp_path / "handed", tmp_path / "bin", tmp_path / "sbin"
    for folder in (handed, search, other):
        folder.mkdir()
    (search / "tincd").write_text("of Debian")
    (search / "tincd").chmod(0o755)
    (handed / "tincd").write_text("of the user")
    (handed / "vpn-new").write_text("another")
    script = INSTALL_SCRIPT.replace("/run/tunnelbench-boot/programs", str(handed)).replace("/usr/sbin", str(other))
    for _ in range(2):
        subprocess.run(["sh", "-c", script], env={"PATH": f"{search}:/usr/bin:/bin"}, check=True)
    assert (search / "tincd").read_text() == "of the user"
    assert (other / "vpn-new").read_text() == "another"
