//! The main states in the sizes that are planned for.

use std::sync::Arc;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use insta::assert_snapshot;
use serde_json::json;

use super::made_up::{app, hostile, several};
use super::{COLOURS, screen};
use crate::commands::parts;
use crate::overlay::app::{App, View};
use crate::overlay::collect::Snapshot;
use crate::overlay::ledger::Lines;
use crate::overlay::theme::Theme;
use crate::state::LedgerEntry;

fn typed(app: &mut App, text: &str) {
    for c in text.chars() {
        app.on_event(Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)));
    }
}

/// Times are the person's own; the tests' are not.
fn fixed(screen: &str) -> String {
    let parts = screen.split('\n').map(|line| match line.find("2026-") {
        Some(at) => format!(
            "{}YYYY-MM-DD hh:mm:ss.mmm{}",
            &line[..at],
            line.get(at + 23..).unwrap_or_default()
        ),
        None => line.to_owned(),
    });
    parts.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_list_is_above_the_details() {
    assert_snapshot!(fixed(&screen(&mut app(COLOURS, several()), 80, 24)), @r#"
    ┌ > launches: 3, ended: 1 ─────────────────────────────────────────────────────┐
    │   VERDICT      AGENT     STATE     TIER     AGE  BLOCKED ASKS WORKSPACE      │
    │ > ✓ confined   codex     running   sealed   5m   +4      2    /home/me/app   │
    │   ✗ unconfined opencode  running   sealed   5m   -       -    …wn/to/project │
    │   ? unknown    standin   running   ported   5m   -       -    /home/me/other │
    │   – ended      standin   ended     sealed   5m   -       -    /home/me/old   │
    └──────────────────────────────────────────────────────────────────────────────┘
    ┌ bcdfbcdfbcdf (codex, sealed) ────────────────────────────────────────────────┐
    │ ✓ confined: all of 11 tasks, in the last pass                                │
    │ workspace /home/me/app                                                       │
    │ pane      w1:p3                                                              │
    │ started   YYYY-MM-DD hh:mm:ss.mmm, 5m ago                                    │
    │                                                                              │
    │ the agent asks for (a: answer)                                               │
    │ ! 1 the host db.example.com:5432                                             │
    │ ! 2 the path /home/me/notes to write                                         │
    │                                                                              │
    │ layers, and the processes in them                                            │
    │ veil                                                                         │
    │ │ files: system files, read-only, and what is granted below; nothing else is │
    │ │ there                                                                      │
    │ │ processes and sockets of the host: none                                    │
    └────────────────────────────────────────────────────────────────── 1-14 of 45 ┘
    Enter details  v verify  s stop  a answer  g go  o shell  p pins  ? help  q quit
    "#);
}

#[test]
fn the_list_is_beside_the_details_where_there_is_room() {
    assert_snapshot!(fixed(&screen(&mut app(COLOURS, several()), 140, 45)), @r#"
    ┌ > launches: 3, ended: 1 ───────────────────────────────────────────┐┌ bcdfbcdfbcdf (codex, sealed) ──────────────────────────────────────┐
    │   VERDICT      AGENT     STATE     AGE  BLOCKED ASKS WORKSPACE     ││ ✓ confined: all of 11 tasks, in the last pass                      │
    │ > ✓ confined   codex     running   5m   +4      2    /home/me/app  ││ workspace /home/me/app                                             │
    │   ✗ unconfined opencode  running   5m   -       -    …n/to/project ││ pane      w1:p3                                                    │
    │   ? unknown    standin   running   5m   -       -    …ome/me/other ││ started   YYYY-MM-DD hh:mm:ss.mmm, 5m ago                          │
    │   – ended      standin   ended     5m   -       -    /home/me/old  ││                                                                    │
    │                                                                    ││ the agent asks for (a: answer)                                     │
    │                                                                    ││ ! 1 the host db.example.com:5432                                   │
    │                                                                    ││ ! 2 the path /home/me/notes to write                               │
    │                                                                    ││                                                                    │
    │                                                                    ││ layers, and the processes in them                                  │
    │                                                                    ││ veil                                                               │
    │                                                                    ││ │ files: system files, read-only, and what is granted below;       │
    │                                                                    ││ │ nothing else is there                                            │
    │                                                                    ││ │ processes and sockets of the host: none                          │
    │                                                                    ││ │ ● 17697 bwrap --unshare-pid                                      │
    │                                                                    ││ │   ● 17698 bwrap --unshare-pid                                    │
    │                                                                    ││ │ pen                                                              │
    │                                                                    ││ │ │ network: its own, with nothing but loopback                    │
    │                                                                    ││ │ │ ceiling for both sandboxes in it                               │
    │                                                                    ││ │ │ way out: the guard, at its port 4002                           │
    │                                                                    ││ │ │ ● 17699 supervisor nono run --silent                           │
    │                                                                    ││ │ │   ✓ 17701 warden paddock-warden pen                            │
    │                                                                    ││ │ │ server                                                         │
    │                                                                    ││ │ │ │ workspace, read and written: /home/me/app                    │
    │                                                                    ││ │ │ │ read: /usr/lib/node                                          │
    │                                                                    ││ │ │ │ hosts, by the guard: api.example.com, *.code.test            │
    │                                                                    ││ │ │ │ sockets: the gate, its own below /tmp; veil: none are there  │
    │                                                                    ││ │ │ │ ✓ 17705 supervisor nono run --silent                         │
    │                                                                    ││ │ │ │   ✓ 17711 warden paddock-warden server                       │
    │                                                                    ││ │ │ │     ✓ 17714 codex app-server                                 │
    │                                                                    ││ │ │ │       ✓ 17720 bash -lc cargo test                            │
    │                                                                    ││ │ │ client                                                         │
    │                                                                    ││ │ │ │ network: none but the link to the server; the terminal       │
    │                                                                    ││ │ │ │ ✓ 17706 supervisor nono run --silent                         │
    │                                                                    ││ │ │ │   ✓ 17709 warden paddock-warden client                       │
    │                                                                    ││ │ │ │     ✓ 17713 codex --remote                                   │
    │                                                                    ││                                                                    │
    │                                                                    ││ egress                                                             │
    │                                                                    ││ allowed api.example.com, *.code.test                               │
    │                                                                    ││ HOST            CONNS     OPEN     SENT RECEIVED  REFUSED   FAILED │
    │                                                                    ││ api.example…       12        0   87 KiB 4882 KiB        0        0 │
    │                                                                    ││ elsewhere.e…        0        0      0 B      0 B        3        0 │
    └────────────────────────────────────────────────────────────────────┘└──────────────────────────────────────────────────────── 1-42 of 45 ┘
    Enter details  v verify  s stop  a answer  g go  o shell  p pins  l ledger  ? help  q quit
    "#);
}

#[test]
fn in_a_small_terminal_the_list_is_alone() {
    assert_snapshot!(fixed(&screen(&mut app(COLOURS, several()), 60, 15)), @r#"
    ┌ > launches: 3, ended: 1 ─────────────────────────────────┐
    │   VERDICT      AGENT     AGE  BLOCKED WORKSPACE          │
    │ > ✓ confined   codex     5m   +4      /home/me/app       │
    │   ✗ unconfined opencode  5m   -       …y/down/to/project │
    │   ? unknown    standin   5m   -       /home/me/other     │
    │   – ended      standin   5m   -       /home/me/old       │
    │                                                          │
    │                                                          │
    │                                                          │
    │                                                          │
    │                                                          │
    │                                                          │
    │                                                          │
    └──────────────────────────────────────────────────────────┘
    Enter details  v verify  s stop  a answer  ? help  q quit
    "#);
}

#[test]
fn in_a_small_terminal_the_details_come_with_enter() {
    let mut app = app(COLOURS, several());
    app.size = ratatui::layout::Size::new(60, 15);
    typed(&mut app, "j");
    app.on_event(Event::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE)));
    assert_snapshot!(fixed(&screen(&mut app, 60, 15)), @r#"
    ┌ > ghjkghjkghjk (opencode, sealed) ───────────────────────┐
    │ ✗ NOT CONFINED                                           │
    │   process 20@7 (cat, agent in the server layer) is       │
    │   unconfined: it holds open /etc                         │
    │ workspace /home/me/a/long/way/down/to/project            │
    │ started   YYYY-MM-DD hh:mm:ss.mmm, 5m ago                │
    │                                                          │
    │ last violation                                           │
    │ YYYY-MM-DD hh:mm:ss.mmm                                  │
    │ ✗ process 20@7 (cat, agent in the server layer) is       │
    │   unconfined: it holds open /etc                         │
    │   process  20, task 20, started at tick 235643           │
    │   parent   10                                            │
    └────────────────────────────────────────────── 1-12 of 25 ┘
    Enter details  v verify  s stop  a answer  ? help  q quit
    "#);
}

#[test]
fn in_a_tiny_terminal_a_line_says_so() {
    assert_snapshot!(screen(&mut app(COLOURS, several()), 39, 5), @r#"paddock overlay: 40x6 is the least"#);
}

#[test]
fn a_violation_has_its_evidence_in_plain_characters_too() {
    let mut app = app(Theme { colour: false, ascii: true }, several());
    typed(&mut app, "j");
    assert_snapshot!(fixed(&screen(&mut app, 80, 24)), @r#"
    + > launches: 3, ended: 1 -----------------------------------------------------+
    |   VERDICT      AGENT     STATE     TIER     AGE  BLOCKED ASKS WORKSPACE      |
    |   + confined   codex     running   sealed   5m   -       2    /home/me/app   |
    | > X unconfined opencode  running   sealed   5m   -       -    ~wn/to/project |
    |   ? unknown    standin   running   ported   5m   -       -    /home/me/other |
    |   - ended      standin   ended     sealed   5m   -       -    /home/me/old   |
    +------------------------------------------------------------------------------+
    + ghjkghjkghjk (opencode, sealed) ---------------------------------------------+
    | X NOT CONFINED                                                               |
    |   process 20@7 (cat, agent in the server layer) is unconfined: it holds open |
    |   /etc                                                                       |
    | workspace /home/me/a/long/way/down/to/project                                |
    | started   YYYY-MM-DD hh:mm:ss.mmm, 5m ago                                    |
    |                                                                              |
    | last violation                                                               |
    | YYYY-MM-DD hh:mm:ss.mmm                                                      |
    | X process 20@7 (cat, agent in the server layer) is unconfined: it holds open |
    |   /etc                                                                       |
    |   process  20, task 20, started at tick 235643                               |
    |   parent   10                                                                |
    |   command  cat                                                               |
    |   holds-outside: it holds open /etc                                          |
    +------------------------------------------------------------------ 1-14 of 25 +
    Enter details  v verify  s stop  a answer  g go  o shell  p pins  ? help  q quit
    "#);
}

#[test]
fn a_stop_is_asked_first_and_a_question_names_what_is_wanted() {
    let mut app = app(COLOURS, several());
    typed(&mut app, "s");
    assert_snapshot!(screen(&mut app, 80, 24).lines().last().unwrap_or_default(), @r#"stop launch bcdfbcdfbcdf, all of its processes? y: yes, n: no"#);
    typed(&mut app, "na");
    let shown = screen(&mut app, 60, 15);
    assert_snapshot!(shown.lines().skip(12).collect::<Vec<_>>().join("\n"), @r#"
    launch bcdfbcdfbcdf asks for the host db.example.com:5432:
    o: once, l: this launch, A: always, d: deny; n: not now,
    Tab: the next
    "#);
}

#[test]
fn names_that_would_draw_do_not() {
    let mut app = app(COLOURS, hostile());
    app.in_details = true;
    assert_snapshot!(screen(&mut app, 60, 15), @r#"
    ┌ > bcdfbcdfbcdf (a\u{1b}[2J\u{1b}]0;gone\u{7}\u{9b}31m\r\…┐
    │ ✓ confined: all of 9 tasks, in the last pass             │
    │   a\u{1b}[2J\u{1b}]0;gone\u{7}\u{9b}31m\r\n\t\u{202e}gpj │
    │   \u{5d0}\u{628}\u{301}\u{200b}日本xxxxxxxxxxxxxxxxxxxxx │
    │   xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx │
    │   xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx │
    │   xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx │
    │   xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx │
    │   xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx │
    │   xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx │
    │   xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx │
    │   xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx │
    │   xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx │
    └───────────────────────────────────────────── 1-12 of 418 ┘
    Enter details  v verify  s stop  a answer  ? help  q quit
    "#);
    app.in_details = false;
    assert_snapshot!(screen(&mut app, 60, 7), @r#"
    ┌ > launches: 1 ───────────────────────────────────────────┐
    │   VERDICT      AGENT     AGE  BLOCKED WORKSPACE          │
    │ > ✓ confined   a\u{1b}[… a\u… -       …xxxxxxxxxxxxxxxxx │
    │                                                          │
    │                                                          │
    └ a\u{1b}[2J\u{1b}]0;gone\u{7}\u{9b}31m\r\n\t\u{202e}gpj\u…┘
    Enter details  v verify  s stop  a answer  ? help  q quit
    "#);
}

#[test]
fn without_launches_it_says_how_to_start_one() {
    assert_snapshot!(screen(&mut app(COLOURS, Snapshot::default()), 60, 7), @r#"
    ┌ > launches: 0 ───────────────────────────────────────────┐
    │   VERDICT      AGENT     AGE  BLOCKED WORKSPACE          │
    │ no launches; paddock run starts one                      │
    │                                                          │
    │                                                          │
    └──────────────────────────────────────────────────────────┘
    Enter details  v verify  s stop  a answer  ? help  q quit
    "#);
}

#[test]
fn the_ledger_is_shown_from_its_end_and_searched() {
    let mut app = app(COLOURS, several());
    app.view = View::Ledger;
    let entry = |n: u64, host: &str, decision: &str| {
        let value = json!({
            "event": "egress", "seq": n, "egress": {
                "event": "decided", "host": host, "port": 443, "decision": decision,
                "reason": "allow-list", "message": "so it is",
            },
        });
        let details = value.as_object().unwrap().clone();
        Arc::new(parts(&LedgerEntry { text: value.to_string(), details }))
    };
    let lines = (0..20).map(|n| {
        if n % 7 == 0 { entry(n, "bad.test", "refused") } else { entry(n, "a.test", "allowed") }
    });
    app.ledger = Arc::new(Lines { lines: lines.collect(), left_out: 0, error: None });
    assert_snapshot!(screen(&mut app, 80, 8), @r#"
    ┌ > ledger of bcdfbcdfbcdf: 20 lines ──────────────────────────────────────────┐
    │              egress        a.test:443 allowed (allow-list)                   │
    │              egress        a.test:443 allowed (allow-list)                   │
    │              egress        a.test:443 allowed (allow-list)                   │
    │              egress        a.test:443 allowed (allow-list)                   │
    │              egress        a.test:443 allowed (allow-list)                   │
    └──────────────────────────────────────────────────────────────────────────────┘
    p pins  l ledger  ? help  q quit
    "#);
    typed(&mut app, "/BAD");
    assert_snapshot!(screen(&mut app, 80, 8), @r#"
    ┌ > ledger of bcdfbcdfbcdf: 3 lines, with "BAD" ───────────────────────────────┐
    │              egress        bad.test:443 REFUSED: so it is (allow-list)       │
    │              egress        bad.test:443 REFUSED: so it is (allow-list)       │
    │              egress        bad.test:443 REFUSED: so it is (allow-list)       │
    │                                                                              │
    │                                                                              │
    └──────────────────────────────────────────────────────────────────────────────┘
    search: BAD▏
    "#);
}

#[test]
fn help_has_every_key() {
    let mut app = app(COLOURS, several());
    typed(&mut app, "?");
    assert_snapshot!(screen(&mut app, 80, 34), @r#"
    ┌ > help ──────────────────────────────────────────────────────────────────────┐
    │ j, Down          the next launch, or a line down                             │
    │ k, Up            the launch before, or a line up                             │
    │ Space, PageDown  a page down                                                 │
    │ PageUp           a page up                                                   │
    │ Home             to the start                                                │
    │ End              to the end                                                  │
    │ Enter, Tab       to the details of the launch, and back                      │
    │ v                verify: the keeper looks at everything now                  │
    │ s                stop the launch, after a question                           │
    │ a                answer what the agent asks for: once, this launch, always,  │
    │                  deny                                                        │
    │ g                go to the pane of herdr's that it runs in                   │
    │ o                open a shell in its workspace, in a sandbox like its        │
    │                  server's                                                    │
    │ p                profiles and pins: what is recorded, and what differs       │
    │ l                ledger: what happened in the launch                         │
    │ /                search the ledger: the lines with that text                 │
    │ P                prune launches that have ended, after a question            │
    │ ?                help                                                        │
    │ q, Esc           back, or quit                                               │
    │                                                                              │
    │ Ctrl-C quits, Ctrl-Z suspends. A click selects, the wheel scrolls.           │
    │ The marks:                                                                   │
    │ ✓ confined: every check that applies was made and held                       │
    │ ● builder: outside by design, and the program that was recorded              │
    │ ✗ unconfined: a check failed                                                 │
    │ ? unknown: it cannot be told, and is not taken for confined                  │
    │ – ended                                                                      │
    │                                                                              │
    │                                                                              │
    │                                                                              │
    └──────────────────────────────────────────────────────────────────────────────┘
    p pins  l ledger  ? help  q quit
    "#);
}

#[test]
fn the_selected_line_keeps_the_colours_of_its_marks() {
    use ratatui::style::{Color, Modifier};

    use super::drawn;

    // A mark in the selected row, and its workspace; then the row after it.
    let looks = |theme| {
        let buffer = drawn(&mut app(theme, several()), 80, 24);
        [(4, 2), (70, 2), (4, 3)].map(|at| {
            let cell = &buffer[at];
            (cell.fg, cell.bg, cell.modifier.contains(Modifier::REVERSED))
        })
    };
    let grey = Color::Indexed(237);
    let wanted = [
        (Color::Green, grey, false),
        (Color::Indexed(255), grey, false),
        (Color::Red, Color::Reset, false),
    ];
    assert_eq!(looks(COLOURS), wanted);
    let plain = |reversed| (Color::Reset, Color::Reset, reversed);
    let wanted = [plain(true), plain(true), plain(false)];
    assert_eq!(looks(Theme { colour: false, ascii: false }), wanted);
}

#[test]
fn the_title_of_the_list_says_how_many_are_not_in_it() {
    let mut snapshot = several();
    let title = |snapshot: &Snapshot| {
        let screen = screen(&mut app(COLOURS, snapshot.clone()), 80, 24);
        screen.lines().next().unwrap().to_owned()
    };
    assert!(title(&snapshot).contains("launches: 3, ended: 1 ─"), "{}", title(&snapshot));
    snapshot.ended_left_out = 23;
    assert!(title(&snapshot).contains("launches: 3, ended: 1 of 24 ─"), "{}", title(&snapshot));
}
