"""Length of outer packets: each figure here was read off a capture on the WAN."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.tunnel.fakes import make_ends

from tunnelbench.tunnel import adapter, adapters, tinc
from tunnelbench.tunnel.base import Tunnel
from tunnelbench.tunnel.openvpn_options import Cipher
from tunnelbench.tunnel.openvpn_packets import CIPHER_BLOCK_BYTES, DIGEST_BYTES, fragments

INNER_BYTES = 239
"""A ping with 211 bytes of payload."""

TLS_TCP = {"transport": "tcp"}
TAP = {"dev": "tap"}
STATIC = {"mode": "static-key"}
GCM = {"cipher": "AES-128-GCM"}
CBC_SHA1 = {"cipher": "AES-128-CBC", "auth": "SHA1"}
CBC_NONE = {"cipher": "AES-128-CBC", "auth": "none"}
BF_SHA1 = {"cipher": "BF-CBC", "auth": "SHA1"}
NONE_SHA1 = {"cipher": "none", "auth": "SHA1"}
NONE_NONE = {"cipher": "none", "auth": "none"}

MEASURED = [
    ("none", {}, 239),
    ("vxlan", {}, 289),
    ("wireguard-go", {}, 300),
    ("wireguard", {}, 300),
    ("boringtun", {}, 299),
    ("n2n", {}, 370),
    ("nebula", {}, 299),
    ("openconnect", {}, 305),
    ("openconnect", {"cipher": "chacha20-poly1305"}, 297),
    ("openconnect", {"mode": "tls"}, 328),
    ("openconnect", {"mode": "tls", "cipher": "chacha20-poly1305"}, 320),
    ("ipsec-userspace", {}, 304),
    ("ipsec", {}, 296),
    ("ipsec", {"udp": True}, 304),
    ("ipsec", {"cipher": "aes-128-cbc", "digest": "sha1"}, 312),
    ("ipsec", {"cipher": "aes-256-cbc", "digest": "sha256"}, 316),
    ("ipsec", {"cipher": "none", "digest": "sha1"}, 284),
    ("ipsec", {"cipher": "none"}, 288),
    ("ipsec", {"cipher": "chacha20-poly1305"}, 296),
    ("ipsec", {"cipher": "aes-256-cbc", "digest": "sha512"}, 332),
    ("l2tpv2-ppp", {}, 277),
    ("ssh", {}, 336),
    ("ssh", {"cipher": "aes128-gcm"}, 344),
    ("ssh", {"cipher": "aes128-ctr"}, 360),
    ("fastd", {"method": "null"}, 268),
    ("fastd", {"method": "null@l2tp"}, 275),
    ("fastd", {"method": "null+aes128-gmac"}, 291),
    ("fastd", {"method": "salsa2012+umac"}, 291),
    ("fastd", {"method": "null", "mode": "tap"}, 282),
    ("fastd", {"method": "null@l2tp", "mode": "tap"}, 289),
    ("fastd", {"method": "salsa20+umac", "mode": "tap"}, 305),
    ("gre", {}, 263),
    ("gre", {"key": 7}, 267),
    ("gre", {"checksum": True}, 267),
    ("gre", {"sequence": True}, 267),
    ("gre", {"key": 0, "checksum": True, "sequence": True}, 275),
    ("ipip", {}, 259),
    ("sit", {}, 259),
    ("geneve", {}, 289),
    ("l2tpv3", {}, 293),
    ("l2tpv3", {"sublayer": False}, 289),
    ("l2tpv3", {"cookie": True}, 297),
    ("l2tpv3", {"sublayer": False, "cookie": True}, 293),
    ("l2tpv3", {"encapsulation": "ip"}, 281),
    ("l2tpv3", {"encapsulation": "ip", "cookie": True}, 285),
    ("l2tpv3", {"encapsulation": "ip", "sublayer": False}, 277),
    ("l2tpv3", {"encapsulation": "ip", "sublayer": False, "cookie": True}, 281),
    ("tinc", {"cipher": "aes-128-cbc", "digest": "sha1"}, 304),
    ("tinc", {"cipher": "none", "digest": "none"}, 285),
    ("openvpn", GCM, 291),
    ("openvpn", CBC_SHA1, 324),
    ("openvpn", NONE_SHA1, 295),
    ("openvpn", NONE_NONE, 275),
    ("openvpn", BF_SHA1, 308),
    ("openvpn", CBC_NONE, 304),
    ("openvpn", TAP | GCM, 305),
    ("openvpn", TAP | CBC_SHA1, 340),
    ("openvpn", TAP | NONE_SHA1, 309),
    ("openvpn", TAP | NONE_NONE, 289),
    ("openvpn", TLS_TCP | GCM, 317),
    ("openvpn", TLS_TCP | CBC_SHA1, 350),
    ("openvpn", STATIC | CBC_SHA1, 320),
    ("openvpn", STATIC | NONE_SHA1, 295),
    ("openvpn", STATIC | NONE_NONE, 275),
    ("openvpn", STATIC | BF_SHA1, 304),
    ("openvpn", STATIC | CBC_NONE, 300),
    ("openvpn", STATIC | TAP | CBC_SHA1, 336),
    ("openvpn", GCM | {"outside": "ipv6"}, 311),
    ("openvpn", GCM | {"fragment": 1000}, 295),
]


def make_tunnel(kind: str, options: dict[str, Any], folder: Path = Path("/nowhere")) -> Tunnel[Any]:
    adapter_class = adapter(kind)
    ends = make_ends(folder)
    return adapter_class(adapter_class.options_type.model_validate(options), ends)


@pytest.mark.parametrize(("kind", "options", "outer_bytes"), MEASURED)
def test_an_outer_packet_is_as_long_as_it_was_seen_to_be(kind: str, options: dict[str, Any], outer_bytes: int) -> None:
    assert make_tunnel(kind, options).outer_packet_bytes(INNER_BYTES) == outer_bytes


@pytest.mark.parametrize(
    ("kind", "inner_bytes", "counted_bytes"),
    [
        # As seen on Linux 6.1: frames of 160 bytes for a packet of 128, of 1294 for 1252, and of 154 for 128.
        ("wireguard", 128, 160),
        ("wireguard", 1252, 1296),
        ("l2tpv3", 128, 154),
        ("wireguard-go", 128, 142),
        ("gre", 128, 142),
    ],
)
def test_a_device_counts_what_was_seen(kind: str, inner_bytes: int, counted_bytes: int) -> None:
    assert make_tunnel(kind, {}).counted_bytes(inner_bytes) == counted_bytes


def test_wireguard_pads_to_16_bytes_but_never_beyond_its_mtu() -> None:
    tunnel = make_tunnel("wireguard-go", {"mtu": 1420})
    overhead = 60
    padded = {0: 0, 1: 16, 16: 16, 1408: 1408, 1409: 1420, 1420: 1420}
    assert {inner: tunnel.outer_packet_bytes(inner) - overhead for inner in padded} == padded


@given(st.integers(20, 9000), st.sampled_from([GCM, CBC_SHA1, BF_SHA1, NONE_SHA1, STATIC | CBC_SHA1, TAP | GCM]))
def test_no_piece_of_a_packet_is_a_longer_datagram_than_asked_for(inner_bytes: int, options: dict[str, Any]) -> None:
    outers = make_tunnel("openvpn", options | {"fragment": 500}).outer_packets_bytes(inner_bytes)
    assert max(outers) <= 20 + 8 + 500


def test_what_a_packet_takes_on_the_wan_is_that_of_all_its_outer_packets() -> None:
    ethernet = 38
    assert make_tunnel("openvpn", GCM).wire_bytes(1000, 1500) == 1052 + ethernet
    assert make_tunnel("openvpn", GCM | {"outside": "ipv6"}).wire_bytes(1000, 1500) == 1072 + ethernet
    split = make_tunnel("openvpn", GCM | {"fragment": 600})
    assert split.outer_packets_bytes(1000) == (56 + 500, 56 + 500)
    assert split.wire_bytes(1000, 1500) == 2 * (56 + 500 + ethernet)
    stream = make_tunnel("openvpn", GCM | TLS_TCP | {"outside": "ipv6"})
    assert stream.wire_bytes(1000, 1500) == pytest.approx((1000 + 2 + 24) * 1538 / (1500 - 40 - 32))


@given(st.integers(1, 9000), st.integers(100, 2000))
def test_pieces_make_up_the_packet_and_are_alike_but_for_the_last(plain_bytes: int, largest_bytes: int) -> None:
    *others, last = fragments(plain_bytes, largest_bytes)
    assert sum(others) + last == plain_bytes
    assert len(set(others)) <= 1
    assert 0 < last <= max([largest_bytes, *others])
    assert all(piece % 4 == 0 for piece in others)


@pytest.mark.parametrize("block", [8, 16])
def test_a_cbc_cipher_adds_a_whole_block_where_the_packet_fills_its_blocks(block: int) -> None:
    cipher = {8: "BF-CBC", 16: "AES-128-CBC"}[block]
    tunnel = make_tunnel("openvpn", {"cipher": cipher, "auth": "none"})
    packet_id = 4
    full = 10 * block - packet_id
    assert tunnel.outer_packet_bytes(full) == tunnel.outer_packet_bytes(full - 1) + block


def test_ciphers_have_the_blocks_of_their_family() -> None:
    blocks = {"aes": 16, "camellia": 16, "bf": 8, "cast5": 8, "des": 8, "none": 0}
    for table in (CIPHER_BLOCK_BYTES, tinc.CIPHER_BLOCK_BYTES):
        assert table == {cipher: blocks[cipher.lower().split("-")[0]] for cipher in table}


def test_digests_are_as_long_as_they_are() -> None:
    known = {name: 0 if name == "none" else hashlib.new(name.lower()).digest_size for name in DIGEST_BYTES}
    assert known == DIGEST_BYTES


def test_every_cipher_and_digest_of_a_plan_has_a_length() -> None:
    ciphers = get_args(Cipher)
    assert {cipher for cipher in ciphers if cipher.endswith("-CBC")} == set(CIPHER_BLOCK_BYTES)
    for cipher in ciphers:
        for digest in DIGEST_BYTES:
            assert make_tunnel("openvpn", {"cipher": cipher, "auth": digest}).outer_packet_bytes(100) > 100


ANY_TUNNEL = st.one_of(
    st.sampled_from([("vxlan", {}), ("wireguard-go", {"mtu": 8920}), ("boringtun", {}), ("fastd", {}), ("nebula", {})]),
    st.tuples(
        st.just("ipsec-userspace"),
        st.fixed_dictionaries({"cipher": st.sampled_from(["aes-128-gcm", "aes-128-cbc", "none"])}),
    ),
    st.tuples(st.just("openconnect"), st.fixed_dictionaries({"mode": st.sampled_from(["dtls", "tls"])})),
    st.tuples(st.just("ssh"), st.fixed_dictionaries({"cipher": st.sampled_from(["aes128-gcm", "aes128-ctr"])})),
    st.tuples(
        st.just("tinc"),
        st.fixed_dictionaries({
            "cipher": st.sampled_from(["aes-128-cbc", "aes-256-cbc", "bf-cbc", "none"]),
            "digest": st.sampled_from(["sha1", "sha512", "none"]),
            "mode": st.sampled_from(["router", "switch"]),
        }),
    ),
    st.tuples(
        st.just("openvpn"),
        st.fixed_dictionaries({
            "cipher": st.sampled_from(["AES-256-GCM", "CHACHA20-POLY1305", "AES-256-CBC", "BF-CBC", "none"]),
            "auth": st.sampled_from(sorted(DIGEST_BYTES)),
            "transport": st.sampled_from(["udp", "tcp"]),
            "dev": st.sampled_from(["tun", "tap"]),
        }),
    ),
)  # fmt: skip


@given(ANY_TUNNEL, st.integers(20, 8900))
def test_a_tunnel_adds_to_a_packet_and_more_to_a_longer_one(named: tuple[str, dict[str, Any]], inner: int) -> None:
    tunnel = make_tunnel(*named)
    assert tunnel.outer_packet_bytes(inner) >= inner + 28
    assert (
        tunnel.outer_packet_bytes(inner)
        <= tunnel.outer_packet_bytes(inner + 1)
        <= tunnel.outer_packet_bytes(inner) + 17
    )


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("none", {}, ("plain IP", "exact", "readable")),
        ("vxlan", {"port": 8472}, ("udp port 8472", "exact", "readable")),
        ("gre", {}, ("gre", "exact", "readable")),
        ("sit", {}, ("ipip", "exact", "readable")),
        ("geneve", {}, ("udp port 6081", "exact", "readable")),
        ("l2tpv3", {"port": 1234}, ("udp port 1234", "exact", "readable")),
        ("l2tpv3", {"encapsulation": "ip"}, ("l2tp", "exact", "readable")),
        ("l2tpv2-ppp", {}, ("udp port 1701", "exact", "readable")),
        ("ipsec", {}, ("esp", "exact", "hidden")),
        ("ipsec", {"udp": True}, ("udp port 4500", "exact", "hidden")),
        ("ipsec", {"cipher": "none"}, ("esp", "exact", "readable")),
        ("wireguard", {}, ("udp port 51820", "exact", "hidden")),
        ("wireguard-go", {"port": 500}, ("udp port 500", "exact", "hidden")),
        ("boringtun", {"port": 500}, ("udp port 500", "exact", "hidden")),
        ("openconnect", {}, ("udp port 443", "exact", "hidden")),
        ("openconnect", {"mode": "tls"}, ("tcp port 443", "a stream", "hidden")),
        ("ipsec-userspace", {}, ("udp port 4500", "exact", "hidden")),
        ("ipsec-userspace", {"cipher": "none"}, ("udp port 4500", "exact", "readable")),
        ("nebula", {}, ("udp port 4242", "exact", "hidden")),
        ("ssh", {}, ("tcp port 22", "a stream", "hidden")),
        ("fastd", {}, ("udp port 10000", "exact", "hidden")),
        ("fastd", {"method": "null@l2tp"}, ("udp port 10000", "exact", "readable")),
        ("fastd", {"method": "null+aes128-gmac"}, ("udp port 10000", "exact", "readable")),
        ("tinc", {}, ("udp port 655", "exact", "hidden")),
        ("tinc", {"cipher": "none"}, ("udp port 655", "exact", "readable")),
        ("openvpn", {}, ("udp port 1194", "exact", "hidden")),
        ("openvpn", {"cipher": "none"}, ("udp port 1194", "exact", "readable")),
        ("openvpn", TLS_TCP, ("tcp port 1194", "a stream", "hidden")),
    ],
)
def test_a_tunnel_says_what_is_to_be_seen_on_the_wan(
    kind: str, options: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    tunnel = make_tunnel(kind, options)
    exact = "exact" if tunnel.has_exact_outer_packets else "a stream"
    assert (str(tunnel.outer), exact, "hidden" if tunnel.hides_payload else "readable") == expected


def test_the_table_of_measured_lengths_knows_every_kind() -> None:
    assert {kind for kind, _, _ in MEASURED} == set(adapters())
