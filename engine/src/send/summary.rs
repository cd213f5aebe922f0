//! The summary of a sender.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::Sender;
use crate::histogram::{DurationHistogram, DurationSummary};
use crate::shutdown::EndReason;
use crate::socket::EngineFacts;

#[derive(Serialize)]
struct SendSummaryLine {
    r#type: &'static str,
    role: &'static str,
    end_reason: EndReason,
    #[serde(flatten)]
    facts: EngineFacts,
    sent_packets: u64,
    sent_bytes: u64,
    intended_packets: Option<u64>,
    unsent_packets: u64,
    errors: BTreeMap<String, u64>,
    calls: u64,
    burst_packets_max: u64,
    first_send_ns: Option<u64>,
    last_send_ns: Option<u64>,
    lateness_ns: Option<DurationSummary>,
    stalls: Option<u64>,
    stall_max_ns: Option<u64>,
    gaps: Option<u64>,
    gaps_within_10_percent: Option<u64>,
    lost_packets: Option<u64>,
    #[serde(flatten)]
    answers: Map<String, Value>,
    #[serde(flatten)]
    totals: Map<String, Value>,
    rtt_ns: Option<DurationSummary>,
    delay_variation_ns: Option<DurationSummary>,
}

/// Return the fields of a structure, each null if there is none.
fn fields<T: Serialize + Default>(structure: Option<T>) -> Map<String, Value> {
    let measured = structure.is_some();
    let Ok(Value::Object(mut fields)) = serde_json::to_value(structure.unwrap_or_default()) else {
        return Map::new();
    };
    if !measured {
        fields.values_mut().for_each(|value| *value = Value::Null);
    }
    fields
}

impl Sender<'_> {
    pub fn finish(mut self, end_reason: EndReason, end_ns: u64, facts: EngineFacts) {
        let counts = self.refresh_counts();
        self.intervals.close_all(end_ns, &counts, self.output);
        let duration_ns = match end_reason {
            EndReason::Duration => self.arguments.common.duration_ns.unwrap_or_default(),
            _ => end_ns - self.start_ns,
        };
        let count = self.arguments.common.count.unwrap_or(u64::MAX);
        let intended_packets = match (&self.schedule, end_reason) {
            (None, _) => None,
            (Some(_), EndReason::Count) => Some(count),
            (Some(schedule), _) => Some(schedule.intended(duration_ns).min(count)),
        };
        let mut errors = self.transmitter.errors;
        for (name, count) in self.echo.iter().flat_map(|echo| &echo.reader.errors) {
            *errors.entry(name.clone()).or_default() += count;
        }
        let echo = self.echo;
        let pacing_quality = self.pacing_quality;
        let totals = echo.as_ref().map(|echo| echo.counter.totals(&echo.reader));
        let summary = SendSummaryLine {
            r#type: "summary",
            role: "send",
            end_reason,
            facts,
            sent_packets: self.sent_packets,
            sent_bytes: self.sent_bytes,
            intended_packets,
            unsent_packets: self.unsent_packets,
            errors,
            calls: self.transmitter.calls,
            burst_packets_max: self.transmitter.burst_packets_max,
            first_send_ns: self.first_send_ns,
            last_send_ns: self.last_send_ns,
            stalls: pacing_quality
                .as_ref()
                .map(|pacing_quality| pacing_quality.stall_counter.stalls),
            stall_max_ns: pacing_quality
                .as_ref()
                .map(|pacing_quality| pacing_quality.stall_counter.stall_max_ns),
            gaps: pacing_quality.as_ref().map(|pacing_quality| pacing_quality.gaps),
            gaps_within_10_percent: pacing_quality.as_ref().map(|pacing_quality| pacing_quality.gaps_within),
            lateness_ns: pacing_quality.map(|pacing_quality| pacing_quality.lateness.summary()),
            lost_packets: echo
                .as_ref()
                .map(|_| self.sent_packets.saturating_sub(counts.received_packets)),
            answers: fields(echo.as_ref().map(|_| counts)),
            totals: fields(totals),
            rtt_ns: echo
                .as_ref()
                .and_then(|echo| echo.rtt.as_ref())
                .map(DurationHistogram::summary),
            delay_variation_ns: echo
                .as_ref()
                .and_then(|echo| echo.variation.as_ref())
                .map(DurationHistogram::summary),
        };
        self.output.print(move || summary);
    }
}
