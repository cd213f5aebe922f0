"""Columns are known by their headings, in English and in French."""

from __future__ import annotations

import pytest

from tunnelbench.analysis.audit.headings import Role, rate_unit, recognise, recognised
from tunnelbench.model.errors import WrongInput


@pytest.mark.parametrize(
    ("heading", "role"),
    [
        ("throughput_mbps", Role.THROUGHPUT),
        ("Débit", Role.THROUGHPUT),
        ("Bande passante (Mbit/s)", Role.THROUGHPUT),
        ("Throughput in Mbit/s", Role.THROUGHPUT),
        ("Mb/s", Role.THROUGHPUT),
        ("pps", Role.PACKETS),
        ("pkt/s", Role.PACKETS),
        ("paquets/s", Role.PACKETS),
        ("Paquets par seconde", Role.PACKETS),
        ("packets_per_s", Role.PACKETS),
        ("Data [packets/s]", Role.PACKETS),
        ("Payload size", Role.PAYLOAD),
        ("Charge utile (octets)", Role.PAYLOAD),
        ("Packet size (MSS)", Role.MSS),
        ("Taille des paquets", Role.PACKET),
        ("Frame size", Role.FRAME),
        ("Taille de trame", Role.FRAME),
        ("Sens", Role.DIRECTION),
        ("CPU (usr)", Role.CPU_PART),
        ("cpu_sirq_pct", Role.CPU_PART),
        ("Charge CPU routeur", Role.CPU_TOTAL),
        ("CPU busy", Role.CPU_TOTAL),
        ("Share of baseline", Role.SHARE),
        ("link_mbps", Role.LINK),
        ("Techno", Role.TUNNEL),
        ("Chiffrement", Role.CIPHER),
        ("auth", Role.DIGEST),
        ("Routeur", Role.DEVICE),
        ("Remarques", Role.COMMENT),
        ("source", Role.SOURCE),
    ],
)
def test_a_heading_says_what_its_column_holds(heading: str, role: Role) -> None:
    column = recognised(0, heading)
    assert column is not None
    assert column.role is role


@pytest.mark.parametrize(
    "heading",
    ["ACK [packets/s]", "CPU s per Gbit", "Ping worst", "Version", "usr/sys/softirq/steal [%]", "tester_busy_share",
     "router_user_s", "bytes_received", "forwarded_packets", "CPU of daemon", "", "=cmd()"],
)  # fmt: skip
def test_what_is_not_known_is_left_alone(heading: str) -> None:
    assert recognised(0, heading) is None


@pytest.mark.parametrize(
    ("text", "unit_bps"),
    [("kbit/s", 1e3), ("Mbit/s", 1e6), ("Mb/s", 1e6), ("Mbps", 1e6), ("mbps", 1e6), ("MBPS", 1e6), ("Mbits/sec", 1e6),
     ("Gbit/s", 1e9), ("MB/s", 8e6), ("MBps", 8e6), ("Mo/s", 8e6), ("Mégaoctets/s", 8e6), ("kB/s", 8e3),
     ("octets/s", 8),
     ("MiB/s", 8 * 2**20), ("Mibit/s", 2**20), ("KiB/s", 8 * 2**10), ("bits per second", 1), ("kbytes_per_s", 8e3),
     ("throughput_bps", 1), ("Mbit", None), ("seconds", None)],
)  # fmt: skip
def test_units_distinguish_bits_from_bytes_and_m_from_mi(text: str, unit_bps: float | None) -> None:
    assert rate_unit(text) == unit_bps


@pytest.mark.parametrize(
    ("heading", "directions"),
    [("Débit Mbps (out/in)", ("out", "in")), ("In throughput", ("in",)), ("Upload [Mbit/s]", ("out",)),
     ("Débit descendant", ("in",)), ("Throughput in kbit/s", ()), ("pps (in / out)", ("in", "out"))],
)  # fmt: skip
def test_a_heading_may_name_its_directions(heading: str, directions: tuple[str, ...]) -> None:
    column = recognised(0, heading)
    assert column is not None
    assert column.directions == directions


def test_a_column_of_names_is_no_column_of_figures() -> None:
    found = recognise(["cpu", "cpu_total_pct"], {1})
    assert [(column.position, column.role) for column in found] == [(1, Role.CPU_TOTAL)]


def test_the_user_may_say_what_a_column_is() -> None:
    (column,) = recognise(["Ergebnis", "x"], {0}, {"throughput_mbps": "Ergebnis"})
    assert (column.heading, column.role, column.unit_bps) == ("Ergebnis", Role.THROUGHPUT, 1e6)
    with pytest.raises(WrongInput, match="unknown column key 'wheels'"):
        recognise(["a"], {0}, {"wheels": "a"})
    with pytest.raises(WrongInput, match="there is no column 'b'"):
        recognise(["a"], {0}, {"pps": "b"})
