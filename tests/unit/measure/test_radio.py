"""A change of the radio during a trial is reported, and the trial keeps its figures."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.builders import make_spec, make_tcp

from tunnelbench.host.radio import Radio
from tunnelbench.host.ssh import LinkLost
from tunnelbench.measure import radio
from tunnelbench.measure.meter import TrialFindings
from tunnelbench.measure.radio import RadioWatch, check_radios
from tunnelbench.model.plan import CALIBRATION_KIND
from tunnelbench.model.result import Check, Verdict

FAST = Radio(5180, 36, 80, tx_mbps=866.7, rx_mbps=780.0, signal_dbm=-45)
FOUND = TrialFindings(make_tcp(), (Check("steal", Verdict.OK, "", 14),), {"ping": "x"})


def check(before: Radio, after: Radio) -> Check:
    (found,) = check_radios({"client": (before, after)})
    assert (found.name, found.rule) == ("radio", 22)
    return found


def test_a_radio_that_stayed_as_it_was_is_reported() -> None:
    found = check(FAST, FAST)
    assert found.verdict is Verdict.OK
    assert found.reason == (
        "the client's radio: 5 GHz, channel 36, 80 MHz wide, 866.7 Mbit/s sent, 780 Mbit/s received, signal -45 dBm"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tx_mbps": 390.0}, "the client's radio's rate changed from 866.7 to 390 Mbit/s sent"),
        ({"rx_mbps": None}, "the client's radio's rate changed from 780 to unknown Mbit/s received"),
        ({"channel": 100}, "the client's radio's channel changed from 36 to 100"),
        ({"width_mhz": 20}, "the client's radio's width changed from 80 to 20 MHz"),
        ({"tx_mbps": None, "rx_mbps": None, "signal_dbm": None}, "the client's radio lost its other end"),
    ],
)
def test_a_change_is_a_note(changes: dict[str, Any], words: str) -> None:
    found = check(FAST, replace(FAST, **changes))
    assert found.verdict is Verdict.NOTE
    assert found.reason.startswith(words)


def test_a_signal_alone_is_no_change() -> None:
    assert check(FAST, replace(FAST, signal_dbm=-47)).verdict is Verdict.OK


class Aerial:
    """An antenna that sees one thing after the other, and then nothing any more."""

    def __init__(self, *seen: Radio) -> None:
        self.seen = list(seen)

    def look(self) -> tuple[Radio, str]:
        if not self.seen:
            raise LinkLost("the SSH connection to the router was lost")
        return self.seen.pop(0), "signal: -45 dBm"


def watch(monkeypatch: pytest.MonkeyPatch, *seen: Radio, has_own_router: bool = True) -> RadioWatch:
    monkeypatch.setattr(radio, "antennas", lambda *_: {"client": Aerial(*seen)})
    testbed: Any = SimpleNamespace(
        has_own_router=has_own_router, client=None, router=None, lan_device="wlan0", router_lan_device="br-lan"
    )
    return RadioWatch(testbed)


def test_a_trial_gets_the_check_and_what_iw_said(monkeypatch: pytest.MonkeyPatch) -> None:
    found = watch(monkeypatch, FAST, replace(FAST, tx_mbps=6.0)).around(make_spec(), lambda: FOUND)()
    assert [each.name for each in found.checks] == ["steal", "radio"]
    assert found.checks[-1].verdict is Verdict.NOTE
    assert found.raw["radio_after"] == {"client": "signal: -45 dBm"}
    assert found.raw["ping"] == "x"
    assert found.measurement == FOUND.measurement


def test_a_host_that_is_lost_after_the_trial_costs_it_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    found = watch(monkeypatch, FAST).around(make_spec(), lambda: FOUND)()
    assert found.measurement == FOUND.measurement
    assert [each.name for each in found.checks] == ["steal"]


def test_the_testers_alone_and_a_testbed_of_namespaces_have_no_radio(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = make_spec()
    alone = replace(spec, tunnel=replace(spec.tunnel, kind=CALIBRATION_KIND))
    assert watch(monkeypatch).around(alone, lambda: FOUND)() is FOUND
    assert watch(monkeypatch, has_own_router=False).around(spec, lambda: FOUND)() is FOUND
