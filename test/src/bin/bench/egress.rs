//! What the guard takes, beside nono's own proxy alone: bytes of a sandbox go through
//! the one or the other.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use paddock_test::host::{Finished, Host, finish, nono, wait_for};

use crate::passes::megabytes;
use crate::programs::own_path;
use crate::table::{Row, Sample};
use crate::upstream;

/// Rounds of each, in turn, and requests in each.
const ROUNDS: usize = 8;
const REQUESTS: usize = 100;
/// Milliseconds more than through nono's proxy alone.
const LIMIT_REQUEST: f64 = 1.0;
const AT_ONCE: usize = 500;
const DOWNLOAD: u64 = 512 << 20;
const DOWNLOADS: usize = 7;
/// Nine tenths of the throughput are ten ninths of the time.
const LIMIT_DOWNLOAD: f64 = 10.0 / 9.0;
const IDLE: usize = 1_000;
/// Megabytes.
const LIMIT_IDLE: f64 = 30.0;

pub(crate) fn measure() -> anyhow::Result<Vec<Row>> {
    let ground = Ground::new()?;
    let mut rows = at_once(&ground)?;
    rows.extend(requests(&ground)?);
    rows.extend(downloads(&ground)?);
    rows.extend(idle(&ground)?);
    Ok(rows)
}

/// A host with a service that both proxies allow. nono looks `localhost` up, in the
/// host's own file; the guard allows no name that leads to loopback, but by an exception
/// that needs no look-up.
struct Ground {
    host: Host,
    port: u16,
}

impl Ground {
    fn new() -> anyhow::Result<Self> {
        let (host, port) = (Host::new(), upstream::serve()?);
        host.configure(&format!(
            "[egress]\nhosts = [\"ok.test:{port}\"]\nexceptions = {{ \"ok.test\" = \"127.0.0.1\" }}\n"
        ));
        std::fs::copy(own_path()?, host.workspace().join("bench"))?;
        Ok(Self { host, port })
    }

    /// A load in a launch: `NAME ARGUMENTS`, with the target in place of `TARGET`.
    fn in_a_launch(&self, load: &str) -> anyhow::Result<Vec<f64>> {
        let target = format!("ok.test:{}", self.port);
        let load = load.replace("TARGET", &target);
        numbers(&self.host.standin(&[&format!("exec ./bench {load}")]))
    }

    /// The same in a sandbox of nono's with its own proxy, and nothing of Paddock's.
    fn in_nono_alone(&self, load: &str) -> anyhow::Result<Vec<f64>> {
        let target = format!("localhost:{}", self.port);
        let mut command = Command::new(nono());
        self.host.dress(&mut command);
        command.env("NONO_NO_UPDATE_CHECK", "1");
        command.args(["--silent", "run", "--allow-cwd", "--no-rollback-prompt"]);
        command.args(["--allow-domain", "localhost", "--", "./bench"]);
        command.args(load.split(' ').map(|word| if word == "TARGET" { &*target } else { word }));
        numbers(&finish(command))
    }

    fn by_itself(&self, load: &str) -> anyhow::Result<Vec<f64>> {
        let mut command = Command::new(own_path()?);
        self.host.dress(&mut command);
        let target = format!("127.0.0.1:{}", self.port);
        command.args(load.split(' ').map(|word| if word == "TARGET" { &*target } else { word }));
        numbers(&finish(command))
    }
}

fn numbers(run: &Finished) -> anyhow::Result<Vec<f64>> {
    ensure!(run.code() == Some(0), "{}{}", run.stdout, run.stderr);
    let numbers = run.stdout.lines().map(str::parse::<f64>).collect::<Result<Vec<_>, _>>();
    numbers.with_context(|| format!("{}{}", run.stdout, run.stderr))
}

fn at_once(ground: &Ground) -> anyhow::Result<Vec<Row>> {
    let failed = ground.in_a_launch(&format!("at-once TARGET {AT_ONCE}"))?;
    let what = format!("{AT_ONCE} tunnels at once: refused or failed");
    Ok(vec![Row::new(what, "", &Sample::new(failed)).p99_within(0.0)])
}

fn requests(ground: &Ground) -> anyhow::Result<Vec<Row>> {
    let load = format!("exchange TARGET {REQUESTS}");
    let (mut ours, mut theirs, mut bare, mut more) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let round = (Sample::new(ground.in_a_launch(&load)?), ground.in_nono_alone(&load)?);
        let (round, of_nono) = (round.0, Sample::new(round.1));
        more.push(round.median() - of_nono.median());
        ours.extend(round.into_values());
        theirs.extend(of_nono.into_values());
        bare.extend(ground.by_itself(&format!("exchange-directly TARGET {REQUESTS}"))?);
    }
    Ok(vec![
        Row::new("a request: no proxy, no sandbox", "ms", &Sample::new(bare)),
        Row::new("a request: nono's proxy alone", "ms", &Sample::new(theirs)),
        Row::new("a request: through the guard in a launch", "ms", &Sample::new(ours)),
        Row::new("a request: more, of the medians of each round", "ms", &Sample::new(more))
            .median_within(LIMIT_REQUEST),
    ])
}

fn downloads(ground: &Ground) -> anyhow::Result<Vec<Row>> {
    let load = format!("download TARGET {DOWNLOAD}");
    let (mut ours, mut theirs) = (vec![], vec![]);
    // The first of each is not counted.
    for round in 0..=DOWNLOADS {
        let one = (ground.in_a_launch(&load)?, ground.in_nono_alone(&load)?);
        if round > 0 {
            ours.extend(one.0);
            theirs.extend(one.1);
        }
    }
    let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
    let what = |how: &str| format!("{} MiB: {how}", DOWNLOAD >> 20);
    Ok(vec![
        Row::new(what("nono's proxy alone"), "ms", &Sample::new(theirs)),
        Row::new(what("through the guard in a launch"), "ms", &Sample::new(ours)),
        Row::new(what("pair by pair"), "times", &Sample::new(ratios)).median_within(LIMIT_DOWNLOAD),
    ])
}

/// What idle connections take in the keeper.
fn idle(ground: &Ground) -> anyhow::Result<Vec<Row>> {
    let place = |name: &str| ground.host.workspace().join(name);
    let target = format!("ok.test:{}", ground.port);
    let command = format!(
        "touch ready; until [ -e go ]; do sleep 0.01; done; exec ./bench hold {target} {IDLE}"
    );
    let launch = ground.host.start(ground.host.standin_command(&[&command]));
    appears(&place("ready"))?;
    let before = megabytes(launch.keeper())?;
    std::fs::write(place("go"), "")?;
    appears(&place("held"))?;
    let more = megabytes(launch.keeper())? - before;
    std::fs::write(place("enough"), "")?;
    let run = launch.end();
    ensure!(run.code() == Some(0), "{}{}", run.stdout, run.stderr);
    let what = format!("{IDLE} idle connections: more memory of the keeper");
    Ok(vec![Row::new(what, "MB", &Sample::new(vec![more])).p99_within(LIMIT_IDLE)])
}

fn appears(path: &Path) -> anyhow::Result<()> {
    let limit = Duration::from_mins(1);
    wait_for(limit, || path.exists().then_some(()))
        .with_context(|| format!("no {}", path.display()))
}
