//! What keys and clicks do.

use std::sync::Arc;

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Size;

use super::COLOURS;
use super::made_up::{app, several};
use crate::keeper::{Scope, Wanted};
use crate::overlay::actions::{Action, Outcome};
use crate::overlay::app::{App, Effect, View};
use crate::overlay::collect::Snapshot;

fn key(app: &mut App, code: KeyCode) -> Option<Effect> {
    app.on_event(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn typed(app: &mut App, text: &str) -> Option<Effect> {
    text.chars().map(|c| key(app, KeyCode::Char(c))).last().flatten()
}

fn mouse(app: &mut App, kind: MouseEventKind, column: u16, row: u16) -> Option<Effect> {
    app.on_event(Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }))
}

fn fresh() -> App {
    app(COLOURS, several())
}

fn selected(app: &App) -> String {
    app.selected_id().unwrap_or_default()
}

#[test]
fn keys_move_and_stay_on_the_list() {
    let mut app = fresh();
    assert_eq!(selected(&app), "bcdfbcdfbcdf");
    assert_eq!(typed(&mut app, "k"), None, "there is none before");
    assert_eq!(typed(&mut app, "j"), Some(Effect::Selected));
    assert_eq!(selected(&app), "ghjkghjkghjk");
    key(&mut app, KeyCode::End);
    assert_eq!(selected(&app), "rstvrstvrstv");
    assert_eq!(key(&mut app, KeyCode::Down), None, "there is none after");
    key(&mut app, KeyCode::Home);
    assert_eq!(selected(&app), "bcdfbcdfbcdf");
}

#[test]
fn a_launch_is_stopped_after_a_yes_and_only_the_one_that_was_named() {
    let mut app = fresh();
    assert_eq!(typed(&mut app, "sn"), None);
    assert!(app.dialogue.is_none());
    assert_eq!(typed(&mut app, "sx"), None);
    assert!(app.dialogue.is_some(), "what means nothing answers nothing");
    // Another one is in its place by now.
    let mut snapshot = several();
    snapshot.launches.remove(0);
    app.take(Arc::new(snapshot));
    assert_eq!(typed(&mut app, "y"), Some(Effect::Act(Action::Stop("bcdfbcdfbcdf".into()))));
    let mut app = fresh();
    key(&mut app, KeyCode::End);
    assert_eq!(typed(&mut app, "sy"), None, "it has ended already");
    assert_eq!(app.on_event(Event::Paste("sy".into())), None, "what is pasted is no key");
}

#[test]
fn a_question_is_answered_as_it_was_shown() {
    let host = || Wanted::Host("db.example.com:5432".into());
    let act = |wanted, scope| {
        let launch = "bcdfbcdfbcdf".to_owned();
        Some(Effect::Act(Action::Answer { launch, wanted, scope }))
    };
    for (keys, scope) in [
        ("ao", Some(Scope::Once)),
        ("al", Some(Scope::Launch)),
        ("aA", Some(Scope::Always)),
        ("ad", None),
    ] {
        assert_eq!(typed(&mut fresh(), keys), act(host(), scope), "{keys}");
    }
    assert_eq!(typed(&mut fresh(), "an"), None);
    let path = || Wanted::Path { path: "/home/me/notes".into(), write: true };
    let mut app = fresh();
    typed(&mut app, "a");
    key(&mut app, KeyCode::Tab);
    assert_eq!(typed(&mut app, "o"), None, "a path is not granted once");
    assert_eq!(typed(&mut app, "l"), None);
    assert_eq!(typed(&mut app, "A"), act(path(), Some(Scope::Always)));
}

#[test]
fn an_answer_to_nothing_is_no_command() {
    let commands = [("o", "a shell"), ("l", "the ledger"), ("q", "the end")];
    for (answer, command) in commands {
        let mut app = fresh();
        typed(&mut app, "j");
        assert_ne!(typed(&mut app, answer), None, "control: {command}");
        let mut app = fresh();
        typed(&mut app, "ja");
        assert_eq!((typed(&mut app, answer), app.view), (None, View::Launches), "{command}");
        assert!(app.dialogue.is_none());
        assert_ne!(typed(&mut app, answer), None, "the key after it is one again");
    }
    // The question goes while it is being answered.
    let mut gone = several();
    gone.launches[0].standing.told.as_mut().unwrap().questions.remove(0);
    let mut silent = several();
    silent.launches[0].standing.told = None;
    let mut ended = several();
    ended.launches.remove(0);
    for (snapshot, is_answered) in [(gone, false), (ended, false), (silent, true)] {
        let mut app = fresh();
        typed(&mut app, "a");
        app.take(Arc::new(snapshot));
        let effect = typed(&mut app, "o");
        assert_eq!(matches!(effect, Some(Effect::Act(Action::Answer { .. }))), is_answered);
        assert!(is_answered || effect.is_none(), "{effect:?}");
        assert_ne!(typed(&mut app, "o"), None, "the key after it is a command");
    }
    // Nor is there a next one then.
    let mut app = fresh();
    typed(&mut app, "a");
    let mut snapshot = several();
    snapshot.launches[0].standing.told = None;
    app.take(Arc::new(snapshot));
    key(&mut app, KeyCode::Tab);
    assert_eq!(typed(&mut app, "o"), None);
}

#[test]
fn the_other_keys_are_about_the_launch_that_is_looked_at() {
    let mut app = fresh();
    assert_eq!(typed(&mut app, "v"), Some(Effect::Act(Action::Verify("bcdfbcdfbcdf".into()))));
    let jump = Action::Jump { socket: "/run/herdr.sock".into(), pane: "w1:p3".into() };
    assert_eq!(typed(&mut app, "g"), Some(Effect::Act(jump)));
    let pins = Action::Pins("bcdfbcdfbcdf".into());
    assert_eq!(typed(&mut app, "p"), Some(Effect::Act(pins)));
    assert_eq!((typed(&mut app, "q"), app.view), (None, View::Launches));
    assert_eq!(typed(&mut app, "l"), Some(Effect::OpenLedger("/nowhere".into())));
    assert_eq!((typed(&mut app, "/Abc"), app.filter.as_str()), (None, "Abc"));
    key(&mut app, KeyCode::Backspace);
    key(&mut app, KeyCode::Enter);
    assert_eq!((app.filter.as_str(), app.dialogue.is_none()), ("Ab", true));
    assert_eq!(typed(&mut app, "q"), Some(Effect::CloseLedger));
    assert_eq!(typed(&mut app, "q"), Some(Effect::Quit));
    assert_eq!(typed(&mut app, "o"), Some(Effect::Shell("bcdfbcdfbcdf".into())));
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    typed(&mut app, "s");
    assert_eq!(app.on_event(Event::Key(ctrl_c)), Some(Effect::Quit), "also in a dialogue");
    let mut app = fresh();
    typed(&mut app, "j");
    assert_eq!(typed(&mut app, "g"), None);
    assert!(app.message.unwrap().1.contains("herdr"));
}

#[test]
fn a_shell_gets_a_pane_of_herdrs_until_herdr_opens_none() {
    let mut app = fresh();
    app.has_panes = true;
    let pane = Action::ShellPane("bcdfbcdfbcdf".into());
    assert_eq!(typed(&mut app, "o"), Some(Effect::Act(pane)));
    app.hear(Outcome::NoPane("there is no such plugin".into()));
    assert!(app.message.as_ref().unwrap().1.contains("this terminal"));
    assert_eq!(typed(&mut app, "o"), Some(Effect::Shell("bcdfbcdfbcdf".into())));
}

#[test]
fn without_a_launch_no_key_does_anything_but_quit() {
    let mut app = app(COLOURS, Snapshot::default());
    for c in "vsagoplP/?".chars() {
        assert_eq!(typed(&mut app, &c.to_string()), None, "{c}");
        key(&mut app, KeyCode::Esc);
    }
    assert_eq!(typed(&mut app, "q"), Some(Effect::Quit));
}

#[test]
fn a_click_selects_and_the_wheel_scrolls_what_it_is_over() {
    let mut app = fresh();
    app.size = Size::new(80, 24);
    let click = MouseEventKind::Down(MouseButton::Left);
    assert_eq!(mouse(&mut app, click, 10, 4), Some(Effect::Selected));
    assert_eq!(selected(&app), "mnpqmnpqmnpq");
    assert_eq!(mouse(&mut app, click, 10, 1), None, "the heading is none");
    assert_eq!(mouse(&mut app, MouseEventKind::ScrollUp, 10, 3), Some(Effect::Selected));
    assert_eq!(selected(&app), "ghjkghjkghjk");
    let details = app.places().details;
    app.most_scroll.set(100);
    mouse(&mut app, MouseEventKind::ScrollDown, 10, details.y + 1);
    assert_eq!((app.scroll, app.in_details), (3, false));
    mouse(&mut app, click, 10, details.y + 1);
    assert!(app.in_details);
    typed(&mut app, "s");
    mouse(&mut app, click, 10, 2);
    assert_eq!(selected(&app), "ghjkghjkghjk", "a question is answered first");
}

#[test]
fn what_was_refused_is_counted_since_it_was_looked_at() {
    let mut app = fresh();
    let blocked = |app: &App| app.blocked(&app.snapshot.launches[0]);
    assert_eq!(blocked(&app), 4);
    typed(&mut app, "j");
    assert_eq!(blocked(&app), 0, "it has been seen");
    let mut snapshot = several();
    snapshot.launches[0].standing.told.as_mut().unwrap().blocked.egress += 2;
    app.take(Arc::new(snapshot));
    assert_eq!(blocked(&app), 2);
}

#[test]
fn the_first_is_selected_whichever_answers_first_until_a_key_comes() {
    let mut second_alone = several();
    second_alone.launches.remove(0);
    for (keys, wanted) in [("", "bcdfbcdfbcdf"), ("?", "ghjkghjkghjk")] {
        let mut app = app(COLOURS, second_alone.clone());
        typed(&mut app, keys);
        let effect = app.take(Arc::new(several()));
        assert_eq!(selected(&app), wanted);
        assert_eq!(effect.is_some(), keys.is_empty());
    }
}

#[test]
fn a_launch_that_goes_leaves_its_place_to_the_next() {
    let mut app = fresh();
    typed(&mut app, "jj");
    let mut snapshot = several();
    snapshot.launches.remove(2);
    assert_eq!(app.take(Arc::new(snapshot)), Some(Effect::Selected));
    assert_eq!(selected(&app), "rstvrstvrstv");
    assert_eq!(app.take(Arc::new(several())), None, "it stays where it is");
    assert_eq!(selected(&app), "rstvrstvrstv");
}

#[test]
fn what_was_open_on_a_launch_that_goes_is_closed_and_no_key_is_about_another() {
    let mut gone = several();
    gone.launches.remove(1);
    for open in ["l", "p", "/", "\t"] {
        let mut app = fresh();
        typed(&mut app, "j");
        let code =
            if open == "\t" { KeyCode::Tab } else { KeyCode::Char(open.as_bytes()[0].into()) };
        key(&mut app, code);
        assert!(app.view != View::Launches || app.in_details, "control: {open:?} is open");
        app.take(Arc::new(several()));
        assert!(app.view != View::Launches || app.in_details, "control: it is there still");
        assert_eq!(app.take(Arc::new(gone.clone())), Some(Effect::Selected));
        assert_eq!((app.view, app.in_details), (View::Launches, false), "{open:?}");
        // What is typed was meant for what was there.
        for c in "sovagplq".chars() {
            assert_eq!(typed(&mut app, &c.to_string()), None, "{open:?} {c}");
        }
        assert_eq!((app.view, selected(&app)), (View::Launches, "mnpqmnpqmnpq".to_owned()));
        key(&mut app, KeyCode::Enter);
        assert!(app.dialogue.is_none());
        let verify = Action::Verify("mnpqmnpqmnpq".into());
        assert_eq!(typed(&mut app, "v"), Some(Effect::Act(verify)), "the list has the keys again");
    }
    // A question that is open says which launch it is about.
    let mut app = fresh();
    typed(&mut app, "jls");
    app.take(Arc::new(gone));
    let stop = Action::Stop("ghjkghjkghjk".into());
    assert_eq!(typed(&mut app, "y"), Some(Effect::Act(stop)));
}

#[test]
fn pins_are_shown_of_the_launch_that_they_are_of() {
    let of = |launch: &str| Outcome::Pins { launch: launch.into(), lines: vec![launch.into()] };
    let mut app = fresh();
    typed(&mut app, "pqjp");
    app.hear(of("bcdfbcdfbcdf"));
    assert_eq!(app.pins, None, "it came late");
    app.hear(of("ghjkghjkghjk"));
    assert_eq!(app.pins, Some(vec!["ghjkghjkghjk".into()]));
}

#[test]
fn what_is_searched_for_has_a_bound() {
    let mut app = fresh();
    typed(&mut app, "l/");
    typed(&mut app, &"x".repeat(300));
    assert_eq!(app.filter, "x".repeat(200));
    assert_eq!(app.on_event(Event::Paste("more".into())), None);
    assert_eq!(app.filter.len(), 200);
    key(&mut app, KeyCode::Backspace);
    key(&mut app, KeyCode::Backspace);
    app.on_event(Event::Paste("\u{1b}\u{1b}".repeat(10_000_000)));
    assert_eq!(app.filter, format!("{}\\u", "x".repeat(198)));
}
