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
    let session = ["--session", "00112233445566"];
    for (arguments, culprit) in [
        ("--nonsense", "--nonsense"),
        ("bounce", "no verb 'bounce'"),
        ("--version twice", "twice"),
        ("--version=1", "--version"),
        ("", "nothing to do"),
        ("receive", "--bind is required"),
        ("receive --bind 127.0.0.1", "--bind cannot be '127.0.0.1'"),
        (
            "receive --bind 127.0.0.1:0 --rate-pps 5",
            "receive has no option '--rate-pps'",
        ),
        ("receive --bind 127.0.0.1:0 --path gso", "--path gso"),
        ("receive --bind 127.0.0.1:0 --count", "--count"),
        ("reflect --bind 127.0.0.1:0 --peer nobody", "--peer cannot be 'nobody'"),
        ("send --flat-out --duration-s 1", "--target is required"),
        (
            "send --target 127.0.0.1:0 --flat-out --duration-s 1",
            "--target cannot be",
        ),
        ("send --target 127.0.0.1:9 --duration-s 1", "exactly one of --flat-out"),
        (
            "send --target 127.0.0.1:9 --duration-s 1 --flat-out --rate-pps 5",
            "exactly one of --flat-out",
        ),
        ("send --target 127.0.0.1:9 --flat-out", "--duration-s or --count"),
        (
            "send --target 127.0.0.1:9 --flat-out --duration-s 0",
            "--duration-s cannot be '0'",
        ),
        (
            "send --target 127.0.0.1:9 --flat-out --duration-s inf",
            "--duration-s cannot be 'inf'",
        ),
        (
            "send --target 127.0.0.1:9 --window 5 --duration-s 1",
            "--window needs --echo",
        ),
        (
            "send --target 127.0.0.1:9 --flat-out --pause-s 1 --duration-s 1",
            "--pause-s goes with --burst",
        ),
        (
            "send --target 127.0.0.1:9 --rate-pps 0 --duration-s 1",
            "--rate-pps is from",
        ),
        (
            "send --target 127.0.0.1:9 --rate-pps NaN --duration-s 1",
            "--rate-pps is from",
        ),
        (
            "send --target 127.0.0.1:9 --flat-out --duration-s 1 --payload-bytes 17",
            "--payload-bytes cannot be '17'",
        ),
        (
            "send --target 127.0.0.1:9 --flat-out --duration-s 1 --payload-bytes 8973",
            "--payload-bytes cannot be",
        ),
        (
            "send --target 127.0.0.1:9 --flat-out --duration-s 1 --payload-bytes 18x0",
            "--payload-bytes cannot be",
        ),
        (
            "send --target 127.0.0.1:9 --flat-out --duration-s 1 --flows 257",
            "--flows cannot be '257'",
        ),
        (
            "send --target 127.0.0.1:9 --flat-out --duration-s 1 --bind ::1",
            "--bind cannot be '::1'",
        ),
        (
            "send --target 127.0.0.1:9 --flat-out --flat-out --duration-s 1",
            "--flat-out is given twice",
        ),
        (
            "send --target 127.0.0.1:9 --flat-out --duration-s 1 --echo --interval-s 0.0001",
            "--interval-s is too short",
        ),
    ] {
        let mut words: Vec<&str> = arguments.split_whitespace().collect();
        if words.len() > 1 && !words[0].starts_with('-') {
            words.extend(session);
        }
        let output = engine(&words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(stderr.contains(culprit), "{arguments}: {stderr}");
        assert!(output.stdout.is_empty(), "{arguments}");
    }
}

#[test]
fn a_session_is_required_and_has_14_digits() {
    for (session, culprit) in [
        (None, "--session is required"),
        (Some("123"), "--session cannot be '123'"),
    ] {
        let mut words = vec!["receive", "--bind", "127.0.0.1:0"];
        words.extend(session.iter().flat_map(|session| ["--session", session]));
        let output = engine(&words);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(culprit));
    }
}

#[test]
fn an_address_that_is_not_this_machines_is_named_and_exits_with_1() {
    let output = engine(&["receive", "--bind", "192.0.2.1:5001", "--session", "00112233445566"]);
    assert_eq!(output.status.code(), Some(1));
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    assert_eq!(
        (&line["type"], &line["role"], &line["kind"]),
        (&"error".into(), &"receive".into(), &"cannot-here".into())
    );
    assert_eq!(
        line["message"],
        "cannot bind 192.0.2.1:5001: Cannot assign requested address"
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot bind 192.0.2.1:5001"));
}
