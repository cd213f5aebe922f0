"""What a plan may say of a tunnel, and what it may not."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tunnelbench.model.plan import TunnelSpec
from tunnelbench.tunnel import (
    adapters,
    algorithms,
    fastd,
    ipsec_userspace,
    n2n,
    nebula,
    openconnect,
    openvpn_options,
    option_schemas,
    ssh,
    tinc,
    vxlan,
    wireguard,
)
from tunnelbench.tunnel.base import TunnelOptions


@pytest.mark.parametrize("kind", sorted(adapters()))
def test_every_option_has_a_default_and_says_what_it_is(kind: str) -> None:
    schema = option_schemas()[kind]
    schema()
    for name, field in schema.model_fields.items():
        assert field.description, f"{kind}.{name}"


@pytest.mark.parametrize("kind", sorted(adapters()))
def test_an_option_that_does_not_exist_is_refused(kind: str) -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        option_schemas()[kind].model_validate({"cypher": "aes"})


@pytest.mark.parametrize("cipher", ["AES-128-GCM", "AES-256-GCM", "CHACHA20-POLY1305"])
def test_openvpn_with_a_static_key_refuses_ciphers_that_authenticate(cipher: str) -> None:
    with pytest.raises(ValidationError, match=f"refuses {cipher} with a static key; take a CBC cipher"):
        openvpn_options.Options.model_validate({"mode": "static-key", "cipher": cipher})


def test_openvpn_with_a_static_key_must_name_its_cipher_since_the_default_cannot_be() -> None:
    with pytest.raises(ValidationError, match="refuses AES-256-GCM"):
        openvpn_options.Options(mode="static-key")


@pytest.mark.parametrize("cipher", ["AES-128-CBC", "BF-CBC", "none"])
def test_openvpn_with_a_static_key_takes_others(cipher: str) -> None:
    assert openvpn_options.Options.model_validate({"mode": "static-key", "cipher": cipher}).mode == "static-key"


@pytest.mark.parametrize("program", ["openvpn", "openvpn-2.7", "/usr/local/sbin/openvpn", "/opt/a+b/openvpn_x.y", "7z"])
def test_another_program_may_be_named_or_be_a_path(program: str) -> None:
    assert openvpn_options.Options(program=program).program == program


@pytest.mark.parametrize(
    "program",
    [
        "", " ", "-openvpn", "--help", "open vpn", "openvpn ", " openvpn", "openvpn\n", "openvpn\nuser root",
        "\nopenvpn", "openvpn\t", "openvpn\0", "bin/openvpn", "./openvpn", "../openvpn", "$HOME/openvpn",
        "openvpn;reboot", "`reboot`", "/usr/bin/openvpn --up reboot", "/usr/bin/open\nvpn",
        "öpenvpn", "openvpn\u2028", "/",
    ],
)  # fmt: skip
def test_a_program_that_could_be_taken_for_something_else_is_refused(program: str) -> None:
    with pytest.raises(ValidationError, match="program"):
        openvpn_options.Options(program=program)


@given(st.text() | st.from_regex(r"[-/. \n]?[a-z0-9/._ +-]*\s?"))
def test_no_program_is_taken_that_is_an_option_or_more_than_one_word(program: str) -> None:
    try:
        taken = openvpn_options.Options(program=program).program
    except ValidationError:
        return
    assert not taken.startswith("-")
    assert taken.isascii()
    assert re.fullmatch(r"\S+", taken)
    assert not set(taken) & set("\0\n\"'`$;&|<>(){}*?!~#%\\")


@pytest.mark.parametrize(
    ("schema", "wrong"),
    [
        (openvpn_options.Options, {"cipher": "AES-128-CTR"}),
        (openvpn_options.Options, {"cipher": "AES-128-CBC\nscript-security 3"}),
        (openvpn_options.Options, {"auth": "SHA1 "}),
        (openvpn_options.Options, {"transport": "sctp"}),
        (openvpn_options.Options, {"dev": "tun1"}),
        (openvpn_options.Options, {"mssfix": -1}),
        (openvpn_options.Options, {"mssfix": 65536}),
        (openvpn_options.Options, {"tun_mtu": 575}),
        (openvpn_options.Options, {"tun_mtu": 9001}),
        (tinc.Options, {"cipher": "blowfish"}),
        (tinc.Options, {"digest": "SHA1"}),
        (tinc.Options, {"mode": "hub"}),
        (fastd.Options, {"method": "xsalsa20-poly1305"}),
        (fastd.Options, {"mode": "multitap"}),
        (fastd.Options, {"mtu": 575}),
        (openvpn_options.Options, {"tls_wrap": "tls-crypt-v2"}),
        (openvpn_options.Options, {"sndbuf": 2047}),
        (openvpn_options.Options, {"rcvbuf": 16_777_217}),
        (openvpn_options.Options, {"reneg_sec": -1}),
        (n2n.Options, {"mtu": 1501}),
        (n2n.Options, {"cipher": "none"}),
        (nebula.Options, {"cipher": "none"}),
        (openconnect.Options, {"mode": "esp"}),
        (openconnect.Options, {"mtu": 1435}),
        (ssh.Options, {"cipher": "none"}),
        (ipsec_userspace.Options, {"cipher": "3des"}),
        (vxlan.Options, {"vni": 2**24}),
        (vxlan.Options, {"vni": -1}),
        (vxlan.Options, {"port": 0}),
        (vxlan.Options, {"port": 65536}),
        (wireguard.Options, {"mtu": 575}),
        (wireguard.Options, {"mtu": 8921}),
        (wireguard.Options, {"port": 0}),
    ],
)
def test_a_value_outside_its_range_is_refused(schema: type[TunnelOptions], wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        schema.model_validate(wrong)


@pytest.mark.parametrize(
    ("schema", "right"),
    [
        (openvpn_options.Options, {"mssfix": 0, "tun_mtu": 576}),
        (openvpn_options.Options, {"mssfix": 65535, "tun_mtu": 9000}),
        (vxlan.Options, {"vni": 0, "port": 1}),
        (vxlan.Options, {"vni": 2**24 - 1, "port": 65535}),
        (wireguard.Options, {"mtu": 576, "port": 1}),
        (wireguard.Options, {"mtu": 8920, "port": 65535}),
    ],
)
def test_the_ends_of_a_range_belong_to_it(schema: type[TunnelOptions], right: dict[str, Any]) -> None:
    assert schema.model_validate(right).model_dump(include=set(right)) == right


def test_options_do_not_change() -> None:
    options = vxlan.Options()
    with pytest.raises(ValidationError, match="frozen"):
        options.vni = 7


def test_every_tunnel_names_the_ciphers_of_its_packets_once() -> None:
    specs = [
        TunnelSpec("none", "none"),
        TunnelSpec("vxlan", "VXLAN"),
        TunnelSpec("wireguard-go", "wg"),
        TunnelSpec("openvpn", "gcm", {"cipher": "AES-128-GCM", "auth": "SHA1"}),
        TunnelSpec("openvpn", "cbc", {"cipher": "AES-128-CBC", "auth": "SHA1"}),
        TunnelSpec("tinc", "tinc", {"cipher": "none", "digest": "sha1"}),
        TunnelSpec("fastd", "fastd gcm", {"method": "aes128-gcm"}),
        TunnelSpec("fastd", "fastd", {"method": "salsa2012+umac"}),
        TunnelSpec("openvpn-dco", "no adapter"),
        TunnelSpec("gre", "no cipher"),
    ]
    assert algorithms(specs) == {
        "chacha20-poly1305": ("wg",),
        "aes-128-gcm": ("gcm", "fastd gcm"),
        "aes-128-cbc": ("cbc",),
        "sha1": ("cbc", "tinc"),
    }
