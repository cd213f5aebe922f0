//! Hand packets to the kernel the fastest way that it takes, and account for each.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, IoSlice};
use std::net::UdpSocket;

use crate::arguments::Path;
use crate::io::{self, Address, BATCH_MAX, Message};

/// Packets of a GSO burst: UDP_MAX_SEGMENTS (include/linux/udp.h), 64 before Linux 6.9.
pub const SEGMENTS_MAX: usize = 128;
const SEGMENTS_MAX_OLD: usize = 64;
/// A burst is one IP packet until it is cut; its length has 16 bits, headers included.
const BURST_BYTES_MAX: usize = 65_000;

/// An error may be about an earlier packet, as ICMP reported it: then the call has sent nothing, but the next one may.
const ATTEMPTS: usize = 3;

/// A packet, and where to if the socket is not connected.
#[derive(Clone, Copy)]
pub struct Packet<'a> {
    pub bytes: &'a [u8],
    pub to: Option<&'a Address>,
}

/// What became of the first packets of those that were handed over; none beyond has been tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    pub taken: usize,
    /// Refused, right behind those that were taken.
    pub refused: usize,
}

pub struct Transmitter {
    pub path: Path,
    /// A path that was asked for is kept, whatever it brings.
    forced: bool,
    segments_max: usize,
    pub errors: BTreeMap<String, u64>,
    pub calls: u64,
    pub burst_packets_max: u64,
}

impl Transmitter {
    pub fn new(path: Path, forced: bool) -> Transmitter {
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

    /// How many packets of this size are worth handing over at once.
    pub fn batch_packets(&self, packet_bytes: usize) -> usize {
        match self.path {
            Path::Gso => self.segments_max.min(BURST_BYTES_MAX / packet_bytes).max(1),
            Path::Mmsg => BATCH_MAX / 2,
            Path::Plain => 1,
        }
    }

    /// Send packets, at most `BATCH_MAX`, in order. Either all are taken, or the outcome names the first that were refused.
    pub fn send(&mut self, socket: &UdpSocket, packets: &[Packet]) -> Outcome {
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
                    if attempts == ATTEMPTS || !may_be_an_earlier_packets(&error) {
                        return Outcome { taken, refused: group };
                    }
                }
            }
        }
        Outcome { taken, refused: 0 }
    }

    /// One system call; how many packets it sent.
    fn call(&mut self, socket: &UdpSocket, packets: &[Packet]) -> Result<usize, Error> {
        let parts: Vec<IoSlice> = packets.iter().map(|packet| IoSlice::new(packet.bytes)).collect();
        if self.path == Path::Plain {
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
                self.path = Path::Plain;
                self.call(socket, packets)
            }
            Err(error) => Err(error),
        }
    }

    /// How many packets from the first on may be one burst: of one size, to one address.
    fn group_length(&self, packets: &[Packet]) -> usize {
        if self.path != Path::Gso {
            return 1;
        }
        let first = packets[0];
        let most = self.batch_packets(first.bytes.len());
        let fits = |packet: &&Packet| packet.bytes.len() == first.bytes.len() && packet.to == first.to;
        packets.iter().take(most).take_while(fits).count()
    }

    /// Give up on bursts of this length, or on bursts: whether this error is a reason to.
    fn fall_back(&mut self, error: &Error) -> bool {
        // EINVAL: too many segments, or one that does not fit into a frame, or an unknown option; EMSGSIZE the same on
        // newer kernels; EIO: the device cannot do checksums (before Linux 6.10).
        if !matches!(
            error.raw_os_error(),
            Some(libc::EINVAL | libc::EMSGSIZE | libc::EIO | libc::EOPNOTSUPP)
        ) {
            return false;
        }
        if self.segments_max > SEGMENTS_MAX_OLD && error.raw_os_error() == Some(libc::EINVAL) {
            self.segments_max = SEGMENTS_MAX_OLD;
        } else {
            self.path = Path::Mmsg;
        }
        true
    }
}

fn may_be_an_earlier_packets(error: &Error) -> bool {
    !matches!(
        error.raw_os_error(),
        Some(libc::ENOBUFS | libc::EAGAIN | libc::EPERM | libc::ENOMEM | libc::EINVAL)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bursts(path: Path, sizes: &[usize]) -> Vec<usize> {
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
        assert_eq!(bursts(Path::Gso, &[18, 18, 18, 548, 548, 18]), [3, 2, 1]);
        assert_eq!(bursts(Path::Mmsg, &[18, 18, 18]), [1, 1, 1]);
    }

    #[test]
    fn a_burst_stays_within_what_an_ip_packet_can_be() {
        assert_eq!(bursts(Path::Gso, &[8972; 9]), [7, 2]);
        assert_eq!(bursts(Path::Gso, &[18; 130]), [128, 2]);
    }

    #[test]
    fn bursts_too_long_for_an_old_kernel_are_halved_and_then_given_up() {
        let mut transmitter = Transmitter::new(Path::Gso, false);
        let error = Error::from_raw_os_error(libc::EINVAL);
        assert!(transmitter.fall_back(&error));
        assert_eq!((transmitter.path, transmitter.batch_packets(18)), (Path::Gso, 64));
        assert!(transmitter.fall_back(&error));
        assert_eq!(transmitter.path, Path::Mmsg);
    }

    #[test]
    fn a_full_queue_is_no_reason_to_give_up_bursts() {
        let mut transmitter = Transmitter::new(Path::Gso, false);
        assert!(!transmitter.fall_back(&Error::from_raw_os_error(libc::ENOBUFS)));
    }
}
