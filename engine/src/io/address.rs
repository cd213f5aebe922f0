//! The address of a peer.

use std::ffi::c_int;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::checked;
use super::options::set_option;

/// A peer's address as the kernel gave it.
#[derive(Clone, Copy)]
pub struct Address {
    pub(super) storage: libc::sockaddr_storage,
    pub(super) length: libc::socklen_t,
}

impl Address {
    /// Return room for an address.
    pub(super) fn unknown() -> Address {
        // SAFETY: sockaddr_storage is plain data, for which all zeros is a value.
        let storage = unsafe { zeroed() };
        Address { storage, length: 0 }
    }

    fn bytes(&self) -> &[u8] {
        let length = (self.length as usize).min(size_of::<libc::sockaddr_storage>());
        // SAFETY: `length` bytes lie within `storage`, and the kernel or `zeroed` has set each of them.
        unsafe { std::slice::from_raw_parts((&raw const self.storage).cast::<u8>(), length) }
    }

    /// Return the IP address, or `None` if it is neither IPv4 nor IPv6.
    pub fn ip(&self) -> Option<IpAddr> {
        let bytes = self.bytes();
        match c_int::from(self.storage.ss_family) {
            libc::AF_INET => <[u8; 4]>::try_from(bytes.get(4..8)?).ok().map(IpAddr::from),
            // An IPv4 peer of a socket on `::` has a mapped address.
            libc::AF_INET6 => <[u8; 16]>::try_from(bytes.get(8..24)?)
                .ok()
                .map(|octets| IpAddr::from(octets).to_canonical()),
            _ => None,
        }
    }

    /// Open a socket of the family of the address: SOCK_DGRAM or SOCK_STREAM, with flags of socket(2).
    pub(super) fn open_socket(&self, kind: c_int) -> io::Result<OwnedFd> {
        let family = c_int::from(self.storage.ss_family);
        // SAFETY: takes numbers only.
        let number = checked(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: `number` is an open socket that nothing else owns.
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    }

    /// Let a socket have this address.
    pub(super) fn bind(&self, socket: &impl AsRawFd) -> io::Result<()> {
        let address = (&raw const self.storage).cast();
        // SAFETY: pointer and length are those of `storage`, which the kernel only reads.
        checked(unsafe { libc::bind(socket.as_raw_fd(), address, self.length) }).map(drop)
    }

    /// Connect a socket to this address. A UDP socket then receives packets from there only.
    pub fn connect(&self, socket: &impl AsRawFd) -> io::Result<()> {
        let address = (&raw const self.storage).cast();
        // SAFETY: as above.
        checked(unsafe { libc::connect(socket.as_raw_fd(), address, self.length) }).map(drop)
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        let Address { mut storage, .. } = Address::unknown();
        let length = match address {
            SocketAddr::V4(address) => {
                // SAFETY: a sockaddr_storage has the size and alignment of every kind of address.
                let four = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_in>() };
                four.sin_family = libc::AF_INET as libc::sa_family_t;
                four.sin_port = address.port().to_be();
                four.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(address) => {
                // SAFETY: as above.
                let six = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_in6>() };
                six.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                six.sin6_port = address.port().to_be();
                six.sin6_addr.s6_addr = address.ip().octets();
                six.sin6_scope_id = address.scope_id();
                size_of::<libc::sockaddr_in6>()
            }
        };
        Address {
            storage,
            length: length as libc::socklen_t,
        }
    }
}

/// Open a second socket of the address and port of `first`. It receives all packets, until it is connected to one source;
/// `first` then receives those of all other sources.
///
/// The order matters. For a connected socket, the kernel finds socket and route once, and not for each packet, but only
/// if this socket is the first of its address and port, and a new socket comes before the older ones (Linux 6.18,
/// net/ipv4/udp.c, `__udp4_lib_demux_lookup` and `udp_lib_get_port`).
pub fn bind_beside(first: &UdpSocket) -> io::Result<UdpSocket> {
    let own = Address::from(first.local_addr()?);
    let second = UdpSocket::from(own.open_socket(libc::SOCK_DGRAM)?);
    let share_port = |value: c_int| {
        [first, &second]
            .iter()
            .try_for_each(|each| set_option(each.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, &value))
    };
    share_port(1)?;
    let bound = own.bind(&second);
    share_port(0)?; // no other program may bind this port now
    bound.map(|()| second)
}

/// Return true for the broadcast address of a network of this machine. Linux lets no socket connect to one unless it asks
/// for it (SO_BROADCAST).
pub fn is_broadcast(address: SocketAddr) -> bool {
    let address = Address::from(SocketAddr::new(address.ip().to_canonical(), 9)); // any port but 0
    let refused = address
        .open_socket(libc::SOCK_DGRAM)
        .and_then(|socket| address.connect(&socket));
    refused.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UdpSocket) -> Option<u8> {
        let mut byte = [0];
        socket.set_nonblocking(true).unwrap();
        socket.recv(&mut byte).ok().map(|_| byte[0])
    }

    #[test]
    fn a_broadcast_address_of_a_network_is_recognised() {
        let found = ["127.0.0.1", "127.255.255.255", "::ffff:127.255.255.255", "::1"]
            .map(|ip| is_broadcast(SocketAddr::new(ip.parse().unwrap(), 0)));
        assert_eq!(found, [false, true, true, false]);
    }

    #[test]
    fn the_newer_of_two_sockets_comes_first_and_keeps_to_its_source_once_connected() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(first) = UdpSocket::bind(address) else {
                continue; // no IPv6 on this machine
            };
            let second = bind_beside(&first).unwrap();
            let target = first.local_addr().unwrap();
            let [source, other] = [1, 2].map(|byte| {
                let socket = UdpSocket::bind(address).unwrap();
                socket.send_to(&[byte], target).unwrap();
                socket
            });
            assert_eq!(
                [received(&second), received(&second), received(&first)],
                [Some(1), Some(2), None]
            );

            Address::from(source.local_addr().unwrap()).connect(&second).unwrap();
            other.send_to(&[3], target).unwrap();
            source.send_to(&[4], target).unwrap();
            assert_eq!(
                [received(&second), received(&second), received(&first)],
                [Some(4), None, Some(3)]
            );
            let target = Address::from(target);
            let third = target.open_socket(libc::SOCK_DGRAM).unwrap();
            set_option(third.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, &1).unwrap();
            assert!(target.bind(&third).is_err(), "the port is closed to others");
        }
    }
}
