//! From the start of the command to the agent's first instruction, beside the
//! same layers typed by hand.

use std::ffi::OsString;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use paddock_test::host::Host;
use serde_json::Value;

use crate::programs::{add_agent, milliseconds, now, own_path, time_in};
use crate::table::{Row, Sample};

const ROUNDS: usize = 40;
/// How much longer it may take than by hand.
const LIMIT: f64 = 1.25;
/// The kernel goes on taking apart what has ended.
const BETWEEN: Duration = Duration::from_millis(200);
const AGENT: &str = "first";

const PROFILES: [(&str, &str); 3] = [
    ("pen", include_str!("../../../../profiles/pen.json")),
    ("server", include_str!("../../../../profiles/standin/server.json")),
    ("client", include_str!("../../../../profiles/standin/client.json")),
];

pub(crate) fn measure() -> anyhow::Result<Vec<Row>> {
    let mut host = Host::new();
    // Where a person's sockets are: in memory. For both alike.
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(tempfile::tempdir_in).transpose()?;
    if let Some(runtime) = &runtime {
        host.set("XDG_RUNTIME_DIR", runtime.path());
    }
    add_agent(&host, AGENT, &["write-time", "{home}/first"], &["echo"])?;
    let (mut launched, mut by_hand) = (Vec::new(), Vec::new());
    // The first of each finds nothing in the page cache.
    for round in 0..=ROUNDS {
        let one = (launch(&host)?, type_by_hand(&host)?);
        if round > 0 {
            launched.push(one.0);
            by_hand.push(one.1);
        }
    }
    let ratios = launched.iter().zip(&by_hand).map(|(ours, theirs)| ours / theirs).collect();
    let (launched, by_hand) = (Sample::new(launched), Sample::new(by_hand));
    let ratio = launched.median() / by_hand.median();
    Ok(vec![
        Row::new("first instruction: paddock run", "ms", &launched),
        Row::new("first instruction: bwrap, nono, nono by hand", "ms", &by_hand),
        Row::new("first instruction: pair by pair", "times", &Sample::new(ratios))
            .median_within(LIMIT),
        Row::new("first instruction: of the medians", "times", &Sample::new(vec![ratio])),
    ])
}

fn first_instruction(host: &Host) -> PathBuf {
    host.agent_home(AGENT, "server").join("first")
}

fn launch(host: &Host) -> anyhow::Result<f64> {
    let mut command = host.paddock();
    command.args(["run", AGENT, "--workspace"]).arg(host.workspace());
    time(&mut command, &first_instruction(host))
}

/// Milliseconds from before `command` starts until the time that is written to
/// `path` first thing. Waits for its end.
fn time(command: &mut Command, path: &Path) -> anyhow::Result<f64> {
    let _ = std::fs::remove_file(path);
    std::thread::sleep(BETWEEN);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let started = now();
    let output = command.output()?;
    let first = time_in(path).with_context(|| {
        format!("no first instruction: {}", String::from_utf8_lossy(&output.stderr))
    })?;
    Ok(milliseconds(started, first))
}

/// The layers that a launch would have, the server's alone in the pen, without
/// keeper and wardens.
fn type_by_hand(host: &Host) -> anyhow::Result<f64> {
    let plan = host.run(&["run", AGENT, "--dry-run", "--json"]);
    let plan: Value = serde_json::from_str(&plan.stdout).context(plan.stderr)?;
    let veil = words(&plan["layers"]["veil"]);
    let pen = words(&plan["layers"]["pen"]);
    let server = words(&plan["layers"]["server"]);
    let gate = PathBuf::from(value_of(&server, "--gate")?);
    let inside = gate.parent().context("the gate is in a directory")?;
    let launch = inside.parent().context("what is inside is in a directory")?;

    // What a launch would find or make: not part of what is timed.
    for [option, from, _] in veil.array_windows::<3>() {
        if option.ends_with("bind") && !Path::new(from).exists() {
            std::fs::create_dir_all(from)?;
        }
    }
    for folder in ["profiles", "link"] {
        std::fs::create_dir_all(inside.join(folder))?;
    }
    for (layer, text) in PROFILES {
        std::fs::write(inside.join("profiles").join(layer).with_extension("json"), text)?;
        std::fs::create_dir_all(inside.join("nono").join(layer))?;
    }
    let listener = UnixListener::bind(&gate)?;

    let mut argv: Vec<OsString> = Vec::new();
    argv.extend(veil.iter().map(OsString::from));
    argv.extend(before_warden(&pen)?);
    argv.push("/usr/bin/env".into());
    for (name, value) in nono_directories(&inside.join("nono/server")) {
        let mut assignment = OsString::from(name);
        assignment.push("=");
        assignment.push(value);
        argv.push(assignment);
    }
    argv.extend(before_warden(&server)?);
    let first = first_instruction(host);
    argv.extend([own_path()?.into(), "write-time".into(), first.clone().into()]);

    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).env_clear().current_dir(host.workspace());
    command
        .env("TERM", "xterm-256color")
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin")
        .env("NONO_NO_UPDATE_CHECK", "1")
        .env("NONO_NO_PACK_UPDATE_HINTS", "1")
        .envs(nono_directories(&inside.join("nono/pen")));
    let taken = time(&mut command, &first)?;
    drop(listener);
    std::fs::remove_dir_all(launch)?;
    Ok(taken)
}

/// As the keeper sets them, so that neither nono copies itself.
fn nono_directories(state: &Path) -> [(&'static str, PathBuf); 4] {
    [
        ("HOME", state.into()),
        ("XDG_STATE_HOME", state.into()),
        ("XDG_CONFIG_HOME", state.into()),
        ("TMPDIR", state.join("none")),
    ]
}

fn words(value: &Value) -> Vec<String> {
    let words = value.as_array().into_iter().flatten();
    words.filter_map(|word| word.as_str().map(ToOwned::to_owned)).collect()
}

fn value_of<'a>(argv: &'a [String], option: &str) -> anyhow::Result<&'a str> {
    let at = argv.iter().position(|word| word == option);
    let value = at.and_then(|at| argv.get(at + 1));
    value.map(String::as_str).with_context(|| format!("no {option} among the arguments"))
}

/// nono's own arguments, up to the `--` that ends them.
fn before_warden(argv: &[String]) -> anyhow::Result<impl Iterator<Item = OsString>> {
    let end = argv.iter().position(|word| word == "--").context("no -- among the arguments")?;
    ensure!(end > 0, "nono has arguments");
    Ok(argv[..=end].iter().map(OsString::from))
}
