//! One packet after the other into the tally: what a receiver and a sender that hears answers have in common.

use crate::arrivals::{Intake, Variation};
use crate::counting::{Arrival, Flows, Gate};
use crate::host::UdpErrors;
use crate::packet::Refusal;
use crate::tally::{Tally, Totals};

pub struct Counter {
    pub gate: Gate,
    flows: Flows,
    pub tally: Tally,
    totals: Totals,
    pub variation: Variation,
    errors_before: Option<UdpErrors>,
    ipv6: bool,
    /// Later than this is late; `None` where the age of a packet is not known.
    late_ns: Option<u64>,
    takes_delays: bool,
}

/// A packet that came for the first time, whole and in time.
pub struct Received {
    /// When it was sent, by this machine's clock if that is the sender's, too [ns].
    pub sent_ns: u64,
    /// Since it was sent, by the same clock [ns].
    pub age_ns: i64,
    pub bytes: u64,
    /// Whether the age is this packet's delay, and the difference to its neighbour's if there is one.
    pub is_delay: bool,
    pub variation_ns: Option<u64>,
}

impl Counter {
    pub fn new(gate: Gate, late_ns: Option<u64>, takes_delays: bool, ipv6: bool) -> Counter {
        let tally = Tally {
            late_packets: late_ns.map(|_| 0),
            ..Tally::default()
        };
        Counter {
            gate,
            flows: Flows::new(),
            tally,
            totals: Totals::default(),
            variation: Variation::new(),
            errors_before: UdpErrors::read(ipv6),
            ipv6,
            late_ns,
            takes_delays,
        }
    }

    /// Count packet `index` of the batch that was taken last.
    pub fn count(&mut self, intake: &Intake, index: usize) -> Option<Received> {
        let packet = intake.inbox.packet(index);
        let header = match self.gate.examine(packet, intake.inbox.cut(index)) {
            Ok(header) => header,
            Err(Refusal::Foreign) => {
                self.tally.foreign_packets += 1;
                return None;
            }
            Err(Refusal::Broken) => {
                self.tally.corrupted_packets += 1;
                return None;
            }
        };
        let below = match self.flows.arrive(header.flow, header.sequence) {
            Arrival::First { below } => below,
            Arrival::Copy => {
                self.tally.duplicated_packets += 1;
                return None;
            }
            Arrival::Forgotten => {
                self.tally.forgotten_packets += 1;
                return None;
            }
        };
        let stamp_ns = intake.clock.arrival_ns(&intake.inbox, index);
        let arrival_ns = stamp_ns.unwrap_or(intake.clock.now_ns());
        self.tally.reordered_packets += u64::from(below > 0);
        self.totals.reordered_distance_max_packets = self.totals.reordered_distance_max_packets.max(below);
        self.totals.first_arrival_ns = self.totals.first_arrival_ns.or(Some(arrival_ns));
        self.totals.last_arrival_ns = self.totals.last_arrival_ns.max(Some(arrival_ns));
        let age_ns = header.age_ns(arrival_ns);
        if self.late_ns.is_some_and(|late_ns| age_ns > late_ns as i64) {
            *self.tally.late_packets.get_or_insert(0) += 1;
            return None;
        }
        self.tally.received_packets += 1;
        self.tally.received_bytes += packet.len() as u64;
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

    /// Bring up to date what is not counted packet by packet.
    pub fn settle(&mut self, intake: &Intake) {
        self.tally.expected_packets = self.flows.expected_packets();
        self.tally.socket_dropped_packets = intake.drops_are_known().then_some(intake.dropped_packets);
    }

    pub fn totals(&self, intake: &Intake) -> Totals {
        let errors = UdpErrors::read(self.ipv6);
        let grown = |value: fn(UdpErrors) -> u64| Some(value(errors?).saturating_sub(value(self.errors_before?)));
        Totals {
            first_sequence: self.flows.first_sequence(),
            flows_seen: self.flows.seen(),
            receive_buffer_errors: grown(|errors| errors.receive_buffer),
            checksum_errors: grown(|errors| errors.checksum),
            clock_steps: intake.clock.steps,
            ..self.totals.clone()
        }
    }
}
