"""A run that measures changes of keys: verdict, table, full report and JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.unit.builders import make_proof, make_run, make_trial, make_tunnel
from tests.unit.udp_builders import make_counts, make_delays

from tunnelbench.model.plan import Direction, Plan, Test, UdpTraffic
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.report.document import compose
from tunnelbench.report.first_screen import first_screen
from tunnelbench.report.render import render
from tunnelbench.report.screen_tables import screen_tables

OPENVPN = "openvpn AES-128-GCM"
GAPS_S = {"none": 0.0021, "vxlan": 0.9, OPENVPN: 0.5125}
RUN = make_run(plan_name="rekey")


def records(payloads: tuple[int, ...] = (1400,), rates: tuple[str, ...] = ("1000",)) -> list[TrialRecord]:
    udp = UdpTraffic(payloads, (Direction.IN, Direction.OUT), (Test.REKEY,), rates)
    plan = Plan("rekey", "", tuple(make_tunnel(name) for name in GAPS_S), None, rounds=2, udp=udp)
    found = []
    for spec in plan.trials():
        name = spec.tunnel.name
        lost = 250 if name == OPENVPN else 0
        counts = make_counts(
            1000,
            lost=lost,
            intended_pps=1000,
            delay=make_delays(),
            longest_gap_s=GAPS_S[name] + 0.001 * spec.round,
            longest_gap_start_s=1.0,
        )
        measured = UdpMeasurement(counts, rekeys=2 if spec.tunnel.has_tunnel else 0)
        found.append(replace(make_trial(spec, proof=make_proof(name)), measurement=measured))
    return found


def test_the_screen_names_the_gap_of_encrypted_tunnels_and_the_losses() -> None:
    text = "\n".join(line.plain for line in first_screen(compose(RUN, records()), 200))
    assert f"While {OPENVPN} changes its keys, no packet arrives for up to 514 ms, and 250 packets are lost." in text
    assert "Without a tunnel, the longest gap between two packets is 3.60 ms." in text
    assert "While vxlan" not in text
    (row,) = (line.split() for line in text.splitlines() if line.strip().startswith(f"{OPENVPN}, up"))
    assert row[-4:] == ["514", "250", "80.0", "2"]
    assert "UDP at 1000 packets/s with 1400 bytes of payload" in text
    narrow = first_screen(compose(RUN, records()), 80)
    assert max(len(line.plain) for line in narrow) <= 80


def test_the_report_and_the_json_have_the_gap() -> None:
    text = render(RUN, records(), "markdown")
    assert "Longest gap" in text
    assert "| 514 |" in text
    rows = json.loads(render(RUN, records(), "json"))["udp_rows"]
    gaps = {row["tunnel"]["name"]: row["figures"]["longest_gap_s"]["median"] for row in rows}
    assert gaps == pytest.approx({name: gap_s + 0.0015 for name, gap_s in GAPS_S.items()})


def test_lines_of_several_rates_and_sizes_have_different_names() -> None:
    document = compose(RUN, records((100, 1400), ("100", "1000", "300")))
    (table,) = screen_tables(document)
    names = [row.name for row in table.rows]
    assert len({*names}) == len(names)
    assert "vxlan, 1400 bytes, 300/s, up" in names
    assert "UDP at 100, 300 and 1000 packets/s with 100 and 1400 bytes" in table.legend


def test_a_gap_beside_other_clients_is_that_of_a_client_that_kept_its_keys() -> None:
    options = {"clients": 2, "others_rekey": True}
    beside = [
        replace(record, spec=replace(record.spec, tunnel=replace(record.spec.tunnel, options=options)))
        if record.spec.tunnel.name == OPENVPN
        else record
        for record in records()
    ]
    document = compose(RUN, beside)
    text = "\n".join(line.plain for line in first_screen(document, 200))
    said = f"{OPENVPN}: while other clients change their keys, no packet of a client that keeps its own arrives for up"
    assert f"{said} to 514 ms, and 250 packets are lost." in text
    (table,) = screen_tables(document)
    assert (
        "Of several clients, the others change theirs, and the gap is that of one that keeps its keys" in table.legend
    )
    markdown = render(RUN, beside, "markdown")
    assert "the gap is that of a client that kept its keys while others changed theirs" in markdown
    assert "Of several clients" not in screen_tables(compose(RUN, records()))[0].legend
