"""Options of tunnels: descriptions, defaults, ranges, and the ciphers that follow from them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from tests.unit.tunnel.cases import Options, tunnel_cases

from tunnelbench.model.plan import TunnelSpec
from tunnelbench.tunnel import adapters, algorithms, option_schemas, vxlan
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


REFUSED = [(kind, options) for kind, case in tunnel_cases().items() for options in case.refused]
ACCEPTED = [(kind, options) for kind, case in tunnel_cases().items() for options in case.accepted]


@pytest.mark.parametrize(("kind", "wrong"), REFUSED)
def test_a_value_outside_its_range_is_refused(kind: str, wrong: Options) -> None:
    with pytest.raises(ValidationError):
        option_schemas()[kind].model_validate(wrong)


@pytest.mark.parametrize(("kind", "right"), ACCEPTED)
def test_the_ends_of_a_range_belong_to_it(kind: str, right: Options) -> None:
    assert option_schemas()[kind].model_validate(right).model_dump(include=set(right)) == right


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind, schema in option_schemas().items()
        if schema.model_fields.keys() - TunnelOptions.model_fields.keys()
    ],
)
def test_every_kind_with_options_names_values_that_it_refuses(kind: str) -> None:
    assert tunnel_cases()[kind].refused


def test_options_do_not_change() -> None:
    options = vxlan.Options()
    with pytest.raises(ValidationError, match="frozen"):
        options.vni = 7


def test_every_tunnel_names_the_ciphers_that_openssl_computes_for_it_once() -> None:
    specs = [
        TunnelSpec("none", "none"),
        TunnelSpec("vxlan", "VXLAN"),
        TunnelSpec("wireguard-go", "wg"),
        TunnelSpec("openvpn", "gcm", {"cipher": "AES-128-GCM", "auth": "SHA1"}),
        TunnelSpec("openvpn", "cbc", {"cipher": "AES-128-CBC", "auth": "SHA1"}),
        TunnelSpec("tinc", "tinc", {"cipher": "none", "digest": "sha1"}),
        TunnelSpec("openvpn", "of another build", {"program": "/opt/openvpn"}),
        TunnelSpec("openvpn", "known", {"program": "/opt/openvpn", "library": "openssl", "cipher": "AES-128-GCM"}),
        TunnelSpec("fastd", "fastd", {"method": "aes128-gcm"}),
        TunnelSpec("ipsec", "in the kernel"),
        TunnelSpec("ipsec-userspace", "charon", {"cipher": "aes-128-gcm"}),
        TunnelSpec("openvpn-dco", "no adapter"),
        TunnelSpec("gre", "no cipher"),
    ]
    assert algorithms(specs) == {
        "aes-128-gcm": ("gcm", "known", "charon"),
        "aes-128-cbc": ("cbc",),
        "sha1": ("cbc", "tinc"),
    }
