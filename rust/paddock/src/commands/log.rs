//! `paddock log`: what happened in a launch.

mod follow;
mod hosts;
mod line;
mod obeyed;
mod out;
mod words;

use std::io::ErrorKind;

use follow::Changes;
use hosts::Hosts;
use line::Style;
pub(crate) use line::{Parts, parts, shown_time};
pub(crate) use obeyed::recorded;
use out::{Out, Stop};
pub(crate) use words::{Tone, bytes};

use crate::cli::Log;
use crate::error::Error;
use crate::launch::Directories;
use crate::output::{self, as_json, complain};
use crate::state::{Item, LEDGER, LedgerReader, Stored, find_launch, stored_launches};

/// Shows a ledger, as lines or summed up.
pub(crate) fn log(options: &Log) -> Result<u8, Error> {
    let launch = chosen(options.launch.as_deref(), &Directories::find()?)?;
    let told = match options {
        Log { hosts: true, .. } => sum_up(&launch, options.json),
        Log { obeyed: true, .. } => list(&launch, options.json),
        _ => tell(&launch, options),
    };
    match told {
        // `paddock log | head -1` is a fair thing to type.
        Ok(()) | Err(Stop::NobodyReads) => Ok(0),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// The launch that is meant: without a name the only one that runs, else the
/// newest.
fn chosen(prefix: Option<&str>, directories: &Directories) -> Result<Stored, Error> {
    if prefix.is_some() {
        return find_launch(prefix, directories);
    }
    let (mut launches, mut errors) = stored_launches(directories);
    let running: Vec<&str> =
        launches.iter().filter(|l| l.is_kept).map(|l| l.record.launch.as_str()).collect();
    if running.len() > 1 {
        return Err(Error::LaunchesSeveral { ids: running.join(", "), advice: "name one" });
    }
    let place = launches.iter().position(|launch| launch.is_kept);
    let Some(place) = place.or(launches.len().checked_sub(1)) else {
        return Err(errors.pop().unwrap_or(Error::LaunchesNever));
    };
    for error in &errors {
        complain(format_args!("{error}"));
    }
    Ok(launches.swap_remove(place))
}

fn tell(launch: &Stored, options: &Log) -> Result<(), Stop> {
    // From before the first look, so that nothing is missed between the two.
    let changes = options.follow.then(|| Changes::below(&launch.directory));
    let mut reader = LedgerReader::below(&launch.directory);
    let mut out = Out::standard();
    let style = Style { with_colour: !options.json && out.takes_colour() };
    let mut damage = Damage::default();
    let is_kept = loop {
        // Before the look: what was written until it ended is seen then.
        let is_kept = is_still_kept(launch)?;
        while let Some(item) = next(&mut reader, launch)? {
            match item {
                Item::Damaged { file, line } => damage.add(file, line),
                Item::NotKept(count) => {
                    damage.tell(&mut out)?;
                    if !options.json {
                        out.line(&style.not_kept(count))?;
                    }
                }
                Item::Entry(entry) => {
                    damage.tell(&mut out)?;
                    out.line(&if options.json {
                        as_json(&entry.text)
                    } else {
                        style.entry(&entry)
                    })?;
                }
            }
        }
        damage.tell(&mut out)?;
        out.flush()?;
        match &changes {
            Some(changes) if is_kept => changes.wait(&out)?,
            _ => break is_kept,
        }
    };
    finish(launch, &reader, is_kept, &mut damage)?;
    damage.tell(&mut out)
}

fn sum_up(launch: &Stored, as_json: bool) -> Result<(), Stop> {
    let is_kept = is_still_kept(launch)?;
    let mut reader = LedgerReader::below(&launch.directory);
    let mut out = Out::standard();
    let mut damage = Damage::default();
    let mut hosts = Hosts::default();
    while let Some(item) = next(&mut reader, launch)? {
        match item {
            Item::Damaged { file, line } => damage.add(file, line),
            Item::NotKept(count) => hosts.not_kept += count,
            Item::Entry(entry) => hosts.add(&entry),
        }
    }
    finish(launch, &reader, is_kept, &mut damage)?;
    damage.tell(&mut out)?;
    if as_json {
        out.line(&output::as_json(&hosts.as_json(launch.record.launch.as_str()).to_string()))?;
    } else {
        hosts.table().iter().try_for_each(|line| out.line(line))?;
    }
    out.flush()
}

/// What changed that is obeyed outside.
fn list(launch: &Stored, as_json: bool) -> Result<(), Stop> {
    let record = recorded(launch, "obeyed").map_err(|e| unreadable(launch, e.to_string()))?;
    let mut out = Out::standard();
    if as_json {
        out.line(&output::as_json(&obeyed::as_json(record.as_ref(), launch).to_string()))?;
    } else {
        obeyed::shown(record.as_ref(), launch).iter().try_for_each(|line| out.line(line))?;
    }
    out.flush()
}

fn next(reader: &mut LedgerReader, launch: &Stored) -> Result<Option<Item>, Stop> {
    reader.next().map_err(|e| unreadable(launch, e.to_string()).into())
}

/// What can be said only once nothing more is written.
fn finish(
    launch: &Stored,
    reader: &LedgerReader,
    is_kept: bool,
    damage: &mut Damage,
) -> Result<(), Stop> {
    if is_kept {
        return Ok(());
    }
    if !reader.has_found_it() {
        return Err(unreadable(launch, "there is none".into()).into());
    }
    for item in reader.cut_lines() {
        if let Item::Damaged { file, line } = item {
            damage.add(file, line);
        }
    }
    Ok(())
}

fn is_still_kept(launch: &Stored) -> Result<bool, Stop> {
    match launch.is_still_kept() {
        // It was removed, and the launch with it.
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        asked => asked.map_err(|e| unreadable(launch, e.to_string()).into()),
    }
}

fn unreadable(launch: &Stored, reason: String) -> Error {
    Error::Ledger { path: launch.directory.join(LEDGER), reason }
}

/// Lines that cannot be read, told together where they follow each other.
#[derive(Default)]
struct Damage(Option<(&'static str, u64, u64)>);

impl Damage {
    fn add(&mut self, file: &'static str, line: u64) {
        let (.., count) = self.0.get_or_insert((file, line, 0));
        *count += 1;
    }

    fn tell(&mut self, out: &mut Out) -> Result<(), Stop> {
        let Some((file, line, count)) = self.0.take() else { return Ok(()) };
        out.flush()?;
        let more = if count > 1 { format!(" and {} after it", count - 1) } else { String::new() };
        complain(format_args!("line {line} of {file}{more} cannot be read, and is left out"));
        Ok(())
    }
}
