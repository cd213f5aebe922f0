"""Testbed files, and which file a `--set` belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import BaseModel

from tunnelbench.model.errors import WrongInput
from tunnelbench.model.testbed import HostAccess, LabgridPlace, Link, Port, RouterSpec, TestbedSpec, TesterSpec
from tunnelbench.plan import FileErrors, check_file, override_target, read_testbed, shipped_testbeds, stored_testbed
from tunnelbench.qemu.boards import BOARDS
from tunnelbench.testbed import KINDS, refused_in_plans


def test_a_testbed_of_a_kind_alone_has_all_defaults(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('kind = "netns"\n')
    assert read_testbed(str(path), KINDS).testbed == TestbedSpec("mine.toml", "netns")


def test_every_key_of_a_testbed_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'kind = "netns"\ntitle = "all keys"\nrouter_cpu = 0\nquiet_wait_s = 0\n'
        "[link]\nrate_out_mbps = 0.1\nrate_in_mbps = 100\ndelay_ms = 2.5\nmtu_bytes = 9000\n"
    )
    loaded = read_testbed(str(path), KINDS)
    link = Link(rate_out_mbps=0.1, rate_in_mbps=100.0, delay_ms=2.5, mtu_bytes=9000, has_mtu=True)
    assert loaded.testbed == TestbedSpec("mine.toml", "netns", "all keys", link, router_cpu=0, quiet_wait_s=0)
    assert loaded.text == path.read_text()


def test_a_testbed_without_a_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("router_cpu = 1\n")
    with pytest.raises(FileErrors, match=r"mine.toml:1:1: kind: is missing$"):
        read_testbed(str(path), KINDS)


def test_a_plan_is_no_testbed(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[[tunnel]]\nkind = "vxlan"\n')
    with pytest.raises(
        FileErrors, match=r"mine.toml:1:3: tunnel: this is a plan; a testbed has a kind and no tunnels$"
    ):
        read_testbed(str(path), KINDS)


def test_overrides_are_in_the_testbed_and_in_its_text(tmp_path: Path) -> None:
    loaded = read_testbed("netns", KINDS, ["link.rate_in_mbps=100", "router_cpu=0"])
    assert loaded.testbed.link == Link(rate_in_mbps=100.0)
    assert loaded.testbed.router_cpu == 0
    path = tmp_path / "netns.toml"
    path.write_text(loaded.text)
    assert read_testbed(str(path), KINDS).testbed == replace(loaded.testbed, name="netns.toml")


def test_a_fault_of_a_flag_names_the_flag() -> None:
    with pytest.raises(FileErrors, match=r"^--set link.rat_in_mbps=1: unknown key; did you mean link.rate_in_mbps\?$"):
        read_testbed("netns", KINDS, ["link.rat_in_mbps=1"])


def test_every_shipped_testbed_loads() -> None:
    virtual = ["malta", "pc-x86-64", "pc-x86-64-no-aes", "virt-arm64", "virt-armhf"]
    warriors = ["malta-road-warrior", "netns-road-warrior"]
    of_namespaces = ["netns", "netns-100m", "netns-debian", "netns-gateways"]
    assert shipped_testbeds() == sorted([*virtual, *of_namespaces, *warriors])
    assert read_testbed("netns", KINDS).testbed.link == Link()
    assert read_testbed("netns-100m", KINDS).testbed.link == Link(rate_out_mbps=100.0, rate_in_mbps=100.0)
    assert read_testbed("netns-debian", KINDS).testbed.kernel == "debian"
    for name in virtual:
        testbed = read_testbed(name, KINDS).testbed
        assert (testbed.board, testbed.far_board, testbed.speed_mips) == (
            name,
            "x86-64",
            62.5 if name == "malta" else 125,
        )
    for name in warriors:
        assert read_testbed(name, KINDS).testbed.topology == "road-warrior"
    assert read_testbed("malta-road-warrior", KINDS).testbed.speed_mips == 62.5
    assert read_testbed("netns-gateways", KINDS).testbed.topology == "gateway-pair"
    for name in shipped_testbeds():
        assert read_testbed(name, KINDS).testbed.name == name


def test_a_name_that_is_not_shipped_gets_the_nearest_one() -> None:
    with pytest.raises(WrongInput, match=r'^no testbed "netsn" is shipped; did you mean netns'):
        read_testbed("netsn", KINDS)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("tcp.duration_s=2", "plan"),
        ("rounds=1", "plan"),
        ("title=x", "plan"),
        ("tcp.anything=x", "plan"),
        ("link.rate_in_mbps=100", "testbed"),
        ("link=x", "testbed"),
        ("router_cpu=1", "testbed"),
        ("quiet_wait_s=0", "testbed"),
        ("kind=netns", "testbed"),
    ],
)
def test_an_override_belongs_where_its_first_key_is_known(text: str, target: str) -> None:
    assert override_target(text) == target


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("duration_s=2", "unknown key; did you mean tcp.duration_s?"),
        ("lnik.rate_in_mbps=2", "unknown key; did you mean link?"),
        ("ruonds=2", "unknown key; did you mean rounds?"),
        (
            "zzz=2",
            (
                "unknown key; known are title, rounds, needs_gateway, tcp, udp, soak, clients, handshake, connections, "
                "cipher_speed, tunnel, kind, router_cpu, "
                "kernel, quiet_wait_s, topology, link, board, far_board, programs, far_programs, "
                "speed_mips, profile, simulation, router, gateway, client, server, place, coordinator, place_wait_s, "
                "power_after_s"
            ),
        ),
        ("rounds", "is written --set key=value, such as --set tcp.duration_s=2"),
    ],
)
def test_an_override_of_no_known_key_is_refused(text: str, message: str) -> None:
    with pytest.raises(FileErrors) as caught:
        override_target(text)
    assert caught.value.message == f"--set {text}: {message}"


@pytest.mark.parametrize("kernel", ["host", "debian", "/boot/vmlinuz-6.1.0-1-amd64"])
def test_a_testbed_names_its_kernel_by_a_word_or_a_path(kernel: str) -> None:
    testbed = read_testbed("netns", KINDS, [f"kernel={kernel}"]).testbed
    assert (testbed.kernel, testbed.needs_guest) == (kernel, kernel != "host")


@pytest.mark.parametrize("kernel", ["ubuntu", "vmlinuz", ""])
def test_another_word_for_a_kernel_is_refused_with_those_that_there_are(kernel: str) -> None:
    with pytest.raises(FileErrors, match='must be "host", "debian" or the path'):
        read_testbed("netns", KINDS, [f'kernel="{kernel}"'])


NETNS = 'kind = "netns"\n'
QEMU = 'kind = "qemu"\nboard = "malta"\n'
ROUTER = 'kind = "ssh"\n[router]\nhost = "root@192.168.1.1"\n'
PAIR = f'topology = "gateway-pair"\n{ROUTER}'


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (QEMU + 'far_board = "x68"', '3:1: far_board: "x68" is not one of {boards}'),
        ('kind = "qemu"\nboard = "molta"', '2:1: board: "molta" is not one of {boards}; did you mean malta?'),
        (
            QEMU + 'far_programs = "x"',
            '3:1: far_programs: is for the virtual machine of the key far_board, such as far_board = "x86-64"',
        ),
        *(
            (
                QEMU + f'far_board = "x86-64"\ntopology = "{topology}"',
                f'3:1: far_board: cannot be together with topology = "{topology}", whose tunnel ends on {end}',
            )
            for topology, end in (("road-warrior", "the client"), ("router-server", "the server"))
        ),
        (QEMU + "speed_mips = true", "3:1: speed_mips: must be a number, not true"),
        (
            QEMU + "speed_mips = 100",
            "3:1: speed_mips: must be 1000, or 1000 halved up to 10 times, not 100; the nearest is 125",
        ),
        (
            QEMU + "speed_mips = 0.1",
            "3:1: speed_mips: must be 1000, or 1000 halved up to 10 times, not 0.1; the nearest is 0.9765625",
        ),
    ],
)
def test_a_wrong_value_of_a_virtual_router_is_refused_at_its_key(text: str, error: str) -> None:
    with pytest.raises(FileErrors) as caught:
        read_text(text)
    assert f"mine:{error.replace('{boards}', ', '.join(BOARDS))}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('kind = "qemu"', '1:1: board: is missing; "qemu" testbeds need it, such as board = "malta"'),
        ('kind = "ssh"', '1:1: router: is missing; "ssh" testbeds need it, such as [router] with host'),
        (NETNS + 'board = "malta"', "2:1: board: {netns} this key, only {qemu}"),
        (NETNS + 'far_board = "x86-64"', "2:1: far_board: {netns} this key, only {qemu}"),
        (NETNS + 'programs = "x"', "2:1: programs: {netns} this key, only {qemu}"),
        (
            QEMU + "speed_mips = 100\nprofile = true",
            "3:1: speed_mips: must be 1000, or 1000 halved up to 10 times, not 100; the nearest is 125",
        ),
        (
            QEMU + 'far_board = "x86"\nfar_programs = "x"',
            '3:1: far_board: "x86" is not one of malta, ',
        ),
        (QEMU + "profile = true", "3:1: profile: needs a router of fixed speed, such as speed_mips = 125"),
        (NETNS + "speed_mips = 125", "2:1: speed_mips: {netns} this key, only {qemu}"),
        (NETNS + '[router]\nhost = "a"', "2:2: router: {netns} this key, only {ssh}"),
        (NETNS + '[server]\ndevice = "eth0"', "2:2: server: {netns} this key, only {ssh}"),
        (QEMU + 'kernel = "debian"', '3:1: kernel: {qemu-not} "debian", only {netns}'),
        (
            QEMU + 'topology = "gateway-pair"',
            '1:1: far_board: is missing; topology = "gateway-pair" needs it, such as far_board = "x86-64"',
        ),
        (QEMU + "[link]\nmtu_bytes = 9001", "4:1: link.mtu_bytes: must be at most 9000, not 9001"),
        (QEMU + "[link]\n\nrate_in_mbps = 10", "5:1: link.rate_in_mbps: {qemu-not} this key, only {netns-ssh}"),
        (ROUTER + "[link]\ndelay_ms = 3", "5:1: link.delay_ms: {ssh-not} this key, only {netns}"),
        ('topology = "gateway-pair"\n' + ROUTER, '1:1: gateway: is missing; topology = "gateway-pair" needs [gateway]'),
        (ROUTER + '[gateway]\nhost = "a"', '4:2: gateway: needs topology = "gateway-pair"'),
        (PAIR + '[gateway]\nwan_device = "wan"', "5:2: gateway.host: is missing"),
        (PAIR + '[gateway]\nhost = "local"', "6:1: gateway.host: is another machine: must be what ssh takes"),
        (
            PAIR + '[gateway]\nhost = "admin@192.168.1.1"\nport = 22',
            "6:1: gateway.host: is the machine of [router], and the gateway must be another machine",
        ),
        (QEMU + '[gateway]\nhost = "a"', "3:2: gateway: {qemu-not} this key, only {ssh}"),
        ('kernel = "debian"\n' + ROUTER, '1:1: kernel: {ssh-not} "debian", only {netns}'),
        (NETNS + 'place = "attic"', "2:1: place: {netns} this key, only {ssh}"),
        (
            'kind = "simulated"\n[link]\nmtu_bytes = 1500',
            '3:1: link.mtu_bytes: "simulated" testbeds do not support this key, only "netns", "qemu" and "ssh"',
        ),
        ("router_cpu = 1\n" + ROUTER, "1:1: router_cpu: {ssh-not} this key, only {netns-qemu}"),
    ],
)
def test_a_setting_that_a_kind_of_testbed_does_not_support_is_an_error(text: str, error: str) -> None:
    with pytest.raises(FileErrors) as caught:
        read_text(text)
    words = {
        "{netns} this": '"netns" testbeds do not support this',
        "{qemu-not}": '"qemu" testbeds do not support',
        "{ssh-not}": '"ssh" testbeds do not support',
        "{netns-ssh}": '"netns" and "ssh" testbeds do',
        "{netns-qemu}": '"netns" and "qemu" testbeds do',
        **{f"only {{{kind}}}": f'only "{kind}" testbeds do' for kind in KINDS},
    }
    for short, long in words.items():
        error = error.replace(short, long)
    assert str(caught.value).startswith(f"the stored testbed mine:{error}")
    assert len(caught.value.errors) == 1


@pytest.mark.parametrize("topology", ["", 'topology = "gateway-pair"\n'])
def test_a_virtual_far_end_makes_a_pair_of_gateways(topology: str) -> None:
    found = read_text(QEMU + topology + 'far_board = "x86-64"')
    assert (found.topology, found.far_board, found.has_gateway) == ("gateway-pair", "x86-64", True)


def test_values_that_every_kind_has_are_accepted_for_every_kind() -> None:
    same = 'kernel = "host"\ntopology = "router-server"\nquiet_wait_s = 3\ntitle = "mine"\n'
    for text in (NETNS, QEMU, ROUTER):
        assert read_text(same + text).quiet_wait_s == 3


@pytest.mark.parametrize(
    ("text", "is_refused"), [(NETNS, False), (NETNS + 'kernel = "debian"', True), (QEMU, True), (ROUTER, True)]
)
def test_a_soak_is_refused_at_its_table_if_the_testbed_cannot_run_it(
    tmp_path: Path, schemas: Mapping[str, type[BaseModel]], text: str, is_refused: bool
) -> None:
    path = tmp_path / "plan.toml"
    path.write_text('rounds = 1\n[soak]\nduration = "2 h"\nrate = 100\n[[tunnel]]\nkind = "vxlan"\n')
    found = check_file(str(path), schemas, KINDS, refused=refused_in_plans(read_text(text)))
    assert [(error.line, error.column, error.key) for error in found] == ([(2, 2, "soak")] if is_refused else [])
    assert all("cannot run on testbed mine: a" in error.message for error in found)


def read_text(text: str) -> TestbedSpec:
    return stored_testbed("mine", text, KINDS).testbed


def test_a_routers_file_may_leave_everything_but_its_host_to_be_found() -> None:
    testbed = read_text(ROUTER)
    assert testbed.router == RouterSpec(HostAccess("root@192.168.1.1"))
    assert (testbed.client.access.is_local, testbed.client.namespace) == (True, False)
    assert (testbed.server.access.is_local, testbed.server.namespace) == (True, True)


def test_a_routers_file_names_machines_devices_and_addresses() -> None:
    text = ROUTER + 'port = 2222\nwan_device = "eth1"\nwan_address = "172.16.0.1/30"\nwatts = 4.5\nprice = "40 EUR"\n'
    text += '[server]\nhost = "root@other"\ndevice = "enp3s0"\n[client]\nnamespace = true\n'
    testbed = read_text(text)
    assert testbed.router == RouterSpec(
        HostAccess("root@192.168.1.1", 2222), wan=Port("eth1", "172.16.0.1/30"), price="40 EUR", watts=4.5
    )
    assert testbed.server == TesterSpec(HostAccess("root@other"), Port("enp3s0"), namespace=False)
    assert testbed.client.namespace


PLACE = 'kind = "ssh"\nplace = "rack1/attic-2"\n'


def test_a_place_of_labgrid_stands_for_the_routers_address() -> None:
    assert read_text(PLACE).place == LabgridPlace("rack1/attic-2")
    more = 'coordinator = "lab:20408"\nplace_wait_s = 0\npower_after_s = 5\n'
    more += '[router]\nidentity = "/key"\nlan_device = "br-lan"\n'
    testbed = read_text(PLACE + more)
    assert testbed.place == LabgridPlace("rack1/attic-2", "lab:20408", 0, 5)
    assert testbed.router == RouterSpec(HostAccess("", identity="/key"), lan=Port("br-lan"))
    assert read_text(PLACE).router == RouterSpec(HostAccess(""))
    assert read_text(ROUTER).place is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (PLACE + '[router]\nhost = "a"', "4:1: router.host: the place gives it, too: leave one of the two out"),
        (PLACE + "[router]\nport = 22", "4:1: router.port: the place gives it, too: leave one of the two out"),
        ('kind = "ssh"\n[router]\nport = 22', "2:2: router.host: is missing"),
        ('coordinator = "lab"\n' + ROUTER, '1:1: coordinator: is for the key place, such as place = "rack1-router"'),
        ("power_after_s = 9\n" + ROUTER, '1:1: power_after_s: is for the key place, such as place = "rack1-router"'),
        (PLACE + "place_wait_s = -1", "3:1: place_wait_s: must be at least 0, not -1"),
        (PLACE + 'coordinator = "-x"', '3:1: coordinator: must be HOST or HOST:PORT, such as lab:20408, not "-x"'),
        (PLACE + 'coordinator = "http://lab"', "3:1: coordinator: must be HOST or HOST:PORT"),
        *(
            (
                'kind = "ssh"\n' + f'place = "{name}"\nplace_wait_s = 1',
                "2:1: place: must be the name of a place of labgrid",
            )
            for name in ("", "-h", "+token", "a b", "a=b", "a\\u001b")
        ),
    ],
)
def test_a_wrong_place_is_an_error(text: str, error: str) -> None:
    with pytest.raises(FileErrors) as caught:
        read_text(text)
    assert str(caught.value).startswith(f"the stored testbed mine:{error}")
    assert len(caught.value.errors) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('kind = "ssh"\n[router]\nhost = "local"\n', "router.host: is another machine"),
        ('kind = "ssh"\n[router]\nhost = "-oProxyCommand=reboot"\n', "what ssh takes"),
        (ROUTER + 'lan_device = "--help"\n', "the name of a network device"),
        (ROUTER + 'lan_address = "192.168.1.1"\n', "an IPv4 address with its prefix"),
        (ROUTER + '[client]\nhost = "b"\nnamespace = true\n', "only on this machine"),
    ],
)
def test_an_impossible_router_is_refused(text: str, words: str) -> None:
    with pytest.raises(FileErrors) as caught:
        read_text(text)
    assert words in str(caught.value)
