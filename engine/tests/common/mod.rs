//! Run engines, and make packets by hand.
#![allow(dead_code)] // each test binary uses its part

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

pub const SESSION: &str = "00112233445566";
pub const ONE_WAY: u8 = 0b0100_0000;
pub const REQUEST: u8 = 0b0100_0001;
pub const ANSWER: u8 = 0b0100_0010;
pub const SHARED_TIME: u8 = 0b0001_0000;

pub struct Engine {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    pub hello: Value,
}

pub struct Report {
    pub intervals: Vec<Value>,
    pub summary: Value,
    pub exit_code: Option<i32>,
}

impl Engine {
    /// Start an engine of `SESSION` and wait for its first line.
    pub fn start(arguments: &str) -> Engine {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tunnelbench-engine"))
            .args(arguments.split_whitespace())
            .args(["--session", SESSION])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the engine starts");
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("readable");
        let hello = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{arguments}: {line:?}: {error}"));
        Engine {
            child,
            input,
            output,
            hello,
        }
    }

    /// Return the address on which a receiver or reflector listens.
    pub fn address(&self) -> String {
        self.hello["bound"][0].as_str().expect("an address").to_owned()
    }

    pub fn id(&self) -> i32 {
        self.child.id() as i32
    }

    /// Close the engine's input and return its remaining lines.
    pub fn close(mut self) -> Report {
        self.input = None;
        self.end()
    }

    /// Return the lines of an engine that ends by itself within 20 s.
    pub fn end(mut self) -> Report {
        let start = Instant::now();
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("readable");
        let exit_code = self.child.wait().expect("a child").code();
        assert!(start.elapsed() < Duration::from_secs(20), "it did not end in time");
        let mut intervals: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("a line of JSON"))
            .collect();
        let summary = intervals.pop().expect("a last line");
        assert_eq!(summary["type"], "summary", "{summary}");
        assert!(intervals.iter().all(|line| line["type"] == "interval"));
        let report = Report {
            intervals,
            summary,
            exit_code,
        };
        report.check_sums();
        report
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Report {
    pub fn count(&self, name: &str) -> u64 {
        self.summary[name]
            .as_u64()
            .unwrap_or_else(|| panic!("{name} is {}", self.summary[name]))
    }

    /// Check that the counts of the intervals add up to those of the summary, and that the intervals leave no gap.
    fn check_sums(&self) {
        let Some(first) = self.intervals.first() else { return };
        for (name, _) in first
            .as_object()
            .expect("an object")
            .iter()
            .filter(|(_, value)| value.is_u64())
        {
            if matches!(name.as_str(), "index" | "start_ns" | "end_ns" | "open_connections") {
                continue;
            }
            let sum: u64 = self
                .intervals
                .iter()
                .map(|line| line[name].as_u64().expect("a count"))
                .sum();
            assert_eq!(sum, self.count(name), "{name}");
        }
        for (index, pair) in self.intervals.windows(2).enumerate() {
            assert_eq!(pair[0]["index"], index);
            assert_eq!(pair[0]["end_ns"], pair[1]["start_ns"]);
        }
    }
}

/// Run a receiver on loopback and a sender, and return both reports.
pub fn one_way(receive: &str, send: &str) -> (Report, Report) {
    let receiver = Engine::start(&format!("receive --bind 127.0.0.1:0 {receive}"));
    let sender = Engine::start(&format!("send --target {} {send}", receiver.address()));
    let sent = sender.end();
    std::thread::sleep(Duration::from_millis(100));
    (sent, receiver.close())
}

pub fn echo(reflect: &str, send: &str) -> (Report, Report) {
    let reflector = Engine::start(&format!("reflect --bind 127.0.0.1:0 {reflect}"));
    let sender = Engine::start(&format!("send --echo --target {} {send}", reflector.address()));
    (sender.end(), reflector.close())
}

/// Return the header of a packet of `SESSION`, flow 0.
pub fn packet(kind: u8, sequence: u32, send_time_ns: u64) -> Vec<u8> {
    let mut packet = vec![0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0];
    packet.extend(sequence.to_be_bytes());
    packet.extend(&send_time_ns.to_be_bytes()[3..]);
    packet.push(kind);
    change_by_checksum(&mut packet);
    packet
}

/// Return the answer of a reflector to a request of 18 bytes.
pub fn answer_to(mut packet: [u8; 18]) -> [u8; 18] {
    change_by_checksum(&mut packet);
    packet[17] = packet[17] & !0b11 | 0b10;
    change_by_checksum(&mut packet);
    packet
}

/// Put the checksum into the last bytes of a header's token, or take it out.
fn change_by_checksum(packet: &mut [u8]) {
    let [high, low] = crc_16(&packet[7..]).to_be_bytes();
    packet[5] ^= high;
    packet[6] ^= low;
}

/// Return the CRC-16 with the polynomial 0x1021 and the initial value 0, bit by bit.
fn crc_16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
            crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    })
}

/// Return a socket that is connected to an engine.
pub fn talk_to(engine: &Engine) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.connect(engine.address()).expect("a way to loopback");
    socket
        .set_read_timeout(Some(Duration::from_secs(2)))
        .expect("a timeout");
    socket
}
