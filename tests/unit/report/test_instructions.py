"""Instructions per packet of a router of fixed speed, in every format."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from tests.unit.builders import make_records, make_run

from tunnelbench.analysis.compare.comparison import ComparisonVerdict, compare
from tunnelbench.analysis.compare.runs import side_of_run
from tunnelbench.analysis.compare.sides import ComparedFigure
from tunnelbench.model.plan import CALIBRATION_KIND
from tunnelbench.model.result import TcpMeasurement, TrialRecord
from tunnelbench.report.formats import format_names
from tunnelbench.report.render import render

TITLE = "Instructions/packet"
FOR_PEOPLE = sorted({*format_names(), "terminal", "html"} - {"csv", "json", "series"})


def counted(records: tuple[TrialRecord, ...], per_packet: float = 9000.0) -> tuple[TrialRecord, ...]:
    """Return the trials as if the router had a fixed speed and executed so many instructions for each packet."""
    return tuple(
        replace(record, measurement=with_instructions(record.tcp, per_packet)) if record.tcp else record
        for record in records
    )


def with_instructions(tcp: TcpMeasurement, per_packet: float) -> TcpMeasurement:
    packets = tcp.window.data_packets + tcp.window.ack_packets
    window = replace(tcp.window, router_instructions=round(packets * per_packet), router_clock_lost_s=0.0)
    return replace(tcp, window=window)


def test_user_mode_and_kernel_are_divided_only_by_a_profile() -> None:
    (tcp,) = [record.tcp for record in make_records(1) if record.tcp][:1]
    window = with_instructions(tcp, 9000).window
    assert window.instructions_per_packet == pytest.approx(9000)
    assert window.user_instructions_per_packet is window.kernel_instructions_per_packet is None
    profiled = replace(window, router_instruction_shares={"kernel/vmlinux/f": 0.6, "openvpn/libcrypto.so.3": 0.4})
    assert profiled.user_instructions_per_packet == pytest.approx(9000 * 0.4)
    assert profiled.kernel_instructions_per_packet == pytest.approx(9000 * 0.6)
    without = tcp.window
    assert without.instructions_per_packet is without.user_instructions_per_packet is None
    assert without.kernel_instructions_per_packet is None
    silent = replace(window, data_packets=0, ack_packets=0)
    assert silent.instructions_per_packet is silent.kernel_instructions_per_packet is None


@pytest.mark.parametrize("name", FOR_PEOPLE)
def test_a_table_has_them_only_if_a_router_has_a_fixed_speed(name: str) -> None:
    records = make_records(2)
    of_methodology = int(name == "html")  # the page contains it
    assert render(make_run(), records, name, 200).count(TITLE) == of_methodology
    assert render(make_run(), counted(records), name, 200).count(TITLE) > of_methodology


def test_data_formats_have_them_for_rows_and_trials() -> None:
    records = counted(make_records(2))
    found = json.loads(render(make_run(), records, "json"))
    known = [found for row in found["rows"] if row["figures"] and (found := row["figures"]["instructions_per_packet"])]
    assert known
    assert [each["median"] for each in known] == pytest.approx([9000] * len(known), rel=1e-3)
    lines = csv.DictReader(io.StringIO(render(make_run(), records, "csv")))
    assert any(float(line["instructions_per_packet"] or 0) == pytest.approx(9000, rel=1e-3) for line in lines)


def test_a_comparison_finds_five_per_cent_more_instructions() -> None:
    records = make_records(6)
    a, b = side_of_run(make_run(), counted(records)), side_of_run(make_run(), counted(records, 9450))
    rows = [row for row in compare(a, b).rows if row.figure is ComparedFigure.INSTRUCTIONS]
    assert ComparisonVerdict.DEARER in {row.verdict for row in rows}
    assert {row.verdict for row in rows} <= {ComparisonVerdict.DEARER, ComparisonVerdict.HIGHER}


def test_a_calibration_has_none_because_no_router_forwards_its_packets() -> None:
    rows = json.loads(render(make_run(), counted(make_records(2)), "json"))["rows"]
    calibrations = [row for row in rows if row["tunnel"]["kind"] == CALIBRATION_KIND and row["figures"]]
    assert calibrations
    assert [row["figures"]["instructions_per_packet"] for row in calibrations] == [None] * len(calibrations)
