//! What the standard library does not offer: clocks, socket options, many packets with one system call.
//!
//! The one module with unsafe code. What it hands out is safe to use in any way.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io::{self, IoSlice};
use std::mem::{size_of, size_of_val, zeroed};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Packets that one system call takes or gives at most.
pub const BATCH_MAX: usize = 128;

/// A slot takes the longest packet of a session and shows that a longer one was too long. An odd number of cache lines,
/// so that the first lines of the slots, the only ones that small packets touch, spread over the whole cache.
const SLOT_BYTES: usize = 145 * 64;

/// Room for one timestamp: a header and two 64-bit numbers.
const STAMP_CONTROL_BYTES: usize = 64;

// ---------------------------------------------------------------- clocks

fn clock_ns(clock: libc::clockid_t) -> i64 {
    // SAFETY: timespec is plain data, for which all zeros is a value.
    let mut time: libc::timespec = unsafe { zeroed() };
    // SAFETY: `time` is valid for writing. The call cannot fail for clocks that every kernel has.
    unsafe { libc::clock_gettime(clock, &mut time) };
    #[allow(clippy::useless_conversion)] // time_t and long are 32 bits wide on some machines
    let (seconds, nanoseconds) = (i64::from(time.tv_sec), i64::from(time.tv_nsec));
    seconds * 1_000_000_000 + nanoseconds
}

/// CLOCK_MONOTONIC [ns].
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC) as u64
}

/// CLOCK_REALTIME - CLOCK_MONOTONIC [ns], read without a pause in between if at all possible.
pub fn realtime_offset_ns() -> i64 {
    let mut best = (i64::MAX, 0);
    for _ in 0..4 {
        let before = clock_ns(libc::CLOCK_MONOTONIC);
        let realtime = clock_ns(libc::CLOCK_REALTIME);
        let after = clock_ns(libc::CLOCK_MONOTONIC);
        best = best.min((after - before, realtime - (before + after) / 2));
        if best.0 < 500 {
            break;
        }
    }
    best.1
}

/// Sleep until CLOCK_MONOTONIC shows `time_ns`, or a signal comes.
pub fn sleep_until_ns(time_ns: u64) {
    // SAFETY: timespec is plain data, for which all zeros is a value.
    let mut time: libc::timespec = unsafe { zeroed() };
    time.tv_sec = (time_ns / 1_000_000_000) as libc::time_t;
    time.tv_nsec = (time_ns % 1_000_000_000) as _;
    // SAFETY: `time` is valid for reading; the remaining time is not asked for.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &time, ptr::null_mut()) };
}

/// Wake this thread when its time has come, not up to 50 us later (prctl(2), PR_SET_TIMERSLACK).
pub fn wake_punctually() {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// User and system CPU time of this process [s].
pub fn cpu_times_s() -> (f64, f64) {
    // SAFETY: rusage is plain data, for which all zeros is a value.
    let mut usage: libc::rusage = unsafe { zeroed() };
    // SAFETY: `usage` is valid for writing.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

// ---------------------------------------------------------------- signals

static SIGNALLED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: c_int) {
    SIGNALLED.store(true, Ordering::Relaxed);
}

/// From now on SIGINT and SIGTERM only make `signalled` true and interrupt what sleeps.
pub fn hear_signals() {
    // SAFETY: sigaction is plain data, for which all zeros is a value: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = on_signal as extern "C" fn(c_int) as usize;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler does nothing but an atomic store, which is async-signal-safe.
        unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
    }
}

pub fn signalled() -> bool {
    SIGNALLED.load(Ordering::Relaxed)
}

// ---------------------------------------------------------------- socket options

fn set_option(socket: &UdpSocket, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: pointer and length are those of `value`, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast::<c_void>(),
            size_of::<c_int>() as libc::socklen_t,
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

/// Ask for socket buffers beyond the system's limit, where that is not allowed up to it. What was granted: receive, send.
pub fn set_buffers(socket: &UdpSocket, bytes: usize) -> (u32, u32) {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX / 2);
    let granted = |force, name| {
        if set_option(socket, libc::SOL_SOCKET, force, bytes).is_err() {
            let _ = set_option(socket, libc::SOL_SOCKET, name, bytes);
        }
        option::<1>(socket, libc::SOL_SOCKET, name).map_or(0, |value| value[0])
    };
    (
        granted(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        granted(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    )
}

/// Have the kernel tell about each packet that it took but could not queue (ENOBUFS), and about ICMP errors. Without it
/// UDP calls a packet sent that a full queue threw away (net/ipv4/udp.c, udp_send_skb).
pub fn hear_errors(socket: &UdpSocket) -> io::Result<()> {
    if is_ipv6(socket)? {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)
    } else {
        set_option(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1)
    }
}

/// Whether this kernel knows UDP generic segmentation offload (Linux 4.18).
pub fn knows_gso(socket: &UdpSocket) -> bool {
    option::<1>(socket, libc::SOL_UDP, libc::UDP_SEGMENT).is_ok()
}

/// Have every received packet stamped by the kernel.
pub fn stamp_arrivals(socket: &UdpSocket) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// Packets that this socket has dropped so far, modulo 2^32. The counter that SO_RXQ_OVFL attaches to packets, but up to
/// date when no packet follows (net/core/sock.c, sk_get_meminfo; Linux 4.12).
pub fn dropped_packets(socket: &UdpSocket) -> Option<u32> {
    const SK_MEMINFO_DROPS: usize = 8;
    option::<{ SK_MEMINFO_DROPS + 1 }>(socket, libc::SOL_SOCKET, libc::SO_MEMINFO)
        .ok()
        .map(|values| values[SK_MEMINFO_DROPS])
}

fn is_ipv6(socket: &UdpSocket) -> io::Result<bool> {
    Ok(socket.local_addr()?.is_ipv6())
}

/// Throw away what `hear_errors` has queued, which would fill the receive buffer. The errors themselves are returned by
/// the calls that send and receive.
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

/// Wait until there is something to receive, at most `timeout_ns`, or until a signal comes.
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

// ---------------------------------------------------------------- addresses

/// A peer's address as the kernel gave it.
#[derive(Clone, Copy)]
pub struct Address {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl Address {
    fn bytes(&self) -> &[u8] {
        let length = (self.length as usize).min(size_of::<libc::sockaddr_storage>());
        // SAFETY: `length` bytes lie within `storage`, and the kernel or `zeroed` has set each of them.
        unsafe { std::slice::from_raw_parts((&raw const self.storage).cast::<u8>(), length) }
    }

    /// `None` where the family is neither of the two that UDP sockets have.
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

// ---------------------------------------------------------------- receiving

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
    /// `sources`: addresses of the senders are wanted; `stamps`: times of the kernel are. `one_by_one`: with a system
    /// call for each packet, as kernels before 2.6.33 need it.
    pub fn new(sources: bool, stamps: bool, one_by_one: bool) -> Inbox {
        let mut slots = vec![0u8; SLOT_BYTES * BATCH_MAX].into_boxed_slice();
        // SAFETY: sockaddr_storage is plain data, for which all zeros is a value.
        let storage: libc::sockaddr_storage = unsafe { zeroed() };
        let nowhere = Address { storage, length: 0 };
        let mut addresses = vec![nowhere; BATCH_MAX].into_boxed_slice();
        let mut controls = vec![[0u64; STAMP_CONTROL_BYTES / 8]; BATCH_MAX].into_boxed_slice();
        let mut iovecs: Box<[libc::iovec]> = slots
            .chunks_exact_mut(SLOT_BYTES)
            .map(|slot| libc::iovec {
                iov_base: slot.as_mut_ptr().cast(),
                iov_len: SLOT_BYTES,
            })
            .collect();
        let headers = (0..BATCH_MAX)
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
            filled: BATCH_MAX,
            one_by_one,
        }
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
                self.filled = BATCH_MAX;
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
                BATCH_MAX as _,
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
        Ok(BATCH_MAX)
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
        let words = &self.controls[index];
        // SAFETY: takes a number only.
        let payload = unsafe { libc::CMSG_LEN(0) } as usize;
        // Seconds and nanoseconds, each as wide as a `long` was when the option was made.
        let numbers = |at: usize| words.get(at / 8).copied();
        #[cfg(target_pointer_width = "64")]
        return Some(numbers(payload)? as i64 * 1_000_000_000 + numbers(payload + 8)? as i64);
        #[cfg(not(target_pointer_width = "64"))]
        return None.or(numbers(payload).and(None));
    }
}

// ---------------------------------------------------------------- sending

/// What one entry of `send_messages` sends: the parts joined, in packets of `segment_bytes` each (the last may be
/// shorter), or as one packet where that is 0.
pub struct Message<'a> {
    pub parts: &'a [IoSlice<'a>],
    /// `None` for the address that the socket is connected to.
    pub to: Option<&'a Address>,
    pub segment_bytes: u16,
}

/// Room for one segment size: a header and 16 bits.
type SegmentControl = [u64; 4];

/// Send as many of the messages as the kernel takes with one system call; how many it took, at least 1. Waits where the
/// socket's buffer is full, as long as the socket's write timeout allows.
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

/// The same for one message, with the call that every kernel has.
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

/// The name of an error, such as `ENOBUFS`.
pub fn error_name(error: &io::Error) -> String {
    let Some(number) = error.raw_os_error() else {
        return error.kind().to_string();
    };
    let name = match number {
        libc::EACCES => "EACCES",
        libc::EAGAIN => "EAGAIN",
        libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
        libc::ECONNREFUSED => "ECONNREFUSED",
        libc::EHOSTDOWN => "EHOSTDOWN",
        libc::EHOSTUNREACH => "EHOSTUNREACH",
        libc::EINVAL => "EINVAL",
        libc::EIO => "EIO",
        libc::EMSGSIZE => "EMSGSIZE",
        libc::ENETDOWN => "ENETDOWN",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::ENOBUFS => "ENOBUFS",
        libc::ENODEV => "ENODEV",
        libc::ENOMEM => "ENOMEM",
        libc::ENOPROTOOPT => "ENOPROTOOPT",
        libc::EPERM => "EPERM",
        libc::EPROTO => "EPROTO",
        _ => return format!("errno {number}"),
    };
    name.to_owned()
}
