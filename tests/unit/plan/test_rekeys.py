"""The test `rekey` of a plan: tunnels whose keys do not change in each trial are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.texts import errors_of

from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.tunnel import adapters
from tunnelbench.tunnel.base import Tunnel

NETNS = TestbedSpec("lab", "netns")
NEVER = "reports no changes of keys, whatever its options; the test"
NOT_SO = "reports no changes of keys with these options; the test"


def errors(folder: Path, block: str, duration_s: int = 10) -> list[str]:
    udp = f'[udp]\ntest = "rekey"\nrate = [2000, 100]\npayload_bytes = [1400, 1012]\nduration_s = {duration_s}\n'
    return errors_of(folder, f'{udp}[[tunnel]]\nname = "T"\n{block}', NETNS)


@pytest.mark.parametrize(
    ("block", "duration_s", "messages"),
    [
        ('kind = "vxlan"\n', 10, ['tunnel[1].kind: a tunnel of kind "vxlan" ', NEVER]),
        ('kind = "ipsec"\n', 10, ["tunnel[1].kind", NEVER]),
        (
            'kind = "openvpn"\nreneg_sec = 0\n',
            10,
            [
                "tunnel[1].reneg_sec: the keys never change",
                "needs a change: set it to at least 1 and less than 10",
            ],
        ),
        ('kind = "openvpn"\nmode = "static-key"\ncipher = "AES-128-CBC"\n', 10, ["tunnel[1].kind", NOT_SO]),
        (
            'kind = "openvpn"\n',
            10,
            [
                'the keys change every 3600 s, and a trial of the test "rekey" lasts 10 s',
                "set udp.duration_s to more than 3600, or reneg_sec to at least 1 and less than 10",
            ],
        ),
        ('kind = "openvpn"\nreneg_sec = 10\n', 10, ["tunnel[1].reneg_sec", "set udp.duration_s to more than 10"]),
        (
            'kind = "tinc"\n',
            10,
            [
                "the keys change every 3600 s, up to 5 s late",
                "set udp.duration_s to more than 3605, or key_expire_s to at least 1 and less than 5",
            ],
        ),
        (
            'kind = "tinc"\nkey_expire_s = 9\n',
            10,
            ["tunnel[1].key_expire_s", "or key_expire_s to at least 1 and less than 5"],
        ),
        ('kind = "tinc"\nkey_expire_s = 5\n', 10, ["set udp.duration_s to more than 10, or key"]),
        ('kind = "tinc"\nkey_expire_s = 1\n', 3, ["lasts 3 s: set udp.duration_s to more than 6"]),
        (
            'kind = "ssh"\n',
            10,
            [
                "tunnel[1].kind: the keys change after 1,073,741,824 bytes, so after up to 10325 s at the lowest rate",
                "lasts 10 s: set udp.duration_s to 10325 or more, or raise udp.rate, or send larger packets",
            ],
        ),
        ('kind = "ssh"\n', 10_324, ["after up to 10325 s"]),
        ('kind = "ssh"\ncipher = "aes128-gcm"\n', 11_000, ["68,719,476,736 bytes", "lasts 11000 s: raise udp.rate"]),
        (
            'kind = "openvpn"\nreneg_bytes = 1000000\n',
            24,
            [
                "tunnel[1].reneg_bytes: the keys change after 1,000,000 bytes, up to 15 s late, so after up to 25 s",
                "lasts 24 s: set udp.duration_s to 25 or more, or raise udp.rate, or send larger packets, or lower ren",
            ],
        ),
        ('kind = "openvpn"\nreneg_bytes = 1\n', 15, ["lasts 15 s: set udp.duration_s to 16 or more"]),
        ('kind = "wireguard"\n', 10, ["the keys change every 120 s"]),
        ('kind = "wireguard-go"\n', 120, ["set udp.duration_s to more than 120"]),
        ('kind = "fastd"\n', 60, ["the keys change every 3300 s"]),
    ],
)
def test_a_tunnel_whose_keys_do_not_change_in_a_trial_is_refused(
    block: str, duration_s: int, messages: list[str], tmp_path: Path
) -> None:
    (found,) = errors(tmp_path, block, duration_s)
    assert all(message in found for message in messages), found


def test_no_interval_is_advised_for_trials_that_are_too_short_for_any(tmp_path: Path) -> None:
    (found,) = errors(tmp_path, 'kind = "openvpn"\nreneg_sec = 1\n', 1)
    assert found.endswith("lasts 1 s: set udp.duration_s to more than 1")


@pytest.mark.parametrize(
    ("block", "duration_s"),
    [
        ('kind = "none"\n', 10),
        ('kind = "openvpn"\nreneg_sec = 1\n', 10),
        ('kind = "openvpn"\nreneg_sec = 9\n', 10),
        ('kind = "openvpn"\nreneg_bytes = 1000000\n', 25),
        ('kind = "openvpn"\nreneg_bytes = 1000000000\nreneg_sec = 9\n', 10),
        ('kind = "tinc"\nkey_expire_s = 4\n', 10),
        ('kind = "tinc"\nkey_expire_s = 1\n', 7),
        ('kind = "ssh"\n', 10_325),
        ('kind = "boringtun"\n', 130),
    ],
)
def test_a_tunnel_whose_keys_change_in_a_trial_is_accepted(block: str, duration_s: int, tmp_path: Path) -> None:
    assert errors(tmp_path, block, duration_s) == []


def test_the_kinds_that_report_changes_of_keys_state_their_interval() -> None:
    for kind, tunnel in adapters().items():
        reports = bool(tunnel.signs_of_rekey) or tunnel.rekeys_since is not Tunnel.rekeys_since
        options = tunnel.options_type()
        assert (min(options.rekey_interval_s, options.rekey_bytes) < float("inf")) is reports, kind
