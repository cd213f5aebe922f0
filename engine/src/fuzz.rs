//! The fuzz target `packets`: any bytes arrive as packets at a receiver, a reflector and a sender that expects answers.
//!
//! The packets take the real path: through sockets of the loopback device and the inbox. libFuzzer calls `take` if the
//! crate is built with `--cfg fuzzing` (`make fuzz`). A unit test calls it with seeds that are changed at random.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use crate::command_line::{Command, parse_from};
use crate::echo::Echo;
use crate::io::now_ns;
use crate::listener::Listener;
use crate::output::Output;
use crate::packet::{Content, HEADER_BYTES, Header, Kind, Token};
use crate::receive::Receiver;
use crate::reflect::Reflector;
use crate::send_intervals::SendIntervals;
use crate::sequence::SessionFilter;
use crate::shutdown::EndReason;
use crate::socket::{EngineFacts, OpenSocket, SocketCapabilities, open};

const SESSION: &str = "00112233445566";
const SESSION_BYTES: [u8; 7] = [0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66];
/// Most packets of one input: a batch, and some more.
const PACKETS_MAX: usize = 100;
/// Longest packet [bytes]: longer than the room that the inbox has for one.
const PACKET_BYTES_MAX: usize = 9500;

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| take(data));

/// The bytes of an input, taken from its front. After its end, all bytes are 0.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        front
    }

    fn array<const LENGTH: usize>(&mut self) -> [u8; LENGTH] {
        let mut found = [0; LENGTH];
        let front = self.bytes(LENGTH);
        found[..front.len()].copy_from_slice(front);
        found
    }

    fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    /// Return the next packet; `None` at the end. Its first byte says how much of it is right.
    fn packet(&mut self, filter: &SessionFilter) -> Option<Vec<u8>> {
        if self.0.is_empty() {
            return None;
        }
        let how = self.byte();
        let length = usize::from(u16::from_le_bytes(self.array())) % PACKET_BYTES_MAX;
        match how & 0b11 {
            0 => Some(self.bytes(length).to_vec()),
            1 => Some([&SESSION_BYTES, self.bytes(length)].concat()),
            _ => Some(self.valid_packet(filter, how, length.max(HEADER_BYTES))),
        }
    }

    /// Return a packet with a header and its content; half of these packets are changed afterwards.
    fn valid_packet(&mut self, filter: &SessionFilter, how: u8, length: usize) -> Vec<u8> {
        let kind = self.byte();
        let [a, b, c, d, e] = self.array();
        let now_ns = now_ns();
        let header = Header {
            kind: [Kind::OneWay, Kind::Request, Kind::Answer, Kind::OneWay][usize::from(kind & 3)],
            content: [Content::Zeros, Content::Pattern, Content::Random, Content::Zeros][usize::from((kind >> 2) & 3)],
            shared_time: kind & 0x10 != 0,
            flow: e,
            sequence: u32::from_be_bytes([a, b, c, d]),
            send_time: if kind & 0x20 != 0 {
                now_ns & 0xff_ffff_ffff
            } else {
                let [f, g, h, i, j] = self.array();
                u64::from_be_bytes([0, 0, 0, f, g, h, i, j])
            },
        };
        let mut packet = vec![0; length.min(crate::packet::PAYLOAD_BYTES_MAX)];
        filter.fill(&header, &mut packet);
        if how & 0b100 != 0 {
            let place = usize::from(u16::from_le_bytes(self.array())) % packet.len();
            packet[place] ^= self.byte();
        } else {
            let token: Token = SESSION.parse().expect("a token");
            let read = Header::read(token, &packet);
            assert_eq!(read, Ok(header), "a header is read as it was written");
        }
        packet
    }
}

/// Take an input: the first byte has options and the role that gets the packets, and the packets follow.
pub fn take(data: &[u8]) {
    let mut script = Script(data);
    let options = script.byte();
    let filter = SessionFilter::new(SESSION.parse().expect("a token"), Kind::OneWay, Vec::new());
    let packets: Vec<Vec<u8>> = std::iter::from_fn(|| script.packet(&filter))
        .take(PACKETS_MAX)
        .collect();
    let flags = [
        if options & 1 != 0 { " --latency" } else { "" },
        if options & 2 != 0 { " --path plain" } else { "" },
        if options & 4 != 0 { " --interval-s 0" } else { "" },
    ]
    .concat();
    let output = Output::to(std::io::sink());
    match options >> 6 {
        0 | 3 => receive(&packets, &flags, options & 8 != 0, &output),
        1 => reflect(&packets, &flags, &output),
        _ => answer(&packets, &flags, &output),
    }
}

fn socket() -> OpenSocket {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    open(address, None, 4_000_000).unwrap_or_else(|error| panic!("{error}"))
}

/// Send the packets to a socket, and call `read` after each ten, so that its buffer never fills.
fn deliver(packets: &[Vec<u8>], to: &UdpSocket, mut read: impl FnMut()) {
    let from = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let address = to.local_addr().expect("an address");
    for some in packets.chunks(10) {
        for packet in some {
            from.send_to(packet, address).expect("loopback takes packets");
        }
        read();
    }
}

fn receive(packets: &[Vec<u8>], flags: &str, same_clock: bool, output: &Output) {
    let clock = if same_clock { " --same-clock" } else { "" };
    let words = format!("engine receive --bind 127.0.0.1:0 --session {SESSION}{flags}{clock}");
    let Command::Receive(arguments) = parse_from(&words) else {
        unreachable!("the command is `receive`")
    };
    let opened = [socket()];
    let capabilities = SocketCapabilities::new(&arguments.common, &opened, false, true);
    let sockets = [&opened[0].socket];
    let mut receiver = Receiver::new(&arguments, &capabilities, &sockets, output);
    let mut taken = 0;
    deliver(packets, &opened[0].socket, || {
        loop {
            match receiver.take() {
                0 => break,
                count => taken += count as u64,
            }
        }
        receiver.close_interval(now_ns());
    });
    let counts = receiver.counter.counts;
    assert_eq!(
        counts.of_session() + counts.foreign_packets,
        taken,
        "each packet has one state"
    );
    assert!(counts.expected_packets + counts.forgotten_packets >= counts.received_packets);
    receiver.finish(EndReason::Count, EngineFacts::new(&arguments.common, &capabilities, 0));
}

fn reflect(packets: &[Vec<u8>], flags: &str, output: &Output) {
    let words = format!("engine reflect --bind 127.0.0.1:0 --session {SESSION}{flags}");
    let Command::Reflect(arguments) = parse_from(&words) else {
        unreachable!("the command is `reflect`")
    };
    let opened = [socket()];
    let capabilities = SocketCapabilities::new(&arguments.common, &opened, true, false);
    let mut reflector = Reflector::new(&arguments, &capabilities, &opened[0].socket, output);
    let mut taken = 0;
    deliver(packets, &opened[0].socket, || {
        loop {
            match reflector.take() {
                0 => break,
                count => taken += count as u64,
            }
        }
        reflector.close_interval(now_ns());
    });
    let counts = reflector.counts;
    assert_eq!(
        counts.received_packets + counts.corrupted_packets + counts.foreign_packets,
        taken,
        "each packet has one state"
    );
}

fn answer(packets: &[Vec<u8>], flags: &str, output: &Output) {
    let words = format!(
        "engine send --target 127.0.0.1:9 --session {SESSION} --payload-bytes 18 --flat-out --echo --timeout-s 1{flags}"
    );
    let Command::Send(arguments) = parse_from(&words) else {
        unreachable!("the command is `send`")
    };
    let opened = [socket()];
    let sockets = [&opened[0].socket];
    let capabilities = SocketCapabilities::new(&arguments.common, &opened, true, true);
    let mut echo = Echo::new(&arguments, &sockets, &capabilities);
    let start_ns = now_ns();
    let common = &arguments.common;
    let mut intervals = SendIntervals::new(
        start_ns,
        common.interval_ns,
        Some(arguments.timeout_ns),
        common.latency,
        false,
    );
    intervals.sent(start_ns, packets.len() as u64, 0, 0, 0);
    echo.in_flight.sent(start_ns, packets.len() as u64);
    deliver(packets, sockets[0], || {
        let before = echo.counter.counts;
        while echo.receive_answers(&sockets, &mut intervals) {}
        let _ = echo.counter.counts.since(&before);
    });
    echo.in_flight.expire(now_ns());
    let counts = echo.refresh_counts(&sockets);
    intervals.close_all(now_ns(), &counts, output);
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use super::*;

    /// Seeds: packets of each kind, in order and not, altered, cut and too long.
    fn seeds() -> Vec<Vec<u8>> {
        let valid = |how: u8, bytes: u16, kind: u8, sequence: u32, flow: u8| {
            let mut part = vec![how];
            part.extend(bytes.to_le_bytes());
            part.push(kind | 0x20);
            part.extend(sequence.to_be_bytes());
            part.push(flow);
            part
        };
        let mut found = vec![vec![], vec![0], vec![1, 1, 30, 0], vec![0, 0, 255, 255]];
        for kind in [0, 1, 2, 0x18] {
            let numbers = [0, 1, 2, 2, 9, 5, u32::MAX, 1 << 31];
            let some = |options: u8, how, bytes| {
                let parts = numbers.map(|number| valid(how, bytes, kind, number, (number % 3) as u8));
                [vec![options], parts.concat()].concat()
            };
            for role in [0, 0x40, 0x80] {
                found.extend([some(role | 1, 2, 18), some(role | 2, 2, 100)]);
                found.extend([some(role | 13, 2, 8972), some(role | 8, 6, 60)]);
            }
        }
        found.push([vec![1], [vec![1, 11, 0], vec![0x45; 11]].concat()].concat());
        found
    }

    fn regressions() -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/regressions/packets");
        let Ok(entries) = folder.read_dir() else { return vec![] };
        entries
            .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
            .collect()
    }

    /// SplitMix64, as in `packet`.
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    #[test]
    fn seeds_and_earlier_findings_are_taken() {
        // `make fuzz` starts from the seeds.
        if let Some(folder) = std::env::var_os("TUNNELBENCH_FUZZ_CORPUS") {
            for (number, seed) in seeds().iter().chain(&regressions()).enumerate() {
                std::fs::write(Path::new(&folder).join(format!("seed-{number}")), seed).unwrap();
            }
        }
        for seed in seeds().iter().chain(&regressions()) {
            take(seed);
        }
    }

    #[test]
    fn packets_of_any_content_are_taken_or_refused() {
        let seeds = seeds();
        let mut state = 1; // the same inputs in each run
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            let mut input = seeds[random(&mut state) as usize % seeds.len()].clone();
            for _ in 0..random(&mut state) % 6 {
                let place = random(&mut state) as usize % (input.len() + 1);
                match random(&mut state) % 3 {
                    0 => input.truncate(place.max(1)),
                    1 => input.insert(place, random(&mut state) as u8),
                    _ => {
                        if let Some(byte) = input.get_mut(place) {
                            *byte = random(&mut state) as u8;
                        }
                    }
                }
            }
            take(&input);
        }
    }
}
