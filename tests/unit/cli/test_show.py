"""`tunnelbench show` says all of one thing, and knows what a name means."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import pytest
from pytest_regressions.file_regression import FileRegressionFixture
from tests.unit.builders import make_proof, make_records, make_run, make_spec, make_trial
from tests.unit.cli.conftest import RUN_ID, CommandLine, keep
from tests.unit.connection_builders import LIMIT, connection_records
from tests.unit.report.hostile import hostile_run

from tunnelbench.cli import show
from tunnelbench.cli.availability import Availability, carried_by
from tunnelbench.cli.details import plan as plan_details
from tunnelbench.cli.details.tunnel import described, type_text
from tunnelbench.guest.kernel import Kernel
from tunnelbench.host.preflight import PreflightResult, Status
from tunnelbench.model.counters import CpuUsage, PathCounters, Ping, Window
from tunnelbench.model.plan import BLOCK_OVERHEAD_S, Direction, Plan, TcpTraffic, TunnelSpec, UdpTraffic
from tunnelbench.model.result import Check, Outcome, TcpMeasurement, TrialRecord, Verdict
from tunnelbench.reference import read_reference, shipped_names
from tunnelbench.tunnel import PLANNED, adapters


@pytest.mark.parametrize("kind", sorted({*adapters(), *PLANNED}))
def test_every_tunnel_can_be_shown(type_in: CommandLine, kind: str) -> None:
    assert type_in("show", kind).stdout.startswith(f"{kind}: ")
    shown = json.loads(type_in("show", kind, "--json").stdout)
    if kind in PLANNED:
        assert shown["available"] == "no adapter yet"
    else:
        assert shown["options"].keys() == adapters()[kind].options_type.model_fields.keys()
        assert shown["tested_with"] == adapters()[kind].tested_with


def test_an_option_has_its_default_its_meaning_and_its_type(type_in: CommandLine) -> None:
    text = type_in("show", "openvpn", columns=200).stdout
    assert re.search(r"^transport +udp +what carries the tunnel's packets\n +one of udp, tcp$", text, re.MULTILINE)
    assert "whole number from 0 to 65535" in text


def test_a_tunnel_that_is_not_available_says_what_it_lacks(
    type_in: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    text = type_in("show", "tinc").stdout
    assert re.search(r"^ *Available here +no$", text, re.MULTILINE)
    assert "missing  the program tincd\n           apt-get install tinc\n" in text


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "boolean"}, "true or false"),
        ({"type": "number", "maximum": 1.5}, "number to 1.5"),
        ({"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 1}]}, "whole number from 1"),
        ({"enum": ["a", 1]}, "one of a, 1"),
        ({}, "value"),
    ],
)
def test_a_type_is_described_in_words(schema: dict[str, object], words: str) -> None:
    assert type_text(schema) == words


@pytest.mark.parametrize("kind", sorted(adapters()))
def test_every_option_of_a_tunnel_has_its_values_in_words(kind: str) -> None:
    _, _, options = described(kind)
    words = {option: type_text(schema) for option, schema in options.items()}
    assert words["firewall"] == "one of none, stateful, stateful-nat"
    assert words["content"] == "one of random, repeating"
    assert words["inside"] == words["outside"] == "one of ipv4, ipv6"
    assert "value" not in words.values()
    assert all(schema["description"] for schema in options.values())


def test_a_plan_has_its_trials_in_order_with_the_time_that_they_take(type_in: CommandLine) -> None:
    shown = json.loads(type_in("show", "quick", "--json").stdout)
    trials = shown["trials"]
    assert [trial["sequence"] for trial in trials] == list(range(-3, 109))
    assert [trial["expected_start_s"] for trial in trials[:6]] == pytest.approx([0, 2.3, 4.6, 6.9, 11.2, 13.5])
    assert trials[-1]["expected_start_s"] + 2.3 == pytest.approx(shown["expected_duration_s"])
    text = type_in("show", "quick").stdout
    assert (
        "Takes    about 5 min in namespaces of this machine\n           about 20 min on malta with all tunnels\n"
        in text
    )
    assert "    1    0:00:11      1  1448 down  no tunnel\n" in text


@pytest.mark.parametrize(("plan", "where"), [("clients", "on malta-road-warrior"), ("soak", ""), ("lines", "")])
def test_a_plan_has_the_time_on_the_virtual_router_that_can_run_it(type_in: CommandLine, plan: str, where: str) -> None:
    lines = [line for line in type_in("show", plan).stdout.splitlines() if " with all tunnels" in line]
    assert len(lines) == bool(where)
    assert all(where in line for line in lines)


def test_the_last_trial_of_any_plan_ends_when_the_plan_says() -> None:
    tunnels = (TunnelSpec("none", "none"), TunnelSpec("vxlan", "a"), TunnelSpec("vxlan", "b"))
    plan = Plan("p", "", tunnels, TcpTraffic(payload_bytes=(76,), duration_s=7), rounds=2)
    *_, (start_s, _) = plan_details.starts(plan)
    assert start_s + 7.3 == pytest.approx(plan.expected_duration_s())
    assert plan.expected_duration_s() > 6 * BLOCK_OVERHEAD_S


def test_tunnels_that_cannot_come_up_here_take_no_time() -> None:
    tunnels = (TunnelSpec("none", "none"), TunnelSpec("vxlan", "a"), TunnelSpec("vxlan", "b"))
    plan = Plan("p", "", tunnels, TcpTraffic(payload_bytes=(76,), duration_s=7), rounds=2)
    here = {"none": Availability("yes"), "a": Availability("no"), "b": Availability("unknown")}
    without = replace(plan, tunnels=(tunnels[0], tunnels[2]))
    shown = plan_details.entry(plan, here)
    assert shown["expected_duration_s"] == without.expected_duration_s() < plan.expected_duration_s()
    trials = cast("list[dict[str, Any]]", shown["trials"])
    assert len(trials) == len(plan.calibrations()) + len(plan.trials())
    assert trials[-1]["expected_start_s"] + 7.3 == pytest.approx(without.expected_duration_s())


def test_a_plan_says_which_of_its_tunnels_cannot_be_had_here(type_in: CommandLine, tmp_path: Path) -> None:
    plan = tmp_path / "p.toml"
    plan.write_text('[[tunnel]]\nkind = "openvpn-dco"\nname = "DCO"\n[[tunnel]]\nkind = "none"\nname = "no VPN"\n')
    lines = [line.split() for line in type_in("show", plan, columns=120).stdout.splitlines()]
    assert ["DCO", "no", "adapter", "yet", "openvpn-dco"] in lines
    assert ["no", "VPN", "yes", "none"] in lines


def test_a_file_is_a_plan_or_a_testbed_by_what_it_holds(type_in: CommandLine, tmp_path: Path) -> None:
    plan, testbed = tmp_path / "p.toml", tmp_path / "t.toml"
    plan.write_bytes(b'\xef\xbb\xbftitle = "Mine"\n[[tunnel]]\nkind = "vxlan"\n')
    testbed.write_text('kind = "netns"\nrouter_cpu = 99\n[link]\nrate_in_mbps = 8\ndelay_ms = 5\n')
    assert type_in("show", plan).stdout.startswith("p.toml: Mine\n")
    text = type_in("show", f"testbed:{testbed}", columns=120).stdout
    assert "Link          any rate out, 8 Mbit/s in, 5 ms on each cable; MTU 1500 bytes\n" in text
    assert "CPUs here     router_cpu = 99 is not a CPU" in text


def test_a_wrong_file_is_reported_with_all_its_errors(type_in: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('rounds = 0\n[[tunnel]]\nkind = "vxlam"\n')
    result = type_in("show", tmp_path / "p.toml")
    assert (result.exit_code, result.stdout, result.stderr.count("p.toml:")) == (2, "", 2)
    assert type_in("show", "./none.toml").stderr == "tunnelbench: ./none.toml:1:1: file: there is no such file\n"


def test_a_testbed_is_shown_by_its_name(type_in: CommandLine) -> None:
    assert "100 Mbit/s; MTU 1500 bytes" in type_in("show", "netns-100m").stdout
    assert json.loads(type_in("show", "netns-100m", "--json").stdout)["link"]["rate_in_mbps"] == 100
    assert "road-warrior: the tunnel joins client and router" in type_in("show", "netns-road-warrior").stdout


@pytest.mark.parametrize("kind", ['kind = "netns"\n', 'kind = "ssh"\nrouter.host = "root@192.168.1.1"\n'])
def test_a_testbeds_mtu_is_shown_once(type_in: CommandLine, kind: str, tmp_path: Path) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(f"{kind}[link]\nmtu_bytes = 1000\n")
    link = next(line for line in type_in("show", str(file)).stdout.splitlines() if "Link" in line)
    assert link.endswith("as fast as the machine; MTU 1000 bytes")


def test_a_real_router_keeps_its_mtu_if_the_file_has_none(type_in: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "lab.toml"
    file.write_text('kind = "ssh"\nrouter.host = "root@192.168.1.1"\n')
    assert "as fast as the machine; the MTU that the devices have\n" in type_in("show", str(file)).stdout


# A reference


@pytest.mark.parametrize("name", shipped_names())
def test_a_reference_is_shown_with_its_source_method_and_comparable_figures(
    type_in: CommandLine, home: Path, name: str
) -> None:
    reference = read_reference(name)
    text = " ".join(type_in("show", name, columns=400).stdout.split())
    for said in (reference.title, reference.source, reference.date, reference.method, reference.comparability.label):
        assert " ".join(said.split()) in text
    assert json.loads(type_in("show", f"reference:{name}", "--json").stdout)["rows"] == list(reference.rows)
    assert not home.parent.exists()


def test_figures_of_a_device_itself_are_labelled_wherever_they_are_shown(type_in: CommandLine, home: Path) -> None:
    label = "measured on the device itself, traffic and both ends of the tunnel: not comparable"
    for words in (("show", "wireguard-by-device"), ("list", "references")):
        assert label in " ".join(type_in(*words, columns=400).stdout.split())
        assert label in type_in(*words, "--json").stdout
    assert "180 rows, as published (on-device)" in type_in("show", "wireguard-by-device").stdout


# What a name means


def test_an_unknown_name_is_reported_with_similar_names(type_in: CommandLine, home: Path) -> None:
    result = type_in("show", "OpenVPM")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(
        'tunnelbench: there is no tunnel, plan, testbed, reference or run "OpenVPM"; did you mean openvpn'
    )
    assert "did you mean" not in type_in("show", "on").stderr
    assert not home.parent.exists()


@pytest.mark.parametrize("name", ["tunnel:quick", "plan:openvpn", "testbed:quick", "reference:quick", "run:quick"])
def test_a_noun_keeps_to_its_own_names(type_in: CommandLine, store: Path, name: str) -> None:
    result = type_in("show", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no" in result.stderr or "is shipped" in result.stderr


def test_a_name_of_two_things_asks_which(type_in: CommandLine, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(show, "shipped_plans", lambda: ["vxlan"])
    result = type_in("show", "vxlan")
    assert result.exit_code == 2
    assert (
        result.stderr
        == "tunnelbench: vxlan is the name of a tunnel and of a plan\nhint: say which one: tunnel:vxlan, plan:vxlan\n"
    )
    assert type_in("show", "tunnel:vxlan").exit_code == 0


@pytest.mark.parametrize("name", ["last", RUN_ID, "20250314", "run:last", "run:20250314"])
def test_a_run_has_several_names(type_in: CommandLine, store: Path, name: str) -> None:
    assert json.loads(type_in("show", name, "--json").stdout)["run"]["run_id"] == RUN_ID


def test_the_beginning_of_several_runs_is_not_enough(type_in: CommandLine, store: Path) -> None:
    assert "2 runs begin with '2025'" in type_in("show", "2025").stderr


def test_last_without_a_store_says_how_to_measure(type_in: CommandLine, home: Path) -> None:
    result = type_in("show", "last")
    assert result.exit_code == 2
    assert "no results yet" in result.stderr
    assert "tunnelbench run" in result.stderr


# Runs


CHECKS = (
    Check("packet-rate", Verdict.OK, "counted and computed rates agree within 0.2 %", 16),
    Check("payload", Verdict.NOTE, "1368 of 1448 bytes fit into a segment", 15),
    Check("testers", Verdict.DOUBTFUL, "testers 96.2 % busy", 6),
    Check("foreign-load", Verdict.VOID, "other processes took 6.7 % of the CPUs", 12),
)
FAILED = "210 of 212 outer packets were not udp port 655: the data went over TCP"
IN_FULL = {
    "measured": make_trial(checks=CHECKS, proof=make_proof("openvpn AES-128-GCM")),
    "refused": make_trial(outcome=Outcome.REFUSED, reason=FAILED, proof=make_proof("tinc", failed=FAILED)),
    "unavailable": make_trial(outcome=Outcome.UNAVAILABLE, reason="on the router: the program tincd is missing"),
}


@pytest.mark.parametrize("name", IN_FULL)
def test_a_trial_in_full(type_in: CommandLine, home: Path, file_regression: FileRegressionFixture, name: str) -> None:
    keep(home, make_run(), (IN_FULL[name],))
    file_regression.check(type_in("show", "last", "--trial", "1").stdout)


def test_a_run_has_every_trial_with_every_check_and_figure(type_in: CommandLine, store: Path) -> None:
    records = make_records()
    text = type_in("show", "last", columns=100_000).stdout
    assert text.count("\nTrial ") == len(records)
    assert text.count(" bytes_received=") == sum(record.tcp is not None for record in records)
    for name in ("packet-rate", "testers", "payload"):
        wanted = sum(check.name == name for record in records for check in record.checks)
        assert len(re.findall(rf"^  (?:ok|note|doubtful|void) +{name} ", text, re.MULTILINE)) == wanted > 0
    for words in ("rounds = 3\n", 'kind = "netns"\n', "cpu_model", "Note: 2 CPUs: the testers share one.\n"):
        assert words in text


@pytest.mark.parametrize(
    "failed",
    [
        make_trial(outcome=Outcome.REFUSED, reason="no device"),
        replace(make_trial(), checks=(Check("merged-frames", Verdict.VOID, "frames of 64 kB", rule=4),)),
    ],
    ids=["by an error", "by a check"],
)
def test_a_run_shows_the_last_lines_of_the_daemons_of_its_failed_trials(
    type_in: CommandLine, home: Path, failed: TrialRecord
) -> None:
    log = "".join(f"line {number}\n" for number in range(8)) + "\033[2Jbad\n" + "x" * 1000
    raw = {"router.0001-openvpn.log": log, "server.0002-openvpn.log": "", "client": "iperf3's JSON"}
    good = replace(make_trial(make_spec(2)), raw={"router.0001-openvpn.log": "all is well"})
    keep(home, make_run(), (replace(failed, raw=raw), good))
    text = type_in("show", "last").stdout
    shown = text[text.index("  end of router.0001-openvpn.log\n") :]
    assert shown.startswith(
        "  end of router.0001-openvpn.log\n    line 5\n    line 6\n    line 7\n    \\x1b[2Jbad\n    "
        + "x" * 300
        + "\n  end of server.0002-openvpn.log\n    no output\n"
    )
    assert not re.search("iperf3's JSON|all is well|line 4", text)
    assert "line 0\n" in type_in("show", "last", "--trial", "1").stdout


def test_every_field_of_a_measurement_is_shown(type_in: CommandLine, home: Path) -> None:
    keep(home, make_run(), (make_trial(),))
    text = type_in("show", "last").stdout
    for measured in (TcpMeasurement, PathCounters, Window, CpuUsage, Ping):
        for field in fields(measured):
            assert re.search(rf"^  {field.name} |[ ]{field.name}=", text, re.MULTILINE), field.name


def test_trials_of_connections_are_shown_with_their_counts(type_in: CommandLine, home: Path) -> None:
    records = connection_records()
    keep(home, make_run(), tuple(records))
    text = type_in("show", "last", columns=100_000).stdout
    assert text.count("\nTrial ") == text.count(" open_max=") == len(records)
    assert f" open_max={LIMIT} " in text
    for record in records:
        shown = type_in("show", "last", "--trial", str(record.spec.sequence), columns=100_000).stdout
        assert record.udp is not None
        assert record.udp.connections is not None
        assert f" established={record.udp.connections.established} " in shown


def test_a_configuration_is_written_once_and_again_where_it_differs(type_in: CommandLine, home: Path) -> None:
    proof = make_proof()
    other = replace(proof, configuration={"router/tunnel.conf": "# another\n"})
    found = enumerate((proof, proof, other), start=1)
    keep(home, make_run(), tuple(make_trial(make_spec(number, number), proof=each) for number, each in found))
    text = type_in("show", "last").stdout
    assert (text.count("# none\n"), text.count("# another\n"), text.count("\nRound ")) == (1, 1, 3)


def test_a_trial_of_the_calibration_has_a_number_below_one(type_in: CommandLine, home: Path) -> None:
    spec = replace(make_trial().spec, sequence=-3, round=0, tunnel=TunnelSpec("back-to-back", "testers"))
    keep(home, make_run(), (make_trial(spec),))
    assert "Before the rounds: testers\n" in type_in("show", "last", "--trial", "-3").stdout


def test_a_missing_trial_is_reported_with_those_that_exist(type_in: CommandLine, store: Path) -> None:
    numbers = [record.spec.sequence for record in make_records()]
    result = type_in("show", "last", "--trial", "970")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(f"has no trial 970\nhint: its trials are {numbers[0]} to {numbers[-1]}\n")
    assert "leave it out" in type_in("show", "quick", "--trial", "1").stderr


def test_a_trial_as_json_has_its_raw_output(type_in: CommandLine, store: Path) -> None:
    shown = json.loads(type_in("show", "last", "--trial", "5", "--json").stdout)
    assert shown["spec"]["sequence"] == 5
    assert shown["raw"]["ping"] == "100 received"


@pytest.mark.parametrize("columns", [80, 120])
def test_no_drawn_line_is_wider_than_the_terminal(type_in: CommandLine, store: Path, columns: int) -> None:
    for name in ("openvpn", "wireguard", "gre", "quick", "wr841n", "netns", "last"):
        assert max(map(len, type_in("show", name, columns=columns).stdout.splitlines())) <= columns


def test_a_hostile_run_is_harmless(type_in: CommandLine, home: Path) -> None:
    run, records = hostile_run()
    keep(home, replace(run, run_id="hostile"), records)  # a store refuses ids that are no names of files
    for words in (("last",), ("last", "--trial", "1")):
        result = type_in("show", *words)
        assert result.exit_code == 0
        assert result.stdout.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("modules", "words"),
    [
        (None, "perhaps Debian's: a run on the testbed netns-debian fetches that kernel and shows it"),
        ("kernel/net/ipv4/ip_gre.ko:\n", "Debian's, 6.1.0-1-amd64, inside a guest: run on the testbed netns-debian"),
        ("kernel/net/ipv4/ipip.ko:\n", "neither this machine's nor Debian's, 6.1.0-1-amd64"),
    ],
)
def test_a_tunnel_whose_module_is_missing_here_says_which_kernel_would_carry_it(
    modules: str | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel("6.1.0-1-amd64", tmp_path / "vmlinuz", tmp_path)
    kernel.modules.mkdir(parents=True)
    (kernel.modules / "modules.dep").write_text(modules or "")
    monkeypatch.setattr("tunnelbench.cli.availability.cached_kernel", lambda: kernel if modules else None)
    missing = PreflightResult("the kernel's gre", Status.MISSING, "", "for gre", "modprobe ip_gre")
    assert carried_by("gre", Availability("no", (missing,))) == words


def test_a_tunnel_that_can_be_had_here_is_carried_by_this_machines_kernel() -> None:
    assert carried_by("gre", Availability("yes")).startswith("this machine's, ")
    assert carried_by("openvpn-dco", Availability("no adapter yet")) == "none: there is no adapter yet"
    missing = PreflightResult("the program tincd", Status.MISSING, "", "for tinc", "apt-get install tinc")
    assert carried_by("tinc", Availability("no", (missing,))) == "unknown until the other requirements are installed"


@pytest.mark.parametrize(("flows", "words"), [(1, ""), (16, ", 16 flows")])
def test_several_flows_of_udp_are_named(flows: int, words: str) -> None:
    udp = UdpTraffic((18,), (Direction.OUT,), flows=flows)
    assert plan_details.udp_text(udp) == f"UDP up, payload 18 bytes{words}: search"
