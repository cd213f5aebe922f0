"""A run goes out as a file and comes back as it was, but for what was left out; what is no such file is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_regressions.file_regression import FileRegressionFixture
from tests.unit.builders import make_records, make_run, make_speeds, make_tcp, make_trial
from tests.unit.report.hostile import hostile_run
from tests.unit.report.test_report import excerpt
from tests.unit.udp_builders import make_udp_records

from tunnelbench.model.errors import WrongInput
from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.report.exchange import Imported, export, read
from tunnelbench.report.exchange.anonymise import stripper_for
from tunnelbench.report.exchange.file import CHECKSUM, checksum
from tunnelbench.report.exchange.json_object import LARGEST_BYTES
from tunnelbench.report.render import render

EVERYTHING = (
    *make_records(1),
    *(replace(r, spec=replace(r.spec, sequence=r.spec.sequence + 1000)) for r in make_udp_records()),
)


def as_stored(run: RunRecord, records: tuple[TrialRecord, ...]) -> RunRecord:
    return replace(run, trials_recorded=len(records), speeds_recorded=None)


def marked(run: RunRecord, found: Imported) -> RunRecord:
    """The run as it was, with the three marks of an import."""
    own = len(found.run.notes) - len(run.notes)
    return replace(run, run_id=found.run.run_id, status="imported", notes=(*found.run.notes[:own], *run.notes))


def test_the_file(file_regression: FileRegressionFixture) -> None:
    text = export(make_run(testbed_text='kind = "netns"\nhost = "box7"\n'), excerpt(), make_speeds()[:1]).text
    file_regression.check(text, extension=".json", encoding="utf-8")


def test_the_same_run_always_gives_the_same_file() -> None:
    assert export(make_run(), EVERYTHING).text == export(make_run(), tuple(reversed(EVERYTHING))).text


@pytest.mark.parametrize("name", ["csv", "dokuwiki", "html", "json", "markdown", "series", "terminal", "textile"])
def test_a_report_of_what_came_back_is_the_report_of_what_went_out(name: str) -> None:
    found = read(export(make_run(), EVERYTHING, make_speeds()).text.encode())
    bare = [replace(r, raw={}, proof=r.proof and replace(r.proof, raw={})) for r in EVERYTHING]
    run = replace(make_run(), trials_recorded=len(bare), speeds_recorded=len(make_speeds()))
    expected = render(marked(run, found), bare, name, 100, speeds=make_speeds())
    assert render(found.run, found.records, name, 100, speeds=found.speeds) == expected


WORDS = st.lists(
    st.sampled_from(
        ["gw.example.org", "192.0.2.7", "a@b.example", "/home/eve/x", "plain", "<b>|*", "2.6.14", "\u202e\n"]
    ),
    max_size=4,
).map(" ".join)


@given(title=WORDS, note=WORDS, reason=WORDS, facts=st.dictionaries(st.sampled_from(["cpu_model", "board"]), WORDS),
       rates=st.lists(st.floats(1e6, 1e10), min_size=1, max_size=6))  # fmt: skip
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_a_run_says_comes_back_but_for_names(
    title: str, note: str, reason: str, facts: dict[str, str], rates: list[float]
) -> None:
    base = make_records(1)[4].spec
    records = tuple(
        replace(
            make_trial(replace(base, sequence=place, round=place), make_tcp(rate, cpu_s_per_million_packets=0.1)),
            raw={},
            reason=reason,
        )
        for place, rate in enumerate(rates, start=1)
    )
    run = as_stored(make_run(plan_title=title, notes=(note,), host_facts=facts), records)
    found = read(export(run, records).text.encode())
    strip = stripper_for(run, records).text
    expected_run = replace(
        run,
        plan_title=strip(title),
        notes=(strip(note),),
        host_facts={key: strip(value) for key, value in facts.items()},
    )
    expected = [replace(record, reason=strip(reason)) for record in records]
    for name in ("markdown", "json"):
        assert render(found.run, found.records, name) == render(marked(expected_run, found), expected, name)


def test_it_is_marked_and_says_what_is_not_known() -> None:
    found = read(export(make_run(status="interrupted"), make_records()).text.encode())
    assert found.run.status == "imported"
    assert found.run.run_id.startswith("imported-")
    text = render(found.run, found.records, "terminal", 400)
    assert "Imported: run 20250314-092653-quick" in text
    assert "It is unknown who measured it and whether it was changed before the file was written" in text
    assert "it was interrupted there" in text


def test_the_audit_finds_nothing_in_a_run_as_it_is_measured() -> None:
    assert read(export(make_run(), EVERYTHING, make_speeds()).text.encode()).doubtful == ()


def test_a_router_whose_clock_gained_time_and_whose_cpu_was_full_has_no_finding() -> None:
    record = make_trial()
    assert record.tcp is not None
    window = record.tcp.window
    cpu = replace(window.router_cpu, idle_s=-0.01 * window.duration_s)
    tcp = replace(record.tcp, window=replace(window, router_cpu=cpu, router_clock_lost_s=-0.02))
    found = read(export(make_run(), [replace(record, measurement=tcp)]).text.encode())
    assert found.doubtful == ()
    assert found.records[0].tcp == tcp


PLAIN = export(make_run(), make_records(1), make_speeds()).text


def changed(change: Callable[[dict[str, Any]], None], *, sealed: bool = True) -> bytes:
    """Return a file in which somebody changed something and, with `sealed`, corrected the checksum."""
    whole = json.loads(PLAIN)
    change(whole)
    if sealed:
        whole[CHECKSUM] = checksum(whole)
    return json.dumps(whole).encode()


def first(whole: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in whole["trials"] if each["tcp"] and each["spec"]["round"] == 1)
    return found


def test_figures_that_the_audit_does_not_believe_are_reported_and_kept() -> None:
    def faster(whole: dict[str, Any]) -> None:
        trial = first(whole)
        trial["tcp"]["bytes_received"] *= 8
        trial["tcp"]["bytes_sent"] *= 8
        trial["tcp"]["physical_limit_bps"] = 1e6

    found = read(changed(faster))
    assert any("packet-rate" in each for each in found.doubtful)
    assert any("line-limit" in each for each in found.doubtful)
    assert any("broke a rule of the audit" in note for note in found.run.notes)


def test_a_tunnel_that_is_faster_than_none_is_reported() -> None:
    def faster(whole: dict[str, Any]) -> None:
        for trial in whole["trials"]:
            if trial["tcp"] and trial["spec"]["tunnel"]["name"] == "vxlan":
                for name in ("bytes_received", "bytes_sent"):
                    trial["tcp"][name] *= 8
                trial["tcp"]["counters"]["data_packets"] *= 8

    (sentence,) = {each for each in read(changed(faster)).doubtful if "1448 down" in each}
    assert "vxlan, 1448 down: share-of-baseline" in sentence


def spoil(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(whole: dict[str, Any]) -> None:
        place: Any = whole if path[0] != "trial" else first(whole)
        rest = path[1:] if path[0] == "trial" else path
        for key in rest[:-1]:
            place = place[key]
        place[rest[-1]] = to

    return change


WRONG: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "it is not JSON: line 1"),
    "no text": (b"\xff\xfe\x00", "it is not UTF-8"),
    "half": (PLAIN.encode()[:5000], "it is not JSON"),
    "huge": (b" " * (LARGEST_BYTES + 1), "larger than 64 MB"),
    "deep": (b"[" * 200_000, "nested too deeply"),
    "deep objects": (changed(spoil("run", "host_facts", to=json.loads("[" * 60 + "]" * 60))), "nested too deeply"),
    "an array": (b"[]", "not an object"),
    "another kind": (b'{"format": "flent"}', "its format is not tunnelbench-run"),
    "newer": (changed(spoil("format_number", to=99)), "it has format 99"),
    "not a number": (b'{"format": "tunnelbench-run", "x": NaN}', "it contains an invalid number: NaN"),
    "infinite": (b'{"format": "tunnelbench-run", "x": 1e999}', "too large: 1e999"),
    "many digits": (b'{"format": "tunnelbench-run", "x": ' + b"9" * 5000 + b"}", "number: it has too many digits"),
    "more than a store holds": (changed(spoil("run", "trials_planned", to=2**70)), "a number in it is too large"),
    "a NUL byte": (changed(spoil("run", "tunnelbench_version", to="0.1.0\0")), "a text in it holds a NUL byte"),
    "a long text": (changed(spoil("run", "plan_text", to="x" * 1_000_001)), "more than 1000000 characters"),
    "changed": (changed(spoil("run", "plan_title", to="better"), sealed=False), "its checksum does not match"),
    "a wrong type": (changed(spoil("trial", "tcp", "bytes_received", to="many")),
                     'tcp.bytes_received: must be a whole number, not the string "many"'),
    "a proof before the first": (changed(spoil("trial", "proof", to=-1)), "proof: must be at least 0, not -1"),
    "true for a number": (changed(spoil("trial", "tcp", "bytes_received", to=True)), "tcp.bytes_received"),
    "a field too many": (changed(spoil("run", "evil", to=1)), "run.evil: is not a field of an exported run"),
    "a field of the file too many": (changed(spoil("evil", to=1)), "evil: is not a field of an exported run"),
    "no object": (changed(spoil("trial", "tcp", to=1)), "tcp: must be an object"),
    "a field too few": (changed(lambda whole: whole["run"].pop("status")), "run.status: is missing"),
    "an unknown outcome": (changed(spoil("trial", "outcome", to="<b>best</b>")), "outcome"),
    "less than nothing": (changed(spoil("trial", "tcp", "bytes_received", to=-5)), "bytes_received is -5"),
    "no time": (changed(spoil("trial", "tcp", "window", "duration_s", to=0)), "a time in which it counted"),
    "idle for too long": (changed(spoil("trial", "tcp", "window", "router_cpu", "idle_s", to=1e6)), "CPUs were idle"),
    "no CPU": (changed(spoil("trial", "tcp", "window", "tester_cpu", "cpus", to=[])), "a CPU was observed for 0 s"),
    "too many checks": (changed(lambda whole: first(whole)["checks"].extend(
                        {"name": f"c{number}", "verdict": "doubtful", "reason": "", "rule": 1} for number in range(200)
                        )), "have more than 200 kinds of checks"),
    "too many places": (changed(spoil("trial", "tcp", "window", "router_instruction_shares",
                        to={f"a/{number}": 1e-6 for number in range(1001)})), "have more than 1000 places"),
    "more than all": (changed(spoil("trial", "tcp", "window", "router_instruction_shares", to={"a": 0.6, "b": 0.5})),
                      "are more than 1 together"),
    "TCP for no time": (changed(spoil("trial", "tcp", "duration_s", to=0)), "it took 0 s"),
    "TCP for a moment": (changed(spoil("trial", "tcp", "duration_s", to=1e-300)), "duration_s is 1e-300"),
    "a CPU for a moment": (changed(spoil("trial", "tcp", "window", "tester_cpu", "wall_s", to=1e-300)), "wall_s is"),
    "a moment's ping": (changed(spoil("trial", "tcp", "sender", to={"busy_s": 1, "receiver_window_s": 0,
                        "send_buffer_s": 0, "rtt_ms": 1e-300})), "rtt_ms is 1e-300"),
    "a huge payload": (changed(spoil("trial", "spec", "payload_bytes", to=10**18)), "payload_bytes is 1e+18"),
    "a huge number": (changed(spoil("trial", "spec", "sequence", to=2**62)), "sequence is 4.61169e+18"),
    "the year 9999": (changed(spoil("run", "started_at", to="9999-12-31T23:59:59+00:00")), "time of its start"),
    "an end in the year 1": (changed(spoil("run", "ended_at", to="0001-01-01T00:00:00+00:00")), "time of its end"),
    "an end in 9999": (changed(spoil("trial", "ended_at", to="9999-12-31T23:59:59+00:00")), "time of its end"),
    "a key twice": (PLAIN.replace('"run_id"', '"run_id": "x", "run_id"', 1).encode(), "the key 'run_id' twice"),
    "too many values": (b'{"format": "tunnelbench-run", "x": [' + b"{}," * 1_500_001 + b"{}]}", "more than 3000000"),
    "no such proof": (changed(spoil("trial", "proof", to=999)), "names proof 999, which"),
    "twice": (changed(lambda whole: whole["trials"].append(whole["trials"][0])), "have the same sequence number"),
    "no date": (changed(spoil("run", "started_at", to="<script>")), "has no valid time"),
    "a date without a zone": (changed(spoil("run", "started_at", to="2025-03-14")), "has no valid time"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_gets_one_sentence(name: str) -> None:
    content, sentence = WRONG[name]
    with pytest.raises(WrongInput) as caught:
        read(content)
    assert sentence in caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 700
    assert caught.value.hint


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_no_bytes_do_more_than_be_refused(content: bytes) -> None:
    with pytest.raises(WrongInput):
        read(content)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_whatever_value_is_changed_it_is_read_or_refused(data: st.DataObject) -> None:
    whole = json.loads(SMALL)
    place: Any = whole
    while isinstance(place, dict | list) and place:
        parent, key = place, data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        place = parent[key]
    parent[key] = data.draw(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.just([]) | st.just({})
    )
    whole[CHECKSUM] = checksum(whole)
    try:
        found = read(json.dumps(whole).encode())
    except WrongInput:
        return
    for name in ("terminal", "html", "json", "csv"):
        render(found.run, found.records, name)


SMALL = export(make_run(), (*excerpt(), *make_udp_records()[20:26]), make_speeds()).text


def test_a_run_in_which_every_text_is_hostile_goes_there_and_back() -> None:
    run, records = hostile_run()
    run = replace(run, started_at="2025-03-14T09:26:53+00:00")
    found = read(export(run, records).text.encode())
    assert len(found.records) == len(records)
