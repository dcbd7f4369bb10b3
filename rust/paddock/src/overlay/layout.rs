//! What is where, by the size of the terminal:
//!
//! | size | what is shown |
//! | --- | --- |
//! | 120 columns, 15 lines or more | the list, and the details beside it |
//! | 80 columns, 24 lines or more | the list, and the details below it |
//! | 40 columns, 6 lines or more | the list; the details in its place after Enter |
//! | less | a line that says so |

use ratatui::layout::{Position, Rect, Size};

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Beside,
    Below,
    Alone,
    TooSmall,
}

impl Form {
    pub(super) fn of(size: Size) -> Self {
        match (size.width, size.height) {
            (120.., 15..) => Self::Beside,
            (80.., 24..) => Self::Below,
            (40.., 6..) => Self::Alone,
            _ => Self::TooSmall,
        }
    }
}

/// Where things are; what is not shown has no place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) list: Rect,
    pub(super) details: Rect,
    pub(super) footer: Rect,
}

/// The places in a terminal of that size. `rows` launches are to be shown, the footer
/// has so many lines, and alone one of list and details has the whole.
pub(super) fn places(size: Size, rows: usize, footer: u16, details_alone: bool) -> Places {
    let footer = footer.min(size.height / 2).max(1);
    let above = size.height.saturating_sub(footer);
    let all = Rect::new(0, 0, size.width, above);
    let footer = Rect::new(0, above, size.width, footer);
    let none = Rect::default();
    match Form::of(size) {
        Form::Beside => {
            let left = size.width / 2;
            Places {
                list: Rect { width: left, ..all },
                details: Rect { x: left, width: size.width - left, ..all },
                footer,
            }
        }
        Form::Below => {
            // A border and a heading; and no more than a third, so that there are details.
            let wanted = u16::try_from(rows.max(1)).unwrap_or(u16::MAX).saturating_add(3);
            let upper = wanted.clamp(4, (above / 3).max(4));
            Places {
                list: Rect { height: upper, ..all },
                details: Rect { y: upper, height: above - upper, ..all },
                footer,
            }
        }
        Form::Alone if details_alone => Places { list: none, details: all, footer },
        Form::Alone => Places { list: all, details: none, footer },
        Form::TooSmall => Places { list: none, details: none, footer: none },
    }
}

/// The first row that is shown, where so many fit and this one has to be among them.
pub(super) fn first_shown(selected: usize, fit: usize) -> usize {
    (selected + 1).saturating_sub(fit.max(1))
}

impl Places {
    /// How many launches fit into the list.
    pub(super) fn rows(&self) -> usize {
        usize::from(self.list.height.saturating_sub(3))
    }

    /// How many lines fit into the details.
    pub(super) fn lines(&self) -> usize {
        usize::from(self.details.height.saturating_sub(2))
    }

    /// The row of the list at this place of the screen, counted from the first shown.
    pub(super) fn row_at(&self, place: Position) -> Option<usize> {
        let first = self.list.y + 2;
        let is_row = self.list.contains(place)
            && place.y >= first
            && usize::from(place.y - first) < self.rows();
        is_row.then(|| usize::from(place.y - first))
    }
}
