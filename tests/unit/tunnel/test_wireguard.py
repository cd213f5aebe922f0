"""WireGuard, by three programs: a handshake as evidence, names of devices, secrets, padding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.output.samples import sample
from tests.unit.tunnel.cases import IP_VERSIONS, Captured, Ping, TunnelCase, make_tunnel
from tests.unit.tunnel.fakes import commands, make_ends

from tunnelbench.model.errors import TunnelUnavailable
from tunnelbench.model.plan import TunnelSpec
from tunnelbench.model.result import Verdict
from tunnelbench.tunnel import create
from tunnelbench.tunnel.base import Ends, Tunnel
from tunnelbench.tunnel.wireguard import BoringTun, Options, WireGuardGo, boringtun


def transfer(name: str, tunnel: Tunnel[Any], ping: Ping) -> Captured:
    ping()
    router = tunnel.ends.router
    yield "transfer.txt", router.host.run(["wg", "show", tunnel.device_at(router), "transfer"]).stdout


REFUSED: tuple[dict[str, int], ...] = ({"mtu": 575}, {"mtu": 9001}, {"port": 0})
ACCEPTED: tuple[dict[str, int], ...] = ({"mtu": 576, "port": 1}, {"mtu": 9000, "port": 65535})

TUNNELS = (
    TunnelCase(
        "wireguard",
        lengths=(({}, 300), ({"outside": "ipv6"}, 320)),
        seen=(({}, "udp port 51820, exact, hidden"),),
        refused=REFUSED,
        accepted=ACCEPTED,
        exact=({}, *IP_VERSIONS),
        needs_kernel=True,
    ),
    TunnelCase(
        "wireguard-go",
        lengths=(({}, 300), ({"mtu": 8920}, 300), ({"outside": "ipv6"}, 320)),
        seen=(({"port": 500}, "udp port 500, exact, hidden"),),
        refused=REFUSED,
        accepted=ACCEPTED,
        exact=({}, *IP_VERSIONS),
        measured=(),  # the plan `quick` has it
        version_commands={"wireguard-go": ("wireguard-go", "--version")},
    ),
    TunnelCase(
        "boringtun",
        lengths=(({}, 299), ({"outside": "ipv6"}, 319)),
        seen=(({"port": 500}, "udp port 500, exact, hidden"),),
        refused=REFUSED,
        accepted=ACCEPTED,
        version_commands={"boringtun": (boringtun(), "--version")},
        samples={"default": {}},
        capture=transfer,
    ),
)


def wireguard_go(ends: Ends) -> WireGuardGo:
    return WireGuardGo(Options(), ends)


@pytest.mark.parametrize(
    ("listing", "verdict"),
    [
        ("PUBLICKEY=\t1741944413\n", Verdict.OK),
        ("PUBLICKEY=\t0\n", Verdict.VOID),
        ("", Verdict.VOID),
    ],
)
def test_wireguard_is_proven_by_a_handshake(listing: str, verdict: Verdict, tmp_path: Path) -> None:
    (check,) = wireguard_go(make_ends(tmp_path, lambda _: listing)).negotiated()
    assert check.verdict is verdict


@pytest.mark.parametrize(
    ("listing", "verdict"),
    [
        (sample("boringtun-0.7.1/transfer.txt"), Verdict.OK),
        ("PUBLICKEY=\t0\t148\n", Verdict.VOID),
        ("", Verdict.VOID),
    ],
)
def test_boringtun_is_proven_by_what_it_has_unsealed(listing: str, verdict: Verdict, tmp_path: Path) -> None:
    (check,) = BoringTun(Options(), make_ends(tmp_path, lambda _: listing)).negotiated()
    assert check.verdict is verdict


def test_boringtun_where_it_is_missing_is_named_with_the_command_that_builds_it(tmp_path: Path) -> None:
    with pytest.raises(
        TunnelUnavailable, match=r"boringtun-cli is missing \(cargo install --locked --version 0\.7\.1 "
    ):
        create(TunnelSpec("boringtun", "boringtun"), make_ends(tmp_path))


def test_wireguard_device_names_are_unique_since_their_sockets_share_a_folder(tmp_path: Path) -> None:
    ends = make_ends(tmp_path)
    names = {wireguard_go(which).device_at(end) for which in (ends, replace(ends, mark="fedcba")) for end, _ in ends}
    assert len(names) == 4
    assert all(len(name) <= 15 for name in names), "the kernel takes 15 characters"


def test_the_socket_of_a_program_that_was_killed_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunnelbench.tunnel.wireguard.CONTROL_SOCKETS", tmp_path)
    with wireguard_go(make_ends(tmp_path / "ends")) as tunnel:
        sockets = [tmp_path / f"{tunnel.device_at(end)}.sock" for end, _ in tunnel.ends]
        for socket in sockets:
            socket.touch()
    assert not any(socket.exists() for socket in sockets)


@pytest.mark.parametrize(("asked", "lines"), [({}, 1), ({"is_frequent": True}, 0)])
def test_a_handshake_since_the_last_query_is_a_rekey(asked: dict[str, bool], lines: int, tmp_path: Path) -> None:
    times = iter(["KEY\t1741944413\n", "KEY\t1741944533\n"])
    tunnel = wireguard_go(make_ends(tmp_path, lambda _: next(times)))
    assert tunnel.rekeys_since(()) == []
    found = tunnel.rekeys_since((), **asked)
    assert found == ["handshake at 09:28:53 UTC"][:lines]


@pytest.mark.parametrize(("later_age_s", "lines"), [(8, 0), (9, 0), (1, 1), (0, 1)])
def test_boringtun_reports_the_age_of_its_handshake(
    later_age_s: int, lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ages = iter([3, later_age_s])
    clock = iter([1000.0, 1000.1, 1005.4, 1005.5])
    monkeypatch.setattr("tunnelbench.tunnel.wireguard.time.time", lambda: next(clock))
    tunnel = BoringTun(Options(), make_ends(tmp_path, lambda _: f"KEY\t{next(ages)}\n"))
    tunnel.rekeys_since(())
    assert tunnel.rekeys_since(()) == [f"handshake at 00:16:{45 - later_age_s} UTC"][:lines]


@pytest.mark.parametrize("seconds", [[0, 0, 60, 75], [0, 15, 60, 60]])
def test_a_slow_start_of_wg_is_no_handshake_of_boringtun(
    seconds: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = (1000.0 + each for each in seconds)
    ages = iter([3 + seconds[1], 63 + seconds[3] - seconds[2]])
    monkeypatch.setattr("tunnelbench.tunnel.wireguard.time.time", lambda: next(clock))
    tunnel = BoringTun(Options(), make_ends(tmp_path, lambda _: f"KEY\t{next(ages)}\n"))
    assert tunnel.rekeys_since(()) == tunnel.rekeys_since(()) == []


def test_private_keys_of_wireguard_are_deleted_and_never_kept_with_the_results(tmp_path: Path) -> None:
    def answer(argv: Any) -> str:
        return "SECRET" if "genkey" in argv else "PUBLIC" if "pubkey" in argv else ""

    with wireguard_go(make_ends(tmp_path, answer)) as tunnel:
        assert len(list(tmp_path.rglob("private.key"))) == 2
        assert "SECRET" not in "".join(tunnel.configuration.values())
        for end, _ in tunnel.ends:
            assert "SECRET" not in "".join(commands(end.host))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("kind", "inner_bytes", "counted_bytes"),
    # Seen on Linux 6.1: frames of 160 bytes for a packet of 128, and of 1294 for 1252.
    [("wireguard", 128, 160), ("wireguard", 1252, 1296), ("wireguard-go", 128, 142)],
)
def test_a_device_counts_what_was_seen(kind: str, inner_bytes: int, counted_bytes: int) -> None:
    assert make_tunnel(kind, {}).counted_bytes(inner_bytes) == counted_bytes


def test_wireguard_pads_to_16_bytes_but_never_beyond_its_mtu() -> None:
    tunnel = make_tunnel("wireguard-go", {"mtu": 1420})
    overhead = 60
    padded = {0: 0, 1: 16, 16: 16, 1408: 1408, 1409: 1420, 1420: 1420}
    assert {inner: tunnel.outer_packet_bytes(inner) - overhead for inner in padded} == padded
