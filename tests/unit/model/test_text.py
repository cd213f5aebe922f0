"""Text from programs, made fit to be shown or stored."""

from __future__ import annotations

import base64
import os
import secrets

import pytest

from tunnelbench.model.text import without_keys

PEM = "-----BEGIN OpenVPN Static key V1-----\n6acef03f62675b4b1bbd03e53b187727\n-----END OpenVPN Static key V1-----"


@pytest.mark.parametrize(
    "key",
    [base64.b64encode(os.urandom(32)).decode(), secrets.token_hex(16), secrets.token_hex(32).upper(), PEM,
     PEM.partition("-----END")[0]],
    ids=["WireGuard", "n2n", "fastd", "PEM", "PEM that is cut off"],
)  # fmt: skip
def test_keys_are_taken_out_and_the_words_around_them_stay(key: str) -> None:
    kept = without_keys(f'debug: secret "{key}"').removesuffix('"')
    assert kept == 'debug: secret "[key]'


def test_addresses_paths_and_versions_stay() -> None:
    text = "OpenVPN 2.6.14 on 198.18.2.1:1194, /usr/lib/x86_64-linux-gnu/openvpn/plugins, 2001:2::1, 52:54:00:12:34:56"
    assert without_keys(text) == text
