//! How long the gate takes to know a caller and to answer.

use std::fs::File;

use anyhow::{Context, ensure};
use paddock_test::host::Host;

use crate::programs::own_path;
use crate::table::{Row, Sample};

const CALLS: usize = 500;
/// Milliseconds.
const LIMIT: f64 = 1.0;
const LARGE: u64 = 100_000_000;
const COLD: usize = 7;

pub(crate) fn measure() -> anyhow::Result<Vec<Row>> {
    let host = Host::new();
    std::fs::copy(own_path()?, host.workspace().join("bench"))?;
    let one = |how: &str| run(&host, &format!("./bench call {how} {CALLS}"));
    let (anew, stays) = (one("anew")?, one("stays")?);
    // The program that calls, padded: it is the same, and its file is large.
    let large = host.workspace().join("large");
    std::fs::copy(own_path()?, &large)?;
    File::options().append(true).open(&large)?.set_len(LARGE)?;
    // Each time it has changed, and is another file to the gate.
    let cold = format!("for i in $(seq {COLD}); do touch large; ./large call anew 1; done");
    let cold = run(&host, &cold)?;
    ensure!(cold.len() == COLD, "{} calls", cold.len());
    // Its hash is not kept yet in the first one.
    let known = |calls: Vec<f64>| Sample::new(calls.into_iter().skip(1).collect());
    Ok(vec![
        Row::new("grants by a known caller, connecting anew", "ms", &known(anew))
            .median_within(LIMIT),
        Row::new("grants by a known caller that stays connected", "ms", &known(stays))
            .median_within(LIMIT),
        Row::new("the first call of a program of 100 MB", "ms", &Sample::new(cold)),
    ])
}

fn run(host: &Host, command: &str) -> anyhow::Result<Vec<f64>> {
    let run = host.standin(&[command]);
    ensure!(run.code() == Some(0), "{}{}", run.stdout, run.stderr);
    let numbers = run.stdout.lines().map(str::parse::<f64>).collect::<Result<Vec<_>, _>>();
    numbers.with_context(|| run.stdout)
}
