//! What the overlay costs while nothing happens.

use std::time::Duration;

use anyhow::Context;
use paddock_test::host::{Host, Launch, wait_for};
use paddock_test::terminal::Terminal;

use crate::passes::{megabytes, nanoseconds_run};
use crate::table::{Row, Sample};

/// Launches that it shows.
const LAUNCHES: usize = 20;
/// How long its use of the processor is added up, and in which steps.
const STEP: Duration = Duration::from_secs(2);
const STEPS: usize = 15;
/// Percent of one core.
const LIMIT: f64 = 0.5;

pub(crate) fn measure() -> anyhow::Result<Vec<Row>> {
    let host = Host::new();
    let _launches: Vec<Launch<'_>> =
        (0..LAUNCHES).map(|_| host.start(host.standin_command(&["sleep 900"]))).collect();
    let terminal = Terminal::of_size(40, 120);
    let mut overlay = terminal.paddock(&host).arg("overlay").spawn()?;
    let pid = overlay.id().cast_signed();
    // `setsid` has become it by then. Ages are shown in minutes after one.
    terminal.wait_for(&format!("launches: {LAUNCHES}"));
    let counts_seconds = |line: &str| {
        let is_age = |word: &str| word.strip_suffix('s').is_some_and(|n| n.parse::<u8>().is_ok());
        line.contains("confined") && line.split(' ').any(is_age)
    };
    wait_for(Duration::from_mins(2), || {
        let counts = terminal.text().lines().any(counts_seconds);
        (!counts).then_some(())
    })
    .context("the launches do not age")?;
    let (mut steps, mut before) = (Vec::new(), nanoseconds_run(pid)?);
    for _ in 0..STEPS {
        std::thread::sleep(STEP);
        let now = nanoseconds_run(pid)?;
        steps.push((now - before) / 1e7 / STEP.as_secs_f64());
        before = now;
    }
    let memory = megabytes(pid)?;
    terminal.send("q");
    let ended = wait_for(Duration::from_secs(10), || overlay.try_wait().ok().flatten());
    ended.context("the overlay does not end")?;
    Ok(vec![
        Row::new(format!("overlay over {LAUNCHES} launches"), "%", &Sample::new(steps))
            .median_within(LIMIT),
        Row::new("memory of the overlay", "MB", &Sample::new(vec![memory])),
    ])
}
