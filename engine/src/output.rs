//! JSON lines on standard output, written by a thread of their own so that a slow reader holds nothing up.

use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use serde::Serialize;

use crate::ending::output_is_lost;

/// Lines that may wait for their reader. At one a second that is an hour; more would fill the memory.
const WAITING_LINES_MAX: usize = 4096;

/// Makes the line: percentiles are worked out here, not where packets wait.
type Line = Box<dyn FnOnce() -> Vec<u8> + Send>;

pub struct Output {
    lines: Option<SyncSender<Line>>,
    writer: Option<JoinHandle<()>>,
}

impl Output {
    pub fn new() -> Output {
        let (lines, waiting) = sync_channel::<Line>(WAITING_LINES_MAX);
        let writer = thread::spawn(move || {
            for line in waiting {
                let mut output = io::stdout().lock();
                if output.write_all(&line()).and_then(|()| output.flush()).is_err() {
                    output_is_lost();
                    return;
                }
            }
        });
        Output {
            lines: Some(lines),
            writer: Some(writer),
        }
    }

    /// Print what `make` makes.
    pub fn print<T: Serialize>(&self, make: impl FnOnce() -> T + Send + 'static) {
        let line: Line = Box::new(move || json_line(&make()));
        // It fails where the writer has found that nobody reads; then the engine is about to end.
        let _ = self.lines.as_ref().expect("open until dropped").send(line);
    }
}

impl Drop for Output {
    /// Waits until everything is written.
    fn drop(&mut self) {
        self.lines = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// A value as a line; none of ours can fail to become JSON.
pub fn json_line<T: Serialize>(value: &T) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("keys are strings");
    line.push(b'\n');
    line
}
