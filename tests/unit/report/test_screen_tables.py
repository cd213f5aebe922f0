"""Tables of the first screen, and the same tables on the page."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from tests.unit.builders import make_proof, make_records, make_run, make_spec, make_tcp, make_trial, make_tunnel
from tests.unit.udp_builders import make_counts, make_udp_records

from tunnelbench.analysis.answer import NO_VERDICT
from tunnelbench.analysis.cost import Amount, CostFit
from tunnelbench.analysis.cost_model import CostModel
from tunnelbench.model.plan import Direction, Test
from tunnelbench.model.result import Check, Outcome, TrialRecord, TunnelProof, Verdict
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.report.charts.answer import answer_charts
from tunnelbench.report.document import Document, compose
from tunnelbench.report.page_tables import page_tables
from tunnelbench.report.screen_tables import (
    MOST_SCREEN_ROWS,
    ScreenColumn,
    ScreenRow,
    ScreenTable,
    cost_table,
    screen_tables,
)


def many_tunnels(number: int) -> list[TrialRecord]:
    found = []
    for place in range(number):
        tunnel = replace(make_tunnel("wireguard-go"), name=f"tunnel {place:03}")
        proof = TunnelProof((), is_encrypted=True)
        found.append(make_trial(replace(make_spec(place + 1), tunnel=tunnel), make_tcp(1e8 + place), proof=proof))
    return found


def lines(document: Document) -> list[str]:
    (table,) = screen_tables(document)
    return [line for line, _ in table.lines(100)]


def test_a_page_has_the_rows_that_a_terminal_leaves_out() -> None:
    document = compose(make_run(), many_tunnels(MOST_SCREEN_ROWS + 5))
    shown = lines(document)
    assert shown[-1] == "  and 5 more: --full"
    assert sum("tunnel 0" in line for line in shown) == MOST_SCREEN_ROWS
    (table,) = page_tables(document)
    names = [row.name for _, rows in table.groups for row in rows]
    assert len(names) == MOST_SCREEN_ROWS + 5
    assert not any("--full" in name for name in names)


def test_each_group_has_one_heading_if_plaintext_is_allowed() -> None:
    shown = lines(compose(make_run(), make_records(), allow_plaintext=True))
    headings = [line for line in shown if line.strip().isupper()]
    assert len(headings) == len(set(headings)) > 1


def test_reasons_are_shown_if_no_trial_has_a_figure() -> None:
    void = [make_trial(make_spec(), outcome=Outcome.VOID, reason="the cable was cut")]
    document = compose(make_run(), void)
    assert any("none" in line and "void: the cable was cut" in line for line in lines(document))
    (table,) = page_tables(document)
    assert [row.remarks for _, rows in table.groups for row in rows] == ["void: the cable was cut"]


@pytest.mark.parametrize(("payload", "heading"), [(76, "76 bytes"), (1448, "large packets")])
def test_the_throughput_is_named_after_its_payload(payload: int, heading: str) -> None:
    document = compose(make_run(), [make_trial(make_spec(1, 1, "wireguard-go", payload))])
    assert heading in "\n".join(lines(document))
    (chart,) = answer_charts(document)
    assert chart.title.endswith(f"throughput with {heading}")


def test_a_delay_at_another_load_states_its_load() -> None:
    records = [
        record
        for record in make_udp_records()
        if record.spec.test is Test.SEARCH
        or (record.spec.test is Test.LATENCY and (record.spec.tunnel.name, record.spec.load) != ("vxlan", "50%"))
    ]
    shown = [line for line in lines(compose(make_run(), records)) if line.startswith(("  vxlan", "  none"))]
    assert [line.endswith(" (10%)") for line in shown] == [True, False]


def test_large_udp_packets_have_a_lower_bound_of_their_own_in_the_chart() -> None:
    records = [
        replace(record, checks=())
        if (record.spec.payload_bytes, record.spec.direction) == (18, Direction.OUT)
        else record
        for record in make_udp_records()
        if record.spec.test is Test.RATE and record.spec.tunnel.name == "none"
    ]
    sized = [
        replace(record, spec=replace(record.spec, payload_bytes=record.spec.payload_bytes or 1400))
        for record in records
    ]
    tunnel = replace(make_tunnel("vxlan"), name="bounded")
    renamed = [replace(record, spec=replace(record.spec, tunnel=tunnel)) for record in sized]
    document = compose(make_run(), renamed)
    (answer,) = document.answer.udp
    assert (answer.up.is_lower_bound, answer.up.is_large_lower_bound) == (False, True)
    assert "≥" in "\n".join(lines(document))
    (chart,) = answer_charts(document)
    assert "≥ are lower bounds" in chart.sentence


def test_a_chart_of_tunnels_of_unknown_encryption_does_not_call_them_plaintext() -> None:
    tunnel = replace(make_tunnel("wireguard-go"), kind="custom", name="custom")
    trial = make_trial(replace(make_spec(), tunnel=tunnel), make_tcp(1e8), proof=TunnelProof((), is_encrypted=None))
    document = compose(make_run(), [trial])
    assert document.answer.tunnels[0].is_encrypted is None
    (chart,) = answer_charts(document)
    assert chart.title.startswith("Tunnels not known to encrypt")


def test_the_cost_of_a_packet_is_in_the_order_of_the_main_table() -> None:
    document = compose(make_run(), make_records())
    answers = document.answer.tunnels
    models = [model for model in document.models if isinstance(model, CostModel)]
    table = cost_table(models[::-1], answers)
    assert table is not None
    names = {model.tunnel.name for model in models}
    assert [row.name for row in table.rows] == [each.name for each in answers if each.name in names]


@dataclass(frozen=True)
class UncertainFit(CostFit):
    """A fit whose cost per byte is 2 ns, with a given error."""

    error_s: float

    def per_byte_s(self, term: str) -> Amount:
        del term
        return Amount(2e-9, self.error_s)


def test_a_cost_per_byte_whose_interval_includes_0_is_an_upper_bound() -> None:
    document = compose(make_run(), make_records())
    model = next(each for each in document.models if isinstance(each, CostModel))

    def shown(error_s: float) -> str:
        table = cost_table([replace(model, fitted=UncertainFit(**vars(model.fitted), error_s=error_s))])
        assert table is not None
        return table.rows[0].cells[2]

    assert shown(1.9e-9) == "2.00"
    assert shown(2.1e-9) == "< 4.1"


def test_the_first_chart_marks_doubtful_figures() -> None:
    steal = (Check("steal", Verdict.DOUBTFUL, "the hypervisor took up to 6% of a CPU", rule=14),)
    records = [
        replace(record, checks=(*record.checks, *steal)) if record.spec.tunnel.name == "wireguard-go" else record
        for record in make_records()
    ]
    (chart,) = answer_charts(compose(make_run(), records))
    marked = {row[0] for row in chart.rows if "doubtful" in row[6]}
    assert marked == {"wireguard-go"}
    assert "?: a check makes the figure doubtful." in chart.sentence
    assert "?" in str(chart.spec)
    (clean,) = answer_charts(compose(make_run(), make_records()))
    assert "doubtful" not in clean.sentence


@pytest.mark.parametrize("width", range(30, 40))
def test_a_name_reaches_into_the_blanks_before_its_first_figure(width: int) -> None:
    names = ("vxlan", "tinc AES-128-CBC, SHA-1")
    columns = (ScreenColumn(("packets/s", "without loss"), "up"),)
    table = ScreenTable("", columns, tuple(ScreenRow(name, ("46.7",)) for name in names), "")
    found = [line for line, style in table.lines(width) if not style]
    assert max(map(len, found)) <= width
    # indent 2, gap 2 and figure 4: from 31 columns on, name and figure have room in one line
    assert len(found) == (2 if width >= 31 else 3)
    assert len({len(line) for line in found if line.endswith("46.7")}) == 1


def test_udp_at_paced_rates_has_no_table_of_names_alone() -> None:
    def paced(tunnel: str, place: int) -> TrialRecord:
        spec = replace(make_spec(place, tunnel=tunnel), test=Test.RATE, load="100")
        counts = make_counts(100, intended_pps=100)
        return replace(make_trial(spec, proof=make_proof(tunnel)), measurement=UdpMeasurement(counts))

    trials = [paced("none", 1), replace(paced("wireguard-go", 2), outcome=Outcome.VOID, reason="cut", measurement=None)]
    document = compose(make_run(), trials)
    assert screen_tables(document) == []
    assert document.answer.verdict == (NO_VERDICT,)


def test_a_mark_after_the_last_column_fits_into_the_terminal() -> None:
    row = ScreenRow(f"a tunnel whose name {'x' * 28}", ("16.5?", "152?"))
    table = ScreenTable("", (ScreenColumn(("gap, ms",), ""), ScreenColumn(("KiB",), "")), (row,), "")
    assert max(len(line) for line, _ in table.lines(65)) <= 65
