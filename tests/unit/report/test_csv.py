"""CSV that spreadsheets read, and never run."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from tests.unit.builders import make_records, make_run, make_spec, make_trial
from tests.unit.report.hostile import hostile_run
from tests.unit.udp_builders import make_udp_records

from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.report.formats.csv import csv_text, harmless
from tunnelbench.report.render import render


def read(run: RunRecord, records: tuple[TrialRecord, ...]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render(run, records, "csv"), newline=""), strict=True))


def test_there_is_one_row_a_trial_in_the_order_in_which_they_ran() -> None:
    rows = read(make_run(), tuple(reversed(make_records())))
    assert [row["sequence"] for row in rows] == [str(number) for number in range(-3, 97)]
    assert [row["class"] for row in rows if row["tunnel"] == "wireguard"] == ["unavailable"] * 12


def test_a_trial_has_every_figure_in_full() -> None:
    record = make_records()[4]
    (row,) = read(make_run(), (record,))
    assert record.tcp is not None
    assert float(row["throughput_bps"]) == record.tcp.throughput_bps
    assert float(row["cpu_s_per_million_packets"]) == record.tcp.cpu_s_per_million_packets
    assert row["versions"] == "router.linux 6.18; server.linux 6.18"
    assert row["router_cpus"] == "1"


def test_a_trial_has_its_packet_filter() -> None:
    spec = make_spec()
    filtered = replace(spec, tunnel=replace(spec.tunnel, options={"firewall": "stateful-nat", "rules": 9}))
    rows = read(make_run(), (make_trial(spec), make_trial(filtered)))
    assert [(row["firewall"], row["rules"]) for row in rows] == [("none", "0"), ("stateful-nat", "9")]


def test_the_ip_versions_have_columns_even_where_the_plan_asks_for_none() -> None:
    spec, versions = make_spec(), {"inside": "ipv6", "outside": "ipv6"}
    tunnels = [("none", {"inside": "ipv6"}), ("vxlan", {}), ("vxlan", versions)]
    specs = [replace(spec, tunnel=replace(spec.tunnel, kind=kind, options=options)) for kind, options in tunnels]
    rows = read(make_run(), tuple(map(make_trial, specs)))
    found = [(row["inside"], row["outside"]) for row in rows]
    assert found == [("ipv6", ""), ("ipv4", "ipv4"), ("ipv6", "ipv6")]


def test_a_trial_of_tcp_has_the_sizes_of_iperf3_and_other_trials_have_none() -> None:
    spec = make_spec()
    sized = replace(spec, tunnel=replace(spec.tunnel, options={"window_bytes": 65_536, "write_bytes": 8192}))
    rows = read(make_run(), (make_trial(spec), make_trial(sized), make_udp_records()[-1]))
    found = [(row["window_bytes"], row["write_bytes"]) for row in rows]
    assert found == [("0", "131072"), ("65536", "8192"), ("", "")]


def test_lines_end_as_rfc_4180_says() -> None:
    text = render(make_run(), (make_trial(),), "csv")
    assert text.count("\r\n") == text.count("\n") == 2


@pytest.mark.parametrize("beginning", ["=", "+", "-", "@", " =", "\t=", "\r\n@"])
def test_no_text_is_a_formula(beginning: str) -> None:
    assert harmless(f"{beginning}1+1") == f"'{beginning.strip()}1+1"


def test_a_formula_behind_a_semicolon_is_no_formula() -> None:
    assert harmless("note ;=1+1; @a;b; 2") == "note ;'=1+1; '@a;b; 2"
    assert csv_text(["a;=1"], [["x;+1"]]) == "a;'=1\r\nx;'+1\r\n"


def test_harmless_text_is_left_as_it_is() -> None:
    assert harmless("openvpn AES-128-GCM") == "openvpn AES-128-GCM"


def test_hostile_text_stays_in_its_cell() -> None:
    rows = read(*hostile_run())
    assert len(rows) == 3
    assert {len(row) for row in rows} == {len(read(make_run(), (make_trial(),))[0])}
    for row in rows:
        for cell in row.values():
            assert not cell.startswith(("=", "+", "-", "@"))
            assert "\n" not in cell
            assert "\x1b" not in cell


def test_what_is_of_several_trials_has_no_column() -> None:
    header = next(csv.reader(io.StringIO(render(make_run(), make_records(), "csv"))))
    assert not {"limits", "advice", "cost_models", "cost_parts", "cipher_speeds"} & set(header)
