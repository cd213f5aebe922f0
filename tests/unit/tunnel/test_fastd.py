"""fastd: its log as evidence, and its secrets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest
from tests.output.samples import samples
from tests.unit.tunnel.cases import IP_VERSIONS, TunnelCase
from tests.unit.tunnel.fakes import FakeDaemon, commands, make_ends

from tunnelbench.model.result import Verdict
from tunnelbench.tunnel.fastd import Fastd, Method, Options, parse_method
from tunnelbench.tunnel.versions import library_version

METHODS = ("null", "null@l2tp", "salsa2012+umac", "aes128-gcm", "null+aes128-gmac")

TUNNELS = (
    TunnelCase(
        "fastd",
        lengths=(
            ({"method": "null"}, 268),
            ({"method": "null@l2tp"}, 275),
            ({"method": "null+aes128-gmac"}, 291),
            ({"method": "salsa2012+umac"}, 291),
            ({"method": "null", "mode": "tap"}, 282),
            ({"method": "null@l2tp", "mode": "tap"}, 289),
            ({"method": "salsa20+umac", "mode": "tap"}, 305),
            ({"method": "null", "outside": "ipv6"}, 288),
        ),
        seen=(
            ({}, "udp port 10000, exact, hidden"),
            ({"method": "null@l2tp"}, "udp port 10000, exact, readable"),
            ({"method": "null+aes128-gmac"}, "udp port 10000, exact, readable"),
        ),
        refused=({"method": "xsalsa20-poly1305"}, {"mode": "multitap"}, {"mtu": 1239}),
        exact=(
            {"method": "null"},
            {"method": "null@l2tp", "mode": "tap"},
            {"method": "null+aes128-gmac"},
            {"method": "salsa20+poly1305"},
            *IP_VERSIONS,
        ),
        measured=({"method": "salsa2012+umac"},),
        version_commands={"fastd": ("fastd", "--version")},
        samples={method: {"method": method} for method in METHODS},
    ),
)

LOGS = samples("fastd-*/*.log")


@pytest.mark.parametrize("name", LOGS)
def test_the_method_is_read_from_the_log(name: str) -> None:
    assert parse_method(LOGS[name]) == Path(name).stem


def test_a_log_without_a_session_has_no_method() -> None:
    assert parse_method("Info: fastd v22 starting") == "unknown"


@pytest.mark.parametrize(("asked", "verdict"), [("null", Verdict.OK), ("salsa2012+umac", Verdict.VOID)])
def test_a_session_by_another_method_than_asked_for_is_no_proof(asked: str, verdict: Verdict, tmp_path: Path) -> None:
    tunnel = Fastd(Options.model_validate({"method": asked}), make_ends(tmp_path))
    tunnel.router_daemons = [FakeDaemon(LOGS["fastd-22/null.log"]).as_daemon]
    (check,) = tunnel.negotiated()
    assert check.verdict is verdict


def test_each_method_is_named_once_and_only_those_without_a_cipher_are_readable(tmp_path: Path) -> None:
    methods = get_args(Method)
    assert len(set(methods)) == len(methods)
    hidden = {
        method: Fastd(Options.model_validate({"method": method}), make_ends(tmp_path)).hides_payload
        for method in methods
    }
    assert {method for method, is_hidden in hidden.items() if not is_hidden} == {
        method for method in methods if method.split("+")[0].split("@")[0] == "null"
    }


@pytest.mark.parametrize(
    "line",
    [
        "Info: connection with <server> disestablished.",
        "Verbose: resetting peer <server>",
        "Verbose: active session with <server> timed out",
    ],
)
def test_a_session_that_was_lost_is_a_restart(line: str) -> None:
    assert any(sign in line for sign in Fastd.signs_of_restart)


@pytest.mark.parametrize("log", LOGS.values())
def test_a_session_that_comes_up_is_none(log: str) -> None:
    assert not any(sign in log for sign in Fastd.signs_of_restart)


@pytest.mark.parametrize("log", LOGS.values())
def test_a_refreshed_session_is_a_rekey(log: str) -> None:
    """fastd reports a session with new keys by the same line as the first one."""
    assert sum(sign in line for line in log.splitlines() for sign in Fastd.signs_of_rekey) == 1


def test_secrets_are_deleted_and_never_kept_with_the_results(tmp_path: Path) -> None:
    def answer(argv: Sequence[str]) -> str:
        return "SECRET" if "--generate-key" in argv else "PUBLIC" if "--show-key" in argv else LOGS["fastd-22/null.log"]

    with Fastd(Options(method="null"), make_ends(tmp_path, answer)) as tunnel:
        keys = list(tmp_path.rglob("fastd.key"))
        assert [key.stat().st_mode & 0o777 for key in keys] == [0o600, 0o600]
        kept = "".join(tunnel.configuration.values())
        assert "PUBLIC" in kept
        for host in (tunnel.ends.local, tunnel.ends.router.host, tunnel.ends.server.host):
            assert "SECRET" not in kept + "".join(commands(host))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_librarys_version_is_that_in_the_name_of_its_file(tmp_path: Path) -> None:
    answers = {
        "which": "/usr/bin/fastd\n",
        "ldd": "\tlibsodium.so.23 => /lib/libsodium.so.23 (0x0000)\n",
        "readlink": "/usr/lib/libsodium.so.23.3.0\n",
    }
    host = make_ends(tmp_path, lambda argv: answers[argv[0]]).router.host
    assert library_version(host, "fastd", "libsodium") == "23.3.0"
    assert library_version(host, "fastd", "libgone") == "unknown"
