//! The terminal of a pane that waits for a key: given back from whatever the program
//! before left on, and read so that what a terminal reports is no key.

use std::io::Write;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Leaves every mode that a program may have left on, wherever it stopped writing: a
/// half-written sequence, origin and insert mode, margins, the character sets, mouse
/// and focus reports, bracketed paste, keyboard protocols, held-back drawing, the
/// alternate screen, a link, a hidden cursor, concealed text. What is on the screen
/// stays. Leaving the alternate screen and setting margins move the cursor, which is
/// saved before.
const RESET: &[u8] = b"\x18\x1b\\\x1b[!p\x1b7\x1b[?69l\x1b[r\x1b8\x1b[?6l\x1b[4l\x1b[20l\
    \x1b(B\x0f\x1b>\x1b[?1l\x1b[?5l\x1b[?7h\
    \x1b[?9l\x1b[?1000l\x1b[?1001l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l\
    \x1b[?1004l\x1b[?2004l\x1b[?2026l\x1b[?2031l\x1b[?2048l\x1b[<99u\x1b[=0u\x1b[>4;0m\
    \x1b7\x1b[?1049l\x1b]8;;\x1b\\\x1b[?25h\x1b[0m\r\n";
/// In which the rest of a sequence follows its start.
const REST: Duration = Duration::from_millis(100);
/// No sequence is longer: what goes on is typed.
const LONGEST: usize = 64 << 10;

const ESCAPE: u8 = 0x1b;

/// Writes [`RESET`].
pub(super) fn reset() {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(RESET).and_then(|()| out.flush());
}

/// The terminal, set to give each key without an Enter.
pub(super) struct Keyboard {
    before: Termios,
}

impl Keyboard {
    /// Where there is a terminal.
    pub(super) fn take() -> Option<Self> {
        let before = tcgetattr(stdin()).ok()?;
        let mut settings = before.clone();
        settings.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(stdin(), OptionalActions::Flush, &settings).ok()?;
        Some(Self { before })
    }

    /// The next key that is a character or an Enter; `None` when the terminal is gone.
    pub(super) fn read(self) -> Option<char> {
        let byte = key(&mut |is_rest| {
            if is_rest && !is_ready(REST) {
                return None;
            }
            // Unbuffered: what is read ahead would not be waited for.
            let mut byte = [0];
            match rustix::io::retry_on_intr(|| rustix::io::read(stdin(), &mut byte)) {
                Ok(1) => Some(byte[0]),
                _ => None,
            }
        });
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
        byte.map(char::from)
    }
}

fn is_ready(limit: Duration) -> bool {
    let limit = Timespec::try_from(limit).ok();
    let stdin = stdin();
    let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut waiting, limit.as_ref())).is_ok_and(|n| n > 0)
}

/// The next byte of a key; of others than ASCII the first. `next` gives the next byte, or of
/// what has begun the rest that is there.
fn key(next: &mut dyn FnMut(bool) -> Option<u8>) -> Option<u8> {
    loop {
        match next(false)? {
            ESCAPE => skip_sequence(next),
            byte @ (b'\r' | b'\n' | b' '..=b'~' | 0xc2..=0xf4) => return Some(byte),
            // Neither other control characters, nor the rest of a character.
            _ => {}
        }
    }
}

/// Drops what follows an escape character (ECMA-48): what a terminal answers to a question
/// that the program before asked, a report of its mouse, a key without a character.
fn skip_sequence(next: &mut dyn FnMut(bool) -> Option<u8>) {
    match next(true) {
        Some(b'[') => {
            let first = next(true);
            let mut byte = first;
            for _ in 0..LONGEST {
                match byte {
                    Some(b'@'..=b'~') | None => break,
                    Some(_) => byte = next(true),
                }
            }
            // A mouse report of the first kind: three bytes follow.
            if first == Some(b'M') {
                let _ = (0..3).try_for_each(|_| next(true).map(drop));
            }
        }
        // A string, up to BEL or ST.
        Some(b']' | b'P' | b'X' | b'^' | b'_') => {
            let mut was_escape = false;
            for _ in 0..LONGEST {
                match next(true) {
                    None | Some(0x07) => break,
                    Some(b'\\') if was_escape => break,
                    Some(byte) => was_escape = byte == ESCAPE,
                }
            }
        }
        // One character follows.
        Some(b'O' | b'N') => drop(next(true)),
        Some(ESCAPE) => skip_sequence(next),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(input: &[u8]) -> Option<u8> {
        let mut bytes = input.iter().copied();
        key(&mut |_| bytes.next())
    }

    #[test]
    fn what_a_terminal_says_by_itself_is_no_key() {
        for said in [
            &b"\x1b[<35;12;7M"[..],
            b"\x1b[M !!",
            b"\x1b[?62;22c",
            b"\x1b[24;80R",
            b"\x1b]11;rgb:1e1e/1e1e/1e1e\x07",
            b"\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\",
            b"\x1bP1+r544e=787465726d\x1b\\",
            b"\x1b[I\x1b[O",
            b"\x1b[A\x1bOA\x1b[3~",
            b"\x1b[114;5u",
            b"\x1bx",
            b"\x03\x04\x00\x7f\x80",
        ] {
            assert_eq!(key_of(said), None, "{said:?}");
            assert_eq!(key_of(&[said, b"r"].concat()), Some(b'r'), "{said:?}");
        }
        assert_eq!(key_of(b"\x1b"), None);
    }

    #[test]
    fn characters_and_enter_are_keys() {
        for (typed, wanted) in
            [(&b"q"[..], b'q'), (b"r", b'r'), (b" ", b' '), (b"\r", b'\r'), (b"\n", b'\n')]
        {
            assert_eq!(key_of(typed), Some(wanted));
        }
        assert_eq!(key_of("é".as_bytes()), Some(0xc3));
    }

    #[test]
    fn a_pasted_text_does_not_close_by_its_frame() {
        assert_eq!(key_of(b"\x1b[200~"), None);
    }
}
