//! Send packets by the fastest path that works, and account for each packet.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, IoSlice};
use std::net::UdpSocket;

use crate::command_line::IoPath;
use crate::io::{self, Address, BATCH_MAX, Message};

/// Most packets of a GSO burst: UDP_MAX_SEGMENTS (include/linux/udp.h), 64 before Linux 6.9.
pub const SEGMENTS_MAX: usize = 128;
const SEGMENTS_MAX_OLD: usize = 64;
/// Longest GSO burst [bytes]. A burst is one IP packet until the kernel cuts it, and the length of an IP packet has
/// 16 bits, headers included.
const BURST_BYTES_MAX: usize = 65_000;

/// Most attempts for one packet. An error can concern an earlier packet that ICMP reported. That call sends
/// nothing, but the next one can succeed.
const ATTEMPTS: usize = 3;

/// A packet, with its destination if the socket is not connected.
#[derive(Clone, Copy)]
pub struct Packet<'a> {
    pub bytes: &'a [u8],
    pub to: Option<&'a Address>,
}

/// The result for the first packets of a batch. Packets after those were not tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendOutcome {
    pub taken: usize,
    /// Packets that the kernel refused, directly after the packets that it took.
    pub refused: usize,
}

pub struct Transmitter {
    pub path: IoPath,
    /// True if the user chose the path, so that there is no fallback.
    forced: bool,
    segments_max: usize,
    pub errors: BTreeMap<String, u64>,
    pub calls: u64,
    pub burst_packets_max: u64,
}

impl Transmitter {
    pub fn new(path: IoPath, forced: bool) -> Transmitter {
        let errors = BTreeMap::new();
        Transmitter {
            path,
            forced,
            segments_max: SEGMENTS_MAX,
            errors,
            calls: 0,
            burst_packets_max: 0,
        }
    }

    /// Return how many packets of this size to pass to `send` in one batch.
    pub fn batch_packets(&self, packet_bytes: usize) -> usize {
        match self.path {
            IoPath::Gso => self.segments_max.min(BURST_BYTES_MAX / packet_bytes).max(1),
            IoPath::Gro | IoPath::Mmsg => BATCH_MAX / 2,
            IoPath::Plain => 1,
        }
    }

    /// Send at most `BATCH_MAX` packets in order. Either all are taken, or the outcome counts the first that are
    /// refused.
    pub fn send(&mut self, socket: &UdpSocket, packets: &[Packet]) -> SendOutcome {
        let mut taken = 0;
        let mut attempts = 0;
        while taken < packets.len() {
            let rest = &packets[taken..];
            match self.call(socket, rest) {
                Ok(count) => {
                    self.calls += 1;
                    self.burst_packets_max = self.burst_packets_max.max(count as u64);
                    taken += count;
                    attempts = 0;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let group = self.group_length(rest);
                    if group > 1 && !self.forced && self.fall_back(&error) {
                        continue;
                    }
                    *self.errors.entry(io::error_name(&error)).or_default() += 1;
                    io::drain_errors(socket);
                    attempts += 1;
                    if attempts == ATTEMPTS || !may_concern_an_earlier_packet(&error) {
                        return SendOutcome { taken, refused: group };
                    }
                }
            }
        }
        SendOutcome { taken, refused: 0 }
    }

    /// Make one system call and return how many packets it sent.
    fn call(&mut self, socket: &UdpSocket, packets: &[Packet]) -> Result<usize, Error> {
        let parts: Vec<IoSlice> = packets.iter().map(|packet| IoSlice::new(packet.bytes)).collect();
        if self.path == IoPath::Plain {
            let message = Message {
                parts: &parts[..1],
                to: packets[0].to,
                segment_bytes: 0,
            };
            return io::send_message(socket, &message).map(|()| 1);
        }
        let mut messages = Vec::with_capacity(packets.len());
        let mut start = 0;
        while start < packets.len() && messages.len() < BATCH_MAX {
            let length = self.group_length(&packets[start..]);
            let segment_bytes = if length > 1 {
                packets[start].bytes.len() as u16
            } else {
                0
            };
            messages.push(Message {
                parts: &parts[start..start + length],
                to: packets[start].to,
                segment_bytes,
            });
            start += length;
        }
        if let [message] = &messages[..] {
            return io::send_message(socket, message).map(|()| message.parts.len());
        }
        match io::send_messages(socket, &messages) {
            Ok(count) => Ok(messages[..count].iter().map(|message| message.parts.len()).sum()),
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) && !self.forced => {
                self.path = IoPath::Plain;
                self.call(socket, packets)
            }
            Err(error) => Err(error),
        }
    }

    /// Return how many of the first packets can form one burst: packets of one size to one address.
    fn group_length(&self, packets: &[Packet]) -> usize {
        if self.path != IoPath::Gso {
            return 1;
        }
        let first = packets[0];
        let most = self.batch_packets(first.bytes.len());
        let fits = |packet: &&Packet| packet.bytes.len() == first.bytes.len() && packet.to == first.to;
        packets.iter().take(most).take_while(fits).count()
    }

    /// Use shorter bursts, or none, if this error calls for that. Returns true if the path has changed.
    fn fall_back(&mut self, error: &Error) -> bool {
        // EINVAL: too many segments, a segment that does not fit into a frame, or an unknown option. EMSGSIZE: the
        // same on newer kernels. EIO: the device cannot compute checksums (before Linux 6.10).
        if !matches!(
            error.raw_os_error(),
            Some(libc::EINVAL | libc::EMSGSIZE | libc::EIO | libc::EOPNOTSUPP)
        ) {
            return false;
        }
        if self.segments_max > SEGMENTS_MAX_OLD && error.raw_os_error() == Some(libc::EINVAL) {
            self.segments_max = SEGMENTS_MAX_OLD;
        } else {
            self.path = IoPath::Mmsg;
        }
        true
    }
}

fn may_concern_an_earlier_packet(error: &Error) -> bool {
    !matches!(
        error.raw_os_error(),
        Some(libc::ENOBUFS | libc::EAGAIN | libc::EPERM | libc::ENOMEM | libc::EINVAL)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bursts(path: IoPath, sizes: &[usize]) -> Vec<usize> {
        let bytes = vec![0; 9000];
        let packets: Vec<Packet> = sizes
            .iter()
            .map(|&size| Packet {
                bytes: &bytes[..size],
                to: None,
            })
            .collect();
        let transmitter = Transmitter::new(path, false);
        let (mut lengths, mut start) = (Vec::new(), 0);
        while start < packets.len() {
            lengths.push(transmitter.group_length(&packets[start..]));
            start += lengths[lengths.len() - 1];
        }
        lengths
    }

    #[test]
    fn a_burst_holds_packets_of_one_size_only() {
        assert_eq!(bursts(IoPath::Gso, &[18, 18, 18, 548, 548, 18]), [3, 2, 1]);
        assert_eq!(bursts(IoPath::Mmsg, &[18, 18, 18]), [1, 1, 1]);
    }

    #[test]
    fn a_burst_stays_within_what_an_ip_packet_can_be() {
        assert_eq!(bursts(IoPath::Gso, &[8972; 9]), [7, 2]);
        assert_eq!(bursts(IoPath::Gso, &[18; 130]), [128, 2]);
    }

    #[test]
    fn bursts_too_long_for_an_old_kernel_are_halved_and_then_given_up() {
        let mut transmitter = Transmitter::new(IoPath::Gso, false);
        let error = Error::from_raw_os_error(libc::EINVAL);
        assert!(transmitter.fall_back(&error));
        assert_eq!((transmitter.path, transmitter.batch_packets(18)), (IoPath::Gso, 64));
        assert!(transmitter.fall_back(&error));
        assert_eq!(transmitter.path, IoPath::Mmsg);
    }

    #[test]
    fn a_full_queue_is_no_reason_to_give_up_bursts() {
        let mut transmitter = Transmitter::new(IoPath::Gso, false);
        assert!(!transmitter.fall_back(&Error::from_raw_os_error(libc::ENOBUFS)));
    }
}
