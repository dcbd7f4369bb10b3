//! What stands inside for the clients of container engines.

use std::io::Write;
use std::process::ExitCode;

/// Names that such clients are called by.
pub const CONTAINER_CLIENTS: [&str; 2] = ["docker", "podman"];

/// Says why there is none, and what to do.
pub fn refuse_containers(called: &str) -> ExitCode {
    let said = format!(
        "paddock: there is no {called} in this sandbox, and trying again or starting an engine \
         will not help: whoever can speak to a container engine acts outside of the sandbox.\n  \
         next: run what is needed as a plain process here, on 127.0.0.1; or ask the person to \
         start the container outside and to grant its address\n"
    );
    // In one piece, so that nothing of another program's comes between.
    let _ = std::io::stderr().write_all(said.as_bytes());
    ExitCode::FAILURE
}
