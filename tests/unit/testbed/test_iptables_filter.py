"""The packet filter of a plan as chains of iptables: its text, its removal, and what both variants list of it."""

from __future__ import annotations

import pytest
from tests.output.samples import samples

from tunnelbench.model.firewall import Firewall, RouterFilter
from tunnelbench.testbed.iptables_filter import Iptables, jumps, restore_input
from tunnelbench.testbed.router_filter import first_difference

CLIENT, TARGET = "198.18.1.2", "198.18.4.1"
NAT = RouterFilter(Firewall.STATEFUL_NAT, 2)
SAVED = samples("iptables-*/*-save.txt")
"""Lists of the filter NAT beside a rule and a chain of the router's owner, after three pings."""

each_variant = pytest.mark.parametrize("saved", SAVED.values(), ids=SAVED)


def test_the_text_for_iptables_restore_has_the_rules_in_their_order() -> None:
    assert restore_input(NAT, CLIENT, TARGET) == (
        "*filter\n"
        ":tunnelbench-firewall - [0:0]\n"
        "-A tunnelbench-firewall -s 240.0.0.1/32 -j DROP\n"
        "-A tunnelbench-firewall -s 240.0.0.2/32 -j DROP\n"
        "-A tunnelbench-firewall -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"
        "-A tunnelbench-firewall -m conntrack --ctstate NEW -j ACCEPT\n"
        "-A tunnelbench-firewall -j ACCEPT\n"
        "-I FORWARD -s 198.18.1.2 -d 198.18.4.1 -j tunnelbench-firewall\n"
        "-I FORWARD -s 198.18.4.1 -d 198.18.1.2 -j tunnelbench-firewall\n"
        "COMMIT\n"
        "*nat\n"
        ":tunnelbench-firewall - [0:0]\n"
        "-A tunnelbench-firewall -j MASQUERADE\n"
        "-I POSTROUTING -s 198.18.1.2 -d 198.18.4.1 -j tunnelbench-firewall\n"
        "COMMIT\n"
    )


@pytest.mark.parametrize("wanted", [RouterFilter(rules=3), RouterFilter(Firewall.STATEFUL)])
def test_a_filter_without_nat_does_not_touch_the_table_of_nat(wanted: RouterFilter) -> None:
    change = Iptables().change(wanted, CLIENT, TARGET)
    assert "nat" not in change.stdin
    assert "nat" not in change.undo
    assert ("conntrack" in change.stdin) is wanted.firewall.tracks


def test_what_is_removed_is_what_was_added() -> None:
    change = Iptables().change(NAT, CLIENT, TARGET)
    for _, chain, source, destination in jumps(NAT, CLIENT, TARGET):
        assert f"-I {chain} -s {source} -d {destination} -j tunnelbench-firewall\n" in change.stdin
    words = ["tunnelbench-firewall", *(word for jump in jumps(NAT, CLIENT, TARGET) for word in jump)]
    assert list(change.undo[4:]) == words
    assert list(change.argv[4:]) == words


def test_there_is_a_sample_of_each_variant() -> None:
    assert sorted("(nf_tables)" in saved for saved in SAVED.values()) == [False, True]


@each_variant
def test_counters_and_rules_are_read_from_the_list_of_iptables(saved: str) -> None:
    found = Iptables().parse(saved)
    assert found
    assert found.unmatched == 2
    assert found.counters == {
        "established": (5, 5 * 84),
        "new": (1, 84),
        "other": (0, 0),
        "translated": (1, 84),
    }


@each_variant
def test_rules_of_the_owner_are_no_rules_of_the_plan(saved: str) -> None:
    assert "guests" in saved
    found = Iptables().parse(saved)
    assert found
    assert "guests" not in found.text
    own = [line for line in saved.splitlines() if "tunnelbench-firewall" in line]
    assert Iptables().parse("\n".join(line for line in saved.splitlines() if line not in own)) is None
    assert len(found.text.splitlines()) == len(own) == 11


@each_variant
def test_counts_of_iptables_make_no_difference_and_each_changed_line_does(saved: str) -> None:
    def difference(before: str, after: str) -> str:
        assert before in saved
        texts = [found.text for text in (saved, saved.replace(before, after)) if (found := Iptables().parse(text))]
        return first_difference(*texts)

    drop = "[0:0] -A tunnelbench-firewall -s 240.0.0.1/32 -j DROP\n"
    assert difference(drop, drop.replace("0:0", "7:420")) == ""
    assert difference(drop, "") == (
        "'*filter -A tunnelbench-firewall -s 240.0.0.2/32 -j DROP' in place of "
        "'*filter -A tunnelbench-firewall -s 240.0.0.1/32 -j DROP'"
    )
    assert "-j MASQUERADE" in difference("-j MASQUERADE", "-j ACCEPT")
    assert "PREROUTING" in difference("-A POSTROUTING", "-A PREROUTING")


def test_a_list_without_the_chains_has_no_filter() -> None:
    for saved in ("", "*filter\n:FORWARD ACCEPT [0:0]\n[0:0] -A FORWARD -s 192.0.2.0/24 -j DROP\nCOMMIT\n"):
        assert Iptables().parse(saved) is None
    left = Iptables().parse("*filter\n:tunnelbench-firewall - [0:0]\nCOMMIT\n")
    assert left
    assert (left.counters, left.unmatched) == ({}, 0)
