//! A packet: a header of 18 bytes, which fits into the smallest Ethernet frame, and then content. docs/engine.md
//! describes the layout.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;

pub const HEADER_BYTES: usize = 18;
pub const PAYLOAD_BYTES_MAX: usize = 8972;
pub const FLOWS_MAX: usize = 256;

const TOKEN_BYTES: usize = 7;
/// The last two bytes of the token are XORed with the checksum of the header's other fields, so that the smallest packet
/// has a checksum as well.
const CHECKED_TOKEN_BYTES: usize = 5;
const FIELDS_BYTES: usize = HEADER_BYTES - TOKEN_BYTES;
const TIME_BITS: u32 = 40;
#[cfg(test)]
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

const KIND_MASK: u8 = 0b0000_0011;
const CONTENT_SHIFT: u8 = 2;
const SHARED_TIME: u8 = 0b0001_0000;
const MARK_MASK: u8 = 0b1110_0000;
const MARK: u8 = 0b0100_0000;

/// The 56 random bits by which packets of a session are recognised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token([u8; TOKEN_BYTES]);

impl Token {
    pub fn bytes(self) -> [u8; TOKEN_BYTES] {
        self.0
    }

    pub fn seed(self) -> u64 {
        self.0.iter().fold(0, |seed, &byte| (seed << 8) | u64::from(byte))
    }
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Token, String> {
        let wrong = || format!("{} hexadecimal digits are required", 2 * TOKEN_BYTES);
        if text.len() != 2 * TOKEN_BYTES || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let number = u64::from_str_radix(text, 16).map_err(|_| wrong())?;
        number.to_be_bytes()[1..].try_into().map(Token).map_err(|_| wrong())
    }
}

impl fmt::Display for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    OneWay = 0,
    Request = 1,
    Answer = 2,
}

/// The bytes that follow the header of a packet.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Content {
    Zeros = 0,
    Pattern = 1,
    Random = 2,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    pub kind: Kind,
    pub content: Content,
    /// True if other packets left with the same system call, so that the send time is not exact for this packet.
    pub shared_time: bool,
    pub flow: u8,
    /// Sequence number modulo 2^32.
    pub sequence: u32,
    /// Time of sending, CLOCK_MONOTONIC of the sender modulo 2^40 [ns].
    pub send_time: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The packet does not belong to this session.
    Foreign,
    /// The packet has the first bytes of the session's token but no valid header.
    Broken,
}

/// The contribution to the checksum of each value of each byte of the header's fields: CRC-16/CCITT with the polynomial
/// 0x1021 and the initial value 0. It finds each error of one or two bits and of up to 16 bits in a row.
const CHECKSUM_PARTS: [[u16; 256]; FIELDS_BYTES] = checksum_parts();

const fn checksum_parts() -> [[u16; 256]; FIELDS_BYTES] {
    let mut parts = [[0; 256]; FIELDS_BYTES];
    let mut value = 0;
    while value < 256 {
        let mut checksum = (value as u16) << 8;
        let mut place = FIELDS_BYTES;
        while place > 0 {
            place -= 1;
            let mut bit = 0;
            while bit < 8 {
                checksum = (checksum << 1) ^ (if checksum & 0x8000 == 0 { 0 } else { 0x1021 });
                bit += 1;
            }
            parts[place][value] = checksum;
        }
        value += 1;
    }
    parts
}

/// Return the first bytes of a packet with these fields, which follow the token.
fn checked_token(token: Token, fields: &[u8]) -> [u8; TOKEN_BYTES] {
    let checksum = fields
        .iter()
        .zip(&CHECKSUM_PARTS)
        .fold(0, |checksum, (&byte, parts)| checksum ^ parts[usize::from(byte)]);
    let [high, low] = checksum.to_be_bytes();
    let mut first = token.0;
    first[CHECKED_TOKEN_BYTES] ^= high;
    first[CHECKED_TOKEN_BYTES + 1] ^= low;
    first
}

impl Header {
    pub fn write(&self, token: Token, packet: &mut [u8]) {
        packet[7] = self.flow;
        packet[8..12].copy_from_slice(&self.sequence.to_be_bytes());
        packet[12..17].copy_from_slice(&self.send_time.to_be_bytes()[3..]);
        let shared_time = if self.shared_time { SHARED_TIME } else { 0 };
        packet[17] = MARK | shared_time | ((self.content as u8) << CONTENT_SHIFT) | self.kind as u8;
        let first = checked_token(token, &packet[TOKEN_BYTES..HEADER_BYTES]);
        packet[..TOKEN_BYTES].copy_from_slice(&first);
    }

    pub fn read(token: Token, packet: &[u8]) -> Result<Header, Refusal> {
        if packet.get(..CHECKED_TOKEN_BYTES) != Some(&token.0[..CHECKED_TOKEN_BYTES]) {
            return Err(Refusal::Foreign);
        }
        let Some(&[.., a, b, c, d, t0, t1, t2, t3, t4, kind]) = packet.get(..HEADER_BYTES) else {
            return Err(Refusal::Broken);
        };
        let is_whole = packet[..TOKEN_BYTES] == checked_token(token, &packet[TOKEN_BYTES..HEADER_BYTES]);
        if !is_whole || kind & MARK_MASK != MARK {
            return Err(Refusal::Broken);
        }
        Ok(Header {
            kind: match kind & KIND_MASK {
                0 => Kind::OneWay,
                1 => Kind::Request,
                2 => Kind::Answer,
                _ => return Err(Refusal::Broken),
            },
            content: match (kind >> CONTENT_SHIFT) & 0b11 {
                0 => Content::Zeros,
                1 => Content::Pattern,
                2 => Content::Random,
                _ => return Err(Refusal::Broken),
            },
            shared_time: kind & SHARED_TIME != 0,
            flow: packet[7],
            sequence: u32::from_be_bytes([a, b, c, d]),
            send_time: u64::from_be_bytes([0, 0, 0, t0, t1, t2, t3, t4]),
        })
    }

    /// Return the time from sending to `arrival_ns` [ns]. The send time has 40 bits, so the result is right within
    /// +-549 s.
    pub fn age_ns(&self, arrival_ns: u64) -> i64 {
        wrap_ns(arrival_ns.wrapping_sub(self.send_time) as i64)
    }
}

/// Return the value nearest to 0 of a time difference that is known modulo 2^40 [ns].
pub fn wrap_ns(difference_ns: i64) -> i64 {
    // The upper half of the range is negative: sign-extend from bit 39.
    (difference_ns << (64 - TIME_BITS)) >> (64 - TIME_BITS)
}

/// The content of packets. Both ends generate the same pool, and each packet takes a part of it whose position
/// depends on its header. A packet that was cut, exchanged or altered therefore does not match.
pub struct ContentPool {
    random: Vec<u8>,
    pattern: Vec<u8>,
    zeros: Vec<u8>,
}

const STOCK_BYTES: usize = 1 << 16;

impl ContentPool {
    pub fn new(token: Token) -> ContentPool {
        let length = STOCK_BYTES + PAYLOAD_BYTES_MAX;
        // SplitMix64 (Steele, Lea, Flood 2014), seeded with the token.
        let mut state = token.seed();
        let random = std::iter::repeat_with(|| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)).to_le_bytes()
        })
        .flatten()
        .take(length)
        .collect();
        ContentPool {
            random,
            pattern: (0..=255).cycle().take(length).collect(),
            zeros: vec![0; length],
        }
    }

    /// Return the content that follows `header` in a packet of `packet_bytes`.
    pub fn of(&self, header: &Header, packet_bytes: usize) -> &[u8] {
        let stock = match header.content {
            Content::Zeros => &self.zeros,
            Content::Pattern => &self.pattern,
            Content::Random => &self.random,
        };
        let place = (header.sequence as usize)
            .wrapping_mul(0x9e5)
            .wrapping_add(packet_bytes.wrapping_mul(0x1f3))
            .wrapping_add(usize::from(header.flow).wrapping_mul(0x3d1));
        &stock[place % STOCK_BYTES..][..packet_bytes.saturating_sub(HEADER_BYTES)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token() -> Token {
        "00112233445566".parse::<Token>().unwrap()
    }

    fn headers() -> impl Strategy<Value = Header> {
        let kinds = prop_oneof![Just(Kind::OneWay), Just(Kind::Request), Just(Kind::Answer)];
        let contents = prop_oneof![Just(Content::Zeros), Just(Content::Pattern), Just(Content::Random)];
        (kinds, contents, any::<bool>(), any::<u8>(), any::<u32>(), 0..=TIME_MASK).prop_map(
            |(kind, content, shared_time, flow, sequence, send_time)| Header {
                kind,
                content,
                shared_time,
                flow,
                sequence,
                send_time,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(header in headers()) {
            let mut packet = [0; HEADER_BYTES];
            header.write(token(), &mut packet);
            prop_assert_eq!(Header::read(token(), &packet), Ok(header));
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut packet in prop::collection::vec(any::<u8>(), 0..64), ours in any::<bool>()) {
            if ours && packet.len() >= HEADER_BYTES {
                let first = checked_token(token(), &packet[TOKEN_BYTES..HEADER_BYTES]);
                packet[..TOKEN_BYTES].copy_from_slice(&first);
            }
            let read = Header::read(token(), &packet);
            let is_ours = packet.get(..CHECKED_TOKEN_BYTES) == Some(&token().0[..CHECKED_TOKEN_BYTES]);
            prop_assert_eq!(read == Err(Refusal::Foreign), !is_ours);
            if let Ok(header) = read {
                // The header keeps every bit of an accepted packet.
                let mut again = packet.clone();
                header.write(token(), &mut again);
                prop_assert_eq!(again, packet);
            }
        }

        #[test]
        fn a_header_with_one_or_two_changed_bits_is_not_read(header in headers(), other in 0usize..HEADER_BYTES * 8) {
            let mut packet = [0; HEADER_BYTES];
            header.write(token(), &mut packet);
            for bit in 0..HEADER_BYTES * 8 {
                let mut changed = packet;
                changed[bit / 8] ^= 1 << (bit % 8);
                prop_assert!(Header::read(token(), &changed).is_err(), "bit {}", bit);
                changed[other / 8] ^= 1 << (other % 8);
                prop_assert_eq!(Header::read(token(), &changed).is_err(), bit != other, "bits {} and {}", bit, other);
            }
        }

        #[test]
        fn ages_are_right_over_the_wrap_of_the_send_time(sent_ns in any::<u64>(), age_ns in -500_000_000_000i64..500_000_000_000) {
            let header = Header {
                kind: Kind::OneWay,
                content: Content::Zeros,
                shared_time: false,
                flow: 0,
                sequence: 0,
                send_time: sent_ns & TIME_MASK,
            };
            prop_assert_eq!(header.age_ns(sent_ns.wrapping_add_signed(age_ns)), age_ns);
        }
    }

    #[test]
    fn a_token_is_14_hexadecimal_digits() {
        assert_eq!("00112233445566".parse::<Token>().unwrap().to_string(), "00112233445566");
        assert_eq!("FFeeddCCbbaa99".parse::<Token>().unwrap().to_string(), "ffeeddccbbaa99");
        for wrong in [
            "",
            "0011223344556",
            "001122334455667",
            "0011223344556g",
            "+0112233445566",
        ] {
            assert_eq!(wrong.parse::<Token>().ok(), None, "{wrong}");
        }
    }

    #[test]
    fn random_content_looks_random_and_depends_on_the_session() {
        let contents = ContentPool::new(token());
        let mut counts = [0u32; 256];
        contents.random.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
        let expected = contents.random.len() as f64 / 256.0;
        // Chi-squared with 255 degrees of freedom: above 355 once in 25,000 tokens.
        let chi: f64 = counts
            .iter()
            .map(|&count| (f64::from(count) - expected).powi(2) / expected)
            .sum();
        assert!(chi < 355.0, "{chi}");
        assert_ne!(
            contents.random,
            ContentPool::new("00112233445567".parse::<Token>().unwrap()).random
        );
    }
}
