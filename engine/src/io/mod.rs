//! System calls that the standard library does not offer: clocks, socket options, many packets with one call.
//!
//! This is the only module with unsafe code. Every function and type that it exports is safe to use.
#![allow(unsafe_code)]

mod address;
mod inbox;
mod options;
mod outbox;
mod tcp;

use std::ffi::c_int;
use std::io;
use std::mem::zeroed;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

pub use address::{Address, bind_beside, is_broadcast};
pub use inbox::{Inbox, InboxOptions};
pub use options::{
    drain_errors, dropped_packets, enable_error_reports, enable_merging, enable_receive_timestamps, set_buffer_sizes,
    supports_gro, supports_gso, wait_readable,
};
pub use outbox::{Message, send_message, send_messages};
pub use tcp::{Poller, begin_connection, deepen_backlog, raise_open_files, reset_at_close};

/// Most packets that one system call sends or receives.
pub const BATCH_MAX: usize = 128;

/// Return the result of a system call, or its error.
fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

fn clock_ns(clock: libc::clockid_t) -> i64 {
    // SAFETY: timespec is plain data, for which all zeros is a value.
    let mut time: libc::timespec = unsafe { zeroed() };
    // SAFETY: `time` is valid for writing. The call cannot fail for clocks that every kernel has.
    unsafe { libc::clock_gettime(clock, &mut time) };
    #[allow(clippy::useless_conversion)] // time_t and long are 32 bits wide on some machines
    let (seconds, nanoseconds) = (i64::from(time.tv_sec), i64::from(time.tv_nsec));
    seconds * 1_000_000_000 + nanoseconds
}

/// Return CLOCK_MONOTONIC [ns].
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC) as u64
}

/// Return CLOCK_REALTIME - CLOCK_MONOTONIC [ns]. Repeats the reading if something interrupts it.
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

/// Sleep until CLOCK_MONOTONIC reaches `time_ns`, or until a signal arrives.
pub fn sleep_until_ns(time_ns: u64) {
    // SAFETY: timespec is plain data, for which all zeros is a value.
    let mut time: libc::timespec = unsafe { zeroed() };
    time.tv_sec = (time_ns / 1_000_000_000) as libc::time_t;
    time.tv_nsec = (time_ns % 1_000_000_000) as _;
    // SAFETY: `time` is valid for reading; the remaining time is not asked for.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &time, ptr::null_mut()) };
}

/// Let sleeps of this thread end on time instead of up to 50 us late (prctl(2), PR_SET_TIMERSLACK).
pub fn reduce_timer_slack() {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// Return the user and system CPU time of this process [s].
pub fn cpu_times_s() -> (f64, f64) {
    // SAFETY: rusage is plain data, for which all zeros is a value.
    let mut usage: libc::rusage = unsafe { zeroed() };
    // SAFETY: `usage` is valid for writing.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

static SIGNALLED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: c_int) {
    SIGNALLED.store(true, Ordering::Relaxed);
}

/// Let SIGINT and SIGTERM set the flag that `signalled` returns, and interrupt sleeps.
pub fn install_signal_handlers() {
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

/// Return the name of an error, such as `ENOBUFS`.
pub fn error_name(error: &io::Error) -> String {
    let Some(number) = error.raw_os_error() else {
        return error.kind().to_string();
    };
    let name = match number {
        libc::EACCES => "EACCES",
        libc::EAGAIN => "EAGAIN",
        libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
        libc::ECONNREFUSED => "ECONNREFUSED",
        libc::EMFILE => "EMFILE",
        libc::ENFILE => "ENFILE",
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
