"""`tunnelbench devices` agrees with the shipped tables, row by row."""

from __future__ import annotations

import csv
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.builders import make_records, make_run
from tests.unit.cli.conftest import CommandLine, keep

from tunnelbench.reference import read_reference, shipped_names
from tunnelbench.reference.devices import NUMBERS, cpu_lines, device_lines
from tunnelbench.report.device_ranking import RankingLimits, contradictions, rank
from tunnelbench.report.site.device_names import clock_in_name, cpu_key, device_key, known_cpu, known_facts
from tunnelbench.report.site.gather import published

PAGE = Path(__file__).parents[3] / "docs" / "devices.md"
SHIPPED = Path(__file__).parents[3] / "src" / "tunnelbench" / "data" / "references"


def expected(tunnel: str, target: float) -> list[tuple[str, float, str, str]]:
    """Recompute a ranking of encrypted variants: device, Mbit/s, direction and table, from the files alone."""
    best: dict[tuple[str, str], tuple[bool, bool, float, str, str]] = {}
    for path in sorted(SHIPPED.glob("*.csv")):
        head = tomllib.loads(path.with_suffix(".toml").read_text())
        for line in csv.DictReader(path.read_text().splitlines()):
            row = {**head.get("every_row", {}), **line}
            cipher = row.get("cipher") or "none"
            is_large = int(row.get("payload_bytes") or 1500) >= 1000
            if (
                row.get("tunnel") == tunnel and row.get("device") and row.get("throughput_mbps")
                and is_large and cipher != "none" and not cipher.startswith("null")
            ):  # fmt: skip
                where = head["comparability"] != "on-device", row.get("auth") != "none", float(row["throughput_mbps"])
                key = row["device"].rstrip("*").strip().lower(), row.get("direction") or "not stated"
                best[key] = max(best.get(key, (False, False, 0.0, "", "")), (*where, row["device"], path.stem))
    reaching = [(name, rate, way, table) for (_, way), (_, _, rate, name, table) in best.items() if rate >= target]
    return sorted(reaching, key=lambda each: (-each[1], each[0], each[2]))


@pytest.mark.parametrize("tunnel", ["openvpn", "wireguard"])
@pytest.mark.parametrize("target", [100, 0.001])
def test_the_ranking_agrees_with_the_tables_row_by_row(
    type_in: CommandLine, home: Path, tunnel: str, target: float
) -> None:
    result = type_in("devices", "--tunnel", tunnel, "--target-mbps", str(target), "--format", "json")
    rows = json.loads(result.stdout)
    found = [
        (row["device"].lower().rstrip("* "), row["throughput_mbps"], row["direction"] or "not stated", row["where"])
        for row in rows
    ]
    wanted = [(name.lower().rstrip("* "), rate, way, table) for name, rate, way, table in expected(tunnel, target)]
    assert sorted(found) == sorted(wanted)
    assert [row["throughput_mbps"] for row in rows] == sorted((each[1] for each in wanted), reverse=True)
    assert all(row["is_encrypted"] and row["method"] and row["date"] and row["source"] for row in rows)
    assert (tunnel, target) == ("openvpn", 100) or len(rows) > 4


def test_the_first_screen_has_at_most_40_lines_and_full_has_all(type_in: CommandLine, home: Path) -> None:
    for width in (60, 80, 160):
        screen = type_in("devices", "--tunnel", "wireguard", columns=width).stdout
        assert len(screen.splitlines()) <= 40
        assert "more rows: add --full." in screen
    whole = type_in("devices", "--tunnel", "wireguard", "--full", columns=200).stdout
    assert "more rows" not in whole
    assert "Toshiba Satellite" in whole


def test_a_target_that_no_device_reaches_names_the_fastest(type_in: CommandLine, home: Path) -> None:
    result = type_in("devices", "--tunnel", "openvpn", "--target-mbps", "100")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert "the fastest is PC Engines APU.1D: 76.3 Mbit/s" in text
    assert "3 published figures without the name of a device, at most 2850 Mbit/s (openvpn, openvpn-2017, " in text
    assert "4 published figures without the name of a cipher (add --allow-plaintext)" in text
    page = " ".join(PAGE.read_text().split())
    assert "Three published figures of OpenVPN name no device, and four no cipher; one of them names neither" in page


@pytest.mark.parametrize(
    ("words", "without_device", "without_cipher"),
    [
        (("--tunnel", "openvpn"), 3, 4),
        (("--tunnel", "openvpn", "--full"), 3, 4),
        (("--tunnel", "openvpn", "--target-mbps", "700", "--full"), 2, 2),
        (("--tunnel", "openvpn", "--allow-plaintext"), 3, 0),
        (("--target-mbps", "50"), 3, 10),
        (("--target-mbps", "100", "--allow-plaintext"), 3, 0),
        (("--tunnel", "wireguard"), 0, 0),
    ],
)
def test_the_output_counts_the_figures_that_it_cannot_list(
    type_in: CommandLine, home: Path, words: tuple[str, ...], without_device: int, without_cipher: int
) -> None:
    text = " ".join(type_in("devices", *words).stdout.split())
    counts = {
        name: int(count)
        for count, name in re.findall(
            r"Not listed: (\d+) published figures without the name of a (device|cipher)", text
        )
    }
    assert (counts.get("device", 0), counts.get("cipher", 0)) == (without_device, without_cipher)


def test_a_number_with_a_comma_is_no_price_and_no_power() -> None:
    (row, *_) = rank([], [read_reference("apu1d-2014")], {}, RankingLimits("openvpn")).rows
    for price, watts, known in (("1.180,50 EUR", "6,5 W", (None, None)), ("99.5 EUR", "6-12 W", (99.5, 12))):
        found = replace(row, price=price, watts=watts)
        assert (found.price_eur, found.power_w) == known


def test_a_remark_of_the_publication_and_a_single_trial_are_marked(type_in: CommandLine, home: Path) -> None:
    rows = json.loads(type_in("devices", "--tunnel", "wireguard", "--json").stdout)
    found = {row["device"].partition(" / ")[0]: row for row in rows}
    assert found["ASUS RT-AX53U"]["comment"] == "overclocked to 1.2 GHz"
    assert "single measurement" in found["ASUS RT-AX53U"]["marks"]
    assert "highest of 10" in found["Lemote Fuloong"]["comment"]
    assert "single measurement" not in found["Lemote Fuloong"]["marks"]
    screen = type_in("devices", "--tunnel", "wireguard", "--full", columns=250).stdout
    assert "overclocked to 1.2 GHz" in screen
    assert "iperf3 server all on the device itself" in screen, "the method of the source"


def test_a_device_of_the_file_without_a_figure_is_named(type_in: CommandLine, home: Path, tmp_path: Path) -> None:
    (tmp_path / "facts.toml").write_text('["No Such Box"]\nwatts = "6 W"\n["pc engines apu.1d"]\nwatts = "6 W"\n')
    result = type_in("devices", "--devices", tmp_path / "facts.toml", "--tunnel", "openvpn", "--json")
    assert "names the device No Such Box, which has no figure" in result.stderr
    assert "apu.1d" not in result.stderr
    assert {row["power_w"] for row in json.loads(result.stdout) if row["device"] == "PC Engines APU.1D"} == {6}


def test_a_figure_has_all_digits_that_were_published(type_in: CommandLine, home: Path) -> None:
    rows = json.loads(type_in("devices", "--json").stdout)
    written = {
        (row["device"], float(row["throughput_mbps"])): row["throughput_mbps"]
        for name in shipped_names()
        for row in read_reference(name).rows
        if row.get("device") and row.get("throughput_mbps")
    }
    shown = {row["text"].removeprefix("≥ "): written[row["device"], row["throughput_mbps"]] for row in rows}
    assert shown == {text: text for text in shown}
    assert "29.0" in shown


def test_plaintext_is_listed_only_if_allowed_and_marked(type_in: CommandLine, home: Path) -> None:
    assert json.loads(type_in("devices", "--tunnel", "gre", "--json").stdout) == []
    rows = json.loads(type_in("devices", "--tunnel", "gre", "--allow-plaintext", "--json").stdout)
    assert {row["text"] for row in rows} == {"≥ 92.7", "≥ 92.8"}
    assert all({"line speed", "lower bound", "single measurement"} <= set(row["marks"]) for row in rows)


def test_price_and_power_limit_the_rows(type_in: CommandLine, home: Path, tmp_path: Path) -> None:
    (tmp_path / "facts.toml").write_text('["PC Engines APU.1D"]\nwatts = "6-12 W"\n')
    words = ("devices", "--devices", tmp_path / "facts.toml", "--json", "--max-price")
    rows = json.loads(type_in(*words, "180", "--max-watts", "12").stdout)
    assert {row["device"] for row in rows} == {"PC Engines APU.1D"}
    assert rows[0]["mbps_per_eur"] == pytest.approx(76.3 / 180)
    assert rows[0]["mbps_per_watt"] == pytest.approx(76.3 / 12)
    assert json.loads(type_in(*words, "179").stdout) == []
    assert "of unknown price" in type_in("devices", "--max-price", "200").stdout


def test_an_unknown_tunnel_is_refused_with_the_known_ones(type_in: CommandLine, home: Path) -> None:
    result = type_in("devices", "--tunnel", "carrier-pigeon")
    assert result.exit_code == 2
    assert "openvpn" in result.stderr


def test_a_run_on_a_named_router_is_ranked_and_one_without_a_name_is_not(type_in: CommandLine, tmp_path: Path) -> None:
    run = make_run()
    router = {"router_kernel": "5.15", "router_board": "Small Box", "router_price": "40 EUR"}
    unnamed, host = {"router_kernel": "5.15"}, {"board": "Host"}
    for name, facts, is_listed in (("router", router, True), ("unnamed", unnamed, False), ("host", host, False)):
        path = tmp_path / f"{name}.sqlite"
        keep(path, replace(run, host_facts=facts), make_records())
        rows = json.loads(type_in("devices", "--json", "--store", path).stdout)
        own = [row for row in rows if row["where"] == run.run_id]
        assert bool(own) is is_listed
        assert all((row["device"], row["price_eur"]) == ("Small Box", 40) and row["trials"] for row in own)


def test_names_that_mean_one_device_are_one() -> None:
    names = ("TP-Link TL-WR841N v9", "tplink,tl-wr841-v9", "TL-WR841N/ND v9", "TP-Link WR841N v9 / QCA9533")
    assert len({device_key(name) for name in names}) == 1
    assert device_key("Raspberry Pi 5 / BCM2712*") == device_key("raspberry pi 5 /  BCM2712")
    assert device_key("TP-Link TL-WR841N v8") != device_key(names[0])
    assert device_key("TL-WR1043ND v1") != device_key("TL-WR1043ND v2")


def test_the_clock_is_read_from_the_name_of_a_cpu() -> None:
    assert clock_in_name("Atheros AR9341 MIPS 74Kc 535 MHz") == 535
    assert clock_in_name("E2000Q FT664 (1.8GHz)") == 1800
    assert clock_in_name("MT7981") is None


def test_shipped_tables_do_not_contradict_each_other_and_a_contradiction_is_found() -> None:
    references = [read_reference(name) for name in shipped_names()]
    assert contradictions(references) == []
    router = read_reference("wr841n-2014")
    assert contradictions([*references, replace(router, clock_mhz=400)]) == [
        "tp-link wr841 v8: clocks of [400, 535.0] MHz"
    ]


def stated_cpus() -> dict[str, set[str]]:
    """The CPUs that the publications state of each device, by its key."""
    stated: dict[str, set[str]] = {}
    for name in shipped_names():
        for row in read_reference(name).rows:
            if device := row.get("device"):
                _, _, cpu = device.partition(" / ")
                stated.setdefault(device_key(device), set()).update({cpu.rstrip("* ")} - {""})
    return stated


def test_the_facts_of_devices_have_a_source_and_contradict_no_publication() -> None:
    stated = stated_cpus()
    contradicted: dict[str, str] = {}
    lines = {device_key(line.name): line for line in device_lines()}
    assert len(lines) == len(device_lines()), "a device has two lines"
    for key, line in lines.items():
        assert line.source
        assert line.facts or line.other_names
        assert key in stated, f"{line.name}: no publication has this device"
        if (cpu := line.facts.get("cpu")) and not {cpu_key(each) for each in stated[key]} <= {cpu_key(cpu)}:
            contradicted[line.name] = cpu
    assert contradicted == {"GL-iNet GL-E750 / QCA9533": "QCA9531"}, "docs/devices.md has these"
    assert all(name.partition(" / ")[0] in PAGE.read_text() for name in contradicted)
    others = [device_key(other) for line in device_lines() for other in line.other_names]
    assert set(others) <= set(lines)
    assert any(stated[key] for key in lines), "at least one publication states the CPU, too"


def test_the_facts_of_cpus_have_a_source_and_contradict_no_name() -> None:
    names = [name for line in cpu_lines() for name in (line.name, *line.other_names)]
    assert len({name.lower() for name in names}) == len(names), "a CPU has two lines"
    for line in cpu_lines():
        assert line.source
        clock_mhz = clock_in_name(line.name)
        assert clock_mhz is None or float(line.facts["clock_mhz"]) == clock_mhz
        turbo = line.facts.get("turbo_mhz")
        assert turbo is None or int(turbo) > int(line.facts.get("clock_mhz", 0))
    for line in [*cpu_lines(), *device_lines()]:
        for name in NUMBERS & line.facts.keys():
            assert int(line.facts[name]) > 0
        assert re.fullmatch(r"(19|20)\d\d|", line.facts.get("released", ""))


def test_the_lines_of_facts_are_used_by_a_shipped_device() -> None:
    used = {cpu_key(cpu) for name in shipped_names() for row in read_reference(name).rows
            if row.get("device") and (cpu := row.get("cpu") or known_cpu(row["device"]))}  # fmt: skip
    assert [line.name for line in cpu_lines() if cpu_key(line.name) not in used] == []


def test_facts_of_a_device_come_with_their_source() -> None:
    facts = known_facts("Intel Celeron N5105*")
    assert (facts["cores"].text, facts["clock_mhz"].text, facts["crypto"].text) == ("4", "2000", "AES instructions")
    assert "ARK" in facts["cores"].source
    assert known_facts("No Such Box") == {}
    assert known_facts("my own box", "Intel N100")["cores"].text == "4"


def test_the_page_states_how_many_devices_have_facts() -> None:
    devices = {device_key(row.device): row for name in shipped_names() for row in published(read_reference(name))}
    known = sum("cores" in known_facts(row.device, row.cpu) for row in devices.values())
    assert f"{known} of the {len(devices)} shipped devices have" in PAGE.read_text()


def test_a_cpu_has_the_name_that_linux_gives_it() -> None:
    assert cpu_key("Intel(R) Core(TM) i5-4590 CPU @ 3.30GHz") == cpu_key("Intel Core i5-4590")
    assert cpu_key("AMD Ryzen 9 5950X 16-Core Processor") == cpu_key("AMD Ryzen 9 5950X*")
    assert cpu_key("MT7986AV") == cpu_key("MT7986")
    assert cpu_key("Intel N100") != cpu_key("Intel N150")
