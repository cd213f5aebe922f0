//! Counts of arrived packets, for a session or for an interval.

use serde::Serialize;

/// Each packet that arrives counts as exactly one of received, late, forgotten, duplicated, corrupted and foreign.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Debug)]
pub struct ArrivalCounts {
    pub received_packets: u64,
    /// Payload of the received packets [bytes].
    pub received_bytes: u64,
    pub expected_packets: u64,
    pub late_packets: Option<u64>,
    pub forgotten_packets: u64,
    pub duplicated_packets: u64,
    pub reordered_packets: u64,
    pub corrupted_packets: u64,
    pub foreign_packets: u64,
    pub socket_dropped_packets: Option<u64>,
}

impl ArrivalCounts {
    /// Return the counts since `earlier`.
    pub fn since(&self, earlier: &ArrivalCounts) -> ArrivalCounts {
        let difference = |now: Option<u64>, then: Option<u64>| Some(now? - then.unwrap_or(0));
        ArrivalCounts {
            received_packets: self.received_packets - earlier.received_packets,
            received_bytes: self.received_bytes - earlier.received_bytes,
            expected_packets: self.expected_packets - earlier.expected_packets,
            late_packets: difference(self.late_packets, earlier.late_packets),
            forgotten_packets: self.forgotten_packets - earlier.forgotten_packets,
            duplicated_packets: self.duplicated_packets - earlier.duplicated_packets,
            reordered_packets: self.reordered_packets - earlier.reordered_packets,
            corrupted_packets: self.corrupted_packets - earlier.corrupted_packets,
            foreign_packets: self.foreign_packets - earlier.foreign_packets,
            socket_dropped_packets: difference(self.socket_dropped_packets, earlier.socket_dropped_packets),
        }
    }

    /// Return the number of packets that carried the session's token, in every state.
    pub fn of_session(&self) -> u64 {
        self.received_packets
            + self.late_packets.unwrap_or(0)
            + self.forgotten_packets
            + self.duplicated_packets
            + self.corrupted_packets
    }
}

/// Figures of arrivals that exist for a whole session only.
#[derive(Clone, Default, PartialEq, Serialize, Debug)]
pub struct SessionTotals {
    pub reordered_distance_max_packets: u64,
    pub first_sequence: Option<u64>,
    pub flows_seen: u64,
    pub first_arrival_ns: Option<u64>,
    pub last_arrival_ns: Option<u64>,
    /// Longest time between two packets of which one arrived after the other [ns].
    pub longest_gap_ns: Option<u64>,
    /// Start of that time, CLOCK_MONOTONIC [ns].
    pub longest_gap_start_ns: Option<u64>,
    pub receive_buffer_errors: Option<u64>,
    pub checksum_errors: Option<u64>,
    pub delay_excluded_packets: u64,
    pub clock_steps: u64,
}

impl SessionTotals {
    /// Record that a packet arrived for the first time; the arrival times of a session.
    pub fn note_arrival(&mut self, arrival_ns: u64) {
        let gap = self.last_arrival_ns.and_then(|last_ns| arrival_ns.checked_sub(last_ns));
        if gap > self.longest_gap_ns {
            (self.longest_gap_ns, self.longest_gap_start_ns) = (gap, self.last_arrival_ns);
        }
        self.first_arrival_ns = self.first_arrival_ns.or(Some(arrival_ns));
        self.last_arrival_ns = self.last_arrival_ns.max(Some(arrival_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_is_between_neighbours_in_time() {
        let mut totals = SessionTotals::default();
        totals.note_arrival(1_000);
        assert_eq!((totals.longest_gap_ns, totals.longest_gap_start_ns), (None, None));
        for arrival_ns in [1_010, 1_510, 1_400, 1_900] {
            totals.note_arrival(arrival_ns);
        }
        assert_eq!(
            (totals.longest_gap_ns, totals.longest_gap_start_ns),
            (Some(500), Some(1_010))
        );
        assert_eq!(
            (totals.first_arrival_ns, totals.last_arrival_ns),
            (Some(1_000), Some(1_900))
        );
    }
}
