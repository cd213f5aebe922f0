//! Find lost, duplicated and reordered packets by their sequence numbers.

use crate::packet::{ContentPool, FLOWS_MAX, HEADER_BYTES, Header, Kind, PAYLOAD_BYTES_MAX, Refusal, Token};

/// Sequence numbers that are remembered, shared by the flows. At two million packets per second this covers the
/// last two seconds, which is longer than a packet can be late.
const REMEMBERED_PACKETS: u64 = 1 << 22;
const REMEMBERED_PACKETS_MIN: u64 = 1 << 16;

/// The state of a packet according to its sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// The first copy. `below` is its distance below the highest sequence number so far, and 0 if it is the
    /// highest.
    First {
        below: u64,
    },
    Copy,
    /// Too old to know whether it is the first copy.
    Forgotten,
}

/// The sequence numbers of one flow: a bit for each of the last ones, and the next expected number.
pub struct FlowSequence {
    seen: Box<[u64]>,
    /// Highest sequence number so far + 1: NextExp of RFC 4737, section 3.3.
    next: u64,
    first: Option<u64>,
}

impl FlowSequence {
    /// Remember `remembered` numbers, a power of two of at least 64.
    fn new(remembered: u64) -> FlowSequence {
        FlowSequence {
            seen: vec![0; (remembered / 64) as usize].into_boxed_slice(),
            next: 0,
            first: None,
        }
    }

    fn remembered(&self) -> u64 {
        self.seen.len() as u64 * 64
    }

    /// Return the full sequence number, which is the one nearest to the next expected number.
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
                below: self.next - 1 - sequence,
            };
        }
        if sequence - self.next >= self.remembered() {
            self.seen.fill(0);
        } else {
            // The bits of skipped numbers still belong to older ones: clear them.
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
pub struct FlowSequences {
    flows: Vec<Option<Box<FlowSequence>>>,
    count: u64,
}

impl FlowSequences {
    pub fn new() -> FlowSequences {
        FlowSequences {
            flows: (0..FLOWS_MAX).map(|_| None).collect(),
            count: 0,
        }
    }

    pub fn arrive(&mut self, flow: u8, sequence: u32) -> Arrival {
        let count = &mut self.count;
        let make = || {
            *count += 1;
            // A flow that begins later shares the memory with more flows.
            let share = REMEMBERED_PACKETS / count.next_power_of_two();
            Box::new(FlowSequence::new(share.max(REMEMBERED_PACKETS_MIN)))
        };
        self.flows[usize::from(flow)].get_or_insert_with(make).arrive(sequence)
    }

    fn known(&self) -> impl Iterator<Item = &FlowSequence> {
        self.flows.iter().flatten().map(|flow| &**flow)
    }

    /// Return how many packets were sent up to the last ones that arrived.
    pub fn expected_packets(&self) -> u64 {
        self.known().map(|flow| flow.next).sum()
    }

    pub fn first_sequence(&self) -> Option<u64> {
        self.known().filter_map(|flow| flow.first).min()
    }

    pub fn seen(&self) -> u64 {
        self.count
    }
}

/// A filter for the packets of a session.
pub struct SessionFilter {
    token: Token,
    kind: Kind,
    contents: ContentPool,
    /// Sizes that are accepted [bytes]; empty: all.
    sizes: Vec<usize>,
}

impl SessionFilter {
    pub fn new(token: Token, kind: Kind, sizes: Vec<usize>) -> SessionFilter {
        SessionFilter {
            token,
            kind,
            contents: ContentPool::new(token),
            sizes,
        }
    }

    /// Return the header of a packet of the wanted kind and of a valid size. The content is not checked. `cut` is
    /// true if the packet was longer than `packet`.
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

    /// Return the header of a packet that is complete, its content included.
    pub fn examine(&self, packet: &[u8], cut: bool) -> Result<Header, Refusal> {
        let header = self.examine_header(packet, cut)?;
        // The smallest packets have no content and arrive fastest, so the check is skipped for them.
        if packet.len() > HEADER_BYTES && self.contents.of(&header, packet.len()) != &packet[HEADER_BYTES..] {
            return Err(Refusal::Broken);
        }
        Ok(header)
    }

    /// Fill `packet` with the header and its content.
    pub fn fill(&self, header: &Header, packet: &mut [u8]) {
        header.write(self.token, packet);
        if packet.len() > HEADER_BYTES {
            let content = self.contents.of(header, packet.len());
            packet[HEADER_BYTES..].copy_from_slice(content);
        }
    }

    /// Turn a request into its answer, in place. Its content stays the same.
    pub fn make_answer(&self, request: &Header, shares_time: bool, packet: &mut [u8]) {
        let answer = Header {
            kind: Kind::Answer,
            shared_time: request.shared_time || shares_time,
            ..*request
        };
        answer.write(self.token, packet);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::packet::Content;

    const REMEMBERED: u64 = 256;
    const TOKEN: &str = "00112233445566";

    fn flow_at(next: u64) -> FlowSequence {
        let mut flow = FlowSequence::new(REMEMBERED);
        flow.next = next;
        flow
    }

    proptest! {
        /// Compare with a set that remembers everything, across the wrap of the sequence number.
        #[test]
        fn arrivals_are_told_as_by_somebody_who_remembers_all(
            start in prop_oneof![Just(0u64), Just((1 << 32) - 40), Just((5 << 32) - 40)],
            steps in prop::collection::vec(-300i64..340, 1..400),
        ) {
            let mut flow = flow_at(start);
            let mut came: HashSet<u64> = HashSet::new();
            let mut next = start;
            for step in steps {
                let Some(sequence) = next.checked_add_signed(step) else { continue };
                let arrival = flow.arrive(sequence as u32);
                let expected = if sequence + REMEMBERED < next {
                    Arrival::Forgotten
                } else if came.insert(sequence) {
                    Arrival::First { below: next.saturating_sub(sequence + 1) }
                } else {
                    Arrival::Copy
                };
                prop_assert_eq!(arrival, expected, "sequence {} where {} was next", sequence, next);
                next = next.max(sequence + 1);
                prop_assert_eq!(flow.next, next);
            }
        }
    }

    #[test]
    fn a_packet_that_three_others_overtook_is_three_below_the_highest() {
        let mut flow = flow_at(0);
        let below: Vec<_> = [1, 2, 3, 0].map(|sequence| flow.arrive(sequence)).into();
        assert_eq!(below[..3], [Arrival::First { below: 0 }; 3]);
        assert_eq!(below[3], Arrival::First { below: 3 });
    }

    #[test]
    fn a_long_outage_does_not_confuse_the_sequence() {
        let mut flow = flow_at(1000);
        let after = 1000 + (1 << 31) - 1;
        assert_eq!(flow.arrive(after as u32), Arrival::First { below: 0 });
        assert_eq!(flow.arrive(after as u32), Arrival::Copy);
        assert_eq!(flow.next, after + 1);
    }

    #[test]
    fn a_number_before_the_first_one_is_not_made_a_huge_one() {
        let mut flow = flow_at(0);
        assert_eq!(flow.arrive(u32::MAX), Arrival::Forgotten);
        assert_eq!(flow.next, 0);
    }

    #[test]
    fn expected_packets_are_summed_over_the_flows() {
        let mut flows = FlowSequences::new();
        flows.arrive(0, 9);
        flows.arrive(255, 4);
        assert_eq!(
            (flows.expected_packets(), flows.seen(), flows.first_sequence()),
            (15, 2, Some(4))
        );
    }

    fn filter(sizes: Vec<usize>) -> SessionFilter {
        SessionFilter::new(TOKEN.parse().unwrap(), Kind::OneWay, sizes)
    }

    fn header(content: Content, sequence: u32) -> Header {
        Header {
            kind: Kind::OneWay,
            content,
            shared_time: false,
            flow: 0,
            sequence,
            send_time: 0,
        }
    }

    proptest! {
        #[test]
        fn a_whole_packet_passes_and_an_altered_one_does_not(
            sequence in any::<u32>(), size in 19usize..1500, place in any::<prop::sample::Index>(), flip in 1u8..,
        ) {
            let filter = filter(Vec::new());
            let mut packet = vec![0; size];
            for content in [Content::Zeros, Content::Pattern, Content::Random] {
                filter.fill(&header(content, sequence), &mut packet);
                prop_assert_eq!(filter.examine(&packet, false), Ok(header(content, sequence)));
                let place = HEADER_BYTES + place.index(size - HEADER_BYTES);
                packet[place] ^= flip;
                prop_assert_eq!(filter.examine(&packet, false), Err(Refusal::Broken));
            }
        }

        #[test]
        fn anything_at_all_can_be_examined(packet in prop::collection::vec(any::<u8>(), 0..200), cut in any::<bool>()) {
            let mut packet = packet;
            let _ = filter(Vec::new()).examine(&packet, cut);
            if packet.len() >= 7 {
                packet[..7].copy_from_slice(&[0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66]);
                prop_assert_ne!(filter(Vec::new()).examine(&packet, true), Ok(header(Content::Zeros, 0)));
                let _ = filter(Vec::new()).examine(&packet, cut);
            }
        }
    }

    #[test]
    fn an_answer_differs_from_its_request_in_its_kind_and_checksum() {
        let filter = SessionFilter::new(TOKEN.parse().unwrap(), Kind::Request, Vec::new());
        for (shared_before, shares_time) in [(false, false), (false, true), (true, false), (true, true)] {
            let request = Header {
                kind: Kind::Request,
                shared_time: shared_before,
                ..header(Content::Random, 7)
            };
            let mut packet = vec![0; 100];
            filter.fill(&request, &mut packet);
            let content = packet[HEADER_BYTES..].to_vec();
            filter.make_answer(&request, shares_time, &mut packet);
            let expected = Header {
                kind: Kind::Answer,
                shared_time: shared_before || shares_time,
                ..request
            };
            assert_eq!(Header::read(TOKEN.parse().unwrap(), &packet), Ok(expected));
            assert_eq!(packet[HEADER_BYTES..], content);
        }
    }

    #[test]
    fn random_content_that_was_cut_short_does_not_fit() {
        let filter = filter(Vec::new());
        let mut packet = vec![0; 1400];
        filter.fill(&header(Content::Random, 7), &mut packet);
        for length in (0..1400).step_by(7) {
            let refused = filter.examine(&packet[..length], false);
            let expected = if length < 7 { Refusal::Foreign } else { Refusal::Broken };
            assert!(
                refused == Err(expected) || length == HEADER_BYTES,
                "{length}: {refused:?}"
            );
        }
    }

    #[test]
    fn a_size_that_is_not_sent_is_refused() {
        let filter = filter(vec![18, 100]);
        let mut packet = vec![0; 99];
        filter.fill(&header(Content::Zeros, 0), &mut packet);
        assert_eq!(filter.examine(&packet, false), Err(Refusal::Broken));
        assert_eq!(filter.examine(&packet[..18], false), Ok(header(Content::Zeros, 0)));
        assert_eq!(filter.examine(&packet[..18], true), Err(Refusal::Broken));
    }
}
