//! `receive`: count what comes one way.

use std::net::UdpSocket;

use serde::Serialize;

use crate::arguments::Receive;
use crate::arrivals::Intake;
use crate::counter::Counter;
use crate::counting::Gate;
use crate::ending::{CannotHere, EndReason, asked_to_end};
use crate::histogram::{Durations, Figures};
use crate::io::now_ns;
use crate::output::Output;
use crate::packet::Kind;
use crate::socket::{Closing, Means, open};
use crate::tally::{Tally, Totals};

/// What still waits in the socket at the end is taken, but not for longer than this.
pub const DRAIN_NS: u64 = 500_000_000;

/// Take what still waits in a socket: `take` tells whether there may be more.
pub fn drain(mut take: impl FnMut() -> bool) {
    let until_ns = now_ns() + DRAIN_NS;
    while take() && now_ns() < until_ns {}
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
    delay_ns: Option<Figures>,
    delay_variation_ns: Option<Figures>,
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
    #[serde(flatten)]
    totals: Totals,
    delay_ns: Option<Figures>,
    delay_variation_ns: Option<Figures>,
}

/// Delays and their variation, where they are measured.
struct Delays {
    delay: Option<Durations>,
    variation: Option<Durations>,
}

impl Delays {
    fn new(arguments: &Receive) -> Delays {
        let measured = arguments.common.latency;
        Delays {
            delay: (measured && arguments.same_clock).then(Durations::new),
            variation: measured.then(Durations::new),
        }
    }

    fn record(&mut self, age_ns: i64, variation_ns: Option<u64>) {
        if let Some(delay) = &mut self.delay {
            delay.record(age_ns.max(0) as u64);
        }
        if let (Some(variation), Some(difference_ns)) = (&mut self.variation, variation_ns) {
            variation.record(difference_ns);
        }
    }
}

/// The interval that is being counted.
struct Open {
    index: u64,
    start_ns: u64,
    before: Tally,
    delays: Delays,
}

struct Receiver<'a> {
    arguments: &'a Receive,
    socket: &'a UdpSocket,
    output: &'a Output,
    intake: Intake,
    counter: Counter,
    delays: Delays,
    open: Option<Open>,
    first_ns: Option<u64>,
    last_ns: u64,
}

pub fn run(arguments: &Receive, output: &Output) -> Result<(), CannotHere> {
    let common = &arguments.common;
    let opened = [open(arguments.bind, None, common.buffer_bytes)?];
    let socket = &opened[0].socket;
    let means = Means::new(common, &opened, false, true);
    let gate = Gate::new(common.session, Kind::OneWay, arguments.sizes.clone());
    let late_ns = arguments.same_clock.then_some(arguments.late_ns);
    let mut receiver = Receiver {
        arguments,
        socket,
        output,
        intake: Intake::new(false, means.stamps, means.path, common.wait, common.latency, &[socket]),
        counter: Counter::new(gate, late_ns, common.latency, arguments.bind.is_ipv6()),
        delays: Delays::new(arguments),
        open: None,
        first_ns: None,
        last_ns: now_ns(),
    };
    let start_ns = receiver.last_ns;
    let hello = means.hello("receive", common, &opened);
    output.print(move || hello);

    let end_reason = loop {
        let count = receiver.take();
        receiver.close_intervals();
        if let Some(reason) = receiver.ended() {
            break reason;
        }
        if !receiver.intake.is_full(count) {
            receiver.intake.wait(&[socket], receiver.interval_end_ns());
        }
    };
    drain(|| {
        let count = receiver.take();
        receiver.intake.is_full(count)
    });
    receiver.finish(end_reason, Closing::new(common, &means, start_ns));
    Ok(())
}

impl Receiver<'_> {
    /// Take and count a batch.
    fn take(&mut self) -> usize {
        let count = self.intake.take(self.socket);
        if count == 0 {
            return 0;
        }
        let now_ns = self.intake.clock.now_ns();
        let of_session = self.counter.tally.of_session();
        let open = self.open.get_or_insert_with(|| Open {
            index: 0,
            start_ns: now_ns,
            before: Tally::default(),
            delays: Delays::new(self.arguments),
        });
        for index in 0..count {
            let received = self.counter.count(&self.intake, index);
            if let Some(received) = received.filter(|received| received.is_delay) {
                self.delays.record(received.age_ns, received.variation_ns);
                open.delays.record(received.age_ns, received.variation_ns);
            }
        }
        if self.counter.tally.of_session() > of_session {
            self.first_ns = self.first_ns.or(Some(now_ns));
            self.last_ns = now_ns;
        } else if self.first_ns.is_none() {
            // Foreign packets start nothing; they are counted with the first interval.
            self.open = None;
        }
        count
    }

    fn interval_end_ns(&self) -> u64 {
        match &self.open {
            Some(open) if self.arguments.common.interval_ns > 0 => open.start_ns + self.arguments.common.interval_ns,
            _ => u64::MAX,
        }
    }

    fn close_intervals(&mut self) {
        while self.intake.clock.now_ns() >= self.interval_end_ns() {
            self.close_interval(self.interval_end_ns());
        }
    }

    fn settle(&mut self) {
        self.intake.count_dropped(&[self.socket]);
        self.counter.settle(&self.intake);
    }

    fn close_interval(&mut self, end_ns: u64) {
        self.settle();
        let Some(open) = self.open.take() else { return };
        let (index, start_ns) = (open.index, open.start_ns);
        let tally = self.counter.tally.since(&open.before);
        self.open = Some(Open {
            index: index + 1,
            start_ns: end_ns,
            before: self.counter.tally,
            delays: Delays::new(self.arguments),
        });
        self.output.print(move || Interval {
            r#type: "interval",
            role: "receive",
            index,
            start_ns,
            end_ns,
            tally,
            delay_ns: open.delays.delay.map(|delay| delay.figures()),
            delay_variation_ns: open.delays.variation.map(|variation| variation.figures()),
        });
    }

    fn ended(&self) -> Option<EndReason> {
        let now_ns = self.intake.clock.now_ns();
        let over =
            |since_ns: u64, limit_ns: Option<u64>| limit_ns.is_some_and(|limit_ns| now_ns >= since_ns + limit_ns);
        if self
            .arguments
            .common
            .count
            .is_some_and(|count| self.counter.tally.of_session() >= count)
        {
            return Some(EndReason::Count);
        }
        if self
            .first_ns
            .is_some_and(|first_ns| over(first_ns, self.arguments.common.duration_ns))
        {
            return Some(EndReason::Duration);
        }
        if over(self.last_ns, self.arguments.silence_ns) {
            return Some(EndReason::Silence);
        }
        asked_to_end()
    }

    fn finish(mut self, end_reason: EndReason, closing: Closing) {
        self.settle();
        if self.arguments.common.interval_ns > 0 {
            self.close_interval(closing.end_ns.max(self.intake.clock.now_ns()));
        }
        let totals = self.counter.totals(&self.intake);
        let tally = self.counter.tally;
        let delays = self.delays;
        self.output.print(move || Summary {
            r#type: "summary",
            role: "receive",
            end_reason,
            closing,
            tally,
            totals,
            delay_ns: delays.delay.map(|delay| delay.summary()),
            delay_variation_ns: delays.variation.map(|variation| variation.summary()),
        });
    }
}
