//! The lines of output of the verbs of TCP: `accept` and `connect`.

use serde::Serialize;

use crate::command_line::ConnectionArguments;
use crate::host;
use crate::io::{cpu_times_s, now_ns};
use crate::output::Output;
use crate::shutdown::EndReason;
use crate::socket::PROTOCOL;

/// Counts that grow. Lines of intervals have the increase of each.
pub trait Counts: Serialize + Copy + Send + Default + 'static {
    fn since(&self, earlier: &Self) -> Self;
}

#[derive(Serialize)]
struct ConnectionHello {
    r#type: &'static str,
    role: &'static str,
    protocol: u32,
    version: &'static str,
    session: String,
    bound: Vec<String>,
    clock_id: Option<String>,
    now_ns: u64,
    kernel: Option<String>,
    open_files_max: u64,
}

#[derive(Serialize)]
struct ConnectionIntervalLine<C: Serialize> {
    r#type: &'static str,
    role: &'static str,
    index: u64,
    start_ns: u64,
    end_ns: u64,
    #[serde(flatten)]
    counts: C,
    open_connections: u64,
}

#[derive(Serialize)]
struct ConnectionSummaryLine<C: Serialize, T: Serialize> {
    r#type: &'static str,
    role: &'static str,
    end_reason: EndReason,
    session: String,
    clock_id: Option<String>,
    start_ns: u64,
    end_ns: u64,
    cpu_user_s: f64,
    cpu_system_s: f64,
    #[serde(flatten)]
    counts: C,
    #[serde(flatten)]
    totals: T,
}

/// Prints the lines of one run.
pub struct Lines<'a, C: Counts> {
    role: &'static str,
    arguments: &'a ConnectionArguments,
    output: &'a Output,
    pub start_ns: u64,
    index: u64,
    interval_start_ns: u64,
    before: C,
}

impl<'a, C: Counts> Lines<'a, C> {
    /// Print the line `hello`.
    pub fn begin(
        role: &'static str,
        arguments: &'a ConnectionArguments,
        output: &'a Output,
        bound: Vec<String>,
        open_files_max: u64,
    ) -> Lines<'a, C> {
        let start_ns = now_ns();
        let session = arguments.session.to_string();
        output.print(move || ConnectionHello {
            r#type: "hello",
            role,
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION"),
            session,
            bound,
            clock_id: host::clock_id(),
            now_ns: start_ns,
            kernel: host::kernel(),
            open_files_max,
        });
        Lines {
            role,
            arguments,
            output,
            start_ns,
            index: 0,
            interval_start_ns: start_ns,
            before: C::default(),
        }
    }

    /// Return when the current interval ends [ns].
    pub fn interval_end_ns(&self) -> u64 {
        match self.arguments.interval_ns {
            0 => u64::MAX,
            interval_ns => self.interval_start_ns + interval_ns,
        }
    }

    /// Print the intervals that have ended by `now_ns`.
    pub fn print_ended(&mut self, now_ns: u64, counts: C, open_connections: u64) {
        while now_ns >= self.interval_end_ns() {
            self.print_interval(self.interval_end_ns(), counts, open_connections);
        }
    }

    fn print_interval(&mut self, end_ns: u64, counts: C, open_connections: u64) {
        let (role, index, start_ns) = (self.role, self.index, self.interval_start_ns);
        let increase = counts.since(&self.before);
        (self.index, self.interval_start_ns, self.before) = (index + 1, end_ns, counts);
        self.output.print(move || ConnectionIntervalLine {
            r#type: "interval",
            role,
            index,
            start_ns,
            end_ns,
            counts: increase,
            open_connections,
        });
    }

    /// Print the last interval and the summary.
    pub fn finish<T: Serialize + Send + 'static>(
        mut self,
        end_reason: EndReason,
        counts: C,
        open_connections: u64,
        totals: T,
    ) {
        let end_ns = now_ns();
        self.print_ended(end_ns, counts, open_connections);
        if self.arguments.interval_ns > 0 {
            self.print_interval(end_ns, counts, open_connections);
        }
        let (role, session, start_ns) = (self.role, self.arguments.session.to_string(), self.start_ns);
        let (cpu_user_s, cpu_system_s) = cpu_times_s();
        self.output.print(move || ConnectionSummaryLine {
            r#type: "summary",
            role,
            end_reason,
            session,
            clock_id: host::clock_id(),
            start_ns,
            end_ns,
            cpu_user_s,
            cpu_system_s,
            counts,
            totals,
        });
    }
}
