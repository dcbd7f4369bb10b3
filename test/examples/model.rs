//! The scripted model by itself, to try an agent by hand without an account:
//!
//! `cargo run -p paddock-test --example model -- PORT shell:COMMAND... say:TEXT`
//!
//! Ends with its standard input, and prints what the shell tool gave back.

use std::io::Read;

use anyhow::{Context, bail};
use paddock_test::model::{ModelServer, Turn};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().context("the port is missing")?.parse()?;
    let turn = |argument: String| match argument.split_once(':') {
        Some(("shell", command)) => Ok(Turn::Shell(command.into())),
        Some(("say", text)) => Ok(Turn::Say(text.into())),
        _ => bail!("{argument:?} is neither shell:COMMAND nor say:TEXT"),
    };
    let script = arguments.map(turn).collect::<anyhow::Result<_>>()?;
    let model = ModelServer::start_on(port, script)?;
    println!("listening on 127.0.0.1:{}", model.port());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    for (number, request) in model.requests().iter().enumerate() {
        eprintln!("request {number}: {request}");
    }
    for output in model.outputs() {
        println!("{output}");
    }
    Ok(())
}
