//! What is wrong before or while a launch starts: each is told in words that
//! say what to do, with its exit status, and leaves nothing behind.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use paddock_test::agent::SHIPPED;
use paddock_test::host::{Finished, Host, finish, nono, paddock};

/// An agent whose halves are the given programs.
fn agent(server: &str, client: &str) -> String {
    format!(
        "name = \"own\"\ntitle = \"an agent of one's own\"\nprogram.names = [\"{{paddock}}\"]\n\
         [link]\nkind = \"unix\"\npatience = 1\n\
         [server]\nargv = [{server}]\n[client]\nargv = [{client}]\n"
    )
}

/// Nothing was started for the agent, and nothing is left of the attempt.
fn assert_clean(host: &Host) {
    host.assert_nothing_left();
    for entry in std::fs::read_dir(host.launches()).into_iter().flatten().flatten() {
        let directory = entry.path();
        assert!(directory.join("record.json").is_file(), "{} has no record", directory.display());
    }
    for record in host.records() {
        assert_eq!(record["phase"], "ended");
    }
}

/// It ended with `status` and said exactly `message`.
#[track_caller]
fn assert_told(host: &Host, run: &Finished, status: i32, message: &str) {
    assert_eq!((run.code(), run.stdout.as_str(), run.stderr.as_str()), (Some(status), "", message));
    assert_clean(host);
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn an_unknown_agent() {
    let host = Host::new();
    for name in ["nobody", "../standin", "Standin", ""] {
        assert_told(
            &host,
            &host.run(&["run", name]),
            125,
            &format!(
                "paddock: there is no agent {name:?}; known: {}\n  \
                 next: paddock agents lists them\n",
                SHIPPED.join(", ")
            ),
        );
    }
}

#[test]
fn no_nono_and_no_bubblewrap() {
    let host = Host::new();
    let empty = host.home().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let with_path = |path: &Path| {
        let mut command = host.standin_command(&["echo ran"]);
        command.env("PATH", path);
        command
    };
    let mut without_nono = with_path(&empty);
    without_nono.env_remove("PADDOCK_NONO");
    assert_told(
        &host,
        &finish(without_nono),
        125,
        &format!(
            "paddock: nono was not found (looked for [programs] nono in the configuration, \
             PADDOCK_NONO, PATH, {}/.cache/paddock/nono-0.81.0/bin/nono)\n  \
             next: scripts/setup.sh installs it, or: cargo install nono-cli --version 0.81.0\n",
            host.home().display()
        ),
    );
    assert_told(
        &host,
        &finish(with_path(&empty)),
        125,
        "paddock: bwrap was not found (looked for [programs] bwrap in the configuration, \
         PADDOCK_BWRAP, PATH)\n  \
         next: install the package bubblewrap (as root: apt-get install bubblewrap, or dnf install, \
         pacman -S, apk add); or choose a lesser tier: paddock run --tier isolated\n",
    );
    let mut lesser = host.agent_command("standin", &["--tier", "isolated"], &["echo ran"]);
    lesser.env("PATH", &empty);
    let lesser = finish(lesser);
    assert_eq!((lesser.code(), lesser.stdout.as_str()), (Some(0), "ran\n"), "{}", lesser.stderr);
}

#[test]
fn a_program_that_was_named_and_is_not_there() {
    let host = Host::new();
    host.configure("[programs]\nnono = \"/nonexistent/nono\"\n");
    assert_told(
        &host,
        &host.standin(&["echo ran"]),
        125,
        "paddock: nono at /nonexistent/nono cannot be used: No such file or directory (os error 2)\n  \
         next: paddock info --programs shows which programs are used, and from where\n",
    );
    let plain = host.write("plain", "no program\n");
    host.configure(&format!("[programs]\nbwrap = {plain:?}\n"));
    assert_told(
        &host,
        &host.standin(&["echo ran"]),
        125,
        &format!(
            "paddock: bwrap at {} cannot be used: it is not an executable file\n  \
             next: paddock info --programs shows which programs are used, and from where\n",
            plain.display()
        ),
    );
}

/// A launch with a script in nono's place.
fn with_nono(host: &Host, script: &str) -> (String, Finished) {
    let path = host.script("bin/nono", &format!("#!/bin/sh\n{script}\n"));
    let mut command = host.standin_command(&["echo ran"]);
    command.env("PADDOCK_NONO", &path);
    (path.to_str().unwrap().to_owned(), finish(command))
}

#[test]
fn a_nono_that_is_too_old() {
    let host = Host::new();
    for version in ["0.79.0", "0.80.9", "0.9"] {
        let (path, run) = with_nono(&host, &format!("echo nono {version}"));
        assert_told(
            &host,
            &run,
            125,
            &format!(
                "paddock: nono {version} at {path} is too old; 0.81.0 or newer is needed\n  \
                 next: scripts/setup.sh installs it, or: cargo install nono-cli --version 0.81.0\n"
            ),
        );
    }
}

#[test]
fn a_nono_that_does_not_tell_its_version() {
    let host = Host::new();
    let told = |path: &str, reason: &str| {
        format!(
            "paddock: nono at {path} cannot be used: {reason}\n  \
             next: paddock info --programs shows which programs are used, and from where\n"
        )
    };
    let (path, run) = with_nono(&host, "printf 'no\\033[2Jno\\n'");
    assert_told(&host, &run, 125, &told(&path, r#"its --version says "no\u{1b}[2Jno\n""#));
    let (path, run) = with_nono(&host, "exit 3");
    assert_told(&host, &run, 125, &told(&path, r#"its --version says """#));
    // More than a pipe holds.
    let (path, run) = with_nono(&host, "head -c 100000 /dev/zero | tr '\\0' x; sleep 60");
    assert_told(&host, &run, 125, &told(&path, "it did not tell its version in 5 s"));
}

#[test]
fn a_nono_that_hangs_is_given_five_seconds_and_ended() {
    let host = Host::new();
    // A script that waits for another: neither may stay.
    let other = host.script("bin/other", "#!/bin/sh\nsleep 300\n:\n");
    let started = Instant::now();
    let (path, run) = with_nono(&host, &format!("{}\n:", other.display()));
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_told(
        &host,
        &run,
        125,
        &format!(
            "paddock: nono at {path} cannot be used: it did not tell its version in 5 s\n  \
             next: paddock info --programs shows which programs are used, and from where\n"
        ),
    );
}

#[test]
fn a_nono_that_ends_at_once() {
    for (tier, layer, reason) in [
        ("sealed", "pen", "it ended"),
        ("isolated", "pen", "it ended"),
        ("ported", "pen", "it ended"),
    ] {
        let host = Host::new();
        let real = nono();
        let script = format!(
            "case $1 in --version | profile) exec {} \"$@\";; esac; echo broken >&2; exit 1",
            real.display()
        );
        let path = host.script("bin/nono", &format!("#!/bin/sh\n{script}\n"));
        let mut command = host.agent_command("standin", &["--tier", tier], &["echo ran"]);
        command.env("PADDOCK_NONO", &path);
        assert_told(
            &host,
            &finish(command),
            125,
            &format!(
                "paddock: the {layer} layer did not start: {reason}\n  | broken\n  \
                 next: paddock info --programs shows what was run\n"
            ),
        );
    }
}

#[test]
fn a_workspace_that_is_too_much_or_not_there() {
    let mut host = Host::new();
    host.write("file", "");
    for directory in ["closed", "real", ".ssh/keys"] {
        std::fs::create_dir_all(host.home().join(directory)).unwrap();
    }
    mode(&host.home().join("closed"), 0o555);
    symlink(host.home().join("real"), host.home().join("link")).unwrap();
    let home = host.home();
    let above = home.parent().unwrap();
    // What runs outside, too, must not be the agent's to write.
    let own = host.home().join("tools/nono");
    std::fs::create_dir(own.parent().unwrap()).unwrap();
    std::fs::copy(nono(), &own).unwrap();
    host.set("PADDOCK_NONO", &own);
    let cases = [
        (
            home.join("tools"),
            format!(
                "it contains {}, which the agent must not be able to write; install it elsewhere",
                own.display()
            ),
        ),
        ("/".into(), "it is the whole file system".into()),
        (home.clone(), "it is your home directory; choose a directory in it".into()),
        (above.to_owned(), "it contains your home directory".into()),
        ("/usr".into(), "it is a directory of the system".into()),
        ("/usr/bin".into(), "it is inside a directory of the system".into()),
        (home.join(".local/share"), "No such file or directory (os error 2)".into()),
        (home.join("file"), "it is not a directory".into()),
        (home.join("closed"), "it is not writable for you".into()),
        (home.join(".ssh/keys"), format!("it is inside {}", home.join(".ssh").display())),
        (
            home.join("link"),
            format!(
                "it is a symbolic link to {}; name that directory if you mean it",
                home.join("real").display()
            ),
        ),
        (
            host.runtime(),
            format!(
                "it overlaps Paddock's own directory {}",
                host.runtime().join("paddock").display()
            ),
        ),
    ];
    for (path, reason) in cases {
        let mut command = host.paddock();
        command.args(["run", "standin", "--workspace"]).arg(&path);
        assert_told(
            &host,
            &finish(command),
            125,
            &format!(
                "paddock: the workspace {} cannot be used: {reason}\n  \
                 next: paddock run --workspace DIR names another\n",
                path.display()
            ),
        );
    }
    for directory in [home.as_path(), Path::new("/")] {
        let mut command = host.paddock();
        command.arg("run").current_dir(directory);
        let run = finish(command);
        assert_eq!(run.code(), Some(125), "started in {}", directory.display());
        assert!(run.stderr.starts_with("paddock: the workspace "), "{}", run.stderr);
    }
    assert_clean(&host);
}

#[test]
fn directories_that_cannot_be_used() {
    let unusable = |path: &Path, reason: &str| {
        format!(
            "paddock: the directory {} cannot be used: {reason}\n  \
             next: paddock info --paths shows every directory in use\n",
            path.display()
        )
    };
    let denied = "Permission denied (os error 13)";

    let host = Host::new();
    let local = host.home().join(".local");
    std::fs::create_dir(&local).unwrap();
    mode(&local, 0o555);
    let state = local.join("state/paddock");
    assert_told(&host, &host.standin(&["echo ran"]), 125, &unusable(&state, denied));

    let host = Host::new();
    mode(&host.runtime(), 0o555);
    let runtime = host.runtime().join("paddock");
    assert_told(&host, &host.standin(&["echo ran"]), 125, &unusable(&runtime, denied));

    let mut host = Host::new();
    let long = host.home().join("x".repeat(100));
    std::fs::create_dir(&long).unwrap();
    host.set("XDG_RUNTIME_DIR", &long);
    let run = host.standin(&["echo ran"]);
    let (start, rest) = run.stderr.split_once(" is too long for a socket by ").unwrap();
    assert!(start.starts_with(&format!("paddock: the path {}/", long.display())), "{start}");
    let (excess, advice) = rest.split_once(' ').unwrap();
    let length = start.strip_prefix("paddock: the path ").unwrap().len();
    assert_eq!(excess.parse(), Ok(length - 107));
    assert_eq!(advice, "bytes\n  next: set XDG_RUNTIME_DIR to a shorter path\n");
    assert_eq!(run.code(), Some(125));
    assert_clean(&host);

    let mut host = Host::new();
    host.set("XDG_STATE_HOME", "/tmp/nowhere");
    assert_told(
        &host,
        &host.standin(&["echo ran"]),
        125,
        &unusable(
            Path::new("/tmp/nowhere/paddock"),
            "it is below /tmp, which the veil makes private to the launch",
        ),
    );

    let mut host = Host::new();
    host.set("HOME", "relative");
    assert_told(
        &host,
        &host.standin(&["echo ran"]),
        125,
        &unusable(Path::new("$HOME"), "HOME is not set to an absolute path"),
    );
}

#[test]
fn directories_that_others_can_use() {
    let exposed = |path: &Path, reason: &str| {
        format!(
            "paddock: the directory {0} is not private: {reason}\n  next: chmod 700 {0}\n",
            path.display()
        )
    };
    for below in [".local/state/paddock", ".local/share/paddock", ".local/share/paddock/homes"] {
        let host = Host::new();
        let path = host.home().join(below);
        std::fs::create_dir_all(&path).unwrap();
        for directory in path.ancestors().take_while(|p| *p != host.home()) {
            mode(directory, 0o700);
        }
        mode(&path, 0o755);
        assert_told(&host, &host.standin(&["echo ran"]), 125, &exposed(&path, "others can use it"));
        mode(&path, 0o700);
        let run = host.standin(&["echo ran"]);
        assert_eq!(run.stdout, "ran\n", "what was advised helps: {}", run.stderr);
    }
    let host = Host::new();
    let elsewhere = host.home().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let link = host.runtime().join("paddock");
    symlink(&elsewhere, &link).unwrap();
    let run = host.standin(&["echo ran"]);
    assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""));
    let told = format!(
        "paddock: the directory {0} is not private: it is a symbolic link or no directory\n  \
         next: see what it is, then move it away: ls -ld {0}\n",
        link.display()
    );
    assert!(run.stderr.starts_with(&told), "{}", run.stderr);
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn a_host_without_user_namespaces() {
    let host = Host::new();
    let run_in = |tier: &str| {
        let command = host.agent_command("standin", &["--tier", tier], &["echo ran"]);
        host.run_without_user_namespaces(&command)
    };
    for tier in ["sealed", "isolated"] {
        let Some(run) = run_in(tier) else { return };
        assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""), "{}", run.stderr);
        let lines: Vec<&str> = run.stderr.lines().collect();
        let start = format!("paddock: namespaces for the {tier} tier are not to be had: the ");
        assert!(lines[0].starts_with(&start), "{}", run.stderr);
        assert!(lines[1].starts_with("  | ") && lines[1].contains("namespace"), "{}", run.stderr);
        assert_eq!(
            lines.last(),
            Some(
                &"  next: the host (a container, perhaps) refuses user namespaces; allow them for \
                  this user; or choose a lesser tier: paddock run --tier ported"
            )
        );
        assert_clean(&host);
    }
    let run = run_in("ported").unwrap();
    assert_eq!((run.code(), run.stdout.as_str()), (Some(0), "ran\n"), "{}", run.stderr);
    assert_clean(&host);
}

#[test]
fn a_host_whose_bubblewrap_is_not_let() {
    // Its messages, word for word, where a distribution forbids it.
    for message in [
        "bwrap: No permissions to create new namespace, likely because the kernel does not allow \
         non-privileged user namespaces.",
        "bwrap: setting up uid map: Permission denied",
    ] {
        let host = Host::new();
        let bwrap = host.script(
            "bin/bwrap",
            &format!(
                "#!/bin/sh\n[ \"$1\" = --version ] && echo bubblewrap 0.8.0 && exit\n\
                 echo '{message}' >&2; exit 1\n"
            ),
        );
        let mut command = host.standin_command(&["echo ran"]);
        command.env("PADDOCK_BWRAP", &bwrap);
        let run = finish(command);
        let told = format!(
            "paddock: namespaces for the sealed tier are not to be had: the veil layer did not \
             start: bubblewrap ended\n  | {message}\n  next: "
        );
        assert!(run.stderr.starts_with(&told), "{}", run.stderr);
        assert!(
            run.stderr.ends_with("; or choose a lesser tier: paddock run --tier ported\n"),
            "{}",
            run.stderr
        );
        assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""));
        assert_clean(&host);
    }
}

#[test]
fn a_kernel_whose_landlock_is_missing_or_too_old() {
    for (abi, found) in [("0", "missing"), ("3", "ABI 3"), ("5", "ABI 5")] {
        let mut host = Host::new();
        host.set("PADDOCK_TEST_LANDLOCK_ABI", abi);
        assert_told(
            &host,
            &host.standin(&["echo ran"]),
            125,
            &format!(
                "paddock: Landlock on this kernel is {found}; ABI 6 (Linux 6.12) is needed\n  \
                 next: use a kernel with Landlock enabled (lsm=landlock,... on its command line)\n"
            ),
        );
    }
    let mut host = Host::new();
    host.set("PADDOCK_TEST_LANDLOCK_ABI", "99");
    assert_eq!(host.standin(&["echo ran"]).stdout, "ran\n", "it can only be lowered");
}

#[test]
fn root() {
    let mut command = Command::new("bwrap");
    command.args(["--dev-bind", "/", "/", "--unshare-user", "--uid", "0", "--"]);
    command.arg(paddock()).arg("run");
    let host = Host::new();
    host.dress(&mut command);
    assert_told(
        &host,
        &finish(command),
        125,
        "paddock: paddock does not run as root\n  \
         next: run it as the user whose files the agent may work on\n",
    );
}

#[test]
fn a_configuration_that_is_not_one() {
    for (text, reason) in [
        (
            "on_violation = \"warn\"\n",
            "line 1: unknown key `on_violation`: did you mean `on-violation`?",
        ),
        (
            "[egress]\nhost = [\"a.test\"]\n",
            "line 2: unknown key `host` in [egress]: did you mean `hosts`?",
        ),
        (
            "[agents.standin]\nhostss = []\n",
            "line 2: unknown key `hostss` in [agents.standin]: did you mean `hosts`?",
        ),
        (
            "tier = \"none\"\n",
            "line 1: unknown value \"none\" of `tier`, which is one of \"sealed\", \"isolated\", \
             \"ported\"",
        ),
        (
            "agent = \"x\"\nunix = \"strickt\"\n",
            "line 2: unknown value \"strickt\" of `unix`, which is one of \"mediated\", \
             \"strict\": did you mean \"strict\"?",
        ),
        ("\ntier = \n", "line 2: "),
    ] {
        let host = Host::new();
        host.configure(text);
        let run = host.standin(&["echo ran"]);
        assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""), "{text}");
        let path = host.home().join(".config/paddock/config.toml");
        let told = format!("paddock: the configuration {} is not usable: ", path.display());
        assert!(run.stderr.starts_with(&told), "{}", run.stderr);
        assert!(run.stderr.contains(reason), "{}", run.stderr);
        assert!(
            run.stderr.ends_with("\n  next: correct the file, then try again\n"),
            "{}",
            run.stderr
        );
        assert_clean(&host);
    }
}

#[test]
fn hosts_and_exceptions_that_are_none() {
    for (egress, reason) in [
        ("hosts = [\"a b\"]", "allow entry \"a b\": "),
        ("hosts = [\"\"]", "allow entry \"\": "),
        ("hosts = [\"a.test:99999\"]", "allow entry \"a.test:99999\": "),
        (
            "exceptions = { \"a.test\" = \"home\" }",
            "\"home\", the exception for \"a.test\", is no address and no network\n",
        ),
    ] {
        let host = Host::new();
        host.configure(&format!("[egress]\n{egress}\n"));
        for options in [&[][..], &["--dry-run"]] {
            let run = finish(host.agent_command("standin", options, &["echo ran"]));
            assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""), "{egress}");
            let told = format!("paddock: the allowed hosts are not usable: {reason}");
            assert!(run.stderr.starts_with(&told), "{}", run.stderr);
            assert!(
                run.stderr.ends_with(
                    "\n  next: correct `hosts` and `exceptions` in the configuration or agent file\n"
                ),
                "{}",
                run.stderr
            );
        }
        assert!(host.records().is_empty(), "found out before anything is started");
        assert_clean(&host);
    }
}

#[test]
fn an_agent_file_or_policy_that_is_not_one() {
    let host = Host::new();
    host.add_agent("own", "name = \"own\"\n");
    let directory = host.home().join(".config/paddock/agents/own");
    let run = host.run(&["run", "own"]);
    let told = format!(
        "paddock: the agent file {} is not usable: ",
        directory.join("agent.toml").display()
    );
    assert!(run.stderr.starts_with(&told), "{}", run.stderr);
    assert!(run.stderr.contains("missing field `title`"), "{}", run.stderr);
    assert_eq!(run.code(), Some(125));

    host.add_agent("own", &agent("\"{prot}\"", "\"true\""));
    let run = host.run(&["run", "own"]);
    assert_eq!(
        run.stderr,
        format!(
            "{told}\"{{prot}}\" names \"prot\", unknown here\n  \
             next: correct the file, then try again\n"
        )
    );

    host.add_agent("own", &agent("\"{paddock}\"", "\"true\""));
    std::fs::remove_file(directory.join("client.json")).unwrap();
    let run = host.run(&["run", "own"]);
    assert_eq!(
        run.stderr,
        format!(
            "paddock: the agent file {} is not usable: it is not there; write one, or extend an \
             agent that has one\n  next: correct the file, then try again\n",
            directory.join("client.json").display()
        )
    );

    for broken in ["server.json", "client.json"] {
        host.add_agent("own", &agent("\"{paddock}\"", "\"true\""));
        std::fs::write(directory.join(broken), "{ \"meta\": ").unwrap();
        let run = host.run(&["run", "own"]);
        assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""));
        let told = format!(
            "paddock: the agent file {} is not usable: EOF",
            directory.join(broken).display()
        );
        assert!(run.stderr.starts_with(&told), "{}", run.stderr);
        assert_clean(&host);
    }
}

#[test]
fn an_agent_whose_program_is_missing() {
    let host = Host::new();
    host.add_agent("own", &agent("\"true\"", "\"true\"").replace("{paddock}", "no-such-program"));
    assert_told(
        &host,
        &host.run(&["run", "own"]),
        127,
        "paddock: the program of agent own was not found (looked for no-such-program)\n  \
         next: install it, or name it: in the configuration, [agents.own] program = \"/path\"\n",
    );
    host.add_agent("own", &agent("\"/nonexistent/server\"", "\"true\""));
    assert_told_later(
        &host,
        127,
        "paddock: the agent's server could not be started: No such file or directory (os error 2)\n",
    );
    host.add_agent("own", &agent("\"sleep\", \"300\"", "\"/nonexistent/client\""));
    host.configure("");
    let run = host.run(&["run", "own"]);
    assert_eq!(run.code(), Some(125), "the server never answers: {}", run.stderr);
    assert_clean(&host);
}

/// It came as far as a verified launch, and then ended so.
#[track_caller]
fn assert_told_later(host: &Host, status: i32, message: &str) {
    let run = host.run(&["run", "own"]);
    let (first, rest) = run.stderr.split_once('\n').unwrap();
    assert!(first.ends_with(" tasks confirmed, watching"), "{}", run.stderr);
    assert_eq!((run.code(), run.stdout.as_str(), rest), (Some(status), "", message));
    assert_clean(host);
}

#[test]
fn an_agent_whose_program_cannot_be_executed() {
    let host = Host::new();
    let plain = host.write("plain", "no program\n");
    host.add_agent("own", &agent("\"{program}\"", "\"{program}\""));
    host.configure(&format!("[agents.own]\nprogram = {plain:?}\n"));
    assert_told(
        &host,
        &host.run(&["run", "own"]),
        125,
        &format!(
            "paddock: the agent at {} cannot be used: it is not an executable file\n  \
             next: paddock info --programs shows which programs are used, and from where\n",
            plain.display()
        ),
    );
    // The library has a shell try what the kernel does not take for a program.
    mode(&plain, 0o755);
    let run = host.run(&["run", "own"]);
    assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""));
    let told = format!("it ended (status 127)\n  | {}: ", plain.display());
    assert!(run.stderr.contains(&told), "{}", run.stderr);

    std::fs::write(&plain, "#!/nonexistent/interpreter\n").unwrap();
    assert_eq!(host.run(&["pin", "own", "--accept"]).code(), Some(0));
    assert_told_later(
        &host,
        127,
        "paddock: the agent's server could not be started: No such file or directory (os error 2)\n",
    );
}

#[test]
fn an_agent_whose_server_ends_at_once() {
    let host = Host::new();
    let server = "\"sh\", \"-c\", \"echo no account >&2; exit 9\"";
    host.add_agent("own", &agent(server, "\"true\""));
    assert_told_later(
        &host,
        125,
        "paddock: the agent's server could not be started: it ended (status 9)\n  | no account\n",
    );
    let ended = host.ledger().into_iter().find(|entry| entry["event"] == "agent-ended").unwrap();
    assert_eq!((&ended["half"], &ended["status"]), (&"server".into(), &9.into()));
}

#[test]
fn an_agent_whose_server_never_answers() {
    let host = Host::new();
    host.add_agent("own", &agent("\"sh\", \"-c\", \"echo thinking; sleep 300\"", "\"true\""));
    assert_told_later(
        &host,
        125,
        "paddock: the agent's server could not be started: it did not answer within 1 s\n  \
         | thinking\n",
    );
}

#[test]
fn an_agent_whose_client_is_missing() {
    let host = Host::new();
    let server = "\"{program}\", \"standin\", \"serve\", \"--listen\", \"unix:{link}\"";
    let text = agent(server, "\"/nonexistent/client\"")
        .replace("[server]", "[server]\npassword-variable = \"PADDOCK_STANDIN_PASSWORD\"");
    host.add_agent("own", &text);
    assert_told_later(
        &host,
        127,
        "paddock: the agent's client does not start: No such file or directory (os error 2)\n\
         paddock: the agent ended with status 127\n",
    );
}
