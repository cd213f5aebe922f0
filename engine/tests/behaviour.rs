//! Check when the engine ends, and whom a reflector answers.

mod common;

use std::net::UdpSocket;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use common::{ANSWER, Engine, ONE_WAY, REQUEST, Report, packet, talk_to};

fn reason(report: &Report) -> &str {
    report.summary["end_reason"].as_str().expect("a reason")
}

#[test]
fn a_sender_ends_when_its_input_closes() {
    let receiver = Engine::start("receive --bind 127.0.0.1:0");
    for load in [
        "--flat-out",
        "--rate-pps 1",
        "--rate-pps 10000",
        "--burst 5 --pause-s 100",
        "--echo --window 3",
    ] {
        let sender = Engine::start(&format!(
            "send --target {} --duration-s 1000 {load}",
            receiver.address()
        ));
        thread::sleep(Duration::from_millis(50));
        let start = Instant::now();
        let report = sender.close();
        assert_eq!((reason(&report), report.exit_code), ("input-closed", Some(0)), "{load}");
        assert!(start.elapsed() < Duration::from_secs(1), "{load}");
    }
}

#[test]
fn a_signal_ends_it_with_a_summary() {
    for signal in ["-TERM", "-INT"] {
        let reflector = Engine::start("reflect --bind 127.0.0.1:0 --wait block");
        let sent = Command::new("kill")
            .args([signal, &reflector.id().to_string()])
            .status()
            .expect("kill");
        assert!(sent.success());
        let report = reflector.end();
        assert_eq!((reason(&report), report.exit_code), ("signal", Some(0)));
    }
}

#[test]
fn a_receiver_ends_by_count_by_duration_and_by_silence() {
    for (verb, kind) in [("receive", ONE_WAY), ("reflect", REQUEST)] {
        for (options, expected) in [
            ("--count 3", "count"),
            ("--duration-s 0.2", "duration"),
            ("--silence-s 0.2", "silence"),
        ] {
            let engine = Engine::start(&format!("{verb} --bind 127.0.0.1:0 {options}"));
            let socket = talk_to(&engine);
            for sequence in 0..3 {
                socket.send(&packet(kind, sequence, 0)).expect("sent");
            }
            let report = engine.end();
            assert_eq!(
                (reason(&report), report.count("received_packets")),
                (expected, 3),
                "{verb} {options}"
            );
        }
    }
}

#[test]
fn foreign_packets_are_silence() {
    let receiver = Engine::start("receive --bind 127.0.0.1:0 --silence-s 0.3");
    let socket = talk_to(&receiver);
    let sending = thread::spawn(move || {
        let start = Instant::now();
        // The receiver has ended by then, so the last packets are lost.
        while start.elapsed() < Duration::from_millis(800) {
            let _ = socket.send(b"somebody else's packet");
            thread::sleep(Duration::from_millis(10));
        }
    });
    let report = receiver.end();
    sending.join().expect("sent");
    assert_eq!((reason(&report), report.count("received_packets")), ("silence", 0));
    assert!(report.count("foreign_packets") > 10);
    assert!(report.intervals.is_empty(), "nothing of the session came");
}

#[test]
fn a_reflector_answers_its_session_alone_with_the_same_bytes_and_only_its_first_peer() {
    for path in ["gso", "mmsg", "plain"] {
        let reflector = Engine::start(&format!("reflect --bind 0.0.0.0:0 --wait block --path {path}"));
        let port = reflector.address().rsplit(':').next().expect("a port").to_owned();
        let from = |address: &str| {
            let socket = UdpSocket::bind((address, 0)).expect("loopback");
            socket.connect(format!("127.0.0.1:{port}")).expect("a way");
            socket
                .set_read_timeout(Some(Duration::from_millis(300)))
                .expect("a timeout");
            socket
        };
        let (peer, stranger) = (from("127.0.0.1"), from("127.0.0.2"));
        let other_port_of_peer = from("127.0.0.1");
        let mut buffer = [0; 9000];

        let request = [packet(REQUEST, 7, 99), b"whatever the content is".to_vec()].concat();
        peer.send(&request).expect("sent");
        let length = peer.recv(&mut buffer).expect("an answer");
        let expected = [packet(ANSWER, 7, 99), b"whatever the content is".to_vec()].concat();
        assert_eq!(buffer[..length], expected, "{path}");

        let mut wrong_token = request.clone();
        wrong_token[0] ^= 1;
        let one_way = packet(ONE_WAY, 8, 0);
        let answer = packet(ANSWER, 9, 0);
        for (socket, unanswered) in [
            (&stranger, &request),
            (&peer, &wrong_token),
            (&peer, &one_way),
            (&peer, &answer),
            (&peer, &request[..17].to_vec()),
        ] {
            socket.send(unanswered).expect("sent");
            assert!(socket.recv(&mut buffer).is_err(), "{path}: {unanswered:?} was answered");
        }
        other_port_of_peer.send(&request).expect("sent");
        assert_eq!(other_port_of_peer.recv(&mut buffer).expect("an answer"), request.len());

        let report = reflector.close();
        assert_eq!(
            (report.count("received_packets"), report.count("answered_packets")),
            (2, 2),
            "{path}"
        );
        assert_eq!(
            (report.count("foreign_packets"), report.count("corrupted_packets")),
            (4, 1),
            "{path}"
        );
    }
}

#[test]
fn a_reflector_can_be_told_its_peer() {
    let reflector = Engine::start("reflect --bind 127.0.0.1:0 --peer 127.0.0.9");
    let socket = talk_to(&reflector);
    socket.send(&packet(REQUEST, 0, 0)).expect("sent");
    thread::sleep(Duration::from_millis(50));
    let report = reflector.close();
    assert_eq!(
        (report.count("answered_packets"), report.count("foreign_packets")),
        (0, 1)
    );
}

#[test]
fn both_ends_on_one_machine_name_the_same_clock() {
    let receiver = Engine::start("receive --bind 127.0.0.1:0");
    let reflector = Engine::start("reflect --bind 127.0.0.1:0");
    assert!(receiver.hello["clock_id"].is_string());
    assert_eq!(receiver.hello["clock_id"], reflector.hello["clock_id"]);
}
