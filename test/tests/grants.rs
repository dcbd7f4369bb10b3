//! What an agent asks for, and what a person answers: in the running launch for a
//! host, with later ones for a path.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use paddock_test::host::{Finished, Host, LIMIT, Launch, TIERS, paddock, probe, wait_for};
use paddock_test::service::service;
use serde_json::Value;

/// A launch whose tool does what it is told, one command after the other.
struct Told<'a> {
    host: &'a Host,
    launch: Launch<'a>,
    count: usize,
}

impl<'a> Told<'a> {
    fn start(host: &'a Host, tier: &str) -> Self {
        Self::start_after(host, tier, || ())
    }

    /// `before` is done in the empty workspace.
    fn start_after(host: &'a Host, tier: &str, before: impl FnOnce()) -> Self {
        // Of a launch before.
        for entry in std::fs::read_dir(host.workspace()).unwrap().flatten() {
            std::fs::remove_file(entry.path()).unwrap();
        }
        std::fs::copy(probe(), host.workspace().join("probe")).unwrap();
        before();
        let obey = "n=1; while :; do until [ -e do-$n ]; do sleep 0.01; done; \
            sh ./do-$n >out-$n 2>&1; echo $? >code-$n; mv code-$n done-$n; n=$((n+1)); done";
        let launch = host.start(host.agent_command("standin", &["--tier", tier], &[obey]));
        Self { host, launch, count: 0 }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.host.workspace().join(format!("{name}-{}", self.count))
    }

    /// Starts a command and does not wait for it.
    fn begin(&mut self, command: &str) {
        self.count += 1;
        std::fs::write(self.file("new"), command).unwrap();
        std::fs::rename(self.file("new"), self.file("do")).unwrap();
    }

    /// What the command printed, and its status.
    fn end(&self) -> (String, i32) {
        let done = self.file("done");
        wait_for(LIMIT, || done.exists().then_some(())).expect("it ends");
        let code = std::fs::read_to_string(done).unwrap();
        (std::fs::read_to_string(self.file("out")).unwrap(), code.trim().parse().unwrap())
    }

    fn run(&mut self, command: &str) -> (String, i32) {
        self.begin(command);
        self.end()
    }

    fn grant(&self, arguments: &[&str]) -> Finished {
        self.host.run(&[&["grant", &self.launch.id[..8]], arguments].concat())
    }

    /// Waits until so many questions are before the person.
    fn wait_for_questions(&self, count: usize) -> Value {
        let asked = || -> Value {
            let run = self.grant(&["--json"]);
            serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}: {run:?}"))
        };
        let there = wait_for(LIMIT, || {
            let asked = asked();
            (asked["questions"].as_array().map(Vec::len) == Some(count)).then_some(asked)
        });
        there.expect("questions")
    }
}

/// Asks again as long as that comes too soon after another question.
fn patient(ask: &str) -> String {
    format!(
        "while {ask} >said 2>&1; code=$?; grep -q too-often said; do :; done; \
         cat said; exit $code"
    )
}

#[test]
fn a_host_is_asked_for_granted_and_taken_back_while_the_launch_runs() {
    for tier in TIERS {
        let host = Host::new();
        let port = service();
        let configuration = "[egress]\nexceptions = { \"ok.test\" = \"127.0.0.1\" }\n";
        host.configure(configuration);
        let mut told = Told::start(&host, tier);
        let name = format!("ok.test:{port}");
        let fetch = format!("./probe proxy:{name}");
        let (refused, _) = told.run(&fetch);
        assert!(refused.contains("the proxy answers 403"), "{tier}: {refused}");

        // Denied, and not answered in time.
        told.begin(&format!("paddock ask host {name} --wait 30 to fetch"));
        let asked = told.wait_for_questions(1);
        assert_eq!(asked["questions"][0]["wanted"]["host"], name.as_str());
        assert_eq!(told.grant(&["host", &name, "--deny"]).stdout, "denied\n");
        assert_eq!(told.end(), ("denied: the person does not allow it\n".into(), 1));
        // Who asked and does not wait is forgotten.
        let gone = format!("timeout -s KILL 0.3 paddock ask host {name} --wait 600");
        assert_ne!(told.run(&gone).1, 0);
        told.wait_for_questions(0);
        let (late, code) = told.run(&patient(&format!("paddock ask host {name} --wait 1")));
        assert_eq!((late.as_str(), code), ("denied: nobody answered in 1 s\n", 1));

        // Granted: by another notation of the same host.
        told.begin(&format!("paddock ask host OK.test.:{port} --wait 30"));
        told.wait_for_questions(1);
        let run = told.grant(&["host", &format!("Ok.Test:{port}"), "--launch"]);
        assert_eq!(run.stdout, "granted for as long as this launch lives\n", "{run:?}");
        assert_eq!(told.end(), ("granted: launch\n".into(), 0));
        assert_eq!(told.run(&fetch).0, format!("proxy:{name} ok\n"), "{tier}");
        let again = told.run(&format!("paddock ask host {name}")).0;
        assert_eq!(again, "granted: it is allowed already\n");
        assert!(told.run("paddock ask grants").0.contains(&format!("hosts      {name}\n")));

        // Taken back: what is open is cut.
        let open = format!(
            "bash -c 'proxy=${{HTTPS_PROXY##*:}}; user=${{HTTPS_PROXY#http://}}; \
             exec 3<>/dev/tcp/127.0.0.1/$proxy; printf \"CONNECT {name} HTTP/1.1\\r\\n\
             Proxy-Authorization: Basic %s\\r\\n\\r\\n\" $(printf %s ${{user%@*}} | base64 -w0) \
             >&3; read -r line <&3; echo $line; touch opened; cat <&3 >/dev/null; echo cut'"
        );
        told.begin(&open);
        let opened = host.workspace().join("opened");
        wait_for(LIMIT, || opened.exists().then_some(())).expect("a tunnel");
        let started = Instant::now();
        let run = told.grant(&["host", &name, "--revoke"]);
        assert_eq!(run.stdout, "taken back; its connections are cut\n", "{run:?}");
        let (text, _) = told.end();
        assert!(text.contains(" 200 ") && text.ends_with("cut\n"), "{tier}: {text}");
        assert!(started.elapsed() < Duration::from_secs(10));
        assert!(told.run(&fetch).0.contains("the proxy answers 403"), "{tier}");
        for arguments in [&["host", &name, "--revoke"][..], &["host", &name, "--revoke", "--json"]]
        {
            let run = told.grant(arguments);
            assert_eq!(run.code(), Some(125), "{run:?}");
        }
        // What was granted once is, too, and nobody used it.
        assert_eq!(told.grant(&["host", &name, "--once"]).code(), Some(0));
        let run = told.grant(&["host", &name, "--revoke"]);
        assert_eq!(run.stdout, "taken back; its connections are cut\n", "{run:?}");
        assert!(told.run(&fetch).0.contains("the proxy answers 403"), "{tier}");

        // For one connection.
        assert_eq!(told.grant(&["host", &name, "--once"]).code(), Some(0));
        assert_eq!(told.run(&fetch).0, format!("proxy:{name} ok\n"), "{tier}");
        assert!(told.run(&fetch).0.contains("the proxy answers 403"), "{tier}");

        // For the next launches, too.
        assert_eq!(told.grant(&["host", &name, "--always"]).code(), Some(0));
        assert_eq!(told.run(&fetch).0, format!("proxy:{name} ok\n"), "{tier}");
        assert_eq!(told.launch.verify().0, Some(0));
        told.launch.terminate();
        let kept = std::fs::read_to_string(host.home().join(".config/paddock/config.toml"));
        let wanted = format!("{configuration}\n[agents.standin]\nhosts = [\"{name}\"]\n");
        assert_eq!(kept.unwrap(), wanted);
        let mut told = Told::start(&host, tier);
        assert_eq!(told.run(&fetch).0, format!("proxy:{name} ok\n"), "{tier}");
        // Taken back from this launch, and it is said that it is kept.
        let run = told.grant(&["host", &name, "--revoke"]);
        let wanted = format!("later launches have it still: remove {name} from ");
        assert!(run.code() == Some(0) && run.stdout.contains(&wanted), "{run:?}");
        told.launch.terminate();
    }
}

#[test]
fn a_question_is_told_once_and_only_what_can_be_shown() {
    let host = Host::new();
    let mut told = Told::start(&host, "sealed");
    for (command, code) in [
        ("paddock ask host a.test --wait 0", "bad-wait"),
        ("paddock ask path /a/../b --wait 1", "bad-path"),
        ("paddock ask path /a,b --wait 1", "bad-path"),
        (r#"paddock ask path "$(printf '/a\033b')" --wait 1"#, "bad-path"),
    ] {
        let (text, status) = told.run(command);
        assert!(text.contains(&format!("refused: {code}: ")) && status == 125, "{command}: {text}");
    }
    // Two ask for the same, and one grant by another form answers both.
    let ask = "paddock ask host a.test:443 --wait 60";
    told.begin(&format!("{ask} >first & {ask} >second; wait; cat first second"));
    told.wait_for_questions(2);
    assert_eq!(told.grant(&["host", "a.test"]).code(), Some(0));
    assert_eq!(told.end(), ("granted: launch\n".repeat(2), 0));
    // Of a path there is no other scope to choose.
    told.begin(&patient("paddock ask path /no/such/path --wait 60"));
    told.wait_for_questions(1);
    assert_eq!(told.grant(&["path", "/no/such/path", "--deny"]).stdout, "denied\n");
    assert_eq!(told.end().1, 1);
    let run = told.launch.terminate();
    let asked = "the agent asks for the host a.test:443; ";
    assert_eq!(run.stderr.matches(asked).count(), 1, "{}", run.stderr);
    let asked = "path /no/such/path --always\n";
    assert_eq!(run.stderr.matches(asked).count(), 1, "{}", run.stderr);
}

#[test]
fn what_cannot_be_kept_is_granted_for_the_launch_and_said() {
    let host = Host::new();
    let mut told = Told::start(&host, "sealed");
    let file = host.write(".config/paddock/config.toml", "no toml\n");
    let run = told.grant(&["host", "a.test", "--always"]);
    assert_eq!(run.code(), Some(125), "{run:?}");
    assert!(run.stderr.contains("granted for this launch, not kept: "), "{run:?}");
    assert!(told.run("paddock ask grants").0.contains("hosts      a.test\n"));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "no toml\n");
    told.launch.terminate();
}

#[test]
fn a_path_is_granted_with_later_launches() {
    let host = Host::new();
    let notes = host.write("notes/today", "a note\n");
    let directory = notes.parent().unwrap().to_str().unwrap().to_owned();
    let read = format!("cat {}", notes.display());
    let mut told = Told::start(&host, "sealed");
    assert_ne!(told.run(&read).1, 0, "control");
    told.begin(&format!("paddock ask path {directory} --wait 30"));
    let asked = told.wait_for_questions(1);
    assert_eq!(asked["questions"][0]["wanted"]["path"]["path"], directory.as_str());
    // Not for this launch: nothing of it is kept, and who asked waits on.
    for scope in ["--once", "--launch"] {
        let run = told.grant(&["path", &directory, scope]);
        assert_eq!(run.code(), Some(125), "{run:?}");
        assert!(run.stderr.contains("a path is granted with --always"), "{run:?}");
    }
    told.wait_for_questions(1);
    // By a link: where it leads is shown and kept.
    let link = host.home().join("link");
    std::os::unix::fs::symlink(&directory, &link).unwrap();
    let link = link.to_str().unwrap();
    let run = told.grant(&["path", link, "--always"]);
    let told_so = format!(
        "{link} leads to {directory}: may be read by standin's later launches, until it is removed \
         from config.toml; a sandbox that runs cannot be widened\n  next: paddock run standin\n"
    );
    assert_eq!(run.stdout, told_so, "{run:?}");
    let (answer, code) = told.end();
    assert!(answer.starts_with("granted: with later launches") && code == 0, "{answer}");
    assert_ne!(told.run(&read).1, 0, "not in this one");
    told.launch.terminate();

    let mut told = Told::start(&host, "sealed");
    assert_eq!(told.run(&read), ("a note\n".into(), 0));
    let write = format!("echo more >>{}", notes.display());
    assert_ne!(told.run(&write).1, 0, "it was to be read");
    told.launch.terminate();
    // What leads elsewhere by now is told, and so is what is not there.
    let elsewhere = host.write("elsewhere/today", "another\n").parent().unwrap().to_owned();
    std::fs::rename(notes.parent().unwrap(), host.home().join("moved")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &directory).unwrap();
    let run = host.run(&["run", "standin"]);
    assert_eq!(run.code(), Some(125), "{}", run.stderr);
    let wanted = format!("the path {directory}: it leads to {0}; write {0}", elsewhere.display());
    assert!(run.stderr.contains(&wanted), "{}", run.stderr);
    std::fs::remove_file(&directory).unwrap();
    let run = host.run(&["run", "standin"]);
    assert_eq!(run.code(), Some(125), "{}", run.stderr);
    assert!(run.stderr.contains(&format!("the path {directory}: No such file")), "{}", run.stderr);
}

#[test]
fn what_an_agent_put_in_the_place_of_what_it_asked_for_is_not_granted() {
    let host = Host::new();
    let secret = host.write("secret/key", "x\n").parent().unwrap().to_owned();
    let asked_for = host.workspace().join("build");
    let asked_for = asked_for.to_str().unwrap();
    let mut told = Told::start(&host, "sealed");
    assert_eq!(told.run("mkdir -p build/deep").1, 0);
    told.begin(&format!("paddock ask path {asked_for} --write --wait 30"));
    let asked = told.wait_for_questions(1);
    assert_eq!(asked["questions"][0]["wanted"]["path"]["path"], asked_for);
    // As the agent could, between the question and the answer.
    std::fs::remove_dir_all(asked_for).unwrap();
    std::os::unix::fs::symlink(&secret, asked_for).unwrap();
    let run = told.grant(&["path", asked_for, "--write", "--always"]);
    assert_eq!(run.code(), Some(125), "{run:?}");
    let wanted =
        format!("a link in it that an agent may have made, and leads to {}", secret.display());
    assert!(run.stderr.contains(&wanted), "{run:?}");
    let kept = std::fs::read_to_string(host.home().join(".config/paddock/config.toml"))
        .unwrap_or_default();
    assert!(!kept.contains("secret"), "{kept}");
    told.wait_for_questions(1);
    // The control: what is there as it was shown is granted.
    std::fs::remove_file(asked_for).unwrap();
    std::fs::create_dir(asked_for).unwrap();
    let run = told.grant(&["path", asked_for, "--write", "--always"]);
    assert_eq!(run.code(), Some(0), "{run:?}");
    assert_eq!(told.end().1, 0);
    told.launch.terminate();
}

#[test]
fn what_cannot_be_granted_is_told() {
    let host = Host::new();
    let told = Told::start(&host, "sealed");
    let bin = paddock();
    let bin = bin.parent().unwrap().to_str().unwrap();
    for (arguments, wanted) in [
        (&["host", "a b"][..], "nothing was granted: a b: "),
        (&["host", "*.test"], "nothing was granted: *.test: "),
        (&["path", "/x", "--revoke"], "nothing was granted: a path is taken back"),
        // As a launch would refuse them.
        (&["path", "/no/such/path"], "nothing was granted: the path /no/such/path: No such file"),
        (&["path", "/"], "nothing was granted: the path /: Paddock keeps its own things there"),
        (&["path", bin, "--write"], "which the agent must not be able to write"),
    ] {
        let run = told.grant(arguments);
        assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""), "{run:?}");
        assert!(run.stderr.contains(wanted), "{run:?}");
    }
    let kept = host.home().join(".config/paddock/config.toml");
    let kept = std::fs::read_to_string(kept).unwrap_or_default();
    assert!(!kept.contains("agents.standin"), "nothing is kept of it: {kept}");
    assert_eq!(told.grant(&[]).stdout, "no question waits\n");
    assert_eq!(told.grant(&["host"]).code(), Some(2));
    assert_eq!(told.grant(&["host", "a.test", "--once", "--always"]).code(), Some(2));
    assert_eq!(host.run(&["grant", "bcdf", "host", "a.test"]).code(), Some(125));
    told.launch.terminate();
}

/// The refusal itself says how to ask.
#[test]
fn a_refusal_says_how_to_ask_and_a_socket_in_reach_is_told() {
    let host = Host::new();
    let mut service = None;
    let mut told = Told::start_after(&host, "sealed", || {
        let path = host.workspace().join("service");
        service = Some(std::os::unix::net::UnixListener::bind(path).unwrap());
    });
    let ask = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/${HTTPS_PROXY##*:}; \
        printf \"CONNECT a.test:8080 HTTP/1.1\\r\\n\\r\\n\" >&3; cat <&3'";
    let (text, _) = told.run(ask);
    assert!(text.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{text}");
    let body = "refused: host-not-allowed: a.test is not on the allow list\n\
        next: paddock ask host a.test:8080\n";
    assert!(text.ends_with(body), "{text}");
    let run = told.launch.terminate();
    let wanted = format!("a program of yours listens at {}/service", host.workspace().display());
    assert!(run.stderr.contains(&wanted), "{}", run.stderr);
}
