//! Tells the person: by a notification, and where herdr shows none in a pane.

use std::time::Duration;

use super::Desk;
use super::api::{Opening, Place};
use super::order::Order;
use super::result::{Done, Failure, safe};
use crate::cli::{Action, PaneKind};
use crate::output::complain;

/// herdr shows one notification a second, and none while one is up.
const AGAIN: Duration = Duration::from_millis(1100);
/// What a pane is told, in bytes: it is handed over in its environment.
const MOST_TEXT: usize = 32 << 10;

/// A failure for a person.
pub(super) fn lines(failure: &Failure) -> Vec<String> {
    let next = failure.next.iter().map(|next| format!("  next: {next}"));
    std::iter::once(failure.message.clone()).chain(next).collect()
}

/// Tells what an action came to. What cannot be told is told in herdr's log.
pub(super) fn tell(action: Action, result: &Result<Done, Failure>, desk: &Desk) {
    let (title, lines) = match result {
        Ok(done) if done.summary.is_empty() => return,
        Ok(done) => (format!("Paddock: {}", done.summary), done.lines.clone()),
        Err(failure) => (format!("Paddock: {} failed", action.id()), lines(failure)),
    };
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    desk.herdr.try_again();
    if is_notified(&title, &lines.join("; "), desk) {
        return;
    }
    let text = safe(&format!("{title}\n\n{}", lines.join("\n")));
    if let Err(error) = show_in_pane(&text, desk) {
        complain(format_args!("nobody could be told: {error}"));
    }
}

/// Shows a notification; false when the person cannot have seen it.
pub(super) fn is_notified(title: &str, body: &str, desk: &Desk) -> bool {
    for is_last in [false, true] {
        match desk.herdr.notify(title, body) {
            Ok(None) => return true,
            Ok(Some(reason)) if !is_last && matches!(&*reason, "rate_limited" | "busy") => {
                std::thread::sleep(AGAIN);
            }
            Ok(Some(_)) => return false,
            Err(error) => {
                complain(error);
                return false;
            }
        }
    }
    false
}

fn show_in_pane(text: &str, desk: &Desk) -> Result<(), super::api::ApiError> {
    let end = (0..=text.len().min(MOST_TEXT)).rev().find(|end| text.is_char_boundary(*end));
    let order = Order { text: Some(text[..end.unwrap_or(0)].into()), ..Order::default() };
    let mut opening = Opening {
        entrypoint: PaneKind::Message.id(),
        place: Place::Popup,
        // What is started while it has the focus is about the same place.
        cwd: desk.context.directories.iter().find(|path| path.is_dir()).cloned(),
        environment: vec![order.variable()],
        focus: true,
    };
    // There is one popup at most, and none over herdr's own dialogs.
    if desk.herdr.open(&opening).is_ok() {
        return Ok(());
    }
    opening.place = Place::Overlay;
    desk.herdr.open(&opening).map(drop)
}
