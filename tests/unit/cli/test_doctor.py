"""`tunnelbench doctor` lists what is missing and how to get it, and never fails for what is missing."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.unit.cli.conftest import CommandLine
from tests.unit.tunnel.fakes import FakeHost

from tunnelbench.cli import doctor, doctor_remote
from tunnelbench.cli.availability import needs
from tunnelbench.cli.plans import load_plan
from tunnelbench.host import preflight
from tunnelbench.host.facts import machine_facts
from tunnelbench.host.leased_host import LeasedHost
from tunnelbench.host.preflight import BlindHost, PreflightResult, Status
from tunnelbench.host.programs import REQUIRED_PROGRAMS
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.plan import read_testbed
from tunnelbench.qemu import image as images
from tunnelbench.qemu.fixed_speed import MachineWork
from tunnelbench.qemu.image import Image
from tunnelbench.qemu.speed_trial import WORK_IN_BACKGROUND
from tunnelbench.testbed import KINDS
from tunnelbench.traffic import engine


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
    def lacks(_host: object, link_type: str, *_: str) -> bool:
        return link_type != "wireguard"

    monkeypatch.setattr("tunnelbench.host.host.Host.has_link_type", lacks)
    result = type_in("doctor", "cost", "--json")
    wireguard = findings(result.stdout)["wireguard"]
    assert (result.exit_code, wireguard["status"], wireguard["why"]) == (0, "absent", "for wireguard")
    assert wireguard["remedy"].startswith("modprobe wireguard")


@pytest.mark.lab
def test_a_feature_that_every_tunnel_of_a_plan_needs_is_missing(
    type_in: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tunnelbench.host.host.Host.has_link_type", lambda _host, link_type, *_: link_type != "vxlan")
    plan = tmp_path / "mine.toml"
    plan.write_text('[tcp]\n[[tunnel]]\nkind = "none"\n[[tunnel]]\nkind = "vxlan"\n')
    result = type_in("doctor", str(plan))
    assert result.exit_code == 3
    assert result.stdout.splitlines()[-2:] == [f"Not ready for tunnelbench run {plan}", "Missing: vxlan"]


@pytest.mark.lab
def test_a_tunnel_that_this_kernel_lacks_is_left_out_of_a_plan_with_others(
    type_in: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tunnelbench.host.host.Host.has_link_type", lambda _host, link_type, *_: link_type != "vxlan")
    result = type_in("doctor", "--json")
    vxlan = findings(result.stdout)["vxlan"]
    assert (result.exit_code, vxlan["status"]) == (0, "warning")
    assert vxlan["why"] == "for vxlan; the run leaves out what needs it, and --on netns-debian has it"


def test_on_a_bare_machine_one_command_installs_it_all(
    type_in: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = type_in("doctor", columns=300)
    assert result.exit_code == 3
    last = result.stdout.splitlines()[-1]
    assert last.startswith("apt-get install ethtool iperf3 iproute2 iputils-ping nftables openssl openvpn")
    assert set(last.split()[2:]) >= set(REQUIRED_PROGRAMS.values())


def test_a_virtual_router_without_qemu_is_not_ready(
    type_in: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = type_in("doctor", "wr841n", "--on", "malta", columns=300)
    lines = result.stdout.splitlines()
    assert result.exit_code == 3
    assert lines[-3] == "Not ready for tunnelbench run wr841n --on malta"
    assert {"openssh-client", "qemu-system-mips", "openssl"} <= set(lines[-1].split())
    assert "xl2tpd" not in lines[-1], "both ends of the tunnel are virtual machines"
    of_arm = type_in("doctor", "wr841n", "--on", "virt-arm64", columns=300).stdout.splitlines()[-1].split()
    assert {"qemu-system-arm", "qemu-system-x86"} <= set(of_arm)
    assert "qemu-system-mips" not in of_arm
    here = type_in("doctor", columns=300).stdout
    assert "qemu-system-mips" not in here, "the plan quick runs without a virtual router"


def test_an_image_of_another_recipe_is_built_again_so_that_its_programs_are_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    cached = Image(tmp_path, "6.1", (), "recipe of an earlier version")
    monkeypatch.setattr(images, "cached_image", lambda _: cached)
    status = {each.name: each.status for each in doctor.guest_programs(read_testbed("malta", KINDS).testbed)}
    assert {status[name] for name in images.BUILD_PROGRAMS} == {Status.MISSING}


def test_a_program_that_the_image_of_a_virtual_router_lacks_is_a_warning(tmp_path: Path) -> None:
    spec = read_testbed("malta", KINDS).testbed
    plan = load_plan("quick", (), spec).plan

    def warnings(spec: TestbedSpec) -> dict[str, str]:
        found = doctor.tunnel_findings(BlindHost("not looked at"), plan, spec)
        return {each.name: each.found for _, each in found if each.status is Status.WARNING}

    assert warnings(spec) == {"wireguard-go": "not in the image"}
    assert warnings(replace(spec, programs=str(tmp_path))) == {}, "the folder may have it"


@pytest.mark.parametrize("columns", [40, 80, 100])
def test_no_command_of_doctor_is_folded(
    type_in: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, columns: int
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = ("doctor", "wr841n", "--on", "malta")
    narrow = [line.strip() for line in type_in(*words, columns=columns).stdout.splitlines()]
    wide = [line.strip() for line in type_in(*words, columns=1000).stdout.splitlines()]
    commands = [line for line in wide if line.startswith(("fix: ", "apt-get install ", "Not ready for "))]
    commands = [line for line in commands if "end that process" not in line]  # another run may begin meanwhile
    assert len(commands) > 10
    assert set(commands) <= set(narrow)


def test_images_that_are_not_built_are_named_with_the_command_that_builds_them(
    type_in: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(doctor, "lacking", lambda _: [])
    monkeypatch.setattr("tunnelbench.cli.doctor_remote.examine", lambda _: {})
    monkeypatch.setattr(doctor, "examine", lambda *_: {"machine": []})
    lines = type_in("doctor", "--on", "malta").stdout.splitlines()
    assert "Ready when the images are built: tunnelbench run quick --on malta" in lines
    assert lines[-1] == "tunnelbench testbed build malta"
    monkeypatch.setattr(doctor, "is_built", lambda _: True)
    assert type_in("doctor", "--on", "malta").stdout.splitlines()[-1] == "Ready: tunnelbench run quick --on malta"


@pytest.mark.parametrize(("free_bytes", "status"), [(899_000_000, Status.MISSING), (900_000_000, Status.OK)])
def test_a_virtual_router_without_room_for_its_image_is_not_ready(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free_bytes: int, status: Status
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free_bytes))
    monkeypatch.setattr(doctor, "KEYRING", tmp_path / "missing.gpg")
    found = {each.name: each for each in doctor.guest_programs(read_testbed("malta", KINDS).testbed)}
    assert found["disk space"].status == status
    assert found["debian-archive-keyring"].remedy == "apt-get install debian-archive-keyring"


def test_only_what_is_missing_is_listed_unless_all_is_asked_for(
    type_in: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    short, whole = (type_in("doctor", *words, columns=300).stdout for words in ([], ["--all"]))
    assert short.splitlines()[3] == "Missing"
    assert " absent " not in short
    assert " absent " in whole
    assert "; --all lists them." in short


def test_a_plan_of_udp_needs_the_engine(type_in: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise CannotHere("it is missing", "install TunnelBench from its wheel")

    monkeypatch.setattr(engine, "locate", nowhere)
    for plan, status in (("quick", "absent"), ("udp", "missing")):
        assert findings(type_in("doctor", plan, "--json").stdout)[engine.ENGINE_PROGRAM]["status"] == status


def test_a_testbed_that_was_asked_for_is_what_it_is_ready_for_and_takes_no_cpu_here(
    type_in: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "my.toml"
    file.write_text('kind = "ssh"\n[router]\nhost = "root@192.168.1.1"\n')
    asked: list[TestbedSpec] = []

    def examine(spec: TestbedSpec) -> dict[str, list[PreflightResult]]:
        asked.append(spec)
        return {}

    monkeypatch.setattr("tunnelbench.cli.doctor_remote.examine", examine)
    monkeypatch.setattr(doctor, "lacking", lambda _: [])
    found = json.loads(type_in("doctor", "--json", "--on", str(file)).stdout)
    assert "CPUs" not in {each["name"] for each in found["machine"]}
    assert [spec.router.access.host for spec in asked if spec.router] == ["root@192.168.1.1"]
    assert found["run"] == f"tunnelbench run quick --on {file}"
    (line,) = doctor.verdict([PreflightResult("root", Status.OK, "", "")], "tunnelbench run")
    assert str(line) == "Ready: tunnelbench run"


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
    hostile = PreflightResult("other load", Status.WARNING, "50%", "a\x1b[31mb\nc", "kill\x07 it")
    monkeypatch.setattr(preflight, "foreign_load", lambda *_: hostile)
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
    ("script", "expected"),
    [
        ("exit 3", "ended with status 3"),
        ("echo hello", "does not report its version"),
        ("""echo '{"type": "hello", "protocol": 99}'""", "speaks protocol 99, not 1"),
    ],
)
def test_an_engine_that_does_not_answer_as_it_should_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, expected: str
) -> None:
    path = tmp_path / "engine"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(engine, "locate", lambda: str(path))
    found = doctor.packet_engine()
    assert found.status is Status.ABSENT
    assert expected in found.found
    assert found.remedy.startswith("reinstall TunnelBench")


def test_a_requirement_names_the_packages_that_bring_it_on_openwrt() -> None:
    named = {requirement.what: requirement.openwrt for requirement, _ in needs(is_controller=False)}
    assert named["/dev/net/tun"] == "kmod-tun"
    assert named["the program openvpn"] == "openvpn-openssl"
    assert named["the kernel's vxlan"] == "kmod-vxlan ip-full"
    assert named["the kernel's wireguard"] == "kmod-wireguard"
    assert (named["the program wireguard-go"], named["boringtun-cli"]) == ("", "")


@pytest.mark.parametrize(
    ("manager", "requirement", "remedy"),
    [
        ("opkg", "the program openvpn", "opkg update && opkg install openvpn-openssl"),
        ("apk", "the kernel's gre", "apk add kmod-gre ip-full"),
        ("opkg", "the program wireguard-go", "no OpenWrt package with it is known"),
        ("apt-get", "the program openvpn", "apt-get install openvpn"),
    ],
)
def test_a_host_without_a_requirement_is_given_the_command_of_its_system(
    manager: str, requirement: str, remedy: str, tmp_path: Path
) -> None:
    bare = FakeHost("router", tmp_path)
    bare.programs, bare.link_types = set(), set()
    found = {each.name: each for each in doctor_remote.tunnels(cast("LeasedHost", bare), manager)}
    assert found[requirement].remedy == remedy
    assert "the program openssl" not in found, "it only makes keys"


class BootingMachine:
    """A virtual router whose CPU is busy, on a machine that emulates so many instructions per second."""

    executed_mips = 125.0
    ssh_config = Path("/nonexistent/ssh_config")

    def __init__(self, *_: object, speed_mips: float, **__: object) -> None:
        self.speed_mips = speed_mips
        self.readings = 0

    def cpu_s(self) -> float:
        return 0.0

    def wait_until_up(self) -> None:
        if not self.executed_mips:
            raise CannotHere("QEMU's monitor does not answer")

    def work(self) -> MachineWork:
        clock_s = 2.0 * self.readings
        self.readings += 1
        done = min(self.executed_mips, self.speed_mips)
        return MachineWork(clock_s, 0.0, round(clock_s * done * 1e6), clock_s * (1 - done / self.speed_mips))

    def stop(self) -> None:
        """Nothing runs."""


@pytest.mark.parametrize(
    ("executed_mips", "status", "found", "remedy"),
    [
        (400.0, Status.OK, "this machine holds 62.5 MIPS", ""),
        (50.0, Status.WARNING, "it holds 15.625 MIPS", "tunnelbench run PLAN --on malta --set speed_mips=15.625"),
        (0.0, Status.UNKNOWN, "QEMU's monitor does not answer", ""),
    ],
)
def test_the_speed_of_a_virtual_router_is_tried(  # noqa: PLR0917 - fixtures and parameters
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, executed_mips: float, status: Status, found: str, remedy: str
) -> None:
    monkeypatch.setattr(doctor_remote, "VirtualMachine", BootingMachine)
    monkeypatch.setattr(BootingMachine, "executed_mips", executed_mips)
    commands: list[list[str]] = []
    monkeypatch.setattr(doctor_remote, "run_command", commands.append)
    monkeypatch.setattr("tunnelbench.qemu.speed_trial.time.sleep", lambda _: None)
    image = Image(tmp_path, "6.1.0", ("linux-image 6.1.0",))
    result = doctor_remote.speed(read_testbed("malta", KINDS).testbed, image, tmp_path)
    assert result.status is status
    assert found in result.found
    assert remedy in result.remedy
    assert [argv[-1] for argv in commands] == ([WORK_IN_BACKGROUND] if executed_mips else [])
