"""Reading of a plan file into tunnels and trials."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pydantic import BaseModel

from tunnelbench.host.command import FILE_LIMIT_BYTES
from tunnelbench.model.errors import ExitCode, WrongInput
from tunnelbench.model.plan import LARGEST_RESULT_BYTES, Direction, Plan, TcpTraffic, TunnelSpec
from tunnelbench.plan import FileErrors, LoadedPlan, read_plan, shipped_plans
from tunnelbench.tunnel import PLANNED, option_schemas, plan_entries

Schemas = Mapping[str, type[BaseModel]]
Load = Callable[..., LoadedPlan]

TOO_SMALL = (
    "must be at least 76, not 10: the smallest MSS of Linux is 88, and the TCP timestamp option needs 12 bytes of it"
)


@pytest.fixture
def load(tmp_path: Path, schemas: Schemas, known_kinds: Mapping[str, str]) -> Load:
    def load(text: str, *overrides: str) -> LoadedPlan:
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return read_plan(str(path), schemas, overrides, known_kinds)

    return load


def test_a_plan_of_one_tunnel_has_the_baseline_and_all_defaults(load: Load) -> None:
    plan = load('[[tunnel]]\nkind = "vxlan"\n').plan
    assert plan == Plan(
        name="mine.toml",
        title="",
        tunnels=(TunnelSpec("none", "no tunnel", {}), TunnelSpec("vxlan", "vxlan", {})),
        tcp=TcpTraffic(),
        rounds=3,
    )


@pytest.mark.parametrize("file", ["quick", "quick.toml"])
def test_a_file_has_never_the_name_of_a_shipped_plan(tmp_path: Path, schemas: Schemas, file: str) -> None:
    (tmp_path / file).write_text('[[tunnel]]\nkind = "vxlan"\n')
    assert read_plan(f"{tmp_path}/{file}", schemas).plan.name not in shipped_plans()


def test_every_key_of_a_plan_is_taken(load: Load) -> None:
    plan = load(
        """
        title = "all keys"
        rounds = 7
        [tcp]
        payload_bytes = [8948, 76]
        direction = "out"
        duration_s = 86400
        interval_s = 60
        streams = 128
        congestion_control = "bbr"
        [[tunnel]]
        kind = "none"
        """
    ).plan
    assert (plan.title, plan.rounds) == ("all keys", 7)
    assert plan.tcp == TcpTraffic((8948, 76), (Direction.OUT,), 86400, 60.0, 128, "bbr")


@pytest.mark.parametrize(
    "keys",
    [
        "duration_s = 86400",
        "duration_s = 86400\nstreams = 2\ninterval_s = 2",
        "duration_s = 86400\nstreams = 128\ninterval_s = 60",
        "duration_s = 22\nstreams = 16\ninterval_s = 0.1",
    ],
)
def test_the_readings_of_a_trial_of_a_day_are_held(keys: str, load: Load) -> None:
    tcp = load(f'[tcp]\n{keys}\n[[tunnel]]\nkind = "vxlan"\n').plan.tcp
    assert tcp is not None
    assert tcp.result_bytes <= LARGEST_RESULT_BYTES < FILE_LIMIT_BYTES


def test_the_baseline_comes_first_wherever_the_file_has_it(load: Load) -> None:
    plan = load('[[tunnel]]\nkind = "vxlan"\n[[tunnel]]\nkind = "none"\nname = "no tunnel"\n').plan
    assert [tunnel.name for tunnel in plan.tunnels] == ["no tunnel", "vxlan"]


def test_lists_of_options_expand_with_the_first_of_the_file_outermost(load: Load) -> None:
    plan = load('[[tunnel]]\nkind = "openvpn"\nauth = ["SHA1", "none"]\ncipher = ["BF-CBC", "none"]\n').plan
    assert [(tunnel.options["auth"], tunnel.options["cipher"]) for tunnel in plan.tunnels[1:]] == [
        ("SHA1", "BF-CBC"),
        ("SHA1", "none"),
        ("none", "BF-CBC"),
        ("none", "none"),
    ]


def test_options_include_the_schemas_defaults_and_leave_out_unset_ones(load: Load) -> None:
    tunnel = load('[[tunnel]]\nkind = "openvpn"\ntransport = "tcp"\n').plan.tunnels[1]
    assert tunnel.options == {
        "mode": "tls",
        "transport": "tcp",
        "cipher": "AES-256-GCM",
        "auth": "SHA256",
        "tun_mtu": 1500,
        "compress": False,
    }
    assert all(type(value) in (str, int, bool) for value in tunnel.options.values())


def test_a_tunnel_without_a_name_is_named_by_what_differs_and_what_is_varied(load: Load) -> None:
    plan = load(
        """
        [[tunnel]]
        kind = "openvpn"
        transport = "udp"
        auth = "SHA1"
        cipher = ["AES-256-GCM", "BF-CBC"]
        compress = true
        """
    ).plan
    assert [tunnel.name for tunnel in plan.tunnels[1:]] == [
        "openvpn auth=SHA1 cipher=AES-256-GCM compress=true",
        "openvpn auth=SHA1 cipher=BF-CBC compress=true",
    ]


def test_a_name_is_filled_with_options_given_or_not(load: Load) -> None:
    plan = load(
        '[[tunnel]]\nkind = "openvpn"\nname = "{mode} {cipher} {compress} {mssfix}"\ncipher = ["BF-CBC", "none"]\n'
    ).plan
    assert [tunnel.name for tunnel in plan.tunnels[1:]] == ["tls BF-CBC false default", "tls none false default"]


def test_a_brace_by_itself_stays_in_a_name(load: Load) -> None:
    assert load('[[tunnel]]\nkind = "vxlan"\nname = "a } b {"\n').plan.tunnels[1].name == "a } b {"


def test_a_kind_without_an_adapter_keeps_its_options_as_given(load: Load) -> None:
    plan = load('[[tunnel]]\nkind = "gre"\nname = "GRE {ttl}"\nttl = [64, 255]\ncsum = true\n').plan
    assert plan.tunnels[1:] == (
        TunnelSpec("gre", "GRE 64", {"ttl": 64, "csum": True}),
        TunnelSpec("gre", "GRE 255", {"ttl": 255, "csum": True}),
    )


def test_combinations_are_checked_one_by_one_and_reported_once(load: Load, tmp_path: Path) -> None:
    with pytest.raises(FileErrors) as caught:
        load(
            '[[tunnel]]\nkind = "openvpn"\nmode = ["tls", "static-key"]\n'
            'cipher = ["AES-128-GCM", "AES-256-GCM", "BF-CBC"]\n'
        )
    assert caught.value.message == f'{tmp_path}/mine.toml:1:3: tunnel[1]: mode "static-key" takes no GCM cipher'


def test_a_combination_is_not_blamed_for_an_option_that_is_at_fault_by_itself(load: Load) -> None:
    with pytest.raises(FileErrors) as caught:
        load('[[tunnel]]\nkind = "openvpn"\nmode = "static-key"\ncipher = []\n')
    assert [error.message for error in caught.value.errors] == ["must have at least 1 value"]


def test_values_that_only_python_takes_for_equal_are_different(load: Load) -> None:
    plan = load('[[tunnel]]\nkind = "gre"\nkey = [1, 1.0, true]\n').plan
    assert [tunnel.name for tunnel in plan.tunnels[1:]] == ["gre key=1", "gre key=1.0", "gre key=true"]


def test_rounds_are_outermost_and_the_baseline_runs_in_each(load: Load) -> None:
    plan = load(
        'rounds = 2\n[tcp]\npayload_bytes = [1448, 76]\n[[tunnel]]\nkind = "vxlan"\n[[tunnel]]\nkind = "tinc"\n'
    ).plan
    trials = plan.trials()
    assert [trial.sequence for trial in trials] == list(range(1, 25))
    a_round = [
        (name, payload, direction)
        for name in ("no tunnel", "vxlan", "tinc")
        for payload in (1448, 76)
        for direction in ("in", "out")
    ]
    assert [(t.round, t.tunnel.name, t.payload_bytes, t.direction) for t in trials] == [
        (round_number, *trial) for round_number in (1, 2) for trial in a_round
    ]


def test_the_most_trials_that_are_allowed_are_read(load: Load) -> None:
    values = ", ".join(str(number) for number in range(24))
    text = f'rounds = 1000\n[[tunnel]]\nkind = "gre"\nkey = [{values}]\n'
    assert len(load(text).plan.trials()) == 100_000
    with pytest.raises(FileErrors, match="the plan has 104000 trials, more than 100000"):
        load(text.replace("23]", "23, 24]"))


def test_a_product_that_no_machine_could_hold_is_refused_before_it_is_made(load: Load) -> None:
    options = "".join(f"o{number} = [1, 2]\n" for number in range(20_000))
    with pytest.raises(FileErrors, match="more than a million million trials"):
        load(f'[[tunnel]]\nkind = "gre"\n{options}')


def test_without_overrides_the_text_is_that_of_the_file(load: Load) -> None:
    text = '# why\n[[tunnel]]\nkind = "vxlan" # what\n'
    assert load(text).text == text


def test_overrides_are_in_the_plan_and_in_its_text(load: Load, schemas: Schemas, tmp_path: Path) -> None:
    text = 'rounds = 3\n[tcp]\nduration_s = 60\n[[tunnel]]\nkind = "tinc"\ncipher = ["none", "aes-128-cbc"]\n'
    loaded = load(text, "tcp.duration_s=2", "rounds=9", "tcp.direction=out", "tcp.payload_bytes = [1448]", "rounds=1")
    assert loaded.plan.rounds == 1
    assert loaded.plan.tcp == TcpTraffic((1448,), (Direction.OUT,), 2)
    assert load(loaded.text).plan == loaded.plan
    assert tomllib.loads(loaded.text)["tunnel"] == tomllib.loads(text)["tunnel"]


def test_an_override_makes_a_table_that_the_file_lacks(load: Load) -> None:
    tcp = load('[[tunnel]]\nkind = "vxlan"\n', "tcp.streams=4").plan.tcp
    assert tcp is not None
    assert tcp.streams == 4


def test_faults_of_flags_name_the_flag_and_come_after_those_of_the_file(load: Load, tmp_path: Path) -> None:
    with pytest.raises(FileErrors) as caught:
        load(
            'rounds = 3\n[tcp]\npayload_bytes = [1448, 76]\nstreams = 0\n[[tunnel]]\nkind = "vxlan"\n',
            "tcp.duraton_s=2",
            "tcp.payload_bytes=[1448, 10]",
            "rounds=x",
            "tcp.duration_s.unit=2",
            "title.text=2",
            "tcp",
            "tcp.direction=[in",
            "tunnel[1].kind=gre",
            "tcp..x=1",
            "tcp.congestion_control=\x1b[31m",
        )
    assert caught.value.message.splitlines() == [
        f"{tmp_path}/mine.toml:4:1: tcp.streams: must be at least 1, not 0",
        "--set tcp: is written --set key=value, such as --set tcp.duration_s=2",
        '--set tcp.direction=[in: "[in" is not a TOML value: quotes or brackets are not closed',
        "--set tunnel[1].kind=gre: tunnels are changed in the plan file, not by --set",
        '--set tcp..x=1: "tcp..x" is not a key; write it as tcp.duration_s',
        r"--set tcp.congestion_control=\x1b[31m: the value holds a character that cannot be printed",
        "--set title.text=2: must be a string, not a table",
        '--set rounds=x: must be a whole number, not the string "x"',
        f"--set tcp.payload_bytes=[1448, 10]: {TOO_SMALL}",
        "--set tcp.duration_s.unit=2: must be a whole number, not a table",
        "--set tcp.duraton_s=2: unknown key; did you mean tcp.duration_s?",
    ]


def test_an_override_below_a_value_is_refused(load: Load) -> None:
    with pytest.raises(FileErrors, match=r"^--set rounds.x=1: rounds is not a table$"):
        load('rounds = 3\n[[tunnel]]\nkind = "vxlan"\n', "rounds.x=1")


def test_a_testbed_is_no_plan(load: Load) -> None:
    with pytest.raises(FileErrors, match=r"mine.toml:1:1: file: is a testbed; a plan has \[\[tunnel\]\] blocks"):
        load('kind = "netns"\n')


def test_a_plan_without_tunnels_is_refused(load: Load) -> None:
    with pytest.raises(FileErrors, match=r"mine.toml:1:1: tunnel: a plan has at least one \[\[tunnel\]\]"):
        load("rounds = 3\n")


def test_wrong_files_are_wrong_input(load: Load) -> None:
    with pytest.raises(WrongInput) as caught:
        load("rounds = ")
    assert caught.value.exit_code is ExitCode.WRONG_INPUT
    assert isinstance(caught.value, FileErrors)
    assert [(error.line, error.column, error.key) for error in caught.value.errors] == [(1, 10, "TOML")]


def test_a_name_that_is_not_shipped_gets_the_nearest_one(schemas: Schemas) -> None:
    with pytest.raises(WrongInput, match=r'^no plan "quik" is shipped; did you mean quick') as caught:
        read_plan("quik", schemas)
    assert (
        "Shipped are all, clients, connections, cost, family, firewall, gateways, handshake, instructions, lines, mtu, "
        "quick, rekey, rekey-clients, smp, soak, udp, userspace, wr841n" in caught.value.hint
    )


@pytest.mark.parametrize("reference", ["../plans/quick", "quick.toml", ""])
def test_a_path_is_never_looked_up_among_the_shipped(reference: str, schemas: Schemas) -> None:
    with pytest.raises(WrongInput):
        read_plan(reference, schemas)


def test_the_quick_plan_is_short_and_has_nine_tunnels(schemas: Schemas) -> None:
    plan = read_plan("quick", schemas).plan
    assert [tunnel.name for tunnel in plan.tunnels] == [
        "no tunnel",
        "VXLAN",
        "wireguard",
        "wireguard-go",
        "tinc AES-128-CBC, SHA-1",
        "OpenVPN AES-128-GCM",
        "OpenVPN AES-128-CBC, SHA-1",
        "OpenVPN no cipher, SHA-1",
        "OpenVPN no cipher, no auth",
    ]
    assert plan.tcp is not None
    assert len(plan.trials()) * plan.tcp.duration_s < 220


def test_the_wr841n_plan_has_the_48_rows_in_the_order_of_the_table(
    schemas: Schemas, known_kinds: Mapping[str, str]
) -> None:
    plan = read_plan("wr841n", schemas, (), known_kinds).plan
    rows = [
        (tunnel.kind, tunnel.options.get("cipher"), tunnel.options.get("digest", tunnel.options.get("auth")))
        for tunnel in plan.tunnels
    ]
    assert rows == [
        ("none", None, None),
        ("gre", None, None),
        ("ipip", None, None),
        ("l2tpv2-ppp", None, None),
        ("tinc", "bf-cbc", "sha1"),
        ("openvpn", "BF-CBC", "SHA1"),
        ("tinc", "none", "sha1"),
        ("openvpn", "none", "SHA1"),
        ("tinc", "bf-cbc", "none"),
        ("openvpn", "BF-CBC", "none"),
        ("tinc", "none", "none"),
        ("openvpn", "none", "none"),
    ]
    assert plan.tcp == TcpTraffic(duration_s=10)
    assert len(plan.trials()) == 48 * plan.rounds
    assert plan.rounds >= 3


def test_every_shipped_plan_loads() -> None:
    assert shipped_plans() == [
        "all",
        "clients",
        "connections",
        "cost",
        "family",
        "firewall",
        "gateways",
        "handshake",
        "instructions",
        "lines",
        "mtu",
        "quick",
        "rekey",
        "rekey-clients",
        "smp",
        "soak",
        "udp",
        "userspace",
        "wr841n",
    ]
    for name in shipped_plans():
        loaded = read_plan(name, option_schemas(), (), PLANNED, plan_entries())
        assert loaded.plan.name == name
        assert loaded.plan.title
        assert all(tunnel.name.isprintable() for tunnel in loaded.plan.tunnels)


def test_ciphers_are_measured_only_where_the_plan_says_so(schemas: Schemas, tmp_path: Path) -> None:
    assert read_plan("quick", schemas).plan.cipher_speed_s is None
    assert read_plan("quick", schemas, ["cipher_speed.seconds=3"]).plan.cipher_speed_s == 3
    path = tmp_path / "plan.toml"
    path.write_text('[cipher_speed]\n[[tunnel]]\nkind = "vxlan"\n')
    assert read_plan(str(path), schemas).plan.cipher_speed_s == 1
