//! `accept`: accept TCP connections, answer each with the session's token, and hold it until its peer ends it.
//!
//! A peer ends a connection by sending the token back: this end then closes first. So the state that TCP keeps for a
//! minute after the end (TIME-WAIT) is here, and the peer's port is free again.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use serde::Serialize;

use crate::command_line::AcceptArguments;
use crate::connection_lines::{Counts, Lines};
use crate::io::{Poller, deepen_backlog, now_ns, raise_open_files};
use crate::output::Output;
use crate::packet::Token;
use crate::shutdown::{EngineError, stop_requested};

/// Longest wait before the loop looks for a request to stop [ns].
const WAIT_MAX_NS: u64 = 20_000_000;
/// Most connections that an engine is prepared to hold.
pub const OPEN_FILES: u64 = 1_048_576;
const LISTENER: u64 = u64::MAX;

#[derive(Clone, Copy, Default, Serialize)]
struct AcceptCounts {
    accepted_connections: u64,
    /// Connections that the peer ended with the token.
    closed_connections: u64,
    /// Connections that ended in another way.
    broken_connections: u64,
    /// Calls that could not accept a connection.
    accept_errors: u64,
}

impl Counts for AcceptCounts {
    fn since(&self, earlier: &Self) -> Self {
        AcceptCounts {
            accepted_connections: self.accepted_connections - earlier.accepted_connections,
            closed_connections: self.closed_connections - earlier.closed_connections,
            broken_connections: self.broken_connections - earlier.broken_connections,
            accept_errors: self.accept_errors - earlier.accept_errors,
        }
    }
}

#[derive(Serialize)]
struct AcceptTotals {
    open_max_connections: u64,
}

pub fn run(arguments: &AcceptArguments, output: &Output) -> Result<(), EngineError> {
    let hint = "is the address one of this machine, in this namespace, and free?";
    let failed = |error| EngineError::new(format!("listen on {}", arguments.bind), error, hint);
    let listener = TcpListener::bind(arguments.bind).map_err(failed)?;
    deepen_backlog(&listener).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let mut poller = Poller::new().map_err(failed)?;
    poller.add(&listener, LISTENER).map_err(failed)?;
    let bound = listener.local_addr().map(|address| address.to_string());
    let open_files = raise_open_files(OPEN_FILES);
    let mut lines = Lines::begin(
        "accept",
        &arguments.common,
        output,
        bound.into_iter().collect(),
        open_files,
    );
    let mut acceptor = Acceptor {
        token: arguments.common.session,
        open: HashMap::new(),
        next_key: 0,
        counts: AcceptCounts::default(),
        open_max: 0,
    };
    let end_reason = loop {
        if let Some(reason) = stop_requested() {
            break reason;
        }
        let now_ns = now_ns();
        lines.print_ended(now_ns, acceptor.counts, acceptor.open.len() as u64);
        for key in poller.wait(WAIT_MAX_NS.min(lines.interval_end_ns() - now_ns)) {
            if key == LISTENER {
                acceptor.accept_all(&listener, &poller);
            } else {
                acceptor.look_at(key);
            }
        }
    };
    let totals = AcceptTotals {
        open_max_connections: acceptor.open_max,
    };
    lines.finish(end_reason, acceptor.counts, acceptor.open.len() as u64, totals);
    Ok(())
}

struct Acceptor {
    token: Token,
    open: HashMap<u64, TcpStream>,
    next_key: u64,
    counts: AcceptCounts,
    open_max: u64,
}

impl Acceptor {
    fn accept_all(&mut self, listener: &TcpListener, poller: &Poller) {
        loop {
            match listener.accept() {
                Ok((stream, _)) => self.take(stream, poller),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.counts.accept_errors += 1;
                    return;
                }
            }
        }
    }

    /// Answer a new connection with the token, and hold it.
    fn take(&mut self, mut stream: TcpStream, poller: &Poller) {
        self.counts.accepted_connections += 1;
        let key = self.next_key;
        let is_ready = stream.set_nonblocking(true).is_ok() && poller.add(&stream, key).is_ok();
        if !is_ready || stream.write_all(&self.token.bytes()).is_err() {
            self.counts.broken_connections += 1;
            return;
        }
        self.next_key += 1;
        self.open.insert(key, stream);
        self.open_max = self.open_max.max(self.open.len() as u64);
    }

    /// Read what a connection has sent, and close it if its peer has ended it.
    fn look_at(&mut self, key: u64) {
        let Some(stream) = self.open.get_mut(&key) else { return };
        let mut received = [0; 64];
        match stream.read(&mut received) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Ok(count) if received[..count] == self.token.bytes() => self.counts.closed_connections += 1,
            _ => self.counts.broken_connections += 1,
        }
        self.open.remove(&key); // closes it
    }
}
