//! What hears the answers of a sender.

use std::net::UdpSocket;

use crate::answers::{Intervals, UnderWay};
use crate::arguments::Send;
use crate::arrivals::Intake;
use crate::counter::Counter;
use crate::counting::Gate;
use crate::histogram::Durations;
use crate::packet::Kind;
use crate::socket::Means;
use crate::tally::Tally;

pub struct Echo {
    pub intake: Intake,
    pub counter: Counter,
    pub under_way: UnderWay,
    pub rtt: Option<Durations>,
    pub variation: Option<Durations>,
}

impl Echo {
    pub fn new(arguments: &Send, sockets: &[&UdpSocket], means: &Means) -> Echo {
        let common = &arguments.common;
        let gate = Gate::new(common.session, Kind::Answer, arguments.sizes.clone());
        let ipv6 = arguments.target.is_ipv6();
        let delays = || common.latency.then(Durations::new);
        Echo {
            intake: Intake::new(false, means.stamps, means.path, common.wait, common.latency, sockets),
            counter: Counter::new(gate, Some(arguments.timeout_ns), common.latency, ipv6),
            under_way: UnderWay::new(arguments.timeout_ns),
            rtt: delays(),
            variation: delays(),
        }
    }

    /// Count the answers that are there, one batch of each socket; whether there may be more.
    pub fn hear(&mut self, sockets: &[&UdpSocket], intervals: &mut Intervals) -> bool {
        let mut is_more = false;
        for socket in sockets {
            let count = self.intake.take(socket);
            is_more |= self.intake.is_full(count);
            for index in 0..count {
                let Some(received) = self.counter.count(&self.intake, index) else {
                    continue;
                };
                let rtt_ns = received.is_delay.then_some(received.age_ns.max(0) as u64);
                self.under_way.answered(received.sent_ns);
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

    /// What has arrived so far, up to date.
    pub fn settle(&mut self, sockets: &[&UdpSocket]) -> Tally {
        self.intake.count_dropped(sockets);
        self.counter.settle(&self.intake);
        self.counter.tally
    }
}
