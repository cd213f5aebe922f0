"""Messages of a guest arrive unchanged."""

from __future__ import annotations

import json

from hypothesis import given, settings
from tests.unit.builders import make_plan, make_spec, make_tcp
from tests.unit.store.test_round_trip import records, with_types

from tunnelbench.guest import protocol
from tunnelbench.model.result import Outcome, TrialRecord
from tunnelbench.model.testbed import Link, TestbedSpec


@settings(max_examples=60, deadline=None)
@given(records)
def test_any_record_arrives_equal_and_of_the_same_types(record: TrialRecord) -> None:
    text = protocol.line(protocol.RECORD, record=protocol.dump(record))
    assert text.endswith(b"\n")
    assert text.count(b"\n") == 1
    message = protocol.message(text)
    assert message is not None
    assert with_types(protocol.load(TrialRecord, message["record"])) == with_types(record)


def test_a_job_arrives_as_it_was() -> None:
    record = TrialRecord(make_spec(), Outcome.MEASURED, "", "a", "b", (), make_tcp())
    testbed = TestbedSpec("mine", "netns", link=Link(rate_out_mbps=100.0), kernel="debian")
    job = protocol.GuestJob(
        "20250314-092653-abcdef", make_plan(), testbed, (record,), (), begun_with="0.1.0", accepts_versions=True
    )
    assert with_types(protocol.load(protocol.GuestJob, json.loads(json.dumps(protocol.dump(job))))) == with_types(job)


def test_what_is_no_message_is_left_out() -> None:
    assert [protocol.message(text) for text in (b"", b"hello", b"[1]", b'{"a": 1}', b"\xff")] == [None] * 5


def test_a_text_that_no_utf8_can_hold_does_not_end_a_run() -> None:
    assert protocol.message(protocol.line(protocol.CIPHER, cipher="a\udc80b")) == {
        "what": protocol.CIPHER,
        "cipher": "a?b",
    }
