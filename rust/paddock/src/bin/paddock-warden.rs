//! `paddock-warden`: started by Paddock, not by people.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use confine::Layer;
use warden::Link;

const USAGE: &str = "started by paddock, which is what you want to type; it takes one of:
  LAYER --gate SOCKET            be the warden of the pen, the server or the client sandbox
  await --link LINK -- ARGV...   wait for the agent's server, then become its client
  offer --link LINK -- ARGV...   run the agent's server for who connects, one after the other
  canary                         do nothing, for others to fail to reach
  try [--own-terminal]           make the attempts on standard input, for the doctor
  ask ...                        ask the gate, as `paddock ask` inside a sandbox
  ssh ...                        tell git that SSH does not leave the sandbox
  tunnel HOST:PORT               carry standard input and output through the guard";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    // Inside a sandbox this is what `paddock` and `paddock-bridge` lead to, and a client of
    // containers.
    let called = arguments.next().unwrap_or_default();
    let called = Path::new(&called).file_name().and_then(OsStr::to_str).unwrap_or_default();
    let arguments: Vec<OsString> = arguments.collect();
    let outcome = match called {
        "paddock" => run_inside(&arguments),
        "paddock-bridge" => warden::bridge(&arguments),
        client if warden::CONTAINER_CLIENTS.contains(&client) => {
            Ok(warden::refuse_containers(client))
        }
        _ => run(&arguments),
    };
    match outcome {
        Ok(status) => status,
        Err(error) => {
            // Where standard error is full or closed, nobody is to be told.
            let _ = writeln!(std::io::stderr(), "paddock: {error:#}");
            ExitCode::from(warden::FAILED)
        }
    }
}

/// What of `paddock` there is inside a sandbox.
fn run_inside(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    match arguments.split_first() {
        Some((first, rest)) if first == "ask" => warden::ask(rest),
        _ => anyhow::bail!("inside a sandbox there is `paddock ask` alone; type it to see how"),
    }
}

fn run(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let words: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    match words.split_first().and_then(|(first, rest)| Some((first.to_str()?, rest))) {
        Some((how @ ("await" | "offer"), [option, link, end, ..]))
            if *option == "--link" && *end == "--" =>
        {
            let link = link.to_str().map_or(Err("it is not UTF-8".into()), Link::parse);
            let link = link.map_err(|why| anyhow::anyhow!("--link: {why}"))?;
            match (how, &link) {
                ("await", _) => warden::await_server(&link, &arguments[4..]),
                (_, Link::Stdio(socket)) => warden::offer(socket, &arguments[4..]),
                _ => anyhow::bail!("--link: stdio:PATH is expected"),
            }
        }
        Some(("try", options)) if options.iter().all(|option| *option == "--own-terminal") => {
            warden::survey(!options.is_empty())?;
            Ok(ExitCode::SUCCESS)
        }
        Some(("ask", _)) => warden::ask(&arguments[1..]),
        Some(("ssh", _)) => Ok(warden::refuse_ssh(&arguments[1..])),
        Some(("tunnel", [target])) => warden::carry(target),
        Some(("canary", [])) => {
            // Where Yama is in force nobody could trace it but its parent, and what is
            // refused would be refused to everybody (`PR_SET_PTRACER`, `prctl(2)`).
            let _ = rustix::process::set_ptracer(rustix::process::PTracer::Any);
            loop {
                std::thread::park();
            }
        }
        Some((layer, [option, gate])) if *option == "--gate" => {
            let layer = match layer {
                "pen" => Layer::Pen,
                "server" => Layer::Server,
                "client" => Layer::Client,
                _ => anyhow::bail!(USAGE),
            };
            warden::run(layer, Path::new(gate))
        }
        _ => anyhow::bail!(USAGE),
    }
}
