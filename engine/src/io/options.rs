//! Set and read socket options, and wait for sockets.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

/// Value that switches an option on.
const ON: c_int = 1;

/// Set an option whose value is plain data.
pub(super) fn set_option<T: Copy>(socket: RawFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    // SAFETY: pointer and length are those of `value`, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            socket,
            level,
            name,
            ptr::from_ref(value).cast::<c_void>(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn option<const N: usize>(socket: &UdpSocket, level: c_int, name: c_int) -> io::Result<[u32; N]> {
    let mut values = [0u32; N];
    let mut length = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of `values`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            values.as_mut_ptr().cast::<c_void>(),
            &mut length,
        )
    };
    if result == 0 {
        Ok(values)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Ask for socket buffers above the system's limit, or up to it without the privilege. Returns the sizes that the
/// kernel granted for receiving and sending [bytes].
pub fn set_buffer_sizes(socket: &UdpSocket, bytes: u64) -> (u32, u32) {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX / 2);
    let granted = |force, name| {
        if set_option(socket.as_raw_fd(), libc::SOL_SOCKET, force, &bytes).is_err() {
            let _ = set_option(socket.as_raw_fd(), libc::SOL_SOCKET, name, &bytes);
        }
        option::<1>(socket, libc::SOL_SOCKET, name).map_or(0, |value| value[0])
    };
    (
        granted(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        granted(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    )
}

/// Make the kernel report each packet that it took but could not queue (ENOBUFS), and ICMP errors. Without this,
/// UDP reports success for a packet that a full queue dropped (net/ipv4/udp.c, udp_send_skb).
pub fn enable_error_reports(socket: &UdpSocket) -> io::Result<()> {
    if is_ipv6(socket)? {
        set_option(socket.as_raw_fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &ON)
    } else {
        set_option(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_RECVERR, &ON)
    }
}

/// Return true if this kernel has UDP generic segmentation offload (Linux 4.18).
pub fn supports_gso(socket: &UdpSocket) -> bool {
    option::<1>(socket, libc::SOL_UDP, libc::UDP_SEGMENT).is_ok()
}

/// Return true if this kernel can merge received packets of UDP (Linux 5.0).
pub fn supports_gro(socket: &UdpSocket) -> bool {
    option::<1>(socket, libc::SOL_UDP, libc::UDP_GRO).is_ok()
}

/// Let the kernel give packets of one flow and one size to the socket as one message (udp(7), UDP_GRO).
pub fn enable_merging(socket: &UdpSocket) -> io::Result<()> {
    set_option(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_GRO, &ON)
}

/// Make the kernel stamp every received packet.
pub fn enable_receive_timestamps(socket: &UdpSocket) -> io::Result<()> {
    if cfg!(not(target_pointer_width = "64")) {
        // The stamp holds two `long`s, which `Inbox` reads as 64 bits each.
        return Err(io::ErrorKind::Unsupported.into());
    }
    set_option(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &ON)
}

/// Return how many packets this socket has dropped so far, modulo 2^32. SO_RXQ_OVFL attaches the same counter to
/// packets, but it is out of date when no packet follows (net/core/sock.c, sk_get_meminfo; Linux 4.12).
pub fn dropped_packets(socket: &UdpSocket) -> Option<u32> {
    const SK_MEMINFO_DROPS: usize = 8;
    option::<{ SK_MEMINFO_DROPS + 1 }>(socket, libc::SOL_SOCKET, libc::SO_MEMINFO)
        .ok()
        .map(|values| values[SK_MEMINFO_DROPS])
}

fn is_ipv6(socket: &UdpSocket) -> io::Result<bool> {
    Ok(socket.local_addr()?.is_ipv6())
}

/// Discard the reports that `enable_error_reports` has queued, which would fill the receive buffer. The calls that
/// send and receive return the errors themselves.
pub fn drain_errors(socket: &UdpSocket) {
    loop {
        // SAFETY: msghdr is plain data; all zeros means that neither data, address nor control is wanted.
        let mut header: libc::msghdr = unsafe { zeroed() };
        // SAFETY: `header` is valid and points to nothing.
        if unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) } < 0 {
            return;
        }
    }
}

/// Wait until a packet can be received, for at most `timeout_ns`, or until a signal arrives.
pub fn wait_readable(sockets: &[&UdpSocket], timeout_ns: u64) {
    let mut polled: Vec<libc::pollfd> = sockets
        .iter()
        .map(|socket| libc::pollfd {
            fd: socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    // SAFETY: timespec is plain data, for which all zeros is a value.
    let mut timeout: libc::timespec = unsafe { zeroed() };
    timeout.tv_sec = (timeout_ns / 1_000_000_000) as libc::time_t;
    timeout.tv_nsec = (timeout_ns % 1_000_000_000) as _;
    // SAFETY: pointer and length are those of `polled`; `timeout` is valid for reading; no signal mask is given.
    unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, &timeout, ptr::null()) };
}
