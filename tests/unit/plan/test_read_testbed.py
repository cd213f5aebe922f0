"""Testbed files, and which file a `--set` belongs to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tunnelbench.model.errors import WrongInput
from tunnelbench.model.testbed import Access, Link, Port, RouterSpec, TestbedSpec, TesterSpec
from tunnelbench.plan import FileErrors, override_target, read_testbed, shipped_testbeds, stored_testbed
from tunnelbench.plan.load import TESTBED_KINDS


def test_a_testbed_of_a_kind_alone_has_all_defaults(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('kind = "netns"\n')
    assert read_testbed(str(path)).testbed == TestbedSpec("mine", "netns")


def test_every_key_of_a_testbed_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'kind = "netns"\ntitle = "all keys"\nrouter_cpu = 0\nquiet_wait_s = 0\n'
        "[link]\nrate_out_mbps = 0.1\nrate_in_mbps = 100\ndelay_ms = 2.5\nmtu_bytes = 9000\n"
    )
    loaded = read_testbed(str(path), kinds=("netns", "qemu"))
    link = Link(rate_out_mbps=0.1, rate_in_mbps=100.0, delay_ms=2.5, mtu_bytes=9000)
    assert loaded.testbed == TestbedSpec("mine", "netns", "all keys", link, router_cpu=0, quiet_wait_s=0)
    assert loaded.text == path.read_text()


def test_a_testbed_without_a_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("router_cpu = 1\n")
    with pytest.raises(FileErrors, match=r"mine.toml:1:1: kind: is missing$"):
        read_testbed(str(path))


def test_a_plan_is_no_testbed(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[[tunnel]]\nkind = "vxlan"\n')
    with pytest.raises(
        FileErrors, match=r"mine.toml:1:3: tunnel: this is a plan; a testbed has a kind and no tunnels$"
    ):
        read_testbed(str(path))


def test_overrides_are_in_the_testbed_and_in_its_text(tmp_path: Path) -> None:
    loaded = read_testbed("netns", ["link.rate_in_mbps=100", "router_cpu=0"])
    assert loaded.testbed.link == Link(rate_in_mbps=100.0)
    assert loaded.testbed.router_cpu == 0
    path = tmp_path / "netns.toml"
    path.write_text(loaded.text)
    assert read_testbed(str(path)).testbed == loaded.testbed


def test_a_fault_of_a_flag_names_the_flag() -> None:
    with pytest.raises(FileErrors, match=r"^--set link.rat_in_mbps=1: unknown key; did you mean link.rate_in_mbps\?$"):
        read_testbed("netns", ["link.rat_in_mbps=1"])


def test_every_shipped_testbed_loads() -> None:
    assert shipped_testbeds() == ["malta", "netns", "netns-100m", "netns-debian", "netns-road-warrior"]
    assert read_testbed("netns").testbed.link == Link()
    assert read_testbed("netns-100m").testbed.link == Link(rate_out_mbps=100.0, rate_in_mbps=100.0)
    assert read_testbed("netns-debian").testbed.kernel == "debian"
    malta = read_testbed("malta", kinds=("qemu",)).testbed
    assert (malta.board, malta.far_board) == ("malta", "x86-64")
    assert (malta.cpu_share_percent, malta.finds_cpu_share) == (None, True)
    assert read_testbed("netns-road-warrior").testbed.topology == "road-warrior"
    for name in shipped_testbeds():
        assert read_testbed(name, kinds=("netns", "qemu")).testbed.name == name


def test_a_name_that_is_not_shipped_gets_the_nearest_one() -> None:
    with pytest.raises(WrongInput, match=r'^no testbed "netsn" is shipped; did you mean netns'):
        read_testbed("netsn")


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
                "unknown key; known are title, rounds, tcp, udp, soak, cipher_speed, tunnel, kind, router_cpu, kernel, "
                "quiet_wait_s, topology, link, board, far_board, cpu_share_percent, router, client, server"
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
    testbed = read_testbed("netns", [f"kernel={kernel}"]).testbed
    assert (testbed.kernel, testbed.needs_guest) == (kernel, kernel != "host")


@pytest.mark.parametrize("kernel", ["ubuntu", "vmlinuz", ""])
def test_another_word_for_a_kernel_is_refused_with_those_that_there_are(kernel: str) -> None:
    with pytest.raises(FileErrors, match='must be "host", "debian" or the path'):
        read_testbed("netns", [f'kernel="{kernel}"'])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('kind = "qemu"', "needs a board: one of malta, x86-64"),
        ('kind = "qemu"\nboard = "molta"', "needs a board: one of malta, x86-64"),
        ('kind = "qemu"\nboard = "malta"\nfar_board = "x68"', "far_board must be one of malta, x86-64, not"),
        ('kind = "netns"\nfar_board = "x86-64"', "this kind has no virtual router"),
        ('kind = "qemu"\nboard = "malta"\ncpu_share_percent = "auot"', "cpu_share_percent"),
        ('kind = "qemu"\nboard = "malta"\nkernel = "debian"', "has a kernel of its own: leave kernel out"),
        ('kind = "qemu"\nboard = "malta"\n[link]\ndelay_ms = 3', "cables have no rate, no delay"),
        ('kind = "qemu"\nboard = "malta"\ncpu_share_percent = 9', "must be at least 10"),
        ('kind = "netns"\nboard = "malta"', "this kind has no virtual router"),
        ('kind = "netns"\ncpu_share_percent = 50', "this kind has no virtual router"),
    ],
)
def test_what_does_not_go_with_a_virtual_router_is_told(tmp_path: Path, lines: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"{lines}\n")
    with pytest.raises(FileErrors, match=re.escape(message)):
        read_testbed(str(path), kinds=("netns", "qemu"))


ROUTER = 'kind = "ssh"\n[router]\nhost = "root@192.168.1.1"\n'


def read_text(text: str) -> TestbedSpec:
    return stored_testbed("mine", text, TESTBED_KINDS).testbed


def test_a_routers_file_may_leave_everything_but_its_host_to_be_found() -> None:
    testbed = read_text(ROUTER)
    assert testbed.router == RouterSpec(Access("root@192.168.1.1"))
    assert (testbed.client.access.is_local, testbed.client.namespace) == (True, False)
    assert (testbed.server.access.is_local, testbed.server.namespace) == (True, True)


def test_a_routers_file_names_machines_devices_and_addresses() -> None:
    text = ROUTER + 'port = 2222\nwan_device = "eth1"\nwan_address = "172.16.0.1/30"\nwatts = 4.5\nprice = "40 EUR"\n'
    text += '[server]\nhost = "root@other"\ndevice = "enp3s0"\n[client]\nnamespace = true\n'
    testbed = read_text(text)
    assert testbed.router == RouterSpec(
        Access("root@192.168.1.1", 2222), wan=Port("eth1", "172.16.0.1/30"), price="40 EUR", watts=4.5
    )
    assert testbed.server == TesterSpec(Access("root@other"), Port("enp3s0"), namespace=False)
    assert testbed.client.namespace


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('kind = "ssh"\n', 'needs [router] with its host, such as host = "root@192.168.1.1"'),
        ('kind = "netns"\n[router]\nhost = "a"\n', 'are for kind = "ssh"'),
        ('kind = "ssh"\n[router]\nhost = "local"\n', "the router is another machine"),
        ('kind = "ssh"\n[router]\nhost = "-oProxyCommand=reboot"\n', "what ssh takes"),
        (ROUTER + 'lan_device = "--help"\n', "the name of a network device"),
        (ROUTER + 'lan_address = "192.168.1.1"\n', "an IPv4 address with its prefix"),
        (ROUTER + '[client]\nhost = "b"\nnamespace = true\n', "only on this machine"),
        (ROUTER + "[link]\ndelay_ms = 3\n", "the cables are real"),
        ('kernel = "debian"\n' + ROUTER, "a router has a kernel of its own"),
    ],
)
def test_what_cannot_be_a_router_is_refused(text: str, words: str) -> None:
    with pytest.raises(FileErrors) as caught:
        read_text(text)
    assert words in str(caught.value)
