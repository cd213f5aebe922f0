//! The times at which packets are due, and how precisely a sender keeps them.

use std::str::FromStr;

use clap::ValueEnum;

use crate::histogram::DurationHistogram;

/// How a delayed sender continues. Sending the whole backlog at once would be a burst, and its loss could be taken for
/// loss of the path under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum CatchUp {
    /// Send all of the backlog at twice the rate.
    // That is enough for a sender that shares its CPU with a tunnel's daemon and gets half of it.
    Full,
    /// Send up to 50 us of the backlog, or two packets, at twice the rate, and leave out the rest.
    // A hypervisor that takes the CPU for 20 to 50 us a thousand times per second would otherwise cost 4 % of the
    // packets, and a path that lets three packets through at once does not notice these.
    Brief,
    /// Keep the time between packets, and leave out what 0.5 % of the rate does not make up for.
    Never,
}

impl CatchUp {
    /// Return the highest rate after a delay, as a multiple of the intended rate.
    fn speed(self) -> f64 {
        match self {
            CatchUp::Full | CatchUp::Brief => 2.0,
            CatchUp::Never => 1.005,
        }
    }

    /// Return how many packets may leave at once. At high rates one system call has to send several packets.
    fn credit_max(self, rate: Rate) -> f64 {
        let (time_ns, least): (f64, f64) = match self {
            CatchUp::Full => (100_000.0, 2.0),
            CatchUp::Brief | CatchUp::Never => (25_000.0, 1.0),
        };
        // A part of a packet would let the packet after a delayed one leave too early.
        (time_ns / rate.interval_ns()).floor().max(least)
    }

    /// Return how much of a backlog is sent [ns].
    fn backlog_max_ns(self, rate: Rate) -> u64 {
        match self {
            CatchUp::Full | CatchUp::Never => u64::MAX,
            CatchUp::Brief => BRIEF_NS.max((2.0 * rate.interval_ns()) as u64),
        }
    }
}

/// Delay that a sender with `CatchUp::Brief` makes up for [ns].
const BRIEF_NS: u64 = 50_000;

/// Delay of a call that sends, below which the time between packets is not corrected [ns], and the same as a share of
/// that time. Shorter delays occur in most calls, and to make up for all of them would cost more than 1 % of the rate.
const CALL_DELAY_NS: f64 = 1_000.0;
const CALL_DELAY_SHARE: f64 = 0.01;

const NS_PER_S: u128 = 1_000_000_000;

/// A packet rate in millionths of a packet per second, so that the schedule is exact over weeks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    micro_pps: u64,
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        match text.parse::<f64>() {
            Ok(pps) if (1e-3..=1e8).contains(&pps) => Ok(Rate {
                micro_pps: (pps * 1e6).round() as u64,
            }),
            _ => Err("a rate from 0.001 to 100000000 packets per second is required".to_owned()),
        }
    }
}

impl Rate {
    /// Return when packet `index` is due, counted from the start [ns].
    pub fn due_ns(self, index: u64) -> u64 {
        (u128::from(index) * NS_PER_S * 1_000_000 / u128::from(self.micro_pps)) as u64
    }

    /// Return how many packets are due until `elapsed_ns`, that moment included. The first packet is due at 0.
    pub fn due_packets(self, elapsed_ns: u64) -> u64 {
        (u128::from(elapsed_ns) * u128::from(self.micro_pps) / (NS_PER_S * 1_000_000)) as u64 + 1
    }

    pub fn interval_ns(self) -> f64 {
        1e15 / self.micro_pps as f64
    }
}

/// An even stream of packets: packet k is due at start + k / rate, independent of all other packets.
pub struct Schedule {
    rate: Rate,
    catch_up: CatchUp,
    start_ns: u64,
    /// Packets that the schedule has passed, sent or not.
    done: u64,
    next_due_ns: u64,
    /// Part of the backlog that was left out since the last packet [ns].
    left_out_ns: u64,
    credit: f64,
    credit_max: f64,
    looked_ns: u64,
    /// Usual time from the release of packets to the end of the call that sends them, with `CatchUp::Never` [ns].
    usual_call_ns: f64,
}

impl Schedule {
    pub fn new(rate: Rate, catch_up: CatchUp, start_ns: u64) -> Schedule {
        Schedule {
            rate,
            catch_up,
            start_ns,
            done: 0,
            next_due_ns: start_ns,
            left_out_ns: 0,
            credit: 1.0,
            credit_max: catch_up.credit_max(rate),
            looked_ns: start_ns,
            usual_call_ns: f64::INFINITY,
        }
    }

    /// Return true if a backlog at the end of the duration may still be sent.
    pub fn may_end_late(&self) -> bool {
        self.catch_up == CatchUp::Full
    }

    /// Return when the next packet was due before a part of the backlog was left out, CLOCK_MONOTONIC [ns]. How late
    /// the sender is counts from then.
    pub fn planned_ns(&self) -> u64 {
        self.next_due_ns - self.left_out_ns
    }

    /// Return the earliest time at which the next packet may leave: it is due, and it keeps its distance to the
    /// packets before it.
    pub fn next_release_ns(&self) -> u64 {
        let missing = (1.0 - self.credit).max(0.0) * self.rate.interval_ns() / self.catch_up.speed();
        self.next_due_ns.max(self.looked_ns + missing.ceil() as u64)
    }

    /// Return how many packets may leave now.
    pub fn release(&mut self, now_ns: u64) -> u64 {
        let elapsed = now_ns.saturating_sub(self.looked_ns) as f64;
        self.looked_ns = self.looked_ns.max(now_ns);
        let earned = elapsed / self.rate.interval_ns() * self.catch_up.speed();
        self.credit = (self.credit + earned).min(self.credit_max);
        if now_ns < self.next_due_ns {
            return 0;
        }
        let left_out_ns = (now_ns - self.next_due_ns).saturating_sub(self.catch_up.backlog_max_ns(self.rate));
        self.start_ns += left_out_ns;
        self.next_due_ns += left_out_ns;
        self.left_out_ns += left_out_ns;
        let due = self.rate.due_packets(now_ns - self.start_ns).saturating_sub(self.done);
        due.min(self.credit as u64)
    }

    /// Record that `packets` packets were sent or refused.
    pub fn advance(&mut self, packets: u64) {
        self.done += packets;
        self.credit -= packets as f64;
        if packets > 0 {
            self.left_out_ns = 0;
        }
        self.next_due_ns = self.start_ns + self.rate.due_ns(self.done);
    }

    /// Return true if `called` is to be called after each call that sends.
    pub fn watches_calls(&self) -> bool {
        self.catch_up == CatchUp::Never
    }

    /// Record that the packets which `release` has let go had all left at `end_ns`.
    ///
    /// If that takes unusually long, its packets may have left late. With `CatchUp::Never`, the next ones keep their
    /// distance from the latest time at which they can have left.
    pub fn called(&mut self, end_ns: u64) {
        let took_ns = end_ns.saturating_sub(self.looked_ns) as f64;
        let delay_ns = (took_ns - self.usual_call_ns).max(0.0);
        if delay_ns > CALL_DELAY_NS.max(self.rate.interval_ns() * CALL_DELAY_SHARE) {
            self.looked_ns += delay_ns as u64;
        }
        // A long call counts as twice the usual one at most, so that an interruption hardly changes what is usual.
        let usual_ns = took_ns.min(2.0 * self.usual_call_ns);
        if usual_ns < self.usual_call_ns {
            self.usual_call_ns = usual_ns;
        } else {
            self.usual_call_ns += (usual_ns - self.usual_call_ns) / 64.0;
        }
    }

    /// Return how many packets are due within `elapsed_ns` from the start, the end of that time excluded.
    pub fn intended(&self, elapsed_ns: u64) -> u64 {
        if elapsed_ns == 0 {
            0
        } else {
            self.rate.due_packets(elapsed_ns - 1)
        }
    }
}

/// A count of the stalls of a sender.
#[derive(Default, Clone)]
pub struct StallCounter {
    pub stalls: u64,
    pub stall_max_ns: u64,
    stalled: bool,
}

/// A sender that is later than this has stalled [ns].
const STALL_NS: u64 = 1_000_000;

impl StallCounter {
    pub fn record(&mut self, late_ns: u64) {
        if late_ns > STALL_NS {
            self.stalls += u64::from(!self.stalled);
            self.stall_max_ns = self.stall_max_ns.max(late_ns);
        }
        self.stalled = late_ns > STALL_NS;
    }
}

/// Lateness, stalls and gaps of a paced stream.
pub struct PacingQuality {
    pub lateness: DurationHistogram,
    pub stall_counter: StallCounter,
    interval_ns: f64,
    pub gaps: u64,
    pub gaps_within: u64,
    is_first: bool,
    /// Time of the last call; `None` if it sent several packets, whose own times are unknown.
    last_ns: Option<u64>,
}

impl PacingQuality {
    pub fn new(rate: Rate) -> PacingQuality {
        PacingQuality {
            lateness: DurationHistogram::new(),
            stall_counter: StallCounter::default(),
            interval_ns: rate.interval_ns(),
            gaps: 0,
            gaps_within: 0,
            is_first: true,
            last_ns: None,
        }
    }

    /// Record that one call sent `packets` packets at `time_ns`, the first of which was due at `due_ns`.
    pub fn record(&mut self, time_ns: u64, due_ns: u64, packets: u64) {
        let late_ns = time_ns.saturating_sub(due_ns);
        self.lateness.record(late_ns);
        self.stall_counter.record(late_ns);
        let alike = |last_ns| ((time_ns - last_ns) as f64 / self.interval_ns - 1.0).abs() <= 0.1;
        self.gaps_within += u64::from(self.last_ns.is_some_and(alike));
        self.gaps += packets - u64::from(self.is_first);
        self.is_first = false;
        self.last_ns = (packets == 1).then_some(time_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(pps: f64) -> Rate {
        pps.to_string().parse().unwrap()
    }

    #[test]
    fn a_schedule_keeps_its_rate_to_the_packet_for_a_week() {
        let week_s = 7 * 24 * 3600;
        let rate = rate(3.0);
        assert_eq!(rate.due_ns(3 * week_s), week_s * 1_000_000_000);
        assert_eq!(rate.due_packets(week_s * 1_000_000_000 - 1), 3 * week_s);
    }

    #[test]
    fn rates_out_of_reach_are_refused() {
        for pps in [0.0, -1.0, 0.0001, 1e9, f64::NAN, f64::INFINITY] {
            assert!(pps.to_string().parse::<Rate>().is_err(), "{pps}");
        }
    }

    #[test]
    fn packets_leave_when_they_are_due_and_not_before() {
        let mut schedule = Schedule::new(rate(1000.0), CatchUp::Full, 5_000);
        assert_eq!(schedule.release(5_000), 1);
        schedule.advance(1);
        assert_eq!(schedule.planned_ns(), 1_005_000);
        assert_eq!(schedule.release(1_004_999), 0);
        assert_eq!(schedule.release(1_005_000), 1);
    }

    #[test]
    fn a_stall_is_made_up_for_at_twice_the_rate() {
        let (interval, stall) = (20_000u64, 4_000_000u64);
        let mut schedule = Schedule::new(rate(50_000.0), CatchUp::Full, 0);
        schedule.release(0);
        schedule.advance(1);
        let mut sent = Vec::new();
        let mut now = stall;
        while now < 40_000_000 {
            let count = schedule.release(now);
            schedule.advance(count);
            sent.extend(std::iter::repeat_n(now, count as usize));
            now += 1_000;
        }
        let at_once = sent.iter().filter(|&&time| time == stall).count();
        assert!(at_once <= 5, "{at_once} packets left at once");
        let in_millisecond = sent
            .iter()
            .filter(|&&time| (5_000_000..6_000_000).contains(&time))
            .count();
        assert!((99..=101).contains(&in_millisecond), "{in_millisecond} instead of 100");
        assert_eq!(sent.len() as u64 + 1, schedule.intended(40_000_000 - 999));
        assert_eq!(sent.len() as u64 + 1, 40_000_000 / interval);
    }

    #[test]
    fn even_packets_keep_their_distance_after_a_delay() {
        let interval_ns = 24_000u64;
        let mut schedule = Schedule::new(rate(1e9 / interval_ns as f64), CatchUp::Never, 0);
        let mut sent: Vec<u64> = Vec::new();
        for now_ns in (0..100_000_000).step_by(100) {
            let is_delayed = (20_000_000..21_000_000).contains(&now_ns) || (50_000_000..50_060_000).contains(&now_ns);
            let count = if is_delayed { 0 } else { schedule.release(now_ns) };
            assert!(count <= 1, "{count} packets left at once");
            schedule.advance(count);
            sent.extend((0..count).map(|_| now_ns));
        }
        let shortest_ns = sent.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap();
        assert!(shortest_ns >= interval_ns * 99 / 100, "{shortest_ns} ns");
        // 1.06 ms were lost, and 0.5 % of the time after them is made up for.
        let missing_ns = (schedule.intended(100_000_000) - sent.len() as u64) * interval_ns;
        assert!((400_000..800_000).contains(&missing_ns), "{missing_ns} ns");
    }

    #[test]
    fn a_brief_delay_is_made_up_for_and_the_rest_of_a_long_one_is_left_out() {
        let interval_ns = 24_000u64;
        let mut schedule = Schedule::new(rate(1e9 / interval_ns as f64), CatchUp::Brief, 0);
        let mut sent: Vec<u64> = Vec::new();
        let mut stall_counter = StallCounter::default();
        for now_ns in (0..100_000_000).step_by(100) {
            // 40 us in each millisecond, and 1 ms once.
            let is_delayed = now_ns % 1_000_000 < 40_000 || (50_000_000..51_000_000).contains(&now_ns);
            let count = if is_delayed { 0 } else { schedule.release(now_ns) };
            assert!(count <= 1, "{count} packets left at once");
            if count > 0 {
                stall_counter.record(now_ns - schedule.planned_ns());
            }
            schedule.advance(count);
            sent.extend((0..count).map(|_| now_ns));
        }
        // The packet after 1 ms and 40 us of delay was due up to one interval after their begin.
        let stalls_ns = 1_040_000 - interval_ns..=1_040_000;
        assert_eq!(stall_counter.stalls, 1);
        assert!(
            stalls_ns.contains(&stall_counter.stall_max_ns),
            "{} ns",
            stall_counter.stall_max_ns
        );
        let shortest_ns = sent.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap();
        assert!(shortest_ns >= interval_ns / 2, "{shortest_ns} ns");
        let missing_ns = (schedule.intended(100_000_000) - sent.len() as u64) * interval_ns;
        assert!((900_000..1_000_000).contains(&missing_ns), "{missing_ns} ns");
    }

    #[test]
    fn even_packets_keep_their_distance_from_a_packet_that_its_call_delayed() {
        let (interval_ns, call_ns) = (24_000u64, 3_000u64);
        for (catch_up, gap_ns) in [(CatchUp::Never, interval_ns), (CatchUp::Full, interval_ns / 2)] {
            let mut schedule = Schedule::new(rate(1e9 / interval_ns as f64), catch_up, 0);
            let (mut now_ns, mut left, mut number) = (0, Vec::new(), 0);
            while left.len() < 200 {
                if schedule.release(now_ns) == 0 {
                    now_ns += 100;
                    continue;
                }
                // An interruption of 1 ms, before the packet has left.
                let delay_ns = if number == 100 { 1_000_000 } else { 0 };
                let end_ns = now_ns + call_ns + delay_ns;
                schedule.advance(1);
                if schedule.watches_calls() {
                    schedule.called(end_ns);
                }
                left.push(end_ns);
                (now_ns, number) = (end_ns, number + 1);
            }
            let after_ns = left[101] - left[100];
            let expected_ns = if catch_up == CatchUp::Never {
                gap_ns * 99 / 100..=gap_ns * 101 / 100
            } else {
                0..=gap_ns
            };
            assert!(expected_ns.contains(&after_ns), "{catch_up:?}: {after_ns} ns");
        }
    }

    #[test]
    fn gaps_next_to_packets_that_left_together_are_not_within() {
        let mut quality = PacingQuality::new(rate(100_000.0));
        for (time_ns, packets) in [(0, 1), (10_000, 1), (20_000, 2), (30_000, 1), (40_000, 1), (52_000, 1)] {
            quality.record(time_ns, time_ns, packets);
        }
        assert_eq!((quality.gaps, quality.gaps_within), (6, 3));
    }

    #[test]
    fn one_stall_is_counted_once_and_a_second_one_again() {
        let mut stall_counter = StallCounter::default();
        for late_ns in [0, 2_000_000, 1_500_000, 900_000, 3_000_000] {
            stall_counter.record(late_ns);
        }
        assert_eq!((stall_counter.stalls, stall_counter.stall_max_ns), (2, 3_000_000));
    }
}
