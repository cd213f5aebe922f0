//! Receive a batch of packets.

use std::ffi::c_int;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

use super::{Address, BATCH_MAX};

/// Bytes for one packet. The longest packet of a session fits, and a longer one is recognised as too long. The size
/// is an odd number of cache lines, so that the first lines of the slots, which small packets use, spread over the
/// cache.
const SLOT_BYTES: usize = 145 * 64;

/// Bytes for packets of one flow that the kernel has merged: the longest UDP payload, again in odd cache lines.
const MERGED_SLOT_BYTES: usize = 1025 * 64;

/// Most messages of one call that receives merged packets. A batch is then at most 2 MiB, which a cache holds.
const MERGED_BATCH_MAX: usize = 32;

/// Room for one control message: a timestamp (a header and two 64-bit numbers), or the size of merged packets.
const CONTROL_BYTES: usize = 64;

/// What a program wants to know about the packets of an inbox, and how they come.
#[derive(Clone, Copy, Default)]
pub struct InboxOptions {
    /// One packet for each system call.
    pub is_single: bool,
    /// The senders' addresses.
    pub wants_sources: bool,
    /// The kernel's times of arrival.
    pub wants_timestamps: bool,
    /// The kernel may merge packets of one flow (`enable_merging`).
    pub takes_merged: bool,
    /// One system call for each packet, as kernels before 2.6.33 need it.
    pub one_by_one: bool,
}

/// The place of a packet in the inbox.
#[derive(Clone, Copy)]
struct Place {
    message: usize,
    /// First byte, counted from the begin of all slots.
    start: usize,
    length: usize,
}

/// Room for a batch of packets, used again for each batch.
///
/// No pointer outlives a call: `receive` sets the pointers of `headers` and `iovecs` each time.
pub struct Inbox {
    options: InboxOptions,
    slot_bytes: usize,
    slots: Box<[u8]>,
    addresses: Box<[Address]>,
    controls: Box<[[u64; CONTROL_BYTES / 8]]>,
    iovecs: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
    /// Number of messages of the last call; a message holds one packet, or several that the kernel has merged.
    messages: usize,
    packets: Vec<Place>,
}

impl Inbox {
    pub fn new(options: InboxOptions) -> Inbox {
        let (limit, slot_bytes) = match options {
            InboxOptions { is_single: true, .. } => (1, SLOT_BYTES),
            InboxOptions { takes_merged: true, .. } => (MERGED_BATCH_MAX, MERGED_SLOT_BYTES),
            _ => (BATCH_MAX, SLOT_BYTES),
        };
        // SAFETY: iovec and mmsghdr are plain data, for which all zeros is a value.
        let (iovec, header): (libc::iovec, libc::mmsghdr) = unsafe { (zeroed(), zeroed()) };
        Inbox {
            options,
            slot_bytes,
            slots: vec![0u8; slot_bytes * limit].into_boxed_slice(),
            addresses: vec![Address::unknown(); limit].into_boxed_slice(),
            controls: vec![[0u64; CONTROL_BYTES / 8]; limit].into_boxed_slice(),
            iovecs: vec![iovec; limit].into_boxed_slice(),
            headers: vec![header; limit].into_boxed_slice(),
            messages: 0,
            packets: Vec::with_capacity(limit),
        }
    }

    /// Leave out the senders' addresses of the following batches.
    pub fn ask_for_no_sources(&mut self) {
        self.options.wants_sources = false;
    }

    /// Return true if the last call took as much as one call can, so that more packets may be waiting.
    pub fn is_full(&self) -> bool {
        self.messages == self.headers.len()
    }

    /// Point each header to its own slot, address and control buffer.
    fn set_pointers(&mut self) {
        let slots = self.slots.chunks_exact_mut(self.slot_bytes);
        let buffers = slots
            .zip(&mut self.iovecs)
            .zip(&mut self.addresses)
            .zip(&mut self.controls);
        for (header, (((slot, iovec), address), control)) in self.headers.iter_mut().zip(buffers) {
            iovec.iov_base = slot.as_mut_ptr().cast();
            iovec.iov_len = slot.len();
            address.length = 0;
            let header = &mut header.msg_hdr;
            header.msg_iov = iovec;
            header.msg_iovlen = 1;
            header.msg_flags = 0;
            (header.msg_name, header.msg_namelen) = if self.options.wants_sources {
                let room = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
                ((&raw mut address.storage).cast(), room)
            } else {
                (ptr::null_mut(), 0)
            };
            if self.options.wants_timestamps || self.options.takes_merged {
                header.msg_control = control.as_mut_ptr().cast();
                header.msg_controllen = CONTROL_BYTES as _;
            }
        }
    }

    /// Receive what has arrived, without waiting. Returns the number of packets, 0 if there is none.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.set_pointers();
        self.messages = 0;
        self.packets.clear();
        let result = if self.options.one_by_one {
            self.receive_one_by_one(socket.as_raw_fd())
        } else {
            self.receive_many(socket)
        };
        match result {
            Ok(count) => self.messages = count,
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => self.options.one_by_one = true,
            Err(error) => return Err(error),
        }
        for (message, (header, address)) in self.headers[..self.messages]
            .iter()
            .zip(&mut self.addresses)
            .enumerate()
        {
            address.length = header.msg_hdr.msg_namelen;
            let length = (header.msg_len as usize).min(self.slot_bytes);
            // SAFETY: `set_pointers` has pointed the header to a control buffer of its own, or to none, for this call.
            let merged_bytes = unsafe { merged_packet_bytes(&header.msg_hdr) };
            let first = message * self.slot_bytes;
            match merged_bytes {
                Some(bytes) if bytes < length => self.packets.extend((0..length).step_by(bytes).map(|start| Place {
                    message,
                    start: first + start,
                    length: bytes.min(length - start),
                })),
                _ => self.packets.push(Place {
                    message,
                    start: first,
                    length,
                }),
            }
        }
        Ok(self.packets.len())
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

    pub fn packet(&self, index: usize) -> &[u8] {
        let place = self.packets[index];
        &self.slots[place.start..][..place.length]
    }

    pub fn packet_mut(&mut self, index: usize) -> &mut [u8] {
        let place = self.packets[index];
        &mut self.slots[place.start..][..place.length]
    }

    /// Return true if the packet was longer than its slot and is incomplete.
    pub fn cut(&self, index: usize) -> bool {
        self.header(index).msg_flags & libc::MSG_TRUNC != 0
    }

    /// Return the packet's source, if the inbox asks for sources.
    pub fn source(&self, index: usize) -> &Address {
        &self.addresses[self.packets[index].message]
    }

    fn header(&self, index: usize) -> &libc::msghdr {
        &self.headers[self.packets[index].message].msg_hdr
    }

    /// Return the kernel's time of arrival, CLOCK_REALTIME [ns], if the packet has one.
    pub fn stamp_ns(&self, index: usize) -> Option<i64> {
        // struct cmsghdr and struct timespec on machines of 64 bits: length, level and type, seconds, nanoseconds
        // (`enable_receive_timestamps` refuses other machines).
        let [length, level_and_type, seconds, nanoseconds, ..] = self.controls[self.packets[index].message];
        let [a, b, c, d, e, f, g, h] = level_and_type.to_ne_bytes();
        let (level, kind) = (c_int::from_ne_bytes([a, b, c, d]), c_int::from_ne_bytes([e, f, g, h]));
        let is_stamp = self.header(index).msg_controllen as u64 >= length
            && length >= 32
            && (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS);
        is_stamp.then_some(seconds as i64 * 1_000_000_000 + nanoseconds as i64)
    }
}

/// Return the size of each packet of a message, the last of which may be shorter; `None` if the kernel has not merged
/// it (udp(7), UDP_GRO).
///
/// # Safety
/// The header must be one that the kernel has filled, and its control buffer must be valid.
unsafe fn merged_packet_bytes(header: &libc::msghdr) -> Option<usize> {
    // SAFETY: the caller promises a valid control buffer, whose length the kernel has set.
    let control = unsafe { libc::CMSG_FIRSTHDR(header).as_ref() }?;
    if (control.cmsg_level, control.cmsg_type) != (libc::SOL_UDP, libc::UDP_GRO) {
        return None;
    }
    // SAFETY: the kernel has written this control message, whose data are one integer (net/ipv4/udp.c, udp_cmsg_recv).
    let bytes = unsafe { libc::CMSG_DATA(control).cast::<c_int>().read_unaligned() };
    usize::try_from(bytes).ok().filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::*;
    use crate::io::{Message, enable_merging, send_message};

    /// Send 250 bytes that the kernel cuts after each 100, and return the messages and packets that arrive.
    fn received_from_a_burst(takes_merged: bool) -> (usize, Vec<Vec<u8>>) {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        if takes_merged {
            enable_merging(&receiver).expect("Linux 5.0");
        }
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        sender.connect(receiver.local_addr().expect("bound")).expect("a way");
        let bytes: Vec<u8> = (0..250).collect();
        let message = Message {
            parts: &[IoSlice::new(&bytes)],
            to: None,
            segment_bytes: 100,
        };
        send_message(&sender, &message).expect("sent");
        let mut inbox = Inbox::new(InboxOptions {
            takes_merged,
            ..InboxOptions::default()
        });
        let count = inbox.receive(&receiver).expect("received");
        (
            inbox.messages,
            (0..count).map(|index| inbox.packet(index).to_vec()).collect(),
        )
    }

    #[test]
    fn packets_that_the_kernel_merged_are_taken_apart() {
        let whole: Vec<u8> = (0..250).collect();
        let expected: Vec<Vec<u8>> = whole.chunks(100).map(<[u8]>::to_vec).collect();
        assert_eq!(received_from_a_burst(true), (1, expected.clone()));
        assert_eq!(received_from_a_burst(false), (3, expected));
    }
}
