//! How long it takes until nothing of a launch is left.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use paddock_test::host::{Host, Launch, wait_for};

use crate::programs::{add_agent, milliseconds, now, own_path, time_in};
use crate::table::{Row, Sample};

const ESCAPES: usize = 100;
const LIMIT_ESCAPE: f64 = 400.0;
const STOPS: usize = 10;
const PROCESSES: usize = 1_000;
const LIMIT_STOP: f64 = 1_000.0;

/// From the first instruction of a process that is in the launch and in no
/// sandbox until the keeper has ended with nothing left.
pub(crate) fn measure_escape() -> anyhow::Result<Vec<Row>> {
    let host = Host::new();
    let idle = ["write-time-and-stay", "{home}/started"];
    add_agent(&host, "idle", &["listen", "{link}"], &idle)?;
    let (mut taken, mut survivors) = (Vec::new(), Vec::new());
    for round in 0..ESCAPES {
        let mut command = host.paddock();
        command.args(["run", "idle", "--workspace"]).arg(host.workspace());
        let launch = host.start(command);
        let born = host.workspace().join(format!("born-{round}"));
        // Each at another moment between two passes.
        std::thread::sleep(Duration::from_millis(u64::try_from(round * 37 % 250)?));
        let_out(&host, &launch, &born)?;
        let finished = launch.end();
        let ended = now();
        ensure!(finished.code() == Some(126), "not stopped: {}", finished.stderr);
        let left = host.processes();
        survivors.push(f64::from(u32::try_from(left.len())?));
        let born = time_in(&born).context("nothing was born")?;
        taken.push(milliseconds(born, ended));
    }
    Ok(vec![
        Row::new("unconfined process until the end", "ms", &Sample::new(taken))
            .p99_within(LIMIT_ESCAPE),
        Row::new("survivors of it", "", &Sample::new(survivors)).p99_within(0.0),
    ])
}

/// Starts a process in the veil and outside the pen.
fn let_out(host: &Host, launch: &Launch, born: &Path) -> anyhow::Result<()> {
    let records = host.records();
    let record = records.iter().find(|record| record["launch"] == *launch.id);
    let parts = record.and_then(|record| record["parts"].as_array()).context("parts")?;
    let init = parts.iter().find(|part| part["name"] == "veil-init").context("a first process")?;
    let status = Command::new(own_path()?)
        .args(["intrude", &init["process"]["pid"].to_string()])
        .arg(born)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .status()?;
    ensure!(status.success(), "nobody got in: {status}");
    Ok(())
}

/// `paddock stop` of a launch with many processes.
pub(crate) fn measure_stop() -> anyhow::Result<Vec<Row>> {
    let host = Host::new();
    let (mut taken, mut survivors) = (Vec::new(), Vec::new());
    for _ in 0..STOPS {
        let many =
            format!("i=0; while [ $i -lt {PROCESSES} ]; do sleep 900 & i=$((i+1)); done; wait");
        let launch = host.start(host.standin_command(&[&many]));
        wait_for(Duration::from_mins(1), || {
            let tasks = launch.verify().1["tasks"].as_array().map_or(0, Vec::len);
            (tasks > PROCESSES).then_some(())
        })
        .context("the processes did not come up")?;
        let mut command = host.paddock();
        command.args(["stop", &launch.id]);
        let started = Instant::now();
        let output = command.output()?;
        taken.push(started.elapsed().as_secs_f64() * 1e3);
        survivors.push(f64::from(u32::try_from(host.processes().len())?));
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        launch.end();
    }
    let what = format!("stop with {PROCESSES} processes");
    Ok(vec![
        Row::new(what, "ms", &Sample::new(taken)).p99_within(LIMIT_STOP),
        Row::new("survivors of it", "", &Sample::new(survivors)).p99_within(0.0),
    ])
}
