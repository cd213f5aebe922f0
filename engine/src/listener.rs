//! The loop of a receiver and a reflector: read batches until an end condition holds, and close intervals on time.

use std::net::UdpSocket;

use crate::command_line::CommonArguments;
use crate::io::now_ns;
use crate::packet_reader::PacketReader;
use crate::shutdown::{EndReason, stop_requested};

/// Longest time for reading what still waits in the socket at the end [ns].
pub const DRAIN_NS: u64 = 500_000_000;

/// The times of the first and the last packet of the session, CLOCK_MONOTONIC [ns].
pub struct ArrivalTimes {
    pub first_ns: Option<u64>,
    /// Time of the last packet; before the first packet, the time at which listening began.
    pub last_ns: u64,
}

impl ArrivalTimes {
    pub fn new() -> ArrivalTimes {
        ArrivalTimes {
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
    /// Read a batch and process it. Returns the number of packets.
    fn take(&mut self) -> usize;
    /// Close the current interval and begin the next one.
    fn close_interval(&mut self, end_ns: u64);
    /// Return the start of the current interval, if there is one.
    fn interval_start_ns(&self) -> Option<u64>;
    /// Return the number of packets of the session so far.
    fn packets(&self) -> u64;
    fn arrivals(&self) -> &ArrivalTimes;
    fn reader(&mut self) -> &mut PacketReader;
}

/// Listen until count, duration, silence or a request to stop ends it, then read what still waits in the sockets.
pub fn listen(
    listener: &mut impl Listener,
    sockets: &[&UdpSocket],
    common: &CommonArguments,
    silence_ns: u64,
) -> EndReason {
    let end_reason = loop {
        listener.take();
        while listener.reader().clock.now_ns() >= interval_end_ns(listener, common) {
            listener.close_interval(interval_end_ns(listener, common));
        }
        if let Some(reason) = ended(listener, common, silence_ns) {
            break reason;
        }
        if !listener.reader().inbox.is_full() {
            let until_ns = interval_end_ns(listener, common);
            listener.reader().wait(sockets, until_ns);
        }
    };
    let until_ns = now_ns() + DRAIN_NS;
    loop {
        listener.take();
        if !listener.reader().inbox.is_full() || now_ns() >= until_ns {
            return end_reason;
        }
    }
}

fn interval_end_ns(listener: &impl Listener, common: &CommonArguments) -> u64 {
    match listener.interval_start_ns() {
        Some(start_ns) if common.interval_ns > 0 => start_ns + common.interval_ns,
        _ => u64::MAX,
    }
}

fn ended(listener: &mut impl Listener, common: &CommonArguments, silence_ns: u64) -> Option<EndReason> {
    let now_ns = listener.reader().clock.now_ns();
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
    if silence_ns > 0 && over(arrivals.last_ns, Some(silence_ns)) {
        return Some(EndReason::Silence);
    }
    stop_requested()
}
