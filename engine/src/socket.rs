//! Open sockets, and describe them in the engine's first line of output.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use serde::Serialize;

use crate::command_line::{CommonArguments, IoPath, TimestampSource, WaitMode};
use crate::host;
use crate::io;
use crate::shutdown::EngineError;

pub const PROTOCOL: u32 = 1;

/// Longest time that a full socket buffer delays a sender. After it, the packet counts as refused.
const SEND_TIMEOUT: Duration = Duration::from_millis(100);

pub struct OpenSocket {
    pub socket: UdpSocket,
    pub receive_buffer_bytes: u32,
    pub send_buffer_bytes: u32,
}

pub fn open(bind: SocketAddr, target: Option<SocketAddr>, buffer_bytes: u64) -> Result<OpenSocket, EngineError> {
    let socket = bind_socket(bind)?;
    if let Some(target) = target {
        let hint = "is there a route to it, in this namespace?";
        socket
            .connect(target)
            .map_err(|error| EngineError::new(format!("reach {target}"), error, hint))?;
    }
    prepare(socket, buffer_bytes)
}

/// Open two sockets of one address. The first can be connected to one source, and the second then receives the packets
/// of all other sources.
pub fn open_for_one_source(bind: SocketAddr, buffer_bytes: u64) -> Result<Vec<OpenSocket>, EngineError> {
    if io::is_broadcast(bind) {
        let error = std::io::Error::other("both sockets would get the packets of a broadcast address");
        let operation = format!("use {bind} with --one-source");
        return Err(EngineError::new(operation, error, "leave out --one-source"));
    }
    let others = bind_socket(bind)?;
    let socket = io::bind_beside(&others)
        .map_err(|error| EngineError::new(format!("bind {bind} twice"), error, "leave out --one-source"))?;
    Ok(vec![prepare(socket, buffer_bytes)?, prepare(others, buffer_bytes)?])
}

fn bind_socket(bind: SocketAddr) -> Result<UdpSocket, EngineError> {
    let hint = "is the address one of this machine, in this namespace, and free?";
    UdpSocket::bind(bind).map_err(|error| EngineError::new(format!("bind {bind}"), error, hint))
}

fn prepare(socket: UdpSocket, buffer_bytes: u64) -> Result<OpenSocket, EngineError> {
    let (receive_buffer_bytes, send_buffer_bytes) = io::set_buffer_sizes(&socket, buffer_bytes);
    let hint = "the kernel is older than Linux 2.6";
    io::enable_error_reports(&socket)
        .map_err(|error| EngineError::new("enable reports of sending errors", error, hint))?;
    socket
        .set_write_timeout(Some(SEND_TIMEOUT))
        .map_err(|error| EngineError::new("limit the time that a send may take", error, hint))?;
    Ok(OpenSocket {
        socket,
        receive_buffer_bytes,
        send_buffer_bytes,
    })
}

#[derive(Serialize)]
pub struct Hello {
    pub r#type: &'static str,
    pub role: &'static str,
    pub protocol: u32,
    pub version: &'static str,
    pub session: String,
    pub bound: Vec<String>,
    pub clock_id: Option<String>,
    pub now_ns: u64,
    pub kernel: Option<String>,
    pub paths: Vec<IoPath>,
    pub path: IoPath,
    pub wait: WaitMode,
    pub stamps: &'static str,
    pub receive_buffer_bytes: u32,
    pub send_buffer_bytes: u32,
    pub gso_segments_max: Option<usize>,
}

/// The features that the sockets have, and those that are used.
pub struct SocketCapabilities {
    pub paths: Vec<IoPath>,
    pub path: IoPath,
    pub stamps: Option<TimestampSource>,
    /// The kernel may merge received packets.
    pub takes_merged: bool,
}

impl SocketCapabilities {
    /// Probe the sockets. `sends_bursts` is true if one system call may send several packets.
    pub fn new(
        common: &CommonArguments,
        opened: &[OpenSocket],
        sends_bursts: bool,
        receives: bool,
    ) -> SocketCapabilities {
        let mut paths = vec![IoPath::Mmsg, IoPath::Plain];
        if sends_bursts && opened.iter().all(|one| io::supports_gso(&one.socket)) {
            paths.insert(0, IoPath::Gso);
        }
        if !sends_bursts && opened.iter().all(|one| io::supports_gro(&one.socket)) {
            paths.insert(0, IoPath::Gro);
        }
        // With --latency each packet has a system call and a time of its own, and these paths are for bursts.
        let is_for_bursts = |path: IoPath| matches!(path, IoPath::Gso | IoPath::Gro);
        let usable = |path: &&IoPath| !common.latency || !is_for_bursts(**path);
        let first = paths.iter().find(usable).copied().unwrap_or(IoPath::Plain);
        let path = common.path.unwrap_or(first);
        let takes_merged =
            !common.latency && is_for_bursts(path) && opened.iter().all(|one| io::enable_merging(&one.socket).is_ok());
        let kernel_stamps = || {
            opened
                .iter()
                .all(|one| io::enable_receive_timestamps(&one.socket).is_ok())
        };
        let stamps = (common.latency && receives).then(|| match common.stamps {
            TimestampSource::Kernel if kernel_stamps() => TimestampSource::Kernel,
            _ => TimestampSource::User,
        });
        SocketCapabilities {
            path,
            paths,
            stamps,
            takes_merged,
        }
    }

    pub fn hello(&self, role: &'static str, common: &CommonArguments, opened: &[OpenSocket]) -> Hello {
        Hello {
            r#type: "hello",
            role,
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION"),
            session: common.session.to_string(),
            bound: opened
                .iter()
                .filter_map(|one| one.socket.local_addr().ok())
                .map(|address| address.to_string())
                .collect(),
            clock_id: host::clock_id(),
            now_ns: io::now_ns(),
            kernel: host::kernel(),
            paths: self.paths.clone(),
            path: self.path,
            wait: common.wait_mode(),
            stamps: stamps_name(self.stamps),
            receive_buffer_bytes: opened[0].receive_buffer_bytes,
            send_buffer_bytes: opened[0].send_buffer_bytes,
            gso_segments_max: (self.path == IoPath::Gso).then_some(crate::transmit::SEGMENTS_MAX),
        }
    }
}

pub fn stamps_name(stamps: Option<TimestampSource>) -> &'static str {
    match stamps {
        Some(TimestampSource::Kernel) => "kernel",
        Some(TimestampSource::User) => "user",
        None => "none",
    }
}

/// Facts about the engine that each summary holds.
#[derive(Serialize)]
pub struct EngineFacts {
    pub session: String,
    pub clock_id: Option<String>,
    pub path: IoPath,
    pub wait: WaitMode,
    pub stamps: &'static str,
    pub start_ns: u64,
    pub end_ns: u64,
    pub cpu_user_s: f64,
    pub cpu_system_s: f64,
}

impl EngineFacts {
    pub fn new(common: &CommonArguments, capabilities: &SocketCapabilities, start_ns: u64) -> EngineFacts {
        let (cpu_user_s, cpu_system_s) = io::cpu_times_s();
        EngineFacts {
            session: common.session.to_string(),
            clock_id: host::clock_id(),
            path: capabilities.path,
            wait: common.wait_mode(),
            stamps: stamps_name(capabilities.stamps),
            start_ns,
            end_ns: io::now_ns(),
            cpu_user_s,
            cpu_system_s,
        }
    }
}
