"""The packet filter of a plan on the router: its rules in order, and what nftables lists of them."""

from __future__ import annotations

import pytest

from tunnelbench.model.firewall import Firewall, RouterFilter
from tunnelbench.testbed.nftables_filter import other_rules, parse_counters, parse_rules, ruleset, seen_ruleset
from tunnelbench.testbed.router_filter import first_difference

CLIENT, TARGET = "198.18.1.2", "198.18.4.1"
LISTED = """table ip tunnelbench-firewall {
	counter established {
		packets 41 bytes 6014
	}

	counter new {
		packets 7 bytes 420
	}

	chain trial {
		ip saddr 240.0.0.1 drop
		ip saddr 240.0.0.2 drop
		ct state established,related counter name "established" accept
		ct state new counter name "new" accept
	}
}
"""


@pytest.mark.parametrize(
    ("wanted", "has_states", "has_nat"),
    [
        (RouterFilter(rules=2), False, False),
        (RouterFilter(Firewall.STATEFUL, 2), True, False),
        (RouterFilter(Firewall.STATEFUL_NAT, 2), True, True),
    ],
)
def test_each_filter_has_its_rules_and_no_others(wanted: RouterFilter, has_states: bool, has_nat: bool) -> None:
    text = ruleset(wanted, CLIENT, TARGET)
    assert ("ct state" in text, "masquerade" in text) == (has_states, has_nat)
    assert parse_rules(text) == 2


def test_every_packet_is_compared_with_the_rules_before_its_state_is_looked_up() -> None:
    text = ruleset(RouterFilter(Firewall.STATEFUL, 1000), CLIENT, TARGET)
    rules = [line.strip() for line in text.splitlines() if line.strip().startswith("ip saddr 240.")]
    assert len(set(rules)) == 1000
    assert text.index(rules[-1]) < text.index("ct state")


def test_packets_of_others_match_no_rule() -> None:
    text = ruleset(RouterFilter(Firewall.STATEFUL_NAT, 1), CLIENT, TARGET)
    bound = [line for line in text.splitlines() if "jump" in line or "masquerade" in line]
    assert len(bound) == 3
    assert all(CLIENT in line and TARGET in line for line in bound)


def test_counters_and_rules_are_read_from_the_list_of_nftables() -> None:
    assert parse_counters(LISTED) == {"established": (41, 6014), "new": (7, 420)}
    assert parse_rules(LISTED) == 2
    assert parse_counters("") == {}


def test_the_server_counts_router_and_client_apart() -> None:
    text = seen_ruleset(("198.18.3.1", "198.18.2.1"), CLIENT, TARGET)
    assert f"ip daddr {TARGET} ip saddr {{ 198.18.3.1, 198.18.2.1 }} counter name router" in text
    assert f"ip daddr {TARGET} ip saddr {CLIENT} counter name client" in text


def test_only_rules_of_others_are_late_rules() -> None:
    foreign = "table ip lie {\n\tchain lie {\n\t}\n}\n"
    assert other_rules("") == 0
    assert other_rules(LISTED) == 0
    assert other_rules(foreign + LISTED + foreign) == 2 * len(foreign.splitlines())


def test_counts_make_no_difference_and_each_changed_line_does() -> None:
    assert first_difference(LISTED, LISTED.replace("packets 41 bytes 6014", "packets 99 bytes 1")) == ""
    state = 'ct state new counter name "new" accept'
    early = LISTED.replace("\t\tip saddr 240.0.0.1 drop", f"\t\t{state}\n\t\tip saddr 240.0.0.1 drop")
    assert first_difference(LISTED, early) == f"{state!r} in place of 'ip saddr 240.0.0.1 drop'"
    assert first_difference(LISTED, LISTED + "table") == "'table' in place of 'nothing'"
    assert first_difference(LISTED, "").startswith("'nothing' in place of 'table ip")
