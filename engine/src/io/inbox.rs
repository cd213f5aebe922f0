//! Receive a batch of packets.

use std::ffi::c_int;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

use super::Address;

/// Bytes for one packet. The longest packet of a session fits, and a longer one is recognised as too long. The size
/// is an odd number of cache lines, so that the first lines of the slots, which small packets use, spread over the
/// cache.
const SLOT_BYTES: usize = 145 * 64;

/// Room for one timestamp: a header and two 64-bit numbers.
const STAMP_CONTROL_BYTES: usize = 64;

/// Room for a batch of packets, used again for each batch.
///
/// No pointer outlives a call: `receive` sets the pointers of `headers` and `iovecs` each time.
pub struct Inbox {
    slots: Box<[u8]>,
    addresses: Box<[Address]>,
    controls: Box<[[u64; STAMP_CONTROL_BYTES / 8]]>,
    iovecs: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
    filled: usize,
    wants_sources: bool,
    wants_timestamps: bool,
    one_by_one: bool,
}

impl Inbox {
    /// Make room for `limit` packets, the most that one system call takes. `wants_sources` asks for the senders'
    /// addresses, `wants_timestamps` for the kernel's times of arrival. `one_by_one` uses one system call for each packet,
    /// as kernels before 2.6.33 need it.
    pub fn new(limit: usize, wants_sources: bool, wants_timestamps: bool, one_by_one: bool) -> Inbox {
        // SAFETY: iovec and mmsghdr are plain data, for which all zeros is a value.
        let (iovec, header): (libc::iovec, libc::mmsghdr) = unsafe { (zeroed(), zeroed()) };
        Inbox {
            slots: vec![0u8; SLOT_BYTES * limit].into_boxed_slice(),
            addresses: vec![Address::unknown(); limit].into_boxed_slice(),
            controls: vec![[0u64; STAMP_CONTROL_BYTES / 8]; limit].into_boxed_slice(),
            iovecs: vec![iovec; limit].into_boxed_slice(),
            headers: vec![header; limit].into_boxed_slice(),
            filled: 0,
            wants_sources,
            wants_timestamps,
            one_by_one,
        }
    }

    /// Return the most packets that one system call receives.
    pub fn limit(&self) -> usize {
        self.headers.len()
    }

    /// Point each header to its own slot, address and control buffer.
    fn set_pointers(&mut self) {
        let slots = self.slots.chunks_exact_mut(SLOT_BYTES);
        let buffers = slots
            .zip(&mut self.iovecs)
            .zip(&mut self.addresses)
            .zip(&mut self.controls);
        for (header, (((slot, iovec), address), control)) in self.headers.iter_mut().zip(buffers) {
            iovec.iov_base = slot.as_mut_ptr().cast();
            iovec.iov_len = SLOT_BYTES;
            address.length = 0;
            let header = &mut header.msg_hdr;
            header.msg_iov = iovec;
            header.msg_iovlen = 1;
            header.msg_flags = 0;
            if self.wants_sources {
                header.msg_name = (&raw mut address.storage).cast();
                header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            }
            if self.wants_timestamps {
                header.msg_control = control.as_mut_ptr().cast();
                header.msg_controllen = STAMP_CONTROL_BYTES as _;
            }
        }
    }

    /// Receive what has arrived, without waiting. Returns the number of packets, 0 if there is none.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.set_pointers();
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
            Err(error) => return Err(error),
        }
        for (header, address) in self.headers[..self.filled].iter().zip(&mut self.addresses) {
            address.length = header.msg_hdr.msg_namelen;
        }
        Ok(self.filled)
    }

    fn receive_many(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        // SAFETY: `set_pointers` has pointed each header to an iovec, address and control buffer of its own, which are
        // borrowed with `self` for this call and have the lengths that are given.
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

    /// Return true if the packet was longer than its slot and is incomplete.
    pub fn cut(&self, index: usize) -> bool {
        self.headers[..self.filled][index].msg_hdr.msg_flags & libc::MSG_TRUNC != 0
    }

    /// Return the packet's source, if the inbox asks for sources.
    pub fn source(&self, index: usize) -> &Address {
        &self.addresses[..self.filled][index]
    }

    /// Return the kernel's time of arrival, CLOCK_REALTIME [ns], if the packet has one.
    pub fn stamp_ns(&self, index: usize) -> Option<i64> {
        let header = &self.headers[..self.filled][index].msg_hdr;
        // struct cmsghdr and struct timespec on machines of 64 bits: length, level and type, seconds, nanoseconds
        // (`enable_receive_timestamps` refuses other machines).
        let [length, level_and_type, seconds, nanoseconds, ..] = self.controls[index];
        let [a, b, c, d, e, f, g, h] = level_and_type.to_ne_bytes();
        let (level, kind) = (c_int::from_ne_bytes([a, b, c, d]), c_int::from_ne_bytes([e, f, g, h]));
        let is_stamp = header.msg_controllen as u64 >= length
            && length >= 32
            && (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS);
        is_stamp.then_some(seconds as i64 * 1_000_000_000 + nanoseconds as i64)
    }
}
