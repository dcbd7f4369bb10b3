//! Launches that never were.

use std::sync::Arc;

use confine::{Layer, Pid};
use ratatui::layout::Size;
use serde_json::json;

use crate::keeper::{
    Asked, BlockedCounts, Details, Failure, GateCalls, HostSums, Reason, Status, Task, Wanted,
};
use crate::launch::Form;
use crate::overlay::app::App;
use crate::overlay::collect::{Row, Snapshot};
use crate::overlay::policy::Policy;
use crate::overlay::theme::Theme;
use crate::standing::{Held, Standing};
use crate::state::HerdrPane;

/// One that is confined and of which nothing is known in detail.
pub(super) fn standing(launch: &str, agent: &str, workspace: &str) -> Standing {
    let told = Status { ok: true, holds: Some(true), tasks: 9, ..Status::default() };
    Standing {
        launch: launch.into(),
        agent: agent.into(),
        form: Form::Pair,
        tier: "sealed",
        workspace: workspace.into(),
        pane: None,
        directory: "/nowhere".into(),
        state: "running",
        held: Held::Confined,
        what: None,
        started: 1_795_812_300_000,
        ended: None,
        told: Some(told),
    }
}

pub(super) fn row(standing: Standing) -> Row {
    Row { standing, age: "5m".into(), policy: None }
}

pub(super) fn task(
    layer: Option<Layer>,
    role: &str,
    pid: i32,
    parent: i32,
    verdict: &str,
    command: &str,
) -> Task {
    Task {
        layer,
        role: role.into(),
        pid,
        task: pid,
        start: 235_643,
        parent: Pid::new(parent),
        verdict: verdict.into(),
        reasons: Vec::new(),
        command: command.into(),
    }
}

/// What is known of one that runs, in detail.
pub(super) fn details() -> Details {
    let (pen, server, client) = (Some(Layer::Pen), Some(Layer::Server), Some(Layer::Client));
    let host = |host: &str, connections, sent, received, refused| HostSums {
        host: host.into(),
        connections,
        sent,
        received,
        refused,
        ..HostSums::default()
    };
    Details {
        tasks: vec![
            task(None, "veil", 17697, 17690, "builder", "bwrap --unshare-pid"),
            task(None, "veil", 17698, 17697, "builder", "bwrap --unshare-pid"),
            task(pen, "supervisor", 17699, 17698, "builder", "nono run --silent"),
            task(pen, "warden", 17701, 17699, "confined", "paddock-warden pen"),
            task(server, "supervisor", 17705, 17701, "confined", "nono run --silent"),
            task(server, "warden", 17711, 17705, "confined", "paddock-warden server"),
            task(server, "agent", 17714, 17711, "confined", "codex app-server"),
            task(server, "agent", 17720, 17714, "confined", "bash -lc cargo test"),
            task(client, "supervisor", 17706, 17701, "confined", "nono run --silent"),
            task(client, "warden", 17709, 17706, "confined", "paddock-warden client"),
            task(client, "agent", 17713, 17709, "confined", "codex --remote"),
        ],
        tasks_left_out: 0,
        allowed_hosts: vec!["api.example.com".into(), "*.code.test".into()],
        hosts: vec![
            host("api.example.com", 12, 90_000, 5_000_000, 0),
            host("elsewhere.example", 0, 0, 0, 3),
        ],
        other_hosts: HostSums::default(),
        gate: vec![GateCalls { request: "report".into(), allowed: 7, refused: 1 }],
    }
}

pub(super) fn policy() -> Policy {
    let plan = json!({
        "tier": "sealed", "workspace": "/home/me/app", "unixRace": "veil: none are there",
        "layers": {
            "veil": ["bwrap"], "pen": ["nono"], "client": ["nono"],
            "server": ["nono", "--allow-unix-socket-subtree-bind", "/tmp"],
        },
        "grants": [{ "layer": "server", "access": "read", "path": "/usr/lib/node" }],
        "ports": { "server": 4001, "guard": 4002 }, "hosts": ["api.example.com", "*.code.test"],
    });
    Policy::of_plan(&plan, std::path::Path::new(""))
}

/// Four launches in four states, of which the first is looked at closely.
pub(super) fn several() -> Snapshot {
    let mut first = standing("bcdfbcdfbcdf", "codex", "/home/me/app");
    first.pane = Some(HerdrPane { socket: "/run/herdr.sock".into(), pane_id: "w1:p3".into() });
    if let Some(told) = &mut first.told {
        told.details = Some(details());
        told.tasks = 11;
        told.blocked = BlockedCounts { egress: 3, gate: 1 };
        let wanted = Wanted::Host("db.example.com:5432".into());
        told.questions = vec![
            Asked { number: 1, wanted },
            Asked {
                number: 2,
                wanted: Wanted::Path { path: "/home/me/notes".into(), write: true },
            },
        ];
    }
    let mut second = standing("ghjkghjkghjk", "opencode", "/home/me/a/long/way/down/to/project");
    second.held = Held::Unconfined;
    let what = "process 20@7 (cat, agent in the server layer) is unconfined: it holds open /etc";
    second.what = Some(what.into());
    if let Some(told) = &mut second.told {
        told.holds = Some(false);
        told.tasks = 1;
        let reason = Reason { code: "holds-outside".into(), text: "it holds open /etc".into() };
        let mut bad = task(Some(Layer::Server), "agent", 20, 10, "unconfined", "cat");
        bad.reasons = vec![reason];
        let failure =
            Failure { time: 1_795_812_345_678, what: what.into(), task: Some(bad.clone()) };
        told.failure = Some(failure.clone());
        told.last_violation = Some(failure);
        told.details = Some(Details { tasks: vec![bad], ..Details::default() });
    }
    let mut third = standing("mnpqmnpqmnpq", "standin", "/home/me/other");
    third.tier = "ported";
    third.held = Held::Unknown;
    third.what = Some("its keeper does not answer within 2 s".into());
    third.told = None;
    let mut fourth = standing("rstvrstvrstv", "standin", "/home/me/old");
    fourth.state = "ended";
    fourth.held = Held::Ended;
    fourth.ended = Some(fourth.started + 300_000);
    fourth.told = None;
    let mut rows = [first, second, third, fourth].map(row).to_vec();
    rows[0].policy = Some(Arc::new(policy()));
    Snapshot { launches: rows, ..Snapshot::default() }
}

/// One with names that would draw, were they let.
pub(super) fn hostile() -> Snapshot {
    let long = "x".repeat(10_000);
    let nasty =
        "a\x1b[2J\x1b]0;gone\x07\u{9b}31m\r\n\t\u{202e}gpj\u{5d0}\u{628}\u{301}\u{200b}日本";
    let mut standing = standing("bcdfbcdfbcdf", nasty, &format!("/{nasty}/{long}"));
    standing.what = Some(format!("{nasty}{long}"));
    standing.pane = Some(HerdrPane { socket: "/s".into(), pane_id: nasty.into() });
    if let Some(told) = &mut standing.told {
        let command = format!("{nasty}{long}");
        let mut tasks = details().tasks;
        for task in &mut tasks {
            task.command.clone_from(&command);
            task.verdict = if task.pid % 2 == 0 { nasty.into() } else { "unconfined".into() };
            task.reasons = vec![Reason { code: nasty.into(), text: command.clone() }];
        }
        let host = HostSums { host: command.clone(), refused: u64::MAX, ..HostSums::default() };
        told.failure = Some(Failure { time: u64::MAX, what: command.clone(), task: tasks.pop() });
        told.questions = vec![Asked { number: 1, wanted: Wanted::Host(command.clone()) }];
        told.details = Some(Details {
            tasks,
            tasks_left_out: usize::MAX,
            allowed_hosts: vec![command.clone(), nasty.into()],
            hosts: vec![host],
            other_hosts: HostSums { sent: u64::MAX, ..HostSums::default() },
            gate: vec![GateCalls { request: nasty.into(), ..GateCalls::default() }],
        });
    }
    let mut row = row(standing);
    row.age = nasty.into();
    Snapshot { launches: vec![row], errors: vec![format!("{nasty}{long}")], ..Snapshot::default() }
}

/// The overlay with these launches.
pub(super) fn app(theme: Theme, snapshot: Snapshot) -> App {
    let mut app = App::new(theme, Size::new(80, 24));
    app.take(Arc::new(snapshot));
    app
}
