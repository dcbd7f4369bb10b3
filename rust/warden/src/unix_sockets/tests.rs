use std::io;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};

use confine::Pid;
use confine::sys::host::{Rights, landlock_knows};
use confine::sys::{
    attempt_32_bit_socket, attempt_datagram_pair, attempt_unix_socket, attempt_x32_socket,
};
use confine::witness::{Testimony, testify};
use rustix::net::{AddressFamily, SocketType, socket, socketpair};

use super::*;

/// A filter and a domain belong to a thread: this one's go with it.
fn on_thread<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(test).join().unwrap()
}

fn error_of<T: std::fmt::Debug>(result: io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().unwrap()
}

#[test]
fn no_unix_socket_can_be_made_behind_the_filter_and_connected_pairs_can() {
    on_thread(|| {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        assert!(attempt_unix_socket().is_ok() && attempt_datagram_pair().is_ok(), "control");
        let of_32_bit = attempt_32_bit_socket();
        refuse_sockets().unwrap();
        let denied = rustix::io::Errno::ACCESS.raw_os_error();
        for kind in [SocketType::STREAM, SocketType::DGRAM, SocketType::SEQPACKET, SocketType::RAW]
        {
            let made = socket(AddressFamily::UNIX, kind, None);
            assert_eq!(made.unwrap_err(), rustix::io::Errno::ACCESS, "{kind:?}");
        }
        assert_eq!(error_of(attempt_unix_socket()), denied, "with flags");
        assert_eq!(error_of(UnixDatagram::pair()), denied);
        let flags = rustix::net::SocketFlags::empty();
        let raw = socketpair(AddressFamily::UNIX, SocketType::RAW, flags, None);
        assert_eq!(raw.unwrap_err(), rustix::io::Errno::ACCESS);
        // By the numbers of other interfaces, this or none of them.
        assert_eq!(
            error_of(attempt_x32_socket()),
            if cfg!(target_arch = "x86_64") {
                denied
            } else {
                rustix::io::Errno::NOSYS.raw_os_error()
            }
        );
        if of_32_bit.is_ok() {
            assert_eq!(error_of(attempt_32_bit_socket()), rustix::io::Errno::PERM.raw_os_error());
        }
        // What is not for reaching others works, and what was there before.
        UnixStream::pair().unwrap();
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        io::Write::write_all(&mut one, b"x").unwrap();
        io::Read::read_exact(&mut other, &mut [0]).unwrap();
    });
}

#[test]
fn the_rule_about_sockets_asks_for_its_own_right_and_leaves_moving_alone() {
    let rules = PathRules::reaching(&["/gate".into(), "/link".into()]);
    assert_eq!(rules.handled.bits(), Rights::RESOLVE_UNIX.files | 1 << 13);
    let allowed: Vec<(&str, u64)> =
        rules.allowed.iter().map(|(p, a)| (p.to_str().unwrap(), a.bits())).collect();
    assert_eq!(allowed, [("/", 1 << 13), ("/gate", 1 << 16), ("/link", 1 << 16)]);
}

/// With the right where the kernel has it, and refused as a whole where not.
#[test]
fn the_rule_about_sockets_is_in_force_or_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (granted, other) = (at("granted"), at("other"));
    let _held = [&granted, &other].map(UnixListener::bind);
    on_thread(move || {
        assert!(UnixStream::connect(&other).is_ok(), "control");
        let limited = limit(&UnixLimit::ReachableBeneath(vec![granted.clone()]));
        assert!(UnixStream::connect(&granted).is_ok());
        if landlock_knows(Rights::RESOLVE_UNIX).is_ok() {
            limited.unwrap();
            let refused = error_of(UnixStream::connect(&other));
            assert_eq!(refused, rustix::io::Errno::ACCESS.raw_os_error());
        } else {
            limited.unwrap_err();
            assert!(UnixStream::connect(&other).is_ok(), "nothing was restricted");
        }
    });
}

/// By a right that every kernel here has: the rules are the same but for it.
#[test]
fn what_is_handled_is_refused_but_beneath_what_is_allowed_and_files_move() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for name in ["granted", "other", "granted/in"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    std::fs::write(at("other/file"), "").unwrap();
    let mut rules = PathRules::reaching(&[at("granted")]);
    let read = BitFlags::from(AccessFs::ReadDir);
    rules.handled = read | AccessFs::Refer;
    rules.allowed[1].1 = read;
    let without_moving = PathRules { handled: read, allowed: vec![(at("granted"), read)] };
    let (from, to) = (at("other/file"), at("granted/file"));
    let [granted, inner, other] = ["granted", "granted/in", "other"].map(at);
    let move_file = move || std::fs::rename(&from, &to).and_then(|()| std::fs::rename(&to, &from));
    move_file().unwrap();
    on_thread({
        let move_file = move_file.clone();
        move || {
            restrict(&rules).unwrap();
            assert!(std::fs::read_dir(&granted).is_ok() && std::fs::read_dir(&inner).is_ok());
            assert_eq!(
                error_of(std::fs::read_dir(&other)),
                rustix::io::Errno::ACCESS.raw_os_error()
            );
            move_file().unwrap();
        }
    });
    on_thread(move || {
        restrict(&without_moving).unwrap();
        let refused = rustix::io::Errno::XDEV.raw_os_error();
        assert_eq!(error_of(move_file()), refused, "control: a rule is needed for it");
    });
}

fn waiting() -> (Child, Pid) {
    let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let pid = Pid::new(child.id().cast_signed()).unwrap();
    (child, pid)
}

#[test]
fn in_the_deeper_domain_a_witness_still_sees_what_it_starts_there() {
    on_thread(|| {
        let domain = |access: AccessFs| PathRules { handled: access.into(), allowed: Vec::new() };
        // As nono's, then as the warden's own in it.
        restrict(&domain(AccessFs::MakeBlock)).unwrap();
        let (mut before, early) = waiting();
        assert_eq!(testify(&[early]), [Testimony::Inside], "control");
        restrict(&domain(AccessFs::MakeChar)).unwrap();
        let (mut after, late) = waiting();
        let deeper = on_thread(|| {
            restrict(&PathRules { handled: AccessFs::MakeFifo.into(), allowed: Vec::new() })
                .unwrap();
            waiting()
        });
        let (mut nested, deepest) = deeper;
        assert_eq!(
            testify(&[late, deepest, early]),
            [Testimony::Inside, Testimony::Inside, Testimony::Refused]
        );
        for child in [&mut before, &mut after, &mut nested] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    });
}
