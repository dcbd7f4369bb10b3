//! Paddock as a plugin of a herdr that does not answer, answers what is none of its
//! protocol, or is gone; and what an action that waits does then.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, Instant};

use paddock_test::herdr::plugin_host::{Acted, Manner, PluginHost, until};
use paddock_test::host::{Host, finish, nono, standin_file};

/// More than all calls that an action makes may take, less than for ever.
const PATIENCE: Duration = Duration::from_secs(20);

const ACTIONS: [&str; 6] =
    ["start-agent", "reconnect", "open-shell", "stop", "list-sandboxes", "sandboxes"];

fn host(command: &str) -> Host {
    let host = Host::new();
    host.add_agent("boxed", &standin_file("boxed"));
    host.configure(&format!(
        "agent = \"boxed\"\n[agents.boxed]\narguments = [\"-c\", {command:?}]\n"
    ));
    host
}

#[test]
fn a_herdr_that_never_answers_or_garbles_fails_every_action_in_time() {
    let host = host("true");
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    for manner in [Manner::Hang, Manner::Garble] {
        herdr.set_manner(manner);
        for action in ACTIONS {
            let started = Instant::now();
            herdr.act(action).assert_failed("unknown");
            assert!(started.elapsed() < PATIENCE, "{manner:?} {action}: {:?}", started.elapsed());
        }
    }
    herdr.set_manner(Manner::Answer);
    herdr.act("list-sandboxes").assert_done();
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn a_herdr_that_is_gone_or_not_named_is_said_to_be() {
    let host = host("true");
    for action in ACTIONS {
        let mut command = host.paddock();
        command.args(["herdr", action]);
        Acted::from(finish(command)).assert_failed("config");
        let mut command = host.paddock();
        command.args(["herdr", action]).env("HERDR_SOCKET_PATH", host.home().join("none.sock"));
        Acted::from(finish(command)).assert_failed("not-found");
    }
    host.assert_nothing_left();
}

#[test]
fn a_pane_that_is_closed_while_it_starts_ends_the_wait() {
    let host = host("true");
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    herdr.cut_panes_short(true);
    let failed = herdr.act("start-agent");
    failed.assert_failed("startup");
    assert!(failed.text("message").contains("closed before anything ran"), "{failed:#?}");
    herdr.cut_panes_short(false);
    herdr.end();
    host.assert_nothing_left();
}

#[test]
fn ids_and_contexts_that_are_none_are_refused() {
    let host = host("true");
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    for json in ["{", "{\"focused_pane_id\":\"w1:p1;id\"}", "{\"workspace_id\":7}"] {
        let mut command = herdr.action("stop");
        command.env("HERDR_PLUGIN_CONTEXT_JSON", json);
        Acted::from(finish(command)).assert_failed("config");
    }
    herdr.end();
}

#[test]
fn an_escape_that_is_noticed_is_unconfined_in_the_result() {
    let mut host = host("true");
    // A nono that runs what it is given without a sandbox: case E16.
    let script = format!(
        "#!/bin/sh\ncase $1 in --version | profile) exec '{}' \"$@\" ;; esac\n\
         while [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n",
        nono().display()
    );
    let script = host.script("nono", &script);
    host.set("PADDOCK_NONO", script);
    let herdr = PluginHost::start(&host);
    herdr.shell_pane(&host.workspace());
    let failed = herdr.act("start-agent");
    failed.assert_failed("unconfined");
    let pane = herdr.pane(failed.text("paneId")).expect("held");
    pane.terminal.wait_for("any other key closes this pane");
    pane.terminal.send("x");
    until("it closes", || herdr.pane(failed.text("paneId")).is_none());
    herdr.end();
    host.assert_nothing_left();
}
