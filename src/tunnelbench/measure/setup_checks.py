"""The checks that the testbed is still as it was set up after a trial. They do no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tunnelbench.model.result import Check, Verdict

OTHER_PACKETS_PPS = 1000
"""Packets of other networks that the router's CPUs may process [packets/s]; a bridge takes about 2 µs for each."""
OTHER_PACKETS_SHARE = 0.02
"""The same as a share of the router's own packets, because the two counters are not read at the same moment."""

THROTTLE_LIMIT_SHARE = 0.01
"""Share of a trial for which a CPU quota may stop the run or the router's programs."""


def offloads_off(late: Mapping[str, Sequence[str]], merging: str = "") -> Check:
    """Check that no device had an offload on after the trial; its packets may have been merged (rule 1).

    If only checksums are offloaded, the router computes checksums in place of a tester (rule 2). `merging` is a
    sentence on the testers' devices that merged packets after they had arrived.
    """
    if not late:
        reason = "no offload that was switched off was on after the trial"
        return Check("offloads", Verdict.OK, reason + f"; {merging}" * bool(merging), rule=1)
    reason = "on after the trial: " + "; ".join(f"{', '.join(names)} of {device}" for device, names in late.items())
    merges = any(not name.startswith("tx-checksum") for names in late.values() for name in names)
    return Check("offloads", Verdict.VOID if merges else Verdict.DOUBTFUL, reason, rule=1)


def router_setup(misplaced: Sequence[str], rules: int) -> Check:
    """Check that each host's work stayed on its own CPUs, and that the router has no packet filter (rule 12).

    `misplaced` names the work that could run on the CPU of another host. `rules` is the number of lines of rules.
    """
    if misplaced:
        return Check("router-setup", Verdict.VOID, "; ".join(misplaced), rule=12)
    if rules:
        reason = f"the router had a packet filter of {rules} lines, which costs CPU time for each packet"
        return Check("router-setup", Verdict.DOUBTFUL, reason, rule=12)
    return Check("router-setup", Verdict.OK, "each host's work stayed on its CPUs, without a packet filter", rule=12)


def path_setup(altered: Sequence[str]) -> Check:
    """Check that the path has only the queues, filters and rules of routing that the testbed has made.

    `altered` names the others, and what was changed during the trial.
    """
    if altered:
        return Check("path-setup", Verdict.DOUBTFUL, "; ".join(altered), rule=9)
    reason = "the path had no queue, packet filter or rule of routing that the testbed has not made, and did not change"
    return Check("path-setup", Verdict.OK, reason, rule=9)


def softirq(processed: tuple[int, int] | None, bracket_s: float) -> Check:
    """Check that the router's CPUs processed hardly any packets of other networks of this machine (rule 12).

    `processed` are the packets that these CPUs processed in `bracket_s` seconds, and those that arrived at the router's
    devices. The kernel processes packets in no program's name, so that the check for background load does not see it.
    """
    if processed is None:
        return Check("softirq", Verdict.OK, "the packets of other networks are not counted here", rule=12)
    every, own = processed
    others = max(0, every - own)
    reason = f"the router's CPU processed {every} packets, and {own} arrived at the router's devices"
    is_high = others > own * OTHER_PACKETS_SHARE + OTHER_PACKETS_PPS * bracket_s
    return Check("softirq", Verdict.DOUBTFUL if is_high else Verdict.OK, reason, rule=12)


def throttled(stopped_s: float, bracket_s: float) -> Check:
    """Check that no CPU quota of a container or a service stopped the run or the router's programs."""
    share = stopped_s / bracket_s
    reason = f"a CPU quota (cgroup) stopped programs of the run for {share:.1%} of the time"
    verdict = Verdict.DOUBTFUL if share > THROTTLE_LIMIT_SHARE else Verdict.OK
    return Check("cpu-quota", verdict, reason, rule=14)
