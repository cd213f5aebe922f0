"""The parsers of `iw`. The samples are of simulated radios; other fields are written after the source of iw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.output.samples import sample

from tunnelbench.host.command import Completed
from tunnelbench.host.host import Host
from tunnelbench.host.radio import Radio, antennas, parse, stations, without_names

INFO, LINK = sample("iw-5.19/client-info.txt"), sample("iw-5.19/client-link.txt")
ROUTER_INFO, STATIONS = sample("iw-5.19/router-info.txt"), sample("iw-5.19/router-station-dump.txt")
CLIENT_MAC = "02:00:00:00:01:00"


class Fake(Host):
    """A host that answers commands from a table, and fails at all others."""

    def __init__(self, answers: Mapping[str, str], programs: Sequence[str] = ("iw",)) -> None:
        super().__init__("fake", Path(), ())
        self.answers, self.programs = answers, programs

    def command(self, argv: Sequence[str]) -> list[str]:
        return list(argv)

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 0, check: bool = True) -> Completed:
        asked = " ".join(argv)
        return Completed(tuple(argv), 0 if asked in self.answers else 1, self.answers.get(asked, ""), "")

    def has_program(self, program: str) -> bool:
        return program in self.programs


def client(**more: str) -> dict[str, str]:
    return {
        "test -e /sys/class/net/wlan1/phy80211": "",
        "cat /sys/class/net/wlan1/address": f"{CLIENT_MAC}\n",
        "iw dev wlan1 info": INFO,
        "iw dev wlan1 link": LINK,
        **more,
    }


def router(*ports: str) -> dict[str, str]:
    return {
        "ls /sys/class/net/br-lan/brif": "\n".join(ports),
        "iw dev wlan0 info": ROUTER_INFO,
        "iw dev wlan0 station dump": STATIONS,
        "iw dev wlan7 station dump": STATIONS.replace(CLIENT_MAC, "02:00:00:00:07:00"),
    }


def test_both_ends_report_channel_rates_and_signal() -> None:
    assert parse(INFO, LINK) == Radio(2437, 6, 20, tx_mbps=104.0, rx_mbps=78.0, signal_dbm=-30)
    assert parse(ROUTER_INFO, stations(STATIONS)[CLIENT_MAC]) == Radio(2437, 6, 20, 19.5, 13.0, -30)


VHT = """
	signal: -45 dBm
	rx bitrate: 866.7 MBit/s VHT-MCS 9 80MHz short GI VHT-NSS 2
	tx bitrate: 6.0 MBit/s
"""
EHT = """
	Link 1 BSSID 02:00:00:00:00:09
		freq: 5975.0
	signal: -50 dBm
	tx bitrate: 5764.6 MBit/s 320MHz EHT-MCS 13 EHT-NSS 2 EHT-GI 0
"""
CHAINS = "\tsignal:  \t-61 [-64, -66] dBm\n\ttx bitrate:\t72.2 MBit/s MCS 7 short GI\n"
TWO_PARTS = "channel 36 (5180 MHz), width: 80+80 MHz, center1: 5210 MHz, center2: 5775 MHz"


@pytest.mark.parametrize(
    ("channel", "link", "expected", "band"),
    [
        ("channel 36 (5180 MHz), width: 80 MHz, center1: 5210 MHz", VHT, Radio(5180, 36, 80, 6.0, 866.7, -45), "5 GHz"),
        ("channel 5 (5975 MHz), width: 320 MHz, center1: 6105 MHz", EHT,
         Radio(5975, 5, 320, 5764.6, None, -50), "6 GHz"),
        ("channel 13 (2472 MHz), width: 20 MHz (no HT), center1: 2472 MHz", "", Radio(2472, 13, 20), "2.4 GHz"),
        (TWO_PARTS, "", Radio(5180, 36, 160), "5 GHz"),
        ("", "\tfreq: 5180.0\n\trx bitrate: (unknown)\n", Radio(5180), "5 GHz"),
        ("", CHAINS, Radio(tx_mbps=72.2, signal_dbm=-61), ""),
    ],
)  # fmt: skip
def test_only_reported_values_are_read(channel: str, link: str, expected: Radio, band: str) -> None:
    info = f"Interface wlan0\n\tssid channel 99 (9999 MHz)\n\ttype managed\n\t{channel}\n"
    assert parse(info, link) == expected
    assert expected.band == band


def test_a_name_that_looks_like_a_figure_is_not_one() -> None:
    link = "Connected to 02:00:00:00:00:00 (on wlan1)\n\tSSID: x signal: -1 dBm freq: 1\n\tfreq: 2437\n"
    assert parse("", link) == Radio(2437)


def test_without_another_end_it_is_not_connected() -> None:
    assert not parse(INFO, "Not connected.\n").is_connected
    assert parse(INFO, LINK).is_connected


def test_names_and_addresses_are_left_out_and_figures_kept() -> None:
    kept = without_names(INFO + LINK + ROUTER_INFO + STATIONS)
    for figure in ("channel 6 (2437 MHz), width: 20 MHz", "signal: -30 dBm", "tx bitrate: 104.0", "tx retries:\t0"):
        assert figure in kept
    for name in ("private", "02:00", "wlan", "Connected to"):
        assert name not in kept


def test_facts_have_units_and_unknown_facts_are_missing() -> None:
    assert parse(INFO, "").facts("client_radio_") == {
        "client_radio_band": "2.4 GHz",
        "client_radio_channel": 6,
        "client_radio_frequency_mhz": 2437,
        "client_radio_width_mhz": 20,
    }


def test_the_routers_end_is_the_port_of_its_bridge_that_the_client_is_a_station_of() -> None:
    found = antennas(Fake(client()), "wlan1", Fake(router("lan1", "wlan7", "wlan0")), "br-lan")
    assert {role: antenna.device for role, antenna in found.items()} == {"client": "wlan1", "router": "wlan0"}
    assert found["router"].look()[0].rx_mbps == 13.0
    assert found["client"].look()[0].rx_mbps == 78.0


def test_a_router_without_iw_or_to_which_the_client_is_no_station_has_no_radio() -> None:
    for there in (Fake(router("wlan0"), programs=()), Fake(router("wlan7"))):
        assert list(antennas(Fake(client()), "wlan1", there, "br-lan")) == ["client"]


def test_a_cable_has_no_radio() -> None:
    wired = client()
    del wired["test -e /sys/class/net/wlan1/phy80211"]
    assert antennas(Fake(wired), "wlan1", Fake(router("wlan0")), "br-lan") == {}
