"""Each rule finds what breaks it, and lets pass what its tolerance allows."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tunnelbench.analysis.audit.causes import PACKET_SLIPS, UNIT_SLIPS, Slip
from tunnelbench.analysis.audit.rules import Rule
from tunnelbench.analysis.audit.verdict import RowVerdict, audit
from tunnelbench.tunnel import added_bytes


def rows(text: str, link_mbps: float | None = None) -> tuple[RowVerdict, ...]:
    (table,) = audit(text, "csv", link_mbps=link_mbps, added_bytes=added_bytes()).tables
    return table.rows


def broken(text: str, link_mbps: float | None = None) -> list[tuple[int, Rule]]:
    """Rows and rules of all findings."""
    return [(row.row.number, each.finding.rule) for row in rows(text, link_mbps) for each in row.found]


@pytest.mark.parametrize(
    ("packets", "is_found"), [(8132, False), (8294, False), (8297, True), (7970, False), (7950, True), (65055, True)]
)
def test_packets_agree_with_throughput_within_two_per_cent_and_the_rounding(packets: int, is_found: bool) -> None:
    assert broken(f"payload,Mbit/s,pps\n1448,94.20,{packets}\n") == ([(1, Rule.PACKET_RATE)] if is_found else [])


def test_a_figure_of_few_digits_is_held_to_what_it_may_have_been() -> None:
    assert broken("payload,Mbit/s,pps\n1448,94.2,8k\n76,1,1.7k\n") == []
    assert broken("payload,Mbit/s,pps\n1448,94.2,9k\n") == [(1, Rule.PACKET_RATE)]


@pytest.mark.parametrize(
    ("heading", "size"), [("MSS", 1460), ("Packet size", 1500), ("Frame size", 1518), ("Payload", 1448)]
)
def test_the_size_of_a_packet_may_be_stated_in_many_ways(heading: str, size: int) -> None:
    assert broken(f"{heading},Mbit/s,pps\n{size},94.15,8127\n") == []
    assert broken(f"{heading},Mbit/s,pps\n{size},94.15,65020\n") == [(1, Rule.PACKET_RATE)]


@pytest.mark.parametrize(
    ("tunnel", "mbps", "is_found"),
    [
        ("none", 94.2, False),
        ("none", 94.6, False),
        ("none", 94.7, True),
        ("gre", 92.8, False),
        ("gre", 93.2, True),
        ("ipip", 93.0, False),
        ("ipip", 93.4, True),
        ("wireguard", 90.9, True),
        ("something else", 94.2, False),
    ],
)
def test_no_row_is_faster_than_its_line_by_more_than_old_iperf_makes_it(
    tunnel: str, mbps: float, is_found: bool
) -> None:
    text = f"tunnel,payload,Mbit/s\n{tunnel},1448,{mbps}\n"
    assert broken(text, 100) == ([(1, Rule.LINE_LIMIT)] if is_found else [])
    assert broken(text) == []


def test_the_line_is_known_from_a_column_a_remark_or_a_row_at_line_speed() -> None:
    assert broken("Mbit/s,link_mbps\n120,100\n") == [(1, Rule.LINE_LIMIT)]
    assert broken("Mbit/s,comment\n120,100 Mbit/s link\n") == [(1, Rule.LINE_LIMIT)]
    assert broken("Mbit/s,comment\n960,gigabit Ethernet\n2850,MTU 9000\n") == [(1, Rule.LINE_LIMIT)]
    shown = "device,tunnel,payload,Mbit/s,comment\nx,none,1448,94.2,Line speed\nx,direct,1448,99,\ny,none,1448,99,\n"
    assert broken(shown) == [(2, Rule.LINE_LIMIT)]


def test_packets_are_held_to_the_frames_that_the_line_carries() -> None:
    assert broken("payload,pps,traffic\n18,148800,udp\n", 100) == []
    assert broken("payload,pps,traffic\n18,150123,udp\n", 100) == [(1, Rule.LINE_LIMIT)]


def test_jumbo_frames_carry_more() -> None:
    assert broken("payload,Mbit/s,comment\n8948,985,MTU 9000\n1448,985,\n", 1000) == [(2, Rule.LINE_LIMIT)]


def test_parts_of_the_cpu_are_not_more_than_all_of_it() -> None:
    assert broken("cpu usr,cpu sys,cpu sirq\n50,25,25\n34,33,34\n40,35,30\n") == [(3, Rule.CPU_SUM)]
    assert broken("cpu usr,cpu sys,cpu total\n50,25,75\n50,25,60\n") == [(2, Rule.CPU_SUM)]
    assert broken("cpu total\n100.0\n100.4\n") == [(2, Rule.CPU_SUM)]


def test_more_than_one_core_explains_more_than_one_hundred() -> None:
    text = "device,cpu load\n"
    (row,) = rows(text + "x,180%\n")
    assert row.found[0].cause.words == "no single cause explains it; in per cent of one core it would take 2 cores"
    table = "| Routeur | charge cpu |\n|---|---|\n| T40E 2 coeurs | 180% |\n"
    assert audit(table).found[0].cause.slip == "counted in per cent of one core, on a device with 2 cores"


def test_no_tunnel_is_faster_than_none() -> None:
    text = "tunnel,payload,direction,Mbit/s\nno VPN,1448,in,90\nno VPN,76,in,20\ngre,1448,in,{}\ngre,76,out,99\n"
    assert broken(text.format("90.4")) == []
    assert broken(text.format("95.0")) == [(3, Rule.BASELINE)]


def test_a_larger_payload_is_not_held_to_a_smaller_baseline() -> None:
    assert broken("tunnel,payload,Mbit/s\nnone,76,20\nopenvpn,1370,80\n") == []
    assert broken("tunnel,payload,Mbit/s\nnone,1448,70\nopenvpn,1370,80\n") == [(2, Rule.BASELINE)]
    assert broken("tunnel,payload,pps\nnone,18,47000\nopenvpn,512,49000\n") == [(2, Rule.BASELINE)]


def test_a_share_is_the_quotient_that_it_says_it_is() -> None:
    text = "tunnel,payload,Mbit/s,share\nnone,1448,90.0,100%\ngre,1448,45.0,{}\n"
    assert broken(text.format("50%")) == []
    assert broken(text.format("60%")) == [(2, Rule.BASELINE)]
    assert broken("tunnel,share [%]\ngre,110\n") == [(1, Rule.BASELINE)]


@pytest.mark.parametrize("heading", ["share", "share of baseline", "share %"])
def test_shares_above_two_are_per_cent_whether_or_not_the_column_says_so(heading: str) -> None:
    text = f"tunnel,payload,Mbit/s,{heading}\nnone,1448,94.2,100\nwg,1448,47.1,50\ngre,1448,47.1,60\n"
    (finding,) = (each.finding for row in rows(text) for each in row.found)
    assert (finding.row.number, finding.stated.value) == (3, 60.0)
    assert finding.expected == pytest.approx(50.0)


def test_of_several_baselines_the_fastest_bounds_a_row_and_any_explains_its_share() -> None:
    text = "tunnel,payload,Mbit/s,share %\nnone,1448,480,100\nnone,1448,520,100\nwg,1448,{},{}\n"
    assert broken(text.format("500", "96.2")) == []
    assert broken(text.format("240", "50.0")) == []
    assert broken(text.format("240", "46.2")) == []
    assert broken(text.format("240", "60.0")) == [(3, Rule.BASELINE)]
    assert broken(text.format("541", "104")) == [(3, Rule.BASELINE)] * 2
    packets = "tunnel,payload,pps\nnone,76,4800\nnone,76,5210\nwg,76,5110\n"
    assert broken(packets) == []


def test_a_unit_behind_the_second_of_two_figures_is_that_of_both() -> None:
    text = "tunnel;payload;débit montant / descendant\nnone;1448;85 / 92 Mb/s\nl2tp;1448;80 / 95 Mb/s\n"
    assert broken(text) == [(2, Rule.BASELINE)]
    assert [row.row.throughput and row.row.throughput.value for row in rows(text)] == [85e6, 92e6, 80e6, 95e6]


def test_two_columns_of_one_throughput_agree() -> None:
    assert broken("Mbit/s,MB/s\n94.2,11.8\n") == []
    (row,) = rows("Mbit/s,MB/s\n94.20,11.23\n")
    assert [each.finding.rule for each in row.found] == [Rule.UNITS]
    assert row.found[0].cause.slip == "Mi taken for 10^6 (M)"
    (row,) = rows("Mbit/s,MB/s\n94.2,94.2\n")
    assert row.found[0].cause.slip == "Mbit/s taken for MB/s (not divided by 8)"


def test_a_row_with_two_wrong_figures_is_listed_once() -> None:
    text = "tunnel,usr,sys,cpu total\na,55,60,100\nb,55,60,110\nc,30,30,50\n"
    assert broken(text) == [(1, Rule.CPU_SUM), (2, Rule.CPU_SUM), (2, Rule.CPU_SUM), (3, Rule.CPU_SUM)]
    (table,) = audit(text, "csv").tables
    assert table.conclusions[0].endswith("3 explained by no single cause: row 1, 2, 3.")


def test_what_is_below_zero_is_off_by_no_factor() -> None:
    (table,) = audit("tunnel,Mbit/s,pps\na,-3,-4\n", "csv").tables
    assert table.conclusions == ("sign: 1 of 1 row is wrong; 1 explained by no single cause: row 1.",)


def test_nothing_is_below_zero() -> None:
    assert broken("Mbit/s\n-94.2\n") == [(1, Rule.SIGN)]
    assert broken("tunnel,payload,Mbit/s,pps\nnone,1448,-94.2,8129\ngre,1448,0,0\n") == [(1, Rule.SIGN)]


def test_figures_of_zero_are_held_like_others() -> None:
    assert broken("tunnel,payload,Mbit/s\nnone,1448,0\ngre,1448,94.2\n") == [(2, Rule.BASELINE)]
    assert broken("payload,Mbit/s,pps\n1448,0.00,8129\n1448,94.2,0\n") == [(1, Rule.PACKET_RATE), (2, Rule.PACKET_RATE)]


def test_rows_that_state_too_little_are_not_called_right() -> None:
    assert [row.word for row in rows("Mbit/s\n94.2\n")] == ["not checked"]


def test_a_payload_in_effect_counts_instead_of_the_one_asked_for() -> None:
    text = "payload,Mbit/s,pps,comment\n1448,1081,98770,{}\n"
    assert broken(text.format("payload in effect 1368")) == []
    assert broken(text.format("")) == [(1, Rule.PACKET_RATE)]


NAMES = [slip.name for slip in PACKET_SLIPS]


@given(st.sampled_from(PACKET_SLIPS), st.integers(200, 1400), st.floats(10, 900), st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_a_slip_that_was_made_is_named(slip: Slip, payload: int, mbps: float, count: int) -> None:
    lines = []
    for number in range(count):
        stated = round(mbps * (1 + number / 10), 3)
        right = f"payload,Mbit/s,pps\n{payload},{stated:.3f},1\n"
        factor = slip.factor(rows(right)[0].row)
        assert factor is not None
        lines.append(f"{payload},{stated:.3f},{stated * 1e6 / 8 / payload * factor:.4f}")
        assume(abs(factor - 1) > 0.025)
    found = [each for row in rows("payload,Mbit/s,pps\n" + "\n".join(lines)) for each in row.found]
    assert len(found) == count
    assert {each.cause.slip for each in found} == {slip.name}


@given(st.sampled_from(UNIT_SLIPS), st.floats(1.06, 1.3))
@settings(max_examples=50, deadline=None)
def test_a_slip_that_was_not_made_is_not_named(slip: Slip, beside: float) -> None:
    (row,) = rows("payload,Mbit/s,pps\n1000,100.00,1\n")
    factor = (slip.factor(row.row) or 1) * beside
    assume(abs(factor - 1) > 0.03)
    (row,) = rows(f"payload,Mbit/s,pps\n1000,100.00,{12500 * factor:.3f}\n")
    (found,) = row.found
    near = [each for each in PACKET_SLIPS if abs((each.factor(row.row) or 0) / factor - 1) < 0.001]
    assert found.cause.slip in {None, *(each.name for each in near)}
    assert found.cause.slip is not None or found.cause.words.startswith("no single cause explains it")


@given(st.integers(1, 9000), st.floats(0.01, 9e4), st.integers(0, 3), st.integers(0, 3))
def test_right_figures_pass_however_they_are_rounded(payload: int, mbps: float, digits: int, pps_digits: int) -> None:
    packets = mbps * 1e6 / 8 / payload
    assert broken(f"payload,Mbit/s,pps\n{payload},{mbps:.{digits}f},{packets:.{pps_digits}f}\n") == []
