//! `connect`: open TCP connections at a rate, hold each, and close it; count every outcome.
//!
//! A connection is established when the far end's answer has arrived: the token of the session, which shows that the
//! program accepted it, and not only a kernel on the way.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use serde::Serialize;

use crate::accept::OPEN_FILES;
use crate::command_line::ConnectArguments;
use crate::connection_lines::{Counts, Lines};
use crate::histogram::{DurationHistogram, DurationSummary};
use crate::io::{Poller, begin_connection, now_ns, raise_open_files, reduce_timer_slack, reset_at_close};
use crate::output::Output;
use crate::shutdown::{EndReason, EngineError, stop_requested};

/// Longest wait before the loop looks for a request to stop [ns].
const WAIT_MAX_NS: u64 = 20_000_000;
/// Most connections that are begun before arrived answers are read again.
const BATCH_MAX: u64 = 64;

/// Each connection that was begun counts as exactly one of established, refused, timed-out and failed.
#[derive(Clone, Copy, Default, Serialize)]
struct ConnectCounts {
    begun_connections: u64,
    established_connections: u64,
    /// Connections that a reset answered before they were established.
    refused_connections: u64,
    timed_out_connections: u64,
    /// Connections that ended before they were established, in another way.
    failed_connections: u64,
    /// Established connections that both ends closed in order.
    closed_connections: u64,
    /// Established connections that ended in another way before the end of the run.
    broken_connections: u64,
    /// Connections that this kernel refused to begin, for example because no port was free.
    unsent_connections: u64,
}

impl Counts for ConnectCounts {
    fn since(&self, earlier: &Self) -> Self {
        ConnectCounts {
            begun_connections: self.begun_connections - earlier.begun_connections,
            established_connections: self.established_connections - earlier.established_connections,
            refused_connections: self.refused_connections - earlier.refused_connections,
            timed_out_connections: self.timed_out_connections - earlier.timed_out_connections,
            failed_connections: self.failed_connections - earlier.failed_connections,
            closed_connections: self.closed_connections - earlier.closed_connections,
            broken_connections: self.broken_connections - earlier.broken_connections,
            unsent_connections: self.unsent_connections - earlier.unsent_connections,
        }
    }
}

#[derive(Serialize)]
struct ConnectTotals {
    /// Most connections that were established at the same time.
    open_max_connections: u64,
    /// Connections that were established at the end.
    kept_connections: u64,
    first_begun_ns: Option<u64>,
    last_begun_ns: Option<u64>,
    first_established_ns: Option<u64>,
    last_established_ns: Option<u64>,
    /// Time from the begin of a connection to the far end's answer.
    establishment_ns: DurationSummary,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Pending,
    Established,
    Closing,
}

struct Connection {
    stream: TcpStream,
    state: State,
    begun_ns: u64,
}

pub fn run(arguments: &ConnectArguments, output: &Output) -> Result<(), EngineError> {
    let open_files = raise_open_files(OPEN_FILES);
    let hint = "the kernel has no epoll";
    let poller = Poller::new().map_err(|error| EngineError::new("wait for connections", error, hint))?;
    reduce_timer_slack();
    let lines = Lines::begin("connect", &arguments.common, output, Vec::new(), open_files);
    let start_ns = lines.start_ns;
    let connector = Connector {
        arguments,
        poller,
        connections: Vec::new(),
        free: Vec::new(),
        pending: 0,
        open: 0,
        closing: 0,
        timeouts: VecDeque::new(),
        holds: VecDeque::new(),
        counts: ConnectCounts::default(),
        totals: ConnectTotals {
            open_max_connections: 0,
            kept_connections: 0,
            first_begun_ns: None,
            last_begun_ns: None,
            first_established_ns: None,
            last_established_ns: None,
            establishment_ns: DurationHistogram::new().figures(),
        },
        establishment: DurationHistogram::new(),
    };
    connector.run_until_ended(start_ns, lines);
    Ok(())
}

struct Connector<'a> {
    arguments: &'a ConnectArguments,
    poller: Poller,
    /// Connections by their place. A place is used again, so the key of an event has the number of its uses, too.
    connections: Vec<(u32, Option<Connection>)>,
    free: Vec<usize>,
    pending: u64,
    open: u64,
    closing: u64,
    /// Times at which pending and closing connections time out, in their order, with their keys.
    timeouts: VecDeque<(u64, u64)>,
    /// Times at which established connections are closed, in their order, with their keys.
    holds: VecDeque<(u64, u64)>,
    counts: ConnectCounts,
    totals: ConnectTotals,
    establishment: DurationHistogram,
}

impl Connector<'_> {
    fn run_until_ended(mut self, start_ns: u64, mut lines: Lines<'_, ConnectCounts>) {
        let stop_opening_ns = start_ns + self.arguments.duration_ns;
        let reason = loop {
            if let Some(requested) = stop_requested() {
                break requested;
            }
            let now_ns = now_ns();
            lines.print_ended(now_ns, self.counts, self.open);
            let is_counted_out = self.left() == 0;
            let is_opening = now_ns < stop_opening_ns && !is_counted_out;
            if is_opening {
                self.open_due(now_ns - start_ns);
            } else {
                let is_over = now_ns >= stop_opening_ns;
                let is_idle = self.pending == 0 && self.closing == 0 && (self.arguments.keep || self.open == 0);
                if is_idle && is_over {
                    break EndReason::Duration;
                }
                if is_idle && !self.arguments.keep {
                    break EndReason::Count;
                }
            }
            self.close_due(now_ns);
            let mut until_ns = self.next_ns(start_ns, is_opening).min(lines.interval_end_ns());
            if now_ns < stop_opening_ns {
                until_ns = until_ns.min(stop_opening_ns);
            }
            for key in self.poller.wait(until_ns.saturating_sub(now_ns).min(WAIT_MAX_NS)) {
                self.look_at(key);
            }
        };
        self.totals.kept_connections = self.open;
        self.totals.establishment_ns = self.establishment.summary();
        for (_, connection) in &self.connections {
            if let Some(connection) = connection {
                let _ = reset_at_close(&connection.stream);
            }
        }
        lines.finish(reason, self.counts, self.open, self.totals);
    }

    /// Return how many connections may still be begun.
    fn left(&self) -> u64 {
        let begun = self.counts.begun_connections + self.counts.unsent_connections;
        self.arguments
            .count
            .map_or(u64::MAX, |count| count.saturating_sub(begun))
    }

    /// Begin the connections that are due.
    fn open_due(&mut self, elapsed_ns: u64) {
        let begun = self.counts.begun_connections + self.counts.unsent_connections;
        let due = match self.arguments.rate {
            Some(rate) => rate.due_packets(elapsed_ns).saturating_sub(begun),
            None => u64::MAX,
        };
        let room = self.arguments.pending_max.saturating_sub(self.pending);
        for _ in 0..due.min(room).min(self.left()).min(BATCH_MAX) {
            self.begin();
        }
    }

    fn begin(&mut self) {
        let begun_ns = now_ns();
        let Ok(stream) = begin_connection(self.arguments.target, self.arguments.bind) else {
            self.counts.unsent_connections += 1;
            return;
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.connections.push((0, None));
            self.connections.len() - 1
        });
        let entry = &mut self.connections[place];
        entry.0 = entry.0.wrapping_add(1);
        let key = u64::from(entry.0) << 32 | place as u64;
        if self.poller.add(&stream, key).is_err() {
            self.free.push(place);
            self.counts.unsent_connections += 1;
            return;
        }
        entry.1 = Some(Connection {
            stream,
            state: State::Pending,
            begun_ns,
        });
        self.counts.begun_connections += 1;
        self.totals.first_begun_ns.get_or_insert(begun_ns);
        self.totals.last_begun_ns = Some(begun_ns);
        self.pending += 1;
        self.timeouts.push_back((begun_ns + self.arguments.timeout_ns, key));
    }

    fn get(&mut self, key: u64) -> Option<&mut Connection> {
        let (uses, connection) = self.connections.get_mut(key as u32 as usize)?;
        if *uses == (key >> 32) as u32 {
            connection.as_mut()
        } else {
            None
        }
    }

    /// Take a connection out, which closes it.
    fn end(&mut self, key: u64) {
        let place = key as u32 as usize;
        let Some(connection) = self.connections[place].1.take() else {
            return;
        };
        match connection.state {
            State::Pending => self.pending -= 1,
            State::Established => self.open -= 1,
            State::Closing => self.closing -= 1,
        }
        self.free.push(place);
    }

    /// Read what has arrived on a connection, and act on it.
    fn look_at(&mut self, key: u64) {
        let token = self.arguments.common.session.bytes();
        let Some(connection) = self.get(key) else { return };
        let mut received = [0; 64];
        let result = connection.stream.read(&mut received);
        let (state, begun_ns) = (connection.state, connection.begun_ns);
        match (state, result) {
            (State::Pending, Ok(count)) if received[..count] == token => self.establish(key, begun_ns),
            (State::Closing, Ok(0)) => {
                self.counts.closed_connections += 1;
                self.end(key);
            }
            (_, Err(error)) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // A connection that is not established yet is not connected: the next event follows.
            (State::Pending, Err(error)) if error.kind() == ErrorKind::NotConnected => {}
            (State::Pending, Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {
                self.counts.refused_connections += 1;
                self.end(key);
            }
            (State::Pending, _) => {
                self.counts.failed_connections += 1;
                self.end(key);
            }
            _ => {
                self.counts.broken_connections += 1;
                self.end(key);
            }
        }
    }

    fn establish(&mut self, key: u64, begun_ns: u64) {
        let now_ns = now_ns();
        self.counts.established_connections += 1;
        self.totals.first_established_ns.get_or_insert(now_ns);
        self.totals.last_established_ns = Some(now_ns);
        self.establishment.record(now_ns - begun_ns);
        self.pending -= 1;
        self.open += 1;
        self.totals.open_max_connections = self.totals.open_max_connections.max(self.open);
        if let Some(connection) = self.get(key) {
            connection.state = State::Established;
        }
        if self.arguments.keep {
            return;
        }
        if self.arguments.hold_ns == 0 {
            self.close(key, now_ns);
        } else {
            self.holds.push_back((now_ns + self.arguments.hold_ns, key));
        }
    }

    /// Ask the far end to close a connection.
    fn close(&mut self, key: u64, now_ns: u64) {
        let (token, timeout_ns) = (self.arguments.common.session.bytes(), self.arguments.timeout_ns);
        let Some(connection) = self
            .get(key)
            .filter(|connection| connection.state == State::Established)
        else {
            return;
        };
        if connection.stream.write_all(&token).is_err() {
            self.counts.broken_connections += 1;
            self.end(key);
            return;
        }
        connection.state = State::Closing;
        self.open -= 1;
        self.closing += 1;
        self.timeouts.push_back((now_ns + timeout_ns, key));
    }

    /// Close the connections whose time has come, and give up those that wait too long.
    fn close_due(&mut self, now_ns: u64) {
        while self.holds.front().is_some_and(|&(due_ns, _)| due_ns <= now_ns) {
            if let Some((_, key)) = self.holds.pop_front() {
                self.close(key, now_ns);
            }
        }
        while self.timeouts.front().is_some_and(|&(due_ns, _)| due_ns <= now_ns) {
            let Some((due_ns, key)) = self.timeouts.pop_front() else {
                break;
            };
            let timeout_ns = self.arguments.timeout_ns;
            match self
                .get(key)
                .map(|connection| (connection.state, connection.begun_ns + timeout_ns == due_ns))
            {
                Some((State::Pending, _)) => self.counts.timed_out_connections += 1,
                // The entry of its establishment has no meaning any more.
                Some((State::Closing, false)) => self.counts.broken_connections += 1,
                _ => continue,
            }
            if let Some(connection) = self.get(key) {
                let _ = reset_at_close(&connection.stream);
            }
            self.end(key);
        }
    }

    /// Return when something is due [ns].
    fn next_ns(&self, start_ns: u64, is_opening: bool) -> u64 {
        let due = |queue: &VecDeque<(u64, u64)>| queue.front().map_or(u64::MAX, |&(due_ns, _)| due_ns);
        let has_room = self.pending < self.arguments.pending_max;
        let begun = self.counts.begun_connections + self.counts.unsent_connections;
        let opens_ns = match self.arguments.rate {
            _ if !is_opening || !has_room => u64::MAX,
            Some(rate) => start_ns + rate.due_ns(begun),
            None => 0,
        };
        due(&self.holds).min(due(&self.timeouts)).min(opens_ns)
    }
}
