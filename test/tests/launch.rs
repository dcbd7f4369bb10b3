//! One launch of the stand-in, end to end.

use paddock_test::host::Host;

#[test]
fn the_agents_output_and_status_are_the_launchs() {
    let host = Host::new();
    let run = host.standin(&["echo hello", "exit 3"]);
    assert_eq!((run.code(), run.stdout.as_str()), (Some(3), "hello\n"), "{}", run.stderr);
    host.assert_nothing_left();
}
