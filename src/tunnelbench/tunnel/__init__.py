"""Adapters of tunnels, one file for each technology. Importing this package imports each module, and the definition of
an adapter class registers the adapter."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from tunnelbench.host.host import THIS_MACHINE, Host
from tunnelbench.model.errors import TunnelUnavailable, WrongInput
from tunnelbench.model.plan import BASELINE_KIND, TunnelSpec
from tunnelbench.tunnel.base import Ends, Tunnel, TunnelOptions
from tunnelbench.tunnel.requirements import Requirement

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

PLANNED: Mapping[str, str] = {
    "openvpn-dco": "OpenVPN whose data the kernel carries (module ovpn-dco-v2)",
}
"""Kinds of tunnels that plans may name but that have no adapter yet, with a description; their rows are unavailable."""


def adapters() -> Mapping[str, type[Tunnel[Any]]]:
    """Return every adapter by kind."""
    return Tunnel._registry


def adapter(kind: str) -> type[Tunnel[Any]]:
    """Return the adapter of a kind. Raises WrongInput if there is none."""
    try:
        return Tunnel._registry[kind]
    except KeyError:
        known = ", ".join(sorted(Tunnel._registry))
        raise WrongInput(f"there is no tunnel of kind {kind}", f"known: {known}") from None


def option_schemas() -> Mapping[str, type[TunnelOptions]]:
    """Return the options of every kind, for the check of plans."""
    return {kind: tunnel.options_type for kind, tunnel in Tunnel._registry.items()}


def plan_entries() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return the `[[tunnel]]` entries of each shipped plan that the adapters fill, by the plan's name.

    The baseline comes first, then tunnels of the kernel, then those in user space.
    """
    entries: dict[str, list[Mapping[str, Any]]] = {}
    for kind, tunnel in sorted(adapters().items(), key=lambda each: (each[0] != BASELINE_KIND, len(each[1].plans))):
        for plan, entry in tunnel.plans.items():
            entries.setdefault(plan, []).append({"kind": kind, **entry})
    return entries


def unmet(kind: str, options: TunnelOptions, host: Host) -> tuple[Requirement, ...]:
    """Return the requirements of a tunnel with these options that a host does not meet; this needs root."""
    wanted = adapter(kind).requirements(options)
    if host.machine != THIS_MACHINE:
        wanted = tuple(requirement for requirement in wanted if not requirement.makes_keys)
    return tuple(requirement for requirement in wanted if not requirement.is_met(host))


def virtual_router_packages() -> tuple[str, ...]:
    """Return the Debian packages of the tunnels that a virtual router has, without programs that only make keys."""
    chosen = [tunnel for tunnel in adapters().values() if tunnel.is_on_virtual_router]
    wanted = [each for tunnel in chosen for each in tunnel.requirements(tunnel.options_type()) if not each.makes_keys]
    return tuple(sorted({package for requirement in wanted for package in requirement.debian.split()}))


def added_bytes() -> dict[str, int]:
    """Return the bytes that a kind of tunnel adds to a packet over IPv4, for the kinds that always add as many."""
    return {kind: tunnel.bytes_per_packet for kind, tunnel in adapters().items() if tunnel.bytes_per_packet is not None}


def weights() -> dict[str, int]:
    """Return the place of each kind of tunnel in the expected order of throughput, if it has one."""
    return {kind: tunnel.weight for kind, tunnel in adapters().items() if tunnel.weight is not None}


def algorithms(specs: Sequence[TunnelSpec]) -> dict[str, tuple[str, ...]]:
    """Return the ciphers and digests of tunnels as OpenSSL names them, with the names of the tunnels that use each."""
    found: dict[str, tuple[str, ...]] = {}
    for spec in specs:
        if kind := Tunnel._registry.get(spec.kind):
            for algorithm in kind.algorithms(kind.options_type.model_validate(dict(spec.options))):
                found[algorithm] = (*found.get(algorithm, ()), spec.name)
    return found


def encrypts(spec: TunnelSpec) -> bool:
    """Return True if a tunnel with these options has a cipher, by its adapter.

    Raises WrongInput if there is no such kind, or no such option.
    """
    return _without_ends(spec).is_encrypted


def compresses(spec: TunnelSpec) -> bool:
    """Return True if a tunnel with these options compresses, by its adapter. Raises WrongInput as `encrypts`."""
    return _without_ends(spec).compresses


def _without_ends(spec: TunnelSpec) -> Tunnel[Any]:
    """Return a tunnel that may only be asked what follows from its options. Raises WrongInput as `encrypts`."""
    kind = adapter(spec.kind)
    tunnel = object.__new__(kind)
    try:
        tunnel.options = kind.options_type.model_validate(dict(spec.options))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        why = "there is no such option" if first["type"] == "extra_forbidden" else "its value is not possible"
        raise WrongInput(f"its options are not those of the kind {spec.kind}: {place}: {why}") from None
    return tunnel


def create(spec: TunnelSpec, ends: Ends) -> Tunnel[Any]:
    """Make the tunnel of a plan, not yet up. Raises TunnelUnavailable if an end lacks something."""
    if spec.kind in PLANNED:
        raise TunnelUnavailable(f"{spec.kind} ({PLANNED[spec.kind]}) has no adapter yet")
    options = adapter(spec.kind).options_type.model_validate(dict(spec.options))
    for end, _ in ends:
        if missing := unmet(spec.kind, options, end.host):
            needs = "; ".join(_missing(requirement, end.host.programs_key) for requirement in missing)
            raise TunnelUnavailable(f"on the {end.host.name}: {needs}")
    return adapter(spec.kind)(options, ends)


def _missing(requirement: Requirement, programs_key: str) -> str:
    """Return what is missing, and how to get it: a virtual machine gets programs by a key of the testbed only."""
    if programs_key and not requirement.is_program:
        return f"{requirement.what} is missing"
    remedy = f"the testbed's key {programs_key} can name a folder with it" if programs_key else requirement.remedy
    return f"{requirement.what} is missing ({remedy})"
