//! `send`: send packets at a rate, in bursts, in a window or as fast as possible, and count their answers with
//! --echo.

mod summary;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::command_line::{OfferedLoad, SendArguments};
use crate::counts::ArrivalCounts;
use crate::echo::Echo;
use crate::io::{self, BATCH_MAX, now_ns};
use crate::listener::DRAIN_NS;
use crate::output::Output;
use crate::pacing::{PacingQuality, Schedule};
use crate::packet::{Header, Kind};
use crate::send_intervals::SendIntervals;
use crate::sequence::SessionFilter;
use crate::shutdown::{EndReason, EngineError, stop_requested};
use crate::socket::{EngineFacts, OpenSocket, SocketCapabilities, open};
use crate::transmit::{Packet, Transmitter};

/// Time before a packet is due from which the sender spins [ns]. A sleep ends up to 60 us late.
const SPIN_NS: u64 = 80_000;
const SLEEP_MAX_NS: u64 = 50_000_000;
/// Time after the end in which a delayed sender may still send packets that were due [ns].
const GRACE_NS: u64 = 20_000_000;

struct Sender<'a> {
    arguments: &'a SendArguments,
    sockets: Vec<&'a UdpSocket>,
    output: &'a Output,
    transmitter: Transmitter,
    filter: SessionFilter,
    buffers: Vec<u8>,
    sizes: Vec<usize>,
    size_max: usize,
    load: OfferedLoad,
    /// Next sequence number of each flow.
    sequences: Vec<u64>,
    /// Flow that sends next.
    turn: usize,
    start_ns: u64,
    sent_packets: u64,
    sent_bytes: u64,
    unsent_packets: u64,
    first_send_ns: Option<u64>,
    last_send_ns: Option<u64>,
    schedule: Option<Schedule>,
    pacing_quality: Option<PacingQuality>,
    intervals: SendIntervals,
    echo: Option<Echo>,
}

pub fn run(arguments: &SendArguments, output: &Output) -> Result<(), EngineError> {
    let common = &arguments.common;
    io::reduce_timer_slack();
    let opened = open_flows(arguments)?;
    let sockets: Vec<&UdpSocket> = opened.iter().map(|one| &one.socket).collect();
    let mut capabilities = SocketCapabilities::new(common, &opened, true, arguments.echo);
    let start_ns = now_ns();
    let hello = capabilities.hello("send", common, &opened);
    output.print(move || hello);

    let mut sender = Sender::new(arguments, sockets, output, &capabilities);
    let end_reason = sender.send_all();
    let end_ns = now_ns();
    if sender.echo.is_some() && !matches!(end_reason, EndReason::InputClosed | EndReason::Signal) {
        sender.await_late_answers();
    }
    capabilities.path = sender.transmitter.path;
    sender.finish(end_reason, end_ns, EngineFacts::new(common, &capabilities, start_ns));
    Ok(())
}

fn open_flows(arguments: &SendArguments) -> Result<Vec<OpenSocket>, EngineError> {
    let unspecified = match arguments.target {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let first = arguments.bind.unwrap_or(unspecified);
    (0..arguments.flows)
        .map(|flow| {
            let mut source = first;
            if first.port() != 0 {
                source.set_port(first.port().wrapping_add(flow));
            }
            open(source, Some(arguments.target), arguments.common.buffer_bytes)
        })
        .collect()
}

impl<'a> Sender<'a> {
    fn new(
        arguments: &'a SendArguments,
        sockets: Vec<&'a UdpSocket>,
        output: &'a Output,
        capabilities: &SocketCapabilities,
    ) -> Sender<'a> {
        let common = &arguments.common;
        let (sizes, load) = (arguments.sizes(), arguments.load());
        let size_max = sizes.iter().copied().max().unwrap_or_default();
        let echo = arguments.echo.then(|| Echo::new(arguments, &sockets, capabilities));
        let kind = if arguments.echo { Kind::Request } else { Kind::OneWay };
        let filter = SessionFilter::new(common.session, kind, Vec::new());
        let start_ns = now_ns();
        let (schedule, pacing_quality) = match load {
            OfferedLoad::Rate(rate) => (
                Some(Schedule::new(rate, arguments.catch_up(), start_ns)),
                Some(PacingQuality::new(rate)),
            ),
            _ => (None, None),
        };
        let timeout_ns = arguments.echo.then_some(arguments.timeout_ns);
        Sender {
            intervals: SendIntervals::new(
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
            transmitter: Transmitter::new(capabilities.path, common.path.is_some()),
            filter,
            buffers: vec![0; size_max * BATCH_MAX],
            sizes,
            size_max,
            load,
            turn: 0,
            start_ns,
            sent_packets: 0,
            sent_bytes: 0,
            unsent_packets: 0,
            first_send_ns: None,
            last_send_ns: None,
            schedule,
            pacing_quality,
            echo,
        }
    }

    /// Return the number of packets that were sent or refused.
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
            if let Some(reason) = stop_requested() {
                return reason;
            }
            if self.done() >= total {
                // A stream with a rate lasts for its whole duration, the gap after its last packet included.
                if common.count.is_some_and(|count| self.done() >= count) {
                    return EndReason::Count;
                }
                if now_ns >= end_ns {
                    return EndReason::Duration;
                }
            }
            let may_end_late = self.schedule.as_ref().is_some_and(Schedule::may_end_late);
            if now_ns >= end_ns && (!may_end_late || now_ns >= end_ns + GRACE_NS) {
                return EndReason::Duration;
            }
            let room = self.room(now_ns).min(total - self.done().min(total));
            if room > 0 {
                self.send_batch(room);
            }
            let is_more = self.receive_answers();
            self.close_intervals();
            if room == 0 && !is_more {
                self.wait(end_ns);
            }
        }
    }

    /// Return how many packets are to be sent in all, as far as that is known.
    fn total(&self) -> u64 {
        let common = &self.arguments.common;
        let by_rate = match (&self.schedule, common.duration_ns) {
            (Some(schedule), Some(duration_ns)) => schedule.intended(duration_ns),
            _ => u64::MAX,
        };
        by_rate.min(common.count.unwrap_or(u64::MAX))
    }

    /// Return how many packets may leave now.
    fn room(&mut self, now_ns: u64) -> u64 {
        match self.load {
            OfferedLoad::FlatOut => u64::MAX,
            OfferedLoad::Rate(_) => self.schedule.as_mut().map_or(0, |schedule| schedule.release(now_ns)),
            OfferedLoad::Burst(packets, pause_ns) => {
                let bursts = match pause_ns {
                    Some(pause_ns) if pause_ns > 0 => (now_ns - self.start_ns) / pause_ns + 1,
                    _ => u64::MAX,
                };
                // A burst that takes longer than its pause is not followed by two bursts at once.
                let begun = self.done() / packets;
                if bursts > begun || self.done() % packets != 0 {
                    packets - self.done() % packets
                } else {
                    0
                }
            }
            OfferedLoad::Window(packets) => {
                let Some(echo) = &mut self.echo else { return 0 };
                echo.in_flight.expire(now_ns);
                packets.saturating_sub(echo.in_flight.packets())
            }
        }
    }

    /// Send up to `room` packets of the next flow.
    fn send_batch(&mut self, room: u64) {
        let sizes = &self.sizes;
        let size = |index: u64| sizes[(index % sizes.len() as u64) as usize];
        let most = match (self.arguments.common.latency, sizes.len()) {
            (true, _) => 1,
            (false, 1) => self.transmitter.batch_packets(sizes[0]),
            (false, _) => self.transmitter.batch_packets(self.size_max).max(BATCH_MAX / 2),
        };
        let count = room.min(most as u64).min(BATCH_MAX as u64) as usize;
        let flow = self.turn;
        let planned_ns = self.schedule.as_ref().map(Schedule::planned_ns);
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
            self.filter
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
        if let (Some(pacing_quality), Some(due_ns)) = (&mut self.pacing_quality, planned_ns) {
            let before = pacing_quality.stall_counter.stalls;
            pacing_quality.record(time_ns, due_ns, taken + refused);
            stalls = pacing_quality.stall_counter.stalls - before;
        }
        if let Some(schedule) = &mut self.schedule {
            schedule.advance(taken + refused);
            if schedule.watches_calls() {
                schedule.called(now_ns());
            }
        }
        if let Some(echo) = &mut self.echo {
            echo.in_flight.sent(time_ns, taken);
        }
        self.intervals.sent(time_ns, taken, bytes, refused, stalls);
    }

    /// Count the answers that have arrived. Returns true if more may be waiting.
    fn receive_answers(&mut self) -> bool {
        match &mut self.echo {
            Some(echo) => echo.receive_answers(&self.sockets, &mut self.intervals),
            None => false,
        }
    }

    fn close_intervals(&mut self) {
        while self.intervals.is_due(now_ns()) {
            let counts = self.refresh_counts();
            self.intervals.close(&counts, self.output);
        }
    }

    /// Return the up-to-date counts of what has arrived.
    fn refresh_counts(&mut self) -> ArrivalCounts {
        self.echo
            .as_mut()
            .map_or_else(ArrivalCounts::default, |echo| echo.refresh_counts(&self.sockets))
    }

    /// Wait until a packet may leave or an answer arrives.
    fn wait(&mut self, end_ns: u64) {
        let now_ns = now_ns();
        let next_ns = match (self.load, &self.schedule) {
            (OfferedLoad::Rate(_), Some(schedule)) => schedule.next_release_ns(),
            (OfferedLoad::Burst(_, Some(pause_ns)), _) if pause_ns > 0 => {
                self.start_ns + ((now_ns - self.start_ns) / pause_ns + 1) * pause_ns
            }
            _ => now_ns + SLEEP_MAX_NS,
        };
        let wake_ns = next_ns.min(end_ns).min(now_ns + SLEEP_MAX_NS).saturating_sub(SPIN_NS);
        if wake_ns <= now_ns {
            std::hint::spin_loop();
        } else if let Some(echo) = &self.echo {
            echo.reader.wait(&self.sockets, wake_ns);
        } else {
            io::sleep_until_ns(wake_ns);
        }
    }

    /// After the last packet, count answers until all have arrived or are late.
    fn await_late_answers(&mut self) {
        let until_ns = now_ns() + self.arguments.timeout_ns;
        loop {
            let is_more = self.receive_answers();
            self.close_intervals();
            let Some(echo) = &self.echo else { return };
            let now_ns = now_ns();
            // Foreign packets can fill batch after batch, so a full batch does not prolong the wait without limit.
            let emptied = !is_more || now_ns > until_ns + DRAIN_NS;
            let missing = self.sent_packets.saturating_sub(echo.counter.counts.received_packets);
            if emptied && (missing == 0 || now_ns >= until_ns || stop_requested().is_some()) {
                return;
            }
            if !is_more {
                echo.reader.wait(&self.sockets, until_ns);
            }
        }
    }
}
