//! Check the command line as a caller sees it: text, stream and exit code.

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
fn help_names_each_verb() {
    let output = engine(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout);
    for verb in ["receive", "reflect", "send", "accept", "connect"] {
        assert!(text.contains(&format!("\n  {verb} ")), "{text}");
    }
}

#[test]
fn a_wrong_command_line_is_named_on_stderr_and_exits_with_2() {
    let session = ["--session", "00112233445566"];
    for (arguments, culprit) in [
        ("--nonsense", "--nonsense"),
        ("bounce", "'bounce'"),
        ("receive twice", "'twice'"),
        ("--version=1", "--version"),
        ("", "Usage:"),
        ("receive", "--bind <BIND>"),
        ("receive --bind 127.0.0.1", "'127.0.0.1' for '--bind"),
        (
            "receive --bind 127.0.0.1:0 --rate-pps 5",
            "unexpected argument '--rate-pps'",
        ),
        ("receive --bind 127.0.0.1:0 --path gso", "--path gso"),
        ("reflect --bind 127.0.0.1:0 --path gro", "--path gro"),
        ("receive --bind 0.0.0.0:0 --one-source", "--one-source"),
        ("receive --bind [::ffff:0.0.0.0]:0 --one-source", "--one-source"),
        ("receive --bind 224.0.0.1:9 --one-source", "--one-source"),
        ("receive --bind 255.255.255.255:9 --one-source", "--one-source"),
        (
            "send --target 127.0.0.1:9 --flat-out --duration-s 1 --path gro",
            "--path gro",
        ),
        ("receive --bind 127.0.0.1:0 --count", "--count"),
        ("reflect --bind 127.0.0.1:0 --peer nobody", "'nobody' for '--peer"),
        ("send --flat-out --duration-s 1", "--target <TARGET>"),
        (
            "send --target 127.0.0.1:0 --flat-out --duration-s 1",
            "'127.0.0.1:0' for '--target",
        ),
        ("send --target 127.0.0.1:9 --duration-s 1", "<--flat-out|--rate-pps"),
        (
            "send --target 127.0.0.1:9 --duration-s 1 --flat-out --rate-pps 5",
            "cannot be used with",
        ),
        ("send --target 127.0.0.1:9 --flat-out", "--duration-s or --count"),
        (
            "send --target 127.0.0.1:9 --flat-out --duration-s 0",
            "'0' for '--duration-s",
        ),
        (
            "send --target 127.0.0.1:9 --flat-out --duration-s inf",
            "'inf' for '--duration-s",
        ),
        ("send --target 127.0.0.1:9 --window 5 --duration-s 1", "--echo"),
        (
            "send --target 127.0.0.1:9 --flat-out --pause-s 1 --duration-s 1",
            "--burst",
        ),
        (
            "send --target 127.0.0.1:9 --rate-pps 0 --duration-s 1",
            "a rate from 0.001",
        ),
        (
            "send --target 127.0.0.1:9 --rate-pps NaN --duration-s 1",
            "a rate from 0.001",
        ),
        (
            "send --target 127.0.0.1:9 --flat-out --duration-s 1 --payload-bytes 17",
            "'17' for '--payload-bytes",
        ),
        (
            "send --target 127.0.0.1:9 --flat-out --duration-s 1 --payload-bytes 8973",
            "for '--payload-bytes",
        ),
        (
            "send --target 127.0.0.1:9 --flat-out --duration-s 1 --payload-bytes 18x0",
            "for '--payload-bytes",
        ),
        ("send --target 127.0.0.1:9 --flat-out --duration-s 1 --flows 257", "257"),
        (
            "send --target 127.0.0.1:9 --flat-out --duration-s 1 --bind ::1",
            "not of one IP version",
        ),
        (
            "send --target 127.0.0.1:9 --flat-out --flat-out --duration-s 1",
            "cannot be used multiple times",
        ),
        (
            "send --target 127.0.0.1:9 --flat-out --duration-s 1 --echo --interval-s 0.0001",
            "--interval-s is too short",
        ),
        (
            "connect --target 127.0.0.1:9 --duration-s 1",
            "<--flat-out|--rate <RATE>>",
        ),
        ("connect --target 127.0.0.1:9 --flat-out", "--duration-s <SECONDS>"),
        (
            "connect --target 127.0.0.1:9 --flat-out --duration-s 1 --keep --hold-s 1",
            "cannot be used with",
        ),
        (
            "connect --target 127.0.0.1:9 --flat-out --duration-s 1 --bind ::1",
            "not of one IP version",
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
    for (session, culprit) in [(None, "--session <SESSION>"), (Some("123"), "14 hexadecimal digits")] {
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
