"""Client and server on two machines with a router between them: the server is reached by SSH, too."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest
from tests.lab.rig import BESIDE, OTHER, WAN, Rig, other_laptop, plan, router, run

from tunnelbench import __version__
from tunnelbench.cli.doctor_remote import packet_engine
from tunnelbench.measure.engine_setup import engine_on
from tunnelbench.model.errors import CannotHere
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
