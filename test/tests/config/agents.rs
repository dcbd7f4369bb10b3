//! What the configuration says of agents: hosts, arguments, grants.

use paddock_test::host::{Host, standin_file};
use serde_json::json;

use super::plan;

#[test]
fn whose_hosts_count_is_the_profiles_to_say() {
    let host = Host::new();
    host.add_agent("own", &format!("hosts = [\"file.test\"]\n{}", standin_file("own")));
    for (profile, hosts) in [
        ("agent", json!(["file.test", "a.test", "b.test"])),
        ("listed", json!(["a.test", "b.test"])),
        ("none", json!([])),
    ] {
        host.configure(&format!(
            "[egress]\nprofile = \"{profile}\"\nhosts = [\"a.test\"]\n[agents.own]\nhosts = [\"b.test\"]\n"
        ));
        assert_eq!(plan(&host, "own", &[])["hosts"], hosts, "{profile}");
    }
}

#[test]
fn configured_arguments_come_before_those_of_the_command_line() {
    let host = Host::new();
    let run = host.standin(&["echo asked"]);
    assert_eq!(run.stdout, "asked\n", "control");
    host.configure("[agents.standin]\narguments = [\"-c\", \"echo configured\"]\n");
    let run = host.standin(&["echo asked"]);
    assert_eq!(run.stdout, "configured\nasked\n", "{run:?}");
}

#[test]
fn grants_for_every_agent_hold_for_each() {
    let host = Host::new();
    let notes = host.write("notes/a", "noted\n");
    let notes = notes.canonicalize().unwrap();
    let read = format!("cat {}; echo more >>{}", notes.display(), notes.display());
    let run = host.standin(&[&read]);
    assert_eq!(run.stdout, "", "control: {run:?}");
    host.configure(&format!("[grants]\nread = [{notes:?}]\n"));
    assert_eq!(host.standin(&[&read]).stdout, "noted\n");
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "noted\n", "only read");
    host.configure(&format!("[grants]\nwrite = [{notes:?}]\n"));
    assert_eq!(host.standin(&[&read]).stdout, "noted\n");
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "noted\nmore\n");
}
