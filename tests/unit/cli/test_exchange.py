"""`tunnelbench export` and `import`: there and back, as a person does it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.builders import make_records, make_run, make_speeds
from tests.unit.cli.conftest import CommandLine

from tunnelbench.report.exchange import export
from tunnelbench.store.store import Store

RECORDS = make_records(1)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "results.sqlite"
    with Store.open(path) as results:
        testbed = 'kind = "netns"\nhost = "attic.example.org"\n'
        results.add_run(make_run(testbed_text=testbed, trials_planned=len(RECORDS)), RECORDS, make_speeds())
    return path


def test_what_is_left_out_is_said_and_the_file_is_imported_once(
    type_in: CommandLine, tmp_path: Path, store: Path
) -> None:
    file, other = tmp_path / "run.json", tmp_path / "other.sqlite"
    result = type_in("export", "last", "--store", store, "-o", file)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "host name: 1 time, 1 different, such as attic.example.org" in result.stderr
    assert "output of a program:" in result.stderr
    assert "attic" not in file.read_text()

    result = type_in("import", file, "--store", other)
    assert result.exit_code == 0, result.stderr
    run_id = result.stdout.strip()
    assert run_id.startswith("imported-")
    assert "checksum and shape are correct" in result.stderr
    assert "the author is unknown" in result.stderr
    assert "the audit found no error in the figures" in result.stderr
    assert f"see it with: tunnelbench report {run_id} --store {other}" in result.stderr

    again = type_in("import", file, "--store", other)
    assert again.exit_code == 2
    assert f"this run is already stored as {run_id}" in again.stderr

    assert json.loads(type_in("list", "runs", "--json", "--store", other).stdout)[0]["status"] == "imported"
    report = type_in("report", run_id, "--store", other)
    assert "Imported: run 20250314-092653-quick" in " ".join(report.stdout.split())
    type_in("import", file, "--store", store)
    compared = type_in("compare", "20250314", run_id, "--store", store)
    assert compared.exit_code == 0, compared.stderr


def test_the_last_run_stays_the_last_that_was_measured_here(type_in: CommandLine, tmp_path: Path, store: Path) -> None:
    file = tmp_path / "run.json"
    type_in("export", "last", "--store", store, "-o", file)
    imported = type_in("import", file, "--store", store).stdout.strip()
    with Store.open(store) as results:
        assert [run.run_id for run in results.runs()] == [imported, "20250314-092653-quick"]
        assert results.run("last").run_id == "20250314-092653-quick"
        assert len(results.trials(imported)) == len(RECORDS)
        assert len(results.cipher_speeds(imported)) == 3


def test_an_imported_run_does_not_go_on_here(type_in: CommandLine, tmp_path: Path, store: Path) -> None:
    file = tmp_path / "run.json"
    type_in("export", "last", "--store", store, "-o", file)
    imported = type_in("import", file, "--store", store).stdout.strip()
    result = type_in("run", "--resume", imported, "--store", store)
    assert result.exit_code in {2, 3}
    assert "was measured on another machine" in result.stderr or result.exit_code == 3


def test_an_export_without_a_file_goes_to_standard_output(type_in: CommandLine, store: Path) -> None:
    result = type_in("export", "last", "--store", store)
    assert json.loads(result.stdout)["format"] == "tunnelbench-run"


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff", b"[" * 100_000])
def test_a_file_that_is_no_run_gets_a_sentence_and_no_store(
    type_in: CommandLine, tmp_path: Path, content: bytes | None
) -> None:
    file, store = tmp_path / "run.json", tmp_path / "new.sqlite"
    if content is not None:
        file.write_bytes(content)
    result = type_in("import", file, "--store", store)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"tunnelbench: {file}: it ")
    assert "Traceback" not in result.stderr
    assert not store.exists()


HOSTILE_TOML = {
    "deep lists": "a = " + "[" * 20_000,
    "deep tables": "a = " + "{b = " * 20_000,
    "a huge number": "a = " + "9" * 9000,
    "a huge hexadecimal number": "a = 0x" + "f" * 9000,
    "a long dotted key": ".".join(["a"] * 200_000) + " = 1",
    "many dotted keys": ".".join("a" * 90) + " = 1",
}


@pytest.mark.parametrize("text", HOSTILE_TOML.values(), ids=HOSTILE_TOML)
@pytest.mark.timeout(120)
def test_no_verb_breaks_on_the_plan_and_the_testbed_of_an_imported_run(
    type_in: CommandLine, tmp_path: Path, store: Path, text: str
) -> None:
    file = tmp_path / "hostile.json"
    run = make_run(plan_text=text, testbed_text=text, trials_planned=len(RECORDS))
    file.write_text(export(run, RECORDS).text, encoding="utf-8")
    imported = type_in("import", file, "--store", store)
    assert imported.exit_code == 0, imported.stderr
    run_id = imported.stdout.strip()
    for words in (
        ("report", run_id),
        ("show", run_id),
        ("export", run_id),
        ("compare", "20250314", run_id),
        ("list", "runs"),
    ):
        done = type_in(*words, "--store", store)
        assert done.exit_code == 0, (words, done.stderr, done.exception)
    assert type_in("site", tmp_path / "site", file).exit_code == 0


def test_a_run_is_exported_for_flent_and_bencher(type_in: CommandLine, tmp_path: Path, store: Path) -> None:
    folder = tmp_path / "flent"
    done = type_in("export", "last", "--format", "flent", "-o", folder, "--store", store)
    assert (done.exit_code, done.stdout) == (0, ""), done.stderr
    files = sorted(folder.iterdir())
    assert f"{len(files)} files of Flent in" in done.stderr
    assert all(file.name.endswith(".flent.gz") for file in files)
    assert len(files) > 10

    done = type_in("export", "last", "--format", "bencher", "--store", store)
    assert "none, 1448 bytes, down" in json.loads(done.stdout)
    written = tmp_path / "metrics.json"
    assert type_in("export", "last", "--format", "bencher", "--store", store, "-o", written).stdout == ""
    assert written.read_text() == done.stdout


def test_files_for_flent_need_a_folder_and_trials(type_in: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store.open(path) as results:
        results.add_run(make_run(trials_planned=0), (), ())
    result = type_in("export", "last", "--format", "flent", "--store", path)
    assert result.exit_code == 2
    assert "no folder is named" in result.stderr
    result = type_in("export", "last", "--format", "flent", "--store", path, "-o", tmp_path / "flent")
    assert result.exit_code == 2
    assert "has no TCP trial with a series that counts" in result.stderr
    assert not (tmp_path / "flent").exists()
