//! How long the doctor takes.

use std::time::Instant;

use anyhow::ensure;
use paddock_test::host::Host;

use crate::table::{Row, Sample};

const ROUNDS: usize = 10;
/// Milliseconds.
const QUICK_LIMIT: f64 = 300.0;
const WHOLE_LIMIT: f64 = 10_000.0;

pub(crate) fn measure() -> anyhow::Result<Vec<Row>> {
    let host = Host::new();
    let quick = time(&host, &["doctor", "--quick"])?;
    let whole = time(&host, &["doctor"])?;
    Ok(vec![
        Row::new("doctor --quick", "ms", &quick).median_within(QUICK_LIMIT),
        Row::new("doctor, the matrix included", "ms", &whole).median_within(WHOLE_LIMIT),
    ])
}

/// The first run of all finds nothing in the page cache, and is not counted.
fn time(host: &Host, arguments: &[&str]) -> anyhow::Result<Sample> {
    let mut taken = Vec::new();
    for round in 0..=ROUNDS {
        let started = Instant::now();
        let run = host.run(arguments);
        let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
        ensure!(run.code() == Some(0), "{}{}", run.stdout, run.stderr);
        if round > 0 {
            taken.push(milliseconds);
        }
    }
    Ok(Sample::new(taken))
}
