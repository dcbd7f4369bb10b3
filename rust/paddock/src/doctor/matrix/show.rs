//! The matrix as a table.

use super::{Line, Matrix, name_of};
use crate::error::Error;
use crate::output::print;

/// Wide enough for the longest name of an error.
const COLUMN: usize = 16;

/// Prints it, and last what got through.
pub(crate) fn show(matrix: &Matrix) -> Result<(), Error> {
    let mut group = "";
    for line in &matrix.lines {
        if line.group != group {
            group = line.group;
            let places: Vec<String> =
                line.cells.iter().map(|(place, _)| format!("{:<COLUMN$}", place.name())).collect();
            print(format_args!("\n{group:<44}{}", places.concat().trim_end()))?;
        }
        print(row(line))?;
    }
    print(format_args!("\n{}", conclusion(matrix)))?;
    print(format_args!(
        "names looked up for all that was asked of the guard: {}",
        if matrix.looked_up.is_empty() { "none".into() } else { matrix.looked_up.join(", ") }
    ))?;
    for line in matrix.disagreements() {
        let said = if line.explained == Some(true) { "allowed" } else { "denied" };
        print(format_args!(
            "nono why says that the server's \"{}\" ({}) is {said}, and it is not so",
            line.name, line.group
        ))?;
    }
    for host in &matrix.let_out {
        print(format_args!("  the guard let somebody connect to {host}, which is not allowed"))?;
    }
    for line in &matrix.lines {
        for place in line.escapes() {
            let (group, name) = (line.group, &line.name);
            if let Some(guard) = line.guard.as_ref().filter(|guard| !guard.holds) {
                let reasons = if guard.reasons.is_empty() {
                    "it was not asked".to_owned()
                } else {
                    guard.reasons.join(", ")
                };
                print(format_args!(
                    "  {group}: \"{name}\" is not refused as it must be (guard: {reasons}); \
                     another nono, or a fault of Paddock's"
                ))?;
                continue;
            }
            print(format_args!(
                "  {group}: \"{name}\" works in the {} and must be refused; {}",
                place.name(),
                place.remedy(),
            ))?;
        }
    }
    Ok(())
}

fn row(line: &Line) -> String {
    let escapes: Vec<_> = line.escapes().collect();
    let refusals: Vec<_> = line.refusals().collect();
    let cells: Vec<String> = line
        .cells
        .iter()
        .map(|(place, cell)| {
            let mark = match (line.has_control(), escapes.contains(place)) {
                (_, true) => " !!",
                (_, false) if refusals.contains(place) => " ?",
                _ => "",
            };
            format!("{:<COLUMN$}", name_of(cell.observed) + mark)
        })
        .collect();
    let note = match (line.has_control(), line.is_judged(), &line.guard) {
        (false, ..) => "   no control: shows nothing".to_owned(),
        (true, _, Some(guard)) if !guard.reasons.is_empty() => {
            format!("   guard: {}", guard.reasons.join(", "))
        }
        (true, false, _) => "   not judged".to_owned(),
        (true, true, _) => String::new(),
    };
    format!("  {:<42}{}{note}", line.name, cells.concat().trim_end())
}

fn conclusion(matrix: &Matrix) -> String {
    let controlled = || matrix.lines.iter().filter(|line| line.has_control());
    let judged = controlled().filter(|line| line.is_judged()).count();
    let shown = controlled().count() - judged;
    let without = matrix.lines.len() - judged - shown;
    let verdict = if matrix.holds() { "nothing got through" } else { "something got through (!!)" };
    format!(
        "{}, {} tier: {judged} operations that must be refused where an agent runs, each with its \
         control: {verdict}; {shown} are shown and not judged, {without} have no control",
        matrix.agent, matrix.tier
    )
}
