"""The `[[tunnel]]` blocks of a plan: their checks, expansion and names."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol, runtime_checkable

from pydantic import BaseModel

from tunnelbench.model.conditions import CONDITION_OPTIONS, CONTENT_OPTION, TCP_OPTIONS, Content, conditions_of
from tunnelbench.model.firewall import FILTER_OPTIONS, filter_of
from tunnelbench.model.frames import udp_packet_bytes
from tunnelbench.model.ip_versions import INSIDE_OPTION, IpVersion
from tunnelbench.model.plan import (
    BASELINE_KIND,
    BASELINE_NAME,
    CLIENTS_OPTION,
    GATEWAY_NEEDED,
    HANDSHAKES_OPTION,
    IMIX_NAME,
    IMIX_PAYLOAD_BYTES,
    OTHERS_REKEY_OPTION,
    PROCESSES_OPTION,
    Direction,
    OptionValue,
    TunnelSpec,
)
from tunnelbench.model.text import counted, printable
from tunnelbench.model.udp import mean_payload_bytes
from tunnelbench.plan import expand
from tunnelbench.plan.check import Problem, check_options, unknown_key
from tunnelbench.plan.errors import Faults
from tunnelbench.plan.key_positions import KeyPath
from tunnelbench.plan.messages import did_you_mean, not_one_of, quoted, value_text
from tunnelbench.plan.schema import LONGEST_UDP_TRIAL_S, PLAN_KEYS, PlanFile
from tunnelbench.plan.schema_base import LONGEST_TUNNEL_NAME

MOST_PLANNED_TRIALS = 100_000

FLOWS_PER_TUNNEL = 8
"""Number of flows for each of several parallel tunnels with which one is hardly ever idle."""

Schemas = Mapping[str, type[BaseModel]]
"""Models of options by the kind of tunnel."""

_RESERVED = ("kind", "name")


class TunnelTable(NamedTuple):
    """One `[[tunnel]]` before its lists of options are combined."""

    path: KeyPath
    kind: str
    name: str | None
    choices: Mapping[str, Sequence[OptionValue]]
    """Values of each option, in the order of the file."""
    is_sound: bool
    """True if every option of the block is valid by itself; `choices` lacks the invalid options."""
    is_named: bool
    """True if `name` is the name in the file; an invalid name is None."""


def read_blocks(tables: Any, schemas: Schemas, known_kinds: Mapping[str, str], faults: Faults) -> list[TunnelTable]:
    """Return the blocks of a plan without their invalid options; adds the errors to `faults`."""
    if isinstance(tables, dict):
        faults.add(("tunnel",), "must be written [[tunnel]], with two brackets on each side")
        return []
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        faults.add(("tunnel",), "must be blocks that start with [[tunnel]]")
        return []
    if not tables:
        faults.add(("tunnel",), "a plan has at least one [[tunnel]]")
    blocks = [
        _read_block(("tunnel", number), table, schemas, known_kinds, faults) for number, table in enumerate(tables)
    ]
    return [block for block in blocks if block]


def expand_blocks(blocks: Sequence[TunnelTable], schemas: Schemas, faults: Faults) -> tuple[TunnelSpec, ...]:
    """Return all tunnels of a plan, the baseline first; adds errors of combinations and of names to `faults`."""
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
    return (TunnelSpec(BASELINE_KIND, BASELINE_NAME, options), *others)


def check_size(blocks: Sequence[TunnelTable], other_factors: Mapping[KeyPath, int], faults: Faults) -> bool:
    """Return True if the plan has at most MOST_PLANNED_TRIALS trials; else add an error at the key that multiplies them
    most."""
    counts = {block.path: expand.count(block.choices) for block in blocks}
    tunnels = sum(counts.values()) + all(block.kind != BASELINE_KIND for block in blocks)
    trials = tunnels * math.prod(other_factors.values())
    if trials <= MOST_PLANNED_TRIALS:
        return True
    factors = {**other_factors, **counts}
    amount = str(trials) if trials < 10**12 else "more than a million million"
    message = f"the plan has {amount} trials, more than {MOST_PLANNED_TRIALS}: take fewer values or fewer rounds"
    faults.add(max(factors, key=lambda path: factors[path]), message)
    return False


def with_clients(
    blocks: Sequence[TunnelTable],
    values: Mapping[str, Sequence[int]],
    table: str,
    schemas: Schemas,
    faults: Faults,
) -> list[TunnelTable]:
    """Return the blocks of a plan with the numbers of a `table`, such as `clients`, as values of options of a server.

    The baseline has no server, and stays as it is. Adds an error for each kind of tunnel that has no such option, and
    one if the baseline is the only tunnel.
    """
    if blocks and all(block.kind == BASELINE_KIND for block in blocks):
        kinds = _kinds_with(CLIENTS_OPTION, schemas)
        faults.add((table,), f"no tunnel of the plan has clients: add a [[tunnel]] of {kinds}")
    found = []
    for block in blocks:
        has_option = _has_option(block, CLIENTS_OPTION, schemas)
        if not has_option and block.kind != BASELINE_KIND:
            faults.add((*block.path, "kind"), _has_one_client(block.kind, f"[{table}]", schemas))
        found.append(_with_missing(block, values) if has_option else block)
    return found


def _has_one_client(kind: str, asked: str, schemas: Schemas) -> str:
    """Return the message for a kind of tunnel that has no server with clients; `asked` is the key that needs one."""
    return f"{value_text(kind)} has one client only; {asked} needs {_kinds_with(CLIENTS_OPTION, schemas)}"


def _kinds_with(option: str, schemas: Schemas) -> str:
    return ", ".join(sorted(kind for kind in schemas if option in schemas[kind].model_fields))


def _has_option(block: TunnelTable, option: str, schemas: Schemas) -> bool:
    return block.kind in schemas and option in schemas[block.kind].model_fields


def with_first_client(blocks: Sequence[TunnelTable]) -> list[TunnelTable]:
    """Return the blocks of a plan with `clients = 1` where `handshakes` needs it, as `[handshake]` sets it.

    So a plan without this table has no error about its number of clients.
    """
    first = {CLIENTS_OPTION: [1]}
    return [_with_missing(block, first) if HANDSHAKES_OPTION in block.choices else block for block in blocks]


def with_rekeying_clients(blocks: Sequence[TunnelTable], schemas: Schemas) -> list[TunnelTable]:
    """Return the blocks of a plan with the test `rekey`: of several clients, all but the first change their keys."""
    return [
        _with_missing(block, {OTHERS_REKEY_OPTION: [True]})
        if _has_option(block, OTHERS_REKEY_OPTION, schemas) and any(map(_are_several, _clients_of(block)))
        else block
        for block in blocks
    ]


def _clients_of(block: TunnelTable) -> Sequence[OptionValue]:
    return block.choices.get(CLIENTS_OPTION, ())


def _are_several(clients: OptionValue) -> bool:
    return isinstance(clients, int) and clients > 1


def check_clients(blocks: Sequence[TunnelTable], file: PlanFile, schemas: Schemas, faults: Faults) -> None:
    """Add an error for each number of clients and of handshakes that the plan's traffic cannot have."""
    times_rekeys = file.udp is not None and file.udp.is_of_rekeys
    tables = ("soak", "connections") if times_rekeys else ("udp", "soak", "connections")
    others = [name for name in tables if getattr(file, name)]
    for block in blocks:
        can_rekey = _has_option(block, OTHERS_REKEY_OPTION, schemas)
        if file.needs_gateway and CLIENTS_OPTION in block.choices:
            faults.add(
                (GATEWAY_NEEDED,),
                "the clients of a server connect to the router, so that no tunnel ends on a gateway: leave it out",
            )
        message = ""
        if others:
            message = f"several clients share out TCP: leave [{others[0]}] out"
            message += ', or set udp.test = "rekey"' * (can_rekey and others == ["udp"])
        elif times_rekeys and not can_rekey:
            message = (
                f"{value_text(block.kind)} has no option by which only other clients change their keys; the test "
                f'"rekey" of several clients needs {_kinds_with(OTHERS_REKEY_OPTION, schemas)}'
            )
        values = _clients_of(block)
        for number, value in enumerate(values if message else ()):
            if _are_several(value):
                faults.add(_place_of_value(block.path, CLIENTS_OPTION, values, number), message)
        if HANDSHAKES_OPTION in block.choices and not file.handshake:
            faults.add(
                (*block.path, HANDSHAKES_OPTION), "only a plan with [handshake] makes handshakes: add this table"
            )


@runtime_checkable
class TimedKeys(Protocol):
    """Options of a tunnel that state how often its keys change, as those of the adapters do."""

    rekey_option: str
    rekey_delay_s: float
    rekey_interval_s: float
    rekey_bytes_option: str
    rekey_bytes_delay_s: float
    rekey_bytes: float


def check_rekeys(blocks: Sequence[TunnelTable], file: PlanFile, schemas: Schemas, faults: Faults) -> None:
    """Add an error for each tunnel whose keys do not change in each trial of the test `rekey`."""
    if file.udp is None or not file.udp.has_rekeys:
        return
    traffic = file.udp.traffic()
    smallest_bytes = min(udp_packet_bytes(round(mean_payload_bytes(size))) for size in traffic.payload_bytes)
    least_bytes_per_s = smallest_bytes * min(float(rate) for rate in traffic.rate)
    for block in blocks:
        schema = schemas.get(block.kind)
        if schema is None or block.kind == BASELINE_KIND:
            continue
        if _never_changes_keys(schema):
            kind = f"a tunnel of kind {quoted(block.kind)} reports no changes of keys, whatever its options"
            _note(Problem(("kind",), NO_REKEYS.format(kind)), block, {}, faults)
            continue
        for given in expand.combinations(block.choices):
            values, problems = check_options(schema, given)
            options: object = None if problems else schema.model_validate(values)
            if not isinstance(options, TimedKeys):
                continue
            keys = (options.rekey_bytes_option, options.rekey_option, "kind")
            key = next(key for key in keys if key in given or key == "kind")
            if kept := _keys_kept(options, traffic.duration_s, least_bytes_per_s, key):
                _note(Problem((key,), kept), block, given, faults)


def _keys_kept(options: TimedKeys, duration_s: float, least_bytes_per_s: float, key: str) -> str:
    """Return why a trial has no change of keys, and what to set; an empty text if it surely has one.

    `key` is the position of the error.
    """
    by_time_s = options.rekey_interval_s + options.rekey_delay_s
    by_bytes_s = options.rekey_bytes / least_bytes_per_s + options.rekey_bytes_delay_s
    if by_time_s < duration_s or by_bytes_s <= duration_s:
        return ""
    lasts = f'and a trial of the test "rekey" lasts {duration_s:g} s'
    if math.isfinite(by_bytes_s):
        delay_s, needed_s = options.rekey_bytes_delay_s, math.ceil(by_bytes_s)
        ways = [f"set udp.duration_s to {needed_s} or more"] * (needed_s <= LONGEST_UDP_TRIAL_S)
        if duration_s > delay_s:
            ways += ["raise udp.rate", "send larger packets"]
            ways += [f"lower {options.rekey_bytes_option}"] * bool(options.rekey_bytes_option)
        return (
            f"the keys change after {options.rekey_bytes:,.0f} bytes{_late(delay_s)}, so after up to {needed_s} s at "
            f"the lowest rate and size of the plan, {lasts}: {', or '.join(ways)}"
        )
    if math.isfinite(by_time_s):
        shortest_s = duration_s - options.rekey_delay_s
        shorter = f", or {options.rekey_option} to at least 1 and less than {shortest_s:g}"
        return (
            f"the keys change every {options.rekey_interval_s:g} s{_late(options.rekey_delay_s)}, {lasts}: "
            f"set udp.duration_s to more than {by_time_s:g}{shorter * bool(options.rekey_option and shortest_s > 1)}"
        )
    if key == options.rekey_option:
        return (
            'the keys never change, and each trial of the test "rekey" needs a change: set it to at least 1 and less '
            f"than {duration_s - options.rekey_delay_s:g}"
        )
    return NO_REKEYS.format("the tunnel reports no changes of keys with these options")


NO_REKEYS = '{}; the test "rekey" needs them: leave the tunnel out'


def _never_changes_keys(schema: type[BaseModel]) -> bool:
    """Return True if a kind of tunnel reports no changes of keys, whatever its options."""
    values, problems = check_options(schema, {})
    usual: object = None if problems else schema.model_validate(values)
    if not isinstance(usual, TimedKeys) or usual.rekey_option or usual.rekey_bytes_option:
        return False
    return math.isinf(usual.rekey_interval_s) and math.isinf(usual.rekey_bytes)


def _late(delay_s: float) -> str:
    return f", up to {delay_s:g} s late" if delay_s else ""


def check_sharing(blocks: Sequence[TunnelTable], file: PlanFile, faults: Faults) -> None:
    """Add an error for each number of parallel tunnels of which the plan's traffic must leave one idle."""
    tcp, _ = file.traffic()
    has_rekeys = file.udp is not None and file.udp.has_rekeys
    counts = {
        "tcp.streams": tcp.streams if tcp else None,
        "udp.flows": file.udp.flows if file.udp and not has_rekeys else None,
    }
    for block in blocks:
        if CLIENTS_OPTION in block.choices:
            continue  # a server of clients has one process
        values = block.choices.get(PROCESSES_OPTION, ())
        for number, value in enumerate(values):
            if not isinstance(value, int) or value < 2:
                continue
            place = _place_of_value(block.path, PROCESSES_OPTION, values, number)
            for key, count in counts.items():
                if count is not None and count < value:
                    message = f"{value} tunnels share out connections by their ports, and {key} is {count}, so that one"
                    faults.add(place, f"{message} of them carries nothing: set {key} = {FLOWS_PER_TUNNEL * value}")
            if has_rekeys:
                faults.add(
                    place,
                    'the test "rekey" times the packets of one flow, which one process carries: set processes = 1',
                )
            if file.soak:
                faults.add(place, "the packets of a soak are one flow, which one process carries: leave [soak] out")


def with_tcp_options(blocks: Sequence[TunnelTable], file: PlanFile) -> list[TunnelTable]:
    """Return the blocks of a plan with the values that `[tcp]` gives to options of every tunnel.

    A block that has such an option keeps its own values. A baseline that the plan does not name has none of them.
    """
    given = file.tcp.options_of_tunnels() if file.tcp else {}
    return [_with_missing(block, given) for block in blocks]


def _with_missing(block: TunnelTable, given: Mapping[str, Sequence[int]]) -> TunnelTable:
    """Return a block with the values of the options that it does not have."""
    missing = {option: values for option, values in given.items() if option not in block.choices}
    return block._replace(choices={**block.choices, **missing})


def _place_of_value(path: KeyPath, option: str, values: Sequence[OptionValue], number: int) -> KeyPath:
    """Return the position of one value of an option in the file; a value that is alone has that of its option."""
    return (*path, option, number) if len(values) > 1 else (*path, option)


def check_filters(blocks: Sequence[TunnelTable], file: PlanFile, faults: Faults) -> None:
    """Add an error for each packet filter that blocks the plan's traffic, or that no check can prove to be at work
    (soaks)."""
    _, udp = file.traffic()
    for block in blocks:
        wanted = [
            (option, number, filter_of({option: value}))
            for option in FILTER_OPTIONS
            for number, value in enumerate(block.choices.get(option, ()))
        ]
        filters = [(option, number, each) for option, number, each in wanted if not each.is_empty]
        if file.soak and filters:
            faults.add((*block.path, filters[0][0]), "a plan with [soak] cannot have it: no check of soaks proves it")
        for option, number, each in filters:
            if each.firewall.has_nat and udp and Direction.IN in udp.direction:
                faults.add(
                    _place_of_value(block.path, option, block.choices[option], number),
                    f'"{each.firewall}" cannot carry UDP that the server begins, for the server does not know the'
                    f' client\'s address: set {"udp" if file.udp else "handshake"}.direction = "out"',
                )


def check_versions(blocks: Sequence[TunnelTable], file: PlanFile, faults: Faults) -> None:
    """Add an error for each tunnel of IPv6 traffic whose plan gives its packets sizes that are defined for IPv4."""
    sizes: dict[str, str] = {}
    if file.udp and file.udp.frame_bytes:
        sizes["udp.frame_bytes"] = "they are frames with IPv4 headers; give udp.payload_bytes in bytes"
    payloads = {"udp": file.udp.payload_bytes if file.udp else [], "soak": file.soak.payload_bytes if file.soak else []}
    for table, values in payloads.items():
        if IMIX_PAYLOAD_BYTES in values:
            key = f"{table}.payload_bytes"
            sizes[f"{key}, {quoted(IMIX_NAME)}"] = f"the mix has frames with IPv4 headers; give {key} in bytes"
    for block in blocks:
        versions = block.choices.get(INSIDE_OPTION, ())
        if IpVersion.IPV6 not in versions:
            continue
        place = _place_of_value(block.path, INSIDE_OPTION, versions, versions.index(IpVersion.IPV6))
        for key, reason in sizes.items():
            faults.add(place, f'"{IpVersion.IPV6}" cannot have the sizes of {key}: {reason}')


def check_content(blocks: Sequence[TunnelTable], file: PlanFile, faults: Faults) -> None:
    """Add an error for each tunnel with repeating data if the plan opens connections, which carry a few bytes only."""
    for block in blocks if file.connections else ():
        values = block.choices.get(CONTENT_OPTION, ())
        if Content.REPEATING in values:
            place = _place_of_value(block.path, CONTENT_OPTION, values, values.index(Content.REPEATING))
            faults.add(place, f'"{Content.REPEATING}" is for TCP and UDP with data: leave [connections] out')


def check_tcp_options(blocks: Sequence[TunnelTable], file: PlanFile, faults: Faults) -> None:
    """Add an error for each size of iperf3's buffers and writes if the plan has other traffic, which has none."""
    others = [name for name in ("udp", "soak", "connections", "handshake") if getattr(file, name)]
    tables: list[tuple[KeyPath, Mapping[str, Sequence[OptionValue]]]] = [
        (("tcp",), file.tcp.options_of_tunnels() if file.tcp else {}),
        *((block.path, block.choices) for block in blocks),
    ]
    sizes: list[tuple[KeyPath, int]] = [
        (_place_of_value(path, option, choices[option], number), value)
        for path, choices in tables
        for option in TCP_OPTIONS
        if option in choices
        for number, value in enumerate(choices[option])
        if isinstance(value, int) and value != TCP_OPTIONS[option]
    ]
    for place, value in sizes if others else ():
        faults.add(place, f"{value_text(value)} is for the TCP of iperf3 only: leave [{others[0]}] out")


def _read_block(
    path: KeyPath, table: Mapping[str, Any], schemas: Schemas, known_kinds: Mapping[str, str], faults: Faults
) -> TunnelTable | None:
    kind = table.get("kind")
    kinds = sorted({*schemas, *known_kinds})
    if kind is None:
        faults.add((*path, "kind"), f"is missing; it is one of {', '.join(kinds)}")
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
            has_none = option == CLIENTS_OPTION and kind != BASELINE_KIND
            message = _has_one_client(kind, option, schemas) if has_none else unknown_key((*path, option), known)
            faults.add((*path, option), message)
        elif values := _values((*path, option), given, faults):
            choices[option] = values
    name = _template(path, table.get("name"), schema.model_fields if schema else choices, faults)
    return TunnelTable(
        path,
        kind,
        name,
        choices,
        is_sound=len(choices) == len(table.keys() - set(_RESERVED)),
        is_named=name == table.get("name"),
    )


def _values(path: KeyPath, given: Any, faults: Faults) -> list[OptionValue]:
    """Return the values of one option, or none if one of them is invalid."""
    values = given if isinstance(given, list) else [given]
    if not values:
        faults.add(path, "must have at least 1 value")
    is_sound = True
    seen: set[tuple[type, OptionValue]] = set()  # with their types, because 1, 1.0 and true are equal in Python
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
            faults.add(path, f"{{{placeholder}}} is not an option of this tunnel{did_you_mean(placeholder, options)}")
            return None
    return name


def _expand_block(block: TunnelTable, schemas: Schemas, faults: Faults) -> list[TunnelSpec]:
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
            name = expand.filled_name(block.name, {**CONDITION_OPTIONS, **options})
            name = _with_number_of_clients(name, block.name, options)
            name = _with_conditions(name, block.name, options)
        else:
            values = {option: options.get(option, value) for option, value in given.items()}
            name = expand.default_name(block.kind, values, defaults, varied)
        tunnels.append(TunnelSpec(block.kind, name, options))
    return tunnels


def _with_conditions(name: str, template: str, options: Mapping[str, OptionValue]) -> str:
    """Return a tunnel's name with its packet filter and its IP versions added, except those that the plan's template
    contains, so that every table shows them."""
    named = expand.PLACEHOLDER.findall(template)
    unnamed = conditions_of({key: value for key, value in options.items() if key not in named})
    return name if unnamed.are_usual else f"{name} {unnamed}"


def _with_number_of_clients(name: str, template: str, options: Mapping[str, OptionValue]) -> str:
    """Return a tunnel's name with its number of clients added, unless the plan's template contains it."""
    used = expand.PLACEHOLDER.findall(template)
    clients, handshakes = options.get(CLIENTS_OPTION), options.get(HANDSHAKES_OPTION)
    if isinstance(handshakes, int):
        return name if HANDSHAKES_OPTION in used else f"{name}, {counted(handshakes, 'handshake')} at once"
    if not isinstance(clients, int) or CLIENTS_OPTION in used:
        return name
    return f"{name}, {counted(clients, 'client')}"


def _note(problem: Problem, block: TunnelTable, given: Mapping[str, OptionValue], faults: Faults) -> None:
    """Add the error of one combination of options, at the position of the value that causes it."""
    if not problem.path or problem.path[0] not in given:
        if block.is_sound:  # else an omitted option may be the cause
            faults.add((*block.path, *problem.path), problem.message)
        return
    option = str(problem.path[0])
    values = block.choices[option]
    number = next(number for number, value in enumerate(values) if value is given[option])
    faults.add(_place_of_value(block.path, option, values, number), problem.message)


def _check_names(tunnels: Sequence[tuple[TunnelTable, TunnelSpec]], faults: Faults) -> None:
    owners: dict[str, TunnelTable] = {}
    reported: set[KeyPath] = set()
    if not any(tunnel.is_baseline for _, tunnel in tunnels):
        owners[BASELINE_NAME] = TunnelTable((), BASELINE_KIND, None, {}, is_sound=True, is_named=True)
    for block, tunnel in tunnels:
        if not (block.is_sound and block.is_named):  # its names will differ once the errors are corrected
            continue
        place = (*block.path, "name") if block.name is not None else block.path
        if fault := _name_fault(tunnel.name):
            faults.add(place, fault + (_name_to_set(block) if block.name is None else ""))
        elif owner := owners.get(tunnel.name):
            if block.path not in reported:  # once for each block, also if several of its tunnels share names
                faults.add(place, _taken(tunnel.name, block, owner, faults))
            reported.add(block.path)
        else:
            owners[tunnel.name] = block


def _name_fault(name: str) -> str:
    if not name.strip():
        return "the name is empty"
    if not name.isprintable():
        return f'the name "{printable(name)}" holds a line break or another control character'
    if name != name.strip():
        return f"the name {quoted(name)} starts or ends with a space"
    if len(name) > LONGEST_TUNNEL_NAME:
        return f"the name {quoted(name)} has {len(name)} characters, more than {LONGEST_TUNNEL_NAME}"
    return ""


def _name_to_set(block: TunnelTable) -> str:
    """Return advice to set a name in place of the one that was made from the options."""
    example = " ".join((block.kind, *(f"{{{option}}}" for option in _varied(block))))
    return f"; set one of its own, such as name = {quoted(example)}"


def _varied(block: TunnelTable) -> list[str]:
    return [option for option, values in block.choices.items() if len(values) > 1]


def _taken(name: str, block: TunnelTable, owner: TunnelTable, faults: Faults) -> str:
    if not owner.path:
        return f"the name {quoted(name)} is that of the baseline, which is added to every plan"
    if owner is not block:
        return f"the name {quoted(name)} is taken by the tunnel on line {faults.line_of(owner.path)}"
    missing = [f"{{{option}}}" for option in _varied(block) if f"{{{option}}}" not in (block.name or "")]
    hint = f": put {' and '.join(missing)} into it" if missing else ""
    return f"several tunnels of this block have the name {quoted(name)}{hint}"


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else value
