//! A terminal's screen as a picture (SVG), cell by cell.

use std::fmt::Write;

use vt100::{Color, Screen};

/// In pixels, of a font of 14.
const CELL: (u16, u16) = (9, 18);
const MARGIN: u16 = 8;
const FOREGROUND: &str = "#d0d0d0";
const BACKGROUND: &str = "#101418";

/// The screen as it is: characters, colours, bold, dim and reversed.
pub fn svg(screen: &Screen) -> String {
    let (rows, columns) = screen.size();
    let (width, height) = (
        u32::from(columns.get() * CELL.0 + 2 * MARGIN),
        u32::from(rows.get() * CELL.1 + 2 * MARGIN),
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"14\" xml:space=\"preserve\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"{BACKGROUND}\"/>\n"
    );
    for row in 0..rows.get() {
        line(&mut svg, screen, row, columns.get());
    }
    svg.push_str("</svg>\n");
    svg
}

/// How a run of cells looks.
#[derive(Clone, PartialEq, Eq)]
struct Look {
    colour: &'static str,
    bold: bool,
    dim: bool,
    reversed: bool,
}

fn line(svg: &mut String, screen: &Screen, row: u16, columns: u16) {
    let mut column = 0;
    while column < columns {
        let first = column;
        let Some(look) = screen.cell(row, column).map(look) else { return };
        let mut text = String::new();
        while let Some(cell) = screen.cell(row, column).filter(|cell| self::look(cell) == look) {
            text.push_str(if cell.has_contents() { cell.contents() } else { " " });
            column += 1;
        }
        if text.trim().is_empty() && !look.reversed {
            continue;
        }
        let (x, y) = (MARGIN + first * CELL.0, MARGIN + row * CELL.1);
        let width = (column - first) * CELL.0;
        if look.reversed {
            let fill = look.colour;
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{}\" fill=\"{fill}\"/>",
                CELL.1
            );
        }
        let fill = if look.reversed { BACKGROUND } else { look.colour };
        let bold = if look.bold { " font-weight=\"bold\"" } else { "" };
        let dim = if look.dim { " opacity=\"0.65\"" } else { "" };
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{}\" textLength=\"{width}\" fill=\"{fill}\"{bold}{dim}>{}</text>",
            y + 14,
            escaped(&text)
        );
    }
}

fn look(cell: &vt100::Cell) -> Look {
    let colour = match cell.fgcolor() {
        Color::Idx(1 | 9) => "#f2777a",
        Color::Idx(2 | 10) => "#8bd49c",
        Color::Idx(3 | 11) => "#f0c674",
        Color::Idx(6 | 14) => "#70c0ba",
        _ => FOREGROUND,
    };
    Look { colour, bold: cell.bold(), dim: cell.dim(), reversed: cell.inverse() }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
