//! What ends the engine, and with which words.

use std::fmt;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

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

/// From now on `asked_to_end` knows when standard input is closed. What comes over it is thrown away.
pub fn watch_input() {
    thread::spawn(|| {
        let mut thrown_away = [0; 64];
        loop {
            match io::stdin().read(&mut thrown_away) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        INPUT_CLOSED.store(true, Ordering::Relaxed);
    });
}

/// Whoever reads standard output is gone: as if input had been closed.
pub fn output_is_lost() {
    INPUT_CLOSED.store(true, Ordering::Relaxed);
}

pub fn asked_to_end() -> Option<EndReason> {
    if signalled() {
        return Some(EndReason::Signal);
    }
    INPUT_CLOSED.load(Ordering::Relaxed).then_some(EndReason::InputClosed)
}

/// Why the engine cannot do what it was asked for.
#[derive(Debug)]
pub struct CannotHere {
    pub message: String,
    pub hint: &'static str,
}

impl CannotHere {
    pub fn new(what: impl fmt::Display, error: &io::Error, hint: &'static str) -> CannotHere {
        // "Cannot assign requested address (os error 99)": the number says no more than the words.
        let reason = error.to_string();
        let reason = reason.split(" (os error").next().unwrap_or_default();
        CannotHere {
            message: format!("cannot {what}: {reason}"),
            hint,
        }
    }
}
