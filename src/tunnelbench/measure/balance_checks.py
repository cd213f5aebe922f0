"""The checks that packets neither vanish nor multiply on the path. They do no I/O."""

from __future__ import annotations

from tunnelbench.measure.checks import FRAGMENT_NOTE_SHARE
from tunnelbench.measure.path_balance import PathBalance
from tunnelbench.model.counters import PathCounters
from tunnelbench.model.result import CONTROL_PACKETS, Check, TcpMeasurement, Verdict

LOSS_LIMIT_SHARE = 0.002
"""Share of the packets that may vanish in the router, or be sent again, without a counter of the path."""
REFUSED_LIMIT_PACKETS = 3
"""Packets that the router's IP may refuse to forward."""
UNCOUNTED_QUEUE = "; this tunnel counts no packets that its full queue drops"
OTHER_TRAFFIC_SHARE = 0.01
"""Share of all packets that may come back through the path without being ACKs of the data's receiver."""
SENT_TOLERANCE = 0.001
"""Share of the packets that the engine says it has sent and that may be missing at the sender's device."""
COPIES_TOLERANCE = 0.02
"""Share by which the packets on the tunnel's cable may exceed those that were sent into the path."""


def check_balance(
    balance: PathBalance,
    counters: PathCounters,
    *,
    tcp: TcpMeasurement | None,
    one_outer_packet: bool,
    has_own_router: bool,
    has_uncounted_queue: bool = False,
    engine_sent_packets: int | None = None,
) -> tuple[Check, ...]:
    """Return the checks of the balance of one trial.

    `one_outer_packet` is true if each inner packet makes exactly one outer packet. Losses are a result of a UDP trial,
    so only a TCP trial, whose figures are `tcp`, is checked for them. A router that is a machine of its own may have
    queues and rules of its user, and may merge packets: findings are notes there. If the tunnel drops packets of a full
    queue without a counter (`has_uncounted_queue`), packets that are lost without a counter are a note.
    `engine_sent_packets` is the number of packets that the packet engine says it has sent; None: there is no engine.
    """
    uncounted = Verdict.NOTE if has_uncounted_queue else Verdict.DOUBTFUL
    found = [_queues(balance), _copies(balance, counters, one_outer_packet=one_outer_packet)]
    if tcp is not None:
        is_exact = one_outer_packet and not counters.fragments_created
        found.insert(0, _losses(balance, uncounted, one_outer_packet=is_exact))
        found.append(_retransmits(balance, tcp, uncounted))
        found.append(_other_traffic(balance, counters))
    if engine_sent_packets is not None and balance.sender_packets is not None:
        found.append(_sent(balance.sender_packets, engine_sent_packets))
    return tuple(_at_most_note(check) if has_own_router else check for check in found)


def _losses(balance: PathBalance, verdict: Verdict, *, one_outer_packet: bool) -> Check:
    """Check that what arrived at the router left it, or was counted as dropped by a device, a queue or a socket.

    `verdict` is the verdict on packets that vanished.
    """
    lost = balance.router_in_packets - balance.router_out_packets
    uncounted = lost - balance.router_dropped_packets
    reason = (
        f"{balance.router_in_packets} frames arrived at the router and {balance.router_out_packets} left it; it counts "
        f"{balance.router_dropped_packets} dropped and {balance.router_refused_packets} refused"
    )
    vanished = one_outer_packet and uncounted > balance.router_in_packets * LOSS_LIMIT_SHARE + CONTROL_PACKETS
    if balance.router_refused_packets > REFUSED_LIMIT_PACKETS:
        reason += ": its forwarding was off, or it had no route"
        verdict = Verdict.DOUBTFUL
    elif vanished:
        share = uncounted / balance.router_in_packets
        reason += f": {share:.1%} vanished in it, as by a firewall rule, or were broadcasts"
        reason += UNCOUNTED_QUEUE if verdict is Verdict.NOTE else ""
    else:
        return Check("router-losses", Verdict.OK, reason, rule=9)
    return Check("router-losses", verdict, reason, rule=9)


def _retransmits(balance: PathBalance, tcp: TcpMeasurement, verdict: Verdict) -> Check:
    """Check that TCP retransmitted no more packets than were counted as dropped, or had arrived already.

    `verdict` is the verdict on packets that were lost without a counter.
    """
    data, counted, duplicates = tcp.counters.data_packets, balance.counted_losses_packets, balance.duplicate_segments
    if tcp.retransmits is None:
        return Check("retransmits", Verdict.OK, "the sender's kernel did not report what it sent again", rule=9)
    share = tcp.retransmits / max(1, data)
    reason = (
        f"the sender sent {tcp.retransmits} segments again, {share:.2%} of {data}; {duplicates} of them had arrived "
        f"before, and the path counts {counted} drops"
    )
    if tcp.retransmits - duplicates - counted > data * LOSS_LIMIT_SHARE + CONTROL_PACKETS:
        reason += ": the others were lost without a counter"
        reason += UNCOUNTED_QUEUE if verdict is Verdict.NOTE else ""
        return Check("retransmits", verdict, reason, rule=9)
    return Check("retransmits", Verdict.OK, reason, rule=9)


def _other_traffic(balance: PathBalance, counters: PathCounters) -> Check:
    """Check that the packets against the direction of the data are ACKs, which the data's receiver has sent."""
    segments, arrived = balance.receiver_segments, counters.ack_packets
    if segments is None:
        return Check("other-traffic", Verdict.OK, "the receiver's kernel did not report its segments", rule=16)
    reason = f"{arrived} packets came back through the path, and the data's receiver sent {segments} TCP segments"
    if arrived - segments > (counters.data_packets + arrived) * OTHER_TRAFFIC_SHARE + CONTROL_PACKETS:
        return Check("other-traffic", Verdict.DOUBTFUL, f"{reason}: the path carried other traffic, too", rule=16)
    return Check("other-traffic", Verdict.OK, reason, rule=16)


def _sent(counted: int, claimed: int) -> Check:
    """Check that the packets that the engine says it has sent left the sender; those that did not count as lost."""
    reason = f"the packet engine says that it sent {claimed} packets; the sender's device sent or dropped {counted}"
    if claimed - counted > claimed * SENT_TOLERANCE + CONTROL_PACKETS:
        reason += ": the others were never sent, and count as lost on the path"
        return Check("sent-count", Verdict.DOUBTFUL, reason, rule=7)
    return Check("sent-count", Verdict.OK, reason, rule=7)


def _queues(balance: PathBalance) -> Check:
    """Check that no queue of the router dropped packets, and that no shaper delayed them."""
    parts = [
        f"{name} dropped {queue.dropped_packets}, delayed {queue.delayed}, {queue.waiting_packets} still wait"
        for name, queue in sorted(balance.queues.items())
    ]
    if not parts:
        return Check("router-queues", Verdict.OK, "no queue of the router dropped or delayed packets", rule=9)
    return Check("router-queues", Verdict.DOUBTFUL, f"a queue of the router limits it: {'; '.join(parts)}", rule=9)


def _copies(balance: PathBalance, counters: PathCounters, *, one_outer_packet: bool) -> Check:
    """Check that the tunnel's cable carried each packet once."""
    sent, arrived, offered = balance.router_cable_packets, balance.neighbour_cable_packets, balance.offered_packets
    received = counters.data_packets + counters.ack_packets
    reason = (
        f"the tunnel's cable carried {sent} frames by the router's count, {arrived} by its neighbour's; {offered} "
        f"inner packets were sent, {received} arrived"
    )
    if balance.added_packets:
        reason += f", and cutting made {balance.added_packets} more of them"
    cut_up = counters.fragments_created + counters.reassembled > offered * FRAGMENT_NOTE_SHARE
    multiplied = one_outer_packet and not cut_up and _exceeds(counters.wan_packets, offered)
    if multiplied or _exceeds(arrived, sent) or _exceeds(received, offered + balance.added_packets):
        return Check("copies", Verdict.DOUBTFUL, f"{reason}: packets were copied", rule=3)
    return Check("copies", Verdict.OK, reason, rule=3)


def _exceeds(packets: int, limit: int) -> bool:
    return packets > limit * (1 + COPIES_TOLERANCE) + CONTROL_PACKETS


def _at_most_note(check: Check) -> Check:
    verdict = Verdict.NOTE if check.verdict is Verdict.DOUBTFUL else check.verdict
    return Check(check.name, verdict, check.reason, check.rule)
