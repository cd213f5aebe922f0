"""Delay and loss of a line, in a guest whose kernel has sch_netem.

`make test` leaves it out, because a guest takes some minutes on a busy machine; `make test-debian-kernel` runs it.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.lab.bench import TUNNELBENCH
from tests.lab.test_guest import LIMIT_S

from tunnelbench.model.lines import LINES, LineName

pytestmark = pytest.mark.lab

IN_GUEST = """
rounds = 1
[udp]
payload_bytes = 100
direction = "in"
test = "rekey"
rate = 500
duration_s = 20
[[tunnel]]
kind = "none"
name = "{line}"
line = ["lte", "gigabit"]
"""


@pytest.mark.timeout(2 * LIMIT_S + 100)
def test_a_kernel_with_netem_gives_a_line_its_delay_and_its_loss(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(IN_GUEST)
    store = str(tmp_path / "results.sqlite")
    argv = [TUNNELBENCH, "run", str(plan), "--on", "netns-debian", "--set", "quiet_wait_s=0", "--store", store]
    done = subprocess.run([*argv, "--json"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode in {0, 3}, done.stderr  # 3: on a machine that others use, no figure counts
    trials = {trial["spec"]["tunnel"]["name"]: trial for trial in json.loads(done.stdout)["trials"]}
    found = {name: trials[name]["udp"]["counts"] for name in ("lte", "gigabit")}
    line = LINES[LineName.LTE]
    print({name: (each["delay"], each["sent_packets"], each["received_packets"]) for name, each in found.items()})
    longer_ms = (found["lte"]["delay"]["p50_ns"] - found["gigabit"]["delay"]["p50_ns"]) / 1e6
    assert longer_ms == pytest.approx(line.delay_ms, abs=2)
    sent = found["lte"]["sent_packets"]
    lost = sent - found["lte"]["received_packets"]
    assert sent * line.loss_percent / 100 * 0.2 <= lost <= sent * line.loss_percent / 100 * 3
    (said,) = (each for each in trials["lte"]["checks"] if each["name"] == "line")
    assert said["verdict"] == "ok"
    assert "25 ms each way and 0.1 % loss" in said["reason"]
