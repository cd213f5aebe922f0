//! Check the verbs of TCP on loopback: every connection is counted once at each end.

mod common;

use std::io::Write;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use common::{Engine, Report};

const OUTCOMES: [&str; 4] = [
    "established_connections",
    "refused_connections",
    "timed_out_connections",
    "failed_connections",
];

/// Run both verbs, and return the reports of `connect` and of `accept`.
fn connections(connect: &str) -> (Report, Report) {
    let acceptor = Engine::start("accept --bind 127.0.0.1:0");
    let connector = Engine::start(&format!("connect --target {} {connect}", acceptor.address()));
    let opened = connector.end();
    thread::sleep(Duration::from_millis(100));
    let accepted = acceptor.close();
    check_outcomes(&opened);
    (opened, accepted)
}

fn check_outcomes(opened: &Report) {
    let outcomes: u64 = OUTCOMES.iter().map(|name| opened.count(name)).sum();
    assert_eq!(outcomes, opened.count("begun_connections"), "{}", opened.summary);
}

#[test]
fn every_connection_is_counted_at_both_ends() {
    let (opened, accepted) = connections("--flat-out --count 500 --duration-s 10 --interval-s 0.01");
    assert_eq!(opened.summary["end_reason"], "count");
    for name in ["begun_connections", "established_connections", "closed_connections"] {
        assert_eq!(opened.count(name), 500, "{name}");
    }
    for name in ["accepted_connections", "closed_connections"] {
        assert_eq!(accepted.count(name), 500, "{name}");
    }
    assert_eq!(accepted.count("broken_connections"), 0);
    assert_eq!(opened.summary["establishment_ns"]["count"], 500);
}

#[test]
fn connections_are_opened_at_the_rate() {
    let (opened, accepted) = connections("--rate 200 --duration-s 1 --interval-s 0.25");
    let begun = opened.count("begun_connections");
    assert!((199..=201).contains(&begun), "{begun}");
    assert_eq!(opened.count("closed_connections"), begun);
    assert_eq!(accepted.count("accepted_connections"), begun);
}

#[test]
fn held_connections_are_open_at_the_same_time() {
    let (opened, accepted) = connections("--rate 1000 --count 100 --hold-s 0.5 --duration-s 5");
    assert_eq!(opened.count("open_max_connections"), 100);
    assert_eq!(accepted.count("open_max_connections"), 100);
    assert_eq!(opened.count("closed_connections"), 100);
}

#[test]
fn kept_connections_are_reset_at_the_end() {
    let (opened, accepted) = connections("--flat-out --count 300 --keep --duration-s 0.5");
    assert_eq!(opened.summary["end_reason"], "duration");
    assert_eq!(opened.count("kept_connections"), 300);
    assert_eq!(opened.count("closed_connections"), 0);
    assert_eq!(accepted.count("open_max_connections"), 300);
    assert_eq!(accepted.count("broken_connections"), 300, "a reset is no orderly end");
}

#[test]
fn a_port_without_a_listener_refuses_every_connection() {
    let unused = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .unwrap();
    let opened = Engine::start(&format!(
        "connect --target {unused} --rate 100 --count 20 --duration-s 5"
    ))
    .end();
    check_outcomes(&opened);
    assert_eq!(opened.count("refused_connections"), 20);
}

#[test]
fn a_far_end_that_does_not_answer_lets_connections_time_out() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = silent.local_addr().unwrap();
    let arguments = format!("connect --target {target} --rate 100 --count 20 --timeout-s 0.2 --duration-s 5");
    let opened = Engine::start(&arguments).end();
    check_outcomes(&opened);
    assert_eq!(
        opened.count("timed_out_connections"),
        20,
        "the kernel alone has accepted them"
    );
}

#[test]
fn the_answer_of_another_program_is_a_failure() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = other.local_addr().unwrap();
    thread::spawn(move || {
        for stream in other.incoming() {
            let _ = stream.and_then(|mut stream| stream.write_all(b"SSH-2.0"));
        }
    });
    let opened = Engine::start(&format!(
        "connect --target {target} --rate 100 --count 20 --duration-s 5"
    ))
    .end();
    check_outcomes(&opened);
    assert_eq!(opened.count("failed_connections"), 20);
}

#[test]
fn an_engine_whose_input_closes_ends_at_once() {
    let acceptor = Engine::start("accept --bind 127.0.0.1:0");
    let connector = Engine::start(&format!(
        "connect --target {} --flat-out --keep --count 10 --duration-s 60",
        acceptor.address()
    ));
    thread::sleep(Duration::from_millis(200));
    let opened = connector.close();
    assert_eq!(opened.summary["end_reason"], "input-closed");
    assert_eq!(opened.count("kept_connections"), 10);
}
