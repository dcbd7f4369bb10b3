//! `paddock prune`.

use serde_json::{Value, json};

use crate::cli;
use crate::error::{Error, status};
use crate::keeper::{Prune, PruneOutcome, Pruned, prune_ended};
use crate::launch::Directories;
use crate::output::{complain, print, shown};

/// Removes launches that are over; 0 when nothing that was to go is there still.
pub(crate) fn prune(options: &cli::Prune) -> Result<u8, Error> {
    if let Some(agent) = &options.caches {
        return super::prune_caches::prune_caches(agent, options);
    }
    let directories = Directories::find()?;
    let what = Prune {
        launches: &options.launches,
        older_than: options.older_than,
        dry_run: options.dry_run,
    };
    let pruning = prune_ended(&directories, what);
    let is_named = !options.launches.is_empty();
    let stays = |launch: &Pruned| match launch.outcome {
        PruneOutcome::Removed | PruneOutcome::TooYoung => false,
        PruneOutcome::Running => is_named,
        PruneOutcome::ProcessesLeft(_) | PruneOutcome::Failed(_) => true,
    };
    let is_done = pruning.errors.is_empty() && !pruning.launches.iter().any(stays);
    // What cannot be told is no reason to tell less.
    let mut told = Ok(());
    if options.json {
        let launches: Vec<Value> = pruning.launches.iter().map(value).collect();
        let errors: Vec<Value> = pruning
            .errors
            .iter()
            .map(|e| json!({ "error": e.to_string(), "next": e.advice() }))
            .collect();
        told = print(json!({
            "schema": 1, "dryRun": options.dry_run, "launches": launches, "errors": errors,
        }));
    } else {
        for launch in &pruning.launches {
            let line = describe(launch, options.dry_run);
            if stays(launch) {
                complain(line);
            } else {
                told = told.and(print(line));
            }
        }
        for error in &pruning.errors {
            let next = error.advice().map(|advice| format!("\n  next: {advice}"));
            complain(format_args!("{error}{}", next.unwrap_or_default()));
        }
        if pruning.launches.is_empty() && pruning.errors.is_empty() {
            told = told.and(print("no launch is over"));
        }
    }
    told.map(|()| if is_done { 0 } else { status::FAILED })
}

fn describe(launch: &Pruned, dry_run: bool) -> String {
    let record = &launch.record;
    let id = &record.launch;
    let what = match &launch.outcome {
        PruneOutcome::Removed if dry_run => "would be removed".into(),
        PruneOutcome::Removed => "was removed".into(),
        PruneOutcome::TooYoung => "is kept: it ended later than that".into(),
        PruneOutcome::Running => format!("is kept: it runs\n  next: paddock stop {id}"),
        PruneOutcome::ProcessesLeft(n) => {
            format!("is kept: {n} of its processes are left\n  next: paddock stop {id}")
        }
        PruneOutcome::Failed(e) => {
            format!("could not be removed: {e}\n  next: paddock info --paths shows where it is")
        }
    };
    format!("launch {id} ({}, {}) {what}", record.agent, shown(&record.workspace))
}

fn value(launch: &Pruned) -> Value {
    let stop = || Some(format!("paddock stop {}", launch.record.launch));
    let (left, error, next) = match &launch.outcome {
        PruneOutcome::Removed | PruneOutcome::TooYoung => (None, None, None),
        PruneOutcome::Running => (None, None, stop()),
        PruneOutcome::ProcessesLeft(n) => (Some(n), None, stop()),
        PruneOutcome::Failed(e) => (None, Some(e.to_string()), None),
    };
    json!({
        "launch": launch.record.launch, "outcome": launch.outcome.name(), "left": left,
        "error": error, "next": next,
    })
}
