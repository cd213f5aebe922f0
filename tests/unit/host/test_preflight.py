"""The checks of `doctor`: each requirement of a run is looked for, and a missing one never ends the search."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tunnelbench.host import preflight
from tunnelbench.host.namespace import NamespaceHost
from tunnelbench.host.preflight import BlindHost, Status, Wanted
from tunnelbench.host.programs import REQUIRED_PROGRAMS
from tunnelbench.model.errors import CannotHere

OUTPUT = Path(__file__).parents[2] / "output"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the only place for programs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def make_program(folder: Path, name: str, text: str) -> Path:
    program = folder / name
    program.write_text(text)
    program.chmod(0o755)
    return program


def as_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def test_every_required_program_has_a_purpose() -> None:
    assert preflight.PURPOSES.keys() == REQUIRED_PROGRAMS.keys()


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("ip utility, iproute2-6.1.0, libbpf 1.1.2\n", "6.1.0"),
        ("iperf 3.12 (cJSON 1.7.15)\nLinux vm 6.18.44\n", "3.12"),
        ("ping from iputils 20221126\n", "20221126"),
        ("nftables v1.0.6 (Lester Gooch #5)\n", "1.0.6"),
        ("setpriv from util-linux 2.38.1\n", "2.38.1"),
        ((OUTPUT / "openvpn-2.6.14/version.txt").read_text(), "2.6.14"),
        ((OUTPUT / "tinc-1.0.36/version.txt").read_text(), "1.0.36"),
        ((OUTPUT / "wireguard-go-0.0.20220316/version.txt").read_text(), "0.0.20220316"),
        ((OUTPUT / "openssl-3.0.19/version.txt").read_text(), "3.0.19"),
        ("tool3 x86_64\n", "version unknown"),
    ],
)
def test_a_version_is_read_from_what_a_program_prints(path: Path, printed: str, version: str) -> None:
    (path / "printed").write_text(printed)
    make_program(path, "tool", f'#!/bin/sh\nwhile read -r line; do echo "$line"; done <{path}/printed\nexit 1\n')
    finding = preflight.program(Wanted("tool", "for tests", "apt-get install tool"))
    assert (finding.status, finding.found, finding.remedy) == (Status.OK, version, "")


def test_a_version_may_be_printed_as_an_error(path: Path) -> None:
    make_program(path, "tool", "#!/bin/sh\necho tool 1.2 >&2\n")
    assert preflight.program(Wanted("tool", "", "")).found == "1.2"


def test_a_date_in_an_error_is_no_version(path: Path) -> None:
    make_program(path, "tool", "#!/bin/sh\necho '2026/11/22 10:00:00 tool: unknown option' >&2; exit 1")
    assert preflight.program(Wanted("tool", "", "")).found == "version unknown"


@pytest.mark.parametrize("lacking", [Status.MISSING, Status.ABSENT])
def test_a_program_that_is_not_there_has_its_remedy(path: Path, lacking: Status) -> None:
    finding = preflight.program(Wanted("tool", "for tests", "apt-get install tool", lacking))
    assert (finding.status, finding.found, finding.remedy) == (lacking, "", "apt-get install tool")


@pytest.mark.parametrize(
    "text", ["", "\x7fELF of another machine", "#!/no/such/interpreter\n", "#!/bin/sh\nexec /bin/sleep 60\n"]
)
def test_a_program_that_cannot_run_is_missing(path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(preflight, "VERSION_TIMEOUT_S", 0.2)
    make_program(path, "tool", text)
    finding = preflight.program(Wanted("tool", "for tests", "apt-get install tool"))
    assert finding.status is Status.MISSING
    assert finding.found.startswith("does not run: ")
    assert finding.remedy == "apt-get install tool"


def test_where_nothing_is_installed_all_is_missing_or_unknown(path: Path) -> None:
    assert {finding.status for finding in preflight.required_programs()} == {Status.MISSING}
    with preflight.probing_host() as host:
        findings = [preflight.namespaces(host), *preflight.base_features(host)]
    assert {finding.status for finding in findings} == {Status.UNKNOWN}
    assert all(finding.found for finding in findings)


def test_without_root_the_kernel_is_unknown_and_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch)
    monkeypatch.setattr(preflight, "run_command", None)
    with preflight.probing_host() as host:
        assert preflight.root().status is Status.MISSING
        findings = [preflight.namespaces(host), *preflight.base_features(host)]
    assert {finding.status for finding in findings} == {Status.UNKNOWN}
    assert {finding.found for finding in findings} == {"only root can test this"}


def test_namespaces_that_root_cannot_make_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(BlindHost, "has_program", lambda _host, program: program == "ip")
    finding = preflight.namespaces(BlindHost("mount --make-shared /run/netns failed: Operation not permitted"))
    assert (finding.status, finding.found.split()[0]) == (Status.MISSING, "mount")
    assert "--privileged" in finding.remedy


@pytest.mark.parametrize(
    ("governors", "status", "found"),
    [
        ([], Status.UNKNOWN, "not shown here"),
        (["performance", "performance"], Status.OK, "performance"),
        (["performance", "powersave"], Status.WARNING, "performance, powersave"),
    ],
)
def test_the_governor_of_every_cpu_counts(tmp_path: Path, governors: list[str], status: Status, found: str) -> None:
    for number, name in enumerate(governors):
        folder = tmp_path / f"cpu{number}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(f"{name}\n")
    finding = preflight.governor(tmp_path)
    assert (finding.status, finding.found, bool(finding.remedy)) == (status, found, status is Status.WARNING)


@pytest.mark.parametrize(
    ("text", "status"), [("81234567 95933 12\n", Status.OK), ("0 0 0\n", Status.WARNING), (None, Status.WARNING)]
)
def test_schedstat_counts_where_the_kernel_fills_it(tmp_path: Path, text: str | None, status: Status) -> None:
    if text:
        (tmp_path / "schedstat").write_text(text)
    assert preflight.schedstat(tmp_path / "schedstat").status is status


@pytest.fixture
def busy(tmp_path: Path) -> Path:
    """A program with a name of its own that does nothing but spin."""
    return make_program(tmp_path, "tb-busy", "#!/bin/sh\nwhile :; do :; done\n")


def test_load_of_others_is_seen_with_its_name(busy: Path) -> None:
    # The shell between ends at once, so that the busy one is no descendant of ours.
    started = ["sh", "-c", f"{busy} >/dev/null 2>&1 & echo $!"]
    pid = int(subprocess.run(started, capture_output=True, text=True, check=True).stdout)
    try:
        finding = preflight.foreign_load(sorted(os.sched_getaffinity(0)), 0.3, limit_share=0.05)
    finally:
        os.kill(pid, signal.SIGKILL)
    assert finding.status is Status.WARNING
    assert "tb-busy" in finding.why


def test_load_of_our_own_is_not_foreign(busy: Path) -> None:
    with subprocess.Popen([busy]) as process:
        try:
            finding = preflight.foreign_load(sorted(os.sched_getaffinity(0)), 0.3, limit_share=0.0)
        finally:
            process.kill()
    assert "tb-busy" not in finding.why


def test_a_place_for_results_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    finding = preflight.writable(tmp_path / "not" / "yet" / "results.sqlite")
    assert finding.status is Status.OK
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_there_is_not_touched(tmp_path: Path) -> None:
    store = tmp_path / "results.sqlite"
    store.write_bytes(b"results")
    os.utime(store, (0, 0))
    assert preflight.writable(store).status is Status.OK
    assert (store.read_bytes(), store.stat().st_mtime) == (b"results", 0)


@pytest.mark.parametrize("place", ["/proc/tunnelbench/results.sqlite", "a-file/results.sqlite", "a-folder"])
def test_a_place_that_cannot_be_written_is_missing(tmp_path: Path, place: str) -> None:
    (tmp_path / "a-file").touch()
    (tmp_path / "a-folder").mkdir()
    finding = preflight.writable(tmp_path / place)
    assert finding.status is Status.MISSING
    assert finding.found
    assert "XDG_DATA_HOME" in finding.remedy


@pytest.mark.lab
def test_kernel_features_are_tried_and_nothing_is_left() -> None:
    devices = set(Path("/sys/class/net").iterdir())
    with preflight.probing_host() as host:
        found = {finding.name: finding for finding in [preflight.tun_device(host), *preflight.base_features(host)]}
        assert set(Path("/sys/class/net").iterdir()) == devices
    assert {name for name, finding in found.items() if finding.status is Status.UNKNOWN} == set()
    assert found["veth"].status is Status.OK
    assert found["nftables counters"].status is Status.OK


@pytest.mark.lab
def test_a_feature_that_the_kernel_lacks_is_reported_with_its_reason() -> None:
    with preflight.scratch_namespace() as host:
        wanted = Wanted("sch_nonsense", "for tests", "modprobe sch_nonsense", Status.ABSENT)
        finding = preflight._tried(host, wanted, ["tc", "qdisc", "add", "dev", "lo", "root", "nonsense"])
        assert not host.has_link_type("nonsense")
    assert (finding.status, finding.remedy) == (Status.ABSENT, "modprobe sch_nonsense")
    assert "nonsense" in finding.found or "unknown" in finding.found


@pytest.mark.lab
def test_the_scratch_namespace_goes_when_the_block_fails() -> None:
    with pytest.raises(ZeroDivisionError), preflight.scratch_namespace():
        raise ZeroDivisionError


@pytest.mark.lab
def test_a_namespace_of_that_name_is_a_reason_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda _: "abcdef")
    subprocess.run(["ip", "netns", "add", "tb-abcdef-scratch"], check=True)
    try:
        with pytest.raises(CannotHere, match="File exists"), preflight.scratch_namespace():
            pass
    finally:
        subprocess.run(["ip", "netns", "del", "tb-abcdef-scratch"], check=True)


@pytest.mark.lab
def test_an_anchor_that_is_killed_is_started_again(tmp_path: Path) -> None:
    host = NamespaceHost("router", tmp_path / "router", sorted(os.sched_getaffinity(0)), "tb-abcde0-scratch")
    host.create()
    try:
        assert host._anchor is not None
        for _ in range(2):
            os.kill(host._anchor.pid, signal.SIGKILL)
            assert "lo:" in host.read("/proc/net/dev")
    finally:
        host.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root refuses folders of other users")
def test_a_place_that_root_would_refuse_as_a_store_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    finding = preflight.writable(shared / "results.sqlite")
    assert finding.status is Status.MISSING
    assert f"every user can write to {shared}" in finding.found
    assert preflight.writable(shared / "below" / "results.sqlite").status is Status.OK  # the run makes that folder
