"""Anonymising removes names from an exported run, and leaves everything else."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from tests.unit.builders import make_proof, make_run, make_trial

from tunnelbench.report.exchange import export
from tunnelbench.report.exchange.anonymise import Stripper

NAMES = {
    "address": ["192.0.2.7", "10.1.2.0/24", "2001:db8::7", "fe80::1%eth0", "2001:db8:0:1::/64"],
    "host name": ["gw.example.org", "nas.lan", "router-7.home.arpa", "vpn.company.de"],
    "user name": ["alice@gw.example.org", "root@192.0.2.1"],
    "home folder": ["/home/alice", "/Users/alice", "/root"],
    "MAC address": ["52:54:00:12:34:56", "52-54-00-ab-cd-ef"],
    "serial number": ["4c4c4544-0042-3510-8058-b4c04f4d3432"],
    "key": [
        "aGVsbG8gd29ybGQgdGhpcyBpcyBhIHNlY3JldCBrZXk=",
        "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----",
        "0123456789abcdef0123456789abcdef",
    ],
}
KEPT = [
    "openvpn 2.6.14, OpenSSL 3.0.19, Linux 6.18.0-rc7",
    "wireguard-go 0.0.20220316",
    "2025-03-14T09:26:53+00:00",
    "12:34:56.789 data went over TCP",
    "AES-128-GCM, SHA-256: 1448 bytes at 94.2 Mbit/s (93.9-94.5)",
    "dev tun0\nproto udp\nsndbuf 0",
    "the engine's far end does not listen: no output",
    "router/tunnel.conf, /etc/openvpn/server.conf, report.py, run.sh",
    "std::vector and a :: b",
]


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NAMES.items() for name in names])
def test_a_name_is_taken_out_of_the_middle_of_a_text(kind: str, name: str) -> None:
    stripper = Stripper()
    text = stripper.text(f"remote {name} seen, twice: {name}")
    assert not any(word in text for word in name.replace("/", " ").split() if len(word) > 3 and word != "home")
    assert f"[{kind}]" in text
    assert kind in stripper.found


@pytest.mark.parametrize("text", KEPT)
def test_what_names_nobody_stays_as_it_is(text: str) -> None:
    stripper = Stripper()
    assert stripper.text(text) == text
    assert stripper.found == {}


def test_a_serial_number_is_known_by_the_word_before_it() -> None:
    assert (
        Stripper().text("Serial Number: ABC12345, s/n 99-77X") == "Serial Number: [serial number], s/n [serial number]"
    )
    assert Stripper().text("a serial line, serial number unknown") == "a serial line, serial number unknown"


def test_hosts_and_users_of_the_testbed_and_of_the_machine_are_known() -> None:
    testbed = (
        'kind = "ssh"\n[router]\nhost = "alice@attic"\nuser = "bob"\npassword = "hunter22"\n[client]\nhost = "router"\n'
    )
    record = make_trial(proof=replace(make_proof(), configuration={"conf": "log /var/log/attic.log of bob, hunter22"}))
    record = replace(
        record,
        reason="alice cannot reach attic from mybox; the router answers",
        raw={"iperf3": {"start": {"system_info": "Linux mybox 6.1.0 #1 SMP x86_64"}}},
    )
    exported = export(make_run(testbed_text=testbed), [record])
    for name in ("alice", "attic", "bob", "hunter22", "mybox"):
        assert name not in exported.text
    assert "[user name] cannot reach [host name] from [host name]; the router answers" in exported.text
    assert dict(exported.stripped["host name"])["attic"] >= 2


def test_the_place_and_the_coordinator_of_a_lab_are_taken_out() -> None:
    testbed = 'kind = "ssh"\nplace = "cellar-3"\ncoordinator = "bastion:20408"\n'
    note = "labgrid has switched the power of the place cellar-3 off and on."
    run = make_run(testbed_text=testbed, host_facts={"router_place": "cellar-3"}, notes=(note,))
    exported = export(run, ()).text
    assert "cellar-3" not in exported
    assert "bastion" not in exported
    assert "the place [host name] off and on" in exported


def test_an_address_at_the_end_of_a_sentence_is_taken_out() -> None:
    stripper = Stripper()
    assert stripper.text("to fe80::1. From 2001:db8::7: none") == "to [address]. From [address]: none"


@pytest.mark.parametrize("piece", [":", "1:", "a.", "serial ", "-----BEGIN ", "a@", "~a", "::1%", "00:"])
def test_a_long_hostile_title_takes_no_time(piece: str) -> None:
    began_s = time.process_time()
    Stripper().text(piece * 5000)
    assert time.process_time() - began_s < 0.5


def test_names_in_keys_are_taken_out_and_no_value_is_lost() -> None:
    facts = {"192.0.2.1": "a", "192.0.2.2": "b", "cpu_model": "x"}
    run = json.loads(export(make_run(host_facts=facts), ()).text)["run"]
    assert run["host_facts"] == {"[address]": "a", "[address]'": "b", "cpu_model": "x"}


def test_output_of_programs_is_left_out_and_counted() -> None:
    exported = export(make_run(), [make_trial(proof=make_proof())])
    assert "Initialization Sequence" not in exported.text
    assert "100 received" not in exported.text
    assert {name for name, _ in exported.stripped["output of a program"]} == {"iperf3-client", "ping", "router.log"}
    assert json.loads(exported.text)["stripped"] == {"output of a program": 3}
