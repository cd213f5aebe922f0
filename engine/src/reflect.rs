//! `reflect`: send back what comes, to where it came from.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};

use serde::Serialize;

use crate::arguments::{Path, Reflect};
use crate::arrivals::Intake;
use crate::counting::Gate;
use crate::ending::{CannotHere, EndReason, asked_to_end};
use crate::host::UdpErrors;
use crate::io::{BATCH_MAX, now_ns};
use crate::output::Output;
use crate::packet::{Header, Kind, Refusal, make_answer};
use crate::receive::drain;
use crate::socket::{Closing, Means, open};
use crate::transmit::{Packet, Transmitter};

#[derive(Clone, Copy, Default, Serialize)]
struct Tally {
    received_packets: u64,
    received_bytes: u64,
    answered_packets: u64,
    unanswered_packets: u64,
    corrupted_packets: u64,
    foreign_packets: u64,
    socket_dropped_packets: Option<u64>,
}

impl Tally {
    fn since(&self, earlier: &Tally) -> Tally {
        let dropped = self
            .socket_dropped_packets
            .map(|now| now - earlier.socket_dropped_packets.unwrap_or(0));
        Tally {
            received_packets: self.received_packets - earlier.received_packets,
            received_bytes: self.received_bytes - earlier.received_bytes,
            answered_packets: self.answered_packets - earlier.answered_packets,
            unanswered_packets: self.unanswered_packets - earlier.unanswered_packets,
            corrupted_packets: self.corrupted_packets - earlier.corrupted_packets,
            foreign_packets: self.foreign_packets - earlier.foreign_packets,
            socket_dropped_packets: dropped,
        }
    }
}

#[derive(Serialize)]
struct Interval {
    r#type: &'static str,
    role: &'static str,
    index: u64,
    start_ns: u64,
    end_ns: u64,
    #[serde(flatten)]
    tally: Tally,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    role: &'static str,
    end_reason: EndReason,
    #[serde(flatten)]
    closing: Closing,
    #[serde(flatten)]
    tally: Tally,
    receive_buffer_errors: Option<u64>,
    checksum_errors: Option<u64>,
    first_arrival_ns: Option<u64>,
    last_arrival_ns: Option<u64>,
    errors: BTreeMap<String, u64>,
    calls: u64,
    burst_packets_max: u64,
}

struct Reflector<'a> {
    arguments: &'a Reflect,
    socket: &'a UdpSocket,
    output: &'a Output,
    intake: Intake,
    transmitter: Transmitter,
    gate: Gate,
    peer: Option<IpAddr>,
    tally: Tally,
    before: Tally,
    index: u64,
    interval_start_ns: Option<u64>,
    first_ns: Option<u64>,
    last_ns: u64,
    answers: Vec<usize>,
}

pub fn run(arguments: &Reflect, output: &Output) -> Result<(), CannotHere> {
    let common = &arguments.common;
    let opened = [open(arguments.bind, None, common.buffer_bytes)?];
    let socket = &opened[0].socket;
    let mut means = Means::new(common, &opened, true, false);
    let ipv6 = arguments.bind.is_ipv6();
    let errors_before = UdpErrors::read(ipv6);
    let mut reflector = Reflector {
        arguments,
        socket,
        output,
        intake: Intake::new(true, None, means.path, common.wait, common.latency, &[socket]),
        transmitter: Transmitter::new(means.path, common.path.is_some()),
        gate: Gate::new(common.session, Kind::Request, Vec::new()),
        peer: arguments.peer,
        tally: Tally::default(),
        before: Tally::default(),
        index: 0,
        interval_start_ns: None,
        first_ns: None,
        last_ns: now_ns(),
        answers: Vec::with_capacity(BATCH_MAX),
    };
    let start_ns = reflector.last_ns;
    let hello = means.hello("reflect", common, &opened);
    output.print(move || hello);

    let end_reason = loop {
        let count = reflector.take();
        reflector.close_intervals();
        if let Some(reason) = reflector.ended() {
            break reason;
        }
        if !reflector.intake.is_full(count) {
            reflector.intake.wait(&[socket], reflector.interval_end_ns());
        }
    };
    drain(|| {
        let count = reflector.take();
        reflector.intake.is_full(count)
    });

    means.path = reflector.transmitter.path;
    let closing = Closing::new(common, &means, start_ns);
    if common.interval_ns > 0 && reflector.interval_start_ns.is_some() {
        reflector.close_interval(closing.end_ns);
    } else {
        reflector.settle();
    }
    let errors = UdpErrors::read(ipv6);
    let grown = |value: fn(UdpErrors) -> u64| Some(value(errors?).saturating_sub(value(errors_before?)));
    let mut sending_errors = reflector.transmitter.errors;
    for (name, count) in reflector.intake.errors {
        *sending_errors.entry(name).or_default() += count;
    }
    let summary = Summary {
        r#type: "summary",
        role: "reflect",
        end_reason,
        closing,
        tally: reflector.tally,
        receive_buffer_errors: grown(|errors| errors.receive_buffer),
        checksum_errors: grown(|errors| errors.checksum),
        first_arrival_ns: reflector.first_ns,
        last_arrival_ns: reflector.first_ns.map(|_| reflector.last_ns),
        errors: sending_errors,
        calls: reflector.transmitter.calls,
        burst_packets_max: reflector.transmitter.burst_packets_max,
    };
    output.print(move || summary);
    Ok(())
}

impl Reflector<'_> {
    /// Take a batch and answer it.
    fn take(&mut self) -> usize {
        let count = self.intake.take(self.socket);
        self.answers.clear();
        for index in 0..count {
            match self.examine(index) {
                Ok(_) => self.answers.push(index),
                Err(Refusal::Foreign) => self.tally.foreign_packets += 1,
                Err(Refusal::Broken) => self.tally.corrupted_packets += 1,
            }
        }
        if self.answers.is_empty() {
            return count;
        }
        let now_ns = self.intake.clock.now_ns();
        self.first_ns = self.first_ns.or(Some(now_ns));
        self.interval_start_ns = self.interval_start_ns.or(Some(now_ns));
        self.last_ns = now_ns;
        self.answer();
        count
    }

    /// Whether the packet asks for an answer, and from where the session's packets come.
    fn examine(&mut self, index: usize) -> Result<Header, Refusal> {
        let header = self
            .gate
            .examine_header(self.intake.inbox.packet(index), self.intake.inbox.cut(index))?;
        let ip = self.intake.inbox.source(index).ip().ok_or(Refusal::Foreign)?;
        if *self.peer.get_or_insert(ip) != ip {
            return Err(Refusal::Foreign);
        }
        Ok(header)
    }

    fn answer(&mut self) {
        let shares_time = self.transmitter.path == Path::Gso && self.answers.len() > 1;
        for &index in &self.answers {
            make_answer(self.intake.inbox.packet_mut(index), shares_time);
        }
        let inbox = &self.intake.inbox;
        let packets: Vec<Packet> = self
            .answers
            .iter()
            .map(|&index| Packet {
                bytes: inbox.packet(index),
                to: Some(inbox.source(index)),
            })
            .collect();
        self.tally.received_packets += packets.len() as u64;
        self.tally.received_bytes += packets.iter().map(|packet| packet.bytes.len() as u64).sum::<u64>();
        let mut rest = &packets[..];
        while !rest.is_empty() {
            let outcome = self.transmitter.send(self.socket, rest);
            self.tally.answered_packets += outcome.taken as u64;
            self.tally.unanswered_packets += outcome.refused as u64;
            rest = &rest[outcome.taken + outcome.refused..];
        }
    }

    fn interval_end_ns(&self) -> u64 {
        match self.interval_start_ns {
            Some(start_ns) if self.arguments.common.interval_ns > 0 => start_ns + self.arguments.common.interval_ns,
            _ => u64::MAX,
        }
    }

    fn close_intervals(&mut self) {
        while self.intake.clock.now_ns() >= self.interval_end_ns() {
            self.close_interval(self.interval_end_ns());
        }
    }

    fn settle(&mut self) {
        self.intake.count_dropped(&[self.socket]);
        self.tally.socket_dropped_packets = self.intake.drops_are_known().then_some(self.intake.dropped_packets);
    }

    fn close_interval(&mut self, end_ns: u64) {
        self.settle();
        let (index, start_ns) = (self.index, self.interval_start_ns.replace(end_ns).unwrap_or(end_ns));
        let tally = self.tally.since(&self.before);
        self.before = self.tally;
        self.index += 1;
        self.output.print(move || Interval {
            r#type: "interval",
            role: "reflect",
            index,
            start_ns,
            end_ns,
            tally,
        });
    }

    fn ended(&self) -> Option<EndReason> {
        let now_ns = self.intake.clock.now_ns();
        let over =
            |since_ns: u64, limit_ns: Option<u64>| limit_ns.is_some_and(|limit_ns| now_ns >= since_ns + limit_ns);
        if self
            .arguments
            .common
            .count
            .is_some_and(|count| self.tally.received_packets >= count)
        {
            return Some(EndReason::Count);
        }
        if self
            .first_ns
            .is_some_and(|first_ns| over(first_ns, self.arguments.common.duration_ns))
        {
            return Some(EndReason::Duration);
        }
        if over(self.last_ns, self.arguments.silence_ns) {
            return Some(EndReason::Silence);
        }
        asked_to_end()
    }
}
