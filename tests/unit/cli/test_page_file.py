"""`run --open` and `report --open`: where the page is written, to whom it belongs, and what is printed."""

from __future__ import annotations

import errno
import os
import pwd
import tempfile
from pathlib import Path

import pytest
from tests.unit.cli.conftest import RUN_ID, CommandLine

from tunnelbench.cli import page_file
from tunnelbench.cli.page_file import show_page, write_page
from tunnelbench.model.errors import CannotHere

NOBODY = pwd.getpwnam("nobody")
NAME = "tunnelbench-a.html"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; the folder for temporary files is next to it."""
    folder = tmp_path / "here"
    folder.mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    for name in ("SUDO_UID", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    return folder


def test_a_link_to_the_page_is_printed_and_why_no_browser_starts(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []

    def fail_to_open(address: str) -> str:
        opened.append(address)
        return "it is late"

    monkeypatch.setattr(page_file, "open_in_browser", fail_to_open)
    show_page("a", "<p>ä</p>\n")
    address = (here / NAME).as_uri()
    assert (here / NAME).read_text(encoding="utf-8") == "<p>ä</p>\n"
    assert opened == [address]
    assert capsys.readouterr().err == (
        f"tunnelbench: the page of the run is in {address}\n"
        "tunnelbench: no browser was started, because it is late. Open the link in a browser.\n"
    )


def test_a_file_or_a_link_of_that_name_is_left_alone(here: Path) -> None:
    (here / "other").write_text("mine")
    (here / NAME).symlink_to("other")
    path = write_page(NAME, "page")
    assert (path.name, path.read_text(), path.parent.stat().st_mode & 0o777) == (NAME, "page", 0o700)
    assert path.parent != here
    assert (here / "other").read_text() == "mine"


def test_report_opens_the_page_of_a_stored_run(here: Path, store: Path, type_in: CommandLine) -> None:
    result = type_in("report", "--open")
    path = here / f"tunnelbench-{RUN_ID}.html"
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"the page of the run is in {path.as_uri()}\n" in result.stderr
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("words", [("-o", "x.html"), ("--json",), ("--format", "csv")])
def test_report_opens_nothing_that_is_no_page(
    here: Path, store: Path, type_in: CommandLine, words: tuple[str, ...]
) -> None:
    result = type_in("report", "--open", *words)
    assert result.exit_code == 2
    assert "--open writes a page into the current folder" in result.stderr
    assert [*here.iterdir()] == []


@needs_root
def test_under_sudo_the_page_belongs_to_the_calling_user(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", str(NOBODY.pw_uid))
    elsewhere = write_page(NAME, "page")
    assert elsewhere.parent != here, "the browser of that user may not be able to read a folder of root"
    assert {each.stat().st_uid for each in (elsewhere, elsewhere.parent)} == {NOBODY.pw_uid}
    os.chown(here, NOBODY.pw_uid, NOBODY.pw_gid)
    assert write_page(NAME, "page") == here / NAME
    assert (here / NAME).stat().st_uid == NOBODY.pw_uid


def test_a_full_disk_is_an_error_and_leaves_no_part_of_a_page(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_file: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(page_file, "_give_to_caller", fail)
    with pytest.raises(CannotHere, match=f"the page {NAME} cannot be written: No space left on device"):
        write_page(NAME, "page")
    assert {path.name for path in tmp_path.rglob("*")} == {"here", "temporary"}
