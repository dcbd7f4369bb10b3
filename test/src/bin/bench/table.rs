//! What was measured, and how it is shown.

/// Values of one quantity, all in its unit.
pub(crate) struct Sample(Vec<f64>);

impl Sample {
    /// In any order.
    pub(crate) fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// Lowest first.
    pub(crate) fn into_values(self) -> Vec<f64> {
        self.0
    }

    /// The value in the middle.
    pub(crate) fn median(&self) -> f64 {
        let n = self.0.len();
        match (self.0.get(n / 2), self.0.get(n.saturating_sub(1) / 2)) {
            (Some(above), Some(below)) => f64::midpoint(*above, *below),
            _ => f64::NAN,
        }
    }

    /// The 99th percentile by nearest rank: of fewer than 100 the largest.
    pub(crate) fn p99(&self) -> f64 {
        let rank = (self.0.len() * 99).div_ceil(100);
        self.0.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }

    /// How many.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

/// One line of the table.
pub(crate) struct Row {
    what: String,
    median: f64,
    p99: f64,
    count: usize,
    unit: &'static str,
    /// The value that must not exceed the limit, and the limit.
    limit: Option<(f64, f64)>,
}

impl Row {
    /// For information only.
    pub(crate) fn new(what: impl Into<String>, unit: &'static str, sample: &Sample) -> Self {
        Self {
            what: what.into(),
            median: sample.median(),
            p99: sample.p99(),
            count: sample.count(),
            unit,
            limit: None,
        }
    }

    /// Its median must not exceed `limit`.
    pub(crate) fn median_within(mut self, limit: f64) -> Self {
        self.limit = Some((self.median, limit));
        self
    }

    /// Its 99th percentile must not exceed `limit`.
    pub(crate) fn p99_within(mut self, limit: f64) -> Self {
        self.limit = Some((self.p99, limit));
        self
    }

    /// Whether there is a limit and it is exceeded. What could not be measured is
    /// not reached either.
    pub(crate) fn is_missed(&self) -> bool {
        self.limit.is_some_and(|(value, limit)| value.is_nan() || value > limit)
    }
}

/// Prints the table to standard output.
pub(crate) fn print(rows: &[Row]) {
    let width = rows.iter().map(|row| row.what.chars().count()).max().unwrap_or(0);
    println!("{:width$}  {:>10} {:>10} {:>5}  {:>10}", "what", "median", "p99", "n", "limit");
    for row in rows {
        let shown = |value: f64| format!("{value:.2}");
        let (limit, verdict) = match row.limit {
            None => (String::new(), ""),
            Some((_, limit)) => (shown(limit), if row.is_missed() { "MISSED" } else { "ok" }),
        };
        println!(
            "{:width$}  {:>10} {:>10} {:>5}  {limit:>10} {:<5} {verdict}",
            row.what,
            shown(row.median),
            shown(row.p99),
            row.count,
            row.unit,
        );
    }
}
