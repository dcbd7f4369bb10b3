use super::*;

const PASSWORD: &str = "0123456789abcdef";

/// A server, offered at a socket in a directory of its own.
struct Offered(tempfile::TempDir);

impl Offered {
    fn start(argv: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(root.path().join("s")).unwrap();
        let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
        // Until this process ends.
        std::thread::spawn(move || serve(&listener, PASSWORD.as_ref(), &argv).map(drop));
        Self(root)
    }

    /// A caller that says `greeting`.
    fn call(&self, greeting: &str) -> UnixStream {
        let mut caller = UnixStream::connect(self.0.path().join("s")).unwrap();
        caller.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        caller.write_all(greeting.as_bytes()).unwrap();
        caller
    }

    /// One that is accepted, once that is so.
    fn accepted(&self) -> UnixStream {
        let mut caller = self.call(PASSWORD);
        hear(&mut caller, "\n");
        caller
    }
}

fn hear(caller: &mut UnixStream, words: &str) {
    let mut heard = vec![0; words.len()];
    caller.read_exact(&mut heard).unwrap();
    assert_eq!(String::from_utf8(heard).unwrap(), words);
}

fn rest(mut caller: UnixStream) -> String {
    let mut text = String::new();
    caller.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn what_is_said_and_answered_is_whole_and_either_side_may_end_it() {
    let offered = Offered::start(&["sh", "-c", "cat; echo at its end"]);
    let mut caller = offered.accepted();
    let lines = "line\n".repeat(100_000);
    let (mut to, said) = (caller.try_clone().unwrap(), lines.clone());
    let saying = std::thread::spawn(move || {
        to.write_all(said.as_bytes()).unwrap();
        to.shutdown(Shutdown::Write).unwrap();
    });
    hear(&mut caller, &lines);
    saying.join().unwrap();
    assert_eq!(rest(caller), "at its end\n");
    let ends_first = Offered::start(&["sh", "-c", "read -r line; echo got $line"]);
    let mut caller = ends_first.accepted();
    caller.write_all(b"it\n").unwrap();
    assert_eq!(rest(caller), "got it\n");
}

#[test]
fn who_does_not_know_the_password_is_told_nothing_and_starts_nothing() {
    let root = tempfile::tempdir().unwrap();
    let mark = root.path().join("started").display().to_string();
    let offered = Offered::start(&["sh", "-c", "echo >>\"$0\"; cat", &mark]);
    for greeting in ["0123456789abcdeX", "X123456789abcdef"] {
        assert_eq!(rest(offered.call(greeting)), "", "{greeting}");
    }
    let short = offered.call("0123");
    short.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(short), "");
    assert!(!Path::new(&mark).exists());
    for _ in 0..2 {
        let caller = offered.accepted();
        caller.shutdown(Shutdown::Write).unwrap();
        assert_eq!(rest(caller), "");
    }
    assert_eq!(std::fs::read_to_string(&mark).unwrap(), "\n\n", "control");
}

#[test]
fn the_next_caller_waits_for_the_end_of_the_last_ones_server() {
    let offered = Offered::start(&["cat"]);
    let first = offered.accepted();
    let mut second = offered.call(PASSWORD);
    second.set_nonblocking(true).unwrap();
    let early = second.read(&mut [0]).unwrap_err();
    assert_eq!(early.kind(), io::ErrorKind::WouldBlock);
    second.set_nonblocking(false).unwrap();
    first.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(first), "");
    hear(&mut second, "\n");
    second.write_all(b"x").unwrap();
    hear(&mut second, "x");
}

#[test]
fn a_server_that_does_not_mind_the_end_is_ended_and_so_is_what_it_started() {
    for script in [
        // It reads nothing, is told nothing by the end of its input, and ends when asked.
        "sleep 900 & echo $!; wait",
        // It does not end when it is asked either.
        "trap '' TERM; sleep 900 & echo $!; while :; do wait; done",
        // It ends at once, and leaves something that holds its output.
        "sleep 900 & echo $!",
    ] {
        let root = tempfile::tempdir().unwrap();
        let mark = root.path().join("started").display().to_string();
        // Of the last caller below nothing is to be left.
        let once = format!("[ -e \"$0\" ] && exit; : >\"$0\"; {script}");
        let offered = Offered::start(&["sh", "-c", &once, &mark]);
        let mut caller = offered.accepted();
        let (mut pid, mut byte) = (String::new(), [0]);
        while caller.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            pid.push(char::from(byte[0]));
        }
        drop(caller);
        let pid = confine::Pid::new(pid.parse().unwrap()).unwrap();
        // Served once all of the last is over.
        drop(offered.accepted());
        let deadline = Instant::now() + Duration::from_mins(1);
        // Whoever inherits it reaps it.
        let has_ended = || {
            let Ok(start) = confine::proc::start_time(pid) else { return true };
            confine::proc::has_ended(confine::ProcessId { pid, start }).unwrap()
        };
        while !has_ended() {
            assert!(Instant::now() < deadline, "{script}");
            std::thread::yield_now();
        }
    }
}
