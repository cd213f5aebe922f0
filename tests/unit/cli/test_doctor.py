"""`tunnelbench doctor` tells what is missing and what mends it, and never fails for what is missing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.unit.cli.conftest import CommandLine

from tunnelbench.cli import doctor
from tunnelbench.cli.elsewhere import OPENWRT_PACKAGES
from tunnelbench.cli.needs import requirements
from tunnelbench.host import readiness
from tunnelbench.host.facts import machine_facts
from tunnelbench.host.programs import REQUIRED_PROGRAMS
from tunnelbench.host.readiness import Finding, Status
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.traffic import engine
from tunnelbench.tunnel import adapters


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(doctor, "LOAD_WINDOW_S", 0.02)


def findings(text: str) -> dict[str, dict[str, str]]:
    document = json.loads(text)
    return {finding["name"]: finding for section in ("machine", "programs", "kernel") for finding in document[section]}


@pytest.mark.lab
def test_a_machine_that_can_run_everything_is_ready(type_in: CommandLine) -> None:
    result = type_in("doctor", "--json")
    found = findings(result.stdout)
    missing = {name for name, finding in found.items() if finding["status"] == Status.MISSING}
    assert (result.exit_code, missing) == (0, set())
    assert json.loads(result.stdout)["ready"] is True
    assert json.loads(result.stdout)["facts"] == machine_facts()
    assert {"root", "veth", "vxlan", "sch_tbf", "sch_netem", "wireguard", "bridge"} <= found.keys()
    assert found["openvpn"]["found"][0].isdigit()


@pytest.mark.lab
def test_what_only_other_tunnels_need_is_absent_and_no_failure(
    type_in: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(_host: object, link_type: str) -> bool:
        return link_type != "wireguard"

    monkeypatch.setattr("tunnelbench.host.host.Host.has_link_type", lacks)
    result = type_in("doctor", "--json")
    wireguard = findings(result.stdout)["wireguard"]
    assert (result.exit_code, wireguard["status"], wireguard["why"]) == (0, "absent", "for wireguard")
    assert wireguard["remedy"].startswith("modprobe wireguard")


@pytest.mark.lab
def test_a_feature_that_the_quick_plan_needs_is_missing(type_in: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunnelbench.host.host.Host.has_link_type", lambda _host, link_type: link_type != "vxlan")
    result = type_in("doctor")
    assert result.exit_code == 3
    assert "Not ready for a run of the plan quick; missing: vxlan\n" in result.stdout


def test_on_a_bare_machine_one_command_installs_it_all(
    type_in: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = type_in("doctor", columns=300)
    assert result.exit_code == 3
    last = result.stdout.splitlines()[-1]
    assert last.startswith("mend: apt-get install ethtool iperf3 iproute2 iputils-ping nftables openssl openvpn")
    assert set(last.split()[3:]) >= set(REQUIRED_PROGRAMS.values())


def test_a_testbed_that_was_asked_for_is_what_it_is_ready_for_and_takes_no_cpu_here(
    type_in: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "my.toml"
    file.write_text('kind = "ssh"\n[router]\nhost = "root@192.168.1.1"\n')
    asked: list[TestbedSpec] = []

    def examine(spec: TestbedSpec) -> dict[str, list[Finding]]:
        asked.append(spec)
        return {}

    monkeypatch.setattr("tunnelbench.cli.elsewhere.examine", examine)
    found = json.loads(type_in("doctor", "--json", "--on", str(file)).stdout)
    assert "CPUs" not in {each["name"] for each in found["machine"]}
    assert [spec.router.access.host for spec in asked if spec.router] == ["root@192.168.1.1"]
    (line,) = doctor.verdict([Finding("root", Status.OK, "", "")], "my.toml")
    assert str(line) == "Ready for a run of the plan quick: tunnelbench run quick --on my.toml"


def test_without_root_it_says_so_and_the_kernel_is_unknown(
    type_in: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    result = type_in("doctor", "--json")
    found = findings(result.stdout)
    assert result.exit_code == 3
    assert found["root"]["remedy"] == "run it as root"
    assert {found[name]["status"] for name in ("namespaces", "veth", "wireguard", "sch_tbf")} == {"unknown"}


@pytest.mark.parametrize(
    ("cpus", "status", "found"),
    [
        ([0], Status.WARNING, "router on CPU 0, testers on 0"),
        ([0, 1], Status.WARNING, "router on CPU 1, testers on 0"),
        ([0, 1, 2, 3], Status.OK, "router on CPU 3, testers on 0, 1, 2"),
    ],
)
def test_too_few_cpus_are_said(cpus: list[int], status: Status, found: str) -> None:
    finding = doctor.cpu_sharing(cpus)
    assert (finding.status, finding.found) == (status, found)


def test_a_program_s_name_cannot_steer_the_terminal(type_in: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = Finding("other load", Status.WARNING, "50%", "a\x1b[31mb\nc", "kill\x07 it")
    monkeypatch.setattr(readiness, "foreign_load", lambda *_: hostile)
    text = type_in("doctor").stdout
    assert text.replace("\n", "").isprintable()
    assert "50%; a [31mb c" in text


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_is_wider_than_the_terminal(type_in: CommandLine, columns: int) -> None:
    assert max(map(len, type_in("doctor", columns=columns).stdout.splitlines())) <= columns


def test_the_packet_engine_is_named_with_its_place_and_version() -> None:
    found = doctor.packet_engine()
    assert (found.status, found.remedy) == (Status.OK, "")
    version, protocol, path = found.found.split(", ")
    assert version[0].isdigit()
    assert (protocol, path) == ("protocol 1", engine.locate())


def test_an_engine_that_is_missing_is_absent_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise CannotHere("it is missing", "install TunnelBench from its wheel")

    monkeypatch.setattr(engine, "locate", nowhere)
    found = doctor.packet_engine()
    assert (found.status, found.remedy) == (Status.ABSENT, "install TunnelBench from its wheel")


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("exit 3", "ended with status 3"),
        ("echo hello", "does not say what it is"),
        ("""echo '{"type": "hello", "protocol": 99}'""", "speaks protocol 99, not 1"),
    ],
)
def test_an_engine_that_does_not_answer_as_it_should_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, told: str
) -> None:
    path = tmp_path / "engine"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(engine, "locate", lambda: str(path))
    found = doctor.packet_engine()
    assert found.status is Status.ABSENT
    assert told in found.found
    assert found.remedy.startswith("install TunnelBench anew")


def test_every_requirement_of_a_tunnel_has_a_package_of_openwrt_or_is_known_to_have_none() -> None:
    needed = {each.what for kind in adapters() for each in requirements(kind) if not each.makes_keys}
    of_busybox, of_version_1 = {"/sbin/ifconfig"}, {"the program edge", "the program supernode"}
    nowhere = {"the program wireguard-go", "boringtun-cli"}
    assert needed - OPENWRT_PACKAGES.keys() == nowhere | of_busybox | of_version_1
    assert OPENWRT_PACKAGES.keys() - needed == set()
