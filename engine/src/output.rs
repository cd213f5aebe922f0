//! Write JSON lines to standard output in a thread of their own, so that a slow reader delays nothing.

use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use serde::Serialize;

use crate::shutdown::report_lost_output;

/// Most lines that wait for their reader: an hour at one line a second. The limit bounds the memory.
const WAITING_LINES_MAX: usize = 4096;

/// A function that makes one line. The writer thread calls it, so that percentiles cost the packet loop nothing.
type Line = Box<dyn FnOnce() -> Vec<u8> + Send>;

pub struct Output {
    lines: Option<SyncSender<Line>>,
    writer: Option<JoinHandle<()>>,
}

impl Output {
    pub fn new() -> Output {
        Output::to(io::stdout())
    }

    /// Write lines into `output` in place of standard output.
    pub fn to(mut output: impl Write + Send + 'static) -> Output {
        let (lines, waiting) = sync_channel::<Line>(WAITING_LINES_MAX);
        let writer = thread::spawn(move || {
            for line in waiting {
                if output.write_all(&line()).and_then(|()| output.flush()).is_err() {
                    report_lost_output();
                    return;
                }
            }
        });
        Output {
            lines: Some(lines),
            writer: Some(writer),
        }
    }

    /// Print the value that `make` returns.
    pub fn print<T: Serialize>(&self, make: impl FnOnce() -> T + Send + 'static) {
        let line: Line = Box::new(move || json_line(&make()));
        // Sending fails if the writer has found that nobody reads. The engine ends soon in that case.
        let _ = self.lines.as_ref().expect("open until dropped").send(line);
    }
}

impl Drop for Output {
    /// Wait until everything is written.
    fn drop(&mut self) {
        self.lines = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Return a value as one line of JSON. No type of the engine can fail to become JSON.
pub fn json_line<T: Serialize>(value: &T) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("keys are strings");
    line.push(b'\n');
    line
}
