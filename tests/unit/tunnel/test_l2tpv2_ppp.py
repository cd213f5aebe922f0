"""PPP over L2TPv2: the kernel's session as evidence, pppd's echoes, and the configuration of both programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.output.samples import sample, samples
from tests.unit.tunnel.cases import TunnelCase
from tests.unit.tunnel.fakes import commands, make_ends

from tunnelbench.model.errors import TunnelRefused
from tunnelbench.model.result import Verdict
from tunnelbench.tunnel import l2tpv2_ppp
from tunnelbench.tunnel.l2tpv2_ppp import L2tpV2Ppp, Options, parse_echoes, parse_session

TUNNELS = (
    TunnelCase(
        "l2tpv2-ppp",
        lengths=(({}, 277),),
        seen=(({}, "udp port 1701, exact, readable"),),
        refused=({"mtu": 575}, {"echo_interval_s": 0}, {"echo_failure": 0}),
        needs_kernel=True,
    ),
)

SESSIONS = samples("linux-*/proc-net-pppol2tp-*.txt")
PPPD = samples("ppp-*/router-*.log")
HEADER = sample("linux-6.1/proc-net-pppol2tp-default.txt").partition("TUNNEL 1")[0]
UP = "xl2tpd: Listening on IP address 198.18.2.2, port 1701"


def make_tunnel(folder: Path, session: str = "", **options: Any) -> L2tpV2Ppp:
    def answer(argv: Sequence[str]) -> str:
        return session if argv[0] == "cat" else UP

    return L2tpV2Ppp(Options.model_validate(options), make_ends(folder, answer))


def come_up(monkeypatch: pytest.MonkeyPatch, tunnel: L2tpV2Ppp) -> L2tpV2Ppp:
    """Nobody writes pppd's log here, so nobody waits for it."""
    monkeypatch.setattr(tunnel, "_await_call", lambda _: None)
    return tunnel


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_whose_packets_the_kernel_carries_is_proven(name: str, tmp_path: Path) -> None:
    sent, received = parse_session(SESSIONS[name], "ppp0")
    assert sent > 10
    assert received > 10
    checks = make_tunnel(tmp_path, SESSIONS[name]).negotiated()
    assert [check.verdict for check in checks] == [Verdict.OK, Verdict.OK]


@pytest.mark.parametrize("session", ["", HEADER, SESSIONS["linux-6.1/proc-net-pppol2tp-default.txt"] + "x"])
def test_data_that_xl2tpd_carries_itself_is_no_proof(session: str, tmp_path: Path) -> None:
    checks = make_tunnel(tmp_path, session.replace("interface ppp0", "interface ppp7")).negotiated()
    assert [check.verdict for check in checks] == [Verdict.VOID, Verdict.VOID]


@pytest.mark.parametrize("log", PPPD.values())
def test_echoes_are_read_from_the_log(log: str) -> None:
    asked = parse_echoes(log)
    assert asked
    assert all(asked)


def test_an_echo_without_an_answer_is_lost_unless_it_is_the_last() -> None:
    log = "sent [LCP EchoReq id=0x1 magic=0x2]\nrcvd [LCP EchoRep id=0x1 magic=0x3]\n"
    log += "sent [LCP EchoReq id=0x2 magic=0x2]\n"
    assert parse_echoes(log) == (True,)
    assert parse_echoes(log + "sent [LCP EchoReq id=0x3 magic=0x2]\n") == (True, False)
    assert parse_echoes("") == ()


def test_a_number_that_comes_again_is_another_echo() -> None:
    log = "sent [LCP EchoReq id=0x1 magic=0x2]\nrcvd [LCP EchoRep id=0x1 magic=0x3]\n"
    log += "sent [LCP EchoReq id=0x1 magic=0x2]\nsent [LCP EchoReq id=0x2 magic=0x2]\n"
    assert parse_echoes(log) == (True, False)


def test_pppd_compresses_nothing_and_only_the_router_asks_for_echoes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with come_up(monkeypatch, make_tunnel(tmp_path)) as tunnel:
        router = tunnel.configuration["router/run/ppp/options"].splitlines()
        server = tunnel.configuration["server/run/ppp/options"].splitlines()
    assert {"noccp", "novj", "nopcomp", "noaccomp", "mtu 1462", "lcp-echo-interval 1"} <= set(router)
    assert not [line for line in server if line.startswith("lcp-echo")]
    assert "198.18.3.1:198.18.3.2" in router
    assert "198.18.3.2:198.18.3.1" in server


def test_the_machines_own_folders_are_hidden_from_both_programs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with come_up(monkeypatch, make_tunnel(tmp_path)) as tunnel:
        for end, _ in tunnel.ends:
            ran = commands(end.host)
            enter = "nsenter --mount=/proc/0/ns/mnt --root=/proc/0/root mount --bind"
            assert f"{enter} {tmp_path}/{end.host.name}/run /run" in ran
            assert f"{enter} /run/ppp /etc/ppp" in ran
            assert not [line for line in ran if "devtmpfs" in line]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_dev_folder_without_ppp_gives_way_to_the_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tunnel = come_up(monkeypatch, make_tunnel(tmp_path))
    monkeypatch.setattr(tunnel.ends.router.host, "has_path", lambda _: False)
    with tunnel:
        mount = "nsenter --mount=/proc/0/ns/mnt --root=/proc/0/root mount -t devtmpfs devtmpfs /dev"
        assert mount in commands(tunnel.ends.router.host)
        assert mount not in commands(tunnel.ends.server.host)


def test_a_call_that_does_not_come_about_is_refused_with_the_last_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(l2tpv2_ppp, "CALL_LIMIT_S", 0.05)
    with pytest.raises(TunnelRefused, match=r"l2tpv2-ppp: no call in 0\.05 s; last on the router: xl2tpd: Listening"):
        make_tunnel(tmp_path).__enter__()


LOST = ("child_handler : pppd exited for call 21504 with code 15", "pppd terminated for call 21504 by signal 9")


@pytest.mark.parametrize("line", [*LOST, "Maximum retries exceeded for tunnel 56893.  Closing."])
def test_a_session_that_is_lost_is_a_restart(line: str) -> None:
    assert any(sign in line for sign in L2tpV2Ppp.signs_of_restart)


@pytest.mark.parametrize(("said", "died"), [("", False), *((line, True) for line in LOST)])
def test_a_tunnel_whose_pppd_has_ended_is_dead_though_xl2tpd_lives(
    said: str, died: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = sample("xl2tpd-1.3.18/router-default.log") + said
    tunnel = L2tpV2Ppp(Options(), make_ends(tmp_path, lambda _: log))
    with come_up(monkeypatch, tunnel):
        assert tunnel.has_died is died


def test_both_ends_listen_on_their_own_address_and_challenge_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        with come_up(monkeypatch, make_tunnel(tmp_path / folder)) as tunnel:
            for end, _ in tunnel.ends:
                text = tunnel.configuration[f"{end.host.name}/run/xl2tpd.conf"]
                assert f"listen-addr = {end.wan_address}\n" in text
                assert "challenge = yes\n" in text
            (words,) = {path.read_text() for path in (tmp_path / folder).rglob("l2tp-secrets")}
            assert not any(words.split()[-1] in text for text in tunnel.configuration.values())
            found.append(words)
    assert found[0] != found[1]
    assert found[0].startswith("* * ")
