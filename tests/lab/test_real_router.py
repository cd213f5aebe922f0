"""A router that is reached by SSH: dropbear and BusyBox in a namespace, a laptop with two cards in another."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from tests.lab import rig as rigs
from tests.lab.awaiting import await_traffic, until
from tests.lab.bench import STARVED
from tests.lab.rig import FW4, LAN, Rig, plan, router, start

from tunnelbench.host.ssh import LinkLost
from tunnelbench.model.errors import CannotHere
from tunnelbench.testbed import firewall
from tunnelbench.testbed.base import Addresses
from tunnelbench.testbed.firewall import Traffic
from tunnelbench.tunnel import adapter, unmet

pytestmark = pytest.mark.lab

PLAN = """
rounds = 1
[tcp]
duration_s = 4
payload_bytes = 1448
direction = "out"
[[tunnel]]
kind = "openvpn"
[[tunnel]]
kind = "tinc"
"""

SHORT_PLAN = '[tcp]\nduration_s = 4\npayload_bytes = 1448\ndirection = "out"\n[[tunnel]]\nkind = "none"\n'


def test_a_run_survives_a_lost_connection_and_leaves_the_router_as_it_was(
    untouched: Rig, store: str, tmp_path: Path
) -> None:
    words = ["run", plan(tmp_path, PLAN), "--on", str(untouched.testbed_file()), "--store", store, "--json"]
    running = start(*words)
    try:
        until(lambda: untouched.on_router("ls /tmp/tunnelbench-dut-*/samples || true") != "", "the first trial")
        await_traffic(running.pid)
        untouched.end_sessions()
        output, errors = running.communicate(timeout=90)
    finally:
        running.kill()
    found = json.loads(output)
    records = {trial["spec"]["tunnel"]["kind"]: trial for trial in found["trials"]}
    lost = [trial["reason"] for trial in found["trials"] if "SSH connection to the router was lost" in trial["reason"]]
    void = [trial["reason"] for trial in found["trials"] if trial["outcome"] == "void"]
    assert [reason for reason in void if not reason.startswith(STARVED)] == lost
    assert len(lost) == 1
    assert records["openvpn"]["outcome"] == "measured", (records["openvpn"]["reason"], errors)
    window = records["openvpn"]["tcp"]["window"]
    assert window["router_cpu"]["wall_s"] == pytest.approx(window["duration_s"])
    assert window["program_cpu_s"]["openvpn"] > 0
    assert "sampling" in {check["name"] for check in records["openvpn"]["checks"]}
    assert "on the router: the program tincd is missing" in records["tinc"]["reason"]
    assert found["run"]["host_facts"]["router_busybox"]


CLIENTS_PLAN = """
rounds = 1
[tcp]
duration_s = 4
payload_bytes = 1200
direction = "out"
[clients]
count = 2
[[tunnel]]
kind = "openvpn"
"""


def test_a_real_router_is_the_server_of_two_clients(untouched: Rig, store: str, tmp_path: Path) -> None:
    untouched.on_router(f"nft -f - <<'END'\n{FW4}\nEND\n")
    try:
        testbed = str(untouched.testbed_file(topology="road-warrior"))
        words = ["run", plan(tmp_path, CLIENTS_PLAN), "--on", testbed, "--store", store, "--json"]
        found = json.loads(untouched.tunnelbench(*words, check=False, timeout_s=200).stdout)
    finally:
        untouched.on_router("nft delete table inet fw4")
    trials = {trial["spec"]["tunnel"]["kind"]: trial for trial in found["trials"] if trial["spec"]["tunnel"]["kind"]}
    for kind in ("none", "openvpn"):
        trial = trials[kind]
        assert trial["proof"] is not None, trial["reason"]
        assert {each["reason"] for each in trial["proof"]["checks"] if each["verdict"] != "ok"} == set()
        assert trial["outcome"] == "measured", trial["reason"]
        other = [each for each in trial["checks"] if each["name"] == "outer-protocol-in-trial"]
        assert [each["verdict"] for each in other] == ["ok"]
        assert trial["tcp"]["counters"]["outer_other_packets"] == 0, "the SSH connection is left out"
        assert trial["tcp"]["window"]["router_cpu"]["wall_s"] > 0
    assert len(trials["openvpn"]["tcp"]["clients"]) == 2
    assert trials["openvpn"]["tcp"]["window"]["program_cpu_s"]["openvpn"] > 0


def test_all_devices_of_the_path_have_the_mtu_of_the_testbed_file_for_the_run(
    untouched: Rig, store: str, tmp_path: Path
) -> None:
    testbed = str(untouched.testbed_file("[link]\nmtu_bytes = 1492"))
    words = ["run", plan(tmp_path, f"rounds = 1\n{SHORT_PLAN}"), "--on", testbed, "--store", store, "--json"]
    done = untouched.tunnelbench(*words, check=False, timeout_s=200)  # 3: a busy machine's trials do not count
    (trial,) = [each for each in json.loads(done.stdout)["trials"] if each["spec"]["tunnel"]["kind"] == "none"]
    assert trial["outcome"] == "measured", trial["reason"]
    assert trial["proof"]["inner_mtu_bytes"] == 1492
    assert trial["tcp"]["mss_bytes"] == 1492 - 20 - 32


def test_after_kill_9_clean_brings_both_cards_back_as_they_were(untouched: Rig, store: str, tmp_path: Path) -> None:
    testbed = str(untouched.testbed_file("[client]\nnamespace = true\n"))
    running = start("run", plan(tmp_path, SHORT_PLAN), "--on", testbed, "--store", store)
    try:
        await_traffic(running.pid)
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate()
    done = untouched.tunnelbench("clean", "--on", testbed, "--store", store)
    assert "of this machine's network" in done.stdout
    assert "undid the changes of" in done.stdout


def test_a_second_controller_is_refused(untouched: Rig, tmp_path: Path) -> None:
    with router(untouched, tmp_path / "a") as first, router(untouched, tmp_path / "b") as second:
        first.take()
        with pytest.raises(CannotHere, match=r"root@192\.168\.77\.1: .*test-a uses this router for another"):
            second.take()


def test_openwrts_firewall_passes_the_testbed_and_is_restored_afterwards(untouched: Rig, tmp_path: Path) -> None:
    untouched.on_router(f"nft -f - <<'END'\n{FW4}\nEND\n")
    try:
        before = untouched.on_router("nft list ruleset")
        a = Addresses()
        with router(untouched, tmp_path / "a") as host:
            assert firewall.kind(host) == "fw4"
            host.take()
            firewall.open_for(host, firewall.rules(Traffic("lan0", f"{LAN}.2", (a.target,), "wan0", f"{rigs.WAN}.2")))
            rules = [line.split(" comment")[0].strip() for line in untouched.on_router("nft list ruleset").splitlines()]
            forward = rules[rules.index("chain forward {") + 2 :]
            assert forward[0] == "ct state established,related accept"
            assert set(forward[1:3]) == {
                f'iifname "lan0" ip saddr {LAN}.2 ip daddr {a.target} accept',
                f'oifname "lan0" ip saddr {a.target} ip daddr {LAN}.2 accept',
            }
            assert f'iifname "wan0" ip saddr {rigs.WAN}.2 accept' in rules
            no_nat = f'oifname != "lan0" ip saddr {LAN}.2 ip daddr {a.target} accept'
            assert rules.index("masquerade") == rules.index(no_nat) + 1
        assert untouched.on_router("nft list ruleset") == before
    finally:
        untouched.on_router("nft delete table inet fw4")


def test_the_routers_watchdog_undoes_everything_when_the_lease_has_run_out(untouched: Rig, tmp_path: Path) -> None:
    before = untouched.state()
    host = router(untouched, tmp_path / "a")
    host.connect()
    host.take()
    host.ip("route", "add", "198.18.4.1/32", "via", f"{rigs.WAN}.2")
    host.set_kernel_file("/proc/sys/net/ipv4/ip_forward", "1")
    program = host.start(["tail", "-f", "/dev/null"])
    assert untouched.state() != before
    host._call_script("lease", "extend", str(host.folder), host.owner, "1")
    untouched.end_sessions()
    time.sleep(1.1)  # longer than the lease
    untouched.end_sleepers()  # it would look again in 30 s
    until(lambda: untouched.state() == before, "everything is put back")
    assert "tail" not in untouched.on_router("ps | grep '[t]ail -f' || true")
    program.kill()
    host.close()


@pytest.mark.parametrize(
    ("spoil", "access", "words"),
    [
        ("key", {}, "its host key is not the one that this machine knows"),
        ("unknown", {}, "this machine does not know its host key"),
        (
            "",
            {"identity": "/dev/null", "config": "no-key"},
            "it accepts none of your keys, and TunnelBench uses no passwords",
        ),
        ("", {"port": 23}, "no SSH server answers on that port"),
        ("", {"host": "root@no-such-host.invalid"}, "there is no host of that name"),
    ],
)
def test_what_is_wrong_with_a_connection_is_said_in_a_sentence_at_once(
    rig: Rig, tmp_path: Path, spoil: str, access: dict[str, object], words: str
) -> None:
    known = rig.known_hosts.read_text()
    other = rigs.run("ssh-keygen", "-y", "-f", str(rig.folder / "id")).split()
    rig.known_hosts.write_text({"key": f"{LAN}.1 {other[0]} {other[1]}\n", "unknown": ""}.get(spoil, known))
    if access.get("config") == "no-key":
        config = tmp_path / "no-key"
        config.write_text(rig.ssh_config.read_text().replace(f"{rig.folder}/id\n", "/dev/null\n"))
        access = {**access, "config": str(config)}
    try:
        started_s = time.monotonic()
        with pytest.raises(LinkLost) as caught:
            router(rig, tmp_path / "a", **access).connect()
        assert words in caught.value.message
        assert caught.value.hint
        assert time.monotonic() - started_s < 15
    finally:
        rig.known_hosts.write_text(known)


def test_a_full_tmp_of_the_router_is_said(untouched: Rig, tmp_path: Path) -> None:
    with router(untouched, tmp_path / "a") as host:
        host.take()
        untouched.on_router("dd if=/dev/zero of=/tmp/full bs=64k 2>/dev/null; true")
        try:
            with pytest.raises(CannotHere, match=r"cannot be written on the router: .*No space left"):
                host.write("openvpn.conf", "x" * 10_000)
        finally:
            untouched.on_router("rm /tmp/full")


def test_a_program_that_the_router_lacks_is_named_and_keys_are_made_elsewhere(untouched: Rig, tmp_path: Path) -> None:
    with router(untouched, tmp_path / "a") as host:
        for kind, lacking in (("tinc", ["the program tincd"]), ("openvpn", [])):
            options = adapter(kind).options_type()
            assert [requirement.what for requirement in unmet(kind, options, host)] == lacking
        host.forget()


def test_files_programs_and_their_output_come_over_the_one_connection(untouched: Rig, tmp_path: Path) -> None:
    with router(untouched, tmp_path / "a") as host:
        path = host.write("sub/key", "secret 'quoted'\n")
        assert host.fetch(path) == b"secret 'quoted'\n"
        assert host.run(["stat", "-c", "%a", str(path)]).stdout.strip() == "600"
        echo = host.start(["sh", "-c", "echo up; trap 'echo bye; exit' INT; while :; do sleep 1; done"], name="echo")
        assert echo.wait_for("up", 5)
        assert host.run(["cat", f"/proc/{echo.pid}/comm"]).stdout.strip() == "sh"
        echo.interrupt()
        assert echo.wait_for("bye", 5)
        echo.stop()
        reader = host.start(["cat"], has_input=True)
        reader.close_input()
        assert reader.wait(5)
        host.forget()


def test_a_router_that_nobody_described_is_found_drawn_and_written_down(untouched: Rig, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    done = untouched.tunnelbench("run", "--router", f"root@{LAN}.1", "--save", str(file), check=False)
    assert done.returncode == 2
    assert "add --yes" in done.stderr
    assert f"nic0 {LAN}.2/24 ─────  lan0 {LAN}.1/24  LAN: the client" in done.stdout
    assert untouched.tunnelbench("check", str(file)).returncode == 0


OWNERS_PLAN = """
rounds = 1
[tcp]
duration_s = 4
payload_bytes = 1400
direction = "out"
[[tunnel]]
kind = "none"
inside = "ipv6"
[[tunnel]]
kind = "vxlan"
"""


def test_a_routers_own_vxlan_device_and_link_local_address_stay(untouched: Rig, store: str, tmp_path: Path) -> None:
    disable = "/proc/sys/net/ipv6/conf/lan0/disable_ipv6"
    was = untouched.on_router(f"cat {disable}; echo 0 >{disable}").strip()
    untouched.on_router("ip link add vxlan0 type vxlan id 7 dstport 4789 dev lan0; ip addr add fe80::1/64 dev lan0")
    try:
        before = untouched.on_router("ip link show dev vxlan0")
        words = ["run", plan(tmp_path, OWNERS_PLAN), "--on", str(untouched.testbed_file()), "--store", store, "--json"]
        found = json.loads(untouched.tunnelbench(*words, check=False).stdout)
        trials = {trial["spec"]["tunnel"]["kind"]: trial for trial in found["trials"]}
        assert trials["none"]["outcome"] == "measured", trials["none"]["reason"]
        assert trials["vxlan"]["outcome"] == "refused"
        assert "the router has a network device vxlan0 already, which this run did not add" in trials["vxlan"]["reason"]
        assert untouched.on_router("ip link show dev vxlan0") == before
        assert "fe80::1/64" in untouched.on_router("ip addr show dev lan0")
    finally:
        untouched.on_router(f"ip link del vxlan0; ip addr del fe80::1/64 dev lan0; echo {was} >{disable}")
