"""The test `rekey` of a plan: tunnels whose keys do not change in each trial are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.texts import errors_of

from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.tunnel import adapters
from tunnelbench.tunnel.base import Tunnel

NETNS = TestbedSpec("lab", "netns")
NEVER = "reports no changes of keys"


def errors(folder: Path, block: str, duration_s: int = 10) -> list[str]:
    udp = f'[udp]\ntest = "rekey"\nrate = 100\nduration_s = {duration_s}\n[[tunnel]]\nname = "T"\n'
    return errors_of(folder, udp + block, NETNS)


@pytest.mark.parametrize(
    ("block", "duration_s", "messages"),
    [
        ('kind = "vxlan"\n', 10, ["tunnel[1].kind", NEVER]),
        ('kind = "ipsec"\n', 10, ["tunnel[1].kind", NEVER]),
        ('kind = "openvpn"\nreneg_sec = 0\n', 10, ["tunnel[1].reneg_sec", NEVER]),
        ('kind = "openvpn"\nmode = "static-key"\ncipher = "AES-128-CBC"\n', 10, ["tunnel[1].kind", NEVER]),
        (
            'kind = "openvpn"\n',
            10,
            [
                'the keys change every 3600 s, and a trial of the test "rekey" lasts 10 s',
                "set udp.duration_s to more than 3600, or reneg_sec to less than 10",
            ],
        ),
        ('kind = "openvpn"\nreneg_sec = 10\n', 10, ["tunnel[1].reneg_sec", "set udp.duration_s to more than 10"]),
        ('kind = "tinc"\n', 10, ["or key_expire_s to less than 10"]),
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


@pytest.mark.parametrize(
    ("block", "duration_s"),
    [
        ('kind = "none"\n', 10),
        ('kind = "openvpn"\nreneg_sec = 9\n', 10),
        ('kind = "openvpn"\nreneg_bytes = 1000000\n', 10),
        ('kind = "tinc"\nkey_expire_s = 4\n', 10),
        ('kind = "ssh"\n', 10),
        ('kind = "boringtun"\n', 130),
    ],
)
def test_a_tunnel_whose_keys_change_in_a_trial_is_accepted(block: str, duration_s: int, tmp_path: Path) -> None:
    assert errors(tmp_path, block, duration_s) == []


def test_the_kinds_that_report_changes_of_keys_state_their_interval() -> None:
    for kind, tunnel in adapters().items():
        reports = bool(tunnel.signs_of_rekey) or tunnel.rekeys_since is not Tunnel.rekeys_since
        assert (tunnel.options_type().rekey_interval_s < float("inf")) is reports, kind
