"""Plan and testbed files, from a name or a path to the words of the model, with every fault at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import tomli_w

from tunnelbench.model.plan import Plan
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.plan.check import check_table, unknown_key
from tunnelbench.plan.errors import Faults, FileError, FileErrors
from tunnelbench.plan.files import Source, read_path, read_plan_source, read_testbed_source
from tunnelbench.plan.locate import KeyPath
from tunnelbench.plan.overrides import Override, apply_overrides, parse_override
from tunnelbench.plan.parse import parse
from tunnelbench.plan.schema import PLAN_KEYS, PlanFile
from tunnelbench.plan.testbed_schema import TESTBED_KEYS, TestbedFile
from tunnelbench.plan.tunnels import Schemas, check_size, expand_blocks, read_blocks
from tunnelbench.plan.wording import did_you_mean, not_one_of

TESTBED_KINDS = ("netns", "ssh")

_ONLY_IN_PLANS = {path[0] for path in PLAN_KEYS} - {path[0] for path in TESTBED_KEYS}
_ONLY_IN_TESTBEDS = {path[0] for path in TESTBED_KEYS} - {path[0] for path in PLAN_KEYS}
"""By these the rest of a broken file is told."""

NO_KINDS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class LoadedPlan:
    """A plan and its file."""

    plan: Plan
    text: str
    """TOML as it is stored with a run: the file's own text, or where `--set` changed it, rendered anew."""


@dataclass(frozen=True)
class LoadedTestbed:
    """A testbed and its file."""

    testbed: TestbedSpec
    text: str
    """As in LoadedPlan."""


def read_plan(
    reference: str,
    schemas: Schemas,
    overrides: Sequence[str] = (),
    known_kinds: Mapping[str, str] = NO_KINDS,
) -> LoadedPlan:
    """Read a plan by its shipped name or its path (which has a `/` or ends in `.toml`) and expand its tunnels.

    `schemas` maps a tunnel's kind to the model of its options, `known_kinds` a kind that cannot be set up yet to the
    reason: its tunnels are taken with any options. `overrides` are texts such as `tcp.duration_s=2`. Raises FileErrors
    with all that is wrong, WrongInput for a name that is not shipped.
    """
    return _load_plan(read_plan_source(reference), schemas, overrides, known_kinds)


def stored_plan(name: str, text: str, schemas: Schemas, known_kinds: Mapping[str, str] = NO_KINDS) -> LoadedPlan:
    """A plan from its text, as it is stored with a run. Raises as `read_plan`."""
    return _load_plan(Source(name, f"the stored plan {name}", text), schemas, (), known_kinds)


def _load_plan(
    source: Source, schemas: Schemas, overrides: Sequence[str], known_kinds: Mapping[str, str]
) -> LoadedPlan:
    data, faults = _open(source, overrides)
    plan = _plan(data, source.name, schemas, known_kinds, faults) if data is not None else None
    if faults.errors or plan is None or data is None:
        raise FileErrors(faults.errors)
    return LoadedPlan(plan, tomli_w.dumps(data) if overrides else source.text)


def read_testbed(
    reference: str, overrides: Sequence[str] = (), kinds: Collection[str] = TESTBED_KINDS
) -> LoadedTestbed:
    """Read a testbed by its shipped name or its path; `kinds` are those that there are. Raises as `read_plan`."""
    return _load_testbed(read_testbed_source(reference), overrides, kinds)


def stored_testbed(name: str, text: str, kinds: Collection[str] = TESTBED_KINDS) -> LoadedTestbed:
    """A testbed from its text, as it is stored with a run. Raises as `read_plan`."""
    return _load_testbed(Source(name, f"the stored testbed {name}", text), (), kinds)


def _load_testbed(source: Source, overrides: Sequence[str], kinds: Collection[str]) -> LoadedTestbed:
    data, faults = _open(source, overrides)
    testbed = _testbed(data, source.name, kinds, faults) if data is not None else None
    if faults.errors or testbed is None or data is None:
        raise FileErrors(faults.errors)
    return LoadedTestbed(testbed, tomli_w.dumps(data) if overrides else source.text)


def check_file(
    path: str,
    schemas: Schemas,
    known_kinds: Mapping[str, str] = NO_KINDS,
    testbed_kinds: Collection[str] = TESTBED_KINDS,
) -> list[FileError]:
    """Everything that is wrong in a plan or testbed file, in the order of the file; never raises for what it holds."""
    try:
        source = read_path(path)
    except FileErrors as error:
        return list(error.errors)
    data, faults = _open(source, ())
    if data is not None and data.keys() & (_ONLY_IN_PLANS if faults.partial else {"tunnel"}):
        _plan(data, source.name, schemas, known_kinds, faults)
    elif data is not None and data.keys() & (_ONLY_IN_TESTBEDS if faults.partial else {"kind"}):
        _testbed(data, source.name, testbed_kinds, faults)
    else:
        message = "is no plan (it has no [[tunnel]]) and no testbed (it has no kind at its top)"
        faults.add((), message, needs_whole_file=True)
        for key in data or ():
            if hint := did_you_mean(key, ("tunnel", "kind")):
                faults.add((key,), f"unknown key{hint}")
    return list(FileErrors(faults.errors).errors)


def override_target(text: str) -> Literal["plan", "testbed"]:
    """The file to which a `--set` belongs, by its first key; `title` is the plan's. Raises FileErrors."""
    override = parse_override(text)
    first = override.path[:1]
    if first in PLAN_KEYS:
        return "plan"
    if first in TESTBED_KEYS:
        return "testbed"
    message = unknown_key(first, (*PLAN_KEYS, *TESTBED_KEYS))
    raise FileErrors([FileError(override.flag, None, None, str(first[0]), message)])


def _open(source: Source, overrides: Sequence[str]) -> tuple[dict[str, Any] | None, Faults]:
    """The values of a file with the overrides in place; None where nothing of the file can be read."""
    parsed = parse(source.text, source.file)
    faults = Faults(source.file, parsed.located, partial=bool(parsed.errors))
    faults.extend(parsed.errors)
    understood: list[Override] = []
    for text in overrides:
        try:
            understood.append(parse_override(text))
        except FileErrors as error:
            faults.extend(error.errors)
    if parsed.data is None:
        return None, faults
    data, faults.flags, errors = apply_overrides(parsed.data, understood)
    faults.extend(errors)
    return data, faults


def _plan(
    data: Mapping[str, Any], name: str, schemas: Schemas, known_kinds: Mapping[str, str], faults: Faults
) -> Plan | None:
    if "tunnel" not in data and "kind" in data:
        faults.add((), "is a testbed; a plan has [[tunnel]] blocks")
        return None
    file = check_table(PlanFile, {key: value for key, value in data.items() if key != "tunnel"}, PLAN_KEYS, faults)
    blocks = read_blocks(data.get("tunnel", []), schemas, known_kinds, faults)
    factors: dict[KeyPath, int] = {}
    if file:
        factors[("rounds",)] = file.rounds
        factors |= _factors(file)
    if not check_size(blocks, factors, faults):
        return None
    tunnels = expand_blocks(blocks, schemas, faults)
    if file is None:
        return None
    tcp, udp = file.traffic()
    seconds = file.cipher_speed.seconds if file.cipher_speed else None
    soak = file.soak.traffic() if file.soak else None
    return Plan(name, file.title, tunnels, tcp, file.rounds, seconds, udp, soak)


def _factors(file: PlanFile) -> dict[KeyPath, int]:
    """How many trials a tunnel has in a round, at the key that makes most of them."""
    tcp, udp = file.traffic()
    counts: dict[KeyPath, int] = {}
    if tcp:
        counts[("tcp", "payload_bytes")] = len(tcp.payload_bytes) * len(tcp.direction)
    if udp:
        tests = sum(len(udp.loads(test)) for test in udp.tests)
        counts[("udp", "payload_bytes")] = len(udp.payload_bytes) * len(udp.direction) * tests
    if file.soak:
        counts["soak", "payload_bytes"] = len(file.soak.payload_bytes) * len(file.soak.direction)
    largest = max(counts, key=lambda path: counts[path])
    return {largest: sum(counts.values())}


def _testbed(data: Mapping[str, Any], name: str, kinds: Collection[str], faults: Faults) -> TestbedSpec | None:
    if "tunnel" in data and "kind" not in data:
        faults.add(("tunnel",), "this is a plan; a testbed has a kind and no tunnels")
        return None
    file = check_table(TestbedFile, data, TESTBED_KEYS, faults)
    kind = data.get("kind")
    if isinstance(kind, str) and kind not in kinds:
        faults.add(("kind",), not_one_of(kind, sorted(kinds)))
    return file.spec(name) if file else None
