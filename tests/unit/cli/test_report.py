"""`tunnelbench report` writes a stored run, to the terminal or whole into a file."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.builders import make_records, make_run
from tests.unit.cli.conftest import RUN_ID, CommandLine, keep
from tests.unit.report.hostile import hostile_run

from tunnelbench.cli.report import write_files
from tunnelbench.model.errors import CannotHere
from tunnelbench.report.formats import format_names
from tunnelbench.report.render import render


@pytest.mark.parametrize("name", format_names())
def test_every_format_is_what_the_renderer_makes(type_in: CommandLine, store: Path, name: str) -> None:
    for words, full in (([], False), (["--full"], True)):
        result = type_in("report", "last", "--format", name, *words, columns=100)
        assert result.exit_code == 0
        assert result.stdout_bytes.decode() == render(make_run(), make_records(), name, 100, full=full)


def test_the_terminal_is_the_default_and_json_has_a_flag(type_in: CommandLine, store: Path) -> None:
    assert type_in("report", RUN_ID).stdout == type_in("report", "last", "--format", "terminal").stdout
    assert type_in("report").stdout == type_in("report", "last").stdout
    assert type_in("report", "last", "--json").stdout == type_in("report", "last", "--format", "json").stdout
    assert json.loads(type_in("report", "last", "--json").stdout)["trials"][0]["raw"]["ping"] == "100 received"
    assert type_in("report", "last", "--json", "--format", "csv").exit_code == 2


def test_plaintext_is_recommended_only_if_it_is_allowed(type_in: CommandLine, store: Path) -> None:
    for words, name in (([], "wireguard-go"), (["--allow-plaintext"], "vxlan")):
        found = json.loads(type_in("report", "--json", "--target-mbps", "100", *words).stdout)["answer"]
        assert found["recommended"] == name
        assert name in type_in("report", "--target-mbps", "100", *words).stdout.splitlines()[3]


def test_another_store_can_be_named(type_in: CommandLine, home: Path, tmp_path: Path) -> None:
    keep(tmp_path / "other.sqlite", make_run(run_id="other"), make_records(1))
    assert type_in("report", "oth", "--format", "csv", "--store", tmp_path / "other.sqlite").exit_code == 0
    assert "no results yet" in type_in("report", "last").stderr


def test_an_unknown_format_lists_the_known_ones(type_in: CommandLine, store: Path) -> None:
    result = type_in("report", "last", "--format", "pdf")
    assert result.exit_code == 2
    assert all(name in result.stderr for name in format_names())


@pytest.mark.parametrize("name", format_names())
def test_a_file_has_the_same_text_and_nothing_is_left_beside_it(
    type_in: CommandLine, store: Path, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    result = type_in("report", "last", "--format", name, "-o", folder / "report")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert (folder / "report").read_bytes().decode() == render(make_run(), make_records(), name, full=False)
    assert list(folder.iterdir()) == [folder / "report"]


def test_an_older_file_keeps_its_mode_and_a_link_its_target(type_in: CommandLine, store: Path, tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    assert type_in("report", "last", "-o", link).exit_code == 0
    assert link.is_symlink()
    assert target.read_text().startswith("TunnelBench")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_device_stays_a_device(type_in: CommandLine, store: Path, tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    assert type_in("report", "last", "-o", tmp_path / "null").exit_code == 0
    assert Path("/dev/null").is_char_device()


def test_a_dash_is_the_standard_output(type_in: CommandLine, store: Path) -> None:
    assert type_in("report", "last", "-o", "-").stdout == type_in("report", "last").stdout


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("no/such/report", "there is no folder "),
        (".", "directory"),
        ("file/report", "directory"),
        ("/proc/tunnelbench", "cannot be written"),
        ("x" * 300, "too long"),
        ("loop", "cannot be written"),
    ],
)
def test_a_place_that_cannot_be_written_gives_one_sentence(
    type_in: CommandLine, store: Path, tmp_path: Path, place: str, why: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    result = type_in("report", "last", "-o", tmp_path / place)
    assert (result.exit_code, result.stdout) == (3, "")
    assert why in result.stderr
    assert result.stderr.count("\n") == 2


def test_a_read_only_file_is_not_replaced(
    type_in: CommandLine, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report"
    target.write_text("precious")
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path).name != "report")  # root may write all files
    result = type_in("report", "last", "-o", target)
    assert (result.exit_code, target.read_text()) == (3, "precious")
    assert "write-protected" in result.stderr


def test_a_full_disk_leaves_the_older_file(
    type_in: CommandLine, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Path, _target: Path) -> None:
        raise OSError(28, "No space left on device")

    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "report").write_text("precious")
    monkeypatch.setattr(Path, "replace", fail)
    assert "No space left" in type_in("report", "last", "-o", folder / "report").stderr
    assert list(folder.iterdir()) == [folder / "report"]
    assert (folder / "report").read_text() == "precious"


def test_a_hostile_run_is_harmless(type_in: CommandLine, home: Path) -> None:
    keep(home, *hostile_run())
    assert type_in("report", "last").stdout.replace("\n", "").isprintable()


def test_a_target_is_answered_for_every_encrypted_tunnel(type_in: CommandLine, store: Path) -> None:
    text = type_in("report", "last", "--target-mbps", "100", "--format", "markdown").stdout
    assert "100 Mbit/s through wireguard-go: yes" in text
    assert "100 Mbit/s through vxlan" not in text
    assert "100 Mbit/s through" not in type_in("report", "last", "--format", "markdown").stdout
    assert type_in("report", "last", "--target-mbps", "0").exit_code == 2


def test_output_into_a_current_folder_that_was_deleted_is_a_users_error(
    type_in: CommandLine, tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "current"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    result = type_in("report", "last", "--store", store, "--format", "html", "-o", "page.html")
    assert result.exit_code == 3
    assert "page.html cannot be written: there is no folder" in result.stderr


def test_a_folder_of_charts_that_cannot_be_written_does_not_stay(tmp_path: Path) -> None:
    def refused() -> Iterator[tuple[str, bytes]]:
        yield "no/such/folder.svg", b""

    (tmp_path / "old").mkdir()
    for name in ("new", "old"):
        with pytest.raises(CannotHere):
            write_files(tmp_path / name, refused())
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
