//! Whatever is found and however small the terminal: something is drawn, and nothing but
//! what Paddock means.

use std::sync::Arc;

use proptest::prelude::*;

use super::made_up::{app, hostile, several, standing};
use super::{COLOURS, drawn};
use crate::commands::{Parts, Tone};
use crate::keeper::{Asked, Wanted};
use crate::overlay::app::{Dialogue, View};
use crate::overlay::collect::Snapshot;
use crate::overlay::ledger::Lines;
use crate::overlay::theme::{Theme, width};

const VIEWS: [View; 4] = [View::Launches, View::Ledger, View::Pins, View::Help];

/// A snapshot with any text wherever a text can come from outside.
fn any_snapshot() -> impl Strategy<Value = Snapshot> {
    let text = prop_oneof![".{0,40}", "\\PC{0,200}", Just("\u{1b}[31m".repeat(50))];
    let several_of = || prop::collection::vec(text.clone(), 5);
    prop_oneof![
        Just(several()),
        Just(hostile()),
        prop::collection::vec(several_of(), 0..30).prop_map(|all| {
            let rows = all.into_iter().enumerate().map(|(n, texts)| {
                let mut standing = standing(&texts[0], &texts[1], &texts[2]);
                standing.launch.push_str(&n.to_string());
                standing.what = Some(texts[3].clone());
                let mut row = super::made_up::row(standing);
                row.age.clone_from(&texts[4]);
                row
            });
            Snapshot { launches: rows.collect(), ended_left_out: 1, errors: vec!["\u{1b}".into()] }
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_screen_is_drawn_with_printable_cells_alone(
        snapshot in any_snapshot(),
        size in (1_u16..=200, 1_u16..=60),
        view in 0_usize..4,
        theme in (any::<bool>(), any::<bool>()),
        in_details: bool,
        scroll in prop_oneof![0_usize..100, Just(usize::MAX)],
        text in ".{0,300}",
        dialogue in 0..6,
    ) {
        let theme = Theme { colour: theme.0, ascii: theme.1 };
        let mut app = app(theme, snapshot);
        app.view = VIEWS[view];
        app.in_details = in_details;
        app.scroll = scroll;
        app.filter = theme.plain(&text);
        app.pins = Some(vec![text.clone()]);
        let line = Parts {
            tone: Tone::Bad, time: text.clone(), event: text.clone(), what: text.clone(),
        };
        app.ledger = Arc::new(Lines {
            lines: vec![Arc::new(line)], left_out: u64::MAX, error: Some(text.clone()),
        });
        let launch = "bcdf".to_owned();
        app.dialogue = match dialogue {
            0 => Some(Dialogue::Stop { launch }),
            1 => Some(Dialogue::Search),
            2 => {
                let wanted = Wanted::Path { path: text.clone().into(), write: true };
                Some(Dialogue::Answer { launch, asked: Asked { number: 1, wanted } })
            }
            3 => Some(Dialogue::NothingAsked { launch: text.clone(), was_asked: true }),
            _ => None,
        };
        if dialogue == 4 {
            app.message = Some((Tone::Notable, text));
        }
        let buffer = drawn(&mut app, size.0, size.1);
        let mut taken = 0;
        for cell in buffer.content() {
            let symbol = cell.symbol();
            if taken > 0 {
                taken -= 1;
                continue;
            }
            for c in symbol.chars() {
                prop_assert!(confine::escape::is_safe(c), "{c:?}");
                prop_assert!(!theme.ascii || c.is_ascii(), "{c:?}");
            }
            prop_assert!((1..=2).contains(&width(symbol)), "{symbol:?}");
            taken = width(symbol) - 1;
            if !theme.colour {
                use ratatui::style::Color::Reset;
                prop_assert_eq!((cell.fg, cell.bg), (Reset, Reset));
            }
        }
    }
}

#[test]
fn a_screen_with_colours_has_some() {
    let mut app = app(COLOURS, several());
    let buffer = drawn(&mut app, 80, 24);
    let colours = buffer.content().iter().filter(|c| c.fg != ratatui::style::Color::Reset);
    assert!(colours.count() > 0, "control");
}
