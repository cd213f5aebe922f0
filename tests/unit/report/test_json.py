"""JSON for programs: complete, and nothing but JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.builders import make_proof, make_records, make_run, make_spec, make_tcp, make_trial
from tests.unit.report.hostile import HOSTILE, hostile_run

from tunnelbench.report.render import render


def read(text: str) -> Any:
    return json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))


def test_it_holds_the_run_the_rows_what_load_cost_the_doubts_and_the_trials() -> None:
    found = read(render(make_run(), make_records(), "json"))
    assert list(found) == [
        "is_simulated",
        "run",
        "answer",
        "rows",
        "advice",
        "cost_models",
        "cost_parts",
        "packet_instructions",
        "tunnel_starts",
        "cipher_speeds",
        "quiet",
        "soaks",
        "udp_rows",
        "connection_rows",
        "doubts",
        "trials",
    ]
    assert found["run"]["host_facts"]["cpu_model"] == "AMD EPYC 7B13"
    assert (len(found["rows"]), len(found["trials"])) == (36, 100)
    refused = [row for row in found["rows"] if row["tunnel"]["name"] == "tinc BF-CBC, SHA-1"]
    assert [row["figures"] for row in refused] == [None] * 4
    assert refused[0]["comments"][0].startswith("refused: ")
    assert found["doubts"][0]["where"] == "every trial"


def test_a_trial_is_as_stored_with_the_figures_that_follow() -> None:
    record = make_trial(make_spec(1, tunnel="vxlan"), make_tcp(1e8, daemon_cpu_s=4.0), proof=make_proof("vxlan"))
    (trial,) = read(render(make_run(), (record,), "json"))["trials"]
    assert record.tcp is not None
    assert trial["spec"]["tunnel"] == {"kind": "vxlan", "name": "vxlan", "options": {}}
    assert trial["tcp"]["window"]["router_cpu"]["cpus"] == [1]
    assert trial["raw"] == record.raw
    assert (trial["class"], trial["counts"]) == ("ok", True)
    assert trial["figures"]["throughput_bps"] == record.tcp.throughput_bps
    assert trial["figures"]["daemon_busy_share"] == 0.5


def test_what_json_has_no_number_for_is_null() -> None:
    record = replace(make_trial(), raw={"nan": float("nan"), "far": [float("inf")]})
    (trial,) = read(render(make_run(), (record,), "json"))["trials"]
    assert trial["raw"] == {"nan": None, "far": [None]}


def test_hostile_text_comes_out_as_it_went_in() -> None:
    text = render(*hostile_run(), "json")
    assert text.isascii()
    assert "\x1b" not in text
    found = read(text)
    assert found["trials"][0]["spec"]["tunnel"]["name"] == HOSTILE
    assert found["run"]["notes"] == [HOSTILE]
