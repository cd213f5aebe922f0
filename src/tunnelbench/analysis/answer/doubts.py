"""Doubts about the figures of an answer, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tunnelbench.analysis.answer.figures import ShownFigures
from tunnelbench.analysis.answer.udp import BASELINE_DELAY
from tunnelbench.analysis.answer.words import named
from tunnelbench.model.text import are, joined

NEARLY_ALL = 0.75
"""Share of tunnels with doubtful figures from which the verdict says so, instead of a warning."""

CHECKS_IN_WORDS = {
    BASELINE_DELAY: "the path without a tunnel was slower than one with a tunnel",
    "acks": "acknowledgements went past the path",
    "clock": "the clock was set",
    "connections": "connections may have been opened too fast for the path",
    "copies": "packets were copied",
    "cpu-quota": "a CPU quota stopped programs",
    "firewall": "the router tracked connections without a firewall in the plan",
    "foreign-load": "background load took CPU time",
    "gap": "the sender was late itself",
    "guest-cpus": "the guest waited for CPU time",
    "handshakes": "no client set up two tunnels",
    "iperf3-figures": "iperf3's figures disagree with the counts",
    "iperf3-settings": "iperf3 ran a different test",
    "kept-keys": "the client whose packets were timed may have changed its keys",
    "merged-frames": "frames were merged",
    "not-begun": "the load of a trial was unknown",
    "offered": "the sender offered too little",
    "offloads": "an offload was on",
    "other-traffic": "the path carried other traffic",
    "outer-protocol-in-trial": "data went past the tunnel",
    "packet-count": "packet counts disagree",
    "packet-rate": "packet counts and payload disagree",
    "path-setup": "the path had a queue or a filter that was not planned",
    "payload": "the payload of a packet is unknown",
    "physical-limit": "the figure is above the limit of the line",
    "proof-after": "a tunnel was not proven again after a trial",
    "receiver-drops": "the testers dropped packets",
    "rekeys": "no change of keys was reported",
    "restart": "the tunnel restarted",
    "retransmits": "TCP sent packets again without a counted loss",
    "router-clock": "this machine was too slow for the router's speed",
    "router-cpu": "router and testers shared a CPU",
    "router-losses": "packets vanished in the router",
    "router-queues": "a queue of the router was the limit",
    "router-setup": "the setup of the router was wrong",
    "search": "a search ran out of time",
    "sender": "the sender was idle",
    "sent-count": "packets never left the sender",
    "simulated": "a model drew the figures",
    "sharing": "a parallel tunnel carried no packets",
    "softirq": "the router's CPU processed packets of other networks",
    "stalls": "the traffic stalled",
    "steady-loss": "the path lost packets at every load of a search",
    "steal": "the hypervisor took CPU time",
    "tester-limited": "the testers were nearly the limit",
    "tracked": "the router did not track the connections",
    "versions": "a program changed its version",
}
"""Words for the event that a check found, by the name of the check."""


@dataclass(frozen=True)
class Doubts:
    """Doubts about the figures of a run."""

    sentence: str
    """Number of doubtful figures, and the events; empty if there are none."""
    is_nearly_everywhere: bool
    """True if nearly all tunnels have doubtful figures, so that the verdict says so."""


def in_words(check: str) -> str:
    return CHECKS_IN_WORDS.get(check, f"the check {check} failed")


def doubts(shown: ShownFigures) -> Doubts:
    """Return the doubts about figures, without those of void trials and of the testers' limit."""
    found = shown.where(lambda figure: bool(figure.doubts))
    if not found.every:
        return Doubts("", is_nearly_everywhere=False)
    tunnels, doubtful = (dict.fromkeys(figure.tunnel_name for figure in each.every) for each in (shown, found))
    by_check: dict[str, dict[str, None]] = {}
    for figure in found.every:
        for check in figure.doubts:
            by_check.setdefault(check, {})[figure.tunnel_name] = None
    most_first = sorted(by_check.items(), key=lambda each: -len(each[1]))
    events = named([f"{in_words(check)} ({_whose(list(names), len(tunnels))})" for check, names in most_first])
    return Doubts(
        f"{found.count_of(shown)} {are(len(found.every))} doubtful: {joined(events)}.",
        is_nearly_everywhere=len(doubtful) >= NEARLY_ALL * len(tunnels),
    )


def _whose(names: Sequence[str], every: int) -> str:
    """Return the names of the tunnels that a check makes doubtful, or `all` if it is every tunnel of several."""
    return "all" if len(names) == every > 1 else joined(named(names))
