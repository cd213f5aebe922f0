//! Check what the engine counts, by packets whose fate is known.

mod common;

use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use common::{ANSWER, Engine, ONE_WAY, REQUEST, SHARED_TIME, answer_to, echo, one_way, packet, talk_to};

#[test]
fn every_packet_of_a_rate_is_sent_and_received_on_every_path() {
    for (path, wait) in [("gso", "nap"), ("mmsg", "block"), ("plain", "nap")] {
        let receive = if path == "plain" { "--path plain" } else { "" };
        let (sent, received) = one_way(
            &format!("{receive} --wait {wait} --interval-s 0.1"),
            &format!("--path {path} --rate-pps 20000 --count 10000 --interval-s 0.1"),
        );
        // On a machine with much other work, the kernel may refuse a packet.
        let arrived = 10_000 - sent.count("unsent_packets");
        assert_eq!(
            (sent.count("sent_packets"), sent.count("intended_packets")),
            (arrived, 10_000),
            "{path}"
        );
        assert!(arrived > 9_000, "{path}: {}", sent.summary["errors"]);
        assert_eq!(
            (received.count("received_packets"), received.count("expected_packets")),
            (arrived, arrived),
            "{path}"
        );
        assert_eq!(received.count("received_bytes"), arrived * 18);
        assert_eq!(
            (&sent.summary["path"], &sent.summary["end_reason"]),
            (&path.into(), &"count".into())
        );
        assert_eq!((sent.exit_code, received.exit_code), (Some(0), Some(0)));
        assert_eq!(received.summary["end_reason"], "input-closed");
    }
}

#[test]
fn sizes_flows_contents_and_bursts_arrive_whole() {
    for (receive, send, bytes) in [
        (
            "--payload-bytes imix",
            "--payload-bytes imix --flows 3",
            100 * (7 * 18 + 4 * 548 + 1472),
        ),
        (
            "--payload-bytes 1400",
            "--payload-bytes 1400 --content pattern",
            1200 * 1400,
        ),
        ("", "--payload-bytes 8972,19 --content zeros", 600 * (8972 + 19)),
    ] {
        let (sent, received) = one_way(receive, &format!("{send} --burst 1200"));
        assert_eq!(sent.count("sent_packets"), 1200, "{send}");
        assert_eq!(
            (sent.count("sent_bytes"), sent.summary["end_reason"].as_str()),
            (bytes, Some("count")),
            "{send}"
        );
        assert_eq!(
            (received.count("received_packets"), received.count("received_bytes")),
            (1200, bytes),
            "{send}"
        );
        assert_eq!(received.count("corrupted_packets"), 0, "{send}");
        assert_eq!(received.count("flows_seen"), if send.contains("flows") { 3 } else { 1 });
    }
}

#[test]
fn what_the_socket_dropped_is_neither_received_nor_forgotten() {
    // The loopback device passes a burst as one message, of which the kernel counts one drop (path `gro`).
    for (options, least) in [
        ("--path mmsg", 1000),
        ("--path mmsg --one-source", 1000),
        ("--path gro", 10),
    ] {
        let (known, dropped, sent) = received_dropped_and_sent(options);
        assert!(dropped > least, "{options}: {dropped} dropped");
        assert!(
            if options.contains("mmsg") {
                known == sent
            } else {
                known < sent
            },
            "{options}: {known} of {sent}"
        );
    }
}

/// Send a packet to a receiver, and from another source a burst while it is stopped. Returns the packets whose fate is
/// known, those that its sockets dropped, and those that were sent.
fn received_dropped_and_sent(options: &str) -> (u64, u64, u64) {
    let receiver = Engine::start(&format!(
        "receive --bind 127.0.0.1:0 --buffer-bytes 4096 --wait block {options}"
    ));
    let first = talk_to(&receiver);
    first.send(&packet(ONE_WAY, 5000, 0)).expect("sent");
    thread::sleep(Duration::from_millis(100));
    let stop = |signal: &str| {
        std::process::Command::new("kill")
            .args([signal, &receiver.id().to_string()])
            .status()
    };
    assert!(stop("-STOP").expect("kill").success());
    let sent = Engine::start(&format!("send --target {} --burst 5000", receiver.address())).end();
    assert!(stop("-CONT").expect("kill").success());
    thread::sleep(Duration::from_millis(100));
    let received = receiver.close();
    let dropped = received.count("socket_dropped_packets");
    (
        received.count("received_packets") + dropped,
        dropped,
        sent.count("sent_packets") + 1,
    )
}

#[test]
fn copies_gaps_and_order_are_told_apart() {
    let receiver = Engine::start("receive --bind 127.0.0.1:0 --latency");
    let socket = talk_to(&receiver);
    // 4 and 7 are missing, 2 arrives after 3 and 5, and 0 arrives three times.
    for sequence in [0, 1, 3, 5, 2, 0, 6, 8, 0, 9] {
        socket
            .send(&packet(ONE_WAY, sequence, u64::from(sequence) * 1000))
            .expect("sent");
    }
    thread::sleep(Duration::from_millis(50));
    let report = receiver.close();
    for (name, count) in [
        ("received_packets", 8),
        ("duplicated_packets", 2),
        ("reordered_packets", 1),
        ("reordered_distance_max_packets", 3),
        ("expected_packets", 10),
        ("first_sequence", 0),
        ("corrupted_packets", 0),
        ("foreign_packets", 0),
    ] {
        assert_eq!(report.count(name), count, "{name}");
    }
    // Neighbours that arrive directly after each other: 0-1, 8-9.
    assert_eq!(report.summary["delay_variation_ns"]["count"], 2);
    assert!(
        report.summary["delay_ns"].is_null(),
        "nobody has said that the clocks are the same"
    );
}

#[test]
fn a_receiver_of_one_source_counts_what_comes_from_others_too() {
    for option in ["--one-source", "--one-source --wait block", ""] {
        let receiver = Engine::start(&format!("receive --bind 127.0.0.1:0 {option}"));
        let (stranger, first, second) = (talk_to(&receiver), talk_to(&receiver), talk_to(&receiver));
        let mut of_another_session = packet(ONE_WAY, 0, 0);
        of_another_session[4] ^= 1;
        for (socket, bytes) in [
            (&stranger, &of_another_session),
            (&first, &packet(ONE_WAY, 0, 0)),
            (&second, &packet(ONE_WAY, 1, 0)),
            (&stranger, &of_another_session),
            (&first, &packet(ONE_WAY, 2, 0)),
        ] {
            socket.send(bytes).expect("sent");
            thread::sleep(Duration::from_millis(20));
        }
        let report = receiver.close();
        assert_eq!(
            [report.count("received_packets"), report.count("foreign_packets")],
            [3, 2],
            "{option}"
        );
    }
}

#[test]
fn foreign_cut_and_altered_packets_are_named_and_not_received() {
    let receiver = Engine::start("receive --bind 127.0.0.1:0 --payload-bytes 18,30");
    let socket = talk_to(&receiver);
    let mut wrong_token = packet(ONE_WAY, 0, 0);
    wrong_token[4] ^= 1;
    // A header that claims a sequence number far ahead would make all packets before it lost.
    let mut ahead = packet(ONE_WAY, 0, 0);
    ahead[9] ^= 0x80;
    let with_content = |length: usize| [packet(ONE_WAY, 1, 0), vec![0; length - 18]].concat();
    let mut altered = with_content(30);
    altered[29] = 1;
    for foreign in [
        wrong_token,
        vec![],
        vec![0x00; 18],
        packet(REQUEST, 0, 0),
        packet(ANSWER, 0, 0),
        vec![0xff; 9000],
    ] {
        socket.send(&foreign).expect("sent");
    }
    for corrupted in [
        packet(ONE_WAY, 0, 0)[..17].to_vec(),
        packet(0, 0, 0),
        ahead,
        with_content(29),
        altered,
        with_content(9500),
    ] {
        socket.send(&corrupted).expect("sent");
    }
    socket.send(&with_content(30)).expect("sent");
    thread::sleep(Duration::from_millis(50));
    let report = receiver.close();
    assert_eq!(report.count("foreign_packets"), 6);
    assert_eq!(report.count("corrupted_packets"), 6);
    assert_eq!(
        (report.count("received_packets"), report.count("received_bytes")),
        (1, 30)
    );
}

#[test]
fn a_flood_of_foreign_packets_changes_no_other_count() {
    let receiver = Engine::start("receive --bind 127.0.0.1:0");
    let address = receiver.address();
    let flood = thread::spawn({
        let socket = talk_to(&receiver);
        move || {
            (0..50_000)
                .filter(|_| socket.send(b"nobody's packet, 23 bytes").is_ok())
                .count() as u64
        }
    });
    let sent = Engine::start(&format!("send --target {address} --rate-pps 5000 --duration-s 0.5")).end();
    let flooded = flood.join().expect("sent");
    thread::sleep(Duration::from_millis(100));
    let report = receiver.close();
    assert_eq!(report.count("socket_dropped_packets"), 0);
    assert_eq!(report.count("received_packets"), sent.count("sent_packets"));
    assert_eq!(report.count("foreign_packets"), flooded);
}

#[test]
fn a_receiver_that_starts_late_says_so() {
    let receiver = Engine::start("receive --bind 127.0.0.1:0");
    let socket = talk_to(&receiver);
    for sequence in 5000..5010 {
        socket.send(&packet(ONE_WAY, sequence, 0)).expect("sent");
    }
    thread::sleep(Duration::from_millis(50));
    let report = receiver.close();
    assert_eq!(
        (
            report.count("first_sequence"),
            report.count("expected_packets"),
            report.count("received_packets")
        ),
        (5000, 5010, 10)
    );
}

#[test]
fn packets_that_share_a_send_time_give_no_delay() {
    let receiver = Engine::start("receive --bind 127.0.0.1:0 --latency --same-clock --wait block");
    let now_ns = receiver.hello["now_ns"].as_u64().expect("a time");
    let socket = talk_to(&receiver);
    for sequence in 0..10 {
        let kind = if sequence < 6 { ONE_WAY | SHARED_TIME } else { ONE_WAY };
        socket.send(&packet(kind, sequence, now_ns)).expect("sent");
    }
    thread::sleep(Duration::from_millis(50));
    let report = receiver.close();
    assert_eq!(
        (report.count("received_packets"), report.count("delay_excluded_packets")),
        (10, 6)
    );
    assert_eq!(report.summary["delay_ns"]["count"], 4);
    let (sent, received) = one_way("--latency --same-clock", "--burst 256 --path gso");
    assert_eq!(sent.count("calls"), 2);
    assert_eq!(received.summary["delay_ns"]["count"], 0);
}

#[test]
fn a_packet_later_than_allowed_is_late_and_not_received() {
    let receiver = Engine::start("receive --bind 127.0.0.1:0 --same-clock --late-s 2");
    let now_ns = receiver.hello["now_ns"].as_u64().expect("a time");
    let socket = talk_to(&receiver);
    for (sequence, age_ns) in [(0, 2_100_000_000), (1, 0), (2, 500_000_000)] {
        socket.send(&packet(ONE_WAY, sequence, now_ns - age_ns)).expect("sent");
    }
    thread::sleep(Duration::from_millis(50));
    let report = receiver.close();
    assert_eq!((report.count("late_packets"), report.count("received_packets")), (1, 2));
}

#[test]
fn every_answer_is_counted_and_timed() {
    let (sent, reflected) = echo(
        "--latency --wait block",
        "--latency --wait block --rate-pps 2000 --count 1000 --interval-s 0.1",
    );
    assert_eq!(
        (
            sent.count("sent_packets"),
            sent.count("received_packets"),
            sent.count("lost_packets")
        ),
        (1000, 1000, 0)
    );
    assert_eq!(
        (reflected.count("received_packets"), reflected.count("answered_packets")),
        (1000, 1000)
    );
    assert_eq!(sent.summary["rtt_ns"]["count"], 1000);
    assert!(sent.intervals.len() >= 5, "{}", sent.intervals.len());
    for line in &sent.intervals {
        assert_eq!(line["received_packets"], line["sent_packets"]);
        assert_eq!(line["rtt_ns"]["count"], line["sent_packets"]);
    }
}

#[test]
fn a_window_is_kept_and_every_answer_makes_room() {
    for (window, path, count) in [(1, "mmsg", 300), (300, "gso", 30_000)] {
        let wait = "--wait block";
        let (sent, reflected) = echo(
            &format!("{wait} --path {path}"),
            &format!("{wait} --window {window} --count {count} --flows 2"),
        );
        assert_eq!(
            (sent.count("sent_packets"), sent.count("received_packets")),
            (count, count)
        );
        assert_eq!(reflected.count("answered_packets"), count);
        assert!(sent.count("burst_packets_max") <= window);
    }
}

#[test]
fn answers_that_are_late_or_lost_or_doubled_are_told_apart_by_the_second_in_which_they_were_asked_for() {
    let reflector = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = reflector.local_addr().expect("bound");
    let by_hand = thread::spawn(move || {
        let mut packet = [0; 18];
        let mut late = Vec::new();
        for index in 0..100 {
            let (_, from) = reflector.recv_from(&mut packet).expect("a request");
            let packet = answer_to(packet);
            match index {
                10..20 => {}
                20..25 => late.push(packet),
                30 => (0..3).for_each(|_| drop(reflector.send_to(&packet, from))),
                _ => drop(reflector.send_to(&packet, from)),
            }
            if index == 99 {
                // Answers to the packets of the first interval, 0.3 s after the timeout.
                late.iter().for_each(|packet| drop(reflector.send_to(packet, from)));
            }
        }
    });
    let sender = Engine::start(&format!(
        "send --echo --target {address} --rate-pps 100 --count 100 --timeout-s 0.5 --interval-s 0.3 --wait block"
    ));
    let report = sender.end();
    by_hand.join().expect("all answered");
    for (name, count) in [
        ("sent_packets", 100),
        ("received_packets", 85),
        ("lost_packets", 15),
        ("late_packets", 5),
        ("duplicated_packets", 2),
        ("reordered_packets", 5),
    ] {
        assert_eq!(report.count(name), count, "{name}");
    }
    // On a busy machine, the sender may be late by more than an interval.
    let mut next = 0;
    for interval in &report.intervals {
        let first = next;
        next += interval["sent_packets"].as_u64().expect("a count");
        let unanswered = (10..25).filter(|index| (first..next).contains(index)).count();
        assert_eq!(interval["lost_packets"], unanswered, "packets {first} to {next}");
    }
    assert_eq!(next, 100);
}

#[test]
fn nobody_there_is_named_and_everything_is_lost() {
    let free = UdpSocket::bind("127.0.0.1:0")
        .expect("a free port")
        .local_addr()
        .expect("bound");
    let report = Engine::start(&format!(
        "send --echo --target {free} --rate-pps 500 --count 50 --timeout-s 0.1"
    ))
    .end();
    assert_eq!(
        (report.count("received_packets"), report.count("lost_packets")),
        (0, report.count("sent_packets"))
    );
    assert!(
        report.summary["errors"]["ECONNREFUSED"].as_u64() > Some(0),
        "{}",
        report.summary["errors"]
    );
}

#[test]
fn ipv6_carries_the_same() {
    let receiver = Engine::start("receive --bind [::1]:0 --payload-bytes imix");
    let sent = Engine::start(&format!(
        "send --target {} --burst 1200 --payload-bytes imix",
        receiver.address()
    ))
    .end();
    thread::sleep(Duration::from_millis(100));
    let received = receiver.close();
    assert_eq!(
        (sent.count("sent_packets"), received.count("received_packets")),
        (1200, 1200)
    );
    assert_eq!(received.count("received_bytes"), 100 * (7 * 18 + 4 * 528 + 1452));
}
