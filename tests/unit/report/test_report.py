"""The report of one run in each format, against files that a person has looked at."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from pytest_regressions.file_regression import FileRegressionFixture
from tests.unit.builders import make_records, make_run, make_speeds

from tunnelbench.model.errors import WrongInput
from tunnelbench.model.result import Check, TrialRecord, Verdict
from tunnelbench.report.formats import format_names
from tunnelbench.report.render import render

FOR_PEOPLE = ("dokuwiki", "markdown", "terminal", "textile")


def excerpt() -> tuple[TrialRecord, ...]:
    """One trial of each kind, for the formats with a record a trial."""
    wanted = {"none", "openvpn AES-128-GCM", "tinc BF-CBC, SHA-1", "wireguard"}
    return tuple(
        record
        for record in make_records(rounds=1)
        if record.spec.tunnel.name in wanted and (record.spec.payload_bytes, record.spec.direction) == (1448, "in")
    )


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(WrongInput) as caught:
        render(make_run(), (), "paper")
    assert caught.value.hint == f"formats: {', '.join(format_names())}"


@pytest.mark.parametrize("width", [80, 120])
def test_terminal(file_regression: FileRegressionFixture, width: int) -> None:
    file_regression.check(render(make_run(), make_records(), "terminal", width, speeds=make_speeds()), encoding="utf-8")


def test_markdown(file_regression: FileRegressionFixture) -> None:
    file_regression.check(
        render(make_run(), make_records(), "markdown", speeds=make_speeds()), encoding="utf-8", extension=".md"
    )


def test_textile(file_regression: FileRegressionFixture) -> None:
    file_regression.check(
        render(make_run(), make_records(), "textile", speeds=make_speeds()), encoding="utf-8", extension=".textile"
    )


def test_dokuwiki(file_regression: FileRegressionFixture) -> None:
    file_regression.check(
        render(make_run(), make_records(), "dokuwiki", speeds=make_speeds()), encoding="utf-8", extension=".dokuwiki"
    )


def test_csv(file_regression: FileRegressionFixture) -> None:
    text = render(make_run(), excerpt(), "csv")
    file_regression.check(text.encode(), binary=True, extension=".csv")


def test_json(file_regression: FileRegressionFixture) -> None:
    file_regression.check(
        render(make_run(), excerpt(), "json", speeds=make_speeds()[:1]), encoding="utf-8", extension=".json"
    )


@pytest.mark.parametrize("name", format_names())
def test_a_report_ends_with_one_line_break(name: str) -> None:
    text = render(make_run(), make_records(), name)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


@pytest.mark.parametrize("name", format_names())
def test_a_run_that_was_killed_before_its_first_trial_has_a_report(name: str) -> None:
    run = make_run(status="running", ended_at=None, trials_recorded=0, host_facts={}, notes=(), testbed_text="")
    assert run.run_id in render(run, (), name) or name in {"csv", "series"}


@pytest.mark.parametrize("name", format_names())
def test_one_store_always_gives_one_report(name: str) -> None:
    records = make_records(rounds=6)
    assert render(make_run(), records, name) == render(make_run(), tuple(reversed(records)), name)


@pytest.mark.parametrize("name", FOR_PEOPLE)
class TestForPeople:
    def test_refused_and_unavailable_tunnels_are_listed_with_their_reason(self, name: str) -> None:
        text = render(make_run(), make_records(), name).replace("&#39;", "'").replace("%%'%%", "'")
        table, _, doubts = text.replace(" =====\n", "\n").partition("Warnings\n")
        for reason in ("the data went over TCP", "wireguard is missing on router"):
            assert reason in table
            assert reason in doubts

    def test_it_says_what_it_was_taken_on_before_the_table(self, name: str) -> None:
        head, _, _ = render(make_run(), make_records(), name, 200).lower().partition("share of")
        for fact in (
            "one machine, three namespaces",
            "absolute figures apply to this machine only",
            "amd epyc 7b13",
            "2 cpus",
            "governor not recorded",
            "instructions aes pclmulqdq",
            "a virtual machine",
            "kernel 6.18.0",
            "2025-03-14 09:26 utc",
            "quick: 3 rounds, trials of 10.0 s",
            "100 of 100 trials",
            "0.1.0",
            "8 of 32 rows are tester-limited",
        ):
            assert fact in head

    def test_the_share_of_the_baseline_comes_before_the_throughput(self, name: str) -> None:
        text = render(make_run(), make_records(), name).lower()
        header = text[text.index("version") :]
        assert 0 < header.index("share of") < header.index("mbit/s")

    def test_every_class_is_counted(self, name: str) -> None:
        counts = "100 trials: 31 ok, 18 note, 24 doubtful, 3 void, 12 refused, 12 unavailable, 0 given-up."
        assert counts in render(make_run(), make_records(), name)

    def test_a_baseline_that_the_testers_limit_is_reported_before_the_table(self, name: str) -> None:
        limited = Check("tester-limited", Verdict.DOUBTFUL, "a tester's CPU was 97% busy", 6)
        records = [replace(record, checks=(*record.checks, limited)) for record in make_records()[4:6]]
        text = render(make_run(), records, name, 200)
        assert "2 of 2 rows are tester-limited" in text
        assert "The baseline is tester-limited too (1448 down, 1448 up)" in text
        assert "The baseline is tester-limited" not in render(make_run(), make_records(), name, 200)

    def test_too_few_rounds_are_reported_before_the_table(self, name: str) -> None:
        said = "cannot show a spread"
        assert f"2 rounds {said}" in render(make_run(), make_records(rounds=2), name, 200)
        assert said not in render(make_run(), make_records(rounds=3), name, 200)

    def test_a_run_that_was_interrupted_says_so(self, name: str) -> None:
        run = make_run(status="interrupted")
        text = render(run, make_records()[:40], name, 200)
        assert "interrupted, 40 of 100 trials" in text
        assert "The table is incomplete: the run recorded 40 of 100 trials." in text

    def test_another_kind_of_testbed_is_not_called_three_namespaces(self, name: str) -> None:
        text = render(make_run(testbed_name="attic", testbed_text='kind = "imaginary"\n'), make_records(), name, 200)
        assert "testbed attic: kind imaginary" in text
        assert "three namespaces" not in text

    def test_facts_that_are_not_recorded_are_called_so(self, name: str) -> None:
        run = make_run(host_facts={}, testbed_text="= broken", started_at="yesterday")
        text = render(run, make_records(), name, 200)
        assert "not recorded, CPUs not recorded, governor not recorded" in text
        assert "not recorded, kernel not recorded" in text
        assert "kind not recorded" in text
        assert "yesterday" in text


def test_heavy_libraries_are_loaded_only_by_the_format_that_draws_with_them() -> None:
    program = (
        "import sys, tunnelbench.report as report;"
        "from tunnelbench.report.formats import html, markdown;"
        "sys.exit(' '.join(name for name in ('jinja2', 'rich', 'sqlalchemy', 'pydantic') if name in sys.modules))"
    )
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert completed.stderr.strip() == ""


@pytest.mark.parametrize("format_name", FOR_PEOPLE)
def test_a_report_says_who_ends_the_tunnel_where_the_testbed_file_does(format_name: str) -> None:
    usual = make_run()
    run = replace(usual, testbed_text='kind = "netns"\ntopology = "road-warrior"\n')
    text = " ".join(render(run, make_records(rounds=1), format_name, 200).split())
    assert "road-warrior: the tunnel joins client and router, which is its server" in text
    odd = replace(usual, testbed_text='kind = "netns"\ntopology = ["ring"]\n')
    assert all("Topology" not in render(each, make_records(rounds=1), format_name, 200) for each in (usual, odd))


@pytest.mark.parametrize("format_name", FOR_PEOPLE)
def test_a_run_inside_a_guest_says_so_and_points_to_the_shares(format_name: str) -> None:
    run = make_run()
    guest = {"guest": "inside a guest, emulated", "guest_kernel": "6.1.0-1-amd64", "guest_package": "linux-image 6.1.1",
             "guest_cpu": "max of QEMU 7.2"}  # fmt: skip
    inside = replace(run, host_facts={**run.host_facts, "cpu_mhz": 2500, **guest})
    text = " ".join(render(inside, make_records(rounds=1), format_name, 120).split())
    assert "inside a guest, emulated: kernel 6.1.0-1-amd64 (linux-image 6.1.1), CPU max of QEMU 7.2" in text
    assert "Taken inside a guest, emulated: compare the shares of the baseline." in text
    assert "in MHz of this CPU" not in text
    assert "guest" not in render(run, make_records(rounds=1), format_name, 120)


@pytest.mark.parametrize("format_name", ["terminal", "markdown", "textile", "dokuwiki", "html"])
def test_a_wireless_lan_is_reported_with_what_both_ends_said(format_name: str) -> None:
    facts = {"client_radio_band": "5 GHz", "client_radio_channel": 36, "client_radio_tx_mbps": 866.7}
    facts |= {"router_radio_signal_dbm": -48}
    text = render(make_run(host_facts=facts), make_records(1), format_name, 200)
    assert "Wireless" in text
    for words in ("client: 5 GHz, channel 36, sent at 866.7 Mbit/s; router: signal", "48 dBm"):  # Textile has &#45;
        assert words in " ".join(text.split())
    assert "Wireless" not in render(make_run(host_facts={}), make_records(1), format_name, 200)
