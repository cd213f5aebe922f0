//! Wait for packets, read them in batches, and time their arrival.

use std::collections::BTreeMap;
use std::net::UdpSocket;

use crate::command_line::{CommonArguments, IoPath, TimestampSource, WaitMode};
use crate::host::undelivered_packets;
use crate::io::{self, Inbox, InboxOptions};
use crate::packet::{FLOWS_MAX, Header, wrap_ns};
use crate::socket::SocketCapabilities;

/// Intended length of a nap [ns]. The kernel makes it 100-200 us.
const NAP_NS: u64 = 100_000;
/// After this time without a packet, naps become a sleep that a packet ends [ns].
const NAP_UNTIL_IDLE_NS: u64 = 20_000_000;
/// Longest wait before the end conditions are checked again [ns].
const WAIT_MAX_NS: u64 = 50_000_000;
/// Change between the clocks above which the system clock was set [ns]. Both clocks are read directly after each
/// other.
const CLOCK_STEP_NS: u64 = 20_000;
/// Error of the difference between the clocks [ns]. A packet cannot arrive later than it is read by more than this.
const CLOCK_ERROR_NS: u64 = 50_000;

/// The arrival times of a batch.
pub struct ArrivalClock {
    stamps: Option<TimestampSource>,
    offset_ns: i64,
    /// True if the socket may still hold packets that were stamped before the system clock was set.
    unsettled: bool,
    /// True if the last batch emptied the socket.
    emptied: bool,
    pub steps: u64,
    now_ns: u64,
}

impl ArrivalClock {
    pub fn new(stamps: Option<TimestampSource>) -> ArrivalClock {
        ArrivalClock {
            stamps,
            offset_ns: io::realtime_offset_ns(),
            unsettled: false,
            emptied: true,
            steps: 0,
            now_ns: io::now_ns(),
        }
    }

    /// Record that a batch of `count` packets was read, and whether it `emptied` the socket.
    fn batch(&mut self, count: usize, emptied: bool) {
        let offset_ns = if self.stamps == Some(TimestampSource::Kernel) && count > 0 {
            io::realtime_offset_ns()
        } else {
            self.offset_ns
        };
        self.batch_at(emptied, io::now_ns(), offset_ns);
    }

    fn batch_at(&mut self, emptied: bool, now_ns: u64, offset_ns: i64) {
        self.now_ns = now_ns;
        if self.emptied {
            self.unsettled = false;
        }
        self.emptied = emptied;
        if offset_ns.abs_diff(self.offset_ns) > CLOCK_STEP_NS {
            self.steps += 1;
            self.unsettled = true;
        }
        self.offset_ns = offset_ns;
    }

    /// Return when packet `index` of the batch arrived, CLOCK_MONOTONIC [ns]; `None` if the system clock was set
    /// meanwhile.
    pub fn arrival_ns(&self, inbox: &Inbox, index: usize) -> Option<u64> {
        match self.stamps {
            Some(TimestampSource::Kernel) => self.monotonic_ns(inbox.stamp_ns(index)?),
            _ => Some(self.now_ns),
        }
    }

    fn monotonic_ns(&self, stamp_ns: i64) -> Option<u64> {
        let arrival_ns = u64::try_from(stamp_ns - self.offset_ns).ok()?;
        (!self.unsettled && arrival_ns <= self.now_ns + CLOCK_ERROR_NS).then_some(arrival_ns)
    }

    /// Return when the last batch was read [ns].
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }
}

/// Everything that reading packets from sockets needs.
pub struct PacketReader {
    pub inbox: Inbox,
    pub clock: ArrivalClock,
    wait: WaitMode,
    last_packet_ns: u64,
    dropped_seen: Vec<Option<u32>>,
    /// Drops of the sockets by the kernel's count, which holds some packets with a wrong checksum.
    kernel_drops: u64,
    /// Packets with a right checksum that the namespace had not delivered before.
    undelivered_before: Option<u64>,
    /// Packets that the sockets dropped because their buffer was full.
    pub dropped_packets: u64,
    /// Errors of sent packets that ICMP reported, by name.
    pub errors: BTreeMap<String, u64>,
}

impl PacketReader {
    pub fn new(
        common: &CommonArguments,
        capabilities: &SocketCapabilities,
        wants_sources: bool,
        sockets: &[&UdpSocket],
    ) -> PacketReader {
        let wait = common.wait_mode();
        PacketReader {
            inbox: Inbox::new(InboxOptions {
                // A receiver that spins for single packets processes each packet before it asks for the next.
                is_single: common.latency && wait == WaitMode::Spin,
                wants_sources,
                wants_timestamps: capabilities.stamps == Some(TimestampSource::Kernel),
                takes_merged: capabilities.takes_merged,
                one_by_one: capabilities.path == IoPath::Plain,
            }),
            clock: ArrivalClock::new(capabilities.stamps),
            wait,
            last_packet_ns: io::now_ns(),
            // Read first, so that no drop of the sockets is missing in it later.
            undelivered_before: undelivered_packets(),
            dropped_seen: sockets.iter().map(|socket| io::dropped_packets(socket)).collect(),
            kernel_drops: 0,
            dropped_packets: 0,
            errors: BTreeMap::new(),
        }
    }

    /// Read the packets that are waiting, at most one batch. Returns their number.
    pub fn take(&mut self, socket: &UdpSocket) -> usize {
        let count = self.inbox.receive(socket).unwrap_or_else(|error| {
            *self.errors.entry(io::error_name(&error)).or_default() += 1;
            io::drain_errors(socket);
            0
        });
        self.clock.batch(count, !self.inbox.is_full());
        if count > 0 {
            self.last_packet_ns = self.clock.now_ns;
        }
        count
    }

    /// Let the socket receive packets from the source of packet `index` of the last batch only.
    pub fn keep_to_source(&mut self, socket: &UdpSocket, index: usize) {
        if let Err(error) = self.inbox.source(index).connect(socket) {
            *self.errors.entry(io::error_name(&error)).or_default() += 1;
        }
        self.inbox.ask_for_no_sources();
    }

    /// Wait for the next packet in the chosen way, until `until_ns` at the latest.
    pub fn wait(&self, sockets: &[&UdpSocket], until_ns: u64) {
        let now_ns = self.clock.now_ns;
        let left_ns = until_ns.saturating_sub(now_ns).min(WAIT_MAX_NS);
        let idle_ns = now_ns.saturating_sub(self.last_packet_ns);
        match self.wait {
            WaitMode::Spin => std::hint::spin_loop(),
            WaitMode::Nap if idle_ns < NAP_UNTIL_IDLE_NS => io::sleep_until_ns(now_ns + left_ns.min(NAP_NS)),
            WaitMode::Nap | WaitMode::Block => io::wait_readable(sockets, left_ns),
        }
    }

    /// Bring `dropped_packets` up to date.
    pub fn count_dropped(&mut self, sockets: &[&UdpSocket]) {
        for (seen, socket) in self.dropped_seen.iter_mut().zip(sockets) {
            let now = io::dropped_packets(socket);
            if let (Some(before), Some(after)) = (*seen, now) {
                self.kernel_drops += u64::from(after.wrapping_sub(before));
            }
            *seen = now;
        }
        // Linux checks the checksum of up to 68 bytes of payload before it looks for the socket, and that of longer
        // packets when the program reads them, where it counts a drop of the socket as well (net/ipv4/udp.c,
        // udp4_csum_init and udp_recvmsg).
        if self.kernel_drops > self.dropped_packets {
            let undelivered = undelivered_packets().zip(self.undelivered_before);
            let most = undelivered.map_or(u64::MAX, |(now, before)| now.saturating_sub(before));
            // The kernel's two counters change one after the other, but a count of an interval is never below 0.
            let dropped = self.kernel_drops.min(most);
            self.dropped_packets = self.dropped_packets.max(dropped);
        }
    }

    /// Return true if the kernel reports how many packets it dropped.
    pub fn drops_are_known(&self) -> bool {
        self.dropped_seen.iter().all(Option::is_some)
    }
}

/// Differences between the delays of neighbouring packets (RFC 3393).
pub struct DelayVariation {
    last: Vec<Option<(u32, i64)>>,
}

impl DelayVariation {
    pub fn new() -> DelayVariation {
        DelayVariation {
            last: vec![None; FLOWS_MAX],
        }
    }

    /// Record a packet whose delay is known except for a constant. Returns the difference to the delay of the
    /// previous packet of its flow, if that packet was the last to arrive.
    pub fn record(&mut self, header: &Header, delay_ns: i64) -> Option<u64> {
        let last = self.last[usize::from(header.flow)].replace((header.sequence, delay_ns));
        let (sequence, delay_before_ns) = last?;
        (sequence.wrapping_add(1) == header.sequence).then(|| wrap_ns(delay_ns - delay_before_ns).unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Content, Kind};

    const OFFSET_NS: i64 = 1_700_000_000_000_000_000;

    fn clock() -> ArrivalClock {
        let mut clock = ArrivalClock::new(Some(TimestampSource::Kernel));
        (clock.now_ns, clock.offset_ns) = (0, OFFSET_NS);
        clock
    }

    #[test]
    fn a_stamp_of_the_system_clock_becomes_one_of_the_monotonic_clock() {
        let mut clock = clock();
        clock.batch_at(true, 5_000_000, OFFSET_NS + 300);
        assert_eq!(clock.monotonic_ns(OFFSET_NS + 300 + 4_990_000), Some(4_990_000));
    }

    #[test]
    fn stamps_from_around_a_step_of_the_system_clock_are_not_used_and_those_after_it_are() {
        for step_ns in [3_600_000_000_000, -3_600_000_000_000, 1_000_000] {
            let mut clock = clock();
            let after_ns = OFFSET_NS + step_ns;
            clock.batch_at(false, 1_000_000, after_ns);
            assert_eq!(
                clock.monotonic_ns(OFFSET_NS + 990_000),
                None,
                "of the batch that showed the step"
            );
            clock.batch_at(true, 1_100_000, after_ns);
            assert_eq!(
                clock.monotonic_ns(OFFSET_NS + 995_000),
                None,
                "still waiting since before the step"
            );
            clock.batch_at(true, 1_200_000, after_ns);
            assert_eq!(clock.monotonic_ns(after_ns + 1_190_000), Some(1_190_000));
            assert_eq!(clock.steps, 1);
        }
    }

    #[test]
    fn a_packet_does_not_come_after_it_was_read() {
        let mut clock = clock();
        clock.batch_at(true, 1_000_000, OFFSET_NS);
        assert_eq!(clock.monotonic_ns(OFFSET_NS + 2_000_000), None);
    }

    #[test]
    fn variation_is_taken_between_neighbours_that_came_one_after_the_other() {
        let mut variation = DelayVariation::new();
        let mut record = |flow, sequence, delay_ns| {
            let header = Header {
                kind: Kind::OneWay,
                content: Content::Zeros,
                shared_time: false,
                flow,
                sequence,
                send_time: 0,
            };
            variation.record(&header, delay_ns)
        };
        assert_eq!(record(0, u32::MAX, 100), None);
        assert_eq!(record(1, 0, 900), None, "the other flow's first");
        assert_eq!(record(0, 0, 130), Some(30), "across the wrap of the sequence number");
        assert_eq!(record(0, 2, 110), None, "one is missing in between");
        assert_eq!(record(0, 1, 500), None, "out of order");
        assert_eq!(record(1, 1, 850), Some(50));
        let half_range_ns = 1 << 39;
        assert_eq!(record(1, 2, half_range_ns - 10), Some(half_range_ns as u64 - 860));
        assert_eq!(
            record(1, 3, 20 - half_range_ns),
            Some(30),
            "across the wrap of the send time"
        );
    }
}
