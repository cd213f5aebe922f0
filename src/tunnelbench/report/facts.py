"""The facts at the head of a report: testbed, router, machine, plan and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tunnelbench.analysis.number_format import significant
from tunnelbench.analysis.statistics import median
from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.model.testbed import TOPOLOGIES
from tunnelbench.model.text import counted
from tunnelbench.model.toml_text import known_table, known_values
from tunnelbench.report.text import one_line

TAKEN_ON = {
    "netns": "one machine, three namespaces; use the shares of the baseline, absolute figures apply to this machine "
    "only",
    "qemu": "a virtual router between two namespaces of one machine; use the shares of its own baseline, absolute "
    "figures apply to no device",
    "simulated": "no machine: a model drew the figures, no packet was sent, and nothing was measured",
    "ssh": "a router of its own between two testers",
}
"""Description of each kind of testbed, with its effect on the figures (rule 21)."""

SIMULATED_IN_CAPITALS = "SIMULATED: NOTHING WAS MEASURED"
"""Words in the first line of each report of a simulated run."""

OWN_ROUTER_KINDS = ("ssh",)
"""Kinds of testbed whose router is a machine of its own."""

NOT_RECORDED = "not recorded"


def taken_on(run: RunRecord) -> str:
    """Return a description of the kind of testbed, and how far its figures apply to other machines."""
    kind = testbed_key(run, "kind")
    unknown = f"kind {kind or NOT_RECORDED}; shares of the baseline are more reliable than absolute figures"
    return TAKEN_ON.get(kind, unknown)


def is_shared(run: RunRecord) -> bool:
    """Return whether router and testers shared one machine, or that machine was virtual."""
    kind = testbed_key(run, "kind")
    if kind in OWN_ROUTER_KINDS:
        return False
    return kind in TAKEN_ON or run.host_facts.get("virtual") == "yes" or "guest" in run.host_facts


def testbed_key(run: RunRecord, key: str) -> str:
    """Return a value of the testbed file outside its sections; empty if it is absent or the file cannot be read."""
    return str(known_values(run.testbed_text).get(key, ""))


LINK_TEXTS = {
    "rate_out_mbps": "{:g} Mbit/s up",
    "rate_in_mbps": "{:g} Mbit/s down",
    "delay_ms": "{:g} ms on each",
    "mtu_bytes": "MTU of {:g} bytes",
}


def _cables(run: RunRecord) -> str:
    """Return what the testbed file says of the cables; empty if it says nothing."""
    link = known_table(run.testbed_text, "link")
    return ", ".join(
        text.format(value) for key, text in LINK_TEXTS.items() if isinstance(value := link.get(key), int | float)
    )


def run_facts(run: RunRecord, records: Sequence[TrialRecord]) -> list[tuple[str, str]]:
    """Return label and value of each fact, in the order of a report."""
    facts = {key: str(value) for key, value in run.host_facts.items() if value is not None and value != ""}
    inside = f"{facts['guest']}; " if "guest" in facts else ""
    topology = testbed_key(run, "topology")
    return [
        ("Taken on", f"testbed {run.testbed_name}: {inside}{taken_on(run)}"),
        *([("Topology", f"{topology}: {TOPOLOGIES[topology]}")] if topology in TOPOLOGIES else []),
        *([("Cables", cables)] if (cables := _cables(run)) else []),
        *([("Router", _router(facts))] if "router_kernel" in facts else []),
        *([("Wireless", radios)] if (radios := _radios(facts)) else []),
        ("CPU", _cpu(facts)),
        ("System", _system(facts)),
        ("Plan", f"{run.plan_name}: {_size(records)}"),
        (
            "Run",
            f"{run.run_id}, {run_time(run)}; {run.status}, {len(records)} of {counted(run.trials_planned, 'trial')}",
        ),
        ("TunnelBench", run.tunnelbench_version),
    ]


def _router(facts: Mapping[str, str]) -> str:
    """Return what is known of a router that is a machine of its own."""
    cores = facts.get("router_cpus", "?")
    model = facts.get("router_cpu_model", facts.get("router_architecture", "CPU unknown"))
    parts = [
        facts.get("router_board", "board unknown"),
        facts.get("router_soc", ""),
        f"{model}, {cores} CPU{'s' * (cores != '1')}"
        + (f" of {facts['router_cpu_mhz']} MHz" if "router_cpu_mhz" in facts else ""),
        _with(facts, "instructions {}", "router_crypto_instructions"),
        _with(facts, "{} MiB", "router_memory_mib"),
        f"{facts.get('router_system', 'system unknown')}, kernel {facts['router_kernel']}",
        _with(facts, "firewall {}", "router_firewall"),
        {None: "", "1": "flow offloading on"}.get(facts.get("router_flow_offloading"), "flow offloading off"),
        _with(facts, "{} W", "router_watts"),
        facts.get("router_price", ""),
    ]
    return "; ".join(filter(None, parts))


def _with(facts: Mapping[str, str], text: str, key: str) -> str:
    """Return a text with a fact in it; empty if the fact is unknown."""
    return text.format(facts[key]) if key in facts else ""


RADIO_TEXTS = {
    "band": "{}",
    "channel": "channel {}",
    "width_mhz": "{} MHz wide",
    "tx_mbps": "sent at {} Mbit/s",
    "rx_mbps": "received at {} Mbit/s",
    "signal_dbm": "signal {} dBm",
}


def _radios(facts: Mapping[str, str]) -> str:
    """Return the radios of a wireless LAN at the start of the run; empty if there are none, or they are unknown."""
    found = {
        role: [text for name, words in RADIO_TEXTS.items() if (text := _with(facts, words, f"{role}_radio_{name}"))]
        for role in ("client", "router")
    }
    return "; ".join(f"{role}: {', '.join(texts)}" for role, texts in found.items() if texts)


def _system(facts: Mapping[str, str]) -> str:
    """Return the machine's system, and the kernel of the guest if that carried the traffic."""
    own = f"{facts.get('system', NOT_RECORDED)}, kernel {facts.get('kernel', NOT_RECORDED)}"
    if "guest" not in facts:
        return own
    package, cpu = _with(facts, " ({})", "guest_package"), _with(facts, ", CPU {}", "guest_cpu")
    return f"{own}; {facts['guest']}: kernel {facts.get('guest_kernel', NOT_RECORDED)}{package}{cpu}"


def _cpu(facts: Mapping[str, str]) -> str:
    parts = [
        facts.get("cpu_model", NOT_RECORDED),
        counted(int(cpus), "CPU") if (cpus := facts.get("cpus", "")).isdecimal() else f"CPUs {cpus or NOT_RECORDED}",
        f"governor {facts.get('governor', NOT_RECORDED)}",
        _with(facts, "instructions {}", "crypto_instructions"),
        "a virtual machine" if facts.get("virtual") == "yes" else "",
    ]
    return ", ".join(filter(None, parts))


def _size(records: Sequence[TrialRecord]) -> str:
    if not records:
        return "no trial recorded"
    rounds = max(record.spec.round for record in records)
    durations = [record.tcp.duration_s for record in records if record.tcp is not None]
    length = f", trials of {significant(median(durations), 3)} s" if durations else ""
    return f"{counted(rounds, 'round')}{length}"


def run_time(run: RunRecord) -> str:
    """Return the start of a run, and how long it lasted if it has ended."""
    try:
        start = datetime.fromisoformat(run.started_at).astimezone(UTC)
        end = datetime.fromisoformat(run.ended_at).astimezone(UTC) if run.ended_at else None
    except ValueError:
        return run.started_at
    lasted = f", {(end - start).total_seconds() / 60:.1f} min" if end else ""
    return f"{start:%Y-%m-%d %H:%M} UTC{lasted}"


def measured_on(run: RunRecord, recorded: int) -> str:
    """Return on one line when a run measured what on which router; `recorded`: number of its trials."""
    size = f"{recorded} of " * (recorded != run.trials_planned) + counted(run.trials_planned, "trial")
    caution = SIMULATED_IN_CAPITALS if run.is_simulated else ""
    return one_line(", ".join(filter(None, (caution, run_time(run), size, *_router_words(run.host_facts)))))


def _router_words(facts: Mapping[str, Any]) -> list[str]:
    """Return the name of a router, and what it is."""
    if "guest_board" in facts:
        speed_mips = facts.get("guest_speed_mips")
        speed = f"{speed_mips:g} MIPS" if isinstance(speed_mips, (int, float)) else ""
        return [f"emulated {str(facts['guest_board']).split(' on ')[0]}", speed]
    router = facts.get("router_board") or facts.get("router_soc") or facts.get("cpu_model") or "CPU unknown"
    is_own = "router_kernel" in facts
    cpus = str(facts.get("router_cpus" if is_own else "cpus", ""))
    count = f" ({counted(int(cpus), 'CPU')})" if cpus.isdecimal() else ""
    return [f"{router}{count}", "virtual" if facts.get("virtual") == "yes" and not is_own else ""]
