"""Files for Flent: Flent itself reads them, with the figures of the run, and they name nobody."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.builders import make_records, make_run

from tunnelbench.model.result import Interval, TrialRecord
from tunnelbench.report.exchange.flent_files import flent_files, is_exported
from tunnelbench.report.exchange.foreign import read_foreign, unpacked

RECORDS = make_records(1)
FOREIGN_FILES = Path(__file__).parent / "foreign_files"
EXPORTED = [record for record in RECORDS if is_exported(record)]


def with_series(record: TrialRecord) -> TrialRecord:
    """Return a trial with a series of three intervals, of 10, 20 and 30 Mbit/s."""
    assert record.tcp is not None
    series = tuple(Interval(at, at + 1.0, (at + 1) * 1_250_000, 0) for at in range(3))
    return replace(record, measurement=replace(record.tcp, intervals=series, duration_s=3.0, bytes_received=7_500_000))


def flent(path: Path, form: str) -> str:
    """Return the output of Flent for a file."""
    output = path.with_name(f"output.{form}")
    argv: list[str | Path] = [
        Path(sys.executable).with_name("flent"),
        "--input",
        path,
        "--format",
        form,
        "--output",
        output,
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=path.parent)
    assert "ERROR" not in done.stderr
    return output.read_text()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    ((name, content),) = flent_files(make_run(), [with_series(EXPORTED[0])])
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_flent_prints_the_mean_and_the_series_of_a_trial(file: Path) -> None:
    summary = flent(file, "summary")
    (line,) = (each for each in summary.splitlines() if "TCP download" in each)
    assert line.split()[3:] == ["20.00", "20.00", "29.80", "Mbits/s", "3"]
    assert "Title: 'none 1448 bytes, round 1'" in summary
    assert flent(file, "csv").split() == ["tcp_download,TCP", "download", "1.0,10.0", "2.0,20.0", "3.0,30.0"]


def test_flent_knows_when_a_trial_was_and_how_long_it_took(file: Path) -> None:
    metadata = json.loads(flent(file, "metadata"))[0]
    assert metadata["TIME"].startswith(EXPORTED[0].started_at[:19])
    assert (metadata["LENGTH"], metadata["TOTAL_LENGTH"], metadata["STEP_SIZE"]) == (3, 3.0, 1.0)
    assert metadata["NOTE"].startswith("trial 1 of run 20250314-092653-quick")


def test_each_trial_through_the_router_that_counts_has_a_file() -> None:
    names = [name for name, _ in flent_files(make_run(), RECORDS)]
    assert len(set(names)) == len(names) == len(EXPORTED)
    assert {record.spec.round for record in EXPORTED} == {1}
    assert {name.partition("-")[0] for name in names} == {"tcp_download", "tcp_upload"}
    assert [name for name in names if not name.endswith(".flent.gz")] == []


def test_what_is_exported_for_flent_can_be_imported() -> None:
    for record, (_, content) in zip(EXPORTED, flent_files(make_run(), RECORDS), strict=True):
        assert record.tcp is not None
        (row,) = read_foreign(unpacked(content), "flent").rows
        assert row["direction"] == record.spec.direction.value
        assert float(row["throughput_mbps"]) == pytest.approx(record.tcp.throughput_bps / 1e6)


@pytest.mark.parametrize(
    ("name", "series"),
    [
        ("tcp_download.flent.gz", ["TCP download"]),
        ("tcp_nup.flent.bz2", ["TCP upload sum"]),
        ("rrul_be.flent.gz", ["TCP download sum", "TCP upload sum"]),
    ],
)
def test_flents_own_files_are_imported_with_the_figures_of_flent(name: str, series: list[str], tmp_path: Path) -> None:
    packed = (FOREIGN_FILES / name).read_bytes()
    (tmp_path / name).write_bytes(packed)
    lines = [line.partition(" :") for line in flent(tmp_path / name, "summary").splitlines()]
    means = {title.strip(): float(rest.split()[0]) for title, mark, rest in lines if mark and title.strip() in series}
    rows = read_foreign(unpacked(packed), "flent").rows
    assert sorted(float(row["throughput_mbps"]) for row in rows) == sorted(means.values())
    assert sorted(means) == series


def test_the_same_run_always_gives_the_same_files_and_names_nobody() -> None:
    run = make_run(testbed_text='kind = "ssh"\nhost = "attic.example.org"\n', plan_name="plan for attic.example.org")
    once, again = list(flent_files(run, RECORDS)), list(flent_files(run, RECORDS))
    assert once == again
    for _, content in once:
        text = gzip.decompress(content).decode()
        assert "attic" not in text
        assert "plan for [host name]" in text
