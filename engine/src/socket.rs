//! Sockets as the engine wants them, and what a hello tells of them.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use serde::Serialize;

use crate::arguments::{Common, Path, Stamps, Wait};
use crate::ending::CannotHere;
use crate::host;
use crate::io;

pub const PROTOCOL: u32 = 1;

/// A full socket buffer holds a sender up for so long, then the packet counts as refused.
const SEND_TIMEOUT: Duration = Duration::from_millis(100);

pub struct Opened {
    pub socket: UdpSocket,
    pub receive_buffer_bytes: u32,
    pub send_buffer_bytes: u32,
}

pub fn open(bind: SocketAddr, target: Option<SocketAddr>, buffer_bytes: usize) -> Result<Opened, CannotHere> {
    let socket = UdpSocket::bind(bind).map_err(|error| {
        CannotHere::new(
            format!("bind {bind}"),
            &error,
            "is the address one of this machine, in this namespace, and free?",
        )
    })?;
    if let Some(target) = target {
        let hint = "is there a route to it, in this namespace?";
        socket
            .connect(target)
            .map_err(|error| CannotHere::new(format!("reach {target}"), &error, hint))?;
    }
    let (receive_buffer_bytes, send_buffer_bytes) = io::set_buffers(&socket, buffer_bytes);
    let hint = "the kernel is older than Linux 2.6";
    io::hear_errors(&socket).map_err(|error| CannotHere::new("be told of sending errors", &error, hint))?;
    socket
        .set_write_timeout(Some(SEND_TIMEOUT))
        .map_err(|error| CannotHere::new("limit waiting", &error, hint))?;
    Ok(Opened {
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
    pub paths: Vec<&'static str>,
    pub path: &'static str,
    pub wait: &'static str,
    pub stamps: &'static str,
    pub receive_buffer_bytes: u32,
    pub send_buffer_bytes: u32,
    pub gso_segments_max: Option<usize>,
}

/// What the sockets can do, and what of it will be used.
pub struct Means {
    pub paths: Vec<Path>,
    pub path: Path,
    pub stamps: Option<Stamps>,
}

impl Means {
    /// `sends_bursts`: several packets may share a system call that sends them.
    pub fn new(common: &Common, opened: &[Opened], sends_bursts: bool, receives: bool) -> Means {
        let mut paths = vec![Path::Mmsg, Path::Plain];
        if sends_bursts && opened.iter().all(|one| io::knows_gso(&one.socket)) {
            paths.insert(0, Path::Gso);
        }
        // An answer or a packet of its own each: bursts are what GSO is for.
        let usable = |path: &&Path| !common.latency || **path != Path::Gso;
        let first = paths.iter().find(usable).copied().unwrap_or(Path::Plain);
        let kernel_stamps = || opened.iter().all(|one| io::stamp_arrivals(&one.socket).is_ok());
        let stamps = (common.latency && receives).then(|| match common.stamps {
            Stamps::Kernel if kernel_stamps() => Stamps::Kernel,
            _ => Stamps::User,
        });
        Means {
            path: common.path.unwrap_or(first),
            paths,
            stamps,
        }
    }

    pub fn hello(&self, role: &'static str, common: &Common, opened: &[Opened]) -> Hello {
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
            paths: self.paths.iter().copied().map(path_name).collect(),
            path: path_name(self.path),
            wait: wait_name(common.wait),
            stamps: stamps_name(self.stamps),
            receive_buffer_bytes: opened[0].receive_buffer_bytes,
            send_buffer_bytes: opened[0].send_buffer_bytes,
            gso_segments_max: (self.path == Path::Gso).then_some(crate::transmit::SEGMENTS_MAX),
        }
    }
}

pub fn path_name(path: Path) -> &'static str {
    match path {
        Path::Gso => "gso",
        Path::Mmsg => "mmsg",
        Path::Plain => "plain",
    }
}

pub fn wait_name(wait: Wait) -> &'static str {
    match wait {
        Wait::Spin => "spin",
        Wait::Nap => "nap",
        Wait::Block => "block",
    }
}

pub fn stamps_name(stamps: Option<Stamps>) -> &'static str {
    match stamps {
        Some(Stamps::Kernel) => "kernel",
        Some(Stamps::User) => "user",
        None => "none",
    }
}

/// What each summary tells of the engine itself.
#[derive(Serialize)]
pub struct Closing {
    pub session: String,
    pub clock_id: Option<String>,
    pub path: &'static str,
    pub wait: &'static str,
    pub stamps: &'static str,
    pub start_ns: u64,
    pub end_ns: u64,
    pub cpu_user_s: f64,
    pub cpu_system_s: f64,
}

impl Closing {
    pub fn new(common: &Common, means: &Means, start_ns: u64) -> Closing {
        let (cpu_user_s, cpu_system_s) = io::cpu_times_s();
        Closing {
            session: common.session.to_string(),
            clock_id: host::clock_id(),
            path: path_name(means.path),
            wait: wait_name(common.wait),
            stamps: stamps_name(means.stamps),
            start_ns,
            end_ns: io::now_ns(),
            cpu_user_s,
            cpu_system_s,
        }
    }
}
