//! What the keys do.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What a person can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Down,
    Up,
    PageDown,
    PageUp,
    First,
    Last,
    /// From the list to the details, and back.
    Switch,
    Verify,
    Stop,
    Answer,
    Jump,
    Shell,
    Pins,
    Ledger,
    Search,
    Prune,
    Help,
    Quit,
    Suspend,
}

/// One row of the table of keys.
pub(super) struct Binding {
    /// As they are shown.
    pub(super) shown: &'static str,
    /// What they do.
    pub(super) what: &'static str,
    /// In the line at the bottom, in a word.
    pub(super) short: Option<&'static str>,
    pub(super) command: Command,
    codes: &'static [KeyCode],
}

const fn binding(
    shown: &'static str,
    what: &'static str,
    short: Option<&'static str>,
    command: Command,
    codes: &'static [KeyCode],
) -> Binding {
    Binding { shown, what, short, command, codes }
}

/// Every key, as the help shows it. Ctrl-C quits and Ctrl-Z suspends, too.
pub(super) const KEYS: &[Binding] = &[
    binding(
        "j, Down",
        "the next launch, or a line down",
        None,
        Command::Down,
        &[KeyCode::Char('j'), KeyCode::Down],
    ),
    binding(
        "k, Up",
        "the launch before, or a line up",
        None,
        Command::Up,
        &[KeyCode::Char('k'), KeyCode::Up],
    ),
    binding(
        "Space, PageDown",
        "a page down",
        None,
        Command::PageDown,
        &[KeyCode::Char(' '), KeyCode::PageDown],
    ),
    binding("PageUp", "a page up", None, Command::PageUp, &[KeyCode::PageUp]),
    binding("Home", "to the start", None, Command::First, &[KeyCode::Home]),
    binding("End", "to the end", None, Command::Last, &[KeyCode::End]),
    binding(
        "Enter, Tab",
        "to the details of the launch, and back",
        Some("details"),
        Command::Switch,
        &[KeyCode::Enter, KeyCode::Tab],
    ),
    binding(
        "v",
        "verify: the keeper looks at everything now",
        Some("verify"),
        Command::Verify,
        &[KeyCode::Char('v')],
    ),
    binding(
        "s",
        "stop the launch, after a question",
        Some("stop"),
        Command::Stop,
        &[KeyCode::Char('s')],
    ),
    binding(
        "a",
        "answer what the agent asks for: once, this launch, always, deny",
        Some("answer"),
        Command::Answer,
        &[KeyCode::Char('a')],
    ),
    binding(
        "g",
        "go to the pane of herdr's that it runs in",
        Some("go"),
        Command::Jump,
        &[KeyCode::Char('g')],
    ),
    binding(
        "o",
        "open a shell in its workspace, in a sandbox like its server's",
        Some("shell"),
        Command::Shell,
        &[KeyCode::Char('o')],
    ),
    binding(
        "p",
        "profiles and pins: what is recorded, and what differs",
        Some("pins"),
        Command::Pins,
        &[KeyCode::Char('p')],
    ),
    binding(
        "l",
        "ledger: what happened in the launch",
        Some("ledger"),
        Command::Ledger,
        &[KeyCode::Char('l')],
    ),
    binding(
        "/",
        "search the ledger: the lines with that text",
        None,
        Command::Search,
        &[KeyCode::Char('/')],
    ),
    binding(
        "P",
        "prune launches that have ended, after a question",
        None,
        Command::Prune,
        &[KeyCode::Char('P')],
    ),
    binding("?", "help", Some("help"), Command::Help, &[KeyCode::Char('?')]),
    binding(
        "q, Esc",
        "back, or quit",
        Some("quit"),
        Command::Quit,
        &[KeyCode::Char('q'), KeyCode::Esc],
    ),
];

/// Whether it is a key that goes down; some terminals tell when it comes up, too.
pub(super) fn is_press(key: KeyEvent) -> bool {
    key.kind != KeyEventKind::Release
}

/// What a key asks for, where no dialogue is open.
pub(super) fn command_of(key: KeyEvent) -> Option<Command> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Command::Quit),
            KeyCode::Char('z') => Some(Command::Suspend),
            _ => None,
        };
    }
    if key.modifiers.contains(KeyModifiers::ALT) {
        return None;
    }
    KEYS.iter().find(|binding| binding.codes.contains(&key.code)).map(|binding| binding.command)
}

/// Ctrl-C quits wherever it is typed.
pub(super) fn is_ctrl_c(key: KeyEvent) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c')
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUIDE: &str = include_str!("../../../../docs/guide/overlay.md");

    #[test]
    fn every_key_has_one_meaning_and_is_in_the_guide() {
        let mut seen = Vec::new();
        for binding in KEYS {
            for code in binding.codes {
                assert!(!seen.contains(code), "{code:?} twice");
                seen.push(*code);
                let key = KeyEvent::new(*code, KeyModifiers::NONE);
                assert_eq!(command_of(key), Some(binding.command));
            }
        }
        let keys = GUIDE.split("\n## ").find_map(|part| part.strip_prefix("Keys\n"));
        let rows = keys.expect("it is in the guide").lines().filter(|line| line.starts_with('|'));
        let rows: Vec<&str> = rows.skip(2).collect();
        let row = |binding: &Binding| format!("| {} | {} |", binding.shown, binding.what);
        assert_eq!(rows, KEYS.iter().map(row).collect::<Vec<_>>(), "in their order, and no other");
        let key = |c, modifiers| command_of(KeyEvent::new(KeyCode::Char(c), modifiers));
        assert_eq!(key('c', KeyModifiers::CONTROL), Some(Command::Quit));
        assert_eq!(key('z', KeyModifiers::CONTROL), Some(Command::Suspend));
        assert_eq!(key('s', KeyModifiers::CONTROL), None);
        assert_eq!(key('s', KeyModifiers::ALT), None);
    }
}
