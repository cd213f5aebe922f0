"""A run with several clients of one server: shares, Jain's index, screen, report, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from tests.unit.builders import make_proof, make_run, make_tcp, make_trial

from tunnelbench.model.plan import Direction, Plan, TcpTraffic, TunnelSpec
from tunnelbench.model.result import ClientCounts, TcpMeasurement, TrialRecord, jain_index
from tunnelbench.report.document import compose
from tunnelbench.report.first_screen import first_screen
from tunnelbench.report.render import render

OPENVPN = "openvpn AES-128-GCM"
RUN = make_run(plan_name="clients")
SHARES = {1: (1.0,), 2: (0.8, 0.2)}


def with_clients(tcp: TcpMeasurement, shares: tuple[float, ...]) -> TcpMeasurement:
    parts = tuple(ClientCounts(10.0, round(tcp.bytes_received * share), 0, 0) for share in shares)
    return replace(tcp, clients=parts)


def records() -> list[TrialRecord]:
    tunnels = [TunnelSpec("openvpn", f"{OPENVPN}, {count} clients", {"clients": count}) for count in SHARES]
    traffic = TcpTraffic(payload_bytes=(1200,), direction=(Direction.OUT,))
    plan = Plan("clients", "", (TunnelSpec("none", "no tunnel"), *tunnels), traffic, rounds=3)
    found = []
    for spec in plan.trials():
        tcp = make_tcp(3e8, payload_bytes=1200)
        if spec.tunnel.clients:
            tcp = with_clients(tcp, SHARES[spec.tunnel.clients])
        found.append(make_trial(spec, tcp, proof=make_proof(OPENVPN if spec.tunnel.clients else "none")))
    return found


@pytest.mark.parametrize(
    ("rates", "index"),
    [((5.0, 5.0), 1.0), ((7.0, 0.0, 0.0, 0.0), 0.25), ((4.0, 1.0), 25 / 34), ((0.0, 0.0), None), ((), None)],
)
def test_jains_index_is_1_for_equal_rates_and_1_over_n_if_one_has_everything(
    rates: tuple[float, ...], index: float | None
) -> None:
    assert jain_index(rates) == (index if index is None else pytest.approx(index))


def test_shares_are_those_of_the_throughput_by_the_clock_of_each_client() -> None:
    clients = (ClientCounts(10.0, 1000, 1000, 0), ClientCounts(5.0, 1000, 1000, 0))
    assert replace(make_tcp(), clients=clients).client_shares == pytest.approx((1 / 3, 2 / 3))
    assert make_tcp().client_shares == ()


def test_the_screen_has_the_share_of_each_client() -> None:
    text = "\n".join(line.plain for line in first_screen(compose(RUN, records()), 200))
    assert (
        f"Through {OPENVPN}, 2 clients, each client gets 20 to 80 % of the throughput; Jain's index is 0.735 (up)."
    ) in text
    (row,) = (line.split() for line in text.splitlines() if line.strip().startswith(f"{OPENVPN}, 2 clients, up"))
    assert row[-4:] == ["80", "20", "%", "0.735"]
    assert max(len(line.plain) for line in first_screen(compose(RUN, records()), 80)) <= 80


def test_report_csv_and_json_have_the_shares() -> None:
    assert "Jain's index" in render(RUN, records(), "markdown")
    rows = [row for row in csv.DictReader(io.StringIO(render(RUN, records(), "csv"))) if row["client_count"] == "2"]
    assert len(rows) == 3
    assert {(row["client_shares"], row["least_client_share"][:4]) for row in rows} == {("0.8 0.2", "0.2")}
    document = json.loads(render(RUN, records(), "json"))
    found = {row["tunnel"]["name"]: row["figures"]["jain_index"] for row in document["rows"]}
    assert found[f"{OPENVPN}, 2 clients"]["median"] == pytest.approx(25 / 34)
    assert found["no tunnel"] is None


def test_a_run_without_clients_has_no_column_for_them() -> None:
    without = [record for record in records() if record.spec.tunnel.clients is None]
    assert "Jain" not in render(RUN, without, "markdown")
