//! `receive`: count packets that arrive one way.

use std::net::UdpSocket;

use serde::Serialize;

use crate::arrival_counter::ArrivalCounter;
use crate::command_line::ReceiveArguments;
use crate::counts::{ArrivalCounts, SessionTotals};
use crate::histogram::{DurationHistogram, DurationSummary};
use crate::listener::{ArrivalTimes, Listener, listen};
use crate::output::Output;
use crate::packet::Kind;
use crate::packet_reader::PacketReader;
use crate::sequence::SessionFilter;
use crate::shutdown::{EndReason, EngineError};
use crate::socket::{EngineFacts, SocketCapabilities, open, open_for_one_source};

#[derive(Serialize)]
struct ReceiveIntervalLine {
    r#type: &'static str,
    role: &'static str,
    index: u64,
    start_ns: u64,
    end_ns: u64,
    #[serde(flatten)]
    counts: ArrivalCounts,
    delay_ns: Option<DurationSummary>,
    delay_variation_ns: Option<DurationSummary>,
}

#[derive(Serialize)]
struct ReceiveSummaryLine {
    r#type: &'static str,
    role: &'static str,
    end_reason: EndReason,
    #[serde(flatten)]
    facts: EngineFacts,
    #[serde(flatten)]
    counts: ArrivalCounts,
    #[serde(flatten)]
    totals: SessionTotals,
    delay_ns: Option<DurationSummary>,
    delay_variation_ns: Option<DurationSummary>,
}

/// Delays and delay variation, if they are measured.
struct Delays {
    delay: Option<DurationHistogram>,
    variation: Option<DurationHistogram>,
}

impl Delays {
    fn new(arguments: &ReceiveArguments) -> Delays {
        let measured = arguments.common.latency;
        Delays {
            delay: (measured && arguments.same_clock).then(DurationHistogram::new),
            variation: measured.then(DurationHistogram::new),
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

/// The interval that is currently counted.
struct CurrentInterval {
    index: u64,
    start_ns: u64,
    before: ArrivalCounts,
    delays: Delays,
}

pub struct Receiver<'a> {
    arguments: &'a ReceiveArguments,
    /// The socket, and with `--one-source` a second one, which receives what comes from other sources once the first
    /// one keeps to one.
    sockets: &'a [&'a UdpSocket],
    output: &'a Output,
    reader: PacketReader,
    /// True if the source of the next packet of the session is to be the only one.
    awaits_source: bool,
    /// True as long as the older socket may have packets that came before all of the newer one.
    is_older_first: bool,
    pub counter: ArrivalCounter,
    delays: Delays,
    open: Option<CurrentInterval>,
    arrivals: ArrivalTimes,
}

pub fn run(arguments: &ReceiveArguments, output: &Output) -> Result<(), EngineError> {
    let common = &arguments.common;
    let opened = if arguments.one_source {
        open_for_one_source(arguments.bind, common.buffer_bytes)?
    } else {
        vec![open(arguments.bind, None, common.buffer_bytes)?]
    };
    let sockets: Vec<&UdpSocket> = opened.iter().map(|one| &one.socket).collect();
    let capabilities = SocketCapabilities::new(common, &opened, false, true);
    let mut receiver = Receiver::new(arguments, &capabilities, &sockets, output);
    let start_ns = receiver.arrivals.last_ns;
    let hello = capabilities.hello("receive", common, &opened[..1]);
    output.print(move || hello);

    let end_reason = listen(&mut receiver, &sockets, common, arguments.silence_ns);
    receiver.finish(end_reason, EngineFacts::new(common, &capabilities, start_ns));
    Ok(())
}

impl Listener for Receiver<'_> {
    fn take(&mut self) -> usize {
        // Until the first socket keeps to a source, the second one only has what came before the first was bound. That is
        // the oldest, and is read completely before the other. Later, a socket that still has packets is read again
        // before the other one.
        let last = self.sockets.len() - 1;
        let (is_older_first, awaits_source) = (self.is_older_first, self.awaits_source);
        let mut count = 0;
        for place in 0..=last {
            let index = if is_older_first { last - place } else { place };
            let taken = self.reader.take(self.sockets[index]);
            self.count(taken);
            count += taken;
            if self.reader.inbox.is_full() {
                break;
            }
            self.is_older_first &= awaits_source;
        }
        count
    }

    fn close_interval(&mut self, end_ns: u64) {
        self.refresh_counts();
        let Some(open) = self.open.take() else { return };
        let (index, start_ns) = (open.index, open.start_ns);
        let counts = self.counter.counts.since(&open.before);
        self.open = Some(CurrentInterval {
            index: index + 1,
            start_ns: end_ns,
            before: self.counter.counts,
            delays: Delays::new(self.arguments),
        });
        self.output.print(move || ReceiveIntervalLine {
            r#type: "interval",
            role: "receive",
            index,
            start_ns,
            end_ns,
            counts,
            delay_ns: open.delays.delay.map(|delay| delay.figures()),
            delay_variation_ns: open.delays.variation.map(|variation| variation.figures()),
        });
    }

    fn interval_start_ns(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.start_ns)
    }

    fn packets(&self) -> u64 {
        self.counter.counts.of_session()
    }

    fn arrivals(&self) -> &ArrivalTimes {
        &self.arrivals
    }

    fn reader(&mut self) -> &mut PacketReader {
        &mut self.reader
    }
}

impl<'a> Receiver<'a> {
    pub fn new(
        arguments: &'a ReceiveArguments,
        capabilities: &SocketCapabilities,
        sockets: &'a [&'a UdpSocket],
        output: &'a Output,
    ) -> Receiver<'a> {
        let common = &arguments.common;
        let filter = SessionFilter::new(common.session, Kind::OneWay, arguments.sizes());
        let late_ns = arguments.same_clock.then_some(arguments.late_ns);
        Receiver {
            arguments,
            sockets,
            output,
            reader: PacketReader::new(common, capabilities, arguments.one_source, sockets),
            awaits_source: arguments.one_source,
            is_older_first: arguments.one_source,
            counter: ArrivalCounter::new(filter, late_ns, common.latency, arguments.bind.is_ipv6()),
            delays: Delays::new(arguments),
            open: None,
            arrivals: ArrivalTimes::new(),
        }
    }

    /// Count the packets of a batch.
    fn count(&mut self, packets: usize) {
        if packets == 0 {
            return;
        }
        let now_ns = self.reader.clock.now_ns();
        let of_session = self.counter.counts.of_session();
        let open = self.open.get_or_insert_with(|| CurrentInterval {
            index: 0,
            start_ns: now_ns,
            before: ArrivalCounts::default(),
            delays: Delays::new(self.arguments),
        });
        for index in 0..packets {
            let received = self.counter.count(&self.reader, index);
            if self.awaits_source && received.is_some() {
                self.reader.keep_to_source(self.sockets[0], index);
                self.awaits_source = false;
            }
            if let Some(received) = received.filter(|received| received.is_delay) {
                self.delays.record(received.age_ns, received.variation_ns);
                open.delays.record(received.age_ns, received.variation_ns);
            }
        }
        if self.counter.counts.of_session() > of_session {
            self.arrivals.note(now_ns);
        } else if self.arrivals.first_ns.is_none() {
            // Foreign packets start no session. The first interval counts them.
            self.open = None;
        }
    }

    fn refresh_counts(&mut self) {
        self.reader.count_dropped(self.sockets);
        self.counter.refresh_counts(&self.reader);
    }

    pub fn finish(mut self, end_reason: EndReason, facts: EngineFacts) {
        self.refresh_counts();
        if self.arguments.common.interval_ns > 0 {
            self.close_interval(facts.end_ns.max(self.reader.clock.now_ns()));
        }
        let totals = self.counter.totals(&self.reader);
        let counts = self.counter.counts;
        let delays = self.delays;
        self.output.print(move || ReceiveSummaryLine {
            r#type: "summary",
            role: "receive",
            end_reason,
            facts,
            counts,
            totals,
            delay_ns: delays.delay.map(|delay| delay.summary()),
            delay_variation_ns: delays.variation.map(|variation| variation.summary()),
        });
    }
}
