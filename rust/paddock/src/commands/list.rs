//! `paddock list`.

use serde_json::json;

use super::state_name;
use crate::cli::Output;
use crate::error::Error;
use crate::launch::Directories;
use crate::output::{complain, print, shown};
use crate::standing::short_time;
use crate::state::{now_ms, stored_launches};

/// Lists launches, oldest first.
pub(crate) fn list(options: &Output) -> Result<u8, Error> {
    let directories = Directories::find()?;
    let (launches, errors) = stored_launches(&directories);
    for error in &errors {
        complain(format_args!("{error}"));
    }
    if options.json {
        let launches: Vec<_> = launches
            .iter()
            .map(|launch| {
                let mut value = serde_json::to_value(&launch.record).unwrap_or_default();
                value["state"] = state_name(launch).into();
                value
            })
            .collect();
        print(format_args!("{}", json!({ "schema": 1, "launches": launches })))?;
        return Ok(0);
    }
    if launches.is_empty() {
        print(format_args!("no launches; paddock run starts one"))?;
    }
    for launch in &launches {
        let record = &launch.record;
        print(format_args!(
            "{}  {:<8} {:<13} {:<9} {:>6}  {}",
            record.launch,
            state_name(launch),
            record.form.of(&record.agent),
            record.tier.name(),
            short_time(now_ms().saturating_sub(record.started)),
            shown(&record.workspace),
        ))?;
    }
    Ok(0)
}
