"""Tunnels: one file a technology. An adapter is registered by being defined; a new file needs one line here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tunnelbench.host.host import THIS_MACHINE, Host
from tunnelbench.model.errors import TunnelUnavailable, WrongInput
from tunnelbench.model.plan import TunnelSpec
from tunnelbench.tunnel import (  # noqa: F401
    fastd,
    geneve,
    ip_in_ip,
    ipsec,
    ipsec_userspace,
    l2tpv2_ppp,
    l2tpv3,
    n2n,
    nebula,
    none,
    openconnect,
    openvpn,
    ssh,
    tinc,
    vxlan,
    wireguard,
)
from tunnelbench.tunnel.base import Ends, Requirement, Tunnel, TunnelOptions

PLANNED: Mapping[str, str] = {
    "openvpn-dco": "OpenVPN whose data the kernel carries (module ovpn-dco-v2)",
}
"""Kinds that plans may name and that have no adapter yet: their rows say so."""


def adapters() -> Mapping[str, type[Tunnel[Any]]]:
    """Every adapter by kind."""
    return Tunnel._registry


def adapter(kind: str) -> type[Tunnel[Any]]:
    """The adapter of a kind; WrongInput where there is none."""
    try:
        return Tunnel._registry[kind]
    except KeyError:
        known = ", ".join(sorted(Tunnel._registry))
        raise WrongInput(f"there is no tunnel of kind {kind}", f"known: {known}") from None


def option_schemas() -> Mapping[str, type[TunnelOptions]]:
    """The options of every kind, for the check of plans."""
    return {kind: tunnel.options_type for kind, tunnel in Tunnel._registry.items()}


def unmet(kind: str, options: TunnelOptions, host: Host) -> tuple[Requirement, ...]:
    """What a tunnel with these options lacks on a host; making devices to find out needs root."""
    wanted = adapter(kind).requirements(options)
    if host.machine != THIS_MACHINE:
        wanted = tuple(requirement for requirement in wanted if not requirement.makes_keys)
    return tuple(requirement for requirement in wanted if not requirement.is_met(host))


def algorithms(specs: Sequence[TunnelSpec]) -> dict[str, tuple[str, ...]]:
    """The ciphers and digests of some tunnels as OpenSSL names them, with the names of the tunnels that use each."""
    found: dict[str, tuple[str, ...]] = {}
    for spec in specs:
        if kind := Tunnel._registry.get(spec.kind):
            for algorithm in kind.algorithms(kind.options_type.model_validate(dict(spec.options))):
                found[algorithm] = (*found.get(algorithm, ()), spec.name)
    return found


def create(spec: TunnelSpec, ends: Ends) -> Tunnel[Any]:
    """The tunnel of a plan, not yet up. Raises TunnelUnavailable where an end lacks something."""
    if spec.kind in PLANNED:
        raise TunnelUnavailable(f"{spec.kind} ({PLANNED[spec.kind]}) has no adapter yet")
    options = adapter(spec.kind).options_type.model_validate(dict(spec.options))
    for end, _ in ends:
        if missing := unmet(spec.kind, options, end.host):
            needs = "; ".join(f"{requirement.what} is missing ({requirement.remedy})" for requirement in missing)
            raise TunnelUnavailable(f"on the {end.host.name}: {needs}")
    return adapter(spec.kind)(options, ends)
