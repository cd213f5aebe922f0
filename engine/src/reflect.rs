//! `reflect`: send each packet back to its source.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};

use serde::Serialize;

use crate::command_line::{IoPath, ReflectArguments};
use crate::host::UdpErrors;
use crate::io::BATCH_MAX;
use crate::listener::{ArrivalTimes, Listener, listen};
use crate::output::Output;
use crate::packet::{Header, Kind, Refusal};
use crate::packet_reader::PacketReader;
use crate::sequence::SessionFilter;
use crate::shutdown::{EndReason, EngineError};
use crate::socket::{EngineFacts, SocketCapabilities, open};
use crate::transmit::{Packet, Transmitter};

#[derive(Clone, Copy, Default, Serialize)]
pub struct ReflectCounts {
    pub received_packets: u64,
    received_bytes: u64,
    answered_packets: u64,
    unanswered_packets: u64,
    pub corrupted_packets: u64,
    pub foreign_packets: u64,
    socket_dropped_packets: Option<u64>,
}

impl ReflectCounts {
    fn since(&self, earlier: &ReflectCounts) -> ReflectCounts {
        let dropped = self
            .socket_dropped_packets
            .map(|now| now - earlier.socket_dropped_packets.unwrap_or(0));
        ReflectCounts {
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
struct ReflectIntervalLine {
    r#type: &'static str,
    role: &'static str,
    index: u64,
    start_ns: u64,
    end_ns: u64,
    #[serde(flatten)]
    counts: ReflectCounts,
}

#[derive(Serialize)]
struct ReflectSummaryLine {
    r#type: &'static str,
    role: &'static str,
    end_reason: EndReason,
    #[serde(flatten)]
    facts: EngineFacts,
    #[serde(flatten)]
    counts: ReflectCounts,
    receive_buffer_errors: Option<u64>,
    checksum_errors: Option<u64>,
    first_arrival_ns: Option<u64>,
    last_arrival_ns: Option<u64>,
    errors: BTreeMap<String, u64>,
    calls: u64,
    burst_packets_max: u64,
}

pub struct Reflector<'a> {
    socket: &'a UdpSocket,
    output: &'a Output,
    reader: PacketReader,
    transmitter: Transmitter,
    filter: SessionFilter,
    peer: Option<IpAddr>,
    pub counts: ReflectCounts,
    before: ReflectCounts,
    index: u64,
    interval_start_ns: Option<u64>,
    arrivals: ArrivalTimes,
    answers: Vec<(usize, Header)>,
}

pub fn run(arguments: &ReflectArguments, output: &Output) -> Result<(), EngineError> {
    let common = &arguments.common;
    let opened = [open(arguments.bind, None, common.buffer_bytes)?];
    let socket = &opened[0].socket;
    let mut capabilities = SocketCapabilities::new(common, &opened, true, false);
    let ipv6 = arguments.bind.is_ipv6();
    let errors_before = UdpErrors::read(ipv6);
    let mut reflector = Reflector::new(arguments, &capabilities, socket, output);
    let start_ns = reflector.arrivals.last_ns;
    let hello = capabilities.hello("reflect", common, &opened);
    output.print(move || hello);

    let end_reason = listen(&mut reflector, &[socket], common, arguments.silence_ns);

    capabilities.path = reflector.transmitter.path;
    let facts = EngineFacts::new(common, &capabilities, start_ns);
    if common.interval_ns > 0 && reflector.interval_start_ns.is_some() {
        reflector.close_interval(facts.end_ns);
    } else {
        reflector.refresh_counts();
    }
    let errors = UdpErrors::read(ipv6);
    let grown = |value: fn(UdpErrors) -> u64| Some(value(errors?).saturating_sub(value(errors_before?)));
    let mut sending_errors = reflector.transmitter.errors;
    for (name, count) in reflector.reader.errors {
        *sending_errors.entry(name).or_default() += count;
    }
    let summary = ReflectSummaryLine {
        r#type: "summary",
        role: "reflect",
        end_reason,
        facts,
        counts: reflector.counts,
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
        let count = self.reader.take(self.socket);
        self.answers.clear();
        for index in 0..count {
            match self.examine(index) {
                Ok(request) => self.answers.push((index, request)),
                Err(Refusal::Foreign) => self.counts.foreign_packets += 1,
                Err(Refusal::Broken) => self.counts.corrupted_packets += 1,
            }
        }
        if self.answers.is_empty() {
            return count;
        }
        let now_ns = self.reader.clock.now_ns();
        self.arrivals.note(now_ns);
        self.interval_start_ns = self.interval_start_ns.or(Some(now_ns));
        self.answer();
        count
    }

    fn close_interval(&mut self, end_ns: u64) {
        self.refresh_counts();
        let (index, start_ns) = (self.index, self.interval_start_ns.replace(end_ns).unwrap_or(end_ns));
        let counts = self.counts.since(&self.before);
        self.before = self.counts;
        self.index += 1;
        self.output.print(move || ReflectIntervalLine {
            r#type: "interval",
            role: "reflect",
            index,
            start_ns,
            end_ns,
            counts,
        });
    }

    fn interval_start_ns(&self) -> Option<u64> {
        self.interval_start_ns
    }

    fn packets(&self) -> u64 {
        self.counts.received_packets
    }

    fn arrivals(&self) -> &ArrivalTimes {
        &self.arrivals
    }

    fn reader(&mut self) -> &mut PacketReader {
        &mut self.reader
    }
}

impl<'a> Reflector<'a> {
    pub fn new(
        arguments: &ReflectArguments,
        capabilities: &SocketCapabilities,
        socket: &'a UdpSocket,
        output: &'a Output,
    ) -> Reflector<'a> {
        let common = &arguments.common;
        Reflector {
            socket,
            output,
            reader: PacketReader::new(common, capabilities, true, &[socket]),
            transmitter: Transmitter::new(capabilities.path, common.path.is_some()),
            filter: SessionFilter::new(common.session, Kind::Request, Vec::new()),
            peer: arguments.peer.map(|peer| peer.to_canonical()),
            counts: ReflectCounts::default(),
            before: ReflectCounts::default(),
            index: 0,
            interval_start_ns: None,
            arrivals: ArrivalTimes::new(),
            answers: Vec::with_capacity(BATCH_MAX),
        }
    }

    /// Return the header if the packet asks for an answer and comes from the session's peer.
    fn examine(&mut self, index: usize) -> Result<Header, Refusal> {
        let header = self
            .filter
            .examine_header(self.reader.inbox.packet(index), self.reader.inbox.cut(index))?;
        let ip = self.reader.inbox.source(index).ip().ok_or(Refusal::Foreign)?;
        if *self.peer.get_or_insert(ip) != ip {
            return Err(Refusal::Foreign);
        }
        Ok(header)
    }

    fn answer(&mut self) {
        let shares_time = self.transmitter.path == IoPath::Gso && self.answers.len() > 1;
        for (index, request) in &self.answers {
            self.filter
                .make_answer(request, shares_time, self.reader.inbox.packet_mut(*index));
        }
        let inbox = &self.reader.inbox;
        let packets: Vec<Packet> = self
            .answers
            .iter()
            .map(|&(index, _)| Packet {
                bytes: inbox.packet(index),
                to: Some(inbox.source(index)),
            })
            .collect();
        self.counts.received_packets += packets.len() as u64;
        self.counts.received_bytes += packets.iter().map(|packet| packet.bytes.len() as u64).sum::<u64>();
        let mut rest = &packets[..];
        while !rest.is_empty() {
            let outcome = self.transmitter.send(self.socket, rest);
            self.counts.answered_packets += outcome.taken as u64;
            self.counts.unanswered_packets += outcome.refused as u64;
            rest = &rest[outcome.taken + outcome.refused..];
        }
    }

    fn refresh_counts(&mut self) {
        self.reader.count_dropped(&[self.socket]);
        self.counts.socket_dropped_packets = self.reader.drops_are_known().then_some(self.reader.dropped_packets);
    }
}
