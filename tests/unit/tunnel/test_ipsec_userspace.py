"""strongSwan in user space: its list of associations as evidence, its configuration and its secrets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.output.samples import samples
from tests.unit.tunnel.cases import IP_VERSIONS, Captured, Ping, TunnelCase
from tests.unit.tunnel.fakes import commands, make_ends

from tunnelbench.model.errors import TunnelUnavailable
from tunnelbench.model.result import Verdict
from tunnelbench.tunnel.base import Tunnel
from tunnelbench.tunnel.ipsec_userspace import IpsecUserspace, Options
from tunnelbench.tunnel.strongswan import (
    CHARON,
    CHARON_CIPHER_NAMES,
    CHARON_DIGEST_NAMES,
    CHECK_VALUE_BYTES,
    PROPOSALS,
    parse_esp,
)


def list_associations(name: str, tunnel: Tunnel[Any], ping: Ping) -> Captured:
    assert isinstance(tunnel, IpsecUserspace)
    yield f"list-sas-{name}.txt", tunnel._swanctl(tunnel.ends.router, "--list-sas")


TUNNELS = (
    TunnelCase(
        "ipsec-userspace",
        lengths=(({}, 304), ({"outside": "ipv6"}, 324)),
        seen=(
            ({}, "udp port 4500, exact, hidden"),
            ({"cipher": "none"}, "udp port 4500, exact, readable"),
        ),
        refused=({"cipher": "3des"},),
        exact=({}, {"cipher": "aes-128-cbc", "digest": "sha1"}, {"cipher": "none"}, *IP_VERSIONS),
        may_change_machine=True,
        version_commands={"strongswan": (CHARON, "--version")},
        samples={name: {"cipher": name} for name in ("aes-128-gcm", "chacha20-poly1305", "aes-256-cbc", "none")},
        capture=list_associations,
    ),
)

LISTINGS = samples("strongswan-*/list-sas-*.txt")
UP = "00[JOB] spawning 16 worker threads\n"


def make_tunnel(folder: Path, listing: str = "", **options: Any) -> IpsecUserspace:
    ends = make_ends(folder, lambda argv: listing if "--list-sas" in argv else UP)
    return IpsecUserspace(Options.model_validate(options), ends)


def test_ends_that_forward_to_the_target_get_the_reason_at_once(tmp_path: Path) -> None:
    tunnel = IpsecUserspace(Options(), replace(make_ends(tmp_path), is_target_behind_server=True))
    with pytest.raises(TunnelUnavailable, match=r"addresses of its own ends.* take the kind ipsec"):
        tunnel.__enter__()
    assert [command for end, _ in tunnel.ends for command in commands(end.host)] == []


@pytest.mark.parametrize("name", LISTINGS)
def test_an_association_by_what_was_asked_for_is_proven(name: str, tmp_path: Path) -> None:
    cipher = Path(name).stem.removeprefix("list-sas-")
    (check,) = make_tunnel(tmp_path, LISTINGS[name], cipher=cipher).negotiated()
    assert check.verdict is Verdict.OK, check.reason


@pytest.mark.parametrize("listing", ["", *LISTINGS.values()])
def test_an_association_by_anything_else_is_void(listing: str, tmp_path: Path) -> None:
    (check,) = make_tunnel(tmp_path, listing, cipher="aes-128-cbc", digest="sha1").negotiated()
    assert check.verdict is Verdict.VOID


def test_an_association_that_is_not_installed_gives_nothing() -> None:
    listing = LISTINGS["strongswan-5.9.8/list-sas-aes-128-gcm.txt"].replace("INSTALLED", "REKEYED")
    assert parse_esp(listing, in_udp=True) == "unknown"


def test_an_association_that_is_not_in_udp_is_another() -> None:
    listing = LISTINGS["strongswan-5.9.8/list-sas-aes-128-gcm.txt"]
    assert parse_esp(listing, in_udp=True) == "AES_GCM_16-128"
    assert parse_esp(listing, in_udp=False) == "unknown"


def test_every_cipher_and_digest_of_a_plan_has_its_names() -> None:
    fields = Options.model_fields
    assert set(get_args(fields["cipher"].annotation)) == set(PROPOSALS) == set(CHARON_CIPHER_NAMES)
    assert set(get_args(fields["digest"].annotation)) == set(CHECK_VALUE_BYTES) == set(CHARON_DIGEST_NAMES)


@pytest.mark.parametrize(
    ("options", "proposal"),
    [
        ({}, "aes128gcm16"),
        ({"cipher": "chacha20-poly1305", "digest": "sha1"}, "chacha20poly1305"),
        ({"cipher": "aes-256-cbc", "digest": "sha512"}, "aes256-sha512"),
        ({"cipher": "none", "digest": "sha1"}, "null-sha1"),
    ],
)
def test_one_proposal_is_made_and_what_lies_behind_each_end_is_its_traffic(
    options: dict[str, Any], proposal: str, tmp_path: Path
) -> None:
    with make_tunnel(tmp_path, **options) as tunnel:
        for end, _ in tunnel.ends:
            settings = tunnel.configuration[f"{end.host.name}/run/strongswan.conf"]
            assert f"interfaces_use = {end.wan_device}\n" in settings
        router = [line.strip() for line in tunnel.configuration["router/swanctl.conf"].splitlines()]
        server = [line.strip() for line in tunnel.configuration["server/swanctl.conf"].splitlines()]
    for lines in (router, server):
        assert [line for line in lines if line.startswith("esp_proposals")] == [f"esp_proposals = {proposal}"]
    assert {"local_ts = 198.18.1.0/24", "remote_ts = 198.18.4.1"} <= set(router)
    assert {"local_ts = 198.18.4.1", "remote_ts = 198.18.1.0/24"} <= set(server)


def test_each_charon_has_a_run_folder_of_its_own_and_its_name(tmp_path: Path) -> None:
    with make_tunnel(tmp_path) as tunnel:
        for end, _ in tunnel.ends:
            ran = commands(end.host)
            assert (
                f"nsenter --mount=/proc/0/ns/mnt --root=/proc/0/root mount --bind {tmp_path}/{end.host.name}/run /run"
                in ran
            )
        assert [daemon.name for daemon in (*tunnel.router_daemons, *tunnel.server_daemons)] == ["charon", "charon"]


def test_secrets_are_deleted_and_never_kept_with_the_results(tmp_path: Path) -> None:
    with make_tunnel(tmp_path) as tunnel:
        keys = list(tmp_path.rglob("*.key"))
        assert [key.stat().st_mode & 0o777 for key in keys] == [0o600, 0o600]
        assert len({key.read_text() for key in keys}) == 1
        secret = keys[0].read_text().split('"')[1]
        assert len(secret) == 64
        assert secret not in "".join(tunnel.configuration.values())
        for end, _ in tunnel.ends:
            assert secret not in "".join(commands(end.host))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
