//! Facts about this machine and counters of its kernel.

use std::fs;

/// Return an identifier of the clock. Two engines with the same identifier read the same CLOCK_MONOTONIC.
pub fn clock_id() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // Kernels before 5.6 have one time namespace only.
    let namespace =
        fs::read_link("/proc/self/ns/time").map_or_else(|_| "time".into(), |link| link.display().to_string());
    Some(format!("{}/{namespace}", boot.trim()))
}

pub fn kernel() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .ok()
        .map(|release| release.trim().to_owned())
}

/// UDP errors of the network namespace since it was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpErrors {
    pub receive_buffer: u64,
    pub checksum: u64,
    /// Packets that were not delivered for any reason, the two above included.
    all: u64,
}

/// Return how many packets of UDP with a right checksum this network namespace has not delivered, over IPv4 and IPv6:
/// mostly because a socket's buffer was full.
pub fn undelivered_packets() -> Option<u64> {
    let of = |ipv6| {
        let errors = UdpErrors::read(ipv6)?;
        // The kernel counts a wrong checksum just before it counts the packet as undelivered.
        Some(errors.all.saturating_sub(errors.checksum))
    };
    // A kernel without IPv6 has no such counters.
    Some(of(false)? + of(true).unwrap_or(0))
}

impl UdpErrors {
    pub fn read(ipv6: bool) -> Option<UdpErrors> {
        if ipv6 {
            parse_snmp6(&fs::read_to_string("/proc/self/net/snmp6").ok()?)
        } else {
            parse_snmp(&fs::read_to_string("/proc/self/net/snmp").ok()?)
        }
    }
}

/// Parse /proc/net/snmp, which has two lines for each protocol: names, then values.
fn parse_snmp(text: &str) -> Option<UdpErrors> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |wanted| {
        let mut pairs = names.split_whitespace().zip(values.split_whitespace());
        pairs.find(|&(name, _)| name == wanted)?.1.parse().ok()
    };
    Some(UdpErrors {
        receive_buffer: value("RcvbufErrors")?,
        checksum: value("InCsumErrors")?,
        all: value("InErrors")?,
    })
}

/// Parse /proc/net/snmp6, which has a name and a value on each line.
fn parse_snmp6(text: &str) -> Option<UdpErrors> {
    let value = |wanted| {
        let mut pairs = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
        pairs.find(|&(name, _)| name == wanted)?.1.trim().parse().ok()
    };
    Some(UdpErrors {
        receive_buffer: value("Udp6RcvbufErrors")?,
        checksum: value("Udp6InCsumErrors")?,
        all: value("Udp6InErrors")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_found_by_their_names() {
        let text = "Tcp: A RcvbufErrors\nTcp: 1 2\nUdp: InDatagrams NoPorts InErrors RcvbufErrors SndbufErrors InCsumErrors\n\
                    Udp: 9 1 12 7 3 4\nUdpLite: InDatagrams\nUdpLite: 0\n";
        assert_eq!(
            parse_snmp(text),
            Some(UdpErrors {
                receive_buffer: 7,
                checksum: 4,
                all: 12
            })
        );
        let text = "Udp6InDatagrams                 \t9\nUdp6InErrors   \t12\nUdp6RcvbufErrors                \t7\n\
                    Udp6InCsumErrors  \t4\n";
        assert_eq!(
            parse_snmp6(text),
            Some(UdpErrors {
                receive_buffer: 7,
                checksum: 4,
                all: 12
            })
        );
    }

    #[test]
    fn this_kernel_counts_udp_errors() {
        assert!(UdpErrors::read(false).is_some());
        assert!(undelivered_packets().is_some());
        assert!(clock_id().is_some_and(|id| id.len() > 36));
    }
}
