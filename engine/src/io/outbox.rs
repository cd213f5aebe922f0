//! Send a batch of packets.

use std::io::{self, IoSlice};
use std::mem::{size_of, zeroed};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use super::{Address, BATCH_MAX};

/// One entry of `send_messages`. The parts are joined and cut into packets of `segment_bytes` each, the last of
/// which may be shorter. With `segment_bytes` 0 they form one packet.
pub struct Message<'a> {
    pub parts: &'a [IoSlice<'a>],
    /// Destination; `None`: the address that the socket is connected to.
    pub to: Option<&'a Address>,
    pub segment_bytes: u16,
}

/// Room for one segment size: a header and 16 bits.
type SegmentControl = [u64; 4];

/// Send as many messages as the kernel takes with one system call, and return their number, at least 1. Waits while
/// the socket's buffer is full, at most for the socket's write timeout.
pub fn send_messages(socket: &UdpSocket, messages: &[Message]) -> io::Result<usize> {
    let mut controls: [SegmentControl; BATCH_MAX] = [[0; 4]; BATCH_MAX];
    // SAFETY: mmsghdr is plain data, for which all zeros is a value.
    let mut headers: [libc::mmsghdr; BATCH_MAX] = unsafe { zeroed() };
    let count = messages.len().min(BATCH_MAX);
    for ((header, control), message) in headers.iter_mut().zip(&mut controls).zip(messages) {
        fill_header(&mut header.msg_hdr, control, message);
    }
    // SAFETY: the first `count` headers point to parts and addresses that are borrowed for longer than this call, and to
    // controls in the array above; the kernel only reads them.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count as _, 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Send one message by a system call that every kernel has.
pub fn send_message(socket: &UdpSocket, message: &Message) -> io::Result<()> {
    let mut control: SegmentControl = [0; 4];
    // SAFETY: msghdr is plain data, for which all zeros is a value.
    let mut header: libc::msghdr = unsafe { zeroed() };
    fill_header(&mut header, &mut control, message);
    // SAFETY: as in `send_messages`.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &header, 0) };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn fill_header(header: &mut libc::msghdr, control: &mut SegmentControl, message: &Message) {
    // IoSlice is guaranteed to have the layout of iovec on Unix.
    header.msg_iov = message.parts.as_ptr().cast_mut().cast();
    header.msg_iovlen = message.parts.len() as _;
    if let Some(address) = message.to {
        header.msg_name = (&raw const address.storage).cast_mut().cast();
        header.msg_namelen = address.length;
    }
    if message.segment_bytes != 0 {
        header.msg_control = control.as_mut_ptr().cast();
        // SAFETY: takes a number only.
        header.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) } as _;
        // SAFETY: control and length have been set above and hold one header with 16 bits, so that the pointer is not
        // null and the data lies within `control`.
        unsafe {
            let entry = libc::CMSG_FIRSTHDR(header);
            (*entry).cmsg_level = libc::SOL_UDP;
            (*entry).cmsg_type = libc::UDP_SEGMENT;
            (*entry).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
            libc::CMSG_DATA(entry)
                .cast::<u16>()
                .write_unaligned(message.segment_bytes);
        }
    }
}
