//! `receive`: count what comes one way.

use std::net::UdpSocket;

use serde::Serialize;

use crate::arguments::Receive;
use crate::arrivals::Intake;
use crate::counter::Counter;
use crate::counting::Gate;
use crate::ending::{CannotHere, EndReason};
use crate::histogram::{Durations, Figures};
use crate::listening::{Arrivals, Listener, listen};
use crate::output::Output;
use crate::packet::Kind;
use crate::socket::{Closing, Means, open};
use crate::tally::{Tally, Totals};

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
    arrivals: Arrivals,
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
        arrivals: Arrivals::new(),
    };
    let start_ns = receiver.arrivals.last_ns;
    let hello = means.hello("receive", common, &opened);
    output.print(move || hello);

    let end_reason = listen(&mut receiver, socket, common, arguments.silence_ns);
    receiver.finish(end_reason, Closing::new(common, &means, start_ns));
    Ok(())
}

impl Listener for Receiver<'_> {
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
            self.arrivals.note(now_ns);
        } else if self.arrivals.first_ns.is_none() {
            // Foreign packets start nothing; they are counted with the first interval.
            self.open = None;
        }
        count
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

    fn interval_start_ns(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.start_ns)
    }

    fn packets(&self) -> u64 {
        self.counter.tally.of_session()
    }

    fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    fn intake(&mut self) -> &mut Intake {
        &mut self.intake
    }
}

impl Receiver<'_> {
    fn settle(&mut self) {
        self.intake.count_dropped(&[self.socket]);
        self.counter.settle(&self.intake);
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
