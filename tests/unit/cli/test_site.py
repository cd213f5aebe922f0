"""`tunnelbench site`: what it writes, and what it leaves alone."""

from __future__ import annotations

import multiprocessing.forkserver
import os
import signal
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

import pytest
from tests.unit.builders import make_records, make_run
from tests.unit.cli.conftest import CommandLine

from tunnelbench.cli import site, site_record
from tunnelbench.cli.site import LIST
from tunnelbench.report.exchange import export


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """More than one process takes, with one run twice."""
    found = []
    for number in range(10):
        path = tmp_path / f"run-{number:02d}.json"
        run = make_run(run_id=f"run {min(number, 8)}", trials_recorded=16)
        path.write_text(export(run, make_records(1)[:16]).text, encoding="utf-8")
        found.append(path)
    return found


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_files_give_the_same_site_in_place_of_the_old_one(
    type_in: CommandLine, tmp_path: Path, files: list[Path]
) -> None:
    folder = tmp_path / "site"
    result = type_in("site", folder, *files)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == f"{folder}/index.html\n"
    assert "9 runs, 8 published results; left out because another file has the same run: 1 file" in result.stderr
    before = content(folder)
    assert len([name for name in before if name.startswith("runs/") and name.endswith(".html")]) == 9
    assert type_in("site", folder, *reversed(files)).exit_code == 0
    assert content(folder) == before
    assert type_in("site", folder, files[0]).exit_code == 0
    assert len([name for name in content(folder) if name.startswith("runs/")]) == 2
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".site")] == []


def drawn_by(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the name of each file whose page is made, in this process."""
    found: list[str] = []
    draw = site.draw_run

    def noted(draft: Path, file: str) -> site_record.Drawn:
        found.append(Path(file).name)
        return draw(draft, file)

    monkeypatch.setattr(site, "draw_run", noted)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    return found


def inodes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_ino for path in (folder, *folder.rglob("*"))}


def test_a_site_is_made_anew_only_where_something_has_changed(
    type_in: CommandLine, tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_record, "SETTLED_NS", 0)
    folder, singles = tmp_path / "site", files[:8]
    drawn = drawn_by(monkeypatch)
    first = type_in("site", folder, *singles)
    before = inodes(folder)
    assert len(drawn) == 8
    drawn.clear()
    again = type_in("site", folder, *singles)
    assert (again.stdout, again.stderr) == (first.stdout, first.stderr)
    assert (drawn, inodes(folder)) == ([], before)
    other = make_run(run_id="run 3", plan_title="Another title", trials_recorded=16)
    singles[3].write_text(export(other, make_records(1)[:16]).text, encoding="utf-8")
    assert type_in("site", folder, *singles).exit_code == 0
    assert drawn == [singles[3].name]
    after = inodes(folder)
    changed = {name for name, inode in after.items() if inode != before.get(name) and (folder / name).is_file()}
    assert sorted(Path(name).suffix for name in changed if name.startswith("runs/")) == [".html", ".json"]
    assert {"index.html", "index.json", LIST} <= changed
    unchanged = {"methodology.html", "assets/charts.js", "references/openvpn-2017.html"}
    assert not unchanged & changed
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another-cache"))
    assert type_in("site", tmp_path / "fresh", *singles).exit_code == 0
    assert content(tmp_path / "fresh") == content(folder)


def test_a_file_less_or_another_program_is_a_change_of_a_site(
    type_in: CommandLine, tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_record, "SETTLED_NS", 0)
    drawn = drawn_by(monkeypatch)
    assert type_in("site", tmp_path / "site", *files[:3]).exit_code == 0
    drawn.clear()
    assert "2 runs" in type_in("site", tmp_path / "site", *files[:2]).stderr
    assert drawn == []
    assert len([name for name in content(tmp_path / "site") if name.startswith("runs/")]) == 4
    monkeypatch.setattr(site_record, "__version__", "another")
    assert type_in("site", tmp_path / "site", *files[:2]).exit_code == 0
    assert drawn == [file.name for file in files[:2]]


def test_a_page_that_somebody_has_put_into_a_site_with_its_list_is_made_anew(
    type_in: CommandLine, tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_record, "SETTLED_NS", 0)
    folder = tmp_path / "site"
    assert type_in("site", folder, files[0]).exit_code == 0
    before = content(folder)
    page = next(folder.glob("runs/*.html"))
    old = sha256(page.read_bytes()).hexdigest()
    page.write_text("<script>planted", encoding="utf-8")
    listed = (folder / LIST).read_text().replace(old, sha256(page.read_bytes()).hexdigest())
    (folder / LIST).write_text(listed)
    assert type_in("site", folder, files[0]).exit_code == 0
    assert content(folder) == before


def test_a_second_file_with_a_run_of_the_site_changes_no_page(
    type_in: CommandLine, tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_record, "SETTLED_NS", 0)
    drawn = drawn_by(monkeypatch)
    folder, twins = tmp_path / "site", files[8:]
    assert type_in("site", folder, twins[0]).exit_code == 0
    before = content(folder)
    for expected in ([twins[1].name], []):
        drawn.clear()
        assert "another file has the same run: 1 file" in type_in("site", folder, *twins).stderr
        assert (drawn, content(folder)) == (expected, before)


def test_the_processes_of_a_site_take_no_python_modules_from_the_current_folder(
    type_in: CommandLine, tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    for name in ("selectors", "signal", "struct"):
        Path(f"{name}.py").write_text(f"open({str(tmp_path / 'started')!r}, 'w')\n")
    # An earlier test may have left a process that would be used again.
    stop = multiprocessing.forkserver._forkserver._stop  # type: ignore[attr-defined]
    stop()
    result = type_in("site", tmp_path / "site", *files)
    stop()
    assert (result.exit_code, Path("started").exists()) == (0, False)
    assert "PYTHONSAFEPATH" not in os.environ, "later processes are not concerned"


def kill_itself(_draft: Path, _file: str) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_a_killed_process_of_a_site_is_a_sentence(
    type_in: CommandLine, tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(site, "draw_run", kill_itself)
    result = type_in("site", tmp_path / "site", *files)
    assert result.exit_code == 3
    assert "a process that makes pages was killed; nothing was changed" in result.stderr
    assert not (tmp_path / "site").exists()


def test_folders_that_are_nested_too_deeply_are_a_sentence(
    type_in: CommandLine, tmp_path: Path, files: list[Path]
) -> None:
    place = os.open(tmp_path, os.O_RDONLY)
    for name in ("site", *["d"] * 3000):
        os.mkdir(name, dir_fd=place)
        inner = os.open(name, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    result = type_in("site", tmp_path / "site", files[0])
    subprocess.run(["rm", "-r", tmp_path / "site"], check=True)
    assert result.exit_code == 2
    assert "too many folders inside each other" in result.stderr


@pytest.mark.parametrize("number", [0, 9])
def test_a_file_that_is_wrong_is_named_and_left_out(
    type_in: CommandLine, tmp_path: Path, files: list[Path], number: int
) -> None:
    folder = tmp_path / "site"
    wrong = files[number]
    wrong.write_text(wrong.read_text().replace("quick", "slick"), encoding="utf-8")
    result = type_in("site", folder, *files)
    assert result.exit_code == 1
    assert f"skipped: {wrong}: its checksum does not match" in result.stderr
    assert len([name for name in content(folder) if name.startswith("runs/")]) == 2 * (8 if number == 0 else 9)


def test_a_site_of_wrong_files_alone_leaves_the_old_site(
    type_in: CommandLine, tmp_path: Path, files: list[Path]
) -> None:
    folder = tmp_path / "site"
    assert type_in("site", folder, files[0]).exit_code == 0
    before = content(folder)
    files[1].write_text("{}", encoding="utf-8")
    result = type_in("site", folder, files[1])
    assert result.exit_code == 2
    assert content(folder) == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".site")] == []


@pytest.mark.parametrize("name", ["letter.txt", "index.html", "runs/mine.html"])
def test_a_planted_list_does_not_make_files_of_others_a_site(
    type_in: CommandLine, tmp_path: Path, files: list[Path], name: str
) -> None:
    folder = tmp_path / "home"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("dear", encoding="utf-8")
    for entry in (name, f"{name} ", f"{name} {'0' * 64}", f"letter.txt {sha256(b'dear').hexdigest()}"):
        (folder / LIST).write_text(f"{entry}\n", encoding="utf-8")
        result = type_in("site", folder, files[0])
        assert result.exit_code == 2
        assert f"not part of a site: {name}" in result.stderr
        assert (folder / name).read_text(encoding="utf-8") == "dear"


def test_a_page_that_was_changed_by_hand_is_not_deleted(
    type_in: CommandLine, tmp_path: Path, files: list[Path]
) -> None:
    folder = tmp_path / "site"
    assert type_in("site", folder, files[0]).exit_code == 0
    (folder / "index.html").write_text("mine", encoding="utf-8")
    assert "not part of a site: index.html" in type_in("site", folder, files[0]).stderr
    assert (folder / "index.html").read_text(encoding="utf-8") == "mine"


def test_a_folder_with_files_of_others_is_refused(type_in: CommandLine, tmp_path: Path, files: list[Path]) -> None:
    folder = tmp_path / "home"
    (folder / "letters").mkdir(parents=True)
    (folder / "letters" / "mother.txt").write_text("dear", encoding="utf-8")
    result = type_in("site", folder, files[0])
    assert result.exit_code == 2
    assert "has files that are not part of a site: letters/mother.txt" in result.stderr
    assert content(folder) == {"letters/mother.txt": b"dear"}


def test_a_file_that_somebody_put_into_a_site_is_not_deleted(
    type_in: CommandLine, tmp_path: Path, files: list[Path]
) -> None:
    folder = tmp_path / "site"
    assert type_in("site", folder, files[0]).exit_code == 0
    (folder / "runs" / "mine.html").symlink_to(files[1])
    result = type_in("site", folder, files[0])
    assert result.exit_code == 2
    assert "not part of a site: runs/mine.html" in result.stderr
    assert (folder / "runs" / "mine.html").exists()


def test_a_folder_that_cannot_be_made_is_named(type_in: CommandLine, tmp_path: Path, files: list[Path]) -> None:
    result = type_in("site", tmp_path / "no" / "site", files[0])
    assert result.exit_code == 3
    assert "its parent folder does not exist" in result.stderr
    result = type_in("site", files[1], files[0])
    assert result.exit_code == 2
    assert "is not a folder" in result.stderr


def test_what_is_given_of_devices_is_read_from_a_file(type_in: CommandLine, tmp_path: Path, files: list[Path]) -> None:
    given = tmp_path / "devices.toml"
    given.write_text('["AMD EPYC 7B13 (virtual)"]\nprice = "5 EUR"\n["Nobody\'s"]\nwatts = "1 W"\n', encoding="utf-8")
    result = type_in("site", tmp_path / "site", files[0], "--devices", given)
    assert result.exit_code == 0, result.stderr
    assert "names the device Nobody's, but no run was measured on it" in result.stderr
    (page,) = (tmp_path / "site" / "devices").glob("amd-epyc-7b13-virtual-*.html")
    assert "5 EUR" in page.read_text()
    for text in ("x = 1", "[box]\nprice = 5", "[box]\ncolour = 'red'", "[["):
        given.write_text(text, encoding="utf-8")
        assert type_in("site", tmp_path / "site", files[0], "--devices", given).exit_code == 2
