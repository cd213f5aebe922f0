"""Files that root uses because a plan or a testbed names them: nobody else may be able to change them."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
import struct
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tunnelbench.model.errors import CannotHere

PACKAGE = Path(__file__).resolve().parents[1]
PACKAGE_OWNER = PACKAGE.stat().st_uid

ACCESS_LIST = "system.posix_acl_access"
"""Extended attribute with a file's access control list (acl(5)); linux/posix_acl_xattr.h describes its content."""

KEPT_PERMISSIONS = 0o775
"""Permissions that a file keeps when it is replaced; not those to run as its owner, or to be written by everybody."""

MOST_LINKS = 40
"""Number of links on the way to a file after which it counts as unreachable, as in path_resolution(7)."""

OF_USER, OF_GROUP, WRITE = 0x02, 0x08, 0x02
"""Tags of the entries that name a user and a group, and the bit of the permission to write."""


def require_trusted(path: str | Path, what: str) -> None:
    """Raises CannotHere if this is root and another user could change a file, or replace it in one of its folders.

    Trusted are root, the user who called sudo, and whoever can change TunnelBench itself. A file that does not exist is
    no error here.
    """
    if os.geteuid() == 0 and (fault := _fault_of(Path(path))):
        raise CannotHere(
            f"{what} {path} is not used, because this is root and {fault}",
            "let only root write to the file and its folders, or name another file",
        )


def require_trusted_folder(folder: Path, what: str, hint: str) -> None:
    """Raises CannotHere if this is root and another user could put something into a folder, or replace the folder.

    A folder that does not exist is no error here: look again when it is made.
    """
    if os.geteuid() == 0 and (fault := _fault_of(folder / "file")):
        raise CannotHere(f"{what} {folder} is not used, because this is root and {fault}", hint)


def require_trusted_store(path: Path) -> None:
    """Raises CannotHere if this is root and another user could put a file next to a store, at any moment.

    SQLite looks for a rollback journal each time it opens a store, and deletes a file that the journal names. A journal
    can appear after every check, so that a check of the files themselves is not enough for root.
    """
    hint = "copy the store into a folder that only root can write to, or name another one with --store"
    for folder in dict.fromkeys((path.parent, Path(os.path.realpath(path)).parent)):
        require_trusted_folder(folder, "a store in", hint)


def trusted_search_path(search_path: str) -> tuple[str, list[str]]:
    """Return a PATH without the folders in which another user could put a program, and a text about each of those.

    Folders that do not exist are left out, too: another user may make them. Changes nothing if this is not root.
    """
    if os.geteuid() != 0:
        return search_path, []
    kept, faults = [], []
    for folder in search_path.split(os.pathsep):
        fault = _fault_of(Path(folder, "program")) if folder.startswith("/") else "it is the current folder, or in it"
        if fault:
            faults.append(f"{folder or 'an empty entry'} in PATH is not searched, because this is root and {fault}")
        elif Path(folder).is_dir():
            kept.append(folder)
    return os.pathsep.join(kept), faults


@contextmanager
def held_in_place(path: Path) -> Iterator[Path]:
    """Yield a path of a file that keeps leading to the same folder during the block, even if another user replaces a
    folder on the way.

    The file may not exist, and is no link when the block begins: links are followed here, and once. Raises
    PermissionError if this is root and another user has made a link on the way to the file, or a pipe in its place:
    the link could lead what root writes into any file of the machine. The kernel refuses such a link in a folder such
    as /tmp (proc_sys_fs(5), protected_symlinks), but many machines have that switched off.
    """
    folder, name = _opened_folder(path)
    try:
        yield Path(f"/proc/{os.getpid()}/fd/{folder}", name)  # processes that this one has started read it, too
    finally:
        os.close(folder)


@contextmanager
def held_for_writing(path: Path) -> Iterator[Path]:
    """Do what `held_in_place` does, for a file or folder that is made, replaced or changed during the block.

    Raises PermissionError also if this is root and another user could replace what root makes in that folder, or make
    it a program that root owns. In a folder with the sticky bit such as /tmp, nobody can replace what root makes.
    """
    with held_in_place(path) as place:
        folder = place.parent
        shown = folder.readlink()
        if os.geteuid() == 0 and (fault := _fault_in(shown, folder, folder.stat(), _trusted(), is_near=False)):
            raise PermissionError(errno.EPERM, f"{fault}, and this is root")
        yield place


def require_own_links(path: Path) -> None:
    """Raise PermissionError if this is root, and the path has a link or ends at a pipe that another user has made.

    This is for programs that open the file by its path, such as SQLite; `held_in_place` is for our own code.
    """
    with suppress(FileNotFoundError, NotADirectoryError), held_in_place(path):
        pass


def require_own_companion(path: Path, of: Path) -> None:
    """Raises PermissionError if this is root and a file belongs neither to a trusted user nor to the owner of `of`."""
    with suppress(FileNotFoundError):
        owner = path.lstat().st_uid
        if os.geteuid() == 0 and owner not in _trusted() | {of.stat().st_uid}:
            raise PermissionError(errno.EPERM, f"{path} belongs to {_user(owner)}, and this is root")


def _opened_folder(path: Path) -> tuple[int, str]:
    """Return a descriptor of the folder of a file, and the file's name in it; the file is no link.

    Owner and target of a link are read through a descriptor of the link, and not through its path, because another user
    could replace the link between the two readings.
    """
    trusted, waiting, links = _trusted(), [*reversed(path.absolute().parts)], 0
    folder = os.open("/", os.O_PATH)
    try:
        while True:
            name = waiting.pop()
            try:
                place = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
            except FileNotFoundError:
                if waiting:
                    raise
                return folder, name
            try:
                found = os.fstat(place)
                is_link = stat.S_ISLNK(found.st_mode)
                if (is_link or stat.S_ISFIFO(found.st_mode)) and os.geteuid() == 0 and found.st_uid not in trusted:
                    what = f"{name} is a {'link' if is_link else 'pipe'} of {_user(found.st_uid)}"
                    raise PermissionError(errno.EPERM, f"{what}, and this is root")
                if is_link:
                    links += 1
                    if links > MOST_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                    waiting += reversed(Path(os.readlink("", dir_fd=place)).parts)
                elif not waiting and name != "..":
                    return folder, name
                else:
                    folder, place = place, folder
                    if not waiting:  # `..` is not the name of that folder in the one above
                        waiting.append(Path(f"/proc/self/fd/{folder}").readlink().name)
                        above = os.open("..", os.O_PATH, dir_fd=folder)
                        os.close(folder)
                        folder = above
            finally:
                os.close(place)
    except BaseException:
        os.close(folder)
        raise


def _trusted() -> set[int]:
    """Return root, the user who called sudo, and whoever can change TunnelBench itself."""
    trusted = {0, PACKAGE_OWNER}
    caller = sudo_number("SUDO_UID")
    return trusted if caller is None else trusted | {caller}


def sudo_number(variable: str) -> int | None:
    """Return the number of the user (SUDO_UID) or of the group (SUDO_GID) who called sudo; None if it is not set."""
    text = os.environ.get(variable, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def _fault_of(path: Path) -> str:
    """Return why a file is not trusted; empty if it is missing, or if only trusted users could change it."""
    trusted = _trusted()
    near = (path.absolute().parent, _resolved(path).parent)
    for each in _places(path, near):
        with suppress(FileNotFoundError, NotADirectoryError):
            if fault := _fault(each, trusted, is_near=each in near):
                return fault
    return ""


def _places(path: Path, near: Collection[Path]) -> Iterator[Path]:
    """Yield a file, each folder above it, and the same of every link among them.

    The folders above TunnelBench are left out, because a user who can change one of them can change TunnelBench as
    well. It may be one such as /tmp, in which others can put files but replace none, and then counts among the folders
    in `near`.
    """
    waiting, seen = [path.absolute(), _resolved(path)], set(PACKAGE.parents) - set(near)
    while waiting:
        place = waiting.pop()
        for each in (place, *place.parents):
            if each not in seen:
                seen.add(each)
                yield each
                if each.is_symlink():
                    waiting.append(Path(os.path.normpath(each.parent / each.readlink())))


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))  # Path.resolve raises on links in a circle


def _fault(place: Path, trusted: set[int], *, is_near: bool) -> str:
    """Return a phrase on who could change a file or folder; empty if only trusted users could.

    Where a folder has the sticky bit, others cannot replace what is in it; but the folder of the file itself
    (`is_near`) must be free of their files, too.
    """
    return _fault_in(place, place, place.lstat(), trusted, is_near=is_near)


def _fault_in(shown: Path, place: Path, found: os.stat_result, trusted: set[int], *, is_near: bool) -> str:
    """Do the work of `_fault`; `shown` is the name of the place in messages, and `found` its facts."""
    if found.st_uid not in trusted:
        return f"{shown} belongs to {_user(found.st_uid)}"
    if stat.S_ISLNK(found.st_mode) or (found.st_mode & stat.S_ISVTX and not is_near):
        return ""
    if found.st_mode & stat.S_IWOTH:
        return f"every user can write to {shown}"
    if not found.st_mode & stat.S_IWGRP:  # with an access control list, this bit is its mask
        return ""
    if not _members(found.st_gid) <= trusted:
        return f"the group {found.st_gid} can write to {shown}"
    if not _listed_writers(place) <= trusted:
        return f"the access control list of {shown} lets others write to it"
    return ""


def _listed_writers(place: Path) -> set[int]:
    """Return the users whom a file's access control list lets write, by their own entry or by one of a group."""
    try:
        content = os.getxattr(place, ACCESS_LIST)
    except OSError:  # there is none, or the file system has none
        return set()
    users: set[int] = set()
    for tag, permissions, number in struct.iter_unpack("<HHI", content[4:]):
        if permissions & WRITE and tag == OF_USER:
            users.add(number)
        elif permissions & WRITE and tag == OF_GROUP:
            users |= _members(number)
    return users


def _members(group: int) -> set[int]:
    """Return the users of a group; a group that is not root's and has no entry counts as one with an unknown user."""
    users = {user.pw_uid for user in pwd.getpwall() if user.pw_gid == group}
    try:
        names = grp.getgrgid(group).gr_mem
    except KeyError:
        return users or {0 if group == 0 else -1}
    for name in names:
        with suppress(KeyError):
            users.add(pwd.getpwnam(name).pw_uid)
    return users


def _user(number: int) -> str:
    try:
        return f"the user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"the user {number}"
