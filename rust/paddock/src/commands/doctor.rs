//! `paddock doctor`.

use std::io::IsTerminal;

use serde_json::json;

use crate::agent;
use crate::cli::Doctor;
use crate::doctor::matrix::{self, Matrix};
use crate::doctor::{Pinned, Subject, examine, examine_pins, reaches, show, show_pins};
use crate::error::{Error, status};
use crate::launch::{Config, Directories, Tier};
use crate::output::print;

/// Finds out what this host can do, and tries every escape beside its control. 0
/// when the tier can be reached, policies are as recorded and nothing got through, 1
/// when not.
pub(crate) fn doctor(options: &Doctor) -> Result<u8, Error> {
    let directories = Directories::find()?;
    let config = Config::here(&directories)?;
    let wanted = options.tier.or(config.tier).unwrap_or_default();
    let name = options.agent.as_deref().or(config.agent.as_deref()).unwrap_or("standin");
    if let Some(named) = &options.agent {
        agent::load(named, &directories.agents())?;
    }
    let host = examine(&Subject::here(&config, &directories));
    let is_reached = reaches(host.tier, wanted);
    let pins = examine_pins((name, wanted), &config, &directories);
    if !options.json {
        show(&host, wanted)?;
        show_pins(&pins)?;
    }
    // What cannot be built cannot be tried.
    let survey = || survey(name, wanted, options, &config, &directories);
    let surveyed = (!options.quick && is_reached).then(survey);
    let (matrix, failure) = match surveyed.transpose() {
        Ok(matrix) => (matrix, None),
        // What the matrix would show first: a layer lets something through.
        Err(error @ (Error::SelfTest { .. } | Error::AgentProgram { .. })) => {
            (None, Some(error.to_string()))
        }
        Err(error) => return Err(error),
    };
    // Without the programs there is nothing to compare, and that is told already.
    let is_pinned = !is_reached || pins.iter().all(Pinned::holds);
    let holds =
        is_reached && is_pinned && failure.is_none() && matrix.as_ref().is_none_or(Matrix::holds);
    if options.json {
        print(json!({
            "schema": 1,
            "ok": holds,
            "wanted": wanted,
            "host": host,
            "pins": pins,
            "matrix": matrix.as_ref().map(Matrix::to_json),
            "failure": failure,
        }))?;
    } else if let Some(matrix) = &matrix {
        matrix::show(matrix)?;
    } else if let Some(failure) = &failure {
        print(format_args!("{failure}\n  a launch of that would not start its agent"))?;
    }
    Ok(if holds { 0 } else { status::DOCTOR_FOUND })
}

fn survey(
    agent: &str,
    wanted: Tier,
    options: &Doctor,
    config: &Config,
    directories: &Directories,
) -> Result<Matrix, Error> {
    let is_watched = std::io::stderr().is_terminal() && !options.json;
    let tell = |text: &str| {
        use std::io::Write;
        if is_watched {
            let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
        }
    };
    tell("trying every escape in every layer ...");
    let matrix = matrix::survey(agent, wanted, options.profile.as_deref(), config, directories);
    tell("");
    matrix
}
