"""Runs on a router that is a place of labgrid: the rig's dropbear, with a coordinator and an exporter on its laptop."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.awaiting import await_text, await_traffic, until
from tests.lab.labgrid_runs import COUNTING_OR_NOT, SHORT_PLAN, SLOW_START_S, place_file, rack_on_laptop, run_started
from tests.lab.rig import LAN, Rig, outcomes, plan
from tests.labgrid_rack import ALICE, LabgridRack

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def rack(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabgridRack]:
    with rack_on_laptop(tmp_path_factory.mktemp("rack")) as made:
        yield made


@pytest.fixture(autouse=True)
def is_free_after(rack: LabgridRack, untouched: Rig) -> Iterator[None]:
    """The place is free after each test, and the rig as it was."""
    rack.switched.write_text("")
    yield
    assert rack.holder_of("attic") == "None"
    assert not rack.has_waiting_run()


def test_a_run_takes_the_address_of_its_place_and_holds_the_place_until_its_end(
    untouched: Rig, rack: LabgridRack, store: str, tmp_path: Path
) -> None:
    words = [plan(tmp_path, SHORT_PLAN), "--on", place_file(untouched), "--store", store]
    with run_started(tmp_path, *words) as (running, output, errors):
        await_traffic(running.pid, SLOW_START_S)
        holder = rack.holder_of("attic")
        assert running.wait(120) in COUNTING_OR_NOT, errors.read_text()
    found = json.loads(output.read_text())
    assert f"-tunnelbench-{found['run']['run_id']}." in holder
    assert {outcome for outcome, _ in outcomes(output.read_text())} == {"measured"}
    assert found["run"]["host_facts"]["router_place"] == "attic"
    assert rack.switched.read_text() == ""


def test_a_run_waits_for_its_turn_and_an_interrupt_releases_the_place(
    untouched: Rig, rack: LabgridRack, store: str, tmp_path: Path
) -> None:
    rack.labgrid_client("-p", "attic", "acquire")
    words = [plan(tmp_path, SHORT_PLAN), "--on", place_file(untouched), "--store", store]
    with run_started(tmp_path, *words) as (running, _, errors):
        try:
            await_text(errors, f"the place attic is held by {ALICE}; waiting for it for at most 120 s", SLOW_START_S)
            until(rack.has_waiting_run, "the reservation of the run", SLOW_START_S)
        finally:
            rack.labgrid_client("-p", "attic", "release")
        await_traffic(running.pid, SLOW_START_S)
        assert "-tunnelbench-" in rack.holder_of("attic")
        running.send_signal(signal.SIGINT)
        assert running.wait(120) == 130, errors.read_text()


def test_an_interrupt_while_a_run_waits_leaves_the_place_to_its_holder(
    untouched: Rig, rack: LabgridRack, store: str, tmp_path: Path
) -> None:
    rack.labgrid_client("-p", "attic", "acquire")
    try:
        words = [plan(tmp_path, SHORT_PLAN), "--on", place_file(untouched), "--store", store]
        with run_started(tmp_path, *words) as (running, _, errors):
            until(rack.has_waiting_run, "the reservation of the run", SLOW_START_S)
            running.send_signal(signal.SIGINT)
            assert running.wait(120) == 130, errors.read_text()
        assert rack.holder_of("attic") == ALICE
        assert not rack.has_waiting_run()
    finally:
        rack.labgrid_client("-p", "attic", "release")


def test_a_place_that_stays_held_ends_the_run_and_doctor_with_the_holders_name(
    untouched: Rig, rack: LabgridRack, store: str, tmp_path: Path
) -> None:
    rack.labgrid_client("-p", "attic", "acquire")
    try:
        words = ["run", plan(tmp_path, SHORT_PLAN), "--on", place_file(untouched, wait_s=2), "--store", store]
        ended = untouched.tunnelbench(*words, check=False)
        assert ended.returncode == 3
        assert f"the place attic of labgrid is held by {ALICE}, after a wait of 2 s" in ended.stderr
        assert "hint: wait until it is released" in ended.stderr
        words = ["doctor", plan(tmp_path, SHORT_PLAN), "--on", place_file(untouched), "--json"]
        examined = untouched.tunnelbench(*words, check=False)
        assert examined.returncode == 3
        (found,) = json.loads(examined.stdout)["labgrid"]
        assert found["found"] == f"the place attic of labgrid is held by {ALICE}"
        assert rack.holder_of("attic") == ALICE
    finally:
        rack.labgrid_client("-p", "attic", "release")


def test_check_and_show_need_no_coordinator_and_doctor_examines_the_router(
    untouched: Rig, rack: LabgridRack, tmp_path: Path
) -> None:
    file = place_file(untouched)
    assert untouched.tunnelbench("check", file).stdout == f"{file}: ok\n"
    assert "place attic of labgrid" in untouched.tunnelbench("show", file).stdout
    examined = json.loads(
        untouched.tunnelbench("doctor", plan(tmp_path, SHORT_PLAN), "--on", file, "--json", check=False).stdout
    )
    assert examined["labgrid"][0]["found"] == "attic can be acquired"
    assert "SSH" in {each["name"] for each in examined[f"router, root@{LAN}.1"]}
    assert examined["cables"][0]["found"].startswith("LAN nic0")


def test_a_run_that_fails_at_its_router_releases_the_place(
    untouched: Rig, rack: LabgridRack, store: str, tmp_path: Path
) -> None:
    file = place_file(untouched, more='wan_device = "lan0"')
    ended = untouched.tunnelbench("run", plan(tmp_path, SHORT_PLAN), "--on", file, "--store", store, check=False)
    assert ended.returncode == 3
    assert "the router's WAN device cannot be found" in ended.stderr


@pytest.mark.parametrize("names_testbed", [True, False])
def test_clean_releases_the_place_of_a_run_that_was_killed(
    untouched: Rig, rack: LabgridRack, store: str, tmp_path: Path, names_testbed: bool
) -> None:
    file = place_file(untouched)
    with run_started(tmp_path, plan(tmp_path, SHORT_PLAN), "--on", file, "--store", store) as (running, _, _errors):
        await_traffic(running.pid, SLOW_START_S)
        running.send_signal(signal.SIGKILL)
    assert "-tunnelbench-" in rack.holder_of("attic")
    cleaned = untouched.tunnelbench("clean", *(["--on", file] if names_testbed else []), "--store", store).stdout
    assert rack.holder_of("attic") == "None"
    if names_testbed:
        assert "undid the changes of" in cleaned
    else:
        assert "removed the hold on the place attic of labgrid" in cleaned
        untouched.tunnelbench("clean", "--on", file, "--store", store)  # the router, before its watchdog does it
