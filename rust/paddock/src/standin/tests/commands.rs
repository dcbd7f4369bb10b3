//! What commands do, and how their client sees it.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::super::attach::Manner;
use super::super::lines::{Commands, Lines};
use super::super::protocol::Frame;
use super::super::serve::Limits;
use super::super::signals::Signals;
use super::{FOR_EVER, Kind, PATIENCE, Running, Watched, given, next};

#[test]
fn commands_run_over_both_kinds_of_address() {
    for kind in [Kind::Unix, Kind::Tcp] {
        let server = Running::with(kind, Limits::DEFAULT);
        let commands = given(&[b"echo one", b"echo two >&2; printf 3", b"pwd -P"]);
        let (status, stdout, stderr) = server.hold(commands, Manner::Batch);
        let here = env::current_dir().unwrap().canonicalize().unwrap();
        let expected = format!("one\n3{}\n", here.display());
        assert_eq!((status, stdout.as_slice()), (0, expected.as_bytes()), "{kind:?}");
        assert_eq!(stderr, b"two\n", "{kind:?}");
    }
}

#[test]
fn commands_and_output_are_bytes() {
    let server = Running::on_unix();
    let commands = given(&[b"printf '%s' '\xff\xfe'; printf '\\000\\200' >&2", b"-x 2>/dev/null"]);
    let (status, stdout, stderr) = server.hold(commands, Manner::Batch);
    assert_eq!(
        (status, stdout.as_slice(), stderr.as_slice()),
        (127, &b"\xff\xfe"[..], &b"\0\x80"[..])
    );
}

#[test]
fn much_output_comes_whole_and_in_order() {
    let server = Running::with(Kind::Tcp, Limits::DEFAULT);
    let (status, stdout, _) = server.hold(given(&[b"seq 300000"]), Manner::Batch);
    assert_eq!(status, 0);
    let mut numbers = stdout.split(|byte| *byte == b'\n');
    for number in 1..=300_000 {
        assert_eq!(numbers.next(), Some(number.to_string().as_bytes()));
    }
    assert_eq!((numbers.next(), numbers.next()), (Some(&b""[..]), None));
}

#[test]
fn a_batch_ends_with_the_first_failing_status() {
    type Case = (&'static [&'static [u8]], i32, &'static [u8]);

    let server = Running::on_unix();
    let cases: [Case; 6] = [
        (&[], 0, b""),
        (&[b"true", b"echo a"], 0, b"a\n"),
        (&[b"echo a; exit 7", b"echo b"], 7, b"a\n"),
        (&[b"kill -KILL $$"], 137, b""),
        (&[b"kill -TERM $$", b"echo b"], 143, b""),
        (&[b"/nonexistent 2>/dev/null"], 127, b""),
    ];
    for (commands, status, stdout) in cases {
        let held = server.hold(given(commands), Manner::Batch);
        assert_eq!((held.0, held.1.as_slice()), (status, stdout), "{commands:?}");
    }
}

#[test]
fn a_script_stops_at_a_failure_and_a_stream_does_not() {
    let server = Running::on_unix();
    let path = server.directory.path().join("script");
    fs::write(&path, "echo a\n\n  \n# a comment\nexit 3\necho b").unwrap();
    let script = || Commands::Read(Lines::new(File::open(&path).unwrap()));
    let batch = server.hold(script(), Manner::Batch);
    assert_eq!((batch.0, batch.1.as_slice()), (3, &b"a\n"[..]));
    let stream = server.hold(script(), Manner::Stream);
    assert_eq!((stream.0, stream.1.as_slice()), (0, &b"a\nb\n"[..]));
}

#[test]
fn a_command_that_cannot_be_started_says_so() {
    let server = Running::on_unix();
    let (status, stdout, stderr) = server.hold(given(&[b"echo \0"]), Manner::Batch);
    assert_eq!((status, stdout), (126, Vec::new()));
    assert!(stderr.starts_with(b"standin: cannot run the command"));
}

#[test]
fn a_background_process_neither_delays_the_end_nor_fills_memory() {
    let server = Running::on_unix();
    let mut link = server.link_let_in();
    link.send(&Frame::Run(b"yes & echo $! >&2; exit 4".to_vec())).unwrap();
    let mut pid = Vec::new();
    let status = loop {
        match next(&mut link) {
            Frame::Stderr(bytes) => pid.extend(bytes),
            Frame::Stdout(_) => {}
            Frame::Done(status) => break status,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(status, 4);
    // Nobody reads its pipe any more.
    let pid: i32 = std::str::from_utf8(&pid).unwrap().trim().parse().unwrap();
    if let Ok(held) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) {
        assert!(Watched(held).ends());
    }
}

#[test]
fn cancel_interrupts_the_group_and_the_connection_goes_on() {
    let server = Running::on_unix();
    let mut link = server.link_let_in();
    // Crossed with nothing: means nothing.
    link.send(&Frame::Cancel).unwrap();
    link.send(&Frame::Run(b"yes; echo reached".to_vec())).unwrap();
    // A shell that is just starting a program may lose an interrupt, at a terminal as well.
    // This program runs: it says so.
    assert!(matches!(next(&mut link), Frame::Stdout(_)));
    link.send(&Frame::Cancel).unwrap();
    let status = loop {
        match next(&mut link) {
            Frame::Stdout(bytes) => assert!(!bytes.contains(&b'r'), "the shell went on"),
            Frame::Done(status) => break status,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(status, 130);
    link.send(&Frame::Run(b"echo again".to_vec())).unwrap();
    assert_eq!(next(&mut link), Frame::Stdout(b"again\n".to_vec()));
}

#[test]
fn a_command_that_ignores_the_interrupt_is_killed() {
    let server = Running::on_unix();
    let mut link = server.link_let_in();
    let command = format!("trap '' INT; {FOR_EVER} & echo $!; wait");
    link.send(&Frame::Run(command.into_bytes())).unwrap();
    let Frame::Stdout(pid) = next(&mut link) else { panic!("no process id") };
    let sleeping = Watched::pid(&pid);
    assert!(sleeping.lives());
    link.send(&Frame::Cancel).unwrap();
    assert_eq!(next(&mut link), Frame::Done(137));
    assert!(sleeping.ends());
}

#[test]
fn an_interrupted_client_cancels_and_remembers_it() {
    let server = Running::on_unix();
    let (interruptions, interrupt) = Signals::none().unwrap();
    let mut client = server.client();
    let (told, hears) = channel();
    let mut stdout = Telling(told);
    thread::scope(|scope| {
        scope.spawn(move || {
            assert_eq!(hears.recv_timeout(PATIENCE).unwrap(), b"started\n");
            rustix::io::write(&interrupt, b"!").unwrap();
        });
        let command = format!("echo started; {FOR_EVER}").into_bytes();
        let outcome = client.run(command, &interruptions, &mut stdout, &mut io::sink()).unwrap();
        // 130, or 137 if the shell lost the interrupt.
        assert!(outcome.cancelled && outcome.status > 128, "{outcome:?}");
    });
}

/// A writer that passes on each write.
struct Telling(Sender<Vec<u8>>);

impl Write for Telling {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
