"""n2n: who knows whom, its configuration, its secret, and the versions that it is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.output.samples import sample
from tests.unit.tunnel.cases import Captured, Ping, TunnelCase
from tests.unit.tunnel.fakes import FakeDaemon, commands, make_ends

from tunnelbench.model.errors import TunnelUnavailable
from tunnelbench.model.result import Verdict
from tunnelbench.tunnel import n2n
from tunnelbench.tunnel.base import Tunnel
from tunnelbench.tunnel.n2n import N2n, Options


def alone_and_direct(name: str, tunnel: Tunnel[Any], ping: Ping) -> Captured:
    yield "alone.log", tunnel.router_daemons[0].output()
    ping()
    tunnel.settle()
    yield "direct.log", tunnel.router_daemons[0].output()


TUNNELS = (
    TunnelCase(
        "n2n",
        lengths=(({}, 370),),
        seen=(({}, "udp port 7655, exact, hidden"),),
        refused=({"mtu": 1501}, {"cipher": "none"}),
        exact=({"mtu": 1364},),
        version_commands={"n2n": ("edge", "-h")},
        samples={"default": {}},
        capture=alone_and_direct,
    ),
)

ALONE, DIRECT, VERSION = (sample(f"n2n-1.3.2/{name}") for name in ("alone.log", "direct.log", "version.txt"))


def make_tunnel(folder: Path, version: str = VERSION) -> N2n:
    def answer(argv: Sequence[str]) -> str:
        return version if argv == ["edge", "-h"] else ALONE if argv[0] == "edge" else "Supernode ready"

    return N2n(Options(), make_ends(folder, answer))


@pytest.mark.parametrize(("log", "verdict"), [(DIRECT, Verdict.OK), (ALONE, Verdict.VOID)])
def test_edges_that_meet_only_at_the_supernode_are_no_proof(
    log: str, verdict: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(n2n, "SETTLE_LIMIT_S", 0.1)
    tunnel = make_tunnel(tmp_path)
    tunnel.router_daemons = [FakeDaemon(DIRECT, "edge").as_daemon]
    tunnel.server_daemons = [FakeDaemon("", "supernode").as_daemon, FakeDaemon(log, "edge").as_daemon]
    tunnel.settle()
    (check,) = tunnel.negotiated()
    assert check.verdict is verdict


def test_an_edge_that_looks_for_the_other_again_in_mid_trial_has_begun_anew() -> None:
    later = DIRECT.removeprefix(ALONE)
    assert any(sign in later for sign in N2n.signs_of_restart)
    assert not any(sign in ALONE for sign in N2n.signs_of_restart)


def test_both_edges_go_to_the_servers_supernode_from_ports_of_their_own(tmp_path: Path) -> None:
    with make_tunnel(tmp_path) as tunnel:
        router, server = (tunnel.configuration[f"{name}/n2n.conf"].splitlines() for name in ("router", "server"))
        assert tunnel.versions(tunnel.ends.router) == {"n2n": "1.3.2"}
    assert {"-a 198.18.3.1", "-p 7656", "-l 198.18.2.2:7654"} <= set(router)
    assert {"-a 198.18.3.2", f"-p {tunnel.outer.port}", "-l 198.18.2.2:7654"} <= set(server)
    assert "supernode -l 7654" in commands(tunnel.ends.server.host)
    assert "supernode -l 7654" not in commands(tunnel.ends.router.host)


def test_the_key_is_one_for_both_ends_deleted_and_in_no_command(tmp_path: Path) -> None:
    with make_tunnel(tmp_path) as tunnel:
        (words,) = {path.read_text() for path in tmp_path.rglob("n2n.key")}
        community, key = (line.split(" ", 1)[1] for line in words.splitlines())
        assert (len(community), len(key)) == (14, 32)
        for host in (tunnel.ends.router.host, tunnel.ends.server.host):
            for secret in (community, key):
                assert secret not in "".join([*tunnel.configuration.values(), *commands(host)])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_community_and_key_are_new_for_each_tunnel(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        with make_tunnel(tmp_path):
            (words,) = {path.read_text() for path in tmp_path.rglob("n2n.key")}
            found += [line.split(" ", 1)[1] for line in words.splitlines()]
    assert len({*found}) == 4


def test_another_version_than_the_first_is_distinguished(tmp_path: Path) -> None:
    with pytest.raises(
        TunnelUnavailable, match=r"n2n on the router has version 3.1.1; TunnelBench supports version 1 only"
    ):
        make_tunnel(tmp_path, VERSION.replace("v.1.3.2", "v.3.1.1")).__enter__()


@pytest.mark.parametrize(("literal_bytes", "length_bytes"), [(142, 1), (144, 1), (253, 2), (642, 4), (1242, 6)])
def test_what_lzo_adds_to_a_frame_is_what_was_seen(literal_bytes: int, length_bytes: int) -> None:
    assert n2n.lzo_length_bytes(literal_bytes) == length_bytes
