"""A page opens in the browser of the calling user, which never runs as root, and no shell reads its address."""

from __future__ import annotations

import json
import os
import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tunnelbench.host.browser import OPENER, calling_user, open_in_browser

ADDRESS = "file:///home/me/a%20b;$(touch x).html"
NOBODY = pwd.getpwnam("nobody")
REPORTER = """#!/usr/bin/python3
import json, os, sys
report = {{"argv": sys.argv[1:], "users": os.getresuid(), "groups": [*os.getresgid(), *os.getgroups()],
          "environment": dict(os.environ), "leads_its_session": os.getsid(0) == os.getpid()}}
with open({path!r}, "w") as file:
    json.dump(report, file)
sys.exit({status})
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root")


class Opener:
    """A program in place of the desktop's, which reports how it was started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.report = folder / "report.json"
        self.report.touch()
        self.report.chmod(0o666)

    def write(self, status: int = 0) -> None:
        path = self.folder / OPENER
        path.write_text(REPORTER.format(path=str(self.report), status=status))
        path.chmod(0o755)

    @property
    def was_started(self) -> bool:
        return self.report.stat().st_size > 0

    def found(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self.report.read_text())
        return report


@pytest.fixture
def opener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opener]:
    """Be in PATH of a session with a display. Every user can read the folder, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        monkeypatch.setenv("PATH", name)
        monkeypatch.setenv("DISPLAY", ":7")
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        monkeypatch.delenv("SUDO_UID", raising=False)
        opener = Opener(Path(name))
        opener.write()
        yield opener


@needs_root
def test_under_sudo_the_browser_has_only_the_rights_of_the_calling_user(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", str(NOBODY.pw_uid))
    monkeypatch.setenv("ROOTS_SECRET", "x")
    assert open_in_browser(ADDRESS) == ""
    found = opener.found()
    assert found["argv"] == [ADDRESS]
    assert set(found["users"]) == {NOBODY.pw_uid}
    assert set(found["groups"]) == set(os.getgrouplist("nobody", NOBODY.pw_gid))
    assert found["environment"]["HOME"] == NOBODY.pw_dir
    assert found["environment"]["DISPLAY"] == ":7"
    assert "ROOTS_SECRET" not in found["environment"]
    assert found["leads_its_session"]


@needs_root
@pytest.mark.parametrize("caller", ["", "0", "-1", "me", "4294967294", "9" * 40])
def test_as_root_without_a_calling_user_no_browser_starts(
    opener: Opener, monkeypatch: pytest.MonkeyPatch, caller: str
) -> None:
    monkeypatch.setenv("SUDO_UID", caller)
    assert calling_user() is None
    assert open_in_browser(ADDRESS) == "this is root, and a browser does not run as root"
    assert not opener.was_started


@pytest.fixture
def as_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the program take itself for one that an ordinary user started."""
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY.pw_uid)


def test_a_user_gets_the_browser_of_the_own_session(
    opener: Opener, as_user: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER", "my-browser")
    monkeypatch.setenv("SUDO_UID", "0")  # without root, it has no meaning
    assert open_in_browser(ADDRESS) == ""
    assert opener.found()["argv"] == [ADDRESS]
    assert opener.found()["environment"]["BROWSER"] == "my-browser"


def test_without_a_display_no_program_starts(opener: Opener, as_user: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", "")
    assert open_in_browser(ADDRESS) == "there is no graphical display"
    assert not opener.was_started
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert open_in_browser(ADDRESS) == ""


def test_an_opener_that_is_missing_is_named_with_its_package(opener: Opener, as_user: None) -> None:
    (opener.folder / OPENER).unlink()
    assert open_in_browser(ADDRESS) == "xdg-open is missing (Debian package xdg-utils)"


def test_an_opener_that_fails_is_reported(opener: Opener, as_user: None) -> None:
    opener.write(status=3)
    assert open_in_browser(ADDRESS) == "xdg-open ended with status 3"
    (opener.folder / OPENER).write_text("no program")
    reason = f"the program `{opener.folder / OPENER}` cannot be started: Exec format error"
    assert open_in_browser(ADDRESS) == reason
