"""Places of labgrid, with a real coordinator and exporter on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from labgrid.remote.common import ResourceEntry
from tests.labgrid_rack import ALICE, LabgridRack, labgrid_rack, service

from tunnelbench.host import labgrid
from tunnelbench.host.labgrid import PlaceHeld, PlaceHold, PlaceUnavailable, ServiceAddress
from tunnelbench.host.labgrid_session import unsafe_value
from tunnelbench.host.ssh import LinkLost
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import HostAccess, LabgridPlace, RouterSpec, TestbedSpec
from tunnelbench.qemu.machine import reserved_port
from tunnelbench.testbed import leased, place
from tunnelbench.testbed.ssh import SshTestbed

pytestmark = pytest.mark.timeout(300)

RUN = "20260101-120000-abcdef"
GROUPS: dict[str, dict[str, Any]] = {
    "router-2": {"NetworkService": service("192.168.1.1", port=2222), "NetworkPowerPort": {}},
    "nobody": {"NetworkService": service("router.lab", username="")},
    "two": {
        "first": {"cls": "NetworkService", **service("192.168.1.1")},
        "second": {"cls": "NetworkService", **service("192.168.1.2")},
    },
    "none": {"NetworkPowerPort": {}},
    "option": {"NetworkService": service("-oProxyCommand=reboot")},
    "option-user": {"NetworkService": service("192.168.1.1", username="-oProxyCommand=reboot")},
    "strange": {"NetworkService": service("a; reboot")},
    "blank": {
        "NetworkService": service("192.168.1.1"),
        "power": {"cls": "NetworkPowerPort", "model": "apc", "host": "127.0.0.1 -Lf /tmp/log", "index": "1"},
    },
    "escape": {"NetworkService": service("\x1b[2J192.168.1.1")},
}
LISTENED_ON_BY_NOBODY = "127.0.0.1:1"


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabgridRack]:
    with reserved_port() as port, labgrid_rack(tmp_path_factory.mktemp("rack"), port, GROUPS) as made:
        yield made


@pytest.fixture
def hold(rack: LabgridRack) -> Iterator[PlaceHold]:
    """The hold of a run on a place with a power switch; the place is free before and after."""
    made = labgrid.hold_for(LabgridPlace("router-2", rack.coordinator), RUN)
    rack.switched.write_text("")
    yield made
    labgrid.release(made)
    assert rack.holder_of("router-2") == "None"


def test_a_place_gives_the_address_of_its_router_and_is_free_again_after(rack: LabgridRack, hold: PlaceHold) -> None:
    assert labgrid.acquire(hold) == ServiceAddress("root@192.168.1.1", 2222)
    assert rack.holder_of("router-2") == hold.holder
    assert RUN in hold.holder
    assert labgrid.acquire(hold).port == 2222  # by the same run, after a kill -9
    assert labgrid.release(hold)
    assert rack.holder_of("router-2") == "None"
    assert not labgrid.release(hold)
    assert not rack.has_waiting_run()


def test_a_place_of_another_user_is_neither_taken_nor_released(rack: LabgridRack, hold: PlaceHold) -> None:
    rack.labgrid_client("-p", "router-2", "acquire")
    try:
        with pytest.raises(PlaceHeld, match=r"^the place router-2 of labgrid is held by elsewhere/alice$"):
            labgrid.acquire(hold)
        assert not labgrid.release(hold)
        assert rack.holder_of("router-2") == ALICE
        assert not rack.has_waiting_run()
    finally:
        rack.labgrid_client("-p", "router-2", "release")


def test_a_place_that_is_reserved_for_another_user_is_named_so(rack: LabgridRack, hold: PlaceHold) -> None:
    token = rack.labgrid_client("reserve", "--shell", "name=router-2").strip().removeprefix("export LG_TOKEN=")
    try:
        with pytest.raises(PlaceHeld, match=r"^the place router-2 of labgrid is reserved for elsewhere/alice$"):
            labgrid.acquire(hold)
    finally:
        rack.labgrid_client("cancel-reservation", token)


def test_a_run_that_waits_gets_the_place_when_it_is_released(rack: LabgridRack, hold: PlaceHold) -> None:
    rack.labgrid_client("-p", "router-2", "acquire")
    found: list[ServiceAddress] = []
    waiting = threading.Thread(target=lambda: found.append(labgrid.acquire(hold, wait_s=120)))
    waiting.start()
    try:
        deadline = time.monotonic() + 60
        while not rack.has_waiting_run():
            assert time.monotonic() < deadline
        assert not found
    finally:
        rack.labgrid_client("-p", "router-2", "release")
        waiting.join()
    assert found == [ServiceAddress("root@192.168.1.1", 2222)]
    assert rack.holder_of("router-2") == hold.holder


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("router", "has no place router"),  # part of the name of another place
        ("none", "has 0 resources NetworkService, and a run needs exactly one"),
        ("two", "has 2 resources NetworkService, and a run needs exactly one"),
        ("option", "refuses the place option: NetworkService has the value '-oProxyCommand=reboot', and a command"),
        ("option-user", "NetworkService has the value '-oProxyCommand=reboot', and a command could take a part"),
        ("strange", "NetworkService has the value 'a; reboot', and a command could take a part of it as an option"),
        ("escape", r"NetworkService has the value '\\x1b\[2J192"),
        ("blank", "NetworkPowerPort has the value '127.0.0.1 -Lf /tmp/log', and a command could take a part of it"),
    ],
)
def test_a_place_that_cannot_be_used_is_a_sentence(rack: LabgridRack, name: str, words: str) -> None:
    hold = labgrid.hold_for(LabgridPlace(name, rack.coordinator), RUN)
    try:
        with pytest.raises(PlaceUnavailable, match=words) as caught:
            labgrid.acquire(hold)
        assert caught.value.hint
        assert caught.value.message.isprintable()
    finally:
        labgrid.release(hold)


def test_a_service_without_a_user_leaves_the_user_to_ssh(rack: LabgridRack) -> None:
    hold = labgrid.hold_for(LabgridPlace("nobody", rack.coordinator), RUN)
    try:
        assert labgrid.acquire(hold) == ServiceAddress("router.lab", 22)
    finally:
        labgrid.release(hold)


def test_no_coordinator_is_a_sentence_with_the_key_that_names_one(tmp_path: Path) -> None:
    spec = TestbedSpec("lab", "ssh", place=LabgridPlace("router-2", LISTENED_ON_BY_NOBODY))
    with pytest.raises(
        PlaceUnavailable, match=r"the coordinator of labgrid at 127\.0\.0\.1:1 does not answer"
    ) as caught:
        place.acquire_place(spec, RUN, tmp_path, print)
    assert "coordinator = " in caught.value.hint
    assert list(tmp_path.iterdir()) == []  # there is nothing to release


def test_a_place_that_cannot_be_released_stays_noted_for_a_later_clean(tmp_path: Path) -> None:
    note = tmp_path / place.NOTE_NAME
    note.write_text(json.dumps(asdict(PlaceHold("router-2", LISTENED_ON_BY_NOBODY, "here/me"))))
    with pytest.raises(PlaceUnavailable, match="does not answer"):
        place.release_place(tmp_path)
    assert note.exists()


def test_without_labgrid_the_message_has_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunnelbench.host.labgrid.find_spec", lambda _: None)
    with pytest.raises(PlaceUnavailable, match="needs labgrid, which is not installed") as caught:
        labgrid.acquire(PlaceHold("router-2", LISTENED_ON_BY_NOBODY, "here/me"))
    assert "install" in caught.value.hint


def test_settings_of_labgrids_user_do_not_change_which_place_is_meant(
    rack: LabgridRack, hold: PlaceHold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LG_ENV", "/no/such/environment.yaml")
    monkeypatch.setenv("LG_PLACE", "nobody")
    assert labgrid.acquire(hold).port == 2222
    labgrid.power_cycle(hold)
    assert rack.switched.read_text() == "01"


def test_a_place_without_a_power_switch_is_a_sentence(rack: LabgridRack) -> None:
    hold = labgrid.hold_for(LabgridPlace("nobody", rack.coordinator), RUN)
    try:
        labgrid.acquire(hold)
        with pytest.raises(PlaceUnavailable, match="has no resource that can switch its power"):
            labgrid.power_cycle(hold)
    finally:
        labgrid.release(hold)


def test_a_value_that_becomes_an_option_after_the_run_began_switches_nothing(rack: LabgridRack) -> None:
    hold = labgrid.hold_for(LabgridPlace("blank", rack.coordinator), RUN)
    rack.labgrid_client("-p", "blank", "acquire", user=hold.holder)
    try:
        with pytest.raises(PlaceUnavailable, match=r"NetworkPowerPort has the value '127\.0\.0\.1 -Lf /tmp"):
            labgrid.power_cycle(hold)
    finally:
        labgrid.release(hold)


def resource(cls: str, **params: object) -> ResourceEntry:
    return ResourceEntry({"cls": cls, "params": params})


@pytest.mark.parametrize(
    "value",
    ["a -b", "-b", "a\tb", "a\nb", "a;b", "$(b)", "a`b`", "'a'", "a|b", "a&b", "http://a/{index.__class__}", -1],
)
def test_a_value_that_a_command_could_split_is_refused_also_in_extra(value: object) -> None:
    assert "could take a part of it as an option" in unsafe_value(resource("NetworkPowerPort", host=value))
    nested = {"proxy": "lab", "others": [{"name": value}]}
    assert "could take a part of it as an option" in unsafe_value(resource("NetworkPowerPort", host="a", extra=nested))


@pytest.mark.parametrize(
    "host",
    [
        "pdu.example.net",
        "192.0.2.1",
        "2001:db8::1",
        "[2001:db8::1]:80",
        "fe80::1%eth0",
        "http://user:pass@192.0.2.1:9999/relay/{index}/{value}",
        "https://pdu/cm?a=1&cmnd=Power{index}%20{value}#x",
    ],
)
def test_an_address_or_url_of_a_power_switch_is_accepted(host: str) -> None:
    extra = {"proxy": "lab.example.net", "proxy_required": True}
    found = resource("NetworkPowerPort", model="rest", host=host, index="1", port=80, level=None, extra=extra)
    assert unsafe_value(found) == ""


def test_a_password_that_no_driver_uses_may_have_any_characters() -> None:
    assert unsafe_value(resource("NetworkService", address="a", username="", password="-o a b")) == ""


def silent_router(rack: LabgridRack, name: str, folder: Path) -> SshTestbed:
    """Return a testbed whose router does not answer, with a place."""
    access = HostAccess(f"root@{LISTENED_ON_BY_NOBODY.partition(':')[0]}", port=1)
    spec = TestbedSpec("lab", "ssh", router=RouterSpec(access), place=LabgridPlace(name, rack.coordinator, 0, 1))
    return SshTestbed(spec, RUN, folder)


def test_a_silent_router_is_switched_off_and_on_exactly_once(
    rack: LabgridRack, hold: PlaceHold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leased, "RECONNECT_LIMIT_S", 1.0)
    labgrid.acquire(hold)
    testbed = silent_router(rack, "router-2", tmp_path)
    with pytest.raises(CannotHere, match="no SSH server answers on that port, although its power was switched off"):
        testbed._reconnect(testbed.router)
    assert rack.switched.read_text() == "01"
    with pytest.raises(LinkLost, match=r"no SSH server answers on that port$"):
        testbed._reconnect(testbed.router)
    assert rack.switched.read_text() == "01"


def test_a_router_whose_place_another_user_has_meanwhile_is_not_switched_off(
    rack: LabgridRack, hold: PlaceHold, tmp_path: Path
) -> None:
    rack.labgrid_client("-p", "router-2", "acquire")
    try:
        testbed = silent_router(rack, "router-2", tmp_path)
        with pytest.raises(CannotHere, match=r"no SSH server answers.*; labgrid cannot switch the power.*alice"):
            testbed._reconnect(testbed.router)
        assert rack.switched.read_text() == ""
    finally:
        rack.labgrid_client("-p", "router-2", "release")


def test_a_router_that_refuses_the_login_is_not_switched_off(
    rack: LabgridRack, hold: PlaceHold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labgrid.acquire(hold)
    testbed = silent_router(rack, "router-2", tmp_path)
    testbed.folder.mkdir(exist_ok=True)
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho 'root@router: Permission denied (publickey).' >&2\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setattr("tunnelbench.host.ssh.SSH", (str(ssh),))
    with pytest.raises(LinkLost, match="it accepts none of your keys"):
        testbed._first_contact(testbed.router)
    assert rack.switched.read_text() == ""


def spec_with_place(rack: LabgridRack) -> TestbedSpec:
    of_rack = LabgridPlace("router-2", rack.coordinator)
    return TestbedSpec("lab", "ssh", router=RouterSpec(HostAccess("")), place=of_rack)


ENDED = ".999999999.1"
"""Process in the name of a holder that is surely not there: Linux has no process of this number (PID_MAX_LIMIT)."""


def with_process(hold: PlaceHold, process: str) -> PlaceHold:
    """Return a hold of another process of this machine."""
    return replace(hold, holder=hold.holder.rsplit(".", 2)[0] + process)


def test_clean_releases_the_place_of_a_run_of_this_machine_that_left_no_folder(
    rack: LabgridRack, hold: PlaceHold, tmp_path: Path
) -> None:
    left = with_process(hold, ENDED)
    labgrid.acquire(left)
    spec = spec_with_place(rack)
    with pytest.raises(PlaceHeld, match=RUN), place.place_held(spec, "doctor-abc", tmp_path / "doctor"):
        raise AssertionError("doctor takes over no place")
    with place.place_held(spec, "clean-abc", tmp_path / "clean", adopts=True) as held:
        assert held.router is not None
        assert held.router.access.host == "root@192.168.1.1"
        assert rack.holder_of("router-2") == left.holder  # nobody else can get it in between
    assert rack.holder_of("router-2") == "None"


def test_clean_takes_over_no_place_of_a_process_that_is_running(
    rack: LabgridRack, hold: PlaceHold, tmp_path: Path
) -> None:
    spec = spec_with_place(rack)
    with place.place_held(spec, "doctor-abcdef", tmp_path / "doctor"):
        holder = rack.holder_of("router-2")
        clean = place.place_held(spec, "clean-abc", tmp_path / "clean", adopts=True)
        with pytest.raises(PlaceHeld, match="doctor-abcdef"), clean:
            raise AssertionError("doctor is running")
        assert rack.holder_of("router-2") == holder
    assert rack.holder_of("router-2") == "None"


def test_a_holder_is_left_here_if_its_process_on_this_machine_has_ended() -> None:
    own = labgrid.hold_for(LabgridPlace("a"), RUN)
    with subprocess.Popen(["sleep", "60"]) as process:
        start = labgrid._start_of(process.pid)
        other = with_process(own, f".{process.pid}.{start}").holder
        assert not labgrid.is_left_here(other)
        assert labgrid.is_left_here(with_process(own, f".{process.pid}.1").holder)  # the number was given again
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert labgrid.is_left_here(other)  # a zombie
    assert labgrid.is_left_here(other)
    assert not labgrid.is_left_here(own.holder)
    machine = labgrid._machine_id()
    assert not labgrid.is_left_here(other.replace(f".{machine}.", ".0123456789ab."))
    assert not labgrid.is_left_here(f"x{other}")
    assert not labgrid.is_left_here(other.replace("-tunnelbench-", "-"))


def test_clean_takes_over_no_place_of_another_machine(rack: LabgridRack, hold: PlaceHold, tmp_path: Path) -> None:
    other = replace(hold, holder=f"other-machine/{hold.holder.partition('/')[2]}")
    labgrid.acquire(other)
    spec = spec_with_place(rack)
    try:
        with pytest.raises(PlaceHeld), place.place_held(spec, "clean-abc", tmp_path, adopts=True):
            raise AssertionError("it is held by a run of another machine")
        assert rack.holder_of("router-2") == other.holder
    finally:
        labgrid.release(other)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"place": "x"}'])
def test_a_note_that_was_not_finished_is_removed(tmp_path: Path, text: str) -> None:
    (tmp_path / place.NOTE_NAME).write_text(text)
    assert place.release_place(tmp_path) == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("printed", ["", "[]", "{}", '{"state": 1', "x" * 100_000, "\x1b[2J"])
def test_an_odd_answer_of_labgrid_is_a_sentence(monkeypatch: pytest.MonkeyPatch, printed: str) -> None:
    argv = [sys.executable, "-c", f"import sys; print({json.dumps(printed)}); print('\\033[2Jodd', file=sys.stderr)"]
    monkeypatch.setattr(labgrid, "_argv", lambda *_: argv)
    with pytest.raises(PlaceUnavailable, match=r"labgrid failed at the place router-2: \\x1b\[2Jodd") as caught:
        labgrid.acquire(PlaceHold("router-2", LISTENED_ON_BY_NOBODY, "here/me"))
    assert caught.value.message.isprintable()
