//! What a sender hears of its packets: round trips by the interval in which they began, and room in its window.

use std::collections::VecDeque;

use serde::Serialize;

use crate::histogram::{Durations, Figures};
use crate::output::Output;
use crate::tally::Tally;

#[derive(Default)]
struct Open {
    sent_packets: u64,
    sent_bytes: u64,
    unsent_packets: u64,
    stalls: u64,
    received_packets: u64,
    received_bytes: u64,
    rtt: Option<Durations>,
}

#[derive(Serialize)]
struct Interval {
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
    rtt_ns: Option<Figures>,
}

/// The intervals of a sender, each open until the answers to its packets have come or are too late.
pub struct Intervals {
    start_ns: u64,
    interval_ns: u64,
    /// `None`: no answers are expected.
    timeout_ns: Option<u64>,
    takes_delays: bool,
    /// There is a rate to keep.
    is_paced: bool,
    closed: u64,
    open: VecDeque<Open>,
    before: Tally,
}

impl Intervals {
    /// `interval_ns` 0: nothing is to be printed, and one interval holds it all.
    pub fn new(
        start_ns: u64,
        interval_ns: u64,
        timeout_ns: Option<u64>,
        takes_delays: bool,
        is_paced: bool,
    ) -> Intervals {
        Intervals {
            start_ns,
            interval_ns,
            timeout_ns,
            takes_delays,
            is_paced,
            closed: 0,
            open: VecDeque::new(),
            before: Tally::default(),
        }
    }

    /// The interval of a time. One that is closed already is replaced by the oldest open one, so that nothing is forgotten.
    fn at(&mut self, time_ns: u64) -> &mut Open {
        let index = time_ns
            .saturating_sub(self.start_ns)
            .checked_div(self.interval_ns)
            .unwrap_or(0);
        let place = index.saturating_sub(self.closed) as usize;
        while self.open.len() <= place {
            let rtt = self.takes_delays.then(Durations::new);
            self.open.push_back(Open { rtt, ..Open::default() });
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

    /// An answer in time to a packet that was sent at `sent_ns`; `rtt_ns` where it is known.
    pub fn answered(&mut self, sent_ns: u64, bytes: u64, rtt_ns: Option<u64>) {
        // A packet cannot have been sent after the newest interval was opened by its sending.
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

    /// Whether an interval is to be closed.
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.interval_ns > 0 && now_ns >= self.end_ns() + self.timeout_ns.unwrap_or(0)
    }

    /// Print the oldest interval. `tally`: what has arrived until now.
    pub fn close(&mut self, tally: &Tally, output: &Output) {
        self.close_until(self.end_ns(), tally, output);
    }

    /// Print all that is left of a sender that ended at `end_ns`.
    pub fn close_all(&mut self, end_ns: u64, tally: &Tally, output: &Output) {
        if self.interval_ns == 0 {
            return;
        }
        self.at(end_ns);
        while !self.open.is_empty() {
            self.close_until(self.end_ns().min(end_ns.max(self.start_ns)), tally, output);
        }
    }

    fn close_until(&mut self, end_ns: u64, tally: &Tally, output: &Output) {
        let start_ns = self.end_ns() - self.interval_ns;
        self.at(start_ns);
        let Some(open) = self.open.pop_front() else { return };
        let index = self.closed;
        self.closed += 1;
        let (echo, is_paced) = (self.timeout_ns.is_some(), self.is_paced);
        let arrived = tally.since(&self.before);
        self.before = *tally;
        let with_echo = move |count| echo.then_some(count);
        output.print(move || Interval {
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

/// Packets of one slice of time that wait for answers share its fate when their time is over: a window opens so much later
/// than the timeout at most [ns].
const SLICE_NS: u64 = 10_000_000;

struct Slice {
    number: u64,
    unanswered: u64,
}

/// How many packets are under way: sent, not answered, and not given up yet.
pub struct UnderWay {
    timeout_ns: u64,
    slices: VecDeque<Slice>,
    packets: u64,
}

impl UnderWay {
    pub fn new(timeout_ns: u64) -> UnderWay {
        UnderWay {
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
            _ => self.slices.push_back(Slice {
                number,
                unanswered: packets,
            }),
        }
        self.packets += packets;
    }

    /// The first answer to a packet that was sent at `sent_ns`. Nothing happens if it was given up.
    pub fn answered(&mut self, sent_ns: u64) {
        let number = sent_ns / SLICE_NS;
        if let Ok(place) = self.slices.binary_search_by_key(&number, |slice| slice.number) {
            if self.slices[place].unanswered > 0 {
                self.slices[place].unanswered -= 1;
                self.packets -= 1;
            }
        }
    }

    /// Give up those whose time is over.
    pub fn give_up(&mut self, now_ns: u64) {
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
        let mut under_way = UnderWay::new(1_000_000_000);
        under_way.sent(5_000_000, 3);
        under_way.answered(5_000_000);
        under_way.give_up(1_009_999_999);
        assert_eq!(under_way.packets(), 2);
        under_way.give_up(1_010_000_000);
        assert_eq!(under_way.packets(), 0);
        under_way.answered(5_000_000);
        assert_eq!(under_way.packets(), 0);
    }
}
