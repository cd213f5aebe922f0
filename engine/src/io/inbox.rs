//! Receiving a batch of packets.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

use super::Address;

/// A slot takes the longest packet of a session and shows that a longer one was too long. An odd number of cache lines,
/// so that the first lines of the slots, the only ones that small packets touch, spread over the whole cache.
const SLOT_BYTES: usize = 145 * 64;

/// Room for one timestamp: a header and two 64-bit numbers.
const STAMP_CONTROL_BYTES: usize = 64;

/// Room for a batch of packets, used again for each.
///
/// `headers` and `iovecs` point into the other fields, which are boxed and never replaced: they stay where they are when
/// the inbox moves.
pub struct Inbox {
    slots: Box<[u8]>,
    addresses: Box<[Address]>,
    controls: Box<[[u64; STAMP_CONTROL_BYTES / 8]]>,
    #[allow(dead_code)] // pointed to by `headers`
    iovecs: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
    filled: usize,
    one_by_one: bool,
}

impl Inbox {
    /// `limit`: packets that one system call takes at most. `sources`: addresses of the senders are wanted; `stamps`: times of the kernel are. `one_by_one`: with a system
    /// call for each packet, as kernels before 2.6.33 need it.
    pub fn new(limit: usize, sources: bool, stamps: bool, one_by_one: bool) -> Inbox {
        let mut slots = vec![0u8; SLOT_BYTES * limit].into_boxed_slice();
        let mut addresses = vec![Address::unknown(); limit].into_boxed_slice();
        let mut controls = vec![[0u64; STAMP_CONTROL_BYTES / 8]; limit].into_boxed_slice();
        let mut iovecs: Box<[libc::iovec]> = slots
            .chunks_exact_mut(SLOT_BYTES)
            .map(|slot| libc::iovec {
                iov_base: slot.as_mut_ptr().cast(),
                iov_len: SLOT_BYTES,
            })
            .collect();
        let headers = (0..limit)
            .map(|index| {
                // SAFETY: mmsghdr is plain data, for which all zeros is a value.
                let mut header: libc::mmsghdr = unsafe { zeroed() };
                header.msg_hdr.msg_iov = &raw mut iovecs[index];
                header.msg_hdr.msg_iovlen = 1;
                if sources {
                    header.msg_hdr.msg_name = (&raw mut addresses[index].storage).cast();
                }
                if stamps {
                    header.msg_hdr.msg_control = controls[index].as_mut_ptr().cast();
                }
                header
            })
            .collect();
        Inbox {
            slots,
            addresses,
            controls,
            iovecs,
            headers,
            filled: limit,
            one_by_one,
        }
    }

    /// Packets that one system call takes at most.
    pub fn limit(&self) -> usize {
        self.headers.len()
    }

    /// Take what has arrived, without waiting. The number of packets; 0: nothing there.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        for (header, address) in self.headers[..self.filled].iter_mut().zip(&mut self.addresses) {
            address.length = 0;
            header.msg_hdr.msg_flags = 0;
            if !header.msg_hdr.msg_name.is_null() {
                header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            }
            if !header.msg_hdr.msg_control.is_null() {
                header.msg_hdr.msg_controllen = STAMP_CONTROL_BYTES as _;
            }
        }
        self.filled = 0;
        let result = if self.one_by_one {
            self.receive_one_by_one(socket.as_raw_fd())
        } else {
            self.receive_many(socket)
        };
        match result {
            Ok(count) => self.filled = count,
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => self.one_by_one = true,
            Err(error) => {
                // Lengths of the first headers may have been written already.
                self.filled = self.headers.len();
                return Err(error);
            }
        }
        for (header, address) in self.headers[..self.filled].iter().zip(&mut self.addresses) {
            address.length = header.msg_hdr.msg_namelen;
        }
        Ok(self.filled)
    }

    fn receive_many(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        // SAFETY: each header points to an iovec, address and control of its own, which live in boxes of `self` and have
        // the lengths that are given. Nobody else refers to them during the call.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as _,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    fn receive_one_by_one(&mut self, descriptor: RawFd) -> io::Result<usize> {
        for (index, header) in self.headers.iter_mut().enumerate() {
            // SAFETY: as in `receive_many`, for one header.
            let length = unsafe { libc::recvmsg(descriptor, &mut header.msg_hdr, libc::MSG_DONTWAIT) };
            match u32::try_from(length) {
                Ok(length) => header.msg_len = length,
                Err(_) if index > 0 => return Ok(index),
                Err(_) => return Err(io::Error::last_os_error()),
            }
        }
        Ok(self.headers.len())
    }

    fn length(&self, index: usize) -> usize {
        assert!(index < self.filled);
        (self.headers[index].msg_len as usize).min(SLOT_BYTES)
    }

    pub fn packet(&self, index: usize) -> &[u8] {
        &self.slots[index * SLOT_BYTES..][..self.length(index)]
    }

    pub fn packet_mut(&mut self, index: usize) -> &mut [u8] {
        let length = self.length(index);
        &mut self.slots[index * SLOT_BYTES..][..length]
    }

    /// Whether the packet was longer than any of a session can be, and is not complete.
    pub fn cut(&self, index: usize) -> bool {
        self.headers[..self.filled][index].msg_hdr.msg_flags & libc::MSG_TRUNC != 0
    }

    /// Where the packet came from, if that was asked for.
    pub fn source(&self, index: usize) -> &Address {
        &self.addresses[..self.filled][index]
    }

    /// The kernel's time of arrival, CLOCK_REALTIME [ns], if there is one.
    pub fn stamp_ns(&self, index: usize) -> Option<i64> {
        let header = &self.headers[..self.filled][index].msg_hdr;
        // SAFETY: the kernel has filled in the control buffer of this header and set its length; a null control or a
        // length of 0 gives null.
        let control = unsafe { libc::CMSG_FIRSTHDR(header).as_ref() }?;
        if control.cmsg_level != libc::SOL_SOCKET || control.cmsg_type != libc::SCM_TIMESTAMPNS {
            return None;
        }
        // SAFETY: takes a number only.
        let payload = unsafe { libc::CMSG_LEN(0) } as usize / 8;
        let words = &self.controls[index];
        Some(words[payload] as i64 * 1_000_000_000 + words[payload + 1] as i64)
    }
}
