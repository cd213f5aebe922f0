//! Why and how the engine stops.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{error, fmt, thread};

use serde::Serialize;

use crate::io::signalled;

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    Duration,
    Count,
    Silence,
    InputClosed,
    Signal,
}

static INPUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// Watch standard input in a thread, so that `stop_requested` knows when it is closed. Its content is discarded.
pub fn watch_standard_input() {
    thread::spawn(|| {
        let mut discarded = [0; 64];
        loop {
            match io::stdin().read(&mut discarded) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        INPUT_CLOSED.store(true, Ordering::Relaxed);
    });
}

/// Stop the engine because nobody reads standard output, in the same way as when standard input is closed.
pub fn report_lost_output() {
    INPUT_CLOSED.store(true, Ordering::Relaxed);
}

/// Return why the engine is to stop now, if somebody asked for it.
pub fn stop_requested() -> Option<EndReason> {
    if signalled() {
        return Some(EndReason::Signal);
    }
    INPUT_CLOSED.load(Ordering::Relaxed).then_some(EndReason::InputClosed)
}

/// An operation that the machine refuses, with a hint for the user.
#[derive(Debug)]
pub struct EngineError {
    operation: String,
    source: io::Error,
    pub hint: &'static str,
}

impl EngineError {
    pub fn new(operation: impl fmt::Display, source: io::Error, hint: &'static str) -> EngineError {
        EngineError {
            operation: operation.to_string(),
            source,
            hint,
        }
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        // "Cannot assign requested address (os error 99)": the number says no more than the words.
        let reason = self.source.to_string();
        let reason = reason.split(" (os error").next().unwrap_or_default();
        write!(formatter, "cannot {}: {reason}", self.operation)
    }
}

impl error::Error for EngineError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.source)
    }
}
