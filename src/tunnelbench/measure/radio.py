"""Reads the state of the radios of a wireless LAN just before and just after a trial, never during it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from tunnelbench.host.radio import Antenna, Radio, antennas
from tunnelbench.host.ssh import LinkLost
from tunnelbench.measure.meter import TrialFindings
from tunnelbench.model.plan import CALIBRATION_KIND, TrialSpec
from tunnelbench.model.result import Check, Verdict
from tunnelbench.testbed.base import Testbed

Trial = Callable[[], TrialFindings]


class RadioWatch:
    """Reads the radios of a testbed with a wireless LAN; does nothing for other testbeds."""

    def __init__(self, testbed: Testbed) -> None:
        self._antennas: Mapping[str, Antenna] = {}
        if testbed.has_own_router:
            ends = testbed.client, testbed.lan_device, testbed.router, testbed.router_lan_device
            self._antennas = antennas(*ends)

    def around(self, spec: TrialSpec, trial: Trial) -> Trial:
        """Run a trial and return it with the radios' state before and after it; a calibration has none."""
        if not self._antennas or spec.tunnel.kind == CALIBRATION_KIND:
            return trial

        def watched() -> TrialFindings:
            before = self._look()
            found = trial()
            after: dict[str, tuple[Radio, str]] = {}
            with suppress(LinkLost):  # the trial has its figures, and the next trial finds the loss
                after = self._look()
            radios = {role: (before[role][0], after[role][0]) for role in after}
            outputs = {"radio_before": _texts(before), "radio_after": _texts(after)}
            return replace(found, checks=(*found.checks, *check_radios(radios)), raw=found.raw | outputs)

        return watched

    def _look(self) -> dict[str, tuple[Radio, str]]:
        return {role: antenna.look() for role, antenna in self._antennas.items()}


def _texts(looks: Mapping[str, tuple[Radio, str]]) -> dict[str, str]:
    return {role: text for role, (_, text) in looks.items()}


def check_radios(radios: Mapping[str, tuple[Radio, Radio]]) -> tuple[Check, ...]:
    """Check that the radios of a wireless LAN have the same state after a trial as before it; `radios` is by host.

    A wired LAN gets no check. A changed state is only a note, because a radio selects its rate for each frame.
    """
    if not radios:
        return ()
    changes, states = [], []
    for role, (before, after) in radios.items():
        changes += [f"the {role}'s {change}" for change in _changes(before, after)]
        states.append(f"the {role}'s radio: {in_words(after)}")
    if changes:
        return (Check("radio", Verdict.NOTE, "; ".join(changes), rule=22),)
    return (Check("radio", Verdict.OK, "; ".join(states), rule=22),)


def _changes(before: Radio, after: Radio) -> list[str]:
    if before.is_connected != after.is_connected:
        return [f"radio {'found' if after.is_connected else 'lost'} its other end"]
    compared = (
        ("radio's channel changed", before.channel, after.channel, ""),
        ("radio's width changed", before.width_mhz, after.width_mhz, " MHz"),
        ("radio's rate changed", before.tx_mbps, after.tx_mbps, " Mbit/s sent"),
        ("radio's rate changed", before.rx_mbps, after.rx_mbps, " Mbit/s received"),
    )
    return [
        f"{words} from {_shown(was)} to {_shown(becomes)}{unit} (signal {_shown(after.signal_dbm)} dBm)"
        for words, was, becomes, unit in compared
        if was != becomes
    ]


def in_words(radio: Radio) -> str:
    """Describe a radio's band, channel, rates and signal in one phrase."""
    if not radio.is_connected:
        return "not connected"
    return (
        f"{radio.band or 'band unknown'}, channel {_shown(radio.channel)}, {_shown(radio.width_mhz)} MHz wide, "
        f"{_shown(radio.tx_mbps)} Mbit/s sent, {_shown(radio.rx_mbps)} Mbit/s received, "
        f"signal {_shown(radio.signal_dbm)} dBm"
    )


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"
