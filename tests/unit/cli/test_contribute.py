"""`tunnelbench contribute`: a run of a virtual router is accepted and shown on a site; hostile files are refused."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.builders import make_records, make_run
from tests.unit.cli.conftest import CommandLine

from tunnelbench.cli import contribute, contributed_files
from tunnelbench.cli.plans import load_plan, planned_trials
from tunnelbench.measure.checks import OWN_CPU
from tunnelbench.model.plan import TunnelSpec
from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.plan import shipped_plans
from tunnelbench.reference.devices import device_lines
from tunnelbench.report.contribution.names import of_cipher, of_names
from tunnelbench.report.contribution.planned import of_plan
from tunnelbench.report.exchange import Imported, read
from tunnelbench.report.exchange.anonymise import Stripper
from tunnelbench.report.exchange.file import CHECKSUM, checksum
from tunnelbench.store.store import Store

ROOT = Path(__file__).parents[3]
SAMPLE = Path(__file__).parent / "test_contribute" / "virtual-router.json"
"""A run of `tunnelbench run --on malta`: no tunnel, WireGuard and OpenVPN on a router that QEMU emulates."""
CONTENT = SAMPLE.read_bytes()
RUN_ID = json.loads(CONTENT)["run"]["run_id"]
DEVICE = "mips-p5600-on-a-malta-board-on-a-virtual-router-emulated"
MIPS_ROUTER: dict[str, object] = {
    "router_kernel": "6.6.110", "router_architecture": "mips", "router_cpus": 1, "router_memory_mib": 27,
}  # fmt: skip
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def sample() -> Imported:
    return read(CONTENT)


def put(folder: Path, content: bytes = CONTENT, place: str = f"{DEVICE}/{RUN_ID}.json") -> Path:
    """Put a file into `results` of a folder; returns its path."""
    path = folder / "results" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def changed(change: Change) -> bytes:
    """Return the sample in which somebody changed something and corrected the checksum."""
    whole = json.loads(CONTENT)
    change(whole)
    whole[CHECKSUM] = checksum(whole)
    return json.dumps(whole).encode()


def stored(path: Path, run: RunRecord, records: tuple[TrialRecord, ...]) -> Path:
    with Store.open(path) as store:
        store.add_run(run, records, ())
    return path


@pytest.fixture
def store(tmp_path: Path, sample: Imported) -> Path:
    """A store with the sample as the run was there where it was measured."""
    run = replace(sample.run, run_id=sample.original_id, status="done", notes=sample.own_notes)
    return stored(tmp_path / "store.sqlite", run, sample.records)


def test_a_run_is_written_with_the_text_of_a_pull_request_and_passes_the_check(
    type_in: CommandLine, tmp_path: Path, store: Path, sample: Imported
) -> None:
    result = type_in("contribute", "last", "--to", tmp_path, "--store", store)
    assert result.exit_code == 0, result.stderr
    path = tmp_path / "results" / DEVICE / f"{RUN_ID}.json"
    assert read(path.read_bytes()).records == sample.records
    assert result.stdout == (tmp_path / "pull-request.md").read_text()
    assert result.stdout.startswith("# Result: MIPS P5600 on a Malta board (on a virtual router, emulated)")
    assert "| OpenVPN AES-128-GCM |" in result.stdout
    assert f"`results/{DEVICE}/{RUN_ID}.json`" in result.stdout
    assert f"git add results/{DEVICE}/{RUN_ID}.json" in result.stderr
    checked = type_in("contribute", "--check", tmp_path / "results")
    assert (checked.exit_code, checked.stdout) == (0, "")
    assert "1 file checked, 0 paths refused" in checked.stderr


def test_the_text_of_the_pull_request_goes_where_it_is_wanted(
    type_in: CommandLine, tmp_path: Path, store: Path
) -> None:
    text = tmp_path / "text.md"
    assert type_in("contribute", "--to", tmp_path, "--text", text, "--store", store).exit_code == 0
    assert text.read_text().startswith("# Result: ")
    assert not (tmp_path / "pull-request.md").exists()


def test_a_contributed_run_is_on_the_site_that_make_site_builds(tmp_path: Path) -> None:
    put(tmp_path)
    made = make_site(tmp_path)
    assert made.returncode == 0, made.stderr
    index = json.loads((tmp_path / "site" / "index.json").read_text())
    (run,) = index["runs"]
    assert run["device"] == "MIPS P5600 on a Malta board (on a virtual router, emulated)"
    assert {result["kind"] for result in run["results"]} == {"none", "wireguard", "openvpn"}
    assert (tmp_path / "site" / run["page"]).exists()
    assert (tmp_path / "site" / run["data"]).read_bytes() == CONTENT
    assert run["device"] in (tmp_path / "site" / "index.html").read_text()


def test_make_site_ends_if_a_contributed_file_is_refused(tmp_path: Path) -> None:
    put(tmp_path)
    put(tmp_path, b"{}", "box/20260101-000000-abcdef.json")
    made = make_site(tmp_path)
    assert made.returncode != 0
    assert "box/20260101-000000-abcdef.json: it is JSON, but not an exported run" in made.stdout
    assert not (tmp_path / "site").exists()


def test_the_site_of_no_contributed_run_has_the_published_results(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "results", tmp_path / "results", ignore=lambda *_: ["device"])
    for folder in (tmp_path / "results").iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
    made = make_site(tmp_path)
    assert made.returncode == 0, made.stderr
    index = json.loads((tmp_path / "site" / "index.json").read_text())
    assert index["runs"] == []
    assert len(index["references"]) > 0


def make_site(folder: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("tunnelbench")
    words = (f"SITE={folder / 'site'}", f"RESULTS={folder / 'results'}", f"TUNNELBENCH={program}")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = ["make", "-C", str(ROOT), "--no-print-directory", "site", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_contributed_runs_of_the_project_pass_the_check(type_in: CommandLine) -> None:
    result = type_in("contribute", "--check", ROOT / "results")
    assert (result.exit_code, result.stdout) == (0, "")


# Hostile contributions


def trials_of(whole: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [each for each in whole["trials"] if each["spec"]["tunnel"]["kind"] == kind and each["tcp"]]


def multiply(trial: dict[str, Any], factor: int) -> None:
    """Multiply all that grows with the throughput, so that the figures of the trial still fit each other."""
    tcp = trial["tcp"]
    for place, names in (
        (tcp, ("bytes_received", "bytes_sent")),
        (tcp["window"], ("data_packets", "ack_packets")),
        (tcp["counters"], ("data_packets", "data_bytes", "ack_packets", "forwarded_packets", "outer_expected_packets",
                           "outer_expected_bytes", "wan_packets")),
        *((interval, ("bytes",)) for interval in tcp["intervals"]),
    ):  # fmt: skip
        for name in names:
            place[name] *= factor


def beyond_the_line(whole: dict[str, Any]) -> None:
    """Make OpenVPN nine times as fast as it was; the line is said to carry 50 Mbit/s."""
    for trial in whole["trials"]:
        if trial["tcp"] and trial["spec"]["round"]:
            trial["tcp"]["physical_limit_bps"] = 5e7
    for trial in trials_of(whole, "openvpn"):
        multiply(trial, 9)


def faster_than_no_tunnel(whole: dict[str, Any]) -> None:
    for trial in trials_of(whole, "wireguard"):
        multiply(trial, 30)


def rosier_verdict(whole: dict[str, Any]) -> None:
    """Let the hypervisor take CPU time, and call the trial good."""
    trials_of(whole, "wireguard")[0]["tcp"]["window"]["tester_cpu"]["steal_s"] = 2.0


def hidden_verdict(whole: dict[str, Any]) -> None:
    trial = trials_of(whole, "wireguard")[0]
    trial["checks"] = [check for check in trial["checks"] if check["name"] != "foreign-load"]


def faster_by_hand(whole: dict[str, Any]) -> None:
    trials_of(whole, "openvpn")[0]["tcp"]["bytes_received"] *= 2


def void_proof(whole: dict[str, Any]) -> None:
    number = trials_of(whole, "openvpn")[0]["proof"]
    check = next(each for each in whole["proofs"][number]["checks"] if each["name"] == "payload-pattern")
    check["verdict"] = "void"


def no_proof(whole: dict[str, Any]) -> None:
    for trial in trials_of(whole, "wireguard"):
        trial["proof"] = None


def encrypted_vxlan(whole: dict[str, Any]) -> None:
    for trial in trials_of(whole, "wireguard"):
        trial["spec"]["tunnel"] |= {"kind": "vxlan", "options": {"vni": 42, "port": 4789}}


def unknown_kind(whole: dict[str, Any]) -> None:
    for trial in trials_of(whole, "wireguard"):
        trial["spec"]["tunnel"]["kind"] = "quantum"


def copied_trial(whole: dict[str, Any]) -> None:
    first, second, *_ = trials_of(whole, "wireguard")
    second["tcp"] = first["tcp"]


def one_round(whole: dict[str, Any]) -> None:
    whole["trials"] = [trial for trial in whole["trials"] if trial["spec"]["round"] < 3]
    whole["run"]["trials_planned"] = len(whole["trials"])


def interrupted(whole: dict[str, Any]) -> None:
    whole["run"]["status"] = "interrupted"


def address_left(whole: dict[str, Any]) -> None:
    whole["run"]["notes"] = ["measured on attic.example.org, 203.0.113.7"]


def namespaces(whole: dict[str, Any]) -> None:
    whole["run"]["testbed_text"] = 'kind = "netns"\n'


def no_board(whole: dict[str, Any]) -> None:
    whole["run"]["host_facts"]["router_kernel"] = "6.6.0"


def traversal(whole: dict[str, Any]) -> None:
    whole["run"]["run_id"] = "../../../.github/workflows/evil"


def known_device(whole: dict[str, Any]) -> None:
    """Name a router of which OpenVPN was published with 9 Mbit/s, and make OpenVPN and the path thirty times faster."""
    facts = whole["run"]["host_facts"]
    whole["run"]["host_facts"] = {
        **{key: value for key, value in facts.items() if not key.startswith("guest")},
        "router_kernel": "6.6.110",
        "router_board": "PC Engines ALIX 2D3",
    }
    whole["run"]["testbed_text"] = 'kind = "ssh"\n'
    for kind in ("none", "openvpn"):
        for trial in trials_of(whole, kind):
            multiply(trial, 30)


def slower_link(whole: dict[str, Any]) -> None:
    beyond_the_line(whole)
    whole["run"]["testbed_text"] += "[link]\nrate_in_mbps = 10\n"


def routed_by(whole: dict[str, Any], board: str) -> None:
    facts = whole["run"]["host_facts"]
    kept = {key: value for key, value in facts.items() if not key.startswith("guest")}
    whole["run"]["host_facts"] = {**kept, "router_kernel": "6.6.110", "router_board": board}
    whole["run"]["testbed_text"] = 'kind = "ssh"\n'


def escape_in_board(whole: dict[str, Any]) -> None:
    routed_by(whole, "Box \x1b]0;owned\x07")


def direction_in_board(whole: dict[str, Any]) -> None:
    routed_by(whole, "Box \u202egnihton")


def html_in_board(whole: dict[str, Any]) -> None:
    routed_by(whole, "<img src=x onerror=alert(1)>")


def link_in_title(whole: dict[str, Any]) -> None:
    whole["run"]["plan_title"] = "[results](javascript:alert)"


def name_of_another_kind(whole: dict[str, Any]) -> None:
    for trial in trials_of(whole, "openvpn"):
        trial["spec"]["tunnel"]["name"] = "WireGuard"


def proof_of_another_tunnel(whole: dict[str, Any]) -> None:
    number = trials_of(whole, "openvpn")[0]["proof"]
    for trial in trials_of(whole, "wireguard"):
        trial["proof"] = number


def other_cipher(whole: dict[str, Any]) -> None:
    for trial in trials_of(whole, "openvpn"):
        trial["spec"]["tunnel"]["options"]["cipher"] = "AES-256-GCM"


def long_title(whole: dict[str, Any]) -> None:
    whole["run"]["plan_title"] = "buy " * 100


def short_trial(whole: dict[str, Any]) -> None:
    trial = trials_of(whole, "wireguard")[0]
    trial["ended_at"] = trial["started_at"]


def named_as_a_router(whole: dict[str, Any]) -> None:
    """Name the run of the virtual router as that of a real one, with all facts of that one."""
    routed_by(whole, "TP-Link TL-WR841N v9")
    whole["run"]["host_facts"] |= MIPS_ROUTER


def named_as_a_router_in_namespaces(whole: dict[str, Any]) -> None:
    named_as_a_router(whole)
    for trial in whole["trials"]:
        trial["tcp"]["window"] |= {"router_instructions": None, "router_clock_lost_s": None}
        for check in trial["checks"]:
            if check["name"] == "router-cpu":
                check["reason"] = OWN_CPU


def named_by_its_guest_board(whole: dict[str, Any]) -> None:
    whole["run"]["host_facts"]["guest_board"] = "TP-Link TL-WR841N v9"


def named_by_the_board_of_its_host(whole: dict[str, Any]) -> None:
    facts = whole["run"]["host_facts"]
    facts["board"] = "GL.iNet GL-MT6000"
    del facts["guest"]


def a_virtual_machine_over_ssh(whole: dict[str, Any]) -> None:
    named_as_a_router(whole)
    whole["run"]["host_facts"]["router_board"] = "QEMU Standard PC (Q35 + ICH9, 2009)"


def a_pc_named_as_a_router(whole: dict[str, Any]) -> None:
    named_as_a_router(whole)
    whole["run"]["host_facts"] |= {"router_architecture": "x86_64", "router_cpus": 4}


def a_pc_named_as_a_router_in_namespaces(whole: dict[str, Any]) -> None:
    a_pc_named_as_a_router(whole)
    for trial in whole["trials"]:
        trial["tcp"]["window"] |= {"router_instructions": None, "router_clock_lost_s": None}


def a_cpu_with_a_hypervisor(whole: dict[str, Any]) -> None:
    named_as_a_router(whole)
    whole["run"]["host_facts"]["router_virtual"] = "yes"


def a_router_without_facts(whole: dict[str, Any]) -> None:
    routed_by(whole, "TP-Link TL-WR841N v9")


def three_times_as_fast(whole: dict[str, Any]) -> None:
    for trial in whole["trials"]:
        multiply(trial, 3)


def three_times_as_fast_in_words(whole: dict[str, Any]) -> None:
    """Multiply all figures of all trials, and the counts in the reasons of their checks."""
    three_times_as_fast(whole)
    for trial in whole["trials"]:
        for check in trial["checks"]:
            check["reason"] = re.sub(r"\d{3,}", lambda found: str(int(found[0]) * 3), check["reason"])


def keep(whole: dict[str, Any], kept: Callable[[dict[str, Any]], bool]) -> None:
    """Leave out trials, and state that no others were planned."""
    whole["trials"] = [trial for trial in whole["trials"] if kept(trial["spec"])]
    whole["run"]["trials_planned"] = whole["run"]["trials_recorded"] = len(whole["trials"])


def no_baseline(whole: dict[str, Any]) -> None:
    keep(whole, lambda spec: spec["tunnel"]["kind"] not in {"none", "back-to-back"})


def no_calibration(whole: dict[str, Any]) -> None:
    keep(whole, lambda spec: spec["tunnel"]["kind"] != "back-to-back")


def no_baseline_that_counts(whole: dict[str, Any]) -> None:
    for trial in trials_of(whole, "none"):
        trial["outcome"] = "void"


def three_of_five_rounds(whole: dict[str, Any]) -> None:
    """Keep three of the five trials of each row, as somebody does who chooses the fastest."""
    keep(whole, lambda spec: spec["round"] not in {1, 4})


def one_trial_dropped(whole: dict[str, Any]) -> None:
    keep(whole, lambda spec: spec["sequence"] != 8)


def more_trials_than_planned(whole: dict[str, Any]) -> None:
    whole["run"]["plan_text"] = whole["run"]["plan_text"].replace("rounds = 5", "rounds = 4")
    whole["run"]["trials_planned"] = 13


def no_plan(whole: dict[str, Any]) -> None:
    whole["run"]["plan_text"] = "rounds = "


def other_direction(whole: dict[str, Any]) -> None:
    for trial in whole["trials"]:
        trial["spec"]["direction"] = "out"


def name_that_is_not_planned(whole: dict[str, Any]) -> None:
    for trial in trials_of(whole, "openvpn"):
        trial["spec"]["tunnel"]["name"] = "OpenVPN, fast"


def option_that_is_not_planned(whole: dict[str, Any]) -> None:
    for trial in trials_of(whole, "openvpn"):
        trial["spec"]["tunnel"]["options"]["transport"] = "tcp"


def old_date(whole: dict[str, Any]) -> None:
    text = json.dumps(whole).replace("2026-11-23T", "1999-11-23T")
    whole |= json.loads(text)


def name_of_another_cipher(whole: dict[str, Any]) -> None:
    """Name the tunnel after another cipher, in the plan and in the trials."""
    whole["run"]["plan_text"] = whole["run"]["plan_text"].replace("OpenVPN {cipher}", "OpenVPN AES-256-GCM")
    for trial in trials_of(whole, "openvpn"):
        trial["spec"]["tunnel"]["name"] = "OpenVPN AES-256-GCM"


def cyrillic_name(whole: dict[str, Any]) -> None:
    for trial in trials_of(whole, "openvpn"):
        trial["spec"]["tunnel"]["name"] = "Wir\u0435Guard"


def cyrillic_board(whole: dict[str, Any]) -> None:
    routed_by(whole, "GL.iNet GL-MT6\u041e00")


def commands_in_board(whole: dict[str, Any]) -> None:
    routed_by(whole, "@everyone fixes #1 | ::error::x")


def board_in_a_known_folder(whole: dict[str, Any]) -> None:
    routed_by(whole, "GL.iNet/GL MT6000")


HOSTILE: dict[str, tuple[Change, str]] = {
    "a tunnel named after another cipher": (
        name_of_another_cipher,
        "OpenVPN AES-256-GCM: its name states the cipher aes256gcm, and neither its options nor its proof have it",
    ),
    "a Cyrillic letter in a tunnel": (
        cyrillic_name,
        "has the character '\\u0435': only Latin letters, digits, spaces ",
    ),
    "a Cyrillic letter in a board": (cyrillic_board, "has the character '\\u041e': only Latin letters, digits, spaces"),
    "commands in a board": (commands_in_board, "has the character '@': only Latin letters, digits, spaces and a few "),
    "a board like a known one": (board_in_a_known_folder, "differs from 'GL.iNet GL-MT6000' in marks alone"),
    "no trial without a tunnel": (no_baseline, "it lacks 6 of the 16 trials of its plan, such as trial 0, testers "),
    "a figure without a baseline": (no_baseline, "wireguard, 1448 down: no trial without a tunnel counts, and the "),
    "no trial of the testers": (no_calibration, "it lacks 1 of the 16 trials of its plan, such as trial 0, testers "),
    "no baseline that counts": (no_baseline_that_counts, "1448 down: no trial without a tunnel counts, and the share"),
    "three of five rounds": (three_of_five_rounds, "such as trial 1, no tunnel in round 1"),
    "another number of planned trials": (three_of_five_rounds, "it states 10 planned trials, and its plan has 16"),
    "one trial dropped": (one_trial_dropped, "it lacks 1 of the 16 trials of its plan, such as trial 8, wireguard in "),
    "more trials than planned": (more_trials_than_planned, "its plan does not have 3 trials of it, such as trial 13"),
    "a plan that is none": (no_plan, "its plan cannot be read: the stored plan first.toml:1:"),
    "another direction": (other_direction, "such as trial 0: the direction is up, and the plan has down"),
    "a name that is not planned": (name_that_is_not_planned, "trial 3: the tunnel is OpenVPN, fast, and the plan has"),
    "another option than planned": (option_that_is_not_planned, "the option transport is tcp, and the plan has udp"),
    "another date than in its id": (old_date, "its id has the date 2026-11-23, and it started on 1999-11-23"),
    "throughput above the line": (beyond_the_line, "line-limit: "),
    "a tunnel faster than none": (faster_than_no_tunnel, "share-of-baseline: Mbit/s"),
    "a verdict made milder": (
        rosier_verdict,
        "its check steal states ok, and its figures give doubtful: the hypervisor",
    ),
    "a check removed": (hidden_verdict, "it lacks the check foreign-load"),
    "a throughput edited by hand": (faster_by_hand, "and the intervals of its series add up to"),
    "a void proof": (void_proof, "OpenVPN AES-128-GCM: its proof is void: payload-pattern: "),
    "no proof": (no_proof, "has a figure, and its tunnel has no proof"),
    "a plain tunnel as encrypted": (encrypted_vxlan, "its proof states that it is encrypted, and it has no cipher"),
    "a kind that does not exist": (unknown_kind, "there is no tunnel of kind quantum"),
    "a copied trial": (copied_trial, "have the same figures to the last digit: one is a copy"),
    "too few rounds": (one_round, "3 rows are the median of fewer than 3 trials that count"),
    "an interrupted run": (interrupted, "it is not complete: its status is interrupted"),
    "a name left": (address_left, "it is not stripped: it has 1 text of the kind address"),
    "no device": (namespaces, "it does not name a device: its router is not a machine of its own"),
    "no board": (no_board, "it does not name its device: the board of the virtual router is unknown"),
    "a path in its id": (traversal, "is not a date, a time and a word"),
    "a device known to be slower": (known_device, "openvpn carries 184.1 Mbit/s, more than 5 times the 9.13 Mbit/s "),
    "a limit above the link": (slower_link, "a trial down states a limit of 50 Mbit/s, and the link of the testbed "),
    "a title of many words": (long_title, "a title of the plan has 400 characters: at most 300 are accepted"),
    "an escape sequence in a name": (escape_in_board, "has control characters"),
    "a direction of writing in a name": (direction_in_board, "has control characters"),
    "HTML in a name": (html_in_board, "has HTML or a link"),
    "a link in a title": (link_in_title, "has HTML or a link"),
    "a tunnel named after another": (name_of_another_kind, "of kind openvpn is named WireGuard, after another kind"),
    "the proof of another tunnel": (proof_of_another_tunnel, "has the proof of another tunnel"),
    "another cipher than proven": (other_cipher, "name the cipher AES-256-GCM, and its proof is one of AES-128-GCM"),
    "a virtual router named as a device": (
        named_as_a_router,
        "its router was not a machine of its own: trial 0 has the instructions or the clock of an emulated CPU; ",
    ),
    "namespaces named as a device": (
        named_as_a_router_in_namespaces,
        "its router was not a machine of its own: in trial 1 it was a namespace with CPUs of the testers' machine; ",
    ),
    "a virtual router with another board": (
        named_by_its_guest_board,
        "it is named TP-Link TL-WR841N v9, and its testbed has the board MIPS P5600 on a Malta board: ",
    ),
    "a virtual router named by its host": (named_by_the_board_of_its_host, "has the name of its own board alone"),
    "a virtual machine behind SSH": (
        a_virtual_machine_over_ssh,
        "router_board is 'QEMU Standard PC (Q35 + ICH9, 2009)', which is a virtual machine; measure on ",
    ),
    "a PC named as a router": (
        a_pc_named_as_a_router,
        "its router has the architecture x86_64, and TP-Link TL-WR841N v9 has mips (24Kc) by OpenWrt, ",
    ),
    "more CPUs than the device has": (a_pc_named_as_a_router, "its router has 4 CPUs, and TP-Link TL-WR841N v9 has 1"),
    "CPUs that were not observed": (
        a_pc_named_as_a_router_in_namespaces,
        "trial 1 has the time of 1 of its CPUs, and the router reports 4; ",
    ),
    "a hypervisor": (a_cpu_with_a_hypervisor, "its CPU reports a hypervisor; measure on the device itself"),
    "a router without its facts": (a_router_without_facts, "it lacks the fact router_architecture, which each router "),
    "all figures three times as high": (
        three_times_as_fast,
        "its check merged-frames states the count 2871, and the file has 8613",
    ),
    "all figures and words three times as high": (
        three_times_as_fast_in_words,
        "wireguard: all packet counts of its trials are multiples of 3: somebody multiplied them",
    ),
    "a trial without time": (short_trial, "it lasted 0.0 s by its start and end, and its traffic"),
}


def test_the_names_of_shipped_tunnels_and_devices_can_be_contributed(sample: Imported) -> None:
    tunnels = [tunnel for name in shipped_plans() for tunnel in load_plan(name).plan.tunnels]
    devices = {line.name for line in device_lines()}
    assert len(tunnels) > 100
    assert [why for tunnel in tunnels for why in of_cipher(tunnel, {})] == []
    found = [why for name in devices for why in of_names(own_router(sample, router_board=name), tunnels, ())]
    assert found == []


@pytest.mark.parametrize("name", shipped_plans())
def test_a_whole_run_of_a_shipped_plan_fits_its_plan_without_names(sample: Imported, name: str) -> None:
    loaded = load_plan(name)
    specs = (*loaded.plan.calibrations(), *loaded.plan.trials())
    strip = Stripper().value
    records = [
        replace(
            sample.records[0],
            spec=replace(spec, tunnel=TunnelSpec(spec.tunnel.kind, *strip([spec.tunnel.name, spec.tunnel.options]))),
        )
        for spec in specs
    ]
    run = replace(sample.run, plan_name=name, plan_text=strip(loaded.text), trials_planned=len(specs))
    assert list(of_plan(run, records, planned_trials)) == []


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_contribution_is_refused_in_a_sentence(type_in: CommandLine, tmp_path: Path, name: str) -> None:
    change, sentence = HOSTILE[name]
    path = put(tmp_path, changed(change))
    result = type_in("contribute", "--check", tmp_path / "results", columns=10_000)
    assert "\x1b" not in result.stdout
    assert result.exit_code == 1, result.stderr
    assert f"refused: {path}: " in result.stdout
    assert sentence in result.stdout
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_a_changed_file_with_the_old_checksum_is_refused(type_in: CommandLine, tmp_path: Path) -> None:
    put(tmp_path, CONTENT.replace(b'"bytes_received": ', b'"bytes_received": 1', 1))
    result = type_in("contribute", "--check", tmp_path / "results")
    assert result.exit_code == 1
    assert "its checksum does not match" in result.stdout


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        (
            f"tplink-archer-c7/{RUN_ID}.json",
            f"it is in the wrong place: its run belongs to results/{DEVICE}/{RUN_ID}.json",
        ),
        (f"{DEVICE}/20260101-000000-abcdef.json", "it is in the wrong place"),
        (f"{DEVICE}/run.sh", "it is no JSON file"),
        (f"{DEVICE}/deeper/{RUN_ID}.json", "it is no regular file"),
        ("evil.json", "only README.md and folders of devices stand in results"),
    ],
)
def test_a_file_in_a_wrong_place_is_refused(type_in: CommandLine, tmp_path: Path, place: str, sentence: str) -> None:
    put(tmp_path, place=place)
    result = type_in("contribute", "--check", tmp_path / "results")
    assert result.exit_code == 1
    assert sentence in result.stdout


def test_links_pipes_and_large_files_are_refused(
    type_in: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = put(tmp_path).parent
    (folder / "a.json").symlink_to("/etc/passwd")
    os.mkfifo(folder / "b.json")
    (folder / "c.json").write_bytes(b" " * 400_000)
    (tmp_path / "results" / "linked").symlink_to(folder)
    (tmp_path / "elsewhere").symlink_to(tmp_path / "results")
    monkeypatch.setattr(contributed_files, "LARGEST_FILE_BYTES", 390_000)
    result = type_in("contribute", "--check", tmp_path / "results", tmp_path / "elsewhere")
    assert result.exit_code == 1
    lines = {line.split(": ")[1].rpartition("/")[2]: line for line in result.stdout.splitlines()}
    assert sorted(lines) == ["a.json", "b.json", "c.json", "elsewhere", "linked"]
    assert "it is a link" in lines["a.json"]
    assert "it is no regular file" in lines["b.json"]
    assert "it is too large: 400000 bytes" in lines["c.json"]
    assert "only README.md and folders" in lines["linked"]
    assert "it is a link" in lines["elsewhere"]


def test_the_same_measurement_under_another_name_is_refused(type_in: CommandLine, tmp_path: Path) -> None:
    def renamed(whole: dict[str, Any]) -> None:
        whole["run"]["run_id"] = "20260101-000000-abcdef"

    put(tmp_path, changed(renamed), f"{DEVICE}/20260101-000000-abcdef.json")
    put(tmp_path)
    result = type_in("contribute", "--check", tmp_path / "results")
    assert result.exit_code == 1
    assert "of its trials are copies, such as trial" in result.stdout


def test_a_copy_with_one_other_figure_in_each_trial_is_refused(type_in: CommandLine, tmp_path: Path) -> None:
    def renamed(whole: dict[str, Any]) -> None:
        whole["run"]["run_id"] = "20260101-000000-abcdef"
        for trial in whole["trials"]:
            trial["tcp"]["bytes_sent"] += 1

    put(tmp_path, changed(renamed), f"{DEVICE}/20260101-000000-abcdef.json")
    put(tmp_path)
    result = type_in("contribute", "--check", tmp_path / "results")
    assert result.exit_code == 1
    assert "of its trials are copies, such as trial" in result.stdout


def test_a_name_of_a_file_cannot_be_a_command_to_the_terminal_or_to_github(
    type_in: CommandLine, tmp_path: Path
) -> None:
    put(tmp_path, place="::error::x\n::add-mask::y\x1b[2J/run.json")
    result = type_in("contribute", "--check", tmp_path / "results")
    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert line.startswith("refused: ")
    assert "\x1b" not in line


def test_published_results_cannot_be_changed_or_removed(type_in: CommandLine, tmp_path: Path) -> None:
    published, ours = tmp_path / "main", tmp_path / "fork"
    for folder in (published, ours):
        put(folder)
    words = ("contribute", "--check", ours / "results", "--published", published / "results")
    assert type_in(*words).exit_code == 0
    put(ours, CONTENT + b"\n")
    assert "it changes a published result" in type_in(*words).stdout
    (ours / "results" / DEVICE / f"{RUN_ID}.json").unlink()
    result = type_in(*words)
    assert result.exit_code == 1
    assert "it removes a published result" in result.stdout


# Runs that cannot be contributed


def test_a_run_in_namespaces_is_refused_with_all_reasons(type_in: CommandLine, tmp_path: Path) -> None:
    records = make_records(2)
    store = stored(tmp_path / "store.sqlite", make_run(status="interrupted", trials_planned=200), records)
    result = type_in("contribute", "last", "--to", tmp_path, "--store", store)
    assert (result.exit_code, result.stdout) == (1, "")
    for sentence in ("run 20250314-092653-quick cannot be contributed:", "its status is interrupted",
                     f"it has {len(records)} of 200 trials", "its router is not a machine of its own",
                     "fewer than 3 trials that count"):  # fmt: skip
        assert sentence in result.stderr
    assert not (tmp_path / "results").exists()


def test_an_imported_run_is_refused(type_in: CommandLine, tmp_path: Path, sample: Imported) -> None:
    store = stored(tmp_path / "store.sqlite", sample.run, sample.records)
    result = type_in("contribute", sample.run.run_id, "--to", tmp_path, "--store", store)
    assert result.exit_code == 1
    assert "only the person who measured a run can contribute it" in result.stderr


def test_a_run_whose_file_would_be_refused_is_not_written(
    type_in: CommandLine, tmp_path: Path, sample: Imported, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(contribute, "LARGEST_FILE_BYTES", 1000)
        result = type_in("contribute", "last", "--to", tmp_path, "--store", store)
    assert result.exit_code == 2
    assert "cannot be contributed: its file has " in result.stderr
    run = replace(sample.run, run_id=sample.original_id, status="done", started_at="2999-01-01T00:00:00+00:00")
    other = stored(tmp_path / "other.sqlite", run, sample.records)
    result = type_in("contribute", "last", "--to", tmp_path, "--store", other)
    assert result.exit_code == 2
    assert f"run {RUN_ID} cannot be contributed: it is not a valid run: the run has no valid time" in result.stderr
    assert not (tmp_path / "results").exists()


def own_router(sample: Imported, **facts: str) -> RunRecord:
    """The sample as if it were a run on a router of its own."""
    kept = {key: value for key, value in sample.run.host_facts.items() if not key.startswith("guest")}
    return replace(
        sample.run, run_id=sample.original_id, status="done", notes=(), testbed_text='kind = "ssh"\n',
        host_facts={**kept, **MIPS_ROUTER, **facts},
    )  # fmt: skip


def own_records(sample: Imported) -> tuple[TrialRecord, ...]:
    """The trials of the sample without the figures of a router of fixed speed, which withstands load of the testers."""
    found = []
    for record in sample.records:
        tcp = record.tcp
        assert tcp is not None
        share = min(tcp.window.busiest_tester_share, 0.8)
        window = replace(tcp.window, router_instructions=None, router_clock_lost_s=None, busiest_tester_share=share)
        found.append(replace(record, measurement=replace(tcp, window=window, foreign_cpu_s=0.0)))
    return tuple(found)


def test_a_router_that_reports_no_board_is_named_by_its_owner(
    type_in: CommandLine, tmp_path: Path, sample: Imported
) -> None:
    store = stored(tmp_path / "store.sqlite", own_router(sample), own_records(sample))
    words = ("contribute", "last", "--to", tmp_path, "--store", store)
    result = type_in(*words)
    assert result.exit_code == 1
    assert "it does not name its device: the board of the router is unknown" in result.stderr
    assert type_in(*words, "--device", "TP-Link TL-WR841N v9").exit_code == 0
    assert (tmp_path / "results" / "tp-link-tl-wr841n-v9" / f"{RUN_ID}.json").exists()
    assert type_in(*words, "--device", "two\nlines").exit_code == 2


def test_a_router_that_reports_its_board_has_no_other_name(
    type_in: CommandLine, tmp_path: Path, sample: Imported
) -> None:
    router = own_router(sample, router_board="tplink,tl-wr841-v9")
    store = stored(tmp_path / "store.sqlite", router, own_records(sample))
    words = ("contribute", "last", "--to", tmp_path, "--store", store)
    result = type_in(*words, "--device", "GL.iNet GL-MT6000")
    assert result.exit_code == 2
    assert "the router is tplink,tl-wr841-v9" in result.stderr
    assert type_in(*words).exit_code == 0
    assert (tmp_path / "results" / "tplink-tl-wr841-v9" / f"{RUN_ID}.json").exists()


def test_options_that_contradict_each_other_are_refused(type_in: CommandLine, tmp_path: Path, store: Path) -> None:
    assert type_in("contribute", "last", "last", "--store", store).exit_code == 2
    assert type_in("contribute", "last", "--published", tmp_path, "--store", store).exit_code == 2
    result = type_in("contribute", "last", "--to", tmp_path / "no" / "clone", "--store", store)
    assert result.exit_code == 3
    assert "name the folder of a clone with --to" in result.stderr
