//! The packet engine of TunnelBench: one binary that runs in a network namespace, over SSH or in a guest.
//!
//! docs/engine.md describes its command line, its output and its packets.

#![cfg_attr(fuzzing, no_main, allow(dead_code))]

mod accept;
mod arrival_counter;
mod command_line;
mod connect;
mod connection_lines;
mod counts;
mod echo;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod histogram;
mod host;
mod io;
mod listener;
mod output;
mod pacing;
mod packet;
mod packet_reader;
mod receive;
mod reflect;
mod send;
mod send_intervals;
mod sequence;
mod shutdown;
mod socket;
mod transmit;

use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

use serde::Serialize;

use command_line::Command;
use output::{Output, json_line};
use shutdown::EngineError;

/// The last line of output when a verb cannot do its work.
#[derive(Serialize)]
struct Failure<'a> {
    r#type: &'static str,
    role: &'static str,
    kind: &'static str,
    message: &'a str,
    hint: &'a str,
}

fn main() -> ExitCode {
    let command = command_line::parse();
    io::install_signal_handlers();
    shutdown::watch_standard_input();
    let output = Output::new();
    let (role, result) = match command {
        Command::Receive(arguments) => ("receive", receive::run(&arguments, &output)),
        Command::Reflect(arguments) => ("reflect", reflect::run(&arguments, &output)),
        Command::Send(arguments) => ("send", send::run(&arguments, &output)),
        Command::Accept(arguments) => ("accept", accept::run(&arguments, &output)),
        Command::Connect(arguments) => ("connect", connect::run(&arguments, &output)),
    };
    drop(output); // waits until all lines are written
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(role, &error),
    }
}

/// Report an error on standard error for people and on standard output for programs.
fn fail(role: &'static str, error: &EngineError) -> ExitCode {
    // A reader that has closed its end, such as `head -0`, is no reason for a panic.
    let _ = writeln!(stderr(), "tunnelbench-engine: {error}\nhint: {}", error.hint);
    let _ = stdout().write_all(&json_line(&Failure {
        r#type: "error",
        role,
        kind: "cannot-here",
        message: &error.to_string(),
        hint: error.hint,
    }));
    ExitCode::FAILURE
}
