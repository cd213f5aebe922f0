"""Files that another user could change are not used by root."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tunnelbench.host.trust import PACKAGE, held_in_place, require_trusted, trusted_search_path
from tunnelbench.model.errors import CannotHere

NOBODY = 65534

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the rules are for root")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of root in two folders of root."""
    monkeypatch.delenv("SUDO_UID", raising=False)
    path = tmp_path / "above" / "folder" / "program"
    path.parent.mkdir(parents=True)
    path.touch()
    return path


def refusal(path: Path) -> str:
    with pytest.raises(CannotHere) as caught:
        require_trusted(path, "the program")
    return caught.value.message


def test_a_program_of_root_alone_and_one_that_is_missing_are_no_error(program: Path) -> None:
    require_trusted(program, "the program")
    require_trusted("/bin/sh", "the program")
    require_trusted(program.parent / "missing", "the program")


def test_a_folder_above_tunnelbench_in_which_others_can_put_files_is_refused(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = program.parent
    monkeypatch.setattr("tunnelbench.host.trust.PACKAGE", shared / "clone" / "src" / PACKAGE.name)
    shared.chmod(0o1777)
    assert f"every user can write to {shared}" in refusal(program)
    assert trusted_search_path(str(shared))[0] == ""
    inside = shared / "clone" / "target" / "engine"
    inside.parent.mkdir(parents=True)
    inside.touch()
    require_trusted(inside, "the engine")


def group_can_write(path: Path) -> None:
    os.chown(path, 0, NOBODY)
    path.chmod(0o775)


def list_lets_write(tag: int, number: int) -> Callable[[Path], None]:
    """Return a function that gives a folder an access control list with one more entry, as setfacl does."""

    def spoil(path: Path) -> None:
        nobody = 0xFFFFFFFF
        entries = [(0x01, 7, nobody), (tag, 7, number), (0x04, 5, nobody), (0x10, 7, nobody), (0x20, 5, nobody)]
        packed = b"".join(struct.pack("<HHI", *entry) for entry in sorted(entries))
        try:
            os.setxattr(path.parent, "system.posix_acl_access", struct.pack("<I", 2) + packed)
        except OSError as error:
            pytest.skip(f"this file system has no access control lists: {error.strerror}")

    return spoil


SPOILT: dict[str, Callable[[Path], None]] = {
    "it is another user's": lambda path: os.chown(path, NOBODY, 0),
    "everybody can write to it": lambda path: path.chmod(0o777),
    "its group can write to it": group_can_write,
    "its folder is another user's": lambda path: os.chown(path.parent, NOBODY, 0),
    "everybody can write to its folder": lambda path: path.parent.chmod(0o777),
    "its folder is like /tmp": lambda path: path.parent.chmod(0o1777),
    "a folder above it is another user's": lambda path: os.chown(path.parent.parent, NOBODY, 0),
    "everybody can write to a folder above it": lambda path: path.parent.parent.chmod(0o777),
    "a user of its folder's access control list can write": list_lets_write(0x02, NOBODY),
    "a group of its folder's access control list can write": list_lets_write(0x08, NOBODY),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_program_that_another_user_could_change_is_refused(program: Path, spoil: Callable[[Path], None]) -> None:
    spoil(program)
    assert refusal(program).startswith(f"the program {program} is not used, because this is root and ")


def test_an_access_control_list_for_root_is_no_error(program: Path) -> None:
    list_lets_write(0x02, 0)(program)
    require_trusted(program, "the program")


def test_a_sticky_folder_further_above_protects_what_is_in_it(program: Path) -> None:
    program.parent.parent.chmod(0o1777)
    require_trusted(program, "the program")


def test_each_link_on_the_way_to_a_program_counts(program: Path, tmp_path: Path) -> None:
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    (open_folder / "second").symlink_to(program)
    first = tmp_path / "first"
    first.symlink_to(open_folder / "second")
    require_trusted(first, "the program")
    open_folder.chmod(0o777)
    assert f"every user can write to {open_folder}" in refusal(first)


def test_files_of_the_user_who_called_sudo_are_trusted(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(program, NOBODY, NOBODY)
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    require_trusted(program, "the program")


def test_a_user_who_is_not_root_may_use_any_file(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program.chmod(0o777)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    require_trusted(program, "the program")


def test_folders_of_path_in_which_others_could_put_programs_are_left_out(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, like_tmp, missing = (program.parent.parent / name for name in ("theirs", "like-tmp", "missing"))
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    like_tmp.mkdir()
    like_tmp.chmod(0o1777)
    given = f"{program.parent}:{theirs}::.:{like_tmp}:{missing}:/usr/bin"
    kept, faults = trusted_search_path(given)
    assert kept == f"{program.parent}:/usr/bin"
    assert [fault.split(" in PATH")[0] for fault in faults] == [str(theirs), "an empty entry", ".", str(like_tmp)]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert trusted_search_path(given) == (given, [])


@pytest.mark.parametrize("name", ["file", "../folder/file", "link/file", "to-file", "..", ".", "../folder/..", "none"])
def test_a_file_that_is_held_in_place_is_the_one_that_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").touch()
    (folder / "link").symlink_to("../folder")
    (folder / "to-file").symlink_to("link/file")
    monkeypatch.chdir(folder)
    with held_in_place(Path(name)) as place:
        assert place.resolve() == Path(name).resolve()
        assert place.name == Path(name).resolve().name


def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(OSError, match="Too many levels"), held_in_place(tmp_path / "link"):
        pass
