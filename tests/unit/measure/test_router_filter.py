"""The packet filter of a plan is set up, proven by its counters, and removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.unit.builders import make_tcp
from tests.unit.tunnel.fakes import FakeHost, commands

from tunnelbench.host.command import CommandFailed, Completed
from tunnelbench.measure.router_filter import (
    FILTER_PROGRAMS,
    FilterReading,
    InstalledFilter,
    check_filter,
    installed_filter,
    read_filter,
)
from tunnelbench.model.errors import TrialFailed, TunnelUnavailable
from tunnelbench.model.firewall import Firewall, RouterFilter
from tunnelbench.model.result import Check, Verdict
from tunnelbench.testbed.base import Addresses

NOTHING, STATEFUL = RouterFilter(), RouterFilter(Firewall.STATEFUL, 10)
NAT, RULES = RouterFilter(Firewall.STATEFUL_NAT), RouterFilter(rules=10)
PATH = replace(make_tcp().counters, data_packets=90_000, data_bytes=90_000 * 1514, ack_packets=10_000)
LIST = "nft list table ip tunnelbench-firewall"
REMOVE = "nft delete table ip tunnelbench-firewall"
REMOVE_SEEN = "nft delete table ip tunnelbench-seen"
BY_NFT, BY_IPTABLES = map(InstalledFilter, FILTER_PROGRAMS)


def counted(
    known: int, new: int, other: int = 0, translated: int = 0, *, size: int = 1400
) -> dict[str, tuple[int, int]]:
    return {
        "established": (known, known * size),
        "new": (new, new * 60),
        "other": (other, other * size),
        "translated": (translated, translated * 60),
    }


ZERO = counted(0, 0)
BEFORE = FilterReading(ZERO, 10, 0, {"router": (5, 300), "client": (0, 0)})
AFTER = FilterReading(counted(99_998, 2, 0, 2), 10, 2, {"router": (90_005, 1), "client": (0, 0)})


def judged(
    wanted: RouterFilter, after: FilterReading | None, *, has_own_router: bool = False, before: FilterReading = BEFORE
) -> Check:
    (check,) = check_filter(wanted, before, after, PATH, has_own_router=has_own_router)
    assert (check.name, check.rule) == ("firewall", 12)
    return check


def test_a_trial_whose_packets_were_all_counted_passes() -> None:
    check = judged(STATEFUL, AFTER)
    assert check.verdict is Verdict.OK
    assert check.reason == (
        "99998 packets of known connections and 2 of new ones were forwarded by their state; each packet was compared "
        "with 10 rules of nft; 2 connections are tracked"
    )
    assert (
        "NAT of 2 connections: the server saw 90000 packets, all from the router"
        in judged(NAT, replace(AFTER, rules=0)).reason
    )
    passed = replace(AFTER, counters=counted(0, 0, 100_000))
    assert judged(RULES, passed).reason.endswith("with 10 rules of nft; no connection tracking")


@pytest.mark.parametrize(
    ("wanted", "after", "reason"),
    [
        (STATEFUL, replace(AFTER, counters=None), "the rules of firewall=stateful rules=10 are no longer on"),
        (
            STATEFUL,
            replace(AFTER, changed="'accept' in place of 'drop'"),
            "the rules on the router were not those that were set up: 'accept' in place of 'drop'",
        ),
        (STATEFUL, replace(AFTER, rules=9), "the router had 9 of 10 rules after the trial"),
        (STATEFUL, replace(AFTER, counters=counted(97_930, 2)), "only 97932 of 100000 packets were forwarded by the"),
        (STATEFUL, replace(AFTER, counters=counted(2, 0, 99_998)), "only 2 of 100000 packets were forwarded by the"),
        (STATEFUL, replace(AFTER, counters={}), "only 0 of 100000 packets were forwarded by the"),
        (STATEFUL, replace(AFTER, connections=0), "the router tracks no connection"),
        (RULES, replace(AFTER, counters=counted(0, 0, 9)), "only 9 of 100000 packets were forwarded by the rules"),
        (NAT, replace(AFTER, rules=0, seen=None), "the server no longer counts the addresses that it sees"),
        (
            NAT,
            replace(AFTER, rules=0, seen={"router": (5, 300), "client": (90_000, 1)}),
            "the server saw 0 packets from the router's address and 90000 from the client's",
        ),
    ],
)
def test_a_trial_that_did_not_pass_the_filter_is_void(wanted: RouterFilter, after: FilterReading, reason: str) -> None:
    check = judged(wanted, after)
    assert check.verdict is Verdict.VOID
    assert check.reason.startswith(reason)


def test_the_last_packets_that_need_not_be_counted_are_two_per_cent_and_sixty() -> None:
    assert judged(STATEFUL, replace(AFTER, counters=counted(97_938, 2))).verdict is Verdict.OK
    assert judged(STATEFUL, replace(AFTER, counters=counted(97_937, 2))).verdict is Verdict.VOID


def test_fragments_that_the_router_made_behind_the_filter_did_not_pass_it() -> None:
    passed = replace(AFTER, counters=counted(49_998, 2))
    for cut, verdict in ((0, Verdict.VOID), (50_000, Verdict.OK)):
        (check,) = check_filter(STATEFUL, BEFORE, passed, PATH, has_own_router=False, cut_by_router_packets=cut)
        assert check.verdict is verdict, check.reason


def test_a_router_that_merges_packets_is_judged_by_bytes() -> None:
    merged = replace(AFTER, counters=counted(2000, 2, size=64_000))
    assert judged(STATEFUL, merged).verdict is Verdict.VOID
    assert judged(STATEFUL, merged, has_own_router=True).verdict is Verdict.OK
    few = replace(AFTER, counters=counted(1000, 2, size=64_000))
    assert judged(STATEFUL, few, has_own_router=True).reason.startswith(
        "only 64000120 bytes were forwarded by the state"
    )


def test_a_kernel_that_does_not_count_connections_is_not_blamed() -> None:
    unknown = replace(AFTER, connections=None)
    assert judged(STATEFUL, unknown).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("connections", "verdict"), [((None, None), Verdict.OK), ((9, 4), Verdict.OK), ((9, 10), Verdict.VOID)]
)
def test_without_a_firewall_no_connection_is_tracked(
    connections: tuple[int | None, int | None], verdict: Verdict
) -> None:
    before, after = (FilterReading(connections=count) for count in connections)
    assert judged(NOTHING, after, before=before).verdict is verdict
    if verdict is Verdict.VOID:  # a real router may track the connections of others
        assert judged(NOTHING, after, before=before, has_own_router=True).verdict is Verdict.DOUBTFUL


@pytest.mark.parametrize("has_own_router", [False, True])
def test_a_filter_of_an_earlier_trial_makes_a_trial_without_one_void(has_own_router: bool) -> None:
    left = FilterReading(connections=0), FilterReading(ZERO, connections=0)
    for before, after in (left, left[::-1]):
        check = judged(NOTHING, after, before=before, has_own_router=has_own_router)
        assert check.verdict is Verdict.VOID
        assert "had the rules tunnelbench-firewall of an earlier trial" in check.reason


def test_a_router_with_rules_of_its_own_has_no_check_of_the_plans_filter() -> None:
    bed = Mock(own_firewall=lambda: "fw4")
    assert read_filter(bed, NOTHING, BY_NFT) is None
    assert check_filter(NOTHING, None, None, PATH, has_own_router=True) == ()


class Filtered(FakeHost):
    """A host with nft, which keeps the rulesets that it gets; `refuses` is what nft says to them."""

    refuses = ""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, folder)
        self.programs = {"nft"}
        self.rulesets: list[tuple[str, str]] = []

    def run_undoable(self, argv: Sequence[str], undo: Sequence[str], *, stdin: str = "") -> None:
        if self.refuses:
            raise CommandFailed(argv, "ended with status 1", self.refuses)
        self.rulesets.append((" ".join(undo), stdin))


class Unfiltered(Filtered):
    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 0, check: bool = True) -> Completed:
        return Completed(tuple(argv), 1, "", "Error: No such file or directory")


def make_bed(tmp_path: Path, kind: type[Filtered] = Filtered, own_firewall: str = "") -> Mock:
    return Mock(
        router=kind("router", tmp_path),
        server=kind("server", tmp_path),
        addresses=Addresses(),
        clients_of_traffic="198.18.1.2",
        has_own_far_end=False,
        has_own_router=False,
        own_firewall=lambda: own_firewall,
    )


def test_the_filter_is_there_for_the_block_only(tmp_path: Path) -> None:
    bed = make_bed(tmp_path)
    with installed_filter(bed, NAT) as installed:
        assert installed == BY_NFT  # a fake host prints nothing
        ((undo, ruleset),) = bed.router.rulesets
        assert undo == REMOVE
        assert "masquerade" in ruleset
        ((undo, ruleset),) = bed.server.rulesets
        assert undo == REMOVE_SEEN
        assert "198.18.3.1, 198.18.2.1" in ruleset
        assert commands(bed.router) == [LIST]
    assert (commands(bed.router), commands(bed.server)) == ([LIST, REMOVE], [REMOVE_SEEN])


def test_without_a_filter_nothing_is_changed(tmp_path: Path) -> None:
    bed = make_bed(tmp_path, own_firewall="fw4")
    with installed_filter(bed, NOTHING):
        pass
    assert (bed.router.rulesets, commands(bed.router)) == ([], [])


@pytest.mark.parametrize(
    ("error", "is_kept"), [(TrialFailed("no answer"), True), (KeyboardInterrupt(), False), (LookupError(), False)]
)
def test_the_filter_of_a_failed_tunnel_stays_only_if_it_is_kept(
    error: BaseException, is_kept: bool, tmp_path: Path
) -> None:
    for keep in (True, False):
        bed = make_bed(tmp_path)
        with pytest.raises(type(error)), installed_filter(bed, STATEFUL, keep=keep):
            raise error
        assert (REMOVE in commands(bed.router)) is not (keep and is_kept)


def test_a_router_with_its_own_firewall_is_refused(tmp_path: Path) -> None:
    bed = make_bed(tmp_path, own_firewall="fw4")
    with (
        pytest.raises(TunnelUnavailable, match=r"own \(fw4\), which would be measured, too"),
        installed_filter(bed, NAT),
    ):
        pass


def test_a_router_with_neither_nft_nor_all_programs_of_iptables_is_refused(tmp_path: Path) -> None:
    bed = make_bed(tmp_path)
    bed.router.programs = {"iptables", "iptables-save"}
    with pytest.raises(TunnelUnavailable, match="need nft on the router, or iptables"), installed_filter(bed, RULES):
        pass
    with installed_filter(bed, NOTHING) as installed:
        assert read_filter(bed, NOTHING, installed) == FilterReading(program="")


def test_a_router_with_iptables_alone_gets_chains_and_the_server_its_table(tmp_path: Path) -> None:
    bed = make_bed(tmp_path)
    bed.router.programs = {"iptables", "iptables-restore", "iptables-save"}
    with installed_filter(bed, NAT) as installed:
        assert installed == BY_IPTABLES
        ((remove, chains),) = bed.router.rulesets
        assert "-j MASQUERADE" in chains
        assert commands(bed.router) == ["iptables-save -c"]
        found = read_filter(bed, NAT, installed)
    assert found
    assert (found.counters, found.program) == (None, "iptables")
    assert [undo for undo, _ in bed.server.rulesets] == [REMOVE_SEEN]
    assert commands(bed.router)[-1] == remove


def test_a_kernel_without_connection_tracking_is_unavailable_with_the_words_of_nft(tmp_path: Path) -> None:
    bed = make_bed(tmp_path)
    bed.server.refuses = "/dev/stdin:9:5-10: Error: Could not process rule: No such file\nct state\n^^^^^^"
    with (
        pytest.raises(TunnelUnavailable, match=r"the server cannot set up firewall=stateful-nat: .*No such file$"),
        installed_filter(bed, NAT),
    ):
        pass
    assert commands(bed.router) == [REMOVE]


class Listing(Filtered):
    """A host whose nft lists a table; its rule can be changed."""

    rule = "ip saddr 240.0.0.1 drop"

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 0, check: bool = True) -> Completed:
        counter = f"counter other {{\n\t\tpackets {len(self.rulesets)} bytes 0\n\t}}\n"
        return Completed(tuple(argv), 0, f"table ip x {{\n\t{counter}\tchain trial {{\n\t\t{self.rule}\n\t}}\n}}\n", "")


def test_a_rule_that_was_changed_after_it_was_set_up_is_named(tmp_path: Path) -> None:
    bed = make_bed(tmp_path, Listing)
    with installed_filter(bed, RULES) as installed:
        bed.router.rulesets.append(("", ""))  # its counter grows
        same = read_filter(bed, RULES, installed)
        bed.router.rule = "accept"
        found = read_filter(bed, RULES, installed)
    assert same
    assert same.changed == ""
    assert found
    assert found.changed == "'accept' in place of 'ip saddr 240.0.0.1 drop'"


def test_a_table_that_nobody_asked_for_is_read(tmp_path: Path) -> None:
    found = read_filter(make_bed(tmp_path, Listing), NOTHING, BY_NFT)
    assert found
    assert found.counters == {"other": (0, 0)}
    assert read_filter(make_bed(tmp_path, Unfiltered), NOTHING, BY_NFT) == FilterReading()


def test_a_table_that_has_gone_has_no_counters(tmp_path: Path) -> None:
    found = read_filter(make_bed(tmp_path, Unfiltered), NAT, BY_NFT)
    assert found == FilterReading(None, 0, None, None)
