//! What the overlay shows, and how that changes with what is typed. Does nothing by
//! itself: what is to be done is given back as an [`Effect`].

use std::cell::Cell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use crossterm::event::{Event, KeyCode, KeyEvent, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Size};

use super::actions::{Action, Outcome};
use super::collect::{Row, Snapshot};
use super::input::{Command, command_of, is_ctrl_c, is_press};
use super::layout::{Form, Places, first_shown, places};
use super::ledger::Lines;
use super::theme::Theme;
use crate::commands::{Parts, Tone};
use crate::keeper::{Asked, Scope, Wanted};
use crate::standing::Held;

/// Which screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum View {
    #[default]
    Launches,
    Ledger,
    Pins,
    Help,
}

/// What waits for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dialogue {
    Stop {
        launch: String,
    },
    Prune,
    Answer {
        launch: String,
        asked: Asked,
    },
    /// Nothing is asked that could be answered: the next key, which may have been meant
    /// for an answer, does nothing.
    NothingAsked {
        launch: String,
        /// The question was there.
        was_asked: bool,
    },
    /// What was on the screen was about this launch, which is not there any more. What is
    /// typed may still have been meant for that.
    Gone {
        launch: String,
    },
    /// A text to search for is being typed.
    Search,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Act(Action),
    /// Another launch is looked at.
    Selected,
    OpenLedger(PathBuf),
    CloseLedger,
    Shell(String),
    Suspend,
    Quit,
}

/// The longest text that is searched for, in characters.
const MOST_SEARCHED: usize = 200;

/// How far a wheel goes at once.
const WHEEL: usize = 3;

/// The state.
pub(super) struct App {
    pub(super) theme: Theme,
    pub(super) size: Size,
    pub(super) snapshot: Arc<Snapshot>,
    /// Nothing has been found yet.
    pub(super) is_first: bool,
    selected: Option<String>,
    /// A key or a click has come. Until then the first launch is selected, whichever
    /// keeper answers first.
    is_touched: bool,
    pub(super) view: View,
    /// The launch that the view is about; without one it is the one that is selected.
    subject: Option<String>,
    /// The details have the keys.
    pub(super) in_details: bool,
    pub(super) scroll: usize,
    /// How far the view can be scrolled: known once it was drawn.
    pub(super) most_scroll: Cell<usize>,
    pub(super) dialogue: Option<Dialogue>,
    pub(super) message: Option<(Tone, String)>,
    /// How much had been refused when a launch was looked at last.
    looked: HashMap<String, u64>,
    pub(super) ledger: Arc<Lines>,
    /// Only lines with this are shown.
    pub(super) filter: String,
    pub(super) pins: Option<Vec<String>>,
    /// The person's, which is shown as `~`.
    pub(super) home: PathBuf,
    /// A shell gets a pane of herdr's.
    pub(super) has_panes: bool,
}

impl App {
    pub(super) fn new(theme: Theme, size: Size) -> Self {
        Self {
            theme,
            size,
            snapshot: Arc::default(),
            is_first: true,
            selected: None,
            is_touched: false,
            view: View::Launches,
            subject: None,
            in_details: false,
            scroll: 0,
            most_scroll: Cell::new(0),
            dialogue: None,
            message: None,
            looked: HashMap::new(),
            ledger: Arc::default(),
            filter: String::new(),
            pins: None,
            home: PathBuf::new(),
            has_panes: false,
        }
    }

    /// The launch that is looked at, and its place.
    pub(super) fn selected(&self) -> Option<(usize, &Row)> {
        let id = self.selected.as_ref()?;
        let mut rows = self.snapshot.launches.iter().enumerate();
        rows.find(|(_, row)| row.standing.launch == *id)
    }

    /// The launch that the view and the keys are about.
    pub(super) fn subject(&self) -> Option<&Row> {
        let Some(id) = &self.subject else { return self.selected().map(|(_, row)| row) };
        self.snapshot.launches.iter().find(|row| row.standing.launch == *id)
    }

    pub(super) fn selected_id(&self) -> Option<String> {
        self.selected().map(|(_, row)| row.standing.launch.clone())
    }

    /// What was refused in a launch since it was looked at last.
    pub(super) fn blocked(&self, row: &Row) -> u64 {
        let looked = self.looked.get(&row.standing.launch).copied().unwrap_or(0);
        row.standing.blocked().saturating_sub(looked)
    }

    pub(super) fn places(&self) -> Places {
        let footer = super::draw::footer_height(self);
        places(self.size, self.snapshot.launches.len(), footer, self.in_details)
    }

    /// Takes what was found; tells when another launch is looked at for it.
    pub(super) fn take(&mut self, snapshot: Arc<Snapshot>) -> Option<Effect> {
        let place = self.selected().map_or(0, |(place, _)| place);
        self.snapshot = snapshot;
        self.is_first = false;
        let launches = &self.snapshot.launches;
        self.looked.retain(|id, _| launches.iter().any(|row| row.standing.launch == *id));
        if let Some(Dialogue::Answer { launch, asked }) = &self.dialogue
            && is_withdrawn(launches, launch, asked)
        {
            let launch = launch.clone();
            self.dialogue = Some(Dialogue::NothingAsked { launch, was_asked: true });
        }
        if self.is_touched && self.selected().is_some() {
            return None;
        }
        if self.selected().is_none() {
            self.leave_what_is_gone();
        }
        let launches = &self.snapshot.launches;
        let place = if self.is_touched { place } else { 0 };
        let next = launches.get(place).or_else(|| launches.last());
        let before =
            std::mem::replace(&mut self.selected, next.map(|row| row.standing.launch.clone()));
        if before == self.selected {
            return None;
        }
        self.scroll = 0;
        Some(Effect::Selected)
    }

    /// Closes what was about the launch that was selected: the keys would be about
    /// another.
    fn leave_what_is_gone(&mut self) {
        let is_open = self.subject.is_some() || self.in_details;
        let Some(launch) = self.selected.clone().filter(|_| is_open) else { return };
        self.in_details = false;
        if self.subject.take().is_some() {
            self.view = View::Launches;
        }
        // A question names the launch or what it is about by itself.
        if matches!(self.dialogue, None | Some(Dialogue::Search)) {
            self.dialogue = Some(Dialogue::Gone { launch });
        }
    }

    /// Takes what came of an action.
    pub(super) fn hear(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Said(tone, text) => self.message = Some((tone, text)),
            Outcome::NoPane(why) => {
                self.has_panes = false;
                let text = format!("{why}; o opens the shell in this terminal now");
                self.message = Some((Tone::Notable, text));
            }
            Outcome::Pins { launch, lines } if self.subject.as_ref() == Some(&launch) => {
                self.pins = Some(lines);
            }
            // The view has been closed.
            Outcome::Pins { .. } => {}
        }
    }

    pub(super) fn on_event(&mut self, event: Event) -> Option<Effect> {
        self.is_touched |= matches!(event, Event::Key(_) | Event::Mouse(_));
        match event {
            Event::Key(key) if is_press(key) => {
                self.message = None;
                self.on_key(key)
            }
            Event::Mouse(mouse) => self.on_mouse(mouse),
            // What is pasted is text and nothing else.
            Event::Paste(text) if self.dialogue == Some(Dialogue::Search) => {
                self.search(text.trim());
                None
            }
            Event::Resize(width, height) => {
                self.size = Size::new(width, height);
                None
            }
            _ => None,
        }
    }

    fn on_key(&mut self, key: KeyEvent) -> Option<Effect> {
        if is_ctrl_c(key) {
            return Some(Effect::Quit);
        }
        match self.dialogue.take() {
            Some(dialogue) => self.on_answer(dialogue, key.code),
            None => self.on_command(command_of(key)?),
        }
    }

    fn on_answer(&mut self, dialogue: Dialogue, code: KeyCode) -> Option<Effect> {
        match (dialogue, code) {
            (Dialogue::Stop { launch }, KeyCode::Char('y')) => {
                self.message = Some((Tone::Notable, format!("launch {launch} is being stopped")));
                return Some(Effect::Act(Action::Stop(launch)));
            }
            (Dialogue::Prune, KeyCode::Char('y')) => return Some(Effect::Act(Action::Prune)),
            (Dialogue::Answer { launch, asked }, code) => return self.answer(launch, asked, code),
            (Dialogue::NothingAsked { .. }, _)
            | (Dialogue::Gone { .. }, KeyCode::Enter | KeyCode::Esc) => {}
            (dialogue @ Dialogue::Gone { .. }, _) => self.dialogue = Some(dialogue),
            (Dialogue::Search, code) => match code {
                KeyCode::Enter => {}
                KeyCode::Esc => self.filter.clear(),
                KeyCode::Backspace => {
                    self.filter.pop();
                    self.dialogue = Some(Dialogue::Search);
                }
                KeyCode::Char(c) => {
                    self.search(c.encode_utf8(&mut [0; 4]));
                    self.dialogue = Some(Dialogue::Search);
                }
                _ => self.dialogue = Some(Dialogue::Search),
            },
            // Only these mean no: a key that is typed by mistake does nothing.
            (dialogue, code) if !matches!(code, KeyCode::Char('n' | 'q') | KeyCode::Esc) => {
                self.dialogue = Some(dialogue);
            }
            _ => {}
        }
        None
    }

    /// Adds to what is searched for.
    fn search(&mut self, text: &str) {
        let left = MOST_SEARCHED.saturating_sub(self.filter.chars().count());
        let text: String = text.chars().take(left).collect();
        self.filter.extend(self.theme.plain(&text).chars().take(left));
        self.scroll = 0;
    }

    fn answer(&mut self, launch: String, asked: Asked, code: KeyCode) -> Option<Effect> {
        let is_host = matches!(asked.wanted, Wanted::Host(_));
        let scope = match code {
            KeyCode::Char('o') if is_host => Some(Scope::Once),
            KeyCode::Char('l') if is_host => Some(Scope::Launch),
            KeyCode::Char('A') => Some(Scope::Always),
            KeyCode::Char('d') => None,
            KeyCode::Tab => {
                let next = self.question_after(&launch, asked.number);
                self.dialogue = Some(question(launch, next, true));
                return None;
            }
            KeyCode::Char('n' | 'q') | KeyCode::Esc => return None,
            _ => {
                self.dialogue = Some(Dialogue::Answer { launch, asked });
                return None;
            }
        };
        Some(Effect::Act(Action::Answer { launch, wanted: asked.wanted, scope }))
    }

    /// The question of a launch that comes after that number, or else its first.
    fn question_after(&self, launch: &str, number: u64) -> Option<Asked> {
        let row = self.snapshot.launches.iter().find(|row| row.standing.launch == launch)?;
        let questions = &row.standing.told.as_ref()?.questions;
        let next = questions.iter().find(|asked| asked.number > number);
        next.or_else(|| questions.first()).cloned()
    }

    fn on_command(&mut self, command: Command) -> Option<Effect> {
        match command {
            Command::Quit => return self.back(),
            Command::Suspend => return Some(Effect::Suspend),
            Command::Help => self.open(View::Help),
            Command::Down => return self.step(1, true),
            Command::Up => return self.step(1, false),
            Command::PageDown => return self.page(true),
            Command::PageUp => return self.page(false),
            Command::First => return self.step(usize::MAX, false),
            Command::Last => return self.step(usize::MAX, true),
            Command::Prune => self.dialogue = Some(Dialogue::Prune),
            Command::Switch if self.view == View::Launches => {
                self.in_details = !self.in_details && self.selected().is_some();
            }
            Command::Switch => {}
            _ => return self.on_launch(command),
        }
        None
    }

    /// What is about the launch that is looked at.
    fn on_launch(&mut self, command: Command) -> Option<Effect> {
        let Some(row) = self.subject() else {
            self.message =
                Some((Tone::Notable, "there is no launch; paddock run starts one".into()));
            return None;
        };
        let standing = &row.standing;
        let launch = standing.launch.clone();
        let has_ended = standing.held == Held::Ended;
        match command {
            Command::Verify => {
                let text = format!("launch {launch} is being looked at");
                self.message = Some((Tone::Plain, text));
                return Some(Effect::Act(Action::Verify(launch)));
            }
            Command::Stop | Command::Shell if has_ended => {
                self.message = Some((Tone::Notable, format!("launch {launch} has ended already")));
            }
            Command::Stop => self.dialogue = Some(Dialogue::Stop { launch }),
            Command::Shell if self.has_panes => {
                let text = format!("a shell beside launch {launch} is being opened in a pane");
                self.message = Some((Tone::Plain, text));
                return Some(Effect::Act(Action::ShellPane(launch)));
            }
            Command::Shell => return Some(Effect::Shell(launch)),
            Command::Answer => {
                let first = self.question_after(&launch, 0);
                self.dialogue = Some(question(launch, first, false));
            }
            Command::Jump => {
                if let Some(pane) = &standing.pane {
                    let (socket, pane) = (pane.socket.clone(), pane.pane_id.clone());
                    return Some(Effect::Act(Action::Jump { socket, pane }));
                }
                let text = "it was not started in a pane of herdr's: there is none to go to";
                self.message = Some((Tone::Notable, text.into()));
            }
            Command::Pins => {
                self.open(View::Pins);
                self.subject = Some(launch.clone());
                self.pins = None;
                return Some(Effect::Act(Action::Pins(launch)));
            }
            Command::Ledger | Command::Search => {
                let directory = standing.directory.clone();
                if command == Command::Search {
                    self.dialogue = Some(Dialogue::Search);
                    self.filter.clear();
                }
                if self.view != View::Ledger {
                    self.open(View::Ledger);
                    self.subject = Some(launch);
                    self.ledger = Arc::default();
                    return Some(Effect::OpenLedger(directory));
                }
            }
            _ => {}
        }
        None
    }

    fn open(&mut self, view: View) {
        self.view = view;
        self.subject = None;
        self.scroll = 0;
        if view == View::Ledger {
            self.filter.clear();
        }
    }

    fn back(&mut self) -> Option<Effect> {
        let view = std::mem::take(&mut self.view);
        self.subject = None;
        let is_alone = Form::of(self.size) == Form::Alone;
        match view {
            View::Launches if self.in_details && is_alone => self.in_details = false,
            View::Launches => return Some(Effect::Quit),
            _ => self.scroll = 0,
        }
        (view == View::Ledger).then_some(Effect::CloseLedger)
    }

    /// Up or down: in the list to another launch, else in the text.
    fn step(&mut self, count: usize, down: bool) -> Option<Effect> {
        if self.view == View::Launches && !self.in_details {
            let place = self.selected().map_or(0, |(place, _)| place);
            let last = self.snapshot.launches.len().saturating_sub(1);
            let place =
                if down { place.saturating_add(count) } else { place.saturating_sub(count) };
            return self.select(place.min(last));
        }
        self.scroll(count, down);
        None
    }

    fn scroll(&mut self, count: usize, down: bool) {
        // The ledger's end is where it begins.
        let further = down != (self.view == View::Ledger);
        self.scroll = if further {
            self.scroll.saturating_add(count).min(self.most_scroll.get())
        } else {
            self.scroll.saturating_sub(count)
        };
    }

    fn page(&mut self, down: bool) -> Option<Effect> {
        let places = self.places();
        let page = match self.view {
            View::Launches if !self.in_details => places.rows(),
            View::Launches => places.lines(),
            _ => usize::from(self.size.height.saturating_sub(3)),
        };
        self.step(page.max(1), down)
    }

    fn select(&mut self, place: usize) -> Option<Effect> {
        let id = self.snapshot.launches.get(place)?.standing.launch.clone();
        if self.selected.as_ref() == Some(&id) {
            return None;
        }
        // What was to be seen of the one before has been.
        if let Some((_, row)) = self.selected() {
            let (id, blocked) = (row.standing.launch.clone(), row.standing.blocked());
            self.looked.insert(id, blocked);
        }
        self.selected = Some(id);
        self.scroll = 0;
        Some(Effect::Selected)
    }

    fn on_mouse(&mut self, mouse: MouseEvent) -> Option<Effect> {
        let place = Position::new(mouse.column, mouse.row);
        let places = self.places();
        let in_list = self.view == View::Launches && places.list.contains(place);
        match mouse.kind {
            MouseEventKind::Down(MouseButton::Left)
                if self.view == View::Launches && self.dialogue.is_none() =>
            {
                self.in_details = places.details.contains(place);
                let row = places.row_at(place)?;
                let selected = self.selected().map_or(0, |(place, _)| place);
                self.select(first_shown(selected, places.rows()) + row)
            }
            MouseEventKind::ScrollDown | MouseEventKind::ScrollUp => {
                let down = mouse.kind == MouseEventKind::ScrollDown;
                if in_list {
                    let place = self.selected().map_or(0, |(place, _)| place);
                    return self.select(if down { place + 1 } else { place.saturating_sub(1) });
                }
                self.scroll(WHEEL, down);
                None
            }
            _ => None,
        }
    }

    /// The lines of the ledger that are searched for.
    pub(super) fn found(&self) -> Vec<&Parts> {
        let wanted = self.filter.to_lowercase();
        let has = |line: &&Parts| {
            wanted.is_empty()
                || line.what.to_lowercase().contains(&wanted)
                || line.event.to_lowercase().contains(&wanted)
        };
        self.ledger.lines.iter().map(|line| &**line).filter(has).collect()
    }
}

/// What is asked next about a launch.
fn question(launch: String, asked: Option<Asked>, was_asked: bool) -> Dialogue {
    match asked {
        Some(asked) => Dialogue::Answer { launch, asked },
        None => Dialogue::NothingAsked { launch, was_asked },
    }
}

/// Whether a launch does not ask that any more. A keeper that does not answer has taken
/// nothing back.
fn is_withdrawn(launches: &[Row], launch: &str, asked: &Asked) -> bool {
    let row = launches.iter().find(|row| row.standing.launch == launch);
    row.is_none_or(|row| match &row.standing.told {
        Some(told) => !told.questions.contains(asked),
        None => row.standing.held == Held::Ended,
    })
}
