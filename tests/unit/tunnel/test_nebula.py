"""nebula: its handshake as evidence, its configuration and its secrets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.output.samples import sample
from tests.unit.tunnel.cases import Captured, Ping, TunnelCase
from tests.unit.tunnel.fakes import FakeDaemon, FakeHost, commands, make_ends

from tunnelbench.host.command import Completed
from tunnelbench.model.result import Verdict
from tunnelbench.tunnel.base import Tunnel
from tunnelbench.tunnel.nebula import Nebula, Options


def handshake(name: str, tunnel: Tunnel[Any], ping: Ping) -> Captured:
    yield "without-handshake.log", tunnel.router_daemons[0].output()
    ping()
    yield "with-handshake.log", tunnel.router_daemons[0].output()


TUNNELS = (
    TunnelCase(
        "nebula",
        lengths=(({}, 299), ({"outside": "ipv6"}, 319)),
        seen=(({}, "udp port 4242, exact, hidden"),),
        refused=({"cipher": "none"}, {"mtu": 575}, {"inside": "ipv6"}),
        exact=({}, {"cipher": "chachapoly"}, {"outside": "ipv6"}),
        version_commands={"nebula": ("nebula", "-version")},
        samples={"default": {}},
        capture=handshake,
    ),
)

WITH, WITHOUT = (sample(f"nebula-1.6.1/{word}-handshake.log") for word in ("with", "without"))


class IssuingHost(FakeHost):
    """Writes what nebula-cert would."""

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 0, check: bool = True) -> Completed:
        if argv[0] == "nebula-cert":
            for option, text in (("-out-crt", "CERTIFICATE"), ("-out-key", "SECRET")):
                Path(argv[list(argv).index(option) + 1]).write_text(text)
        return super().run(argv, stdin=stdin, timeout_s=timeout_s, check=check)


def make_tunnel(folder: Path, **options: Any) -> Nebula:
    ends = make_ends(folder, lambda _: WITHOUT)
    ends.local.folder.mkdir(exist_ok=True)
    ends.local.__class__ = IssuingHost
    return Nebula(Options.model_validate(options), ends)


@pytest.mark.parametrize(("log", "verdict"), [(WITH, Verdict.OK), (WITHOUT, Verdict.VOID)])
def test_nebula_is_proven_by_a_handshake(log: str, verdict: Verdict, tmp_path: Path) -> None:
    tunnel = make_tunnel(tmp_path)
    tunnel.router_daemons = [FakeDaemon(log).as_daemon]
    (check,) = tunnel.negotiated()
    assert check.verdict is verdict


def test_each_end_knows_the_other_and_the_network_behind_it(tmp_path: Path) -> None:
    with make_tunnel(tmp_path, cipher="chachapoly", mtu=1280) as tunnel:
        config = json.loads(tunnel.configuration["router/nebula.yaml"])
    assert config["static_host_map"] == {"198.18.3.2": ["198.18.2.2:4242"]}
    assert config["tun"]["unsafe_routes"] == [{"route": "198.18.4.1/32", "via": "198.18.3.2", "metric": 100}]
    assert (config["cipher"], config["tun"]["mtu"]) == ("chachapoly", 1280)
    signed = [line for line in commands(tunnel.ends.local) if line.startswith("nebula-cert sign -name server ")]
    assert "-ip 198.18.3.2/24 -subnets 198.18.4.1/32" in signed[0]


def test_secrets_are_deleted_and_never_kept_with_the_results(tmp_path: Path) -> None:
    with make_tunnel(tmp_path) as tunnel:
        keys = list(tmp_path.rglob("*.key"))
        assert [key.stat().st_mode & 0o777 for key in keys] == [0o600, 0o600]
        assert "SECRET" not in "".join(tunnel.configuration.values())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_handshake_in_the_middle_of_a_trial_is_a_restart() -> None:
    assert any(sign in WITH for sign in Nebula.signs_of_restart)
    assert not any(sign in WITHOUT for sign in Nebula.signs_of_restart)
