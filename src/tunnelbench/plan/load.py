"""Loading of plan and testbed files, from a name or a path to the model, with all schema errors together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import tomli_w

from tunnelbench.model.conditions import CONDITION_OPTIONS
from tunnelbench.model.plan import BRIDGED_OPTION, CLIENTS_OPTION, GATEWAY_NEEDED, HANDSHAKES_OPTION, Plan
from tunnelbench.model.shipped import shipped_plans, shipped_testbeds
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.plan.check import check_table, unknown_key
from tunnelbench.plan.errors import Faults, FileError, FileErrors
from tunnelbench.plan.files import Source, read_path, read_plan_source, read_testbed_source
from tunnelbench.plan.key_positions import KeyPath
from tunnelbench.plan.messages import did_you_mean, key_text, not_one_of
from tunnelbench.plan.overrides import Override, apply_overrides, parse_override
from tunnelbench.plan.parse import parse
from tunnelbench.plan.schema import PLAN_KEYS, PlanFile
from tunnelbench.plan.testbed_schema import TESTBED_KEYS, Kinds, TestbedFile, setting_faults
from tunnelbench.plan.tunnels import (
    Schemas,
    check_clients,
    check_content,
    check_filters,
    check_rekeys,
    check_sharing,
    check_size,
    check_tcp_options,
    check_versions,
    expand_blocks,
    read_blocks,
    with_clients,
    with_first_client,
    with_rekeying_clients,
    with_tcp_options,
)

NO_KINDS: Mapping[str, str] = MappingProxyType({})
NO_TUNNELS: Mapping[str, Sequence[Mapping[str, Any]]] = MappingProxyType({})
NOTHING_REFUSED: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class LoadedPlan:
    """A plan and its file."""

    plan: Plan
    text: str
    """TOML that is stored with a run: the text of the file, or a new rendering if `--set` changed values."""


@dataclass(frozen=True)
class LoadedTestbed:
    """A testbed and its file."""

    testbed: TestbedSpec
    text: str
    """TOML that is stored with a run, as in LoadedPlan."""


def read_plan(
    reference: str,
    schemas: Schemas,
    overrides: Sequence[str] = (),
    known_kinds: Mapping[str, str] = NO_KINDS,
    shipped_tunnels: Mapping[str, Sequence[Mapping[str, Any]]] = NO_TUNNELS,
    *,
    refused: Mapping[str, str] = NOTHING_REFUSED,
) -> LoadedPlan:
    """Read a plan by its shipped name or its path (which has a `/` or ends in `.toml`) and expand its tunnels.

    `schemas` maps a tunnel's kind to the model of its options. `known_kinds` maps a kind without an adapter to the
    reason: its tunnels may have any options. `shipped_tunnels` are the `[[tunnel]]` entries, by the plan's name, that
    adapters add to shipped plans. `overrides` are texts such as `tcp.duration_s=2`. `refused` maps each table that the
    testbed cannot run to the reason. Raises FileErrors with all errors of the file, WrongInput for a name that is not
    shipped.
    """
    return _load_plan(read_plan_source(reference, shipped_tunnels), schemas, overrides, known_kinds, refused)


def stored_plan(name: str, text: str, schemas: Schemas, known_kinds: Mapping[str, str] = NO_KINDS) -> LoadedPlan:
    """Return a plan from the text that is stored with a run. Raises as `read_plan`."""
    return _load_plan(Source(name, f"the stored plan {name}", text), schemas, (), known_kinds)


def _load_plan(
    source: Source,
    schemas: Schemas,
    overrides: Sequence[str],
    known_kinds: Mapping[str, str],
    refused: Mapping[str, str] = NOTHING_REFUSED,
) -> LoadedPlan:
    data, faults = _open(source, overrides)
    plan = _plan(data, source.name, schemas, known_kinds, faults)
    _refuse(data, refused, faults)
    if faults.errors or plan is None:
        raise FileErrors(faults.errors)
    return LoadedPlan(plan, tomli_w.dumps(data) if overrides else source.text)


def read_testbed(reference: str, kinds: Kinds, overrides: Sequence[str] = ()) -> LoadedTestbed:
    """Read a testbed of one of the known `kinds` by its shipped name or its path. Raises as `read_plan`."""
    return _load_testbed(read_testbed_source(reference), overrides, kinds)


def stored_testbed(name: str, text: str, kinds: Kinds) -> LoadedTestbed:
    """Return a testbed from the text that is stored with a run. Raises as `read_plan`."""
    return _load_testbed(Source(name, f"the stored testbed {name}", text), (), kinds)


def _load_testbed(source: Source, overrides: Sequence[str], kinds: Kinds) -> LoadedTestbed:
    data, faults = _open(source, overrides)
    testbed = _testbed(data, source.name, kinds, faults)
    if faults.errors or testbed is None:
        raise FileErrors(faults.errors)
    return LoadedTestbed(testbed, tomli_w.dumps(data) if overrides else source.text)


def check_file(
    path: str,
    schemas: Schemas,
    kinds: Kinds,
    known_kinds: Mapping[str, str] = NO_KINDS,
    refused: Mapping[str, str] = NOTHING_REFUSED,
    *,
    shipped_tunnels: Mapping[str, Sequence[Mapping[str, Any]]] = NO_TUNNELS,
) -> list[FileError]:
    """Return all errors of a plan or testbed, by its shipped name or its path, in the order of the file.

    It never raises for what a file holds. `schemas`, `known_kinds`, `refused` and `shipped_tunnels` are those of
    `read_plan`, `kinds` those of `read_testbed`.
    """
    try:
        if path in shipped_plans():
            source = read_plan_source(path, shipped_tunnels)
        else:
            source = read_testbed_source(path) if path in shipped_testbeds() else read_path(path)
        data, faults = _open(source, ())
    except FileErrors as error:
        return list(error.errors)
    if "tunnel" in data:
        _plan(data, source.name, schemas, known_kinds, faults)
        _refuse(data, refused, faults)
    elif "kind" in data:
        _testbed(data, source.name, kinds, faults)
    else:
        faults.add((), "is no plan (it has no [[tunnel]]) and no testbed (it has no kind at its top)")
        for key in data:
            if hint := did_you_mean(key, ("tunnel", "kind")):
                faults.add((key,), f"unknown key{hint}")
    return list(FileErrors(faults.errors).errors)


def override_target(text: str) -> Literal["plan", "testbed"]:
    """Return the file to which a `--set` belongs, by its first key; `title` is the plan's. Raises FileErrors."""
    override = parse_override(text)
    first = override.path[:1]
    if first in PLAN_KEYS:
        return "plan"
    if first in TESTBED_KEYS:
        return "testbed"
    message = unknown_key(first, (*PLAN_KEYS, *TESTBED_KEYS))
    raise FileErrors([FileError(override.flag, None, None, str(first[0]), message)])


def _open(source: Source, overrides: Sequence[str]) -> tuple[dict[str, Any], Faults]:
    """Return the values of a file with the overrides applied, and the errors of the flags. Raises FileErrors."""
    parsed = parse(source.text, source.file)
    faults = Faults(source.file, parsed.located)
    understood: list[Override] = []
    for text in overrides:
        try:
            understood.append(parse_override(text))
        except FileErrors as error:
            faults.extend(error.errors)
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
    if file:
        check_tcp_options(blocks, file, faults)
        blocks = with_tcp_options(blocks, file)
    if file and file.clients:
        blocks = with_clients(blocks, {CLIENTS_OPTION: file.clients.count}, "clients", schemas, faults)
    if file and file.handshake:
        values = {CLIENTS_OPTION: [1], HANDSHAKES_OPTION: file.handshake.parallel}
        blocks = with_clients(blocks, values, "handshake", schemas, faults)
    blocks = with_first_client(blocks)
    if file and file.udp and file.udp.is_of_rekeys:
        blocks = with_rekeying_clients(blocks, schemas)
    factors: dict[KeyPath, int] = {}
    if file:
        factors[("rounds",)] = file.rounds
        factors |= _factors(file)
    if not check_size(blocks, factors, faults):
        return None
    tunnels = expand_blocks(blocks, schemas, faults)
    if file is None:
        return None
    check_clients(blocks, file, schemas, faults)
    check_rekeys(blocks, file, schemas, faults)
    check_sharing(blocks, file, faults)
    check_filters(blocks, file, faults)
    check_versions(blocks, file, faults)
    check_content(blocks, file, faults)
    tcp, udp = file.traffic()
    seconds = file.cipher_speed.seconds if file.cipher_speed else None
    soak = file.soak.traffic() if file.soak else None
    connections = file.connections.traffic() if file.connections else None
    return Plan(name, file.title, tunnels, tcp, file.rounds, seconds, udp, soak, connections)


def _factors(file: PlanFile) -> dict[KeyPath, int]:
    """Return how many trials one tunnel has in a round, as one entry under the key that contributes most to the
    number."""
    tcp, udp = file.traffic()
    counts: dict[KeyPath, int] = {}
    if tcp:
        counts[("tcp", "payload_bytes")] = len(tcp.payload_bytes) * len(tcp.direction)
    if udp:
        tests = sum(len(udp.loads(test)) for test in udp.tests)
        counts[("udp" if file.udp else "handshake", "payload_bytes")] = (
            len(udp.payload_bytes) * len(udp.direction) * tests
        )
    if file.connections:
        opened = file.connections.traffic()
        counts["connections", "rate"] = sum(len(opened.loads(test)) for test in opened.tests)
    if file.soak:
        counts["soak", "payload_bytes"] = len(file.soak.payload_bytes) * len(file.soak.direction)
    largest = max(counts, key=lambda path: counts[path])
    return {largest: sum(counts.values())}


def _refuse(data: Mapping[str, Any], refused: Mapping[str, str], faults: Faults) -> None:
    """Add an error for each table and option that a testbed refuses and that changes something.

    A key that has an error already gets no second one: its value will change.
    """
    known = {error.key for error in faults.errors}
    blocks = data.get("tunnel")
    places: list[tuple[KeyPath, Any]] = [((), data), (("tcp",), data.get("tcp"))]
    places += [(("tunnel", number), block) for number, block in enumerate(blocks if isinstance(blocks, list) else [])]
    for key, reason in refused.items():
        for path, table in places:
            is_known = key_text((*path, key)) in known
            if isinstance(table, Mapping) and key in table and _changes(key, table[key]) and not is_known:
                faults.add((*path, key), reason)


USUAL_VALUES: Mapping[str, object] = {**CONDITION_OPTIONS, BRIDGED_OPTION: False, GATEWAY_NEEDED: False}
"""Options and keys that a testbed may refuse, each with the value that a tunnel or a plan has without it."""


def _changes(key: str, value: object) -> bool:
    """Return True if a key of a plan has another value than the one that is used without the key."""
    values = value if isinstance(value, list) else [value]
    return key not in USUAL_VALUES or any(each != USUAL_VALUES[key] for each in values)


def _testbed(data: Mapping[str, Any], name: str, kinds: Kinds, faults: Faults) -> TestbedSpec | None:
    if "tunnel" in data and "kind" not in data:
        faults.add(("tunnel",), "this is a plan; a testbed has a kind and no tunnels")
        return None
    file = check_table(TestbedFile, data, TESTBED_KEYS, faults)
    kind = data.get("kind")
    if isinstance(kind, str) and kind not in kinds:
        faults.add(("kind",), not_one_of(kind, sorted(kinds)))
    elif isinstance(kind, str):
        known = {error.key for error in faults.errors}
        for path, message in setting_faults(kind, data, kinds):
            if key_text(path) not in known:
                faults.add(path, message)
    return file.spec(name) if file else None
