"""Samples of another machine's CPUs, as its script wrote them, BusyBox in its shell."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from tunnelbench.host.cpu_samples import RemoteSampler, parse_blocks, parse_samples

TEXT = (Path(__file__).parents[2] / "output/busybox-1.35.0/samples.txt").read_text()
BUSY = 103
"""A process that did nothing but count."""


def test_each_short_block_is_a_reading_on_this_machines_clock() -> None:
    samples = parse_samples(TEXT, {BUSY: "busy"}, ahead_s=100.0)
    assert [reading.clock_s for reading in samples.readings] == pytest.approx([27961.99, 27963.00, 27964.03])
    assert all(reading.cpus.keys() == {0, 1} for reading in samples.readings)
    assert samples.raw == TEXT


def test_the_watched_programs_are_timed_by_the_nanosecond_where_the_kernel_does() -> None:
    first, *_, last = parse_samples(TEXT, {BUSY: "busy"}, 0.0).readings
    assert (first.daemons_method, last.daemons_method) == ("schedstat", "schedstat")
    assert first.daemons_s is not None
    assert last.daemons_s is not None
    assert first.daemons_s["busy"] == pytest.approx(0.173474838)
    assert last.daemons_s["busy"] == pytest.approx(1.181366476)


def test_a_kernel_without_schedstat_leaves_clock_ticks() -> None:
    text = "\n".join(line for line in TEXT.splitlines() if "schedstat" not in line)
    *_, last = parse_samples(text, {BUSY: "busy"}, 0.0).readings
    assert last.daemons_method == "ticks"
    assert last.daemons_s is not None
    assert last.daemons_s["busy"] == pytest.approx(1.18, abs=0.02)


def test_without_watched_programs_there_is_no_time_of_theirs() -> None:
    assert {(each.daemons_s, each.daemons_method) for each in parse_samples(TEXT, {}, 0.0).readings} == {(None, "")}


@pytest.mark.parametrize(
    "hostile", [TEXT.replace("/proc/stat", "/proc/none"), TEXT.replace("278", "\x1b"), "block short\n"]
)
def test_samples_that_cannot_be_read_are_no_readings(hostile: str) -> None:
    sampler = object.__new__(RemoteSampler)
    sampler.programs, sampler._samples, sampler._ahead_s, sampler._pid = {BUSY: "busy"}, None, 0.0, "1"
    sampler._path = Path("samples")
    sampler.host = Mock(**{"run.return_value.stdout": hostile})
    assert sampler.stop().readings == ()
    assert sampler.stop().raw == hostile


@pytest.mark.parametrize("cut", [10, 200, len(TEXT) // 2, len(TEXT) - 30])
def test_a_block_that_was_cut_is_no_reading(cut: int) -> None:
    whole = len(parse_samples(TEXT, {BUSY: "busy"}, 0.0).readings)
    assert len(parse_samples(TEXT[:cut], {BUSY: "busy"}, 0.0).readings) < whole
    assert sum(block.is_whole for block in parse_blocks(TEXT)) == whole + 1


def test_what_sampling_costs_is_the_samplers_own_time_and_its_childrens() -> None:
    own = TEXT.splitlines()[0].rpartition(" ")[2]
    lines = TEXT.splitlines()
    last = max(number for number, line in enumerate(lines) if line.startswith(f"/proc/{own}/stat:"))
    name, _, values = lines[last].partition(") ")
    fields = values.split()
    assert fields[11:15] == ["0", "0", "0", "0"]
    fields[11:15] = ["3", "4", "10", "20"]
    lines[last] = f"{name}) {' '.join(fields)}"
    assert parse_samples("\n".join(lines), {}, 0.0).cost_s == pytest.approx(0.37)
    assert parse_samples("", {}, 0.0).cost_s is None
