"""`tunnelbench devices --predict`, and the table in docs/devices.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median

from tests.unit.cli.conftest import CommandLine

from tunnelbench.analysis.number_format import percent_in_words
from tunnelbench.analysis.prediction import Basis, Validation
from tunnelbench.reference import read_reference, shipped_names
from tunnelbench.report.device_prediction import predicted_devices
from tunnelbench.report.device_ranking import all_rows
from tunnelbench.report.site.device_names import device_key

PAGE = Path(__file__).parents[3] / "docs" / "devices.md"


def shipped(tunnel: str) -> Validation:
    return predicted_devices(all_rows([], [read_reference(name) for name in shipped_names()]), tunnel).validation


def table(tried: Validation) -> str:
    lines = [
        "| predicted from | figures with a prediction | inside the 90 % interval | median error |",
        "|---|---|---|---|",
    ]
    for name, kept in [*((each.value, tried.of(each)) for each in Basis), ("together", tried)]:
        share = f"{kept.covered} ({kept.covered / len(kept.cases):.0%})".replace("%", " %") if kept.cases else "0"
        error = "" if kept.median_error is None else percent_in_words(kept.median_error)
        count = f"{len(kept.cases)} of {tried.figures}" if kept is tried else str(len(kept.cases))
        lines.append(f"| {name} | {count} | {share} | {error} |")
    return "\n".join(lines)


def test_the_page_has_the_result_of_leaving_out_each_figure() -> None:
    assert f"<!-- leave one out -->\n\n{table(shipped('wireguard'))}\n\n<!-- end -->" in PAGE.read_text()


def test_the_page_names_each_figure_outside_its_interval() -> None:
    tried = shipped("wireguard")
    text = " ".join(PAGE.read_text().split())
    failures = text.partition("**Where predictions fail.**")[2].partition("These are all eight figures")[0]
    outside = [case for case in tried.worst if not case.is_covered]
    assert len(outside) == 8
    assert set(re.findall(r"\b\d[\d,]*\b(?! published)", failures)) == {f"{case.figure.mbps:,.0f}" for case in outside}
    cpus = {case.figure.device.rpartition(" ")[2].rstrip("b2") for case in outside}
    assert {cpu for cpu in cpus if cpu not in failures.lower()} == set()
    assert {case.figure.measurement.kind for case in tried.cases} == {"wireguard"}
    assert f"All {len(tried.cases)} tests are with WireGuard" in text


def test_the_page_states_how_many_figures_and_medians_are_left_out() -> None:
    rows = all_rows([], [read_reference(name) for name in shipped_names()])
    usable = sum(bool(row.is_encrypted) and not row.is_lower_bound for row in rows)
    page = " ".join(PAGE.read_text().split())
    medians = shipped("wireguard").figures
    assert f"The {usable} usable published figures of encrypted tunnels have {medians} medians, one for each" in page


def test_the_page_states_how_much_repeated_figures_differ() -> None:
    groups: dict[str, list[float]] = {}
    for row in read_reference("wireguard-by-device").rows:
        groups.setdefault(device_key(row["device"]), []).append(float(row["throughput_mbps"]))
    factors = [max(rates) / min(rates) for rates in groups.values() if len(rates) > 1]
    text = " ".join(PAGE.read_text().split())
    assert f"{len(factors)} devices have several figures of WireGuard" in text
    assert f"by a factor of {median(factors):.1f} in the median, and {max(factors):.1f} at most" in text


def test_a_device_with_a_known_cpu_has_a_prediction(type_in: CommandLine, home: Path) -> None:
    done = type_in("devices", "--tunnel", "wireguard", "--predict", "--json")
    found = json.loads(done.stdout)
    (row,) = (each for each in found["predicted"] if each["device"] == "TL-WR1043ND v2")
    assert (row["cpu"], row["basis"], row["comparability"]) == ("qca9558", "same CPU", "on-device")
    assert row["low_mbps"] < 35.2 <= row["throughput_mbps"] + 0.001 < row["high_mbps"]
    assert {each["device"] for each in found["measured"]}.isdisjoint(each["device"] for each in found["predicted"])


def test_the_output_says_how_predictions_were_tried_and_what_is_not_known(type_in: CommandLine, home: Path) -> None:
    for width in (80, 120):
        lines = type_in("devices", "--tunnel", "fastd", "--predict", columns=width).stdout.splitlines()
        text = " ".join(lines)
        assert max(map(len, lines)) <= width
        assert len(lines) <= 40
        assert "Kinds of tunnels in this test: wireguard." in text
        assert (
            "each the median of a device, variant and direction: each was left out in turn and predicted from" in text
        )
        assert "Not known for 157 more devices" in text
    nothing = type_in("devices", "--tunnel", "openvpn", "--predict", columns=120).stdout
    assert "No device has a prediction." in nothing


def test_a_tunnel_without_predictions_says_how_many_devices_are_lacking(type_in: CommandLine, home: Path) -> None:
    words = ("devices", "--tunnel", "openvpn", "--target-mbps", "100", "--predict")
    text = " ".join(type_in(*words).stdout.split())
    assert "No device has a prediction." in text
    assert (
        "No other tunnel helps to predict openvpn: usable figures of openvpn come from 3 devices, figures of openvpn "
        "and of another tunnel that were measured alike come from 1, and 3 are needed."
    ) in text
    found = json.loads(type_in(*words, "--json").stdout)
    numbers = [found[f"devices_with_{name}"] for name in ("tunnel", "both", "both_needed")]
    assert (numbers, found["predicted"]) == ([3, 1, 3], [])
    page = " ".join(PAGE.read_text().split())
    assert "three devices have a usable figure of an encrypted OpenVPN tunnel, one of them also has" in page
    assert "and three with both are needed" in page


def test_measure_says_what_would_tell_most(type_in: CommandLine, home: Path) -> None:
    text = " ".join(type_in("devices", "--tunnel", "wireguard", "--measure").stdout.split())
    assert "Measure wireguard itself on the device" in text


def test_a_target_keeps_the_predictions_that_may_reach_it(type_in: CommandLine, home: Path) -> None:
    text = type_in("devices", "--tunnel", "fastd", "--predict", "--target-mbps", "40", columns=120).stdout
    assert "Archer C7" in text
    assert "GL-E750" not in text


def test_predictions_need_a_tunnel(type_in: CommandLine, home: Path) -> None:
    done = type_in("devices", "--predict")
    assert done.exit_code == 2
    assert "need the kind of tunnel" in done.stderr
