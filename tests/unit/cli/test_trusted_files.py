"""Plans and testbeds of other people: looking starts nothing, and root uses nothing that others could change."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.conftest import CommandLine

from tunnelbench.cli import report, run, site
from tunnelbench.cli.availability import availability
from tunnelbench.cli.doctor import packet_engine
from tunnelbench.cli.plans import load_plan
from tunnelbench.cli.site_record import SiteRecord
from tunnelbench.host.host import LocalHost
from tunnelbench.host.ssh import SshHost
from tunnelbench.host.ssh_config import require_trusted_config
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import HostAccess, TestbedSpec
from tunnelbench.store.store import Store
from tunnelbench.traffic import engine

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="the rules are for root")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that leaves a file `started` next to it."""
    path = tmp_path / "named" / "openvpn"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\ntouch {path.parent}/started\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def plan(tmp_path: Path, program: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(
        '[tcp]\npayload_bytes = 1448\n[udp]\ntest = "rate"\nrate = 1000\n'
        f'[[tunnel]]\nkind = "openvpn"\nname = "mine"\nengine = "afalg"\nprogram = "{program}"\n'
    )
    return path


@pytest.mark.parametrize("words", [["show"], ["show", "--json"], ["check"], ["doctor"], ["doctor", "--json", "--all"]])
def test_looking_at_a_plan_starts_no_program_that_it_names(
    type_in: CommandLine, plan: Path, program: Path, words: list[str]
) -> None:
    assert type_in(*words, plan).exit_code in ({0, 3} if words[0] == "doctor" else {0})
    assert [path.name for path in program.parent.iterdir()] == ["openvpn"]


@only_root
def test_doctor_starts_no_engine_that_another_user_could_change(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    os.chown(program, 65534, 65534)
    monkeypatch.setattr(engine, "locate", lambda: str(program))
    finding = packet_engine(is_needed=True)
    assert (finding.status, "this is root and" in finding.found) == ("missing", True)
    assert not (program.parent / "started").exists()


@only_root
def test_doctor_names_a_program_that_a_run_would_refuse(
    type_in: CommandLine, plan: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    os.chown(program, 65534, 65534)
    found = type_in("doctor", plan)
    assert found.exit_code == 3
    assert "this is root and" in found.stdout


def test_what_only_a_run_can_try_is_unknown(program: Path, tmp_path: Path) -> None:
    options = {"engine": "afalg", "program": str(program)}
    here = availability("openvpn", LocalHost("local", tmp_path, ()), options)
    assert [need.status for need in here.needs if "engines" in need.name] == ["unknown"]
    assert "only a run starts the program" in here.reason
    assert not (program.parent / "started").exists()


def refusal(plan: Path, spec: TestbedSpec) -> str:
    with pytest.raises(CannotHere) as caught:
        run.require_trusted_files(load_plan(str(plan)).plan, spec)
    return caught.value.message


@only_root
def test_a_run_refuses_files_that_others_could_write(
    plan: Path, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = TestbedSpec("mine", "netns")
    run.require_trusted_files(load_plan(str(plan)).plan, spec)
    program.chmod(0o757)
    assert f"every user can write to {program}" in refusal(plan, spec)
    program.chmod(0o755)
    kernel = tmp_path / "kernel"
    kernel.touch()
    os.chown(kernel, 65534, 0)
    assert f"the kernel {kernel} is not used" in refusal(plan, replace(spec, kernel=str(kernel)))
    monkeypatch.setattr(engine, "locate", lambda: str(kernel))
    assert f"the packet engine {kernel} is not used" in refusal(plan, spec)


@only_root
def test_a_run_of_root_starts_no_program_that_another_user_could_change(
    type_in: CommandLine, plan: Path, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    for module in ("clean", "run_lock", "run"):
        monkeypatch.setattr(f"tunnelbench.cli.{module}.RUN_FOLDER", tmp_path / "runs")
    program.chmod(0o757)
    result = type_in("run", plan, "--store", tmp_path / "results.sqlite")
    assert result.exit_code == 3
    assert f"every user can write to {program}" in result.stderr
    assert [path.name for path in program.parent.iterdir()] == ["openvpn"]


@only_root
def test_an_ssh_config_that_others_could_write_is_not_used(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n    ProxyCommand touch /tmp/started\n")
    config.chmod(0o666)
    host = SshHost("router", HostAccess("r", config=str(config)), tmp_path, tmp_path, LocalHost("l", tmp_path, ()))
    with pytest.raises(CannotHere, match=r"the SSH configuration .* is not used"):
        host.connect()


@only_root
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("Include {theirs}/theirs", "{theirs}/theirs is not used.* every user can write to {theirs}"),
        ('  "include"={theirs}/* # more', "configuration in {theirs} is not used.* every user can write to"),
        ("INCLUDE {ours}/ours {ours}/deep*", "{theirs}/missing is not used.* every user can write to"),
        ("Include deep.config", "{theirs}/missing is not used"),  # it is in ~/.ssh
        ("Include ${{HOME}}/x", "which files the SSH configuration {ours}/config includes .the included file"),
        ("Include a\0b", "which files the SSH configuration {ours}/config includes .the included file"),
        ("Host r\nInclude 'x", "which files the SSH configuration {ours}/config includes .line 2."),
    ],
)
def test_an_ssh_config_is_not_used_if_others_could_change_a_file_that_it_includes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, reason: str
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs, ours / ".ssh"):
        folder.mkdir(mode=0o755)
    theirs.chmod(0o777)
    (theirs / "theirs").write_text("Host *\n    ProxyCommand touch /tmp/started\n")
    (ours / "ours").write_text("Include ours\nInclude ours deep.config\n")  # a circle is no fault
    for name in ("deep.config", ".ssh/ours", ".ssh/deep.config"):
        (ours / name).write_text(f"Include {theirs}/missing\n")
    monkeypatch.setenv("HOME", str(ours))
    config = ours / "config"
    config.write_text(line.format(ours=ours, theirs=theirs))
    with pytest.raises(CannotHere, match=reason.format(ours=ours, theirs=theirs)):
        require_trusted_config(config)


@only_root
def test_an_ssh_config_is_used_if_only_root_could_change_what_it_includes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "router").write_text("Host router\n    HostName 192.0.2.1\n")
    config = tmp_path / "config"
    includes = f"Include missing ~nobody-of-that-name/x\nInclude {tmp_path}/r*\n#Include /tmp/x\n"
    config.write_text(f"{includes}Included $x\nHost include\n")
    require_trusted_config(config)
    require_trusted_config(tmp_path / "nowhere")


@only_root
def test_a_folder_of_path_that_others_could_write_is_not_searched(
    type_in: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    theirs.chmod(0o777)
    monkeypatch.setenv("PATH", f"{theirs}:/usr/bin")
    result = type_in("list", "plans")
    assert result.exit_code == 0
    assert f"tunnelbench: {theirs} in PATH is not searched" in result.stderr
    assert os.environ["PATH"] == "/usr/bin:/usr/sbin"


def test_no_file_is_writable_for_everybody_whatever_the_umask(type_in: CommandLine) -> None:
    before = os.umask(0)
    try:
        assert type_in("list", "plans").exit_code == 0
        assert os.umask(0) == 0o002
    finally:
        os.umask(before)


@only_root
@pytest.mark.parametrize("name", ["page.html", "folder/page.html", "pipe"])
def test_root_writes_through_no_link_and_no_pipe_of_another_user(
    type_in: CommandLine, tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    precious = tmp_path / "precious" / "page.html"
    precious.parent.mkdir()
    precious.write_text("precious")
    (tmp_path / "page.html").symlink_to(precious)
    (tmp_path / "folder").symlink_to(precious.parent)
    os.mkfifo(tmp_path / "pipe")
    for planted in ("page.html", "folder", "pipe"):
        os.chown(tmp_path / planted, 65534, 65534, follow_symlinks=False)
    result = type_in("report", "last", "--store", store, "--format", "csv", "-o", tmp_path / name)
    assert result.exit_code == 3
    assert "of the user nobody, and this is root" in result.stderr
    assert precious.read_text() == "precious"


@only_root
def test_root_makes_a_site_through_no_link_of_another_user(
    type_in: CommandLine, tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    (tmp_path / "site").symlink_to(tmp_path / "elsewhere")
    os.chown(tmp_path / "site", 65534, 65534, follow_symlinks=False)
    exported = tmp_path / "run.json"
    assert type_in("export", "last", "--store", store, "-o", exported).exit_code == 0
    result = type_in("site", tmp_path / "site", exported)
    assert result.exit_code == 3
    assert "of the user nobody, and this is root" in result.stderr
    assert not (tmp_path / "elsewhere").exists()


@only_root
@pytest.mark.parametrize("form", ["file", "pictures", "site", "man"])
def test_root_writes_nothing_into_a_folder_that_another_user_can_change(
    type_in: CommandLine, tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    exported = tmp_path / "run.json"
    assert type_in("export", "last", "--store", store, "-o", exported).exit_code == 0
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    report = ("report", "last", "--store", store, "--format")
    words = {
        "file": (*report, "csv", "-o", theirs / "run.csv"),
        "pictures": (*report, "svg", "-o", theirs / "pictures"),
        "site": ("site", theirs / "site", exported),
        "man": ("man", "-o", theirs / "pages"),
    }
    for owner, mode in ((65534, 0o755), (0, 0o757), (0, 0o777)):
        os.chown(theirs, owner, owner)
        theirs.chmod(mode)
        result = type_in(*words[form])
        assert result.exit_code == 3
        assert "this is root" in result.stderr
        assert not any(theirs.iterdir())


@only_root
def test_root_writes_into_a_folder_of_the_user_who_called_sudo_and_a_sticky_one(
    type_in: CommandLine, tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", "65534")
    for name, owner, mode in (("own", 65534, 0o755), ("sticky", 0, 0o1777)):
        folder = tmp_path / name
        folder.mkdir()
        os.chown(folder, owner, owner)
        folder.chmod(mode)
        path = folder / "run.csv"
        assert type_in("report", "last", "--store", store, "--format", "csv", "-o", path).exit_code == 0
        assert path.stat().st_uid == 0


@only_root
def test_a_file_of_another_user_gives_its_permissions_to_no_file_of_root(
    type_in: CommandLine, tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    tmp_path.chmod(0o1777)
    for name, owner in (("theirs", 65534), ("own", 0)):
        path = tmp_path / name
        path.write_text("old")
        os.chown(path, owner, owner)
        path.chmod(0o6775)
        assert type_in("report", "last", "--store", store, "--format", "csv", "-o", path).exit_code == 0
        found = path.stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode) & 0o7002) == (0, 0)
        assert path.read_text() != "old"
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o775


@only_root
def test_root_replaces_no_site_folder_of_another_user(
    type_in: CommandLine, tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    exported = tmp_path / "run.json"
    assert type_in("export", "last", "--store", store, "-o", exported).exit_code == 0
    tmp_path.chmod(0o1777)
    (tmp_path / "site").mkdir()
    os.chown(tmp_path / "site", 65534, 65534)
    (tmp_path / "site").chmod(0o4755)
    result = type_in("site", tmp_path / "site", exported)
    assert result.exit_code == 3
    assert "belongs to the user nobody" in result.stderr
    assert not any((tmp_path / "site").iterdir())


def test_a_user_number_that_is_no_number_is_ignored(
    type_in: CommandLine, tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", "\N{SUPERSCRIPT TWO}")
    path = tmp_path / "run.csv"
    assert type_in("report", "last", "--store", store, "--format", "csv", "-o", path).exit_code == 0


@pytest.fixture
def lead_elsewhere(tmp_path: Path) -> Callable[[], Path]:
    """Two folders, and a function that puts a link to the second in place of the first, which it returns."""
    for name in ("folder", "precious"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "site").mkdir()
        (tmp_path / name / "report").write_text("precious")

    def lead() -> Path:
        (tmp_path / "folder").rename(tmp_path / "moved")
        (tmp_path / "folder").symlink_to(tmp_path / "precious")
        return tmp_path / "moved"

    return lead


def test_a_folder_that_becomes_a_link_at_the_last_moment_leads_no_report_elsewhere(
    tmp_path: Path, lead_elsewhere: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda _bytes: lead_elsewhere().name)
    report.write_whole(tmp_path / "folder" / "report", "new")
    assert (tmp_path / "precious" / "report").read_text() == "precious"
    assert (tmp_path / "moved" / "report").read_text() == "new"


def test_a_folder_that_becomes_a_link_at_the_last_moment_leads_no_site_elsewhere(
    tmp_path: Path, lead_elsewhere: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    make, moved = tempfile.mkdtemp, []

    def make_later(**options: Any) -> str:
        moved.append(lead_elsewhere())
        return str(make(**options))

    monkeypatch.setattr(tempfile, "mkdtemp", make_later)
    with site.replaced(tmp_path / "folder" / "site", SiteRecord()) as draft:
        site.write(draft.folder, "index.html", b"new")
    assert not list((tmp_path / "precious" / "site").iterdir())
    assert (moved[0] / "site" / "index.html").read_text() == "new"


@only_root
def test_a_file_that_another_user_has_made_does_not_stay_writable_for_everybody(tmp_path: Path) -> None:
    planted = tmp_path / "report"
    planted.touch()
    planted.chmod(0o666)
    report.write_whole(planted, "new")
    assert planted.stat().st_mode & 0o777 == 0o664


@only_root
@pytest.mark.parametrize("name", ["results.sqlite", "folder/results.sqlite"])
def test_root_makes_a_store_through_no_link_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    precious = tmp_path / "precious" / "results.sqlite"
    precious.parent.mkdir()
    precious.touch()
    (tmp_path / "results.sqlite").symlink_to(precious)
    (tmp_path / "folder").symlink_to(precious.parent)
    for planted in ("results.sqlite", "folder"):
        os.chown(tmp_path / planted, 65534, 65534, follow_symlinks=False)
    with pytest.raises(CannotHere, match="this is root") as caught:
        Store.open(tmp_path / name)
    assert "the user nobody" in caught.value.message
    assert not precious.read_bytes()
