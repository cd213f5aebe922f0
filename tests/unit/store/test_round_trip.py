"""Any record comes back equal to what was stored."""

from __future__ import annotations

import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tunnelbench.model.connections import ConnectionCounts, TrackerReading
from tunnelbench.model.counters import CpuInterval, CpuUsage, PathCounters, Ping, Window
from tunnelbench.model.plan import Direction, Test, TrialSpec, TunnelSpec
from tunnelbench.model.result import (
    Check,
    ClientCounts,
    Interval,
    Outcome,
    RunRecord,
    Sender,
    TcpMeasurement,
    TrialRecord,
    TunnelProof,
    Verdict,
)
from tunnelbench.model.search import Classification, SearchPoint, SearchRun
from tunnelbench.model.udp import (
    Burst,
    ClientHandshakes,
    Delays,
    HandshakeCounts,
    ServerMemory,
    UdpCounts,
    UdpInterval,
    UdpMeasurement,
)
from tunnelbench.store.store import Store

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
any_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
counts = st.integers(min_value=0, max_value=2**62)
numbers = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(min_value=-(2**62), max_value=2**62) | numbers | any_texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_texts, inner, max_size=3),
    max_leaves=6,
)
checks = st.lists(st.builds(Check, any_texts, st.sampled_from(Verdict), any_texts, st.integers(1, 23)), max_size=3).map(
    tuple
)
text_mappings = st.dictionaries(any_texts, any_texts, max_size=3)
option_values = st.booleans() | st.integers(-(2**62), 2**62) | numbers | any_texts

OF_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "int": counts,
    "int | None": st.none() | counts,
    "float": numbers,
    "float | None": st.none() | numbers,
    "str": any_texts,
    "bool": st.booleans(),
    "bool | None": st.none() | st.booleans(),
    "tuple[int, ...]": st.lists(st.integers(0, 255), max_size=3).map(tuple),
    "tuple[Check, ...]": checks,
    "Mapping[str, str]": text_mappings,
    "Mapping[str, float]": st.dictionaries(any_texts, numbers, max_size=3),
}
"""Strategies by the annotation of a field; a field of a new type needs a strategy here."""


def any_of(record: type[Any]) -> st.SearchStrategy[Any]:
    """Any instance of a dataclass; it can be a part of the next ones."""
    strategy = st.builds(record, **{each.name: OF_TYPE[str(each.type)] for each in fields(record)})
    OF_TYPE[record.__name__] = strategy
    OF_TYPE[f"{record.__name__} | None"] = st.none() | strategy
    OF_TYPE[f"tuple[{record.__name__}, ...]"] = st.lists(strategy, max_size=2).map(tuple)
    return strategy


UDP_PARTS = (
    Delays,
    UdpInterval,
    UdpCounts,
    SearchPoint,
    Classification,
    SearchRun,
    Burst,
    TrackerReading,
    ConnectionCounts,
    ClientHandshakes,
    ServerMemory,
    HandshakeCounts,
    UdpMeasurement,
)
for part in (
    CpuUsage,
    CpuInterval,
    Ping,
    Interval,
    PathCounters,
    Window,
    Sender,
    ClientCounts,
    TcpMeasurement,
    TunnelProof,
    *UDP_PARTS,
):
    any_of(part)

specs = st.builds(
    TrialSpec,
    sequence=st.just(1),
    round=counts,
    tunnel=st.builds(TunnelSpec, texts, texts, st.dictionaries(any_texts, option_values, max_size=4)),
    payload_bytes=counts,
    direction=st.sampled_from(Direction),
    test=st.sampled_from(Test),
    load=texts,
)
records = st.builds(
    TrialRecord,
    spec=specs,
    outcome=st.sampled_from(Outcome),
    reason=texts,
    started_at=texts,
    ended_at=texts,
    checks=checks,
    measurement=OF_TYPE["TcpMeasurement | None"] | OF_TYPE["UdpMeasurement | None"],
    proof=OF_TYPE["TunnelProof | None"],
    raw=st.dictionaries(any_texts, json_values, max_size=3),
)
runs = st.builds(
    RunRecord,
    run_id=st.just("a"),
    started_at=texts,
    ended_at=st.none() | texts,
    status=texts,
    plan_name=texts,
    plan_title=texts,
    plan_text=texts,
    testbed_name=texts,
    testbed_text=texts,
    host_facts=st.dictionaries(any_texts, json_values, max_size=3),
    trials_planned=counts,
    trials_recorded=st.just(1),
    tunnelbench_version=texts,
    notes=st.lists(any_texts, max_size=3).map(tuple),
)


def with_types(value: object) -> str:
    """Return the value as text, in which 1, 1.0 and True differ; Python compares them as equal."""
    return repr(value)


@settings(max_examples=60, deadline=None)
@given(runs, records)
def test_any_record_comes_back_equal_and_of_the_same_types(run: RunRecord, record: TrialRecord) -> None:
    with tempfile.TemporaryDirectory() as directory, Store.open(Path(directory) / "results.sqlite") as store:
        store.begin_run(run)
        store.add_trial("a", record)
        assert with_types(store.run("a")) == with_types(run)
        assert with_types(store.trials("a")) == with_types([record])
