//! `reflect`: send back what comes, to where it came from.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};

use serde::Serialize;

use crate::arguments::{Path, Reflect};
use crate::arrivals::Intake;
use crate::counting::Gate;
use crate::ending::{CannotHere, EndReason};
use crate::host::UdpErrors;
use crate::io::BATCH_MAX;
use crate::listening::{Arrivals, Listener, listen};
use crate::output::Output;
use crate::packet::{Header, Kind, Refusal, make_answer};
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
    arrivals: Arrivals,
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
        arrivals: Arrivals::new(),
        answers: Vec::with_capacity(BATCH_MAX),
    };
    let start_ns = reflector.arrivals.last_ns;
    let hello = means.hello("reflect", common, &opened);
    output.print(move || hello);

    let end_reason = listen(&mut reflector, socket, common, arguments.silence_ns);

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
        first_arrival_ns: reflector.arrivals.first_ns,
        last_arrival_ns: reflector.arrivals.first_ns.map(|_| reflector.arrivals.last_ns),
        errors: sending_errors,
        calls: reflector.transmitter.calls,
        burst_packets_max: reflector.transmitter.burst_packets_max,
    };
    output.print(move || summary);
    Ok(())
}

impl Listener for Reflector<'_> {
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
        self.arrivals.note(now_ns);
        self.interval_start_ns = self.interval_start_ns.or(Some(now_ns));
        self.answer();
        count
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

    fn interval_start_ns(&self) -> Option<u64> {
        self.interval_start_ns
    }

    fn packets(&self) -> u64 {
        self.tally.received_packets
    }

    fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    fn intake(&mut self) -> &mut Intake {
        &mut self.intake
    }
}

impl Reflector<'_> {
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

    fn settle(&mut self) {
        self.intake.count_dropped(&[self.socket]);
        self.tally.socket_dropped_packets = self.intake.drops_are_known().then_some(self.intake.dropped_packets);
    }
}
