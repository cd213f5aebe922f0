"""Delay, duplicates, reordering, damage, foreign packets and missing far ends are reported; no figure is wrong."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from tests.lab.awaiting import until
from tests.lab.bench import pids_of
from tests.lab.exact import Forwarder, plain_path

from tunnelbench.host.daemon import Daemon
from tunnelbench.host.procfs import parse_snmp
from tunnelbench.model.errors import TrialFailed
from tunnelbench.testbed.netns import NetnsTestbed
from tunnelbench.traffic import engine
from tunnelbench.traffic.engine import SenderLoad

pytestmark = pytest.mark.lab

SLOW = SenderLoad("64", 1.0, 400.0)
"""A load that a forwarder in Python carries on a busy machine."""


def test_duplicates_are_counted_and_are_no_arrivals(testbed: NetnsTestbed) -> None:
    with plain_path(testbed, sizes="64") as exchanger, Forwarder(testbed, "duplicate", 10) as forwarder:
        counts = exchanger.exchange(SLOW)
    assert forwarder.done > 0
    assert counts.sent_packets == forwarder.seen == counts.received_packets
    assert counts.duplicated_packets == forwarder.done
    assert counts.reordered_packets == counts.path_lost_packets == 0


def test_each_packet_that_came_after_a_later_one_is_reordered(testbed: NetnsTestbed) -> None:
    with plain_path(testbed, sizes="64") as exchanger, Forwarder(testbed, "hold", 7) as forwarder:
        counts = exchanger.exchange(SLOW)
    held_for_ever = forwarder.seen % 7 == 0  # the last one had no next
    assert forwarder.done > 1
    assert counts.reordered_packets == forwarder.done - held_for_ever
    assert counts.path_lost_packets == held_for_ever
    assert counts.duplicated_packets == 0


def test_packets_that_were_cut_are_corrupted_and_lost(testbed: NetnsTestbed) -> None:
    with plain_path(testbed, sizes="64") as exchanger, Forwarder(testbed, "cut", 9) as forwarder:
        counts = exchanger.exchange(SLOW)
    assert forwarder.done > 0
    assert counts.corrupted_packets == forwarder.done
    assert counts.lost_packets == forwarder.done
    assert counts.received_packets == counts.sent_packets - forwarder.done


def test_a_delay_is_measured(testbed: NetnsTestbed) -> None:
    with plain_path(testbed, sizes="64") as exchanger, Forwarder(testbed, "delay", 1, 0.05):
        counts = exchanger.exchange(SenderLoad("64", 1.0, 200.0, takes_delays=True))
    assert counts.path_lost_packets == 0
    assert counts.delay is not None
    assert 50e6 <= counts.delay.min_ns < 60e6
    assert counts.delay.count == counts.received_packets


def test_what_comes_after_a_second_is_late_and_lost(testbed: NetnsTestbed) -> None:
    with plain_path(testbed, sizes="64") as exchanger, Forwarder(testbed, "delay", 20, 1.2) as forwarder:
        counts = exchanger.exchange(SenderLoad("64", 1.0, 200.0, takes_delays=True))
    assert forwarder.done > 2
    assert counts.path_lost_packets == forwarder.done
    # The last packets arrive after the end of the trial.
    assert 0 < (counts.late_packets or 0) <= forwarder.done


def test_a_search_waits_for_each_packet_that_a_later_one_has_overtaken(testbed: NetnsTestbed) -> None:
    with plain_path(testbed, sizes="64") as exchanger, Forwarder(testbed, "delay", 19, 0.4) as forwarder:
        point = exchanger.point(1.0, 200.0)
    assert forwarder.done > 2
    assert point.forwarded_packets == point.offered_packets == forwarder.seen


def test_a_flood_of_strangers_changes_no_count(testbed: NetnsTestbed) -> None:
    flood = (
        "import os, socket, time\n"
        "sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "end = time.monotonic() + 3\n"
        "while time.monotonic() < end:\n"
        f"    sender.sendto(os.urandom(18), ('{testbed.addresses.target}', {engine.ENGINE_PORT}))\n"
        f"    sender.sendto(os.urandom(3), ('{testbed.addresses.target}', {engine.ENGINE_PORT}))\n"
        "    time.sleep(0.0005)\n"
    )
    with plain_path(testbed) as exchanger:
        flooding = testbed.client.start([sys.executable, "-c", flood])
        try:
            counts = exchanger.exchange(SenderLoad("18", 1.0, 1000.0))
        finally:
            flooding.stop()
    assert counts.foreign_packets > 100
    assert counts.received_packets == counts.sent_packets
    assert counts.duplicated_packets == counts.corrupted_packets == counts.path_lost_packets == 0


def test_a_wrong_checksum_is_no_drop_of_a_testers_socket(testbed: NetnsTestbed) -> None:
    # Raw sockets take the UDP header as it is; the kernel checks packets of up to 68 bytes of payload before others.
    target, port = testbed.addresses.target, engine.ENGINE_PORT
    wrong = (
        "import socket, struct, time\n"
        "sender = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)\n"
        "for _ in range(100):\n"
        "    for payload in (bytes(18), bytes(1000)):\n"
        f"        header = struct.pack('!4H', 9, {port}, 8 + len(payload), 1)\n"
        f"        sender.sendto(header + payload, ('{target}', 0))\n"
        "    time.sleep(0.005)\n"
    )

    def send(sender: Daemon) -> None:
        testbed.client.run([sys.executable, "-c", wrong])
        sender.wait(10)

    def checksum_errors() -> int:
        return parse_snmp(testbed.server.read("/proc/net/snmp"))["Udp.InCsumErrors"]

    with plain_path(testbed) as exchanger:
        before = checksum_errors()
        counts = exchanger.exchange(SenderLoad("18", 2.0, 1000.0), send)
        assert checksum_errors() - before == 200
    assert counts.tester_dropped_packets == counts.corrupted_packets == counts.foreign_packets == 0
    assert counts.received_packets == counts.sent_packets


def test_a_far_end_that_dies_gives_no_figure(testbed: NetnsTestbed) -> None:
    def kill(sender: Daemon) -> None:
        until(lambda: parse_snmp(testbed.server.read("/proc/net/snmp"))["Udp.InDatagrams"] > 100, "100 packets")
        for pid in pids_of(testbed.server.namespace, engine.ENGINE_PROGRAM[:15]):
            os.kill(pid, signal.SIGKILL)
        sender.wait(10)

    with (
        plain_path(testbed) as exchanger,
        pytest.raises(TrialFailed, match=r"refused|ended without a summary") as caught,
    ):
        exchanger.exchange(SenderLoad("18", 1.0, 1000.0), kill)
    assert set(caught.value.raw) == {"load", "engine_far_end", "engine_sender"}


def test_a_sender_that_prints_nothing_is_reported_with_its_status(
    testbed: NetnsTestbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with plain_path(testbed) as exchanger:
        usual = exchanger.commands
        monkeypatch.setattr(exchanger, "commands", lambda load: (usual(load)[0], ["false"]))
        with pytest.raises(TrialFailed, match="the engine's sender ended with status 1 and printed nothing"):
            exchanger.exchange(SenderLoad("18", 1.0, 1000.0))


def test_a_far_end_that_does_not_come_up_is_reported_in_its_words(testbed: NetnsTestbed) -> None:
    with plain_path(testbed) as exchanger:
        testbed.server.ip("addr", "del", f"{testbed.addresses.target}/32", "dev", "lo")
        with pytest.raises(TrialFailed, match=r"does not listen: .*cannot bind"):
            exchanger.exchange(SenderLoad("18", 1.0, 1000.0))


def test_a_way_that_leads_nowhere_loses_everything(testbed: NetnsTestbed) -> None:
    with plain_path(testbed) as exchanger:
        testbed.router.ip("route", "add", "blackhole", f"{testbed.addresses.target}/32", "metric", "0", "table", "99")
        testbed.router.ip("rule", "add", "iif", testbed.lan_device, "lookup", "99")
        counts = exchanger.exchange(SenderLoad("18", 1.0, 500.0))
    assert (counts.received_packets, counts.loss_ratio) == (0, 1.0)
