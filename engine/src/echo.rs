//! Receive the answers to the packets of a sender.

use std::net::UdpSocket;

use crate::arrival_counter::ArrivalCounter;
use crate::command_line::SendArguments;
use crate::counts::ArrivalCounts;
use crate::histogram::DurationHistogram;
use crate::packet::Kind;
use crate::packet_reader::PacketReader;
use crate::send_intervals::{InFlight, SendIntervals};
use crate::sequence::SessionFilter;
use crate::socket::SocketCapabilities;

pub struct Echo {
    pub reader: PacketReader,
    pub counter: ArrivalCounter,
    pub in_flight: InFlight,
    pub rtt: Option<DurationHistogram>,
    pub variation: Option<DurationHistogram>,
}

impl Echo {
    pub fn new(arguments: &SendArguments, sockets: &[&UdpSocket], capabilities: &SocketCapabilities) -> Echo {
        let common = &arguments.common;
        let filter = SessionFilter::new(common.session, Kind::Answer, arguments.sizes());
        let ipv6 = arguments.target.is_ipv6();
        let delays = || common.latency.then(DurationHistogram::new);
        Echo {
            reader: PacketReader::new(common, capabilities, false, sockets),
            counter: ArrivalCounter::new(filter, Some(arguments.timeout_ns), common.latency, ipv6),
            in_flight: InFlight::new(arguments.timeout_ns),
            rtt: delays(),
            variation: delays(),
        }
    }

    /// Count the answers that have arrived, at most one batch of each socket. Returns true if more may be waiting.
    pub fn receive_answers(&mut self, sockets: &[&UdpSocket], intervals: &mut SendIntervals) -> bool {
        let mut is_more = false;
        for socket in sockets {
            let count = self.reader.take(socket);
            is_more |= self.reader.inbox.is_full();
            for index in 0..count {
                let Some(received) = self.counter.count(&self.reader, index) else {
                    continue;
                };
                let rtt_ns = received.is_delay.then_some(received.age_ns.max(0) as u64);
                self.in_flight.answered(received.sent_ns);
                intervals.answered(received.sent_ns, received.bytes, rtt_ns);
                if let (Some(rtt), Some(rtt_ns)) = (&mut self.rtt, rtt_ns) {
                    rtt.record(rtt_ns);
                }
                if let (Some(variation), Some(difference_ns)) = (&mut self.variation, received.variation_ns) {
                    variation.record(difference_ns);
                }
            }
        }
        is_more
    }

    /// Bring the counts up to date and return them.
    pub fn refresh_counts(&mut self, sockets: &[&UdpSocket]) -> ArrivalCounts {
        self.reader.count_dropped(sockets);
        self.counter.refresh_counts(&self.reader);
        self.counter.counts
    }
}
