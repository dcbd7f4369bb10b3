//! Paddock: runs coding agents in nested nono sandboxes and verifies from
//! outside, for as long as they live, that they are confined.

mod agent;
mod caches;
mod cli;
mod commands;
mod doctor;
mod error;
mod files;
mod gate;
mod import;
mod job;
mod keeper;
mod launch;
mod notices;
mod obeyed;
mod output;
mod overlay;
mod pins;
mod plugin;
#[cfg(test)]
mod reference;
mod standin;
mod standing;
mod state;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use output::complain;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::DoctorProbe(probe) => return doctor::run_probe(probe),
        Command::Standin(command) => return report(standin::run(command)),
        command => perform(command),
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

/// Does what a person can ask for.
fn perform(command: Command) -> Result<u8, error::Error> {
    match command {
        Command::Run(options) => commands::run(options),
        Command::Resume(options) => commands::resume(options),
        Command::Shell(options) => commands::shell(options),
        Command::Login(options) => commands::login(options),
        Command::Import(options) => commands::import(&options),
        Command::Verify(which) => commands::verify(&which),
        Command::Stop(which) => commands::stop(&which),
        Command::List(options) => commands::list(&options),
        Command::Status(options) => commands::status(&options),
        Command::Overlay(options) => overlay::overlay(&options),
        Command::Log(options) => commands::log(&options),
        Command::Info(options) => commands::info(&options),
        Command::Agents(options) => commands::agents(&options),
        Command::Config(options) => commands::config(&options),
        Command::Doctor(options) => commands::doctor(&options),
        Command::Grant(options) => commands::grant(&options),
        Command::Herdr(herdr) => Ok(plugin::run(&herdr)),
        Command::Pin(options) => commands::pin(&options),
        Command::Port(options) => commands::port(&options),
        Command::Prune(options) => commands::prune(&options),
        // They are programs of their own.
        Command::DoctorProbe(_) | Command::Standin(_) => Ok(error::status::FAILED),
    }
}

/// For the parts that run on their own, inside a sandbox.
fn report(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        complain(format_args!("{error:#}"));
        ExitCode::from(error::status::FAILED)
    })
}
