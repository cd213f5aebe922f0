//! The command line as text, and what is wrong with it. docs/engine.md describes it for its users.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use lexopt::prelude::*;

use crate::arguments::{Command, Common, Load, Path, Receive, Reflect, Send, Stamps, Wait};
use crate::pace::Rate;
use crate::packet::{Content, FLOWS_MAX, HEADER_BYTES, PAYLOAD_BYTES_MAX, Token};

/// Sizes in a list, repetitions counted.
const SIZES_MAX: usize = 1024;
/// Intervals that may wait for answers at the same time.
const OPEN_INTERVALS_MAX: f64 = 1000.0;

/// What was given, each option at most once.
#[derive(Default)]
struct Given {
    session: Option<Token>,
    interval_s: Option<f64>,
    latency: bool,
    wait: Option<Wait>,
    path: Option<Path>,
    stamps: Option<Stamps>,
    buffer_bytes: Option<u64>,
    count: Option<u64>,
    duration_s: Option<f64>,
    bind: Option<String>,
    payload_bytes: Option<String>,
    same_clock: bool,
    late_s: Option<f64>,
    silence_s: Option<f64>,
    peer: Option<IpAddr>,
    target: Option<SocketAddr>,
    flows: Option<u64>,
    content: Option<Content>,
    flat_out: bool,
    rate_pps: Option<f64>,
    burst: Option<u64>,
    pause_s: Option<f64>,
    window: Option<u64>,
    echo: bool,
    timeout_s: Option<f64>,
}

const OF_ALL: &str = " session interval-s latency wait path stamps buffer-bytes count duration-s ";
const OF_RECEIVE: &str = " bind payload-bytes same-clock late-s silence-s ";
const OF_REFLECT: &str = " bind peer silence-s ";
const OF_SEND: &str = " target bind flows payload-bytes content flat-out rate-pps burst pause-s window echo timeout-s ";

/// The command line's meaning; the error is a sentence for its user.
pub fn parse(mut arguments: lexopt::Parser) -> Result<Command, lexopt::Error> {
    let verb = match arguments.next()? {
        Some(Short('h') | Long("help")) => return alone(arguments, Command::Help),
        Some(Short('V') | Long("version")) => return alone(arguments, Command::Version),
        Some(Value(verb)) => verb.string()?,
        Some(argument) => return Err(argument.unexpected()),
        None => return Err("nothing to do".into()),
    };
    let own = match verb.as_str() {
        "receive" => OF_RECEIVE,
        "reflect" => OF_REFLECT,
        "send" => OF_SEND,
        _ => return Err(format!("there is no verb '{verb}': it is send, receive or reflect").into()),
    };
    let given = read_options(arguments, &verb, own)?;
    let built = match verb.as_str() {
        "receive" => given.receive().map(Command::Receive),
        "reflect" => given.reflect().map(Command::Reflect),
        _ => given.send().map(Command::Send),
    };
    built.map_err(lexopt::Error::from)
}

fn alone(mut arguments: lexopt::Parser, command: Command) -> Result<Command, lexopt::Error> {
    match arguments.next()? {
        Some(argument) => Err(argument.unexpected()),
        None => Ok(command),
    }
}

fn read_options(mut arguments: lexopt::Parser, verb: &str, own: &str) -> Result<Given, lexopt::Error> {
    let mut given = Given::default();
    let mut seen = Vec::new();
    while let Some(argument) = arguments.next()? {
        let name = match argument {
            Long(name) => name.to_owned(),
            other => return Err(other.unexpected()),
        };
        let padded = format!(" {name} ");
        if !OF_ALL.contains(&padded) && !own.contains(&padded) {
            return Err(format!("{verb} has no option '--{name}'").into());
        }
        if seen.contains(&name) {
            return Err(format!("--{name} is given twice").into());
        }
        match name.as_str() {
            "latency" => given.latency = true,
            "same-clock" => given.same_clock = true,
            "flat-out" => given.flat_out = true,
            "echo" => given.echo = true,
            _ => {
                let text = arguments.value()?.string()?;
                given
                    .set(&name, &text)
                    .ok_or_else(|| format!("--{name} cannot be '{text}'"))?;
            }
        }
        seen.push(name);
    }
    Ok(given)
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// Seconds of at most 100 years.
fn seconds(text: &str) -> Option<f64> {
    number(text).filter(|seconds| (0.0..=3.2e9).contains(seconds))
}

fn to_ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

impl Given {
    /// `None` where the text is no value of the option.
    fn set(&mut self, name: &str, text: &str) -> Option<()> {
        match name {
            "session" => self.session = Some(Token::parse(text)?),
            "interval-s" => self.interval_s = Some(seconds(text)?),
            "wait" => {
                self.wait = Some(choose(
                    text,
                    &[("spin", Wait::Spin), ("nap", Wait::Nap), ("block", Wait::Block)],
                )?)
            }
            "path" => {
                self.path = Some(choose(
                    text,
                    &[("gso", Path::Gso), ("mmsg", Path::Mmsg), ("plain", Path::Plain)],
                )?)
            }
            "stamps" => self.stamps = Some(choose(text, &[("kernel", Stamps::Kernel), ("user", Stamps::User)])?),
            "buffer-bytes" => self.buffer_bytes = Some(number(text).filter(|&bytes| bytes > 0)?),
            "count" => self.count = Some(number(text).filter(|&count| count > 0)?),
            "duration-s" => self.duration_s = Some(seconds(text).filter(|&duration| duration > 0.0)?),
            "bind" => self.bind = Some(text.to_owned()),
            "payload-bytes" => self.payload_bytes = Some(text.to_owned()),
            "late-s" => self.late_s = Some(seconds(text)?),
            "silence-s" => self.silence_s = Some(seconds(text)?),
            "peer" => self.peer = Some(number(text)?),
            "target" => self.target = Some(number(text).filter(|target: &SocketAddr| target.port() != 0)?),
            "flows" => self.flows = Some(number(text).filter(|flows| (1..=FLOWS_MAX as u64).contains(flows))?),
            "content" => {
                let contents = [
                    ("random", Content::Random),
                    ("pattern", Content::Pattern),
                    ("zeros", Content::Zeros),
                ];
                self.content = Some(choose(text, &contents)?);
            }
            "rate-pps" => self.rate_pps = Some(number(text)?),
            "burst" => self.burst = Some(number(text).filter(|&packets| packets > 0)?),
            "pause-s" => self.pause_s = Some(seconds(text)?),
            "window" => self.window = Some(number(text).filter(|&packets| packets > 0)?),
            "timeout-s" => self.timeout_s = Some(seconds(text).filter(|timeout| (0.001..=60.0).contains(timeout))?),
            _ => return None,
        }
        Some(())
    }

    fn common(&self, reduces_rate: bool) -> Result<Common, String> {
        let patient = if self.latency || reduces_rate {
            Wait::Spin
        } else {
            Wait::Nap
        };
        Ok(Common {
            session: self.session.ok_or("--session is required: 14 hexadecimal digits")?,
            interval_ns: to_ns(self.interval_s.unwrap_or(1.0)),
            latency: self.latency,
            wait: self.wait.unwrap_or(patient),
            path: self.path,
            stamps: self.stamps.unwrap_or(Stamps::Kernel),
            buffer_bytes: self.buffer_bytes.unwrap_or(32 << 20).try_into().unwrap_or(usize::MAX),
            count: self.count,
            duration_ns: self.duration_s.map(to_ns),
        })
    }

    fn listening(&self) -> Result<SocketAddr, String> {
        let text = self.bind.as_deref().ok_or("--bind is required: ADDRESS:PORT")?;
        number(text).ok_or_else(|| format!("--bind cannot be '{text}'"))
    }

    fn silence_ns(&self) -> Option<u64> {
        Some(to_ns(self.silence_s.unwrap_or(10.0))).filter(|&silence| silence > 0)
    }

    fn sizes(&self, ipv6: bool) -> Result<Option<Vec<usize>>, String> {
        let Some(text) = self.payload_bytes.as_deref() else {
            return Ok(None);
        };
        parse_sizes(text, ipv6).map(Some).ok_or_else(|| {
            format!("--payload-bytes cannot be '{text}': sizes from {HEADER_BYTES} to {PAYLOAD_BYTES_MAX}, as 18x7,548x4,1472")
        })
    }

    fn receive(self) -> Result<Receive, String> {
        let bind = self.listening()?;
        let mut sizes = self.sizes(bind.is_ipv6())?.unwrap_or_default();
        sizes.sort_unstable();
        sizes.dedup();
        if self.path == Some(Path::Gso) {
            return Err("--path gso is a path to send".to_owned());
        }
        Ok(Receive {
            common: self.common(false)?,
            bind,
            sizes,
            same_clock: self.same_clock,
            late_ns: to_ns(self.late_s.unwrap_or(1.0)),
            silence_ns: self.silence_ns(),
        })
    }

    fn reflect(self) -> Result<Reflect, String> {
        Ok(Reflect {
            common: self.common(false)?,
            bind: self.listening()?,
            peer: self.peer.map(|peer| peer.to_canonical()),
            silence_ns: self.silence_ns(),
        })
    }

    fn load(&self) -> Result<Load, String> {
        let rate = match self.rate_pps {
            Some(pps) => Some(Load::Rate(
                Rate::from_pps(pps).ok_or("--rate-pps is from 0.001 to 100000000")?,
            )),
            None => None,
        };
        let loads = [
            self.flat_out.then_some(Load::FlatOut),
            rate,
            self.burst.map(|packets| Load::Burst(packets, self.pause_s.map(to_ns))),
            self.window.map(Load::Window),
        ];
        let mut loads = loads.into_iter().flatten();
        match (loads.next(), loads.next()) {
            (Some(load), None) => Ok(load),
            _ => Err("exactly one of --flat-out, --rate-pps, --burst and --window is required".to_owned()),
        }
    }

    fn send(self) -> Result<Send, String> {
        let target = self.target.ok_or("--target is required: ADDRESS:PORT")?;
        let load = self.load()?;
        if self.pause_s.is_some() && self.burst.is_none() {
            return Err("--pause-s goes with --burst".to_owned());
        }
        if self.window.is_some() && !self.echo {
            return Err("--window needs --echo: only answers make room in it".to_owned());
        }
        let mut common = self.common(self.window.is_some())?;
        common.latency |= load == Load::Window(1);
        if let Load::Burst(packets, None) = load {
            common.count = Some(common.count.unwrap_or(packets).min(packets));
        }
        if common.count.is_none() && common.duration_ns.is_none() {
            return Err("--duration-s or --count is required".to_owned());
        }
        let timeout_s = self.timeout_s.unwrap_or(1.0);
        if self.echo && common.interval_ns > 0 && timeout_s * 1e9 / common.interval_ns as f64 > OPEN_INTERVALS_MAX {
            return Err(format!(
                "--interval-s is too short for answers that may take {timeout_s} s"
            ));
        }
        let bind = match self.bind.as_deref() {
            None => None,
            Some(text) => Some(source(text, target).ok_or_else(|| format!("--bind cannot be '{text}'"))?),
        };
        Ok(Send {
            sizes: self.sizes(target.is_ipv6())?.unwrap_or_else(|| vec![HEADER_BYTES]),
            common,
            target,
            bind,
            flows: self.flows.unwrap_or(1) as usize,
            content: self.content.unwrap_or(Content::Random),
            load,
            echo: self.echo,
            timeout_ns: to_ns(timeout_s),
        })
    }
}

fn choose<T: Copy>(text: &str, choices: &[(&str, T)]) -> Option<T> {
    choices.iter().find(|(name, _)| *name == text).map(|&(_, value)| value)
}

/// The address to send from, with or without a port, of the target's family.
fn source(text: &str, target: SocketAddr) -> Option<SocketAddr> {
    let with_port = number(text);
    let without = || number::<IpAddr>(text).map(|ip| SocketAddr::new(ip, 0));
    with_port
        .or_else(without)
        .filter(|address: &SocketAddr| address.is_ipv4() == target.is_ipv4())
}

/// The sizes in the order in which they are sent, repetitions written out.
pub fn parse_sizes(text: &str, ipv6: bool) -> Option<Vec<usize>> {
    // IMIX 7:4:1: the smallest frame, and IP packets of 576 and 1500 bytes; UDP's and IP's headers are 28 or 48 bytes.
    let text = match (text, ipv6) {
        ("imix", false) => "18x7,548x4,1472",
        ("imix", true) => "18x7,528x4,1452",
        _ => text,
    };
    let mut sizes = Vec::new();
    for entry in text.split(',') {
        let (size, times) = match entry.split_once('x') {
            Some((size, times)) => (number::<usize>(size)?, number::<usize>(times)?),
            None => (number(entry)?, 1),
        };
        let allowed = (HEADER_BYTES..=PAYLOAD_BYTES_MAX).contains(&size) && (1..=SIZES_MAX).contains(&times);
        if !allowed || sizes.len() + times > SIZES_MAX {
            return None;
        }
        sizes.extend(std::iter::repeat_n(size, times));
    }
    Some(sizes)
}
