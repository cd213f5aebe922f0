"""Figures of a trial that follow from each other: measured ones agree, and one that was edited does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.builders import make_records
from tests.unit.udp_builders import make_udp_records

from tunnelbench.model.plan import Test
from tunnelbench.model.result import TrialRecord
from tunnelbench.report.contribution.redundancy import contradictions

UDP = next(record for record in make_udp_records() if record.spec.test is Test.RATE and record.spec.payload_bytes == 18)


def edited(**changes: Any) -> TrialRecord:
    """Return the UDP trial with other counts."""
    assert UDP.udp is not None
    assert UDP.udp.counts is not None
    return replace(UDP, measurement=replace(UDP.udp, counts=replace(UDP.udp.counts, **changes)))


def test_figures_as_they_are_measured_do_not_contradict_each_other() -> None:
    records = (*make_records(), *make_udp_records())
    assert [why for record in records for why in contradictions(record)] == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"received_packets": 10**9}, "1000000000 packets arrived, and "),
        ({"received_bytes": 7}, "bytes were received, and 7 bytes"),
        ({"sending_s": 1e5}, "packets were sent for 100000.00 s, and its traffic was observed for "),
    ],
)
def test_an_edited_count_of_udp_contradicts_the_others(changes: dict[str, Any], sentence: str) -> None:
    assert any(sentence in why for why in contradictions(edited(**changes)))
