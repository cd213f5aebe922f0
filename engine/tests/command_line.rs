//! The engine's command line as a caller sees it: text, stream and exit code.

use std::process::{Command, Output};

fn engine(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tunnelbench-engine"))
        .args(arguments)
        .output()
        .expect("the engine starts")
}

#[test]
fn version_is_that_of_the_crate() {
    let output = engine(&["--version"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("tunnelbench-engine {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn help_is_one_sentence() {
    let output = engine(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1);
}

#[test]
fn a_wrong_command_line_is_named_on_stderr_and_exits_with_2() {
    for (arguments, culprit) in [
        (&["--nonsense"][..], "--nonsense"),
        (&["send"], "send"),
        (&["--version", "twice"], "twice"),
        (&["--version=1"], "--version"),
        (&[], "nothing to do"),
    ] {
        let output = engine(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr.contains(culprit), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}
