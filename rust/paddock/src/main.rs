//! Paddock: runs coding agents in nested nono sandboxes and verifies from
//! outside, for as long as they live, that they are confined.

mod agent;
mod cli;
mod commands;
mod doctor;
mod error;
mod files;
mod gate;
mod keeper;
mod launch;
mod notices;
mod output;
mod pins;
#[cfg(test)]
mod reference;
mod standin;
mod state;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use output::complain;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(options) => commands::run(options),
        Command::Verify(which) => commands::verify(&which),
        Command::Stop(which) => commands::stop(&which),
        Command::List(options) => commands::list(&options),
        Command::Log(options) => commands::log(&options),
        Command::Info(options) => commands::info(&options),
        Command::Doctor(options) => commands::doctor(&options),
        Command::Grant(options) => commands::grant(&options),
        Command::DoctorProbe(probe) => return doctor::run_probe(probe),
        Command::Pin(options) => commands::pin(&options),
        Command::Prune(options) => commands::prune(&options),
        Command::Standin(command) => return report(standin::run(command)),
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            let advice = error.advice().map(|advice| format!("\n  next: {advice}"));
            complain(format_args!("{error}{}", advice.unwrap_or_default()));
            ExitCode::from(error.status())
        }
    }
}

/// For the parts that run on their own, inside a sandbox.
fn report(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        complain(format_args!("{error:#}"));
        ExitCode::from(error::status::FAILED)
    })
}
