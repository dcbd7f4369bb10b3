//! A terminal's screen as a picture (SVG), cell by cell.

use std::fmt::Write;

use vt100::{Cell, Color, Screen};

/// In pixels. A character of the usual fonts is 0.6 of their size wide.
const CELL: (u16, u16) = (9, 18);
const FONT_SIZE: u16 = 15;
const MARGIN: u16 = 8;
const FOREGROUND: &str = "#d0d0d0";
const BACKGROUND: &str = "#101418";

/// The screen as it is: characters, colours, bold, dim and reversed.
pub fn svg(screen: &Screen) -> String {
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let (width, height) = (columns * CELL.0 + 2 * MARGIN, rows * CELL.1 + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" font-size=\"{FONT_SIZE}\" \
         xml:space=\"preserve\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"{BACKGROUND}\"/>\n"
    );
    for row in 0..rows {
        line(&mut svg, screen, row, columns);
    }
    svg.push_str("</svg>\n");
    svg
}

/// How a cell looks.
#[derive(Clone, PartialEq, Eq)]
struct Look {
    text: String,
    ground: Option<String>,
    bold: bool,
    dim: bool,
}

impl Look {
    fn of(cell: &Cell) -> Self {
        let (text, ground) = (colour(cell.fgcolor()), colour(cell.bgcolor()));
        let (text, ground) = if cell.inverse() {
            let text = ground.unwrap_or_else(|| BACKGROUND.into());
            (text, Some(colour(cell.fgcolor()).unwrap_or_else(|| FOREGROUND.into())))
        } else {
            (text.unwrap_or_else(|| FOREGROUND.into()), ground)
        };
        Self { text, ground, bold: cell.bold(), dim: cell.dim() }
    }

    fn opacity(&self) -> &'static str {
        if self.dim { " opacity=\"0.65\"" } else { "" }
    }
}

/// None is the screen's own.
fn colour(colour: Color) -> Option<String> {
    let named = match colour {
        Color::Idx(1 | 9) => "#f2777a",
        Color::Idx(2 | 10) => "#8bd49c",
        Color::Idx(3 | 11) => "#f0c674",
        Color::Idx(6 | 14) => "#70c0ba",
        // The greys of the 256 colours, from dark to light.
        Color::Idx(n @ 232..=255) => {
            let part = 8 + 10 * u16::from(n - 232);
            return Some(format!("#{part:02x}{part:02x}{part:02x}"));
        }
        _ => return None,
    };
    Some(named.into())
}

fn line(svg: &mut String, screen: &Screen, row: u16, columns: u16) {
    let looks: Vec<(Look, &str)> = (0..columns)
        .filter_map(|column| screen.cell(row, column))
        .map(|cell| (Look::of(cell), cell.contents()))
        .collect();
    let y = MARGIN + row * CELL.1;
    let x = |column: usize| usize::from(MARGIN) + column * usize::from(CELL.0);
    let mut column = 0;
    for run in looks.chunk_by(|one, other| one.0.ground == other.0.ground) {
        if let Some(ground) = &run[0].0.ground {
            let (x, width) = (x(column), x(run.len()) - x(0));
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{}\" fill=\"{ground}\"/>",
                CELL.1
            );
        }
        column += run.len();
    }
    let mut column = 0;
    for run in looks.chunk_by(|one, other| one.0 == other.0 && goes_on(one.1, other.1)) {
        let look = &run[0].0;
        if let Some(arms) = arms(run[0].1) {
            frame(svg, look, (x(column), usize::from(y)), arms, run.len());
        } else if !run[0].1.trim().is_empty() {
            let text: String = run.iter().map(|(_, text)| *text).collect();
            // The cell behind a wide character has nothing in it.
            let behind = looks[column + run.len()..].iter();
            let width =
                x(run.len() + behind.take_while(|(_, text)| text.is_empty()).count()) - x(0);
            let width = if text.is_ascii() { x(run.len()) - x(0) } else { width };
            let bold = if look.bold { " font-weight=\"bold\"" } else { "" };
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" textLength=\"{width}\" \
                 lengthAdjust=\"spacingAndGlyphs\" fill=\"{}\"{bold}{}>{}</text>",
                x(column),
                y + 14,
                look.text,
                look.opacity(),
                escaped(&text)
            );
        }
        column += run.len();
    }
}

/// Whether two cells of one look are drawn as one: words are, and lines. Whatever a font
/// may not have is placed by itself, so that it shifts nothing.
fn goes_on(one: &str, other: &str) -> bool {
    let is_plain = |text: &str| text.is_ascii() && !text.trim().is_empty();
    is_plain(one) && is_plain(other) || one == "─" && other == "─"
}

/// Which ways a line of a frame goes from the middle of its cell: left, right, up, down.
fn arms(text: &str) -> Option<[bool; 4]> {
    let arms = match text {
        "─" => [true, true, false, false],
        "│" => [false, false, true, true],
        "┌" => [false, true, false, true],
        "┐" => [true, false, false, true],
        "└" => [false, true, true, false],
        "┘" => [true, false, true, false],
        _ => return None,
    };
    Some(arms)
}

/// Lines, which meet whatever the font.
fn frame(svg: &mut String, look: &Look, at: (usize, usize), arms: [bool; 4], cells: usize) {
    let (width, height) = (usize::from(CELL.0) * cells, usize::from(CELL.1));
    // In halves of a pixel, where a line is sharp.
    let (left, top) = (at.0 * 2, at.1 * 2);
    let (middle, centre) = (left + usize::from(CELL.0), top + height);
    let [to_left, to_right, up, down] = arms;
    let half = |n: usize| format!("{}.{}", n / 2, n % 2 * 5);
    let mut path = String::new();
    if to_left || to_right {
        let from = if to_left { left } else { middle };
        let to = if to_right { left + 2 * width } else { middle };
        let _ = write!(path, "M{} {}H{}", half(from), half(centre + 1), half(to));
    }
    if up || down {
        let from = if up { top } else { centre + 1 };
        let to = if down { top + 2 * height } else { centre + 1 };
        let _ = write!(path, "M{} {}V{}", half(middle), half(from), half(to));
    }
    let _ = writeln!(svg, "<path d=\"{path}\" stroke=\"{}\"{}/>", look.text, look.opacity());
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_font_may_not_have_is_placed_by_itself_and_shifts_nothing() {
        let size = |n| std::num::NonZeroU16::new(n).unwrap();
        let mut terminal = vt100::Parser::new(size(2), size(12), 0);
        terminal.process("│✓ ab\x1b[32mcd\x1b[m 日x│\r\n\x1b[48;5;237m<>\x1b[m".as_bytes());
        let svg = svg(terminal.screen());
        let texts: Vec<&str> = svg.lines().filter(|line| line.starts_with("<text")).collect();
        let wanted = [
            ("17", "9", "✓"),
            ("35", "18", "ab"),
            ("53", "18", "cd"),
            ("80", "18", "日"),
            ("98", "9", "x"),
            ("8", "18", "&lt;&gt;"),
        ];
        assert_eq!(texts.len(), wanted.len(), "{svg}");
        for (line, (x, width, text)) in texts.iter().zip(wanted) {
            let start = format!("<text x=\"{x}\" ");
            assert!(
                line.starts_with(&start) && line.ends_with(&format!(">{text}</text>")),
                "{line}"
            );
            assert!(line.contains(&format!("textLength=\"{width}\"")), "{line}");
        }
        assert!(svg.contains("<path d=\"M12.5 8.0V26.0\""), "{svg}");
        assert!(svg.contains("<path d=\"M111.5 8.0V26.0\""), "{svg}");
        assert!(svg.contains("width=\"18\" height=\"18\" fill=\"#3a3a3a\""), "{svg}");
    }
}
