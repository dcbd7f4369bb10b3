//! Git over SSH: what it is told, and the tunnel that a person may choose.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use paddock_test::host::{Finished, Host, LIMIT, finish, warden};

use crate::fetch::{TIERS, is_there};

/// Clones from both forms of a remote that SSH has.
const CLONE: &str = "git clone --quiet git@git.test:o/r.git a; echo $?\n\
    git clone --quiet ssh://git@git.test:2222/o/r.git b; echo $?";

fn run(host: &Host, tier: &str, command: &str) -> Finished {
    finish(host.agent_command("standin", &["--tier", tier], &[command]))
}

#[test]
fn git_over_ssh_names_the_remote_that_works() {
    if !is_there("git", true) {
        return;
    }
    for tier in TIERS {
        let host = Host::new();
        let refused = run(&host, tier, CLONE);
        assert_eq!(refused.stdout, "128\n128\n", "{tier}: {}", refused.stderr);
        let told = "paddock: SSH does not leave this sandbox; git works over HTTPS\n\
            use this remote: https://git.test/o/r.git\n";
        assert_eq!(refused.stderr.matches(told).count(), 2, "{tier}: {}", refused.stderr);

        host.configure("[egress]\nssh = true\n");
        let control = run(&host, tier, CLONE);
        assert!(!control.stderr.contains("does not leave"), "control: {}", control.stderr);
    }
}

/// A peer on loopback that speaks first, and tells the line that it is answered with.
fn peer(greeting: &'static str) -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = tell.send(answer(stream, greeting).unwrap_or_default());
        }
    });
    (port, told)
}

fn answer(mut stream: TcpStream, greeting: &str) -> std::io::Result<String> {
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(greeting.as_bytes())?;
    let mut line = String::new();
    BufReader::new(&stream).take(1024).read_line(&mut line)?;
    Ok(line)
}

fn granted(host: &Host, port: u16) {
    host.configure(&format!(
        "[egress]\nssh = true\nhosts = [\"git.test:{port}\"]\n\
         exceptions = {{ \"git.test\" = \"127.0.0.1\" }}\n"
    ));
}

#[test]
fn a_tunnel_carries_both_ways_and_only_to_a_granted_host() {
    let warden = warden();
    let warden = warden.display();
    for tier in TIERS {
        let host = Host::new();
        let (port, told) = peer("there\n");
        granted(&host, port);
        let command = format!(
            "echo back | {warden} tunnel git.test:{port}; echo $?\n\
             {warden} tunnel git.test:22 </dev/null; echo $?\n\
             {warden} tunnel other.test:{port} </dev/null; echo $?\n\
             {warden} tunnel git.test </dev/null; echo $?\n\
             env -u HTTPS_PROXY {warden} tunnel git.test:{port} </dev/null; echo $?"
        );
        let tried = run(&host, tier, &command);
        assert_eq!(tried.stdout, "there\n0\n125\n125\n125\n125\n", "{tier}: {}", tried.stderr);
        assert_eq!(told.recv_timeout(LIMIT).as_deref(), Ok("back\n"), "{tier}");
        for told in [
            "no tunnel to git.test:22: the guard answers 403\n  refused: port-not-allowed: ",
            "  next: paddock ask host git.test:22\n",
            &format!("  next: paddock ask host other.test:{port}\n"),
            "git.test is not HOST:PORT",
            "not inside a sandbox",
        ] {
            assert!(tried.stderr.contains(told), "{tier}: {}", tried.stderr);
        }
        assert!(told.try_recv().is_err(), "{tier}: one connection, and no other");
    }
}

#[test]
fn ssh_goes_through_the_guard_where_a_person_chose_it() {
    if !(is_there("git", true) && is_there("ssh", false)) {
        return;
    }
    for tier in TIERS {
        let host = Host::new();
        let (port, told) = peer("SSH-2.0-scripted\r\n");
        granted(&host, port);
        let clone = format!(
            "git clone --quiet ssh://git@git.test:{port}/o/r.git a; echo $?\n\
             git clone --quiet ssh://git@git.test/o/r.git b; echo $?"
        );
        let tried = run(&host, tier, &clone);
        assert_eq!(tried.stdout, "128\n128\n", "{tier}: {}", tried.stderr);
        let banner = told.recv_timeout(LIMIT).unwrap();
        assert!(banner.starts_with("SSH-2.0-OpenSSH"), "{tier}: {banner}, {}", tried.stderr);
        let refused = "paddock ask host git.test:22\n";
        assert!(tried.stderr.contains(refused), "{tier}: {}", tried.stderr);
        println!("{tier}: {}", tried.stderr);

        // The control: SSH that does not ask the guard.
        let direct = format!("GIT_SSH_COMMAND=ssh git clone ssh://git@git.test:{port}/o/r.git c");
        assert_ne!(run(&host, tier, &direct).code(), Some(0));
        assert!(told.try_recv().is_err(), "{tier}: nothing else arrived");
    }
}
