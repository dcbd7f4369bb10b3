//! What people do every day, in a launch: servers on loopback, sockets between
//! processes, debuggers, git, caches.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod caches;
mod loopback;
mod processes;
mod push;
mod toolchains;

use std::path::Path;

use paddock_test::host::{Finished, Host, skip};

/// Whether `program` is where agents look for it; without it a test says so and ends.
fn is_there(program: &str) -> bool {
    let places = ["/usr/local/bin", "/usr/bin", "/bin"];
    let there = places.iter().any(|place| Path::new(place).join(program).is_file());
    if !there {
        skip(&format!("{program} is not installed"));
    }
    there
}

/// Runs a script of Python's in a launch; the system's, whatever else there is.
fn python(host: &Host, tier: &str, script: &str) -> Finished {
    std::fs::write(host.workspace().join("script.py"), script).unwrap();
    host.standin_in(tier, &["exec /usr/bin/python3 script.py 2>&1"])
}
