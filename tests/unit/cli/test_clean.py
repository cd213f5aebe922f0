"""`clean`: runs that were killed are marked and removed, and odd entries among their files do no harm."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.postgresql import cluster
from tests.unit.builders import make_run

from tunnelbench import cli
from tunnelbench.cli.clean import clean_run, mark_as_killed, remove_rest, store_of
from tunnelbench.cli.run_lock import left_runs
from tunnelbench.host.preflight import marked_as_in_use
from tunnelbench.model.errors import CannotHere
from tunnelbench.store.store import Store


def statuses(place: str) -> dict[str, str]:
    with Store.open(place) as store:
        return {run.run_id: run.status for run in store.runs()}


def begin(place: str, *run_ids: str) -> None:
    with Store.open(place) as store:
        for run_id in run_ids:
            started_at = "2125-03-14T10:00:00+00:00"  # after the start of a server
            store.begin_run(make_run(run_id=run_id, started_at=started_at, status="running", ended_at=None))


def test_runs_under_way_in_a_file_were_killed_if_nobody_holds_their_lock(tmp_path: Path) -> None:
    place = str(tmp_path / "results.sqlite")
    begin(place, "a", "b")
    with Store.open(place) as store:
        store.end_run("b", "done", "2025-03-14T10:00:00+00:00")
    assert mark_as_killed(place, []) == ["a"]
    assert statuses(place) == {"a": "killed", "b": "done"}
    assert mark_as_killed(place, []) == []


def test_a_live_run_of_a_file_is_not_marked_and_not_resumed_by_another_process(tmp_path: Path) -> None:
    place = str(tmp_path / "results.sqlite")
    begin(place, "a", "b")
    with Store.open(place) as measuring, Store.open(place) as other, measuring.holding("a"):
        assert mark_as_killed(place, []) == ["b"]
        assert statuses(place) == {"a": "running", "b": "killed"}
        with pytest.raises(CannotHere, match="another process measures run a"), other.holding("a"):
            raise AssertionError("two processes measure one run")
    assert mark_as_killed(place, []) == ["a"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["results.sqlite"]


def test_the_lock_of_a_killed_run_is_free_and_its_file_is_deleted(tmp_path: Path) -> None:
    place = str(tmp_path / "results.sqlite")
    begin(place, "a")
    code = (
        "import os, sys; from tunnelbench.store.store import Store; store = Store.open(sys.argv[1]);"
        "held = store.holding('a'); held.__enter__(); print('held', flush=True); sys.stdin.read()"
    )
    argv = [sys.executable, "-c", code, place]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        assert mark_as_killed(place, []) == []
        process.kill()
    assert mark_as_killed(place, []) == ["a"]
    assert not (tmp_path / "results.sqlite-run-a").exists()


@pytest.mark.parametrize("kind", ["link", "hard link", "fifo", "folder"])
def test_a_planted_lock_is_not_followed_and_keeps_no_run_from_being_marked(tmp_path: Path, kind: str) -> None:
    (place := tmp_path / "store").mkdir()
    store, precious = str(place / "results.sqlite"), tmp_path / "precious"
    begin(store, "a")
    precious.write_text("somebody's")
    lock = place / "results.sqlite-run-a"
    plant = {"link": lock.symlink_to, "hard link": lock.hardlink_to}.get(kind)
    if plant:
        plant(precious)
    else:
        (os.mkfifo if kind == "fifo" else os.mkdir)(lock)
    with precious.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert mark_as_killed(store, []) == ["a"]
    assert precious.read_text() == "somebody's"
    assert lock.is_symlink() or lock.exists()
    with Store.open(store) as opened, pytest.raises(CannotHere), opened.holding("a"):
        raise AssertionError("the lock is not ours")


def test_the_id_of_a_run_leads_to_no_other_folder(tmp_path: Path) -> None:
    place = tmp_path / "store" / "results.sqlite"
    begin(str(place), "/../../precious")
    precious = tmp_path / "precious"
    precious.write_text("somebody's")
    (place.parent / "results.sqlite-run-").mkdir()
    assert mark_as_killed(str(place), []) == ["/../../precious"]
    assert precious.exists()


def test_on_a_server_runs_that_other_machines_measure_stay_as_they_are() -> None:
    with cluster() as server:
        url = server.new_database()
        begin(url, "a", "b", "c")
        with Store.open(url) as left_here, Store.open(url) as elsewhere:
            with left_here.holding("a"), elsewhere.holding("b"):  # of "a", the server has not noticed the end
                assert mark_as_killed(url, ["a"]) == ["c", "a"]
                assert statuses(url) == {"a": "killed", "b": "running", "c": "killed"}
            listed = CliRunner().invoke(cli.main, ["list", "runs", "--store", url])
            assert "run b was killed; tunnelbench run --resume b on its machine measures the rest" in listed.stderr
            assert statuses(url)["b"] == "killed"


def test_a_store_with_impossible_values_does_not_keep_clean_from_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path / "results.sqlite")
    begin(place, "a")

    def with_no_number(_store: Store, _ended_at: str) -> None:
        raise TypeError("a text is no number")

    monkeypatch.setattr(Store, "mark_abandoned", with_no_number)
    with pytest.raises(CannotHere, match="holds values that no run has") as caught:
        mark_as_killed(place, ["a"])
    assert caught.value.message.startswith(place)


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    place = tmp_path / "results.sqlite"
    assert mark_as_killed(str(place), ["a"]) == []
    assert not place.exists()


def test_a_folder_is_emptied_except_its_store_name_and_links_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tunnelbench.cli.clean.RUN_FOLDER", tmp_path / "run")
    folder, elsewhere = tmp_path / "run" / "20250314-092653-abcdef", tmp_path / "elsewhere"
    (folder / "router").mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("somebody's")
    (folder / "router" / "key").write_text("secret")
    (folder / "router" / "link").symlink_to(elsewhere)
    (folder / "link").symlink_to(elsewhere)
    (folder / "store").write_text("/somewhere/results.sqlite")
    assert store_of(folder.name) == "/somewhere/results.sqlite"
    assert store_of("20250314-092653-000000") == ""
    (folder / "store").write_text("postgresql://me:***@host/results")
    assert store_of(folder.name) == ""
    (said,) = clean_run(folder.name)
    assert "with its keys and configurations" in said
    assert [entry.name for entry in folder.iterdir()] == ["store"]
    assert (elsewhere / "precious").read_text() == "somebody's"


RUN_ID = "20250314-092653-abcdef"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all runs, with one that was killed after the odd one."""
    place = tmp_path / "runs"
    for module in ("clean", "run_lock", "run"):
        monkeypatch.setattr(f"tunnelbench.cli.{module}.RUN_FOLDER", place)
    (place / "20250314-100000-fedcba").mkdir(parents=True)
    return place


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder of somebody else, which must be the same after the test."""
    place = tmp_path / "elsewhere"
    (place / "inner").mkdir(parents=True)
    (place / "inner" / "precious").write_text("somebody's")
    (place / "changes").write_text('[["touch", "' + str(tmp_path / "touched") + '"]]\n')
    yield place
    assert (place / "inner" / "precious").read_text() == "somebody's"
    assert (place / "changes").exists()
    assert not (tmp_path / "touched").exists()


def clean(folder: Path) -> Result:
    return CliRunner().invoke(cli.main, ["clean", "--store", str(folder.parent / "results.sqlite")])


@pytest.mark.lab
def test_the_folder_of_a_doctor_that_is_running_stays(folder: Path) -> None:
    own = folder / "20250314-092653-abcdef"
    own.mkdir()
    with marked_as_in_use(own):
        assert own.name not in left_runs()
    assert own.name in left_runs()


@pytest.mark.parametrize("target", ["", "inner/precious", "no such file"])
def test_a_link_among_the_runs_is_deleted_and_its_target_stays(folder: Path, elsewhere: Path, target: str) -> None:
    (folder / RUN_ID).symlink_to(elsewhere / target)
    cleaned = clean(folder)
    assert (cleaned.exit_code, cleaned.exception) == (0, None)
    assert [entry.name for entry in folder.iterdir()] == ["lock"]


def make_deep(folder: Path, depth: int) -> None:
    """Make folders in each other, whose path is longer than the kernel takes."""
    there = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("deeper", dir_fd=there)
        here, there = there, os.open("deeper", os.O_RDONLY, dir_fd=there)
        os.close(here)
    os.close(there)


@pytest.mark.lab
@pytest.mark.parametrize("kind", ["fifo", "file", "store is a fifo", "store is a link", "bytes", "store of bytes",
                                  "changes of bytes", "changes that are none", "changes of odd files", "immense store",
                                  "immense name", "thousand folders"])  # fmt: skip
def test_an_odd_entry_among_the_runs_is_deleted_like_others(folder: Path, elsewhere: Path, kind: str) -> None:
    run = folder / RUN_ID
    if kind in {"fifo", "file"}:
        os.mkfifo(run) if kind == "fifo" else run.write_text("a file")
    else:
        run.mkdir()
        if kind == "store is a fifo":
            os.mkfifo(run / "store")
        elif kind == "store is a link":
            (run / "store").symlink_to(elsewhere / "inner" / "precious")
        elif kind == "bytes":
            Path(os.fsdecode(bytes(run) + b"/\xff\xfe")).write_text("a file")
            Path(os.fsdecode(bytes(folder) + b"/\xff")).mkdir()
        elif kind == "immense name":
            (run / ("n" * 255)).mkdir()
        elif kind == "thousand folders":
            make_deep(run, 1200)
        elif kind == "immense store":
            (run / "store").touch()
            os.truncate(run / "store", 1 << 42)  # more than any memory
        elif kind == "changes of odd files":
            os.mkfifo(elsewhere / "pipe")
            changes = [[["{write}", "/dev/null", "\ud800"]], [["{write}", str(elsewhere / "pipe"), "1"]]]
            (run / "changes").write_text("".join(json.dumps(change) + "\n" for change in changes))
        elif kind == "changes that are none":
            (run / "changes").write_text(
                '{"a": 1}\n[[1, 2]]\n[1]\n[[]]\n[["{write}"]]\n[["a\\u0000"]]\n' + "[" * 100_000
            )
        else:
            (run / kind.split(maxsplit=1)[0]).write_bytes(b"/\xff\xfe\n")
    cleaned = clean(folder)
    assert (cleaned.exit_code, cleaned.exception) == (0, None), cleaned.stderr
    assert {entry.name for entry in folder.iterdir()} <= {"lock", "\udcff"}


@pytest.mark.lab
def test_a_mount_among_the_files_of_a_run_is_named_and_the_rest_is_cleaned(folder: Path, elsewhere: Path) -> None:
    mounted = folder / RUN_ID / "a mount"
    mounted.mkdir(parents=True)
    subprocess.run(["mount", "--bind", elsewhere, mounted], check=True)
    try:
        cleaned = clean(folder)
    finally:
        subprocess.run(["umount", mounted], check=True)
    assert cleaned.exit_code == 3
    assert f"tunnelbench: {mounted} is a mount point in the folder of a run\nhint: umount" in cleaned.stderr
    assert cleaned.stderr.count("mount point") == 1
    assert {entry.name for entry in folder.iterdir()} == {"lock", RUN_ID}
    assert clean(folder).exit_code == 0
    assert [entry.name for entry in folder.iterdir()] == ["lock"]


@pytest.mark.lab
def test_sockets_of_killed_programs_of_a_run_are_deleted_and_others_stay(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sockets = tmp_path / "wireguard"
    sockets.mkdir()
    monkeypatch.setattr("tunnelbench.tunnel.wireguard.CONTROL_SOCKETS", sockets)
    for name in ("wgr-abcdef.sock", "wgs-abcdef.sock", "wgr-012345.sock", "wg0.sock"):
        (sockets / name).touch()
    (folder / RUN_ID).mkdir()
    cleaned = clean(folder)
    assert (cleaned.exit_code, cleaned.exception) == (0, None), cleaned.stderr
    assert f"run {RUN_ID}: removed file {sockets}/wgr-abcdef.sock\n" in cleaned.stdout
    assert {entry.name for entry in sockets.iterdir()} == {"wgr-012345.sock", "wg0.sock"}


@pytest.mark.lab
@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_a_lock_that_is_no_file_is_refused_in_a_sentence(folder: Path, elsewhere: Path, kind: str) -> None:
    lock = folder / "lock"
    if kind == "link":
        lock.symlink_to(elsewhere / "inner" / "precious")
    elif kind == "fifo":
        os.mkfifo(lock)
    else:
        lock.mkdir()
    refused = clean(folder)
    assert (refused.exit_code, refused.stdout) == (3, "")
    assert refused.stderr.startswith(f"tunnelbench: {lock} ")
    assert refused.stderr.endswith("hint: move it away\n")


def fill(path: Path) -> None:
    """Write a file until its file system has no room."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass


@pytest.mark.lab
def test_a_run_folder_without_room_can_be_cleaned(folder: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", folder], check=True)
    try:
        run = folder / RUN_ID
        run.mkdir()
        fill(run / "filler")
        cleaned = clean(folder)
        assert (cleaned.exit_code, cleaned.exception) == (0, None), cleaned.stderr
        assert [entry.name for entry in folder.iterdir()] == ["lock"]
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.lab
@pytest.mark.parametrize("room_bytes", [0, 8192])
def test_a_run_without_room_for_its_files_ends_in_a_sentence(
    folder: Path, room_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without room for its output, tcpdump never says that it has started.
    monkeypatch.setattr("tunnelbench.measure.capture.TCPDUMP_START_LIMIT_S", 2.0)
    (folder / "20250314-100000-fedcba").rmdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", folder], check=True)
    try:
        fill(folder / "filler")
        os.truncate(folder / "filler", (folder / "filler").stat().st_size - room_bytes)
        place = str(folder.parent / "results.sqlite")
        ended = CliRunner().invoke(cli.main, ["run", "quick", "--set", "quiet_wait_s=0", "--store", place])
        assert ended.exit_code == 3, ended.stderr
        assert "No space left on device" in ended.stderr
        assert "Traceback" not in ended.stderr
        assert {entry.name for entry in folder.iterdir()} == {"lock", "filler"}
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.lab
def test_undo_commands_in_a_folder_that_others_could_write_are_not_run(folder: Path, tmp_path: Path) -> None:
    (folder / RUN_ID).mkdir()
    (folder / RUN_ID / "changes").write_text('[["touch", "' + str(tmp_path / "touched") + '"]]\n')
    folder.chmod(0o777)
    cleaned = clean(folder)
    assert cleaned.exit_code == 3
    assert "others can write to it" in cleaned.stderr
    assert not (tmp_path / "touched").exists()


@pytest.fixture
def namespaces(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the names of namespaces; `ip` does not know it, and can remove nothing in it."""
    place = tmp_path / "netns"
    place.mkdir()
    (folder / RUN_ID).mkdir()
    monkeypatch.setattr("tunnelbench.host.namespace.NAMESPACES", place)
    return place


@pytest.mark.lab
def test_clean_in_a_shell_inside_a_namespace_of_the_run_does_not_kill_itself(folder: Path, namespaces: Path) -> None:
    (namespaces / "tb-abcdef-client").symlink_to("/proc/self/ns/net")
    refused = clean(folder)
    assert refused.exit_code == 3
    assert "no run has left anything behind" not in refused.stdout
    assert refused.stderr == (
        "tunnelbench: namespace tb-abcdef-client stays, because this program was started in it\n"
        "hint: leave the shell in it with `exit`, then start tunnelbench clean\n"
    )
    assert {entry.name for entry in folder.iterdir()} == {"lock", RUN_ID}


@pytest.mark.lab
def test_what_cannot_be_removed_is_named_and_the_next_clean_finds_it(folder: Path, namespaces: Path) -> None:
    left = namespaces / "tb-abcdef-router"
    left.touch()
    (folder / RUN_ID / "private.key").touch()
    for _ in range(2):
        refused = clean(folder)
        assert refused.exit_code == 3
        assert "namespace tb-abcdef-router cannot be removed: " in refused.stderr
        assert "no run has left anything behind" not in refused.stdout
        assert {entry.name for entry in folder.iterdir()} == {"lock", RUN_ID}
    left.unlink()
    cleaned = clean(folder)
    assert (cleaned.exit_code, cleaned.stderr) == (0, "")
    assert [entry.name for entry in folder.iterdir()] == ["lock"]


@pytest.mark.lab
def test_a_run_that_cannot_remove_something_keeps_its_folder_for_clean(
    folder: Path, namespaces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (namespaces / "tb-abcdef-server").touch()
    remove_rest(RUN_ID)
    said = capsys.readouterr().err
    assert f"run {RUN_ID} leaves something behind: namespace tb-abcdef-server cannot be removed: " in said
    assert (folder / RUN_ID).is_dir()
    (namespaces / "tb-abcdef-server").unlink()
    remove_rest(RUN_ID)
    assert not (folder / RUN_ID).exists()
    assert capsys.readouterr().err == ""
