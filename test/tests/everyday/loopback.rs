//! Servers on the launch's own loopback, and a person who looks at one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use paddock_test::host::{Host, LIMIT, TIERS, finish, send, standin_file, wait_for};
use rustix::process::Signal;
use serde_json::Value;

use crate::{is_there, python};

/// A server of asyncio's at a port that the kernel chooses, 20 clients at once, and one
/// at a port with a number of its own, as development servers have.
const SERVERS: &str = r#"
import asyncio, socket, threading, http.server, urllib.request

async def many():
    async def answer(reader, writer):
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async def ask(i):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"ask%d\n" % i)
        return await reader.readline()
    answers = await asyncio.gather(*map(ask, range(20)))
    assert answers == [b"ASK%d\n" % i for i in range(20)], answers
    server.close()

asyncio.run(many())
print("any port")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 3000), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
assert opener.open("http://127.0.0.1:3000/script.py").status == 200
print("port 3000")
"#;

#[test]
fn servers_of_tools_listen_where_they_like_in_a_network_of_their_own() {
    if !is_there("python3") {
        return;
    }
    for tier in ["sealed", "isolated"] {
        let host = Host::new();
        let run = python(&host, tier, SERVERS);
        assert_eq!(run.code(), Some(0), "{tier}: {} {}", run.stdout, run.stderr);
        assert!(run.stdout.contains("any port\nport 3000\n"), "{tier}: {}", run.stdout);
    }
    // The control: where the ports are the host's a tool has none of them.
    let host = Host::new();
    let run = python(&host, "ported", SERVERS);
    assert!(run.stdout.contains("PermissionError"), "{}", run.stdout);
}

/// Answers at port 3000 until the launch ends: `GET /` with a text, and what comes at a
/// connection that is kept open.
const DEVELOPMENT_SERVER: &str = r#"
import http.server
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        text = b"from inside: " + self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *_):
        pass
print("serving", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Page).serve_forever()
"#;

/// `paddock port`, listening.
struct Forward {
    child: Child,
    said: BufReader<ChildStdout>,
    address: String,
}

impl Forward {
    fn start(mut command: Command) -> Self {
        command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut text = String::new();
            child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
            panic!("{line:?} {text}")
        });
        let address = told["listens"].as_str().unwrap().to_owned();
        Self { child, said, address }
    }

    /// How it ends within [`LIMIT`].
    fn end(mut self) -> Option<i32> {
        let ended = wait_for(LIMIT, || self.child.try_wait().unwrap());
        if ended.is_none() {
            let _ = self.child.kill();
        }
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        ended.expect("it ends").code()
    }
}

fn ask(stream: &mut TcpStream, path: &str) -> std::io::Result<String> {
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    let wanted = format!("from inside: {path}");
    let mut text = Vec::new();
    while !text.ends_with(wanted.as_bytes()) {
        let mut piece = [0; 512];
        match stream.read(&mut piece)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            n => text.extend_from_slice(&piece[..n]),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn a_person_reaches_a_development_server_and_nobody_else_does() {
    if !is_there("python3") {
        return;
    }
    for tier in ["sealed", "isolated"] {
        let host = Host::new();
        std::fs::write(host.workspace().join("server.py"), DEVELOPMENT_SERVER).unwrap();
        // What is inside finds no way to have a port forwarded.
        let from_inside = "paddock port x 3000 >refused 2>&1; echo $? >>refused; \
            exec /usr/bin/python3 server.py";
        let launch = host.start(host.agent_command("standin", &["--tier", tier], &[from_inside]));
        let id = launch.id.clone();
        let mut command = host.paddock();
        command.args(["port", &id, "3000", "--listen", "0"]);
        let forward = Forward::start(command);
        let reached = wait_for(LIMIT, || {
            let mut stream = TcpStream::connect(&forward.address).unwrap();
            ask(&mut stream, "/first").ok().map(|_| stream)
        });
        let mut stream = reached.expect("the server is reached");
        // One connection for several requests, and many at once.
        ask(&mut stream, "/again").unwrap();
        let at_once: Vec<_> = (0..50)
            .map(|n| {
                let address = forward.address.clone();
                std::thread::spawn(move || {
                    ask(&mut TcpStream::connect(address).unwrap(), &format!("/{n}")).unwrap()
                })
            })
            .collect();
        for one in at_once {
            one.join().unwrap();
        }
        // The control: the port is not the host's own.
        let own = TcpStream::connect("127.0.0.1:3000");
        assert!(own.is_err() || ask(&mut own.unwrap(), "/").is_err(), "{tier}");
        let refused = std::fs::read_to_string(host.workspace().join("refused")).unwrap();
        assert!(!refused.ends_with("\n0\n") && !refused.contains("http://"), "{tier}: {refused}");

        // Ctrl-C ends one, the end of the launch another.
        let mut command = host.paddock();
        command.args(["port", &id, "3000", "--listen", "127.0.0.1:0"]);
        let other = Forward::start(command);
        ask(&mut TcpStream::connect(&other.address).unwrap(), "/other").unwrap();
        send(i32::try_from(other.child.id()).unwrap(), Signal::INT);
        assert_eq!(other.end(), Some(0), "{tier}");
        let (code, _) = launch.verify();
        assert_eq!(code, Some(0), "{tier}: the launch is confined all the while");
        launch.terminate();
        assert_eq!(forward.end(), Some(0), "{tier}");
        let ledger = host.ledger();
        let events = |name: &str| ledger.iter().filter(|e| e["event"] == name).count();
        assert_eq!((events("port-opened"), events("port-closed") >= 1), (2, true), "{tier}");
        let closed = ledger.iter().find(|e| e["event"] == "port-closed").unwrap();
        assert_eq!((&closed["port"], &closed["connections"]), (&3000.into(), &1.into()), "{tier}");
        host.assert_nothing_left();
    }
}

#[test]
fn a_server_whose_own_policy_blocks_the_network_starts_and_listens_nowhere() {
    let listen = "/usr/bin/python3 -c 'import socket; s = socket.socket(); \
        s.bind((\"127.0.0.1\", 3000)); s.listen()' 2>/dev/null && echo listens || echo refused";
    if !is_there("python3") {
        return;
    }
    for (blocks, wanted) in [(true, "refused\n"), (false, "listens\n")] {
        let host = Host::new();
        host.add_agent("quiet", &standin_file("quiet"));
        let policy = include_str!("../../../profiles/standin/server.json");
        let mut policy: Value = serde_json::from_str(policy).unwrap();
        policy["network"] = serde_json::json!({ "block": blocks });
        host.write(".config/paddock/agents/quiet/server.json", &policy.to_string());
        for tier in ["sealed", "isolated"] {
            let run = finish(host.agent_command("quiet", &["--tier", tier], &[listen]));
            assert_eq!((run.code(), &*run.stdout), (Some(0), wanted), "{tier}: {}", run.stderr);
        }
    }
}

#[test]
fn what_cannot_be_forwarded_is_refused_with_its_reason() {
    for tier in TIERS {
        let host = Host::new();
        let launch = host.start(host.agent_command("standin", &["--tier", tier], &["sleep 60"]));
        let ask = |port: &str| {
            let mut command = host.paddock();
            command.args(["port", &launch.id, port, "--listen", "0"]);
            finish(command)
        };
        if tier == "ported" {
            let run = ask("3000");
            assert_eq!(run.code(), Some(125), "{run:?}");
            assert!(run.stderr.contains("127.0.0.1:3000 already"), "{}", run.stderr);
        } else {
            let run = ask("4601");
            assert_eq!(run.code(), Some(125), "{run:?}");
            assert!(run.stderr.contains("the guard's"), "{}", run.stderr);
        }
        let mut taken = host.paddock();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        taken.args(["port", &launch.id, "3000", "--listen", &address]);
        let run = finish(taken);
        assert!(run.stderr.contains("--listen 0"), "{}", run.stderr);
        launch.terminate();
    }
    let host = Host::new();
    let run = host.run(&["port", "bcdf", "3000"]);
    assert_eq!(run.code(), Some(125));
    assert!(run.stderr.contains("there is no launch \"bcdf\""), "{}", run.stderr);
}
