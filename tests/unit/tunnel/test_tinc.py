"""tinc: its list of nodes and its log as evidence, and its configuration files."""

from __future__ import annotations

import random
import ssl
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.output.samples import sample, samples
from tests.unit.tunnel.cases import IP_VERSIONS, Captured, Ping, TunnelCase, make_tunnel, require_growth
from tests.unit.tunnel.fakes import FakeDaemon, make_ends

from tunnelbench.model.result import Check, Verdict
from tunnelbench.tunnel.base import Tunnel
from tunnelbench.tunnel.tinc import CIPHER_BLOCK_BYTES, OPENSSL_NIDS, Node, Options, Tinc, parse_node

ASKED = {
    "aes-128-cbc-sha1": {"cipher": "aes-128-cbc", "digest": "sha1"},
    "bf-cbc-sha1": {"cipher": "bf-cbc", "digest": "sha1"},
    "none-none": {"cipher": "none", "digest": "none"},
}


def log_and_nodes(name: str, tunnel: Tunnel[Any], ping: Ping) -> Captured:
    assert isinstance(tunnel, Tinc)
    ping()
    yield f"router-{name}.log", tunnel.router_daemons[0].output()
    tunnel.settle()
    yield f"nodes-{name}.txt", tunnel._nodes(tunnel.router_daemons[0])


TUNNELS = (
    TunnelCase(
        "tinc",
        lengths=(
            ({"cipher": "aes-128-cbc", "digest": "sha1"}, 304),
            ({"cipher": "none", "digest": "none"}, 285),
            ({"cipher": "none", "digest": "none", "outside": "ipv6"}, 305),
        ),
        seen=(
            ({}, "udp port 655, exact, hidden"),
            ({"cipher": "none"}, "udp port 655, exact, readable"),
        ),
        refused=({"cipher": "blowfish"}, {"digest": "SHA1"}, {"mode": "hub"}, {"compression": 12}),
        exact=(
            {"cipher": "aes-128-cbc", "digest": "sha1"},
            {"cipher": "bf-cbc", "digest": "none", "legacy": True},
            *IP_VERSIONS,
        ),
        measured=({"mode": "switch"},),
        version_commands={"tinc": ("tincd", "--version"), "openssl": ("openssl", "version")},
        samples=ASKED,
        capture=log_and_nodes,
    ),
)

LISTS = samples("tinc-*/nodes-*.txt")


class Listed(Tinc):
    """A tinc whose daemon has printed a list of nodes."""

    listing = ""

    def _nodes(self, daemon: Any) -> str:
        return self.listing


def negotiated(folder: Path, listing: str, log: str, **options: Any) -> tuple[Check, ...]:
    tunnel = Listed(Options.model_validate(options), make_ends(folder))
    tunnel.listing = listing
    tunnel.router_daemons = [FakeDaemon(log).as_daemon]
    return tunnel.negotiated()


@pytest.mark.parametrize("name", LISTS)
def test_the_peer_is_read_from_the_list_of_nodes(name: str) -> None:
    node = parse_node(LISTS[name], "server")
    asked = ASKED[Path(name).stem.removeprefix("nodes-")]
    assert (node.cipher, node.digest) == (asked["cipher"], asked["digest"])
    assert node.maximum_mtu_bytes > 1400


@pytest.mark.parametrize("name", LISTS)
def test_the_mtu_is_known_where_probes_came_through_by_udp(name: str) -> None:
    node = parse_node(LISTS[name], "server")
    by_udp = "bf-cbc" not in name
    assert node.mtu_is_known is by_udp
    assert bool(node.minimum_mtu_bytes) is by_udp


@pytest.mark.parametrize("name", ["nobody", "serve", "erver", "198"])
def test_a_node_that_is_not_listed_is_unknown(name: str) -> None:
    assert parse_node(LISTS["tinc-1.0.36/nodes-none-none.txt"], name) == Node("unknown", "unknown", 0, 0)


@pytest.mark.parametrize("name", sorted(OPENSSL_NIDS))
def test_the_numbers_in_the_list_are_openssls(name: str) -> None:
    number = 0 if name == "none" else ssl._ASN1Object.fromname(name).nid
    assert OPENSSL_NIDS[name] == number


def test_the_mtu_of_an_unknown_node_is_not_known() -> None:
    assert not parse_node("", "server").mtu_is_known


def test_the_node_itself_has_no_cipher() -> None:
    assert parse_node(LISTS["tinc-1.0.36/nodes-aes-128-cbc-sha1.txt"], "router").cipher == "none"


def test_an_unknown_number_is_reported_as_unknown() -> None:
    listing = LISTS["tinc-1.0.36/nodes-aes-128-cbc-sha1.txt"].replace("cipher 419 digest 64", "cipher 1018 digest -1")
    assert parse_node(listing, "server") == Node("OpenSSL NID 1018", "OpenSSL NID -1", 1451, 1451, 0)


@given(st.text(alphabet=st.sampled_from("server at cipher digest 0123 (min max)\n")), st.text(max_size=9))
def test_any_list_and_any_name_can_be_read(listing: str, name: str) -> None:
    parse_node(listing, name)


@pytest.mark.parametrize("setting", ["aes-128-cbc-sha1", "none-none"])
def test_a_tunnel_that_uses_what_was_asked_for_is_proven(setting: str, tmp_path: Path) -> None:
    listing, log = sample(f"tinc-1.0.36/nodes-{setting}.txt"), sample(f"tinc-1.0.36/router-{setting}.log")
    checks = negotiated(tmp_path, listing, log, **ASKED[setting])
    assert [(check.name, check.verdict) for check in checks] == [
        ("cipher", Verdict.OK),
        ("digest", Verdict.OK),
        ("compression", Verdict.OK),
    ]


def test_compression_is_in_both_host_files_and_read_back(tmp_path: Path) -> None:
    configuration, _ = bring_up(tmp_path, compression=9)
    for end in ("router", "server"):
        assert "Compression = 9" in configuration[f"{end}/tinc/hosts/server"].splitlines()
    listing = sample("tinc-1.0.36/nodes-none-none.txt")
    for level, verdict in ((0, Verdict.OK), (9, Verdict.VOID)):
        checks = negotiated(tmp_path, listing, "", cipher="none", digest="none", compression=level)
        assert [check.verdict for check in checks if check.name == "compression"] == [verdict]


@pytest.mark.parametrize(("compression", "hides"), [(0, False), (1, True), (9, True), (10, False), (11, False)])
def test_without_a_cipher_zlib_hides_the_payload_and_lzo_does_not(
    compression: int, hides: bool, tmp_path: Path
) -> None:
    options = Options(cipher="none", digest="none", compression=compression)
    tunnel = Tinc(options, make_ends(tmp_path))
    assert (tunnel.hides_payload, tunnel.compresses) == (hides, compression > 0)


@pytest.mark.parametrize("level", range(1, 10))
@given(st.binary(min_size=40, max_size=1500), st.integers(0, 2**32))
def test_zlib_adds_no_more_to_a_packet_than_is_said(level: int, packet: bytes, seed: int) -> None:
    content = packet[:40] + random.Random(seed).randbytes(len(packet) - 40)
    options = Options(cipher="none", digest="none", compression=level)
    outer_bytes = Tinc(options, make_ends(Path("/nowhere"))).outer_packet_bytes(len(content))
    frame = bytes(12) + b"\x08\x00" + content
    assert len(zlib.compress(frame, level)) <= outer_bytes - 20 - 8 - 4


def test_blowfish_is_void_by_its_log_though_the_list_of_nodes_names_it(tmp_path: Path) -> None:
    listing, log = sample("tinc-1.0.36/nodes-bf-cbc-sha1.txt"), sample("tinc-1.0.36/router-bf-cbc-sha1.log")
    cipher, digest, _, keys = negotiated(tmp_path, listing, log, **ASKED["bf-cbc-sha1"])
    assert (cipher.verdict, digest.verdict, keys.verdict) == (Verdict.OK, Verdict.OK, Verdict.VOID)
    assert "Error during initialisation of key" in keys.reason
    assert keys.reason.endswith("digital envelope routines::unsupported")


def test_a_tunnel_that_uses_something_else_is_void(tmp_path: Path) -> None:
    listing = sample("tinc-1.0.36/nodes-none-none.txt")
    checks = negotiated(tmp_path, listing, "", **ASKED["aes-128-cbc-sha1"])
    assert [check.reason for check in checks if check.verdict is Verdict.VOID] == [
        "asked for aes-128-cbc, in use: none",
        "asked for sha1, in use: none",
    ]


def bring_up(folder: Path, **options: Any) -> tuple[dict[str, str], list[str]]:
    """The configuration of a tunnel, and the files that were there while it was up."""
    up = "Ready\nConnection with server activated\nKEY"
    with Tinc(Options.model_validate(options), make_ends(folder, lambda _: up)) as tunnel:
        files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        return tunnel.configuration, files


def test_both_ends_know_each_other_and_only_the_router_calls(tmp_path: Path) -> None:
    configuration, files = bring_up(tmp_path, cipher="aes-128-cbc", digest="sha1")
    assert [name for name in files if name.startswith("router/")] == [
        "router/tinc/hosts/router",
        "router/tinc/hosts/server",
        "router/tinc/rsa_key.priv",
        "router/tinc/tinc.conf",
    ]
    assert "ConnectTo = server" in configuration["router/tinc/tinc.conf"]
    assert "ConnectTo" not in configuration["server/tinc/tinc.conf"]
    for end in ("router", "server"):
        host_file = configuration[f"{end}/tinc/hosts/server"].splitlines()
        assert {"Address = 198.18.2.2", "Cipher = aes-128-cbc", "Digest = sha1", "Compression = 0"} <= set(host_file)
        assert {"Subnet = 198.18.3.2/32", "Subnet = 198.18.4.1"} <= set(host_file)


def test_private_keys_are_deleted_with_the_tunnel_and_never_kept_with_the_results(tmp_path: Path) -> None:
    configuration, files = bring_up(tmp_path)
    assert [name for name in files if name.endswith(".priv")] == [
        "router/tinc/rsa_key.priv",
        "server/tinc/rsa_key.priv",
    ]
    assert not any("priv" in name for name in configuration)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(("mode", "device"), [("router", "tun"), ("switch", "tap")])
def test_a_switch_has_a_tap_and_no_subnets(mode: str, device: str, tmp_path: Path) -> None:
    configuration, _ = bring_up(tmp_path, mode=mode)
    assert {f"DeviceType = {device}", f"Mode = {mode}"} <= set(configuration["router/tinc/tinc.conf"].splitlines())
    assert ("Subnet" in configuration["router/tinc/hosts/server"]) is (mode == "router")


def test_the_legacy_provider_is_active_where_it_is_asked_for(tmp_path: Path) -> None:
    configuration, files = bring_up(tmp_path, cipher="bf-cbc", legacy=True)
    for end in ("router", "server"):
        assert configuration[f"{end}/openssl.cnf"].count("= active") == 2
    assert "router/openssl.cnf" in files
    _, usual = bring_up(tmp_path, cipher="bf-cbc")
    assert "router/openssl.cnf" not in usual


@given(
    st.fixed_dictionaries({
        "cipher": st.sampled_from(["aes-128-cbc", "aes-256-cbc", "bf-cbc", "none"]),
        "digest": st.sampled_from(["sha1", "sha512", "none"]),
        "mode": st.sampled_from(["router", "switch"]),
    }),
    st.integers(20, 8900),
)  # fmt: skip
def test_tinc_adds_to_a_packet_and_more_to_a_longer_one(options: dict[str, Any], inner_bytes: int) -> None:
    require_growth(make_tunnel("tinc", options), inner_bytes)


def test_ciphers_have_the_blocks_of_their_family() -> None:
    blocks = {"aes": 16, "camellia": 16, "bf": 8, "des": 8, "none": 0}
    assert {cipher: blocks[cipher.split("-")[0]] for cipher in CIPHER_BLOCK_BYTES} == CIPHER_BLOCK_BYTES
