//! What a receiver and a reflector share: batches are taken until something ends it, and intervals closed on time.

use std::net::UdpSocket;

use crate::arguments::Common;
use crate::arrivals::Intake;
use crate::ending::{EndReason, asked_to_end};
use crate::io::now_ns;

/// What still waits in the socket at the end is taken, but not for longer than this.
pub const DRAIN_NS: u64 = 500_000_000;

/// When packets of the session came.
pub struct Arrivals {
    pub first_ns: Option<u64>,
    /// Of the last one; before the first, when it began to listen.
    pub last_ns: u64,
}

impl Arrivals {
    pub fn new() -> Arrivals {
        Arrivals {
            first_ns: None,
            last_ns: now_ns(),
        }
    }

    pub fn note(&mut self, now_ns: u64) {
        self.first_ns = self.first_ns.or(Some(now_ns));
        self.last_ns = now_ns;
    }
}

pub trait Listener {
    /// Take a batch and deal with it; how many packets it had.
    fn take(&mut self) -> usize;
    /// The interval that is being counted has ended, and the next one begins.
    fn close_interval(&mut self, end_ns: u64);
    /// When the interval began that is being counted.
    fn interval_start_ns(&self) -> Option<u64>;
    /// Packets of the session up to now.
    fn packets(&self) -> u64;
    fn arrivals(&self) -> &Arrivals;
    fn intake(&mut self) -> &mut Intake;
}

/// Listen until the count, the duration, silence or somebody ends it, and take what then still waits in the socket.
pub fn listen(listener: &mut impl Listener, socket: &UdpSocket, common: &Common, silence_ns: Option<u64>) -> EndReason {
    let end_reason = loop {
        let count = listener.take();
        while listener.intake().clock.now_ns() >= interval_end_ns(listener, common) {
            listener.close_interval(interval_end_ns(listener, common));
        }
        if let Some(reason) = ended(listener, common, silence_ns) {
            break reason;
        }
        if !listener.intake().is_full(count) {
            let until_ns = interval_end_ns(listener, common);
            listener.intake().wait(&[socket], until_ns);
        }
    };
    let until_ns = now_ns() + DRAIN_NS;
    loop {
        let count = listener.take();
        if !listener.intake().is_full(count) || now_ns() >= until_ns {
            return end_reason;
        }
    }
}

fn interval_end_ns(listener: &impl Listener, common: &Common) -> u64 {
    match listener.interval_start_ns() {
        Some(start_ns) if common.interval_ns > 0 => start_ns + common.interval_ns,
        _ => u64::MAX,
    }
}

fn ended(listener: &mut impl Listener, common: &Common, silence_ns: Option<u64>) -> Option<EndReason> {
    let now_ns = listener.intake().clock.now_ns();
    let over = |since_ns: u64, limit_ns: Option<u64>| limit_ns.is_some_and(|limit_ns| now_ns >= since_ns + limit_ns);
    let arrivals = listener.arrivals();
    if common.count.is_some_and(|count| listener.packets() >= count) {
        return Some(EndReason::Count);
    }
    if arrivals
        .first_ns
        .is_some_and(|first_ns| over(first_ns, common.duration_ns))
    {
        return Some(EndReason::Duration);
    }
    if over(arrivals.last_ns, silence_ns) {
        return Some(EndReason::Silence);
    }
    asked_to_end()
}
