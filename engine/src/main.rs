//! The packet engine of TunnelBench: a single binary that runs in a namespace, over SSH or in a guest.

use std::io::{self, Write};
use std::process::ExitCode;

const HELP: &str = "tunnelbench-engine: the packet engine of TunnelBench; `--version` prints its version.";
const VERSION: &str = concat!("tunnelbench-engine ", env!("CARGO_PKG_VERSION"));

/// Exit code for a wrong command line, the same as that of `tunnelbench`.
const WRONG_INPUT: u8 = 2;

fn main() -> ExitCode {
    match answer(lexopt::Parser::from_env()) {
        // A reader that has gone away, such as `head -0`, is no reason for a panic.
        Ok(text) => match writeln!(io::stdout(), "{text}") {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(error) => {
            let _ = writeln!(
                io::stderr(),
                "tunnelbench-engine: {error}\nhint: see tunnelbench-engine --help"
            );
            ExitCode::from(WRONG_INPUT)
        }
    }
}

/// What the command line asks for, as one line of text.
fn answer(mut arguments: lexopt::Parser) -> Result<&'static str, lexopt::Error> {
    use lexopt::prelude::*;

    let text = match arguments.next()? {
        Some(Short('h') | Long("help")) => HELP,
        Some(Short('V') | Long("version")) => VERSION,
        Some(argument) => return Err(argument.unexpected()),
        None => return Err("nothing to do".into()),
    };
    match arguments.next()? {
        Some(argument) => Err(argument.unexpected()),
        None => Ok(text),
    }
}
