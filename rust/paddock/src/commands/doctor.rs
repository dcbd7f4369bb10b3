//! `paddock doctor`.

use std::io::IsTerminal;

use serde_json::json;

use crate::cli::Doctor;
use crate::doctor::matrix::{self, Matrix};
use crate::doctor::{HostReport, Subject, examine, reaches, show};
use crate::error::{Error, status};
use crate::launch::{Config, Directories, Tier};
use crate::output::print;

/// Finds out what this host can do, and tries every escape beside its control. 0
/// when the tier can be reached and nothing got through, 1 when not.
pub(crate) fn doctor(options: &Doctor) -> Result<u8, Error> {
    let directories = Directories::find()?;
    let config = Config::load(&directories.config_file())?;
    let wanted = options.tier.or(config.tier).unwrap_or_default();
    let host = examine(&Subject::here(&config, &directories));
    let is_reached = reaches(host.tier, wanted);
    if !options.json {
        show(&host, wanted)?;
    }
    // What cannot be built cannot be tried.
    let matrix = if options.quick || !is_reached {
        None
    } else {
        Some(survey(wanted, options, &directories)?)
    };
    let holds = matrix.as_ref().is_none_or(Matrix::holds);
    if options.json {
        print(report(&host, wanted, matrix.as_ref()))?;
    } else if let Some(matrix) = &matrix {
        matrix::show(matrix)?;
    }
    Ok(if is_reached && holds { 0 } else { status::DOCTOR_FOUND })
}

fn survey(wanted: Tier, options: &Doctor, directories: &Directories) -> Result<Matrix, Error> {
    let is_watched = std::io::stderr().is_terminal() && !options.json;
    let tell = |text: &str| {
        use std::io::Write;
        if is_watched {
            let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
        }
    };
    tell("trying every escape in every layer ...");
    let matrix = matrix::survey(wanted, options.profile.as_deref(), directories);
    tell("");
    matrix
}

fn report(host: &HostReport, wanted: Tier, matrix: Option<&Matrix>) -> serde_json::Value {
    let is_reached = reaches(host.tier, wanted);
    json!({
        "schema": 1,
        "ok": is_reached && matrix.is_none_or(Matrix::holds),
        "wanted": wanted,
        "host": host,
        "matrix": matrix.map(Matrix::to_json),
    })
}
