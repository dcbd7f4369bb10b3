//! Screens of made-up launches, and what keys and clicks do to them.

mod keys;
mod made_up;
mod properties;
mod screens;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Size;

use super::app::App;
use super::draw;
use super::theme::Theme;

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
