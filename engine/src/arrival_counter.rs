//! Count packets one by one. A receiver and a sender that expects answers share this code.

use crate::counts::{ArrivalCounts, SessionTotals};
use crate::host::UdpErrors;
use crate::packet::Refusal;
use crate::packet_reader::{DelayVariation, PacketReader};
use crate::sequence::{Arrival, FlowSequences, SessionFilter};

pub struct ArrivalCounter {
    pub filter: SessionFilter,
    flows: FlowSequences,
    pub counts: ArrivalCounts,
    totals: SessionTotals,
    pub variation: DelayVariation,
    errors_before: Option<UdpErrors>,
    ipv6: bool,
    /// Age above which a packet is late [ns]. `None`: the age of a packet is unknown.
    late_ns: Option<u64>,
    takes_delays: bool,
}

/// A packet that arrived for the first time, complete and in time.
pub struct Received {
    /// Time of sending, exact if the sender reads the same clock [ns].
    pub sent_ns: u64,
    /// Time since sending, by the same clock [ns].
    pub age_ns: i64,
    pub bytes: u64,
    /// True if the age is the delay of this packet alone.
    pub is_delay: bool,
    /// Difference to the delay of the neighbouring packet, if there is one [ns].
    pub variation_ns: Option<u64>,
}

impl ArrivalCounter {
    pub fn new(filter: SessionFilter, late_ns: Option<u64>, takes_delays: bool, ipv6: bool) -> ArrivalCounter {
        let counts = ArrivalCounts {
            late_packets: late_ns.map(|_| 0),
            ..ArrivalCounts::default()
        };
        ArrivalCounter {
            filter,
            flows: FlowSequences::new(),
            counts,
            totals: SessionTotals::default(),
            variation: DelayVariation::new(),
            errors_before: UdpErrors::read(ipv6),
            ipv6,
            late_ns,
            takes_delays,
        }
    }

    /// Count packet `index` of the last batch. Returns it if it is the first copy, complete and in time.
    pub fn count(&mut self, reader: &PacketReader, index: usize) -> Option<Received> {
        let packet = reader.inbox.packet(index);
        let header = match self.filter.examine(packet, reader.inbox.cut(index)) {
            Ok(header) => header,
            Err(Refusal::Foreign) => {
                self.counts.foreign_packets += 1;
                return None;
            }
            Err(Refusal::Broken) => {
                self.counts.corrupted_packets += 1;
                return None;
            }
        };
        let below = match self.flows.arrive(header.flow, header.sequence) {
            Arrival::First { below } => below,
            Arrival::Copy => {
                self.counts.duplicated_packets += 1;
                return None;
            }
            Arrival::Forgotten => {
                self.counts.forgotten_packets += 1;
                return None;
            }
        };
        let stamp_ns = reader.clock.arrival_ns(&reader.inbox, index);
        let arrival_ns = stamp_ns.unwrap_or(reader.clock.now_ns());
        self.counts.reordered_packets += u64::from(below > 0);
        self.totals.reordered_distance_max_packets = self.totals.reordered_distance_max_packets.max(below);
        self.totals.note_arrival(arrival_ns);
        let age_ns = header.age_ns(arrival_ns);
        if self.late_ns.is_some_and(|late_ns| age_ns > late_ns as i64) {
            *self.counts.late_packets.get_or_insert(0) += 1;
            return None;
        }
        self.counts.received_packets += 1;
        self.counts.received_bytes += packet.len() as u64;
        let is_delay = self.takes_delays && stamp_ns.is_some() && !header.shared_time;
        self.totals.delay_excluded_packets += u64::from(self.takes_delays && !is_delay);
        let variation_ns = if is_delay {
            self.variation.record(&header, age_ns)
        } else {
            None
        };
        let sent_ns = arrival_ns.wrapping_sub(age_ns as u64);
        Some(Received {
            sent_ns,
            age_ns,
            bytes: packet.len() as u64,
            is_delay,
            variation_ns,
        })
    }

    /// Bring up to date the counts that do not come from single packets.
    pub fn refresh_counts(&mut self, reader: &PacketReader) {
        self.counts.expected_packets = self.flows.expected_packets();
        self.counts.socket_dropped_packets = reader.drops_are_known().then_some(reader.dropped_packets);
    }

    pub fn totals(&self, reader: &PacketReader) -> SessionTotals {
        let errors = UdpErrors::read(self.ipv6);
        let grown = |value: fn(UdpErrors) -> u64| Some(value(errors?).saturating_sub(value(self.errors_before?)));
        SessionTotals {
            first_sequence: self.flows.first_sequence(),
            flows_seen: self.flows.seen(),
            receive_buffer_errors: grown(|errors| errors.receive_buffer),
            checksum_errors: grown(|errors| errors.checksum),
            clock_steps: reader.clock.steps,
            ..self.totals.clone()
        }
    }
}
