//! The counts of a sender by interval, with the answers to the packets of each interval, and the packets in flight.

use std::collections::VecDeque;

use serde::Serialize;

use crate::counts::ArrivalCounts;
use crate::histogram::{DurationHistogram, DurationSummary};
use crate::output::Output;

#[derive(Default)]
struct OpenInterval {
    sent_packets: u64,
    sent_bytes: u64,
    unsent_packets: u64,
    stalls: u64,
    received_packets: u64,
    received_bytes: u64,
    rtt: Option<DurationHistogram>,
}

#[derive(Serialize)]
struct SendIntervalLine {
    r#type: &'static str,
    role: &'static str,
    index: u64,
    start_ns: u64,
    end_ns: u64,
    sent_packets: u64,
    sent_bytes: u64,
    unsent_packets: u64,
    stalls: Option<u64>,
    received_packets: Option<u64>,
    received_bytes: Option<u64>,
    lost_packets: Option<u64>,
    late_packets: Option<u64>,
    forgotten_packets: Option<u64>,
    duplicated_packets: Option<u64>,
    reordered_packets: Option<u64>,
    corrupted_packets: Option<u64>,
    foreign_packets: Option<u64>,
    socket_dropped_packets: Option<u64>,
    rtt_ns: Option<DurationSummary>,
}

/// The intervals of a sender. Each stays open until the answers to its packets have arrived or are late.
pub struct SendIntervals {
    start_ns: u64,
    interval_ns: u64,
    /// Time after which an answer is late [ns]. `None`: no answers are expected.
    timeout_ns: Option<u64>,
    takes_delays: bool,
    /// True if the sender keeps a rate.
    is_paced: bool,
    closed: u64,
    open: VecDeque<OpenInterval>,
    before: ArrivalCounts,
}

impl SendIntervals {
    /// Start the first interval at `start_ns`. With `interval_ns` 0 nothing is printed, and one interval holds all
    /// counts.
    pub fn new(
        start_ns: u64,
        interval_ns: u64,
        timeout_ns: Option<u64>,
        takes_delays: bool,
        is_paced: bool,
    ) -> SendIntervals {
        SendIntervals {
            start_ns,
            interval_ns,
            timeout_ns,
            takes_delays,
            is_paced,
            closed: 0,
            open: VecDeque::new(),
            before: ArrivalCounts::default(),
        }
    }

    /// Return the interval of a moment. The oldest open interval stands for one that is closed, so that no count is
    /// lost.
    fn at(&mut self, time_ns: u64) -> &mut OpenInterval {
        let index = time_ns
            .saturating_sub(self.start_ns)
            .checked_div(self.interval_ns)
            .unwrap_or(0);
        let place = index.saturating_sub(self.closed) as usize;
        while self.open.len() <= place {
            let rtt = self.takes_delays.then(DurationHistogram::new);
            self.open.push_back(OpenInterval {
                rtt,
                ..OpenInterval::default()
            });
        }
        &mut self.open[place]
    }

    pub fn sent(&mut self, time_ns: u64, packets: u64, bytes: u64, unsent_packets: u64, stalls: u64) {
        let interval = self.at(time_ns);
        interval.sent_packets += packets;
        interval.sent_bytes += bytes;
        interval.unsent_packets += unsent_packets;
        interval.stalls += stalls;
    }

    /// Count an answer that arrived in time, to a packet that was sent at `sent_ns`. `rtt_ns` is its delay, if that
    /// is known.
    pub fn answered(&mut self, sent_ns: u64, bytes: u64, rtt_ns: Option<u64>) {
        // Sending opens an interval, so no packet was sent after the newest interval.
        let newest_ns = self.start_ns + (self.closed + self.open.len() as u64).saturating_sub(1) * self.interval_ns;
        let interval = self.at(if self.interval_ns > 0 {
            sent_ns.min(newest_ns)
        } else {
            sent_ns
        });
        interval.received_packets += 1;
        interval.received_bytes += bytes;
        if let (Some(rtt), Some(rtt_ns)) = (&mut interval.rtt, rtt_ns) {
            rtt.record(rtt_ns);
        }
    }

    fn end_ns(&self) -> u64 {
        self.start_ns + (self.closed + 1) * self.interval_ns
    }

    /// Return true if the oldest interval can be closed.
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.interval_ns > 0 && now_ns >= self.end_ns() + self.timeout_ns.unwrap_or(0)
    }

    /// Print the oldest interval. `counts` holds everything that has arrived until now.
    pub fn close(&mut self, counts: &ArrivalCounts, output: &Output) {
        self.close_until(self.end_ns(), counts, output);
    }

    /// Print all open intervals of a sender that ended at `end_ns`.
    pub fn close_all(&mut self, end_ns: u64, counts: &ArrivalCounts, output: &Output) {
        if self.interval_ns == 0 {
            return;
        }
        self.at(end_ns);
        while !self.open.is_empty() {
            self.close_until(self.end_ns().min(end_ns.max(self.start_ns)), counts, output);
        }
    }

    fn close_until(&mut self, end_ns: u64, counts: &ArrivalCounts, output: &Output) {
        let start_ns = self.end_ns() - self.interval_ns;
        self.at(start_ns);
        let Some(open) = self.open.pop_front() else { return };
        let index = self.closed;
        self.closed += 1;
        let (echo, is_paced) = (self.timeout_ns.is_some(), self.is_paced);
        let arrived = counts.since(&self.before);
        self.before = *counts;
        let with_echo = move |count| echo.then_some(count);
        output.print(move || SendIntervalLine {
            r#type: "interval",
            role: "send",
            index,
            start_ns,
            end_ns,
            sent_packets: open.sent_packets,
            sent_bytes: open.sent_bytes,
            unsent_packets: open.unsent_packets,
            stalls: is_paced.then_some(open.stalls),
            received_packets: with_echo(open.received_packets),
            received_bytes: with_echo(open.received_bytes),
            lost_packets: with_echo(open.sent_packets.saturating_sub(open.received_packets)),
            late_packets: arrived.late_packets,
            forgotten_packets: with_echo(arrived.forgotten_packets),
            duplicated_packets: with_echo(arrived.duplicated_packets),
            reordered_packets: with_echo(arrived.reordered_packets),
            corrupted_packets: with_echo(arrived.corrupted_packets),
            foreign_packets: with_echo(arrived.foreign_packets),
            socket_dropped_packets: arrived.socket_dropped_packets,
            rtt_ns: open.rtt.map(|rtt| rtt.figures()),
        });
    }
}

/// Length of a time slice [ns]. The packets of one slice expire together, so a window opens by at most this time
/// later than the timeout.
const SLICE_NS: u64 = 10_000_000;

struct TimeSlice {
    number: u64,
    unanswered: u64,
}

/// The packets in flight: sent, neither answered nor expired.
pub struct InFlight {
    timeout_ns: u64,
    slices: VecDeque<TimeSlice>,
    packets: u64,
}

impl InFlight {
    pub fn new(timeout_ns: u64) -> InFlight {
        InFlight {
            timeout_ns,
            slices: VecDeque::new(),
            packets: 0,
        }
    }

    pub fn packets(&self) -> u64 {
        self.packets
    }

    pub fn sent(&mut self, time_ns: u64, packets: u64) {
        let number = time_ns / SLICE_NS;
        match self.slices.back_mut() {
            Some(slice) if slice.number == number => slice.unanswered += packets,
            _ => self.slices.push_back(TimeSlice {
                number,
                unanswered: packets,
            }),
        }
        self.packets += packets;
    }

    /// Remove a packet that was sent at `sent_ns` and is answered for the first time. Does nothing if it has
    /// expired.
    pub fn answered(&mut self, sent_ns: u64) {
        let number = sent_ns / SLICE_NS;
        if let Ok(place) = self.slices.binary_search_by_key(&number, |slice| slice.number) {
            if self.slices[place].unanswered > 0 {
                self.slices[place].unanswered -= 1;
                self.packets -= 1;
            }
        }
    }

    /// Remove the packets whose answers are late.
    pub fn expire(&mut self, now_ns: u64) {
        while let Some(slice) = self.slices.front() {
            if (slice.number + 1) * SLICE_NS + self.timeout_ns > now_ns {
                break;
            }
            self.packets -= slice.unanswered;
            self.slices.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_packet_holds_its_place_in_the_window_until_the_timeout() {
        let mut in_flight = InFlight::new(1_000_000_000);
        in_flight.sent(5_000_000, 3);
        in_flight.answered(5_000_000);
        in_flight.expire(1_009_999_999);
        assert_eq!(in_flight.packets(), 2);
        in_flight.expire(1_010_000_000);
        assert_eq!(in_flight.packets(), 0);
        in_flight.answered(5_000_000);
        assert_eq!(in_flight.packets(), 0);
    }
}
