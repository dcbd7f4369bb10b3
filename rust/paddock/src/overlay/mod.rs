//! `paddock overlay`: every launch, live, and what can be done about it.
//!
//! Three parts that do not mix, as in bottom: [`collect`] finds out, on threads of its
//! own; [`app`] is what is shown and how keys change it; [`draw`] draws. This thread
//! draws and reads keys, and waits for nothing else: what is to be done goes to
//! [`actions`].

mod actions;
mod app;
mod collect;
mod draw;
mod input;
mod layout;
mod ledger;
mod policy;
mod terminal;
#[cfg(test)]
mod tests;
mod theme;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crossterm::event;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};

use crate::cli::status::Overlay;
use crate::error::Error;
use crate::launch::Directories;
use crate::output::complain;
use actions::{Actions, Outcome};
use app::{App, Effect, View};
use collect::{Slot, Teller, Told};
use ledger::Reading;
use terminal::{Alarm, Terminal};
use theme::Theme;

/// Shows launches until the person quits.
///
/// # Errors
/// When there is no terminal.
pub(crate) fn overlay(options: &Overlay) -> Result<u8, Error> {
    let directories = Directories::find()?;
    let failed = |e: io::Error| Error::Output { reason: e.to_string() };
    let terminal = Terminal::take()?;
    let alarm = Alarm::set().map_err(failed)?;
    let slot = Arc::new(Slot::default());
    let collector = collect::start(&directories, slot.clone(), alarm.waker()).map_err(failed)?;
    let (sender, outcomes) = channel();
    let size = terminal.size().map_err(failed)?;
    let mut app = App::new(Theme::find(options.ascii), size);
    app.home.clone_from(&directories.home);
    app.has_panes = crate::plugin::is_in_pane();
    let ui = Ui {
        app,
        terminal,
        actions: Actions::new(directories, sender, alarm.waker()),
        alarm,
        slot,
        collector,
        outcomes,
        reading: None,
    };
    // Whoever finds out and acts ends with the process.
    ui.run().map_err(failed)
}

struct Ui {
    terminal: Terminal,
    alarm: Alarm,
    app: App,
    slot: Arc<Slot>,
    collector: Teller,
    actions: Actions,
    outcomes: Receiver<Outcome>,
    reading: Option<Reading>,
}

/// How it ends.
type End = u8;

impl Ui {
    fn run(mut self) -> io::Result<End> {
        loop {
            self.draw()?;
            let woken = self.alarm.wait(None);
            if woken.is_gone {
                return Ok(128 + 1);
            }
            if let Some(end) = self.on_signals()? {
                return Ok(end);
            }
            if woken.has_input && self.read_keys()? {
                return Ok(0);
            }
            self.hear();
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let app = &mut self.app;
        self.terminal.draw(|frame| {
            app.size = frame.area().as_size();
            draw::draw(frame, app);
        })
    }

    /// What has been found and done meanwhile.
    fn hear(&mut self) {
        if let Some(snapshot) = self.slot.take()
            && self.app.take(snapshot).is_some()
        {
            self.tell_selected();
        }
        while let Ok(outcome) = self.outcomes.try_recv() {
            self.app.hear(outcome);
            self.collector.tell(Told::LookAgain);
        }
        if self.app.view != View::Ledger {
            self.reading = None;
        }
        if let Some(reading) = &self.reading {
            self.app.ledger = reading.lines();
        }
    }

    /// Reads what was typed; whether that ends it.
    fn read_keys(&mut self) -> io::Result<bool> {
        while event::poll(Duration::ZERO)? {
            match self.app.on_event(event::read()?) {
                Some(Effect::Quit) => return Ok(true),
                Some(effect) => self.bring_about(effect)?,
                None => {}
            }
        }
        Ok(false)
    }

    fn bring_about(&mut self, effect: Effect) -> io::Result<()> {
        match effect {
            Effect::Act(action) => {
                if !self.actions.begin(action) {
                    let text = "too much is under way; wait a moment".to_owned();
                    self.app.message = Some((crate::commands::Tone::Notable, text));
                }
            }
            Effect::Selected => self.tell_selected(),
            Effect::OpenLedger(directory) => {
                self.reading = Some(Reading::start(&directory, self.alarm.waker()));
            }
            Effect::CloseLedger => self.reading = None,
            Effect::Shell(launch) => {
                self.alarm.is_lent(true);
                let alarm = &self.alarm;
                let outcome = self.terminal.lend(|| {
                    let outcome = actions::open_shell(&launch, alarm);
                    // What it said is to be read.
                    let is_fine = matches!(outcome, Outcome::Said(crate::commands::Tone::Plain, _));
                    if !is_fine && !alarm.is_ending() {
                        complain("Enter goes back to the overlay");
                        let _ = io::stdin().read_line(&mut String::new());
                    }
                    outcome
                })?;
                self.alarm.is_lent(false);
                self.app.hear(outcome);
            }
            Effect::Suspend => {
                if !terminal::suspend_job() {
                    let text = "no shell here could continue it".to_owned();
                    self.app.message = Some((crate::commands::Tone::Notable, text));
                }
            }
            Effect::Quit => {}
        }
        Ok(())
    }

    fn tell_selected(&self) {
        self.collector.tell(Told::Selected(self.app.selected_id()));
    }

    /// Does what signals ask for; the status, when it is to end.
    fn on_signals(&mut self) -> io::Result<Option<End>> {
        for signal in self.alarm.signals() {
            match signal {
                SIGTERM | SIGHUP | SIGINT | SIGQUIT => return Ok(u8::try_from(128 + signal).ok()),
                SIGTSTP => self.terminal.lend(terminal::stop_here)?,
                // Another size is seen when it is drawn.
                _ => {}
            }
        }
        Ok(None)
    }
}
