"""What a guest tells arrives as it was."""

from __future__ import annotations

import json

from hypothesis import given, settings
from tests.unit.builders import make_plan, make_spec, make_tcp
from tests.unit.store.test_round_trip import records, with_types

from tunnelbench.guest import wire
from tunnelbench.model.result import Outcome, TrialRecord
from tunnelbench.model.testbed import Link, TestbedSpec


@settings(max_examples=60, deadline=None)
@given(records)
def test_any_record_arrives_equal_and_of_the_same_types(record: TrialRecord) -> None:
    text = wire.line(wire.RECORD, record=wire.dump(wire.TRIAL, record))
    assert text.endswith(b"\n")
    assert text.count(b"\n") == 1
    message = wire.message(text)
    assert message is not None
    assert with_types(wire.load(wire.TRIAL, message["record"])) == with_types(record)


def test_a_job_arrives_as_it_was() -> None:
    record = TrialRecord(make_spec(), Outcome.MEASURED, "", "a", "b", (), make_tcp())
    testbed = TestbedSpec("mine", "netns", link=Link(rate_out_mbps=100.0), kernel="debian")
    job = wire.Job("20250314-092653-abcdef", make_plan(), testbed, (record,), ())
    assert with_types(wire.load(wire.JOB, json.loads(json.dumps(wire.dump(wire.JOB, job))))) == with_types(job)


def test_what_is_no_message_is_left_out() -> None:
    assert [wire.message(text) for text in (b"", b"hello", b"[1]", b'{"a": 1}', b"\xff")] == [None] * 5


def test_a_text_that_no_utf8_can_hold_does_not_end_a_run() -> None:
    assert wire.message(wire.line(wire.CIPHER, cipher="a\udc80b")) == {"what": wire.CIPHER, "cipher": "a?b"}
