//! What the command line asks for.

use std::net::{IpAddr, SocketAddr};

use crate::pace::Rate;
use crate::packet::{Content, Token};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    Spin,
    Nap,
    Block,
}

/// How packets go in and out of the kernel, the fastest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Path {
    Gso,
    Mmsg,
    Plain,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stamps {
    Kernel,
    User,
}

#[derive(Clone, Debug)]
pub struct Common {
    pub session: Token,
    pub interval_ns: u64,
    pub latency: bool,
    pub wait: Wait,
    pub path: Option<Path>,
    pub stamps: Stamps,
    pub buffer_bytes: usize,
    pub count: Option<u64>,
    pub duration_ns: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Receive {
    pub common: Common,
    pub bind: SocketAddr,
    pub sizes: Vec<usize>,
    pub same_clock: bool,
    pub late_ns: u64,
    pub silence_ns: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Reflect {
    pub common: Common,
    pub bind: SocketAddr,
    pub peer: Option<IpAddr>,
    pub silence_ns: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Load {
    FlatOut,
    Rate(Rate),
    /// Packets back to back, and from start to start of two bursts [ns].
    Burst(u64, Option<u64>),
    Window(u64),
}

#[derive(Clone, Debug)]
pub struct Send {
    pub common: Common,
    pub target: SocketAddr,
    pub bind: Option<SocketAddr>,
    pub flows: usize,
    pub sizes: Vec<usize>,
    pub content: Content,
    pub load: Load,
    pub echo: bool,
    pub timeout_ns: u64,
}

#[derive(Debug)]
pub enum Command {
    Help,
    Version,
    Receive(Receive),
    Reflect(Reflect),
    Send(Send),
}
