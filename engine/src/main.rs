//! The packet engine of TunnelBench: a single binary that runs in a namespace, over SSH or in a guest.
//!
//! docs/engine.md describes its command lines, its output and its packets.

mod answers;
mod arguments;
mod arrivals;
mod command_line;
mod counter;
mod counting;
mod echo;
mod ending;
mod histogram;
mod host;
mod io;
mod listening;
mod output;
mod pace;
mod packet;
mod receive;
mod reflect;
mod send;
mod socket;
mod tally;
mod transmit;

use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

use serde::Serialize;

use arguments::Command;
use ending::CannotHere;
use output::{Output, json_line};

const HELP: &str = "tunnelbench-engine: the packet engine of TunnelBench; its verbs are `send`, `receive` and `reflect`, \
                    which docs/engine.md describes; `--version` prints its version.";
const VERSION: &str = concat!("tunnelbench-engine ", env!("CARGO_PKG_VERSION"));

/// Exit code for a wrong command line, the same as that of `tunnelbench`.
const WRONG_INPUT: u8 = 2;

/// The last line where there is no summary.
#[derive(Serialize)]
struct Failure<'a> {
    r#type: &'static str,
    role: &'static str,
    kind: &'static str,
    message: &'a str,
    hint: &'a str,
}

fn main() -> ExitCode {
    let command = match command_line::parse(lexopt::Parser::from_env()) {
        Ok(command) => command,
        Err(error) => {
            return fail(
                None,
                "wrong-input",
                &error.to_string(),
                "see docs/engine.md and tunnelbench-engine --help",
            );
        }
    };
    let (role, result) = match command {
        Command::Help => return say(HELP),
        Command::Version => return say(VERSION),
        Command::Receive(arguments) => ("receive", measure(|output| receive::run(&arguments, output))),
        Command::Reflect(arguments) => ("reflect", measure(|output| reflect::run(&arguments, output))),
        Command::Send(arguments) => ("send", measure(|output| send::run(&arguments, output))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(cannot) => fail(Some(role), "cannot-here", &cannot.message, cannot.hint),
    }
}

fn measure(verb: impl FnOnce(&Output) -> Result<(), CannotHere>) -> Result<(), CannotHere> {
    io::hear_signals();
    ending::watch_input();
    verb(&Output::new())
}

fn say(text: &str) -> ExitCode {
    // A reader that has gone away, such as `head -0`, is no reason for a panic.
    match writeln!(stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Say what is wrong on standard error, and on standard output where a verb had begun.
fn fail(role: Option<&'static str>, kind: &'static str, message: &str, hint: &str) -> ExitCode {
    let _ = writeln!(stderr(), "tunnelbench-engine: {message}\nhint: {hint}");
    match role {
        None => ExitCode::from(WRONG_INPUT),
        Some(role) => {
            let _ = stdout().write_all(&json_line(&Failure {
                r#type: "error",
                role,
                kind,
                message,
                hint,
            }));
            ExitCode::FAILURE
        }
    }
}
