"""Drawing and testbed of a router that `run --router` examined."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from tunnelbench.cli import router_setup
from tunnelbench.model.errors import WrongInput
from tunnelbench.plan import stored_testbed
from tunnelbench.plan.errors import FileErrors
from tunnelbench.testbed import KINDS
from tunnelbench.testbed.discovery import CableEnd, CableEnds

FOUND = CableEnds(
    client=CableEnd("eth0", "192.168.1.100/24", is_there=True),
    router_lan=CableEnd("br-lan", "192.168.1.1/24", is_there=True),
    router_wan=CableEnd("wan", "198.18.2.1/24", is_there=False),
    server=CableEnd("enx02", "198.18.2.2/24", is_there=False),
)


def test_what_was_found_is_drawn_with_what_a_run_will_do() -> None:
    drawn = router_setup.drawing("root@192.168.1.1", FOUND)
    lines = drawn.splitlines()
    assert lines[1] == "  eth0 192.168.1.100/24             ─────  br-lan 192.168.1.1/24            LAN: the client"
    assert lines[2] == "  enx02 198.18.2.2/24 (to be added) ─────  wan 198.18.2.1/24 (to be added)  WAN: the server"
    assert lines[0].index("root@") == lines[1].index("br-lan")
    assert "enx02 is moved into a namespace; a route goes through eth0" in drawn


def test_what_was_found_is_a_testbed_file_that_says_all_of_it() -> None:
    testbed = stored_testbed("router", router_setup.as_file("root@192.168.1.1", FOUND), KINDS).testbed
    assert testbed.router is not None
    assert (testbed.router.access.host, testbed.router.wan.address) == ("root@192.168.1.1", "198.18.2.1/24")
    assert (testbed.client.port.device, testbed.client.namespace) == ("eth0", False)
    assert (testbed.server.port.device, testbed.server.namespace) == ("enx02", True)


def test_the_name_of_a_routers_device_adds_nothing_to_the_testbed_file() -> None:
    device = 'wan"\nconfig = "/etc/other'
    text = router_setup.as_file(
        "root@192.168.1.1", replace(FOUND, router_wan=CableEnd(device, "198.18.2.1/24", is_there=False))
    )
    assert tomllib.loads(text)["router"].keys() == {
        "host", "lan_device", "lan_address", "wan_device", "wan_address",
    }  # fmt: skip
    with pytest.raises(FileErrors, match="must be the name of a network device"):
        stored_testbed("router", text, KINDS)


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    router_setup.keep("one\n", path)
    router_setup.keep("one\n", path)
    with pytest.raises(WrongInput, match="differs from what was found now"):
        router_setup.keep("two\n", path)
    assert path.read_text() == "one\n"


def test_nobody_is_measured_who_was_not_asked(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WrongInput, match="there is no terminal to ask on"):
        router_setup.confirm("a drawing", is_agreed=False, to_stderr=False)
    assert capsys.readouterr().out == "a drawing\n"
    router_setup.confirm("a drawing", is_agreed=True, to_stderr=True)
    assert capsys.readouterr().err == "a drawing\n"
