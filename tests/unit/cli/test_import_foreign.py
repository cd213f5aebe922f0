"""`tunnelbench import` of the files of other programs: kept as published results, and used as those."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.cli.conftest import CommandLine

from tunnelbench.reference import reference_names, shipped_names

FILES = Path(__file__).parents[1] / "report" / "exchange" / "foreign_files"
FLENT = FILES / "tcp_download.flent.gz"
BOX = ("--device", "A box", "--tunnel", "WireGuard", "--cipher", "ChaCha20-Poly1305")


def test_an_imported_result_is_listed_shown_and_ranked(type_in: CommandLine, home: Path) -> None:
    done = type_in("import", FLENT, *BOX, "--class", "through-device", "--source", "a neighbour")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "imported-tcp-download\n"
    assert "class: through-device" in done.stderr

    (listed,) = (each for each in json.loads(type_in("list", "references", "--json").stdout) if each["is_imported"])
    assert (listed["name"], listed["source"], listed["date"]) == ("imported-tcp-download", "a neighbour", "2026-11-23")
    shown = " ".join(type_in("show", "imported-tcp-download").stdout.split())
    assert "Imported from tcp_download.flent.gz, written by Flent 2.3.0: it is unknown who measured it" in shown
    assert "mean of its series" in shown

    ranked = json.loads(type_in("devices", "--tunnel", "wireguard", "--json").stdout)
    (row,) = (each for each in ranked if each["device"] == "A box")
    assert (row["throughput_mbps"], row["direction"], row["where"]) == (76.45, "in", "imported-tcp-download")
    assert row["is_comparable"]
    assert row["marks"] == ["single measurement"]
    assert (home.parent / "references").stat().st_mode & 0o777 == 0o700


def test_an_imported_test_that_iperf3_paced_is_ranked_as_a_lower_bound(type_in: CommandLine, home: Path) -> None:
    done = type_in("import", FILES / "iperf3-tcp-paced.json", *BOX, "--class", "through-device")
    assert done.exit_code == 0, done.stderr
    rows = json.loads(type_in("devices", "--tunnel", "wireguard", "--target-mbps", "100", "--json").stdout)
    (row,) = (each for each in rows if each["device"] == "A box")
    assert row["text"] == "≥ 20.930193"
    assert "lower bound" in row["marks"]
    assert row["reaches_target"] is None
    assert "paced at 20 Mbit/s" in type_in("devices", "--tunnel", "wireguard", "--full", columns=250).stdout


def test_an_imported_result_is_compared_with_a_run(type_in: CommandLine, store: Path) -> None:
    facts = ("--device", "A box", "--tunnel", "none", "--payload", "1448", "--class", "through-device")
    name = type_in("import", FLENT, *facts).stdout.strip()
    compared = type_in("compare", "last", name)
    assert compared.exit_code == 0, compared.stderr
    assert "76.5" in compared.stdout or "76.45" in compared.stdout


def test_an_imported_result_has_pages_on_a_site(type_in: CommandLine, home: Path, tmp_path: Path) -> None:
    type_in("import", FLENT, *BOX)
    done = type_in("site", tmp_path / "site")
    assert done.exit_code == 0, done.stderr
    assert f"{len(shipped_names()) + 1} published results, 1 of them imported" in done.stderr
    page = tmp_path / "site/references/imported-tcp-download.html"
    assert "76.45" in page.read_text()
    index = json.loads((tmp_path / "site/index.json").read_text())
    assert "imported-tcp-download" in [each["name"] for each in index["references"]]
    type_in("site", tmp_path / "site", "--no-imported")
    assert not page.exists()


def test_a_result_is_not_imported_twice_and_gets_the_name_that_is_asked_for(type_in: CommandLine, home: Path) -> None:
    assert type_in("import", FLENT, *BOX).exit_code == 0
    again = type_in("import", FLENT, *BOX)
    assert again.exit_code == 2
    assert "there is already a published result imported-tcp-download" in again.stderr
    other = type_in("import", FLENT, *BOX, "--name", "Second box!")
    assert other.stdout == "imported-second-box\n"
    assert reference_names()[-2:] == ["imported-second-box", "imported-tcp-download"]


def test_a_deleted_file_ends_an_imported_result_and_a_damaged_one_is_named(type_in: CommandLine, home: Path) -> None:
    type_in("import", FLENT, *BOX)
    folder = home.parent / "references"
    (folder / "imported-tcp-download.toml").write_text("title = 1\n")
    result = type_in("list", "references")
    assert result.exit_code == 2
    assert "reference imported-tcp-download: title is missing or wrong" in result.stderr
    (folder / "imported-tcp-download.toml").write_bytes(b"\xff")
    assert "cannot be read" in type_in("list", "references").stderr
    (folder / "imported-tcp-download.toml").unlink()
    assert reference_names() == shipped_names()


def test_the_speed_of_ciphers_is_imported_without_a_tunnel(type_in: CommandLine, home: Path) -> None:
    done = type_in(
        "import", FILES / "openssl-speed-table.txt", "--device", "A box", "--cpu", "A CPU", "--name", "speed"
    )
    assert done.exit_code == 0, done.stderr
    assert "4017515.35" in type_in("show", "imported-speed", columns=200).stdout
    assert "A box" not in type_in("devices", "--allow-plaintext", "--full").stdout


def test_a_spreadsheet_is_imported_with_its_mapping(type_in: CommandLine, home: Path, tmp_path: Path) -> None:
    table, mapping = tmp_path / "boxes.tsv", tmp_path / "boxes.toml"
    table.write_text("Box\tMbit/s\nFirst box\t94.2\nSecond box\t120\n")
    mapping.write_text('[columns]\ndevice = "Box"\nthroughput_mbps = "Mbit/s"\n')
    done = type_in("import", table, "--mapping", mapping, "--tunnel", "openvpn")
    assert (done.exit_code, done.stdout) == (0, "imported-boxes\n"), done.stderr
    assert "no cipher is stated" in done.stderr
    assert "class: not-known" in done.stderr
    mapping.write_text("[columns]\n")
    wrong = type_in("import", table, "--mapping", mapping, "--tunnel", "openvpn")
    assert wrong.exit_code == 2
    assert f"the mapping {mapping}" in wrong.stderr.replace("\n", "")


@pytest.mark.parametrize(
    ("file", "options", "words"),
    [
        (FLENT, (), "does not state the device and the tunnel"),
        (FILES / "iperf3-error.json", BOX, "the test failed"),
        (FILES / "README.md", BOX, "it has an unknown format"),
        (FLENT, ("--input", "iperf3"), "it is no JSON of iperf3"),
        (FLENT, ("--input", "table"), "needs a file that states its columns"),
        (FILES / "wg-bench.md", ("--class", "two-gateways"), "class on-device"),
        (FILES, (), "is a directory"),
    ],
)
def test_what_cannot_be_imported_gets_one_sentence(
    type_in: CommandLine, home: Path, file: Path, options: tuple[str, ...], words: str
) -> None:
    result = type_in("import", file, *options, columns=300)
    assert result.exit_code == 2
    assert words in result.stderr
    assert str(file) in result.stderr
    assert reference_names() == shipped_names()
