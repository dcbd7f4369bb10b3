//! Screens of made-up launches, and what keys and clicks do to them.

mod collecting;
mod keys;
mod made_up;
mod properties;
mod screens;

use confine::{Pid, ProcessId};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Size;

use super::app::App;
use super::draw;
use super::theme::Theme;
use crate::launch::{Directories, LaunchId, Tier};
use crate::state::{KeeperLock, Phase, Record};

const COLOURS: Theme = Theme { colour: true, ascii: false };

/// What is drawn on a screen of that size.
fn drawn(app: &mut App, width: u16, height: u16) -> Buffer {
    app.size = Size::new(width, height);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::draw(frame, app)).unwrap();
    terminal.backend().buffer().clone()
}

/// The same as text, without what is blank at the end of a line.
fn screen(app: &mut App, width: u16, height: u16) -> String {
    let buffer = drawn(app, width, height);
    let line = |y| -> String {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..width {
            let symbol = buffer[(x, y)].symbol();
            // A wide character takes the next cell, too.
            if skip == 0 {
                line.push_str(symbol);
                skip = super::theme::width(symbol).saturating_sub(1);
            } else {
                skip -= 1;
            }
        }
        line.trim_end().to_owned()
    };
    (0..height).map(line).collect::<Vec<_>>().join("\n")
}

/// Writes the record of a launch of which this process is the keeper, for as long as the
/// lock is held.
pub(super) fn store(own: &Directories, id: &str, phase: Phase) -> KeeperLock {
    let directory = own.launches().join(id);
    std::fs::create_dir_all(&directory).unwrap();
    let at_runtime = own.runtime.join(id);
    std::fs::create_dir_all(&at_runtime).unwrap();
    let lock = KeeperLock::take(&directory).unwrap().unwrap();
    let pid = Pid::of_self();
    let keeper = ProcessId { pid, start: confine::proc::start_time(pid).unwrap() };
    let launch = LaunchId::try_from(id.to_owned()).unwrap();
    let workspace = own.home.join("project");
    let mut record =
        Record::new(launch, "standin".into(), Tier::Sealed, workspace, at_runtime, keeper);
    record.phase = phase;
    if phase == Phase::Ended {
        record.end(0, None);
    }
    record.store(&lock).unwrap();
    lock
}
