"""`tunnelbench compare` compares two results, and fails at a regression if asked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_regressions.file_regression import FileRegressionFixture
from tests.unit.builders import make_records, make_run, make_tcp
from tests.unit.cli.conftest import RUN_ID, CommandLine, CopyOf, keep
from tests.unit.report.test_instructions import counted

from tunnelbench.model.result import Outcome, TrialRecord
from tunnelbench.report.formats import sheet_format_names

EARLY, LATE = "20250601-000000-early", "20250602-000000-late"


def slower(record: TrialRecord) -> TrialRecord:
    """A trial of vxlan through a router that is slower by a tenth."""
    if record.tcp is None or record.spec.tunnel.name != "vxlan":
        return record
    cost = record.tcp.cpu_s_per_million_packets or 0.0
    bps, payload = record.tcp.throughput_bps * 0.9, record.tcp.mss_bytes or 0
    return replace(record, measurement=make_tcp(bps, payload_bytes=payload, cpu_s_per_million_packets=cost / 0.9))


@pytest.fixture
def runs(home: Path, copy_of: CopyOf) -> Path:
    """Two runs of five rounds, of which the later one met a slower router."""
    return copy_of(_early_and_late, home)


def _early_and_late(path: Path) -> None:
    records = make_records(5)
    keep(path, make_run(run_id=EARLY, started_at="2025-06-01T00:00:00+00:00"), records)
    facts = {**make_run().host_facts, "kernel": "6.19.1"}
    later = make_run(run_id=LATE, started_at="2025-06-02T00:00:00+00:00", host_facts=facts)
    keep(path, later, tuple(map(slower, records)))


@pytest.mark.parametrize("name", sheet_format_names())
def test_every_format_says_the_same(
    type_in: CommandLine, runs: Path, tmp_path: Path, file_regression: FileRegressionFixture, name: str
) -> None:
    out = tmp_path / "out"
    result = type_in("compare", EARLY, LATE, "--fail-on-regression", "5", "--full", "--format", name, "-o", out)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "")
    text = out.read_bytes().decode()
    if name == "html":  # without the scripts and the style
        text = text[text.index("<body>") : text.index('<script type="application/json" id="chart-config">')]
    file_regression.check(text.replace("\r\n", "\n"), extension=f".{name}")


def test_only_what_is_worse_by_more_than_was_allowed_fails(type_in: CommandLine, runs: Path) -> None:
    assert type_in("compare", EARLY, LATE).exit_code == 0
    assert type_in("compare", EARLY, LATE, "--fail-on-regression", "9").exit_code == 1
    assert type_in("compare", EARLY, LATE, "--fail-on-regression", "12").exit_code == 0
    assert type_in("compare", LATE, EARLY, "--fail-on-regression", "0").exit_code == 0
    assert type_in("compare", LATE, "last", "--fail-on-regression", "0").exit_code == 0


def test_a_tunnel_that_no_longer_works_does_not_pass(type_in: CommandLine, runs: Path) -> None:
    records = [
        replace(record, measurement=None, outcome=Outcome.REFUSED, reason="it did not come up")
        if record.spec.tunnel.name == "vxlan"
        else record
        for record in make_records(5)
    ]
    keep(runs, make_run(run_id="20250603-000000-broken", started_at="2025-06-03T00:00:00+00:00"), tuple(records))
    result = type_in("compare", EARLY, "last", "--fail-on-regression", "5")
    assert result.exit_code == 2
    assert "B has no figure of vxlan 1448 down, vxlan 1448 up, vxlan 76 down and 1 more, which A has" in " ".join(
        result.stderr.split()
    )
    assert type_in("compare", EARLY, "last").exit_code == 0


def test_a_row_that_no_longer_counts_does_not_pass(type_in: CommandLine, runs: Path) -> None:
    records = [
        replace(record, measurement=None, outcome=Outcome.VOID, reason="the traffic stalled")
        if (record.spec.tunnel.name, record.spec.what) == ("vxlan", "76 down")
        else record
        for record in make_records(5)
    ]
    keep(runs, make_run(run_id="20250603-000000-broken", started_at="2025-06-03T00:00:00+00:00"), tuple(records))
    result = type_in("compare", EARLY, "last", "--fail-on-regression", "50")
    assert result.exit_code == 2
    assert "B has no figure of vxlan 76 down, which A has" in " ".join(result.stderr.split())


def test_a_slower_row_with_too_few_trials_left_does_not_pass(type_in: CommandLine, runs: Path) -> None:
    def later(record: TrialRecord) -> TrialRecord:
        if (record.spec.tunnel.name, record.spec.what) != ("vxlan", "1448 down") or record.tcp is None:
            return record
        if record.spec.round == 1:
            return replace(record, measurement=None, outcome=Outcome.VOID, reason="the traffic stalled")
        return replace(record, measurement=make_tcp(record.tcp.throughput_bps * 0.6))

    records = map(later, make_records(5))
    keep(runs, make_run(run_id="20250603-000000-broken", started_at="2025-06-03T00:00:00+00:00"), tuple(records))
    found = json.loads(type_in("compare", EARLY, "last", "--json").stdout)
    assert ("vxlan", "lower") in {(row["tunnel"], row["verdict"]) for row in found["rows"]}
    result = type_in("compare", EARLY, "last", "--fail-on-regression", "5")
    assert result.exit_code == 2
    assert "no figure of vxlan 1448 down can be tested: too few trials count" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("left_out", "named"),
    [("vxlan", "vxlan 1448 down, vxlan 1448 up, vxlan 76 down and 1 more"), (76, "none 76 down")],
)
def test_a_run_that_lacks_a_tunnel_or_a_payload_does_not_pass(
    type_in: CommandLine, runs: Path, left_out: str | int, named: str
) -> None:
    records = [
        record for record in make_records(5) if left_out not in {record.spec.tunnel.name, record.spec.payload_bytes}
    ]
    keep(runs, make_run(run_id="20250603-000000-part", started_at="2025-06-03T00:00:00+00:00"), tuple(records))
    result = type_in("compare", EARLY, "last", "--fail-on-regression", "5")
    assert result.exit_code == 2
    assert f"B lacks {named}" in " ".join(result.stderr.split())


def test_a_run_with_one_more_tunnel_passes(type_in: CommandLine, runs: Path) -> None:
    records = [record for record in make_records(5) if record.spec.tunnel.name != "vxlan"]
    keep(runs, make_run(run_id="20250603-000000-part", started_at="2025-06-03T00:00:00+00:00"), tuple(records))
    assert type_in("compare", "last", EARLY, "--fail-on-regression", "5").exit_code == 0


def test_two_runs_without_a_common_row_are_reported(type_in: CommandLine, runs: Path) -> None:
    result = type_in("compare", f"{EARLY}#none", "wr841n-2014", "--fail-on-regression", "5")
    assert result.exit_code == 2
    keep(runs, make_run(run_id="20250603-000000-none", started_at="2025-06-03T00:00:00+00:00"), ())
    result = type_in("compare", EARLY, "last", "--fail-on-regression", "5")
    assert result.exit_code == 2
    assert "no row of A is in B" in " ".join(result.stderr.split())


def test_json_has_each_verdict(type_in: CommandLine, runs: Path) -> None:
    found = json.loads(type_in("compare", EARLY, LATE, "--json").stdout)
    verdicts = {(row["tunnel"], row["figure"], row["verdict"]) for row in found["rows"] if row["is_different"]}
    assert verdicts == {
        ("vxlan", "Mbit/s", "slower"),
        ("vxlan", "share of baseline", "slower"),
        ("vxlan", "CPU s/Mpackets", "dearer"),
        ("vxlan", "CPU over baseline's", "dearer"),
    }
    assert {"what": "kernel", "a": "6.18.0", "b": "6.19.1"} in found["differences"]


@pytest.fixture
def long_run(home: Path) -> Path:
    """One run of eight rounds."""
    keep(home, make_run(run_id="20250603-000000-long"), make_records(8))
    return home


def test_two_tunnels_of_one_run_are_compared_round_by_round(type_in: CommandLine, long_run: Path) -> None:
    found = json.loads(type_in("compare", "last#vxlan", "last#tinc AES-128-CBC, SHA-1", "--json").stdout)
    assert found["is_paired"]
    tested = [row for row in found["rows"] if row["p"] is not None]
    assert {(row["tunnel"], row["tunnel_in_b"]) for row in tested} == {("vxlan", "tinc AES-128-CBC, SHA-1")}
    assert all(row["verdict"] in {"slower", "dearer"} for row in tested)
    text = type_in("compare", "last#vxlan", "last#tinc AES-128-CBC, SHA-1", "--full").stdout
    assert "Two tunnels of one run" in text
    assert "signed-rank" in text


def test_a_tunnel_that_the_run_has_not_is_named_with_those_that_it_has(type_in: CommandLine, long_run: Path) -> None:
    result = type_in("compare", "last#vxlan", "last#gre")
    assert result.exit_code == 2
    assert 'run 20250603-000000-long has no tunnel "gre" hint: it has "none", "vxlan"' in result.stderr.replace(
        "\n", " "
    )


def test_a_gate_over_too_few_rounds_of_one_run_says_how_many_it_needs(type_in: CommandLine, runs: Path) -> None:
    result = type_in("compare", f"{EARLY}#none", f"{EARLY}#vxlan", "--fail-on-regression", "5")
    assert result.exit_code == 2
    assert "two tunnels of one run of 8 rounds or more" in " ".join(result.stderr.split())


def test_a_gate_that_could_not_fail_is_refused(type_in: CommandLine, store: Path) -> None:
    result = type_in("compare", RUN_ID, RUN_ID, "--fail-on-regression", "5")
    assert result.exit_code == 2
    assert "no row can be tested: the runs have too few rounds" in result.stderr
    assert "Nothing is tested" in result.stdout


def test_a_run_stands_beside_a_published_result(
    type_in: CommandLine, store: Path, file_regression: FileRegressionFixture
) -> None:
    result = type_in("compare", "last", "wr841n-2014", "--full", columns=100)
    assert result.exit_code == 0
    file_regression.check(result.stdout, extension=".txt")


@pytest.fixture
def run_of_fixed_speed(home: Path) -> Path:
    """A run on a router of fixed speed, which executed 9000 instructions for each packet."""
    keep(home, make_run(), counted(make_records(3)))
    return home


@pytest.mark.parametrize("name", ["terminal", "markdown", "json"])
def test_a_run_of_fixed_speed_is_calibrated(
    type_in: CommandLine, run_of_fixed_speed: Path, file_regression: FileRegressionFixture, name: str
) -> None:
    text = type_in("compare", "last", "wr841n-2014", "--full", "--format", name, columns=100).stdout
    if name == "json":
        calibration = json.loads(text)["calibration"]
        assert calibration["clock_mhz"] == 535
        assert [row["error_share"] for row in calibration["rows"]] == pytest.approx(
            [row["predicted_mbps"] / row["published_mbps"] - 1 for row in calibration["rows"]]
        )
        return
    text = text[text.index("Calibration") : text.index("What differs")]
    file_regression.check(text, extension=".txt")


def test_the_first_screen_has_the_error_of_the_calibration(type_in: CommandLine, run_of_fixed_speed: Path) -> None:
    text = " ".join(type_in("compare", "last", "wr841n-2014", columns=100).stdout.split())
    assert "At 535 MHz, the published router took " in text
    assert "predicted from the other rows, is wrong by " in text


def test_figures_that_are_not_within_the_limit_fail(type_in: CommandLine, runs: Path) -> None:
    assert type_in("compare", EARLY, LATE, "--within", "12").exit_code == 0
    for sides in ((EARLY, LATE), (LATE, EARLY)):
        result = type_in("compare", *sides, "--within", "3")
        assert result.exit_code == 1
        text = " ".join(result.stdout.split())
        assert "B is not within 3 % of A's: " in text
        reason = text.index("What can be the reason: ")
        assert "kernel: 6.1" in text[reason:]
        assert reason > text.index("B against A")
    assert json.loads(type_in("compare", EARLY, LATE, "--within", "12", "--json").stdout)["apart"] == []
    nothing = type_in("compare", f"{EARLY}#vxlan", "wr841n-2014", "--within", "3")
    assert nothing.exit_code == 2
    assert "no figure of the routers is on both sides" in " ".join(nothing.stderr.split())


def test_an_exported_file_is_a_side(type_in: CommandLine, runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "early.json"
    assert type_in("export", EARLY, "-o", file).exit_code == 0
    assert type_in("compare", file, LATE, "--fail-on-regression", "9").exit_code == 1
    assert type_in("compare", f"{file}#vxlan", f"{LATE}#vxlan", "--fail-on-regression", "9").exit_code == 1
    missing = type_in("compare", tmp_path / "missing.json", LATE)
    assert missing.exit_code == 2
    assert "missing.json: it cannot be read" in " ".join(missing.stderr.split())


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize(("a", "b"), [(EARLY, LATE), (f"{LATE}#openvpn", f"{LATE}#tinc"), (LATE, "wr841n-2014")])
def test_the_first_screen_has_at_most_40_lines(  # noqa: PLR0917 - fixtures and parameters
    type_in: CommandLine, runs: Path, file_regression: FileRegressionFixture, a: str, b: str, columns: int
) -> None:
    text = type_in("compare", a, b, columns=columns).stdout
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= columns
    file_regression.check(text, extension=".txt")


def test_a_whole_run_beside_a_published_table_has_at_most_40_lines(type_in: CommandLine, home: Path) -> None:
    sample = Path(__file__).resolve().parents[3] / "docs" / "sample-run.json"
    assert type_in("import", sample).exit_code == 0
    text = type_in("compare", "last", "wr841n-2014", columns=100).stdout
    assert "The sides differ in date: " in text
    assert len(text.splitlines()) <= 40


def test_the_first_screen_explains_pairs_and_limited_rates(type_in: CommandLine, runs: Path) -> None:
    paired = " ".join(type_in("compare", f"{LATE}#wireguard-go", f"{LATE}#vxlan").stdout.split())
    assert "B against A: median of the quotients of all rounds." in paired
    assert "all rounds agree" in paired
    assert "spreads" not in paired
    unpaired = " ".join(type_in("compare", EARLY, LATE).stdout.split())
    assert "Medians." in unpaired
    assert "tester-limited on both sides" in unpaired


@pytest.mark.parametrize(("wanted", "name"), [
    ("openvpn", "openvpn AES-128-GCM"), ("OpenVPN", "openvpn AES-128-GCM"), ("tinc aes", "tinc AES-128-CBC, SHA-1"),
    ("openvpn none, none", "openvpn none, none"),
])  # fmt: skip
def test_a_tunnel_is_found_by_kind_or_the_beginning_of_its_name(
    type_in: CommandLine, store: Path, wanted: str, name: str
) -> None:
    found = json.loads(type_in("compare", "last#vxlan", f"last#{wanted}", "--json").stdout)
    assert {row["tunnel_in_b"] for row in found["rows"]} == {name}
    is_ambiguous = wanted.lower() == "openvpn"
    assert any("fits 2 tunnels, and this is" in remark for remark in found["b"]["remarks"]) == is_ambiguous


def test_two_published_results_need_no_store(type_in: CommandLine, home: Path) -> None:
    result = type_in("compare", "apu1d-2014", "reference:wr841n-2014")
    assert result.exit_code == 0
    assert not home.exists()


def test_what_is_not_comparable_is_refused(type_in: CommandLine, store: Path) -> None:
    result = type_in("compare", "last", "wireguard-by-device")
    assert result.exit_code == 2
    assert "on the device itself" in result.stderr
    assert "tunnelbench show wireguard-by-device" in result.stderr


def test_nan_is_no_percentage(type_in: CommandLine, store: Path) -> None:
    result = type_in("compare", "last", "last", "--fail-on-regression", "nan")
    assert result.exit_code == 2
    assert "nan is not a finite number" in result.stderr


def test_a_reference_is_not_denied_where_it_cannot_be_taken_apart(type_in: CommandLine, store: Path) -> None:
    apart = type_in("compare", "wr841n-2014#openvpn", "last")
    assert apart.exit_code == 2
    assert "is a reference: RUN#TUNNEL needs a run" in apart.stderr
    no_run = type_in("compare", "run:wr841n-2014", "last")
    assert no_run.exit_code == 2
    assert "is no run" in no_run.stderr
    assert "is no reference" not in no_run.stderr


def test_a_name_that_is_nothing_says_what_there_is(type_in: CommandLine, store: Path) -> None:
    result = type_in("compare", "nothing", "last")
    assert result.exit_code == 2
    assert "'nothing' is no reference, and no run" in result.stderr.replace('"', "'")
    assert "wr841n-2014" in result.stderr
    assert type_in("compare", "run:last", f"run:{RUN_ID}").exit_code == 0
    assert type_in("compare", "reference:last", "last").exit_code == 2


def test_two_speeds_of_a_virtual_router_are_not_compared(type_in: CommandLine, runs: Path) -> None:
    for day, speed_mips in ((3, 62.5), (4, 125.0)):
        started = f"2025-06-0{day}T00:00:00+00:00"
        run = make_run(
            run_id=f"2025060{day}-000000-fixed", started_at=started, host_facts={"guest_speed_mips": speed_mips}
        )
        keep(runs, run, make_records(5))
    said = "The router of A has 62.5 MIPS and that of B 125. Only instructions per packet can be compared"
    for full in ((), ("--full",)):
        result = type_in("compare", "20250603", "20250604", *full)
        assert result.exit_code == 0
        assert said in " ".join(result.stdout.split())
    for option in ("--within", "--fail-on-regression"):
        result = type_in("compare", "20250603", "20250604", option, "100")
        assert result.exit_code == 2
        assert "the router of A has 62.5 MIPS and that of B 125" in " ".join(result.stderr.split())
