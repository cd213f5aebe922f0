//! Which packets came, which came twice, and in which order.

use crate::packet::{Contents, FLOWS_MAX, HEADER_BYTES, Header, Kind, PAYLOAD_BYTES_MAX, Refusal, Token};

/// Sequence numbers that all flows together are remembered for: at two million packets a second the last two seconds,
/// longer than a packet can be late.
const REMEMBERED_PACKETS: u64 = 1 << 22;
const REMEMBERED_PACKETS_MIN: u64 = 1 << 16;

/// What a packet of a flow is by its sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// The first copy; `below` the highest sequence number that had come so far by so many, 0: not at all.
    First {
        below: u64,
    },
    Copy,
    /// So old that a copy could not be told from a first arrival.
    Forgotten,
}

/// One flow's sequence numbers: a bit for each of the last ones, and the next that is expected.
pub struct Flow {
    seen: Box<[u64]>,
    /// The highest sequence number that came + 1: NextExp of RFC 4737, section 3.3.
    next: u64,
    first: Option<u64>,
}

impl Flow {
    /// `remembered` is a power of two, at least 64.
    fn new(remembered: u64) -> Flow {
        Flow {
            seen: vec![0; (remembered / 64) as usize].into_boxed_slice(),
            next: 0,
            first: None,
        }
    }

    fn remembered(&self) -> u64 {
        self.seen.len() as u64 * 64
    }

    /// The full sequence number: the one nearest to the next that is expected.
    pub fn unwrap(&self, sequence: u32) -> Option<u64> {
        let ahead = i64::from(sequence.wrapping_sub(self.next as u32) as i32);
        self.next.checked_add_signed(ahead)
    }

    pub fn arrive(&mut self, sequence: u32) -> Arrival {
        let Some(sequence) = self.unwrap(sequence) else {
            return Arrival::Forgotten;
        };
        self.first = self.first.or(Some(sequence));
        let words = self.seen.len();
        let bit = |at: u64| ((at / 64) as usize % words, 1u64 << (at % 64));
        if sequence < self.next {
            if self.next - sequence > self.remembered() {
                return Arrival::Forgotten;
            }
            let (word, mask) = bit(sequence);
            if self.seen[word] & mask != 0 {
                return Arrival::Copy;
            }
            self.seen[word] |= mask;
            return Arrival::First {
                below: self.next - sequence,
            };
        }
        if sequence - self.next >= self.remembered() {
            self.seen.fill(0);
        } else {
            // Those that were skipped take the place of older ones.
            let mut skipped = self.next;
            while skipped < sequence {
                let (word, mask) = bit(skipped);
                if mask == 1 && sequence - skipped >= 64 {
                    self.seen[word] = 0;
                    skipped += 64;
                } else {
                    self.seen[word] &= !mask;
                    skipped += 1;
                }
            }
        }
        let (word, mask) = bit(sequence);
        self.seen[word] |= mask;
        self.next = sequence + 1;
        Arrival::First { below: 0 }
    }
}

/// The flows of a session.
pub struct Flows {
    flows: Vec<Option<Box<Flow>>>,
    remembered: u64,
}

impl Flows {
    /// `count`: how many flows there will be, as far as it is known.
    pub fn new(count: usize) -> Flows {
        let share = REMEMBERED_PACKETS / (count as u64).next_power_of_two();
        Flows {
            flows: (0..FLOWS_MAX).map(|_| None).collect(),
            remembered: share.max(REMEMBERED_PACKETS_MIN),
        }
    }

    pub fn arrive(&mut self, flow: u8, sequence: u32) -> Arrival {
        let remembered = self.remembered;
        self.flows[usize::from(flow)]
            .get_or_insert_with(|| Box::new(Flow::new(remembered)))
            .arrive(sequence)
    }

    fn known(&self) -> impl Iterator<Item = &Flow> {
        self.flows.iter().flatten().map(|flow| &**flow)
    }

    /// Packets that were sent up to the last ones that came.
    pub fn expected_packets(&self) -> u64 {
        self.known().map(|flow| flow.next).sum()
    }

    pub fn first_sequence(&self) -> Option<u64> {
        self.known().filter_map(|flow| flow.first).min()
    }

    pub fn seen(&self) -> u64 {
        self.known().count() as u64
    }
}

/// What is to be counted as a packet of the session.
pub struct Gate {
    token: Token,
    kind: Kind,
    contents: Contents,
    /// Empty: all.
    sizes: Vec<usize>,
}

impl Gate {
    pub fn new(token: Token, kind: Kind, sizes: Vec<usize>) -> Gate {
        Gate {
            token,
            kind,
            contents: Contents::new(token),
            sizes,
        }
    }

    /// The header of a packet of the wanted kind and of a size that can be; its content is not looked at. `cut`: the packet
    /// was longer than `packet`.
    pub fn examine_header(&self, packet: &[u8], cut: bool) -> Result<Header, Refusal> {
        let header = Header::read(self.token, packet)?;
        if header.kind != self.kind {
            return Err(Refusal::Foreign);
        }
        let size_fits =
            packet.len() <= PAYLOAD_BYTES_MAX && (self.sizes.is_empty() || self.sizes.contains(&packet.len()));
        if cut || !size_fits {
            Err(Refusal::Broken)
        } else {
            Ok(header)
        }
    }

    /// The header of a packet that is whole, content included.
    pub fn examine(&self, packet: &[u8], cut: bool) -> Result<Header, Refusal> {
        let header = self.examine_header(packet, cut)?;
        // Without content there is nothing to look at in the stock, and the smallest packets come fastest.
        if packet.len() > HEADER_BYTES && self.contents.of(&header, packet.len()) != &packet[HEADER_BYTES..] {
            return Err(Refusal::Broken);
        }
        Ok(header)
    }

    /// Make `packet` what the header says.
    pub fn fill(&self, header: &Header, packet: &mut [u8]) {
        header.write(self.token, packet);
        if packet.len() > HEADER_BYTES {
            let content = self.contents.of(header, packet.len());
            packet[HEADER_BYTES..].copy_from_slice(content);
        }
    }
}
