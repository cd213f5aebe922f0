"""The `[[tunnel]]` blocks of a plan: checked, expanded, named."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from pydantic import BaseModel

from tunnelbench.model.plan import BASELINE_KIND, OptionValue, TunnelSpec
from tunnelbench.model.text import printable
from tunnelbench.plan import expand
from tunnelbench.plan.check import Problem, check_options, unknown_key
from tunnelbench.plan.errors import Faults
from tunnelbench.plan.locate import KeyPath
from tunnelbench.plan.schema import PLAN_KEYS
from tunnelbench.plan.tables import LONGEST_NAME
from tunnelbench.plan.wording import did_you_mean, not_one_of, quoted, value_text

MOST_TRIALS = 100_000

Schemas = Mapping[str, type[BaseModel]]
"""Tunnel kind to the model of its options."""

_RESERVED = ("kind", "name")


class Block(NamedTuple):
    """One `[[tunnel]]` as far as it can be told without its combinations."""

    path: KeyPath
    kind: str
    name: str | None
    choices: Mapping[str, Sequence[OptionValue]]
    """Each option's values, in the order of the file."""
    is_sound: bool
    """Whether no option was left out for a fault of its own."""
    is_named: bool
    """Whether `name` is what the file says; a name at fault is left out."""


def read_blocks(tables: Any, schemas: Schemas, known_kinds: Mapping[str, str], faults: Faults) -> list[Block]:
    """The blocks of a plan; what is wrong is noted in `faults`, and the block goes on without it where it can."""
    if isinstance(tables, dict):
        faults.add(("tunnel",), "must be written [[tunnel]], with two brackets on each side")
        return []
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        faults.add(("tunnel",), "must be blocks that start with [[tunnel]]")
        return []
    if not tables:
        faults.add(("tunnel",), "a plan has at least one [[tunnel]]", needs_whole_file=True)
    blocks = [
        _read_block(("tunnel", number), table, schemas, known_kinds, faults) for number, table in enumerate(tables)
    ]
    return [block for block in blocks if block]


def expand_blocks(blocks: Sequence[Block], schemas: Schemas, faults: Faults) -> tuple[TunnelSpec, ...]:
    """All tunnels of a plan, the baseline first; faults of single combinations and of names are noted."""
    tunnels = [(block, tunnel) for block in blocks for tunnel in _expand_block(block, schemas, faults)]
    _check_names(tunnels, faults)
    baselines = [(block, tunnel) for block, tunnel in tunnels if tunnel.is_baseline]
    for block, _ in baselines[1:]:
        line = faults.line_of(baselines[0][0].path)
        faults.add(block.path, f'the baseline (kind = "{BASELINE_KIND}") is there already, on line {line}')
    others = tuple(tunnel for _, tunnel in tunnels if not tunnel.is_baseline)
    if baselines:
        return (baselines[0][1], *others)
    options = check_options(schemas[BASELINE_KIND], {})[0] if BASELINE_KIND in schemas else {}
    return (TunnelSpec(BASELINE_KIND, BASELINE_KIND, options), *others)


def check_size(blocks: Sequence[Block], other_factors: Mapping[KeyPath, int], faults: Faults) -> bool:
    """Whether the plan stays within the number of trials that anybody could run; the largest factor is blamed."""
    counts = {block.path: expand.count(block.choices) for block in blocks}
    tunnels = sum(counts.values()) + all(block.kind != BASELINE_KIND for block in blocks)
    trials = tunnels * math.prod(other_factors.values())
    if trials <= MOST_TRIALS:
        return True
    factors = {**other_factors, **counts}
    message = f"the plan has {_amount(trials)} trials, more than {MOST_TRIALS}: take fewer values or fewer rounds"
    faults.add(max(factors, key=lambda path: factors[path]), message)
    return False


def _read_block(
    path: KeyPath, table: Mapping[str, Any], schemas: Schemas, known_kinds: Mapping[str, str], faults: Faults
) -> Block | None:
    kind = table.get("kind")
    kinds = sorted({*schemas, *known_kinds})
    if kind is None:
        faults.add((*path, "kind"), f"is missing; it is one of {', '.join(kinds)}", needs_whole_file=True)
        return None
    if not isinstance(kind, str) or kind not in kinds:
        faults.add((*path, "kind"), not_one_of(kind, kinds))
        return None
    schema = schemas.get(kind)
    known = [*PLAN_KEYS, *((*path, option) for option in (*_RESERVED, *(schema.model_fields if schema else ())))]
    choices: dict[str, Sequence[OptionValue]] = {}
    for option, given in table.items():
        if option in _RESERVED:
            continue
        if schema and option not in schema.model_fields:
            faults.add((*path, option), unknown_key((*path, option), known))
        elif values := _values((*path, option), given, faults):
            choices[option] = values
    name = _template(path, table.get("name"), schema.model_fields if schema else choices, faults)
    return Block(
        path,
        kind,
        name,
        choices,
        is_sound=len(choices) == len(table.keys() - set(_RESERVED)),
        is_named=name == table.get("name"),
    )


def _values(path: KeyPath, given: Any, faults: Faults) -> list[OptionValue]:
    """The values of one option; none where one of them is at fault."""
    values = given if isinstance(given, list) else [given]
    if not values:
        faults.add(path, "must have at least 1 value")
    is_sound = True
    seen: set[tuple[type, OptionValue]] = set()  # with their types: 1, 1.0 and true are equal to Python
    for number, value in enumerate(values):
        message = _value_fault(value)
        if not message and (type(value), value) in seen:
            message = f"{value_text(value)} is given twice"
        if message:
            faults.add((*path, number) if isinstance(given, list) else path, message)
            is_sound = False
        else:
            seen.add((type(value), value))
    return values if is_sound else []


def _value_fault(value: Any) -> str:
    if not isinstance(value, str | int | float):
        return f"must be a string, a number, true or false, or a list of them, not {value_text(value)}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"must be a finite number, not {value}"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "is larger than the 64 bits of a TOML number"
    return ""


def _template(path: KeyPath, name: Any, options: Mapping[str, object], faults: Faults) -> str | None:
    if name is None:
        return None
    path = (*path, "name")
    if not isinstance(name, str):
        faults.add(path, f"must be a string, not {value_text(name)}")
        return None
    for placeholder in expand.PLACEHOLDER.findall(name):
        if placeholder not in options:
            faults.add(path, f"{{{placeholder}}} is no option of this tunnel{did_you_mean(placeholder, options)}")
            return None
    return name


def _expand_block(block: Block, schemas: Schemas, faults: Faults) -> list[TunnelSpec]:
    schema = schemas.get(block.kind)
    defaults = {key: _plain(field.default) for key, field in schema.model_fields.items()} if schema else {}
    varied = frozenset(option for option, values in block.choices.items() if len(values) > 1)
    tunnels = []
    for given in expand.combinations(block.choices):
        options, problems = check_options(schema, given) if schema else (given, [])
        for problem in problems:
            _note(problem, block, given, faults)
        if problems:
            continue
        if block.name is not None:
            name = expand.filled_name(block.name, options)
        else:
            values = {option: options.get(option, value) for option, value in given.items()}
            name = expand.default_name(block.kind, values, defaults, varied)
        tunnels.append(TunnelSpec(block.kind, name, options))
    return tunnels


def _note(problem: Problem, block: Block, given: Mapping[str, OptionValue], faults: Faults) -> None:
    """A problem of one combination, at the very value of a list where one is at fault."""
    if not problem.path or problem.path[0] not in given:
        if block.is_sound:  # else it may be for want of what was left out
            faults.add((*block.path, *problem.path), problem.message, needs_whole_file=True)
        return
    option = str(problem.path[0])
    place = (*block.path, option)
    values = block.choices[option]
    if len(values) > 1:
        place = (*place, next(number for number, value in enumerate(values) if value is given[option]))
    faults.add(place, problem.message)


def _check_names(tunnels: Sequence[tuple[Block, TunnelSpec]], faults: Faults) -> None:
    owners: dict[str, Block] = {}
    told: set[KeyPath] = set()
    if not any(tunnel.is_baseline for _, tunnel in tunnels):
        owners[BASELINE_KIND] = Block((), BASELINE_KIND, None, {}, is_sound=True, is_named=True)
    for block, tunnel in tunnels:
        if not (block.is_sound and block.is_named):  # its names are not those that it will have
            continue
        place = (*block.path, "name") if block.name is not None else block.path
        if fault := _name_fault(tunnel.name):
            faults.add(place, fault)
        elif owner := owners.get(tunnel.name):
            if block.path not in told:  # once for a block, however many of its tunnels share names
                faults.add(place, _taken(tunnel.name, block, owner, faults), needs_whole_file=True)
            told.add(block.path)
        else:
            owners[tunnel.name] = block


def _name_fault(name: str) -> str:
    if not name.strip():
        return "the name is empty"
    if not name.isprintable():
        return f'the name "{printable(name)}" holds a line break or another control character'
    if name != name.strip():
        return f"the name {quoted(name)} starts or ends with a space"
    if len(name) > LONGEST_NAME:
        return f"the name {quoted(name)} has {len(name)} characters, more than {LONGEST_NAME}"
    return ""


def _taken(name: str, block: Block, owner: Block, faults: Faults) -> str:
    if not owner.path:
        return f"the name {quoted(name)} is that of the baseline, which is added to every plan"
    if owner is not block:
        return f"the name {quoted(name)} is taken by the tunnel on line {faults.line_of(owner.path)}"
    varied = [option for option, values in block.choices.items() if len(values) > 1]
    missing = [f"{{{option}}}" for option in varied if f"{{{option}}}" not in (block.name or "")]
    hint = f": put {' and '.join(missing)} into it" if missing else ""
    return f"several tunnels of this block have the name {quoted(name)}{hint}"


def _amount(number: int) -> str:
    return str(number) if number < 10**12 else "more than a million million"


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else value
