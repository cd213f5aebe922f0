"""Reads the state of a wireless LAN's radio from the output of `iw`.

Frequency, width, rates and signal are kept. Network names and addresses are not, because results are shared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tunnelbench.host.host import Host

BANDS_MHZ = (("2.4 GHz", 2400, 2500), ("5 GHz", 4900, 5925), ("6 GHz", 5925, 7125), ("60 GHz", 57_000, 71_000))
"""Name, lowest and highest frequency of each band (IEEE 802.11-2020, Annex E, and 802.11ax)."""

KEPT = re.compile(
    r"channel |(?:freq|signal(?: avg)?|[rt]x bitrate|[rt]x packets|tx retries|tx failed|[RT]X):|Not connected"
)
"""Beginnings of the lines of `iw` that hold no name and no address."""


@dataclass(frozen=True)
class Radio:
    """One end of a wireless link at one moment; None: unknown."""

    frequency_mhz: int | None = None
    """Frequency of the primary 20 MHz of the channel."""
    channel: int | None = None
    width_mhz: int | None = None
    tx_mbps: float | None = None
    """Bit rate on the air of the last frames that this end sent."""
    rx_mbps: float | None = None
    """Bit rate of the last frames that this end received."""
    signal_dbm: int | None = None
    """Signal strength at this end."""

    @property
    def band(self) -> str:
        """Name of the band, such as `5 GHz`; empty if unknown."""
        frequency = self.frequency_mhz or 0
        return next((name for name, low, high in BANDS_MHZ if low <= frequency < high), "")

    @property
    def is_connected(self) -> bool:
        """True if the radio is connected to another radio; otherwise it has no rate and no signal."""
        return (self.tx_mbps, self.rx_mbps, self.signal_dbm) != (None, None, None)

    def facts(self, prefix: str) -> dict[str, Any]:
        """Return the known values, by names that begin with `prefix`."""
        found = {
            "band": self.band or None,
            "channel": self.channel,
            "frequency_mhz": self.frequency_mhz,
            "width_mhz": self.width_mhz,
            "tx_mbps": self.tx_mbps,
            "rx_mbps": self.rx_mbps,
            "signal_dbm": self.signal_dbm,
        }
        return {f"{prefix}{name}": value for name, value in found.items() if value is not None}


def parse(info: str, link: str) -> Radio:
    """Parse `iw dev DEVICE info`, and `iw dev DEVICE link` or one station of `station dump`.

    If a connection has several links (802.11be), the first is used.
    """
    place = re.search(
        r"^[ \t]*channel (\d{1,9}) \((\d{1,9})(?:\.\d{1,9})? MHz\)(?:, width: (\d{1,9})(?:\+(\d{1,9}))? MHz)?",
        info,
        re.MULTILINE,
    )
    width = int(place[3]) + int(place[4] or 0) if place and place[3] else None
    frequency = place[2] if place else _first(r"freq:\s*(\d{1,9})\b", link)
    signal = _first(r"signal:\s*(-?\d{1,9})\b", link)
    rates = {way: _first(rf"{way} bitrate:\s*(\d{{1,9}}(?:\.\d{{1,9}})?) MBit/s", link) for way in ("tx", "rx")}
    return Radio(
        frequency_mhz=int(frequency) if frequency else None,
        channel=int(place[1]) if place else None,
        width_mhz=width,
        tx_mbps=float(rates["tx"]) if rates["tx"] else None,
        rx_mbps=float(rates["rx"]) if rates["rx"] else None,
        signal_dbm=int(signal) if signal else None,
    )


def stations(dump: str) -> dict[str, str]:
    """Split `iw dev DEVICE station dump` into the text of each station, by its MAC address in lower case."""
    parts = re.split(r"^Station ([0-9a-fA-F:]{17}) .*$", dump, flags=re.MULTILINE)
    return dict(zip(map(str.lower, parts[1::2]), parts[2::2], strict=True))


def without_names(text: str) -> str:
    """Return the lines of `iw` that hold no name and no address."""
    return "\n".join(line.strip() for line in text.splitlines() if KEPT.match(line.strip()))


def _first(pattern: str, text: str) -> str | None:
    found = re.search(rf"^[ \t]*{pattern}", text, re.MULTILINE)
    return found[1] if found else None


@dataclass(frozen=True)
class Antenna:
    """A wireless device of a host that has `iw`."""

    host: Host
    device: str
    station: str = ""
    """MAC address of the other end if it is one of several stations; empty: there is only one other end."""

    def look(self) -> tuple[Radio, str]:
        """Return the radio's present state, and the output of `iw` without names. Raises LinkLost."""
        info = self._iw("info")
        link = stations(self._iw("station", "dump")).get(self.station, "") if self.station else self._iw("link")
        return parse(info, link), without_names(f"{info}\n{link}")

    def _iw(self, *words: str) -> str:
        return self.host.run(["iw", "dev", self.device, *words], check=False).stdout


def is_wireless(host: Host, device: str) -> bool:
    """Return True if a device is wireless."""
    return host.run(["test", "-e", f"/sys/class/net/{device}/phy80211"], check=False).returncode == 0


def antennas(client: Host, device: str, router: Host, lan_device: str) -> Mapping[str, Antenna]:
    """Return the ends of the LAN that are wireless and have `iw`, by the host's role.

    The router's end is its LAN device, or the port of its bridge at which the client is a station.
    """
    found: dict[str, Antenna] = {}
    if not is_wireless(client, device):
        return found
    if client.has_program("iw"):
        found["client"] = Antenna(client, device)
    if router.has_program("iw"):
        address = client.run(["cat", f"/sys/class/net/{device}/address"], check=False).stdout.strip().lower()
        ports = router.run(["ls", f"/sys/class/net/{lan_device}/brif"], check=False).stdout.split()
        for port in (lan_device, *ports):
            if address in stations(router.run(["iw", "dev", port, "station", "dump"], check=False).stdout):
                found["router"] = Antenna(router, port, address)
                break
    return found
