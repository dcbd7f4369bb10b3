//! What a verification pass takes, and what the watch costs.

use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, ensure};
use paddock_test::host::{Host, Launch, wait_for};
use serde_json::Value;

use crate::table::{Row, Sample};

/// Tasks, and the most milliseconds that a pass over them may take.
const SIZES: [(usize, f64); 3] = [(20, 2.0), (200, 6.0), (2_000, 40.0)];
/// Processes of the same user that have nothing to do with the launch.
const BYSTANDERS: usize = 2_000;
const ROUNDS: usize = 20;
/// Longer than what lies between two passes.
const A_PASS: Duration = Duration::from_millis(300);
/// How long the watch's use of the processor is added up, and in which steps.
/// One step holds one pass over everything.
const STEP: Duration = Duration::from_secs(2);
const STEPS: usize = 10;
/// Percent of one core.
const LIMIT_CPU: f64 = 0.5;
/// Megabytes.
const LIMIT_KEEPER: f64 = 20.0;
const LIMIT_WARDEN: f64 = 4.0;

pub(crate) fn measure() -> anyhow::Result<Vec<Row>> {
    let host = Host::new();
    let mut rows = Vec::new();
    for (tasks, limit) in SIZES {
        let launch = start(&host, tasks)?;
        rows.extend(passes(&launch, tasks, "", limit)?);
        if tasks == SIZES[0].0 {
            rows.extend(watch_costs(&host, &launch)?);
        }
    }
    let bystanders = Bystanders::start()?;
    for (tasks, limit) in SIZES {
        let launch = start(&host, tasks)?;
        let beside = format!(", beside {BYSTANDERS} others");
        rows.extend(passes(&launch, tasks, &beside, limit)?);
    }
    drop(bystanders);
    Ok(rows)
}

/// A launch with that many tasks, those of its layers among them.
fn start(host: &Host, tasks: usize) -> anyhow::Result<Launch<'_>> {
    let sleepers = |n: usize| {
        let loop_ = format!("i=0; while [ $i -lt {n} ]; do sleep 900 & i=$((i+1)); done; wait");
        host.start(host.standin_command(&[&loop_]))
    };
    let settled = |launch: &Launch| {
        let mut before = 0;
        wait_for(Duration::from_mins(1), || {
            let now = count(&launch.verify().1);
            let has_settled = now == before && now > 0;
            before = now;
            std::thread::sleep(A_PASS);
            has_settled.then_some(now)
        })
        .context("the tasks did not come up")
    };
    let one = sleepers(1);
    let layers = settled(&one)? - 1;
    drop(one);
    let launch = sleepers(tasks.saturating_sub(layers));
    let found = settled(&launch)?;
    ensure!(found >= tasks, "{found} tasks instead of {tasks}");
    Ok(launch)
}

fn count(report: &Value) -> usize {
    report["tasks"].as_array().map_or(0, Vec::len)
}

fn passes(launch: &Launch, tasks: usize, beside: &str, limit: f64) -> anyhow::Result<Vec<Row>> {
    let (mut ordinary, mut everything) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        std::thread::sleep(A_PASS);
        let (_, report) = launch.verify();
        ensure!(report["holds"] == true, "it does not hold: {report}");
        let milliseconds = |field: &str| {
            report[field].as_f64().map(|us| us / 1e3).with_context(|| format!("no {field}"))
        };
        ordinary.push(milliseconds("lastPassMicroseconds")?);
        everything.push(milliseconds("microseconds")?);
    }
    let what = |kind: &str| format!("{kind} over {tasks} tasks{beside}");
    Ok(vec![
        Row::new(what("pass"), "ms", &Sample::new(ordinary)).median_within(limit),
        Row::new(what("pass, everything,"), "ms", &Sample::new(everything)),
    ])
}

/// Processor time and memory of the keeper and its wardens.
fn watch_costs(host: &Host, launch: &Launch) -> anyhow::Result<Vec<Row>> {
    let keeper = launch.keeper();
    let records = host.records();
    let record = records.last().context("a record")?;
    let parts = record["parts"].as_array().context("parts")?;
    let wardens: Vec<i32> = parts
        .iter()
        .filter(|part| part["name"].as_str().is_some_and(|name| name.ends_with("-warden")))
        .filter_map(|part| i32::try_from(part["process"]["pid"].as_i64()?).ok())
        .collect();
    ensure!(wardens.len() == 3, "{} wardens", wardens.len());
    let all = || wardens.iter().chain([&keeper]);

    let mut steps = Vec::new();
    let used = || all().map(|pid| nanoseconds_run(*pid)).sum::<anyhow::Result<f64>>();
    let first = used()?;
    let mut before = first;
    for _ in 0..STEPS {
        std::thread::sleep(STEP);
        let now = used()?;
        steps.push((now - before) / 1e7 / STEP.as_secs_f64());
        before = now;
    }
    let resident =
        |pids: &[i32]| pids.iter().map(|pid| megabytes(*pid)).collect::<anyhow::Result<Vec<_>>>();
    Ok(vec![
        Row::new("watching 20 tasks", "%", &Sample::new(steps)).median_within(LIMIT_CPU),
        Row::new("memory of the keeper", "MB", &Sample::new(resident(&[keeper])?))
            .p99_within(LIMIT_KEEPER),
        Row::new("memory of a warden", "MB", &Sample::new(resident(&wardens)?))
            .p99_within(LIMIT_WARDEN),
    ])
}

/// Processor time of all threads (`/proc/P/task/T/schedstat`, first field).
pub(crate) fn nanoseconds_run(pid: i32) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        let first = text.split(' ').next().and_then(|word| word.parse::<f64>().ok());
        sum += first.context("schedstat is not as documented")?;
    }
    Ok(sum)
}

/// Resident.
pub(crate) fn megabytes(pid: i32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kilobytes.context("no VmRSS")? / 1024.0)
}

/// Processes outside; ended when dropped.
struct Bystanders(Vec<Child>);

impl Bystanders {
    fn start() -> anyhow::Result<Self> {
        let mut all = Self(Vec::new());
        for _ in 0..BYSTANDERS {
            all.0.push(Command::new("sleep").arg("900").spawn()?);
        }
        Ok(all)
    }
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}
