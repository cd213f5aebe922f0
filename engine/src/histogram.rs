//! Distributions of durations, and their form in JSON.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longest duration that is stored [ns]. Longer delays count as loss, and the limit bounds the memory.
const DURATION_NS_MAX: u64 = 60_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// Durations with three significant digits [ns].
#[derive(Clone)]
pub struct DurationHistogram(Histogram<u64>);

impl DurationHistogram {
    pub fn new() -> DurationHistogram {
        DurationHistogram(
            Histogram::new(SIGNIFICANT_DIGITS).expect("three digits are within what the histogram offers"),
        )
    }

    pub fn record(&mut self, duration_ns: u64) {
        self.0
            .record(duration_ns.min(DURATION_NS_MAX))
            .expect("the histogram grows by itself");
    }

    pub fn summary(&self) -> DurationSummary {
        let buckets = self
            .0
            .iter_recorded()
            .map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
            .collect();
        DurationSummary {
            buckets: Some(buckets),
            ..self.figures()
        }
    }

    pub fn figures(&self) -> DurationSummary {
        let histogram = &self.0;
        let some = !histogram.is_empty();
        let quantile = |quantile| some.then(|| histogram.value_at_quantile(quantile));
        let rounded = |value: f64| some.then_some((value * 10.0).round() / 10.0);
        DurationSummary {
            count: histogram.len(),
            min: some.then(|| histogram.min()),
            mean: rounded(histogram.mean()),
            stdev: rounded(histogram.stdev()),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p99_9: quantile(0.999),
            p99_99: quantile(0.9999),
            max: some.then(|| histogram.max()),
            buckets: None,
        }
    }
}

/// A distribution as it is printed [ns].
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct DurationSummary {
    pub count: u64,
    pub min: Option<u64>,
    pub mean: Option<f64>,
    pub stdev: Option<f64>,
    pub p50: Option<u64>,
    pub p90: Option<u64>,
    pub p99: Option<u64>,
    pub p99_9: Option<u64>,
    pub p99_99: Option<u64>,
    pub max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buckets: Option<Vec<(u64, u64)>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_three_digits() {
        let mut durations = DurationHistogram::new();
        (1..=100_000).for_each(|value| durations.record(value * 10));
        let figures = durations.figures();
        for (got, true_value) in [(figures.p50, 500_000), (figures.p99, 990_000), (figures.max, 1_000_000)] {
            let error = got.unwrap().abs_diff(true_value);
            assert!(error * 1000 <= true_value, "{got:?} instead of {true_value}");
        }
        assert_eq!(figures.count, 100_000);
    }

    #[test]
    fn buckets_hold_every_duration() {
        let mut durations = DurationHistogram::new();
        (0..1000).for_each(|value| durations.record(value * value));
        let buckets = durations.summary().buckets.unwrap();
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 1000);
    }

    #[test]
    fn nothing_recorded_gives_no_figures() {
        let figures = DurationHistogram::new().figures();
        assert_eq!(
            (figures.count, figures.min, figures.p50, figures.max),
            (0, None, None, None)
        );
    }
}
