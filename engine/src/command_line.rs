//! The command line. docs/engine.md describes its options for users.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, value_parser};
use serde::Serialize;

use crate::pacing::{CatchUp, Rate};
use crate::packet::{Content, HEADER_BYTES, PAYLOAD_BYTES_MAX, Token};

/// Longest list of payload sizes, repetitions included.
const SIZES_MAX: usize = 1024;
/// Most intervals that may wait for answers at the same time.
const OPEN_INTERVALS_MAX: u64 = 1000;
/// Longest duration that an option takes: about 100 years [s].
const SECONDS_MAX: f64 = 3.2e9;

/// The packet engine of TunnelBench
#[derive(Parser)]
#[command(version, disable_help_subcommand = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Count packets that arrive one way
    Receive(ReceiveArguments),
    /// Send each packet back to its source
    Reflect(ReflectArguments),
    /// Send packets, and count the answers with --echo
    Send(SendArguments),
    /// Accept TCP connections, answer each, and hold it until its peer ends it
    Accept(AcceptArguments),
    /// Open TCP connections, hold each, and close it
    Connect(ConnectArguments),
}

/// How a receiver waits for the next packet.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum WaitMode {
    Spin,
    Nap,
    Block,
}

/// The system calls that move packets, the fastest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum IoPath {
    /// The kernel cuts what is sent into packets, and merges packets that are received.
    Gso,
    /// The kernel merges packets that are received.
    Gro,
    Mmsg,
    Plain,
}

/// The clock that gives a packet its time of arrival.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum TimestampSource {
    Kernel,
    User,
}

#[derive(Args, Clone, Debug)]
pub struct CommonArguments {
    /// Session token: 14 hexadecimal digits
    #[arg(long, value_parser = Token::from_str)]
    pub session: Token,
    /// Length of the printed intervals [s]; 0 prints none
    #[arg(long = "interval-s", value_name = "SECONDS", default_value = "1", value_parser = seconds_as_ns)]
    pub interval_ns: u64,
    /// Measure delays; each packet then has a send time of its own
    #[arg(long)]
    pub latency: bool,
    /// How to wait for packets [default: spin with --latency or --window, nap without]
    #[arg(long)]
    pub wait: Option<WaitMode>,
    /// System calls to use [default: the fastest that works]
    #[arg(long)]
    pub path: Option<IoPath>,
    /// Clock that stamps arrivals
    #[arg(long, default_value = "kernel")]
    pub stamps: TimestampSource,
    /// Socket buffers to ask for [bytes]
    #[arg(long, default_value_t = 32 << 20, value_parser = value_parser!(u64).range(1..))]
    pub buffer_bytes: u64,
    /// End after this number of packets
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// End after this time [s]
    #[arg(long = "duration-s", value_name = "SECONDS", value_parser = positive_seconds_as_ns)]
    pub duration_ns: Option<u64>,
}

impl CommonArguments {
    pub fn wait_mode(&self) -> WaitMode {
        let default = if self.latency { WaitMode::Spin } else { WaitMode::Nap };
        self.wait.unwrap_or(default)
    }

    /// Refuse a path that only receives.
    fn check_sending(&self) -> Result<(), String> {
        if self.path == Some(IoPath::Gro) {
            return Err("--path gro only receives; a verb that sends takes gso, mmsg or plain".to_owned());
        }
        Ok(())
    }
}

#[derive(Args, Clone, Debug)]
pub struct ReceiveArguments {
    #[command(flatten)]
    pub common: CommonArguments,
    /// ADDRESS:PORT to listen on
    #[arg(long)]
    pub bind: SocketAddr,
    /// Sizes that are expected, such as 18x7,548x4,1472 or imix; others count as corrupted
    #[arg(long, value_parser = PayloadSizes::from_str)]
    payload_bytes: Option<PayloadSizes>,
    /// The sender reads the same clock, so that delays and late packets are known
    #[arg(long)]
    pub same_clock: bool,
    /// The session has one source, that of its first packet: one socket receives from it, another one from all others
    #[arg(long)]
    pub one_source: bool,
    /// Age from which a packet counts as late [s]
    #[arg(long = "late-s", value_name = "SECONDS", default_value = "1", value_parser = seconds_as_ns)]
    pub late_ns: u64,
    /// End after this time without a packet [s]; 0: never
    #[arg(long = "silence-s", value_name = "SECONDS", default_value = "10", value_parser = seconds_as_ns)]
    pub silence_ns: u64,
}

impl ReceiveArguments {
    /// The sizes that are expected, in ascending order; empty: all.
    pub fn sizes(&self) -> Vec<usize> {
        let mut sizes = self
            .payload_bytes
            .as_ref()
            .map_or_else(Vec::new, |sizes| sizes.list(self.bind.is_ipv6()));
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    fn check(&mut self) -> Result<(), String> {
        if self.common.path == Some(IoPath::Gso) {
            return Err("--path gso only sends; receive takes gro, mmsg or plain".to_owned());
        }
        let address = self.bind.ip().to_canonical();
        let is_group = address.is_multicast() || address == Ipv4Addr::BROADCAST;
        if self.one_source && (address.is_unspecified() || is_group) {
            return Err(
                "--one-source needs the address of this machine that the packets are sent to in --bind".to_owned(),
            );
        }
        if self.one_source && self.common.latency {
            return Err("--latency takes the usual socket; leave --one-source out".to_owned());
        }
        if self.common.path == Some(IoPath::Gro) && self.common.latency {
            return Err("--path gro merges packets, and --latency times each one; leave one of them out".to_owned());
        }
        Ok(())
    }
}

#[derive(Args, Clone, Debug)]
pub struct ReflectArguments {
    #[command(flatten)]
    pub common: CommonArguments,
    /// ADDRESS:PORT to listen on
    #[arg(long)]
    pub bind: SocketAddr,
    /// The only address to answer [default: the first that sends a packet of the session]
    #[arg(long)]
    pub peer: Option<IpAddr>,
    /// End after this time without a packet [s]; 0: never
    #[arg(long = "silence-s", value_name = "SECONDS", default_value = "10", value_parser = seconds_as_ns)]
    pub silence_ns: u64,
}

/// The load that a sender offers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum OfferedLoad {
    FlatOut,
    Rate(Rate),
    /// Packets in a burst, and the time between the starts of two bursts [ns].
    Burst(u64, Option<u64>),
    Window(u64),
}

#[derive(Args, Clone, Debug)]
#[group(id = "load", required = true, multiple = false, args = ["flat_out", "rate_pps", "burst", "window"])]
pub struct SendArguments {
    #[command(flatten)]
    pub common: CommonArguments,
    /// ADDRESS:PORT to send to
    #[arg(long, value_parser = target)]
    pub target: SocketAddr,
    /// ADDRESS or ADDRESS:PORT to send from
    #[arg(long, value_parser = source)]
    pub bind: Option<SocketAddr>,
    /// Number of flows, each with a socket of its own
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u16).range(1..=256))]
    pub flows: u16,
    /// Payload sizes in the order in which they are sent, such as 18x7,548x4,1472 or imix
    #[arg(long, default_value = "18", value_parser = PayloadSizes::from_str)]
    payload_bytes: PayloadSizes,
    /// Bytes that follow the header
    #[arg(long, default_value = "random")]
    pub content: Content,
    /// Send as fast as possible
    #[arg(long)]
    flat_out: bool,
    /// Send at this rate, from 0.001 to 100000000 packets per second
    #[arg(long, value_parser = Rate::from_str)]
    rate_pps: Option<Rate>,
    /// With --rate-pps: how to continue after a delay [default: full]
    #[arg(long)]
    catch_up: Option<CatchUp>,
    /// Send bursts of this number of packets
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    burst: Option<u64>,
    /// Time between the starts of two bursts [s]
    #[arg(long = "pause-s", value_name = "SECONDS", value_parser = seconds_as_ns)]
    pause_ns: Option<u64>,
    /// Keep this number of packets in flight; only answers make room
    #[arg(long, requires = "echo", value_parser = value_parser!(u64).range(1..))]
    window: Option<u64>,
    /// Expect an answer to each packet
    #[arg(long)]
    pub echo: bool,
    /// Time after which an answer is late, from 0.001 to 60 [s]
    #[arg(long = "timeout-s", value_name = "SECONDS", default_value = "1", value_parser = timeout_as_ns)]
    pub timeout_ns: u64,
}

impl SendArguments {
    pub fn sizes(&self) -> Vec<usize> {
        self.payload_bytes.list(self.target.is_ipv6())
    }

    pub fn catch_up(&self) -> CatchUp {
        self.catch_up.unwrap_or(CatchUp::Full)
    }

    pub fn load(&self) -> OfferedLoad {
        match (self.rate_pps, self.burst, self.window) {
            (Some(rate), ..) => OfferedLoad::Rate(rate),
            (_, Some(packets), _) => OfferedLoad::Burst(packets, self.pause_ns),
            (_, _, Some(packets)) => OfferedLoad::Window(packets),
            _ => OfferedLoad::FlatOut,
        }
    }

    fn check(&mut self) -> Result<(), String> {
        self.common.check_sending()?;
        let load = self.load();
        let common = &mut self.common;
        if let OfferedLoad::Window(packets) = load {
            common.wait.get_or_insert(WaitMode::Spin);
            common.latency |= packets == 1;
        }
        if let OfferedLoad::Burst(packets, None) = load {
            common.count = Some(common.count.unwrap_or(packets).min(packets));
        }
        // `requires` of clap does not help: it accepts --pause-s with another load than --burst.
        if self.pause_ns.is_some() && self.burst.is_none() {
            return Err("--pause-s goes with --burst".to_owned());
        }
        if self.catch_up.is_some() && self.rate_pps.is_none() {
            return Err("--catch-up goes with --rate-pps".to_owned());
        }
        if common.count.is_none() && common.duration_ns.is_none() {
            return Err("--duration-s or --count is required".to_owned());
        }
        if self.echo && common.interval_ns > 0 && self.timeout_ns / common.interval_ns > OPEN_INTERVALS_MAX {
            return Err("--interval-s is too short for answers that may take --timeout-s".to_owned());
        }
        if let Some(bind) = self.bind.filter(|bind| bind.is_ipv4() != self.target.is_ipv4()) {
            return Err(format!(
                "--bind {bind} and --target {} are not of one IP version",
                self.target
            ));
        }
        Ok(())
    }
}

/// Arguments of the verbs of TCP.
#[derive(Args, Clone, Debug)]
pub struct ConnectionArguments {
    /// Session token: 14 hexadecimal digits
    #[arg(long, value_parser = Token::from_str)]
    pub session: Token,
    /// Length of the printed intervals [s]; 0 prints none
    #[arg(long = "interval-s", value_name = "SECONDS", default_value = "1", value_parser = seconds_as_ns)]
    pub interval_ns: u64,
}

#[derive(Args, Clone, Debug)]
pub struct AcceptArguments {
    #[command(flatten)]
    pub common: ConnectionArguments,
    /// ADDRESS:PORT to listen on
    #[arg(long)]
    pub bind: SocketAddr,
}

#[derive(Args, Clone, Debug)]
#[group(id = "opening", required = true, multiple = false, args = ["flat_out", "rate"])]
pub struct ConnectArguments {
    #[command(flatten)]
    pub common: ConnectionArguments,
    /// ADDRESS:PORT to connect to
    #[arg(long, value_parser = target)]
    pub target: SocketAddr,
    /// ADDRESS to connect from
    #[arg(long)]
    pub bind: Option<IpAddr>,
    /// Open connections as fast as possible
    #[arg(long)]
    flat_out: bool,
    /// Open this number of connections per second, from 0.001 to 100000000
    #[arg(long, value_parser = Rate::from_str)]
    pub rate: Option<Rate>,
    /// Most connections that may wait for their establishment at the same time
    #[arg(long, default_value_t = 64, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub pending_max: u64,
    /// Time for which a connection is held before it is closed [s]
    #[arg(long = "hold-s", value_name = "SECONDS", default_value = "0", value_parser = seconds_as_ns)]
    pub hold_ns: u64,
    /// Hold every connection to the end, and then reset it
    #[arg(long, conflicts_with = "hold_ns")]
    pub keep: bool,
    /// Time after which a connection that is not established has failed, from 0.001 to 60 [s]
    #[arg(long = "timeout-s", value_name = "SECONDS", default_value = "3", value_parser = timeout_as_ns)]
    pub timeout_ns: u64,
    /// Open no more connections than this
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Stop opening connections after this time; with --keep, end after it [s]
    #[arg(long = "duration-s", value_name = "SECONDS", value_parser = positive_seconds_as_ns)]
    pub duration_ns: u64,
}

impl ConnectArguments {
    fn check(&self) -> Result<(), String> {
        match self.bind.filter(|bind| bind.is_ipv4() != self.target.is_ipv4()) {
            Some(bind) => Err(format!(
                "--bind {bind} and --target {} are not of one IP version",
                self.target
            )),
            None => Ok(()),
        }
    }
}

/// Read the command line of this process. Wrong input, `--help` and `--version` end the process here: exit code 2 for
/// wrong input, as with `tunnelbench`.
pub fn parse() -> Command {
    let mut command = CommandLine::parse().command;
    let checked = match &mut command {
        Command::Receive(arguments) => arguments.check(),
        Command::Reflect(arguments) => arguments.common.check_sending(),
        Command::Send(arguments) => arguments.check(),
        Command::Accept(_) => Ok(()),
        Command::Connect(arguments) => arguments.check(),
    };
    if let Err(message) = checked {
        CommandLine::command().error(ErrorKind::ValueValidation, message).exit()
    }
    command
}

/// Read a command line from words, for tests.
#[cfg(any(test, fuzzing))]
pub fn parse_from(words: &str) -> Command {
    CommandLine::parse_from(words.split_whitespace()).command
}

fn seconds_as_ns(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=SECONDS_MAX).contains(&seconds) => Ok((seconds * 1e9).round() as u64),
        _ => Err(format!("a number of seconds from 0 to {SECONDS_MAX:e} is required")),
    }
}

fn positive_seconds_as_ns(text: &str) -> Result<u64, String> {
    match seconds_as_ns(text)? {
        0 => Err("a time above 0 is required".to_owned()),
        duration_ns => Ok(duration_ns),
    }
}

fn timeout_as_ns(text: &str) -> Result<u64, String> {
    seconds_as_ns(text)
        .ok()
        .filter(|timeout_ns| (1_000_000..=60_000_000_000).contains(timeout_ns))
        .ok_or_else(|| "a time from 0.001 to 60 seconds is required".to_owned())
}

fn target(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .ok()
        .filter(|target: &SocketAddr| target.port() != 0)
        .ok_or_else(|| "ADDRESS:PORT is required".to_owned())
}

fn source(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .or_else(|_| text.parse().map(|ip: IpAddr| SocketAddr::new(ip, 0)))
        .map_err(|_| "ADDRESS or ADDRESS:PORT is required".to_owned())
}

/// Payload sizes with repetitions written out, or the Internet mix, whose sizes depend on the IP version.
#[derive(Clone, PartialEq, Debug)]
pub enum PayloadSizes {
    Imix,
    List(Vec<usize>),
}

impl PayloadSizes {
    /// The sizes in the order in which they are sent [bytes].
    fn list(&self, ipv6: bool) -> Vec<usize> {
        // IMIX 7:4:1: the smallest frame, and IP packets of 576 and 1500 bytes. The headers of UDP and IP take 28 or 48.
        let imix = if ipv6 { [18, 528, 1452] } else { [18, 548, 1472] };
        match self {
            PayloadSizes::List(sizes) => sizes.clone(),
            PayloadSizes::Imix => imix
                .into_iter()
                .zip([7, 4, 1])
                .flat_map(|(size, times)| std::iter::repeat_n(size, times))
                .collect(),
        }
    }
}

impl FromStr for PayloadSizes {
    type Err = String;

    fn from_str(text: &str) -> Result<PayloadSizes, String> {
        if text == "imix" {
            return Ok(PayloadSizes::Imix);
        }
        let wrong = || {
            format!(
                "sizes from {HEADER_BYTES} to {PAYLOAD_BYTES_MAX} are required, such as 18x7,548x4,1472, at most {SIZES_MAX}"
            )
        };
        let mut sizes = Vec::new();
        for entry in text.split(',') {
            let (size, times) = entry.split_once('x').unwrap_or((entry, "1"));
            let (Ok(size), Ok(times)) = (size.parse(), times.parse::<usize>()) else {
                return Err(wrong());
            };
            let allowed = (HEADER_BYTES..=PAYLOAD_BYTES_MAX).contains(&size) && (1..=SIZES_MAX).contains(&times);
            if !allowed || sizes.len() + times > SIZES_MAX {
                return Err(wrong());
            }
            sizes.extend(std::iter::repeat_n(size, times));
        }
        Ok(PayloadSizes::List(sizes))
    }
}
