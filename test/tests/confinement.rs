//! What a tool of a confined agent cannot do, each beside its control: the same
//! operation by the same program works outside.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use paddock_test::host::{
    Finished, Host, LIMIT, Launch, TIERS, finish, nono, probe, send, standin_over_a_port, wait_for,
};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Signal;
use rustix::pty::OpenptFlags;

/// What became of each attempt, in order: `None` where it worked.
type Outcomes = Vec<(String, Option<String>)>;

fn outcomes(run: &Finished) -> Outcomes {
    let parse = |line: &str| match line.split_once(" no ") {
        Some((attempt, error)) => (attempt.to_owned(), Some(error.to_owned())),
        None => (line.strip_suffix(" ok").expect(line).to_owned(), None),
    };
    run.stdout.lines().map(parse).collect()
}

fn working(outcomes: &Outcomes) -> Vec<&str> {
    outcomes.iter().filter(|(_, e)| e.is_none()).map(|(attempt, _)| attempt.as_str()).collect()
}

/// The same attempts by a plain process of the host.
fn outside(host: &Host, attempts: &[String]) -> Outcomes {
    let mut command = Command::new(probe());
    host.dress(&mut command);
    command.args(attempts);
    let outcomes = outcomes(&finish(command));
    assert_eq!(outcomes.len(), attempts.len(), "{outcomes:?}");
    outcomes
}

/// A running launch whose tool makes the attempts that it is handed later, when
/// what the launch has on the host is known.
struct Confined<'a> {
    host: &'a Host,
    launch: Launch<'a>,
}

impl<'a> Confined<'a> {
    fn start(host: &'a Host, tier: &str) -> Self {
        std::fs::copy(probe(), host.workspace().join("probe")).unwrap();
        let wait = "touch ready; until [ -e attempts ]; do sleep 0.01; done; rm ready; \
            ./probe @attempts";
        let launch = host.start(host.agent_command("standin", &["--tier", tier], &[wait]));
        let ready = host.workspace().join("ready");
        wait_for(LIMIT, || ready.exists().then_some(())).expect("the tool runs");
        Self { host, launch }
    }

    /// The launch directory's part that exists inside.
    fn inside(&self) -> PathBuf {
        self.host.runtime().join("paddock").join(&self.launch.id).join("in")
    }

    fn state(&self) -> PathBuf {
        self.host.launches().join(&self.launch.id)
    }

    /// Has the tool make them, and ends.
    fn attempt(self, attempts: &[String]) -> Outcomes {
        let list = self.host.workspace().join("attempts");
        std::fs::write(list.with_extension("new"), attempts.join("\n")).unwrap();
        std::fs::rename(list.with_extension("new"), &list).unwrap();
        let run = self.launch.end();
        assert_eq!(run.code(), Some(0), "{}", run.stderr);
        let outcomes = outcomes(&run);
        assert_eq!(outcomes.len(), attempts.len(), "{outcomes:?}");
        std::fs::remove_file(list).unwrap();
        self.host.assert_nothing_left();
        outcomes
    }
}

fn on(kind: &str, paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| format!("{kind}:{}", path.display())).collect()
}

/// None of them may work inside, each has to work outside.
#[track_caller]
fn assert_refused(tier: &str, outside: &Outcomes, inside: &Outcomes) {
    let failed: Vec<_> = outside.iter().filter(|(_, error)| error.is_some()).collect();
    assert!(failed.is_empty(), "control: {failed:?}");
    assert!(!inside.is_empty());
    assert_eq!(working(inside), Vec::<&str>::new(), "{tier}");
}

#[test]
fn files_of_home_and_of_paddock_cannot_be_read_or_written() {
    for tier in TIERS {
        let host = Host::new();
        let secrets: Vec<PathBuf> = [
            ".ssh/id_ed25519",
            ".bashrc",
            ".gitconfig",
            ".config/paddock/config.toml",
            ".config/paddock/agents/own/agent.toml",
            ".local/share/other/data",
            "notes",
        ]
        .map(|path| host.write(path, "# x\n"))
        .into();
        std::fs::create_dir(host.home().join("open")).unwrap();
        // A link in the workspace is no way around.
        std::os::unix::fs::symlink(&secrets[0], host.workspace().join("link")).unwrap();
        let confined = Confined::start(&host, tier);
        let own = [confined.state().join("record.json"), confined.state().join("ledger.jsonl")];
        let files = [&secrets[..], &own, &[host.workspace().join("link")]].concat();
        let mut attempts = [on("read", &files), on("write", &files)].concat();
        attempts.extend(on(
            "create",
            &[
                host.home().join("new"),
                host.home().join("open/new"),
                host.home().join(".config/paddock/new"),
                host.runtime().join("new"),
                confined.state().join("new"),
                host.workspace().parent().unwrap().join("new"),
            ],
        ));
        attempts.extend(on("list", &[host.home(), host.runtime(), host.launches(), "/".into()]));
        let outside = outside(&host, &attempts);
        assert_refused(tier, &outside, &confined.attempt(&attempts));
    }
}

#[test]
fn what_belongs_to_the_layers_cannot_be_read_or_written() {
    for tier in TIERS {
        let host = Host::new();
        let confined = Confined::start(&host, tier);
        let inside = confined.inside();
        let policies =
            ["pen", "server", "client"].map(|l| inside.join(format!("profiles/{l}.json")));
        let mut attempts = [on("read", &policies), on("write", &policies)].concat();
        attempts
            .extend(on("list", &["pen", "server", "client"].map(|l| inside.join("nono").join(l))));
        attempts.extend(on(
            "create",
            &[
                inside.join("new"),
                inside.join("nono/server/new"),
                host.agent_home("standin", "client").join("new"),
                confined.state().join("tmp-client/new"),
            ],
        ));
        let outside = outside(&host, &attempts);
        assert_refused(tier, &outside, &confined.attempt(&attempts));
    }
}

#[test]
fn the_workspace_is_the_servers_to_write_and_not_the_clients() {
    let client = r#"
name = "touching"
title = "a client that writes"
program.names = ["{paddock}"]
link.kind = "unix"
[server]
argv = ["{program}", "standin", "serve", "--listen", "unix:{link}"]
password-variable = "PADDOCK_STANDIN_PASSWORD"
[client]
argv = ["{workspace}/probe"]
"#;
    for tier in TIERS {
        let host = Host::new();
        host.add_agent("touching", client);
        let kept = host.workspace().join("kept");
        std::fs::write(&kept, "").unwrap();
        let writes: Vec<String> =
            [on("create", &[host.workspace().join("new")]), on("write", &[kept])].concat();
        let of_server = Confined::start(&host, tier).attempt(&writes);
        assert_eq!(working(&of_server).len(), writes.len(), "control: {of_server:?}");

        let mut command = host.agent_command("touching", &["--tier", tier], &[]);
        command.args(&writes);
        let run = finish(command);
        assert_eq!(run.code(), Some(0), "{}", run.stderr);
        assert_eq!(working(&outcomes(&run)), Vec::<&str>::new(), "{tier}");
    }
}

/// Files of the person's that a tool can name, and that are not granted for
/// writing: nono, and the common directory of a linked worktree.
#[test]
fn what_landlock_does_not_see_is_refused_by_the_veil() {
    let kinds = ["chmod", "chown", "utime", "xattr"];
    for tier in ["sealed", "isolated"] {
        let host = Host::new();
        let own = host.home().join("nono");
        std::fs::copy(nono(), &own).unwrap();
        let notes = host.write("notes", "x\n");
        let mut host = host;
        host.set("PADDOCK_NONO", &own);
        let confined = Confined::start(&host, tier);
        let policy = confined.inside().join("profiles/server.json");
        let files = [own, notes, policy];
        let attempts: Vec<String> = kinds.iter().flat_map(|kind| on(kind, &files)).collect();
        let outside = outside(&host, &attempts);
        let inside = confined.attempt(&attempts);
        if tier == "sealed" {
            assert_refused(tier, &outside, &inside);
        } else {
            // That it is the veil which refuses: without one most of it works.
            assert!(working(&inside).len() >= files.len(), "{inside:?}");
        }
    }
}

/// Sockets of every kind at a place, as a service of the host would have them.
struct Service {
    paths: Vec<(&'static str, PathBuf)>,
    _sockets: Vec<OwnedFd>,
}

impl Service {
    fn at(path: &Path) -> Self {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let with = |ending: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        let (datagram, packets) = (with(".d"), with(".s"));
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(&packets).unwrap()).unwrap();
        rustix::net::listen(&socket, 16).unwrap();
        Self {
            _sockets: vec![
                UnixListener::bind(path).unwrap().into(),
                UnixDatagram::bind(&datagram).unwrap().into(),
                socket,
            ],
            paths: vec![
                ("stream", path.to_owned()),
                ("datagram", datagram),
                ("seqpacket", packets),
            ],
        }
    }

    fn attempts(&self) -> Vec<String> {
        self.paths.iter().map(|(kind, path)| format!("{kind}:{}", path.display())).collect()
    }
}

#[test]
fn sockets_of_the_host_cannot_be_reached() {
    for tier in TIERS {
        let host = Host::new();
        let temporary = tempfile::Builder::new().prefix("tmux-").tempdir_in("/tmp").unwrap();
        // systemd and D-Bus, Docker, GPG and SSH agents, herdr, tmux.
        let services: Vec<Service> = [
            host.runtime().join("systemd/private"),
            host.runtime().join("bus"),
            host.runtime().join("docker.sock"),
            host.runtime().join("gnupg/S.gpg-agent"),
            host.runtime().join("ssh.sock"),
            host.home().join(".config/herdr/herdr.sock"),
            host.home().join("a.sock"),
            temporary.path().join("default"),
        ]
        .iter()
        .map(|path| Service::at(path))
        .collect();
        let name = format!("paddock-test-{}-{tier}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _abstract = UnixListener::bind_addr(&address).unwrap();

        let confined = Confined::start(&host, tier);
        let mut attempts: Vec<String> = services.iter().flat_map(Service::attempts).collect();
        attempts.push(format!("abstract:{name}"));
        attempts.extend(on("stream", &[confined.inside().parent().unwrap().join("control.sock")]));
        let outside = outside(&host, &attempts);
        assert_refused(tier, &outside, &confined.attempt(&attempts));
    }
}

#[test]
fn the_granted_socket_works_where_another_does_not() {
    for tier in TIERS {
        let host = Host::new();
        let other = Service::at(&host.home().join("other"));
        let in_workspace = Service::at(&host.workspace().join("other"));
        let confined = Confined::start(&host, tier);
        let link = confined.inside().join("link");
        let agents = format!("stream:{}", link.join("agent.sock").display());
        let gate = format!("stream:{}", confined.inside().join("gate.sock").display());
        let mut refused = [other.attempts(), in_workspace.attempts()].concat();
        refused.extend(on(
            "bind",
            &[
                link.join("new.sock"),
                host.workspace().join("new.sock"),
                confined.inside().join("new.sock"),
            ],
        ));
        let attempts = [&[agents.clone(), gate.clone()][..], &refused].concat();
        let outside = outside(&host, &attempts);
        let inside = confined.attempt(&attempts);
        let mut wanted: Vec<&str> = attempts.iter().map(String::as_str).collect();
        // Behind a veil nobody of the host finds what the agent's server listens at.
        wanted.retain(|attempt| tier != "sealed" || **attempt != *agents);
        assert_eq!(working(&outside), wanted, "control: {outside:?}");
        assert_eq!(working(&inside), [&agents, &gate], "{tier}");
    }
}

/// In a network of the launch's own a port of the agent's is no port of the host's.
#[test]
fn the_agents_port_cannot_be_reached_from_the_host() {
    for tier in ["sealed", "isolated"] {
        let host = Host::new();
        host.add_agent("over-a-port", &standin_over_a_port("over-a-port"));
        std::fs::copy(probe(), host.workspace().join("probe")).unwrap();
        let wait = "touch ready; until [ -e enough ]; do sleep 0.01; done; \
            ./probe tcp:127.0.0.1:4600";
        let launch = host.start(host.agent_command("over-a-port", &["--tier", tier], &[wait]));
        let ready = host.workspace().join("ready");
        wait_for(LIMIT, || ready.exists().then_some(())).expect("the tool runs");
        let attempts = ["127.0.0.1", "[::1]", "0.0.0.0"].map(|at| format!("tcp:{at}:4600"));
        assert_eq!(working(&outside(&host, &attempts)), Vec::<&str>::new(), "{tier}");
        std::fs::write(host.workspace().join("enough"), "").unwrap();
        let run = launch.end();
        assert_eq!(run.stdout, "tcp:127.0.0.1:4600 ok\n", "control: {tier}: {}", run.stderr);
    }
}

#[test]
fn ports_of_the_host_cannot_be_reached() {
    for tier in TIERS {
        let host = Host::new();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_nonblocking(true).unwrap();
        let tcp_v6 = TcpListener::bind("[::1]:0");
        let (port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
        let mut attempts: Vec<String> = ["127.0.0.1", "0.0.0.0"]
            .iter()
            .map(|address| format!("tcp:{address}:{port}"))
            .collect();
        attempts.push(format!("tcp:[::ffff:127.0.0.1]:{port}"));
        if let Ok(listener) = &tcp_v6 {
            attempts.push(format!("tcp:[::1]:{}", listener.local_addr().unwrap().port()));
        }
        attempts.push(format!("udp:127.0.0.1:{udp_port}"));
        let outside = outside(&host, &attempts);
        let mut bytes = [0; 16];
        assert_eq!(udp.recv(&mut bytes).unwrap(), 5, "control: it arrives");
        let confined = Confined::start(&host, tier);
        assert_refused(tier, &outside, &confined.attempt(&attempts));
        assert!(udp.recv(&mut bytes).is_err(), "nothing arrived");
    }
}

#[test]
fn only_an_allowed_name_is_reached_and_only_where_it_was_checked() {
    for tier in TIERS {
        let host = Host::new();
        let service = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = service.local_addr().unwrap().port();
        let other_port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in service.incoming().flatten() {
                // To its end: closing with something unread would be a reset.
                let _ =
                    BufReader::new(&stream).lines().map_while(Result::ok).find(String::is_empty);
                let _ = (&stream).write_all(b"HTTP/1.0 200 OK\r\n\r\n");
            }
        });
        host.configure(&format!(
            "[egress]\nhosts = [\"ok.test:{port}\", \"127.0.0.1:{port}\"]\n\
             exceptions = {{ \"ok.test\" = \"127.0.0.1\" }}\n"
        ));
        let confined = Confined::start(&host, tier);
        let attempts = [
            format!("proxy:ok.test:{port}"),
            format!("proxy:ok.test:{other_port}"),
            // Allowed, but it is the host itself.
            format!("proxy:127.0.0.1:{port}"),
            format!("proxy:other.test:{port}"),
            format!("proxy:127.0.0.2:{port}"),
        ];
        let inside = confined.attempt(&attempts);
        assert_eq!(working(&inside), [&attempts[0]], "{tier}: {inside:?}");
        let answers: Vec<_> = inside.iter().filter_map(|(_, error)| error.as_ref()).collect();
        assert!(answers.iter().all(|answer| answer.ends_with(" 403")), "{answers:?}");
        let decided: Vec<_> = host
            .ledger()
            .iter()
            .map(|entry| &entry["egress"])
            .filter(|egress| egress["event"] == "decided")
            .map(|egress| {
                let words = ["host", "decision", "reason"].map(|key| egress[key].as_str().unwrap());
                format!("{} {} {} {}", words[0], egress["port"], words[1], words[2])
            })
            .collect();
        assert_eq!(
            decided,
            [
                format!("ok.test {port} allowed exception"),
                format!("ok.test {other_port} refused port-not-allowed"),
                format!("127.0.0.1 {port} refused special-address"),
                format!("other.test {port} refused host-not-allowed"),
                format!("127.0.0.2 {port} refused host-not-allowed"),
            ],
            "{tier}"
        );
    }
}

/// A process of the host's with a mark on its command line and in its
/// environment; ended when dropped.
struct Bystander(Child);

impl Bystander {
    fn start(mark: &str) -> Self {
        let child = Command::new("sh")
            .args(["-c", "read wait; : \"$0\"", mark])
            .env("MARK", mark)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn processes_outside_cannot_be_signalled_limited_or_looked_into() {
    for tier in TIERS {
        let host = Host::new();
        let bystander = Bystander::start("paddock-test-bystander");
        let confined = Confined::start(&host, tier);
        // By the numbers that they have inside.
        let number_inside = |pid: i32| -> i32 {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap();
            line.split_whitespace().last().unwrap().parse().unwrap()
        };
        let parts = [
            confined.launch.process("supervisor", Some("pen")),
            confined.launch.process("warden", Some("pen")),
            confined.launch.process("supervisor", Some("server")),
            confined.launch.process("supervisor", Some("client")),
            confined.launch.process("warden", Some("client")),
            confined.launch.client(),
        ];
        let mut pids: Vec<i32> = parts.iter().map(|pid| number_inside(*pid)).collect();
        let mut on_host = parts.to_vec();
        if tier == "sealed" {
            pids.push(1);
        } else {
            pids.extend([bystander.pid(), confined.launch.keeper()]);
            on_host.extend([bystander.pid(), confined.launch.keeper()]);
        }
        let attempts = |pids: &[i32]| -> Vec<String> {
            // A limit on processor time ends a process, too, and Landlock does
            // not see it.
            let kinds = ["signal", "pidfd", "limit", "priority"];
            pids.iter().flat_map(|pid| kinds.map(|kind| format!("{kind}:{pid}"))).collect()
        };
        let outside_outcomes = outside(&host, &attempts(&on_host));
        let mut refused = attempts(&pids);
        let files = ["environ", "mem", "maps", "exe", "root/etc/passwd", "fd/0"];
        let of_client = number_inside(confined.launch.client());
        refused.extend(files.map(|file| format!("read:/proc/{of_client}/{file}")));
        let inside = confined.attempt(&refused);
        assert_refused(tier, &outside_outcomes, &inside);
    }
}

#[test]
fn a_signal_to_everything_stays_inside() {
    for tier in TIERS {
        let host = Host::new();
        // Signals that end nobody who does not listen to them.
        let script = "trap 'echo hit' URG; trap 'echo asked' WINCH; echo ready; \
            while :; do sleep 0.02; done";
        let mut child =
            Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let bystander = Bystander(child);
        assert_eq!(told.next().as_deref(), Some("ready"));

        let run =
            host.standin_in(tier, &["trap 'echo hit inside' URG; sh -c 'kill -URG -1; :'; true"]);
        assert_eq!(
            (run.code(), run.stdout.as_str()),
            (Some(0), "hit inside\n"),
            "control: it is sent, {tier}: {}",
            run.stderr
        );
        // What came before is told before.
        send(bystander.pid(), Signal::WINCH);
        assert_eq!(told.next().as_deref(), Some("asked"), "{tier}");
        send(bystander.pid(), Signal::URG);
        assert_eq!(told.next().as_deref(), Some("hit"), "control: it would be told");
    }
}

/// A user namespace can be made, but nothing can be mapped into it, and nothing
/// mounted.
#[test]
fn nobody_becomes_root_and_nothing_is_mounted() {
    let attempts = [
        "run:unshare --user --map-root-user true".to_owned(),
        "run:unshare --user --map-root-user --net true".to_owned(),
        "run:unshare --user --mount true".to_owned(),
    ];
    let host = Host::new();
    let outside = outside(&host, &attempts);
    for tier in TIERS {
        let host = Host::new();
        assert_refused(tier, &outside, &Confined::start(&host, tier).attempt(&attempts));
    }
}

/// Who may read a terminal takes what is typed there.
#[test]
fn a_terminal_of_the_host_cannot_be_opened() {
    let terminal = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    rustix::pty::grantpt(&terminal).and_then(|()| rustix::pty::unlockpt(&terminal)).unwrap();
    let name = rustix::pty::ptsname(&terminal, Vec::new()).unwrap();
    let path = PathBuf::from(name.into_string().unwrap());
    let attempts = ["open", "write"].map(|kind| on(kind, std::slice::from_ref(&path))).concat();
    for tier in TIERS {
        let host = Host::new();
        let outside = outside(&host, &attempts);
        assert_refused(tier, &outside, &Confined::start(&host, tier).attempt(&attempts));
    }
}

/// A System V segment of the host, by its id.
fn shared_memory() -> String {
    let output = Command::new("ipcmk").args(["-M", "4096"]).output().expect("ipcmk");
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().rsplit(' ').next().expect(&text).to_owned()
}

#[test]
fn shared_memory_of_the_host_cannot_be_reached() {
    for tier in TIERS {
        let host = Host::new();
        let removal = |segment: &str| vec![format!("run:ipcrm -m {segment}")];
        let segment = shared_memory();
        let outside_attempts = removal(&shared_memory());
        let inside = Confined::start(&host, tier).attempt(&removal(&segment));
        assert_refused(tier, &outside(&host, &outside_attempts), &inside);
        let own = finish({
            let mut command = Command::new("ipcrm");
            command.args(["-m", &segment]);
            command
        });
        assert_eq!(own.code(), Some(0), "{tier}: it is there still: {}", own.stderr);
    }
}

#[test]
fn command_lines_of_the_host_are_not_visible_under_the_veil() {
    let host = Host::new();
    let mark = "paddock-test-command-line";
    let _bystander = Bystander::start(mark);
    let look = format!(
        "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c '^{mark}$'; \
         cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c '^--gate$'"
    );
    let mut plain = Command::new("sh");
    host.dress(&mut plain);
    plain.args(["-c", &look]);
    assert_eq!(finish(plain).stdout.lines().next(), Some("1"), "control");
    let run = host.standin(&[&look]);
    assert_eq!(run.stdout.lines().next(), Some("0"), "{}", run.stderr);
    assert_ne!(run.stdout.lines().nth(1), Some("0"), "control: it does look");
}

#[test]
fn a_terminal_multiplexer_of_the_host_opens_nothing_for_an_agent() {
    if Command::new("tmux").arg("-V").output().is_err() {
        paddock_test::host::skip("tmux is not installed");
        return;
    }
    for tier in TIERS {
        let host = Host::new();
        let socket = host.runtime().join("tmux");
        let tmux = |arguments: &[&str]| {
            let mut command = Command::new("tmux");
            host.dress(&mut command);
            command.arg("-S").arg(&socket).args(["-f", "/dev/null"]).args(arguments);
            finish(command)
        };
        assert_eq!(tmux(&["new-session", "-d", "sleep 300"]).code(), Some(0));
        let window = |marker: &str| {
            format!(
                "tmux -S {} new-window -d 'touch {}'",
                socket.display(),
                host.workspace().join(marker).display()
            )
        };
        let mut plain = Command::new("sh");
        host.dress(&mut plain);
        plain.args(["-c", &window("outside")]);
        assert_eq!(finish(plain).code(), Some(0), "control");
        let run = host.standin_in(tier, &[&window("inside")]);
        let marked = wait_for(LIMIT, || host.workspace().join("outside").exists().then_some(()));
        tmux(&["kill-server"]);
        assert!(marked.is_some(), "control: the window's command runs");
        assert_ne!(run.code(), Some(0), "{tier}");
        assert!(!host.workspace().join("inside").exists(), "{tier}");
    }
}
