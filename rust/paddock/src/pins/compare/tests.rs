use super::*;

fn facts(list: &[(&str, &str)]) -> Facts {
    let mut facts = Facts::default();
    for (kind, value) in list {
        facts.add(kind, *value);
    }
    facts
}

/// Kind, what it was, what it is, what is said, whether it widens.
type Row = (&'static str, &'static [&'static str], &'static [&'static str], &'static str, bool);

const TABLE: &[Row] = &[
    ("reads", &[], &["/x"], "now also reads /x", true),
    ("reads", &["/x"], &[], "no longer reads /x", false),
    ("reads", &["/a"], &["/a", "the file /x"], "now also reads the file /x", true),
    ("writes", &[], &["/x"], "now also writes /x", true),
    ("writes", &["/x"], &[], "no longer writes /x", false),
    ("deny", &["~/.ssh"], &[], "no longer denies ~/.ssh", true),
    ("deny", &[], &["~/.ssh"], "now denies ~/.ssh", false),
    ("filesystem.bypass_protection", &[], &["/x"], "now also lifts the protection of /x", true),
    ("filesystem.unix_socket", &[], &["/x"], "now also connects to the socket /x", true),
    ("filesystem.unix_socket_dir_bind", &["/x"], &[], "no longer listens on sockets in /x", false),
    ("network.connect_port", &[], &["22"], "now also connects to port 22", true),
    ("manifest.network.ports.bind", &[], &["80"], "now also listens on port 80", true),
    ("manifest.network.allow_domains", &[], &["a.test"], "now also reaches the host a.test", true),
    (
        "manifest.network.allow_domains",
        &["a.test"],
        &[],
        "no longer reaches the host a.test",
        false,
    ),
    ("network.deny_domain", &["a.test"], &[], "no longer refuses the host a.test", true),
    ("network.deny_domain", &[], &["a.test"], "now refuses the host a.test", false),
    (
        "manifest.network.mode",
        &["blocked"],
        &["unrestricted"],
        "the network: was blocked, is unrestricted",
        true,
    ),
    ("manifest.network.mode", &["blocked"], &["proxy"], "the network: was blocked, is proxy", true),
    (
        "manifest.network.mode",
        &["proxy"],
        &["blocked"],
        "the network: was proxy, is blocked",
        false,
    ),
    ("manifest.network.mode", &["blocked"], &["odd"], "the network: was blocked, is odd", true),
    ("manifest.network.mode", &["odd"], &["blocked"], "the network: was odd, is blocked", true),
    (
        "manifest.network.mode",
        &["blocked"],
        &["blocked", "proxy"],
        "the network: was blocked, is several things",
        true,
    ),
    (
        "linux.af_unix_mediation",
        &["pathname"],
        &["off"],
        "AF_UNIX mediation: was pathname, is off",
        true,
    ),
    // nono leaves out what is off.
    (
        "linux.af_unix_mediation",
        &["pathname"],
        &[],
        "AF_UNIX mediation: was pathname, is off",
        true,
    ),
    (
        "linux.af_unix_mediation",
        &[],
        &["pathname"],
        "AF_UNIX mediation: was off, is pathname",
        false,
    ),
    ("linux.isolate.network", &["true"], &[], "an own network: was true, is false", true),
    ("linux.isolate.network", &[], &["true"], "an own network: was false, is true", false),
    (
        "manifest.process.signal_mode",
        &["isolated"],
        &["allow_all"],
        "signals: was isolated, is allow_all",
        true,
    ),
    (
        "manifest.process.ipc_mode",
        &["full"],
        &["shared_memory_only"],
        "System V IPC: was full, is shared_memory_only",
        false,
    ),
    (
        "manifest.process.blocked_commands",
        &["rm"],
        &[],
        "no longer refuses to be started as rm",
        true,
    ),
    (
        "workdir.access",
        &["none"],
        &["readwrite"],
        "access to the workspace: was none, is readwrite",
        true,
    ),
    ("workdir.access", &["read"], &["write"], "access to the workspace: was read, is write", true),
    ("workdir.access", &["write"], &["read"], "access to the workspace: was write, is read", true),
    ("groups.include", &[], &["user_tools"], "now has nono's group user_tools", true),
    ("groups.include", &["user_tools"], &[], "no longer has nono's group user_tools", false),
    ("groups.include", &["deny_browser"], &[], "no longer has nono's group deny_browser", true),
    ("groups.include", &[], &["deny_browser"], "now has nono's group deny_browser", false),
    ("environment.deny_vars", &["A"], &[], "no longer withholds the variable A", true),
    ("agent.hosts", &[], &["a.test"], "now also reaches the host a.test", true),
    ("agent.server.pass", &[], &["KEY"], "now also gets the caller's variable KEY", true),
    ("agent.server.pass", &["KEY"], &[], "no longer gets the caller's variable KEY", false),
    // What is not known widens, whichever way it goes: an absent list of allowed
    // variables, for one, allows all.
    ("environment.allow_vars", &["A"], &[], "environment.allow_vars was A", true),
    ("session_hooks.before.script", &[], &["/x"], "session_hooks.before.script is now /x", true),
    ("extends", &[], &["node-dev"], "extends is now node-dev", true),
    ("manifest.new_thing", &["1"], &[], "manifest.new_thing was 1", true),
    ("text", &[], &["hash"], "text is now hash", true),
];

#[test]
fn every_change_is_told_and_judged() {
    for (kind, was, is, what, widens) in TABLE {
        let of = |values: &[&'static str]| {
            let mut facts = facts(&[("reads", "/usr"), ("deny", "/etc")]);
            for value in values {
                facts.add(kind, *value);
            }
            facts
        };
        let wanted = Change { what: (*what).into(), widens: *widens };
        assert_eq!(compare(&of(was), &of(is)), [wanted], "{kind}: {was:?} to {is:?}");
        assert_eq!(compare(&of(was), &of(was)), [], "{kind}: {was:?}");
        assert_eq!(compare(&of(is), &of(is)), [], "{kind}: {is:?}");
    }
}

#[test]
fn what_widens_comes_first_and_one_thing_is_told_once() {
    let old = facts(&[("deny", "/a"), ("reads", "/b"), ("security.signal_mode", "isolated")]);
    let new = facts(&[
        ("deny", "/c"),
        ("security.signal_mode", "allow_all"),
        ("manifest.process.signal_mode", "allow_all"),
    ]);
    let told: Vec<(String, bool)> =
        compare(&old, &new).into_iter().map(|change| (change.what, change.widens)).collect();
    let told: Vec<(&str, bool)> =
        told.iter().map(|(what, widens)| (what.as_str(), *widens)).collect();
    assert_eq!(
        told,
        [
            ("no longer denies /a", true),
            ("signals: was isolated, is allow_all", true),
            ("now denies /c", false),
            ("no longer reads /b", false),
        ]
    );
}

#[test]
fn said_and_left_unsaid_is_the_same_when_it_is_the_default() {
    let said =
        facts(&[("linux.isolate.network", "false"), ("security.ipc_mode", "shared_memory_only")]);
    assert_eq!(compare(&Facts::default(), &said), []);
    assert_eq!(compare(&said, &Facts::default()), []);
}
