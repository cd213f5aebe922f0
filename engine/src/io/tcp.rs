//! TCP connections that never block, and waiting for many of them at once.

use std::io;
use std::mem::zeroed;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::address::Address;
use super::checked;
use super::options::set_option;

/// Connections that the kernel completes before the program accepts them; the kernel's own limit may be lower.
const BACKLOG: i32 = 65_535;

/// Most events that one call returns.
const EVENTS_MAX: usize = 256;

fn set_int(socket: RawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    set_option(socket, level, name, &value)
}

/// Begin a connection and return it at once; it is established when it becomes writable. With `source`, it leaves from
/// this address, and the kernel chooses the port when it knows the target, so that ports are scarce per target only.
pub fn begin_connection(target: SocketAddr, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let target = Address::from(target);
    let stream = TcpStream::from(target.open_socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?);
    if let Some(source) = source {
        set_int(stream.as_raw_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        Address::from(SocketAddr::new(source, 0)).bind(&stream)?;
    }
    match target.connect(&stream) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(stream),
    }
}

/// Let the kernel complete as many connections as it can before they are accepted.
pub fn deepen_backlog(listener: &TcpListener) -> io::Result<()> {
    // SAFETY: takes numbers only; a socket that listens takes a new backlog (listen(2)).
    checked(unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) }).map(drop)
}

/// Let the connection end with a reset when it is closed: nothing of it stays in the kernel, nor for long in a
/// connection tracker.
pub fn reset_at_close(stream: &TcpStream) -> io::Result<()> {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    set_option(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, &linger)
}

/// Allow this process as many open files as the kernel gives it, and return their number.
pub fn raise_open_files(wanted: u64) -> u64 {
    // SAFETY: rlimit is plain data, for which all zeros is a value.
    let mut limit: libc::rlimit = unsafe { zeroed() };
    // SAFETY: `limit` is valid for writing.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    for hard in [limit.rlim_max.max(wanted as libc::rlim_t), limit.rlim_max] {
        let raised = libc::rlimit {
            rlim_cur: hard.min(wanted as libc::rlim_t).max(limit.rlim_cur),
            rlim_max: hard,
        };
        // SAFETY: `raised` is valid for reading.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0 {
            return raised.rlim_cur as u64;
        }
    }
    limit.rlim_cur as u64
}

/// Waits for many sockets. Each socket reports a change once (edge-triggered), with the key that it was added with.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Poller {
    pub fn new() -> io::Result<Poller> {
        // SAFETY: takes numbers only.
        let number = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        Ok(Poller {
            // SAFETY: `number` is an open file that nothing else owns.
            epoll: unsafe { OwnedFd::from_raw_fd(number) },
            events: Vec::with_capacity(EVENTS_MAX),
        })
    }

    /// Add a socket. It is removed when it is closed.
    pub fn add(&self, socket: &impl AsRawFd, key: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32,
            u64: key,
        };
        let (epoll, socket) = (self.epoll.as_raw_fd(), socket.as_raw_fd());
        // SAFETY: `event` is valid; the kernel copies it.
        checked(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, socket, &mut event) }).map(drop)
    }

    /// Wait until sockets have changed, for at most `timeout_ns`, or until a signal arrives. Returns their keys.
    pub fn wait(&mut self, timeout_ns: u64) -> Vec<u64> {
        let timeout_ms = i32::try_from(timeout_ns.div_ceil(1_000_000)).unwrap_or(i32::MAX);
        let room = self.events.capacity() as i32;
        // SAFETY: the kernel writes at most `room` events, for which the vector has memory.
        let count = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), self.events.as_mut_ptr(), room, timeout_ms) };
        // SAFETY: the kernel has set the first `count` events; after an error there is none.
        unsafe { self.events.set_len(count.max(0) as usize) };
        self.events.iter().map(|event| event.u64).collect()
    }
}
