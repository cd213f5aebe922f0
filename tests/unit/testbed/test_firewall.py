"""Rules in the router's firewall: bound to its devices, and each is undone alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from tunnelbench.host.command import Completed
from tunnelbench.host.leased_host import LeasedHost
from tunnelbench.testbed import firewall
from tunnelbench.testbed.firewall import Traffic

SITE = Traffic("br-lan", "192.168.1.2", ("198.18.4.1",), "eth1", "10.0.0.2")
ROAD_WARRIORS = Traffic(
    "eth1", "198.18.4.1", ("198.18.6.0/24",), "br-lan", "192.168.1.2", inner_network="198.18.3.0/24"
)
FW4 = "chain forward {\nct state established accept # handle 7\n}\nchain input {\n}\nchain srcnat {\n}\n"


class FakeRouter:
    """A router with a kind of firewall; it keeps the changes with their undo."""

    folder = Path("/tmp/tunnelbench-dut-r1-0123456789abcdef")

    def __init__(self, kind: str, same_rule: str = "none") -> None:
        self.kind, self.same_rule = kind, same_rule
        self.changes: list[tuple[str, str]] = []

    def run(self, argv: Sequence[str], *, check: bool = True) -> Completed:
        words = " ".join(argv)
        is_there = argv[0] == ("nft" if self.kind == "fw4" else "iptables")
        if " -C " in words:
            is_there = self.same_rule in words
        return Completed(tuple(argv), 0 if is_there else 1, FW4 if argv[0] == "nft" else "-P FORWARD DROP", "")

    def change(self, argv: Sequence[str], undo: str) -> None:
        self.changes.append((" ".join(argv), undo))


def changes(kind: str, same_rule: str = "none", traffic: Traffic = SITE) -> list[tuple[str, str]]:
    router = FakeRouter(kind, same_rule)
    firewall.open_for(cast("LeasedHost", router), firewall.rules(traffic))
    return router.changes


@pytest.mark.parametrize("kind", ["fw4", "iptables"])
def test_every_rule_names_a_device_of_the_router(kind: str) -> None:
    for traffic, count in ((SITE, 5), (ROAD_WARRIORS, 6)):
        made = [command for command, _ in changes(kind, traffic=traffic)]
        assert len(made) == count
        assert all("br-lan" in command or "eth1" in command for command in made)


@pytest.mark.parametrize(
    ("traffic", "words"),
    [
        (SITE, "198.18.4.1 are forwarded to each other without NAT, and packets from 10.0.0.2 to the router are"),
        (
            ROAD_WARRIORS,
            "without NAT, and packets from 192.168.1.2 and 198.18.3.0/24 to the router are accepted",
        ),
    ],
)
def test_the_report_names_the_addresses_of_the_rules(traffic: Traffic, words: str) -> None:
    wanted = firewall.rules(traffic)
    assert words in firewall.note("router", "fw4", wanted)
    assert firewall.note("router", "none", wanted) == ""


def test_each_rule_is_undone_by_the_handle_of_its_own_comment() -> None:
    comments = []
    for command, undo in changes("fw4"):
        comment = command.rpartition(" comment ")[2]
        assert f"/comment {comment}/" in undo
        assert "handle $h" in undo
        comments.append(comment)
    assert len(set(comments)) == 5
    assert all(comment.startswith(f'"{FakeRouter.folder.name}-') for comment in comments)


def test_a_rule_of_iptables_is_undone_by_all_its_words() -> None:
    """Rules of the user for other addresses stay; one with the same words is not made again."""
    for command, undo in changes("iptables"):
        inserted, condition = command.split(" 1 ", 1)
        assert inserted.startswith("iptables -t ")
        assert undo == f"{inserted.replace(' -I ', ' -D ')} {condition} 2>/dev/null; true"


def test_a_rule_of_the_user_that_is_the_same_stays() -> None:
    made = [command for command, _ in changes("iptables", "INPUT")]
    assert len(made) == 4
    assert not any("INPUT" in command for command in made)
