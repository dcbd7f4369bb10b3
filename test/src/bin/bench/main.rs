//! Measures Paddock against the figures it has to reach, on this machine, with
//! real nono and real namespaces: `scripts/bench.sh` builds and runs it. What is
//! measured and how is in `docs/reference/figures.md`.

mod doctor;
mod egress;
mod ends;
mod gate;
mod loads;
mod overlay;
mod passes;
mod programs;
mod start;
mod table;
mod typing;
mod upstream;

use std::process::ExitCode;

use table::Row;

type Part = fn() -> anyhow::Result<Vec<Row>>;

/// What is measured, by the names that can be given as arguments.
const PARTS: [(&str, Part); 9] = [
    ("start", start::measure),
    ("passes", passes::measure),
    ("escape", ends::measure_escape),
    ("stop", ends::measure_stop),
    ("typing", typing::measure),
    ("doctor", doctor::measure),
    ("egress", egress::measure),
    ("gate", gate::measure),
    ("overlay", overlay::measure),
];

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(status) = programs::run(&arguments)? {
        return Ok(status);
    }
    let mut rows = Vec::new();
    for (name, part) in PARTS {
        if arguments.is_empty() || arguments.iter().any(|wanted| wanted == name) {
            eprintln!("bench: {name}");
            rows.extend(part()?);
        }
    }
    anyhow::ensure!(!rows.is_empty(), "nothing is called {}", arguments.join(" or "));
    table::print(&rows);
    Ok(ExitCode::from(u8::from(rows.iter().any(table::Row::is_missed))))
}
