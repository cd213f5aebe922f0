"""Client and server on two machines with a router between them: the server is reached by SSH, too."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest
from tests.lab.bench import check
from tests.lab.rig import BEHIND, BESIDE, FW4, OTHER, WAN, Rig, gateway, other_laptop, plan, router, run

from tunnelbench import __version__
from tunnelbench.cli.common_options import open_store
from tunnelbench.cli.doctor_remote import packet_engine
from tunnelbench.measure.engine_setup import engine_on
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.result import Outcome, Verdict
from tunnelbench.traffic import engine

pytestmark = pytest.mark.lab

UDP = """
rounds = 1
[udp]
payload_bytes = 18
direction = "in"
test = ["rate", "echo"]
rate = 500
duration_s = 4
[[tunnel]]
kind = "none"
"""


def two_laptops(rig: Rig) -> str:
    """Return the path of the testbed file."""
    return str(
        rig.testbed_file(
            f'wan_device = "wan0"\nwan_address = "{WAN}.1/24"\n[server]\nhost = "root@{BESIDE}.1"\n'
            f'config = "{rig.ssh_config}"\ndevice = "nic1"\naddress = "{WAN}.2/24"\n',
            quiet_wait_s=0,  # the other laptop's programs run on this machine and count as background load
        )
    )


@pytest.mark.alone  # its two ends and the router share this machine's CPUs
def test_udp_from_another_laptop_is_counted_to_the_packet_by_a_copied_engine(
    untouched: Rig, store: str, tmp_path: Path
) -> None:
    with other_laptop(untouched):
        words = ["run", plan(tmp_path, UDP), "--on", two_laptops(untouched), "--store", store, "--json"]
        done = untouched.tunnelbench(*words, check=False)  # status 3 where others load the machine
        assert run("ip", "netns", "exec", OTHER, "nft", "list", "tables") == ""
    assert done.returncode in {0, 3}, done.stderr
    found = json.loads(done.stdout)
    trials = {trial["spec"]["test"]: trial for trial in found["trials"] if trial["spec"]["round"]}
    for test in ("rate", "echo"):
        trial = trials[test]
        assert trial["outcome"] == "measured", trial["reason"]
        counts, counters = trial["udp"]["counts"], trial["udp"]["counters"]
        lost = counts["sent_packets"] - counts["received_packets"] - counts["tester_dropped_packets"]
        assert 0 <= lost <= counts["sent_packets"] * 0.01
        back = counts["reached_packets"] or 0
        assert abs(counters["data_packets"] + counters["ack_packets"] - counts["received_packets"] - back) < 60
        checks = {check["name"]: check for check in trial["checks"]}
        judged = [checks[name] for name in ("merged-frames", "outer-protocol-in-trial", "packet-count")]
        assert {check["verdict"] for check in judged} == {"ok"}, judged
        assert "sampling" in checks
    assert trials["rate"]["udp"]["counts"]["late_packets"] is None  # unknown with two clocks
    assert trials["echo"]["udp"]["counts"]["late_packets"] is not None  # known with one clock, there and back


PAIR = f"""
wan_device = "wan0"
wan_address = "{WAN}.1/24"
[gateway]
host = "root@{BESIDE}.1"
config = "{{config}}"
wan_device = "nic1"
lan_device = "lan2"
[server]
device = "nic2"
address = "{BEHIND}.2/24"
"""
PAIRS_PLAN = """
rounds = 1
[tcp]
duration_s = 4
payload_bytes = 1200
direction = ["out", "in"]
[udp]
payload_bytes = 18
direction = "in"
test = "rate"
rate = 500
duration_s = 4
[[tunnel]]
kind = "openvpn"
"""


def test_a_tunnel_between_two_real_gateways_ends_before_the_server(untouched: Rig, store: str, tmp_path: Path) -> None:
    with gateway(untouched):
        before = run("ip", "netns", "exec", OTHER, "ip", "route")
        on_gateway = ("ip", "netns", "exec", OTHER, "nft")
        run(*on_gateway, "-f", "-", stdin=FW4)
        rules = run(*on_gateway, "list", "ruleset")
        file = untouched.testbed_file(PAIR.format(config=untouched.ssh_config), quiet_wait_s=0, topology="gateway-pair")
        doctor = untouched.tunnelbench("doctor", "--all", "--on", str(file), check=False).stdout
        words = ["run", plan(tmp_path, PAIRS_PLAN), "--on", str(file), "--store", store, "--json"]
        done = untouched.tunnelbench(*words, check=False, timeout_s=200)  # status 3 where others load the machine
        assert run("ip", "netns", "exec", OTHER, "ip", "route") == before
        assert run(*on_gateway, "list", "ruleset") == rules
    assert done.returncode in {0, 3}, done.stderr
    assert f"gateway's LAN lan2 {BEHIND}.1/24 - nic2 {BEHIND}.2/24" in " ".join(doctor.split())
    found = json.loads(done.stdout)
    assert found["run"]["host_facts"]["gateway_kernel"] == found["run"]["host_facts"]["router_kernel"]
    with open_store(Path(store)) as kept:
        records = [record for record in kept.trials(found["run"]["run_id"]) if record.spec.round]
    assert len(records) == 6
    assert "the gateway's firewall (fw4) was left on" in " ".join(found["run"]["notes"])
    for record in records:
        assert record.outcome is Outcome.MEASURED, record.reason
        assert record.proof is not None
        assert {each.reason for each in record.proof.checks if each.verdict is not Verdict.OK} == set()
        assert check(record, "outer-protocol-in-trial").verdict is Verdict.OK
        if record.udp:
            assert record.udp.counts is not None
            assert record.udp.counts.received_packets > 0
            continue
        assert record.tcp is not None
        counters = record.tcp.counters
        assert counters.outer_other_packets == 0
        assert counters.forwarded_packets > counters.data_packets * 0.9
        # The gateway forwards each packet, and the server sees none of the tunnel.
        first, last = (record.raw[name]["far"]["devices"]["lan2"] for name in ("counters_before", "counters_after"))
        carried = sum(last[way] - first[way] for way in ("rx_packets", "tx_packets"))
        assert carried >= (counters.data_packets + counters.ack_packets) * 0.98


def test_a_tester_on_which_the_engine_cannot_run_is_recognised(
    untouched: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with router(untouched, tmp_path / "a") as host:
        ours = Path(engine.locate())
        other = tmp_path / engine.ENGINE_PROGRAM
        other.write_bytes(b"\x7fELF of another C library")
        with monkeypatch.context() as patched:
            patched.setattr(platform, "machine", lambda: "riscv64")
            with pytest.raises(CannotHere, match=r"that of this machine is for riscv64, not \w+"):
                engine_on(host)
        with monkeypatch.context() as patched:
            patched.setattr(engine, "locate", lambda: str(other))
            with pytest.raises(CannotHere, match="this machine's does not run on it: "):
                engine_on(host)
        assert packet_engine(host).found == "this machine's is copied for a run"
        brought = engine_on(host)
        assert brought == str(host.folder / engine.ENGINE_PROGRAM)
        assert host.fetch(Path(brought)) == ours.read_bytes()
        assert host.run([brought, "--version"]).stdout.strip() == f"{engine.ENGINE_PROGRAM} {__version__}"
        assert engine_on(host) == packet_engine(host).found == brought
        host.forget()
