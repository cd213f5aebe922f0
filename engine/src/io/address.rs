//! The address of a peer.

use std::ffi::c_int;
use std::mem::{size_of, zeroed};
use std::net::IpAddr;

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
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}
