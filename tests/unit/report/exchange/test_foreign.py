"""Files of other programs become rows with method, source and date, or are refused in one sentence."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.cpu_time import cpu_time_limit
from tests.output.samples import samples

from tunnelbench.model.errors import WrongInput
from tunnelbench.model.reference import Reference
from tunnelbench.reference import parse_reference, read_reference
from tunnelbench.report.exchange.foreign import (
    LARGEST_UNPACKED_BYTES,
    MAPPED_TABLE,
    ForeignResult,
    Stated,
    described,
    read_foreign,
    recognised,
    unpacked,
)
from tunnelbench.report.exchange.foreign.spreadsheet import read_mapping
from tunnelbench.report.site.gather import published

FILES = Path(__file__).parent / "foreign_files"
BOX = {"device": "A box", "tunnel": "wireguard"}


def content(name: str) -> bytes:
    return unpacked((FILES / name).read_bytes())


def result(name: str) -> ForeignResult:
    """Read a file of the folder as the format that its content shows."""
    found = recognised(content(name))
    assert found is not None
    return read_foreign(content(name), found)


def figures(found: ForeignResult) -> list[tuple[str, float]]:
    return [(row["direction"], float(row["throughput_mbps"])) for row in found.rows]


def reference(found: ForeignResult, facts: dict[str, str] | None = None) -> Reference:
    return parse_reference("imported-x", *described(found, Stated(BOX if facts is None else facts), "file.txt"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tcp_download.flent.gz", [("in", 76.45)]),
        ("tcp_nup.flent.bz2", [("out", 48.73)]),
        ("rrul_be.flent.gz", [("in", 72.69), ("out", 48.34)]),
    ],
)
def test_the_figures_of_flents_files_are_those_of_its_summary(name: str, expected: list[tuple[str, float]]) -> None:
    found = result(name)
    assert sorted(figures(found)) == expected
    assert found.program == "Flent 2.3.0"
    assert found.date == "2026-11-23"
    assert "Flent test" in found.method


def test_a_flent_test_of_both_directions_says_so_and_counts_its_streams() -> None:
    for row in result("rrul_be.flent.gz").rows:
        assert row["comment"] == "upload and download at the same time"
        assert row["traffic"] == "flent rrul_be tcp, streams: 4"


def test_a_flent_test_without_a_throughput_is_refused() -> None:
    with pytest.raises(WrongInput, match="no figure"):
        reference(result("ping.flent.gz"))


def test_a_flent_file_without_facts_of_its_series_is_averaged() -> None:
    whole = {"x_values": [1, 2, 3], "results": {"TCP upload": [10, None, 20]}, "metadata": {"NAME": "tcp_upload"}}
    assert figures(read_foreign(json.dumps(whole).encode(), "flent")) == [("out", 15.0)]


def test_series_of_the_socket_are_no_throughput_in_a_flent_file() -> None:
    results = {
        f"TCP upload{suffix}": [10] for suffix in ("::1", "::2", "::1::tcp_rtt", "::2::tcp_cwnd", "::tcp_rtt_var")
    }
    whole = {"x_values": [1], "results": results, "metadata": {"NAME": "tcp_nup"}}
    found = read_foreign(json.dumps(whole).encode(), "flent")
    assert figures(found) == [("out", 20.0)]
    assert found.rows[0]["traffic"] == "flent tcp_nup tcp, streams: 2"


def flent_file(units: str, mean: object, name: str = "UDP upload") -> bytes:
    meta = {"NAME": "udp_flood", "SERIES_META": {name: {"UNITS": units, "MEAN_VALUE": mean}}}
    return json.dumps({"version": 3, "x_values": [1], "results": {name: [1]}, "metadata": meta}).encode()


def test_units_of_older_flent_files_are_converted_and_others_left_out() -> None:
    found = read_foreign(flent_file("bits/s", 20e6), "flent")
    assert figures(found) == [("out", 20.0)]
    assert published(reference(found))[0].result.test == "udp"
    assert read_foreign(flent_file("ms", 20), "flent").rows == ()


@pytest.mark.parametrize(
    ("name", "directions"),
    [
        ("iperf3-tcp.json", ["out"]),
        ("iperf3-tcp-reverse.json", ["in"]),
        ("iperf3-tcp-bidir.json", ["out", "in"]),
        ("iperf3-udp-reverse.json", ["in"]),
        ("iperf3-server.json", ["out"]),
    ],
)
def test_iperf3s_figures_are_those_of_the_receiver(name: str, directions: list[str]) -> None:
    found = result(name)
    end = json.loads(content(name))["end"]
    sums = [end["sum_received"]] + ([end["sum_received_bidir_reverse"]] if len(directions) == 2 else [])
    assert [direction for direction, _ in figures(found)] == directions
    assert [mbps for _, mbps in figures(found)] == pytest.approx([each["bits_per_second"] / 1e6 for each in sums])
    assert (found.program, found.date) == ("iperf3 3.12", "2026-11-23")


def test_a_paced_test_of_iperf3_that_kept_its_rate_is_a_lower_bound() -> None:
    (row,) = result("iperf3-tcp-paced.json").rows
    assert row["comment"] == "paced at 20 Mbit/s by iperf3 -b", "two streams of 10 Mbit/s each"
    (known,) = published(reference(result("iperf3-tcp-paced.json")))
    assert known.result.is_tester_limited
    (udp,) = result("iperf3-udp-reverse.json").rows
    assert udp["comment"] == "paced at 20 Mbit/s by iperf3 -b"
    (free,) = published(reference(result("iperf3-tcp.json")))
    assert free.result.is_tester_limited is None


def test_a_paced_test_of_iperf3_that_stayed_below_its_rate_is_a_figure() -> None:
    whole = json.loads(content("iperf3-tcp-paced.json"))
    whole["start"]["test_start"]["target_bitrate"] = 20_000_000
    (row,) = read_foreign(json.dumps(whole).encode(), "iperf3").rows
    assert not row["comment"]


@pytest.mark.parametrize("target", [None, "fast", True, -1, [], {}])
def test_an_odd_target_of_iperf3_is_none(target: object) -> None:
    whole = json.loads(content("iperf3-tcp-paced.json"))
    whole["start"]["test_start"] |= {"target_bitrate": target, "num_streams": target}
    (row,) = read_foreign(json.dumps(whole).encode(), "iperf3").rows
    assert not row["comment"]


@pytest.mark.parametrize(("reverse", "direction", "share"), [(1, "in", 1.0), (0, "out", 0.75)])
def test_udp_of_an_older_iperf3_has_one_sum(reverse: int, direction: str, share: float) -> None:
    whole = json.loads(content("iperf3-udp-reverse.json"))
    whole["start"]["test_start"]["reverse"] = reverse
    del whole["end"]["sum_received"]
    whole["end"]["sum"]["lost_percent"] = 25
    ((found, mbps),) = figures(read_foreign(json.dumps(whole).encode(), "iperf3"))
    assert found == direction
    assert mbps == pytest.approx(whole["end"]["sum"]["bits_per_second"] / 1e6 * share)


def test_the_payload_of_iperf3_is_the_segment_or_the_datagram() -> None:
    assert result("iperf3-udp-reverse.json").rows[0]["payload_bytes"] == "1400"
    assert result("iperf3-tcp-reverse.json").rows[0]["payload_bytes"] == "1448"
    assert "streams: 2" in result("iperf3-tcp-reverse.json").rows[0]["traffic"]


@pytest.mark.parametrize("name", ["iperf3-3.12/in-client.json", "iperf3-3.12/out-client.json"])
def test_iperf3s_files_of_a_run_are_read_as_those_of_others(name: str) -> None:
    text = samples(name)[name]
    assert recognised(text.encode()) == "iperf3"
    ((direction, mbps),) = figures(read_foreign(text.encode(), "iperf3"))
    assert direction == name.partition("/")[2].partition("-")[0]
    assert mbps > 1


def test_a_failed_test_of_iperf3_is_refused_with_its_reason() -> None:
    with pytest.raises(WrongInput, match="the test failed: unable to connect to server"):
        result("iperf3-error.json")


@pytest.mark.parametrize(
    ("name", "cipher", "speeds", "flags"),
    [
        ("openssl-speed-table.txt", "AES-128-GCM", {"16": 39659.82, "16384": 4017515.35}, ""),
        ("openssl-speed-programs.txt", "ChaCha20-Poly1305", {"16": 265264.16667, "16384": 3150421.79459}, ""),
        ("openssl-speed-processes.txt", "AES-256-GCM", {"1024": 1515131.9}, "-multi 2"),
        ("openssl-speed-two-algorithms.txt", "sha256", {"64": 401847.77, "8192": 1753519.94}, ""),
    ],
)
def test_openssls_speeds_are_read_by_block(name: str, cipher: str, speeds: dict[str, float], flags: str) -> None:
    row = result(name).rows[0]
    assert (row["cipher"], row["flags"]) == (cipher, flags)
    assert {size: float(row[f"kbytes_per_s_{size}"]) for size in speeds} == pytest.approx(speeds)


def test_openssls_table_may_be_indented_and_have_speeds_below_10000_bytes_per_second() -> None:
    text = """
    You have chosen to measure elapsed time instead of user CPU time.
    OpenSSL 0.9.8k 25 Mar 2009
    The 'numbers' are in 1000s of bytes per second processed.
    type             16 bytes     64 bytes
    aes-128 cbc       9912.50        11.25k
                      sign    verify    sign/s verify/s
    253 bits EdDSA (Ed25519)   0.0000s   0.0001s  32438.3  12028.7
    """
    (row,) = read_foreign(text.encode(), "openssl-speed").rows
    assert (row["cipher"], row["library"], row["flags"]) == ("aes-128 cbc", "OpenSSL 0.9.8k", "-elapsed")
    assert (row["kbytes_per_s_16"], row["kbytes_per_s_64"]) == ("9.9125", "11.25")


@pytest.mark.parametrize("name", samples("openssl-*/speed-*.txt"))
def test_the_output_of_openssl_for_programs_is_read_or_refused(name: str) -> None:
    text = samples(name)[name]
    if recognised(text.encode()) is None:
        assert "refused" in name
    else:
        (row,) = read_foreign(text.encode(), "openssl-speed").rows
        assert float(row["kbytes_per_s_1420"]) > 1


def test_the_speed_of_a_cipher_is_a_class_of_its_own_and_needs_no_tunnel() -> None:
    found = reference(result("openssl-speed-table.txt"), {"device": "A box"})
    assert found.comparability.name == "cipher-alone"
    with pytest.raises(WrongInput, match="does not state the device"):
        reference(result("openssl-speed-table.txt"), {})
    with pytest.raises(WrongInput, match="block sizes of AES"):
        read_foreign(content("openssl-speed-processes.txt").replace(b"Got: +H:1024", b""), "openssl-speed")


def test_the_table_of_wg_bench_gives_the_rows_that_ship() -> None:
    shipped = {
        (row["device"], row["system"], row["throughput_mbps"]) for row in read_reference("wireguard-by-device").rows
    }
    found = reference(result("wg-bench.md"), {})
    assert found.comparability.name == "on-device"
    assert len(found.rows) == 6
    assert {(row["device"], row["system"], row["throughput_mbps"]) for row in found.rows} <= shipped


TABLE_TEXT = """Router;VPN;Sens;Débit;CPU;Taille
"A, box";WireGuard;descendant;94,2;50 %;1 400
B box;OpenVPN;montant;1,5 Gbit/s;;1400
C box;OpenVPN;montant;;;1400
"""
MAPPING = """
title = "Two boxes"
source = "somebody"
date = "2024"
method = "iperf3 through the router"
class = "through-device"
trials_per_row = 3

[columns]
device = "router"
tunnel = "VPN"
direction = "Sens"
throughput_mbps = "Débit"
cpu_total_pct = "CPU"
payload_bytes = "Taille"

[every_row]
cipher = "AES-256-GCM"

[values.direction]
descendant = "in"
montant = "out"
"""


def test_a_table_is_read_with_the_columns_of_its_mapping() -> None:
    found = reference(read_foreign(TABLE_TEXT.encode("cp1252"), MAPPED_TABLE, read_mapping(MAPPING)), {})
    assert (found.title, found.source, found.date, found.trials_per_row) == ("Two boxes", "somebody", "2024", 3)
    assert found.comparability.name == "through-device"
    expected = [
        ("A, box", "wireguard", "in", "94.2", "50", "1400"),
        ("B box", "openvpn", "out", "1500", "", "1400"),
    ]
    columns = ("device", "tunnel", "direction", "throughput_mbps", "cpu_total_pct", "payload_bytes")
    assert [tuple(row[name] for name in columns) for row in found.rows] == expected
    assert {row["cipher"] for row in found.rows} == {"AES-256-GCM"}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"router"', '"Routeur"', "no column 'Routeur'"),
        ("device =", "colour =", "unknown column 'colour'"),
        ('montant = "out"', 'montant = "up"', "'up' is no direction"),
        ("title =", "titel =", "unknown key 'titel'"),
        ("[columns]", "[columns", "not TOML"),
        ("= 3", "= 0", "not a positive whole number"),
        ("throughput_mbps", "watts", "names neither throughput_mbps"),
        ('"through-device"', '"fast"', "no class fast"),
        ('device = "router"', "", "does not state the device"),
    ],
)
def test_a_wrong_mapping_gets_one_sentence(old: str, new: str, words: str) -> None:
    assert old in MAPPING
    with pytest.raises(WrongInput, match=words):
        reference(read_foreign(TABLE_TEXT.encode(), MAPPED_TABLE, read_mapping(MAPPING.replace(old, new))), {})


@pytest.mark.parametrize(
    ("cell", "words"),
    [("fast", "no figure"), ("-5", "cannot be measured"), ("9e17", "cannot be measured"), ("20 Tbit/s 3", "no figure")],
)
def test_a_cell_that_is_no_throughput_gets_one_sentence(cell: str, words: str) -> None:
    with pytest.raises(WrongInput, match=f"line 2: Débit is .*{words}"):
        read_foreign(TABLE_TEXT.replace("94,2", cell).encode(), MAPPED_TABLE, read_mapping(MAPPING))


def test_a_table_without_a_mapping_is_refused() -> None:
    assert recognised(TABLE_TEXT.encode()) is None
    with pytest.raises(WrongInput, match="needs a file that states its columns"):
        read_foreign(TABLE_TEXT.encode(), MAPPED_TABLE)


def test_what_the_file_states_cannot_be_stated_otherwise() -> None:
    with pytest.raises(WrongInput, match="states the tunnel itself"):
        reference(result("wg-bench.md"), {"tunnel": "openvpn"})
    with pytest.raises(WrongInput, match="class on-device"):
        described(result("wg-bench.md"), Stated(comparability="through-device"), "README.md")
    with pytest.raises(WrongInput, match="no kind of tunnel"):
        reference(result("tcp_download.flent.gz"), {"device": "A box", "tunnel": "Wire Guard"})


def test_what_is_missing_is_named_in_one_sentence() -> None:
    with pytest.raises(WrongInput, match="does not state the device and the tunnel") as caught:
        reference(result("tcp_download.flent.gz"), {})
    assert "--device DEVICE --tunnel KIND" in caught.value.hint


def test_compressed_files_are_bounded_before_they_are_read() -> None:
    bomb = bytes(LARGEST_UNPACKED_BYTES + 1)
    for packed in (gzip.compress(bomb), bz2.compress(bomb), bomb):
        with pytest.raises(WrongInput, match="holds more than 16 MiB"):
            unpacked(packed)
    whole = gzip.compress(b"text" * 1000)
    for broken, words in ((whole[:-9], "cut off"), (whole + whole, "several"), (b"\x1f\x8bnothing", "decompressed")):
        with pytest.raises(WrongInput, match=words):
            unpacked(broken)
    assert unpacked(whole) == b"text" * 1000


@pytest.mark.parametrize(
    ("format_name", "start", "repeated"),
    [
        ("wg-bench", "| Device / CPU | Speed |\n|--|--|\n", "| a | 1 Gbits/sec |\n"),
        ("wg-bench", "| Device / CPU | Speed |\n|--|--|\n", "|"),
        ("openssl-speed", "+F:1:a:1\n", "+F:1:a:1\n+H:16\n"),
        ("openssl-speed", "type 16 bytes\n+F:1:a:1\n", "a 1.0k\n"),
        ("openssl-speed", "+F:1:a:1\n", "1.0k "),
        ("flent", '{"x_values": 1, "metadata": 1, "results":', "["),
        ("iperf3", '{"start": "iperf 3", "end":', "9"),
        (MAPPED_TABLE, "Router,VPN,Sens,Débit,CPU,Taille\n", "a,b,c,1,2,3\n"),
        (MAPPED_TABLE, "Router,VPN,Sens,Débit,CPU,Taille\n", "1 000 "),
    ],
)
def test_a_file_of_megabytes_is_refused_in_seconds(format_name: str, start: str, repeated: str) -> None:
    text = start + repeated * (8_000_000 // len(repeated))
    with cpu_time_limit(5.0), pytest.raises(WrongInput):
        reference(read_foreign(text.encode(), format_name, read_mapping(MAPPING)), {"device": "A box"})


def test_an_office_file_is_refused_with_a_way_out() -> None:
    with pytest.raises(WrongInput, match=r"ZIP file.*\.xlsx") as caught:
        unpacked(b"PK\x03\x04" + bytes(30))
    assert "save the sheet as CSV" in caught.value.hint


@pytest.mark.parametrize("mean", [0, -1, 1e12, True, "94", None])
def test_a_figure_of_flent_that_nothing_can_measure_is_refused(mean: Any) -> None:
    whole = json.loads(flent_file("Mbits/s", mean, "TCP upload"))
    whole["results"]["TCP upload"] = [mean]
    with pytest.raises(WrongInput, match=r"cannot be measured|no figure"):
        reference(read_foreign(json.dumps(whole).encode(), "flent"))
