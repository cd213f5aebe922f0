//! `send`: packets at a rate, in bursts, in a window or as fast as it goes; with an echo their answers, too.

mod summary;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::answers::Intervals;
use crate::arguments::{Load, Send};
use crate::counting::Gate;
use crate::echo::Echo;
use crate::ending::{CannotHere, EndReason, asked_to_end};
use crate::io::{self, BATCH_MAX, now_ns};
use crate::listening::DRAIN_NS;
use crate::output::Output;
use crate::pace::{Evenness, Schedule};
use crate::packet::{Header, Kind};
use crate::socket::{Closing, Means, Opened, open};
use crate::tally::Tally;
use crate::transmit::{Packet, Transmitter};

/// A sleep ends up to 60 us late; the rest of the time until a packet is due is spun away [ns].
const SPIN_NS: u64 = 80_000;
const SLEEP_MAX_NS: u64 = 50_000_000;
/// A sender that was held up shortly before its end may still send what was due [ns].
const GRACE_NS: u64 = 20_000_000;

struct Sender<'a> {
    arguments: &'a Send,
    sockets: Vec<&'a UdpSocket>,
    output: &'a Output,
    transmitter: Transmitter,
    gate: Gate,
    buffers: Vec<u8>,
    size_max: usize,
    /// The next sequence number of each flow, and whose turn it is.
    sequences: Vec<u64>,
    turn: usize,
    start_ns: u64,
    sent_packets: u64,
    sent_bytes: u64,
    unsent_packets: u64,
    first_send_ns: Option<u64>,
    last_send_ns: Option<u64>,
    schedule: Option<Schedule>,
    evenness: Option<Evenness>,
    intervals: Intervals,
    echo: Option<Echo>,
}

pub fn run(arguments: &Send, output: &Output) -> Result<(), CannotHere> {
    let common = &arguments.common;
    io::wake_punctually();
    let opened = open_flows(arguments)?;
    let sockets: Vec<&UdpSocket> = opened.iter().map(|one| &one.socket).collect();
    let mut means = Means::new(common, &opened, true, arguments.echo);
    let start_ns = now_ns();
    let hello = means.hello("send", common, &opened);
    output.print(move || hello);

    let mut sender = Sender::new(arguments, sockets, output, &means);
    let end_reason = sender.send_all();
    let end_ns = now_ns();
    if sender.echo.is_some() && !matches!(end_reason, EndReason::InputClosed | EndReason::Signal) {
        sender.linger();
    }
    means.path = sender.transmitter.path;
    sender.finish(end_reason, end_ns, Closing::new(common, &means, start_ns));
    Ok(())
}

fn open_flows(arguments: &Send) -> Result<Vec<Opened>, CannotHere> {
    let unspecified = match arguments.target {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let first = arguments.bind.unwrap_or(unspecified);
    (0..arguments.flows)
        .map(|flow| {
            let mut source = first;
            if first.port() != 0 {
                source.set_port(first.port().wrapping_add(flow as u16));
            }
            open(source, Some(arguments.target), arguments.common.buffer_bytes)
        })
        .collect()
}

impl<'a> Sender<'a> {
    fn new(arguments: &'a Send, sockets: Vec<&'a UdpSocket>, output: &'a Output, means: &Means) -> Sender<'a> {
        let common = &arguments.common;
        let size_max = arguments.sizes.iter().copied().max().unwrap_or_default();
        let echo = arguments.echo.then(|| Echo::new(arguments, &sockets, means));
        let kind = if arguments.echo { Kind::Request } else { Kind::OneWay };
        let gate = Gate::new(common.session, kind, Vec::new());
        let start_ns = now_ns();
        let (schedule, evenness) = match arguments.load {
            Load::Rate(rate) => (Some(Schedule::new(rate, start_ns)), Some(Evenness::new(rate))),
            _ => (None, None),
        };
        let timeout_ns = arguments.echo.then_some(arguments.timeout_ns);
        Sender {
            intervals: Intervals::new(
                start_ns,
                common.interval_ns,
                timeout_ns,
                arguments.echo && common.latency,
                schedule.is_some(),
            ),
            sequences: vec![0; sockets.len()],
            arguments,
            sockets,
            output,
            transmitter: Transmitter::new(means.path, common.path.is_some()),
            gate,
            buffers: vec![0; size_max * BATCH_MAX],
            size_max,
            turn: 0,
            start_ns,
            sent_packets: 0,
            sent_bytes: 0,
            unsent_packets: 0,
            first_send_ns: None,
            last_send_ns: None,
            schedule,
            evenness,
            echo,
        }
    }

    /// Packets that were dealt with, sent or refused.
    fn done(&self) -> u64 {
        self.sent_packets + self.unsent_packets
    }

    fn send_all(&mut self) -> EndReason {
        let common = &self.arguments.common;
        let end_ns = common
            .duration_ns
            .map_or(u64::MAX, |duration_ns| self.start_ns + duration_ns);
        let total = self.total();
        loop {
            let now_ns = now_ns();
            if let Some(reason) = asked_to_end() {
                return reason;
            }
            if self.done() >= total {
                // A rate has its whole duration, the gap after the last packet included.
                if common.count.is_some_and(|count| self.done() >= count) {
                    return EndReason::Count;
                }
                if now_ns >= end_ns {
                    return EndReason::Duration;
                }
            }
            if now_ns >= end_ns && (self.schedule.is_none() || now_ns >= end_ns + GRACE_NS) {
                return EndReason::Duration;
            }
            let room = self.room(now_ns).min(total - self.done().min(total));
            if room > 0 {
                self.send_batch(room);
            }
            let is_more = self.hear();
            self.close_intervals();
            if room == 0 && !is_more {
                self.wait(end_ns);
            }
        }
    }

    /// How many packets there will be, as far as that is known.
    fn total(&self) -> u64 {
        let common = &self.arguments.common;
        let by_rate = match (&self.schedule, common.duration_ns) {
            (Some(schedule), Some(duration_ns)) => schedule.intended(duration_ns),
            _ => u64::MAX,
        };
        by_rate.min(common.count.unwrap_or(u64::MAX))
    }

    /// How many packets may leave now.
    fn room(&mut self, now_ns: u64) -> u64 {
        match self.arguments.load {
            Load::FlatOut => u64::MAX,
            Load::Rate(_) => self.schedule.as_mut().map_or(0, |schedule| schedule.release(now_ns)),
            Load::Burst(packets, pause_ns) => {
                let bursts = match pause_ns {
                    Some(pause_ns) if pause_ns > 0 => (now_ns - self.start_ns) / pause_ns + 1,
                    _ => u64::MAX,
                };
                // A burst that took longer than its pause is not followed by two at once.
                let begun = self.done() / packets;
                if bursts > begun || self.done() % packets != 0 {
                    packets - self.done() % packets
                } else {
                    0
                }
            }
            Load::Window(packets) => {
                let Some(echo) = &mut self.echo else { return 0 };
                echo.under_way.give_up(now_ns);
                packets.saturating_sub(echo.under_way.packets())
            }
        }
    }

    /// Send up to `room` packets of the flow whose turn it is.
    fn send_batch(&mut self, room: u64) {
        let sizes = &self.arguments.sizes;
        let size = |index: u64| sizes[(index % sizes.len() as u64) as usize];
        let most = match (self.arguments.common.latency, sizes.len()) {
            (true, _) => 1,
            (false, 1) => self.transmitter.batch_packets(sizes[0]),
            (false, _) => self.transmitter.batch_packets(self.size_max).max(BATCH_MAX / 2),
        };
        let count = room.min(most as u64).min(BATCH_MAX as u64) as usize;
        let flow = self.turn;
        let first_due_ns = self.schedule.as_ref().map(Schedule::next_due_ns);
        let time_ns = now_ns();
        for (index, buffer) in self.buffers.chunks_exact_mut(self.size_max).take(count).enumerate() {
            let header = Header {
                kind: if self.arguments.echo {
                    Kind::Request
                } else {
                    Kind::OneWay
                },
                content: self.arguments.content,
                shared_time: count > 1,
                flow: flow as u8,
                sequence: (self.sequences[flow] + index as u64) as u32,
                send_time: time_ns,
            };
            self.gate
                .fill(&header, &mut buffer[..size(self.sent_packets + index as u64)]);
        }
        let packets: Vec<Packet> = (self.buffers.chunks_exact(self.size_max).take(count).enumerate())
            .map(|(index, buffer)| Packet {
                bytes: &buffer[..size(self.sent_packets + index as u64)],
                to: None,
            })
            .collect();
        let outcome = self.transmitter.send(self.sockets[flow], &packets);
        let bytes = packets[..outcome.taken]
            .iter()
            .map(|packet| packet.bytes.len() as u64)
            .sum();
        let (taken, refused) = (outcome.taken as u64, outcome.refused as u64);

        self.sequences[flow] += taken;
        self.turn = (flow + 1) % self.sockets.len();
        self.sent_packets += taken;
        self.sent_bytes += bytes;
        self.unsent_packets += refused;
        if taken > 0 {
            self.first_send_ns = self.first_send_ns.or(Some(time_ns));
            self.last_send_ns = Some(time_ns);
        }
        let mut stalls = 0;
        if let (Some(evenness), Some(due_ns)) = (&mut self.evenness, first_due_ns) {
            let before = evenness.punctuality.stalls;
            evenness.record(time_ns, due_ns, taken + refused);
            stalls = evenness.punctuality.stalls - before;
        }
        if let Some(schedule) = &mut self.schedule {
            schedule.advance(taken + refused);
        }
        if let Some(echo) = &mut self.echo {
            echo.under_way.sent(time_ns, taken);
        }
        self.intervals.sent(time_ns, taken, bytes, refused, stalls);
    }

    /// Count the answers that are there; whether there may be more.
    fn hear(&mut self) -> bool {
        match &mut self.echo {
            Some(echo) => echo.hear(&self.sockets, &mut self.intervals),
            None => false,
        }
    }

    fn close_intervals(&mut self) {
        while self.intervals.is_due(now_ns()) {
            let tally = self.settle();
            self.intervals.close(&tally, self.output);
        }
    }

    /// What has arrived so far, up to date.
    fn settle(&mut self) -> Tally {
        self.echo
            .as_mut()
            .map_or_else(Tally::default, |echo| echo.settle(&self.sockets))
    }

    /// Nothing may leave now: wait for the time or the answer that changes it.
    fn wait(&mut self, end_ns: u64) {
        let now_ns = now_ns();
        let next_ns = match (self.arguments.load, &self.schedule) {
            (Load::Rate(_), Some(schedule)) => schedule.next_release_ns(),
            (Load::Burst(_, Some(pause_ns)), _) if pause_ns > 0 => {
                self.start_ns + ((now_ns - self.start_ns) / pause_ns + 1) * pause_ns
            }
            _ => now_ns + SLEEP_MAX_NS,
        };
        let wake_ns = next_ns.min(end_ns).min(now_ns + SLEEP_MAX_NS).saturating_sub(SPIN_NS);
        if wake_ns <= now_ns {
            std::hint::spin_loop();
        } else if let Some(echo) = &self.echo {
            echo.intake.wait(&self.sockets, wake_ns);
        } else {
            io::sleep_until_ns(wake_ns);
        }
    }

    /// After the last packet: hear answers until all have come or are late.
    fn linger(&mut self) {
        let until_ns = now_ns() + self.arguments.timeout_ns;
        loop {
            let is_more = self.hear();
            self.close_intervals();
            let Some(echo) = &self.echo else { return };
            let now_ns = now_ns();
            // A full batch is followed by another one, but not without end: foreign packets may come as well.
            let emptied = !is_more || now_ns > until_ns + DRAIN_NS;
            let missing = self.sent_packets.saturating_sub(echo.counter.tally.received_packets);
            if emptied && (missing == 0 || now_ns >= until_ns || asked_to_end().is_some()) {
                return;
            }
            if !is_more {
                echo.intake.wait(&self.sockets, until_ns);
            }
        }
    }
}
