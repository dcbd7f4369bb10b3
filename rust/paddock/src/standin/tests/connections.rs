//! Who is let in, and what the end of a connection means.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};

use super::super::address::Address;
use super::super::client::Client;
use super::super::link::Link;
use super::super::password::Password;
use super::super::protocol::{Frame, MAX_PAYLOAD, VERSION};
use super::super::serve::{Limits, Server};
use super::{Kind, PATIENCE, Running, Watched, next, rest, secret, soon, start_two};

#[test]
fn a_wrong_password_is_refused_after_the_delay() {
    for kind in [Kind::Unix, Kind::Tcp] {
        let refusal = Duration::from_millis(100);
        let limits = Limits { refusal, ..Limits::DEFAULT };
        let server = Running::with(kind, limits);
        for wrong in [&b"wrong"[..], b"", b"correct \xff hors", b"correct \xff horse!"] {
            let mut link = server.link();
            let sent = Instant::now();
            link.send(&Frame::Password(wrong.to_vec())).unwrap();
            link.send(&Frame::Run(b"echo reached".to_vec())).unwrap();
            assert_eq!(rest(&mut link), [Frame::Refused(b"wrong password".to_vec())]);
            assert!(sent.elapsed() >= refusal);
        }
        let error = Client::connect(&server.address, &Password::new(vec![1]).unwrap(), PATIENCE);
        let error = format!("{:#}", error.err().unwrap());
        assert_eq!(error, format!("no access to {}: refused: wrong password", server.address));
    }
}

#[test]
fn nothing_is_run_before_the_password() {
    let server = Running::on_unix();
    for early in [Frame::Run(b"echo reached".to_vec()), Frame::Cancel, Frame::Accepted] {
        let mut link = server.link();
        link.send(&early).unwrap();
        assert_eq!(rest(&mut link), []);
    }
}

#[test]
fn a_client_that_stays_silent_is_dropped() {
    let handshake = Duration::from_millis(50);
    let server = Running::with(Kind::Unix, Limits { handshake, ..Limits::DEFAULT });
    let mut link = server.link();
    assert_eq!(rest(&mut link), []);
}

#[test]
fn connections_are_bounded() {
    let server = Running::with(Kind::Tcp, Limits { connections: 2, ..Limits::DEFAULT });
    let held = [server.link_let_in(), server.link()];
    let mut third = Link::new(server.address.connect().unwrap()).unwrap();
    assert_eq!(rest(&mut third), [Frame::Refused(b"too many connections".to_vec())]);
    drop(held);
    // The places come free once the server has seen the ends.
    let deadline = soon();
    while Client::connect(&server.address, &secret(), PATIENCE).is_err() {
        assert!(Instant::now() < deadline, "no place came free");
        thread::yield_now();
    }
}

#[test]
fn what_breaks_the_protocol_ends_the_connection_and_its_command() {
    let server = Running::on_unix();
    let mut link = server.link_let_in();
    let running = start_two(&mut link);
    link.send(&Frame::Run(b"echo second".to_vec())).unwrap();
    assert_eq!(rest(&mut link), []);
    assert!(running.iter().all(Watched::ends));
}

#[test]
fn an_oversize_frame_ends_the_connection() {
    let server = Running::on_unix();
    let Address::Unix(path) = &server.address else { panic!("not a Unix address") };
    let mut raw = UnixStream::connect(path).unwrap();
    raw.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = u32::try_from(MAX_PAYLOAD + 1).unwrap();
    raw.write_all(&length.to_le_bytes()).unwrap();
    raw.write_all(&[2]).unwrap();
    let mut received = Vec::new();
    raw.read_to_end(&mut received).unwrap();
    let mut hello = Vec::new();
    Frame::Hello { version: VERSION }.encode(&mut hello).unwrap();
    assert_eq!(received, hello);
}

#[test]
fn a_client_that_leaves_takes_its_command_with_it() {
    for kind in [Kind::Unix, Kind::Tcp] {
        let server = Running::with(kind, Limits::DEFAULT);
        let (mut leaving, mut staying) = (server.link_let_in(), server.link_let_in());
        let running = start_two(&mut leaving);
        let others = start_two(&mut staying);
        drop(leaving);
        assert!(running.iter().all(Watched::ends), "{kind:?}");
        assert!(others.iter().all(Watched::lives), "another client's command goes on");
    }
}

#[test]
fn a_client_that_does_not_read_can_still_leave() {
    let server = Running::on_unix();
    let mut link = server.link_let_in();
    link.send(&Frame::Run(b"echo $$; exec yes".to_vec())).unwrap();
    let Frame::Stdout(first) = next(&mut link) else { panic!("no process id") };
    let running = Watched::pid(first.split(|byte| *byte == b'\n').next().unwrap());
    assert!(running.lives());
    drop(link);
    assert!(running.ends());
}

#[test]
fn a_server_that_stops_ends_every_command_and_removes_its_socket() {
    let mut server = Running::on_unix();
    let mut links = [server.link_let_in(), server.link_let_in()];
    let running = links.each_mut().map(start_two);
    let Address::Unix(path) = server.address.clone() else { panic!("not a Unix address") };
    assert!(path.exists());
    server.stop();
    assert!(running.iter().flatten().all(Watched::ends));
    assert!(!path.exists());
}

#[test]
fn a_client_waits_for_a_server_that_is_still_starting() {
    let directory = tempfile::tempdir().unwrap();
    let address = Address::Unix(directory.path().join("s"));
    let error = Client::connect(&address, &secret(), Duration::ZERO).err().unwrap();
    assert!(format!("{error:#}").starts_with(&format!("cannot reach {address}")), "{error:#}");

    let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    thread::scope(|scope| {
        let client = scope.spawn(|| Client::connect(&address, &secret(), PATIENCE).is_ok());
        let server = Server::bind(&address, secret(), Limits::DEFAULT).unwrap();
        let stopped = &stopped;
        scope.spawn(move || server.run(stopped.as_fd()));
        assert!(client.join().unwrap());
        drop(stop);
    });
}
