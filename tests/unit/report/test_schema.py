"""The JSON and CSV that the program writes match their schemas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from tests.unit.builders import make_records, make_run, make_speeds
from tests.unit.own_parts_run import SPEEDS
from tests.unit.own_parts_run import run as parts_run
from tests.unit.report.hostile import hostile_run
from tests.unit.udp_builders import make_udp_records

from tunnelbench.report.exchange import export
from tunnelbench.report.render import render
from tunnelbench.report.schema import SCHEMAS, schema

RUNS: dict[str, tuple[Any, Sequence[Any], Sequence[Any]]] = {
    "tcp": (make_run(), make_records(), make_speeds()),
    "udp": (make_run(), make_udp_records(), ()),
    "parts": (make_run(), parts_run(noise=0.02), SPEEDS),
    "hostile": (*hostile_run(), ()),
    "nothing": (make_run(status="running", ended_at=None, host_facts={}), (), ()),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_it_is_a_schema_that_says_which_draft(name: str) -> None:
    assert schema(name)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema(name))


@pytest.mark.parametrize("name", RUNS)
def test_reports_and_exported_runs_are_as_described(name: str) -> None:
    run, records, speeds = RUNS[name]
    Draft202012Validator(schema("report")).validate(json.loads(render(run, records, "json", speeds=speeds)))
    Draft202012Validator(schema("export")).validate(json.loads(export(run, records, speeds).text))


@pytest.mark.parametrize("path", [("run", "run_id"), ("trials", 0, "spec"), ("rows", 0, "payload_bytes"), ("doubts",)])
def test_a_field_of_another_type_is_not(path: tuple[str | int, ...]) -> None:
    whole = json.loads(render(*RUNS["tcp"][:2], "json"))
    place: Any = whole
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = {"no": "such thing"}
    with pytest.raises(ValidationError):
        Draft202012Validator(schema("report")).validate(whole)


@pytest.mark.parametrize("name", ["report", "export"])
def test_a_field_too_many_is_not(name: str) -> None:
    text = render(*RUNS["tcp"][:2], "json") if name == "report" else export(*RUNS["tcp"][:2]).text
    with pytest.raises(ValidationError):
        Draft202012Validator(schema(name)).validate({**json.loads(text), "evil": 1})
