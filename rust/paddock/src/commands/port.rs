//! `paddock port`: what listens in a launch's own network, on this host's loopback.
//!
//! The keeper hands over a connection into that network for each that comes in here;
//! bytes pass between the two in this process, which the person started and ends.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use warden::Channel;

use crate::cli;
use crate::error::Error;
use crate::keeper::{Dial, Dialled, open_forward};
use crate::launch::Directories;
use crate::output::{complain, print};
use crate::state::find_launch;

/// Connections at a time: a browser opens some for each page.
const MOST_CONNECTIONS: usize = 128;
/// For the keeper to answer: it connects on a loopback.
const DIAL_LIMIT: Duration = Duration::from_secs(10);
/// How long one direction may stay silent once the other has ended.
const HALF_CLOSED_LIMIT: Duration = Duration::from_mins(1);

/// Forwards a port until it is interrupted or the launch has ended; 0 then.
pub(crate) fn port(options: &cli::Port) -> Result<u8, Error> {
    let directories = Directories::find()?;
    let launch = find_launch(Some(&options.launch), &directories)?;
    let id = launch.record.launch.as_str();
    let failed =
        |reason: String, advice: String| Error::Port { port: options.port, reason, advice };
    if !launch.is_kept {
        return Err(failed(format!("launch {id} has ended"), "paddock list".into()));
    }
    let asked = options.listens();
    let listener = TcpListener::bind(asked).map_err(|e| {
        let advice = format!("paddock port {id} {} --listen 0", options.port);
        failed(format!("{asked} cannot be listened at: {e}"), advice)
    })?;
    let unusable = |e: io::Error| failed(e.to_string(), format!("paddock info {id}"));
    let listens = listener.local_addr().map_err(unusable)?;
    let ended = ends().map_err(unusable)?;
    let socket = launch.record.launch_directory.join("control.sock");
    let desk = Arc::new(Desk::open(&socket, options.port, listens).map_err(unusable)?);
    if options.json {
        print(json!({
            "schema": 1, "launch": id, "port": options.port, "listens": listens.to_string(),
        }))?;
    } else {
        print(format_args!(
            "port {} of launch {id} is at http://{listens} until Ctrl-C",
            options.port
        ))?;
    }
    if !listens.ip().is_loopback() {
        complain(format_args!(
            "whoever reaches {listens} reaches what the agent serves; without --listen it is \
             loopback alone"
        ));
    }
    serve(&listener, &desk, &ended).map_err(unusable)?;
    Ok(0)
}

/// Readable once this process is to end.
fn ends() -> io::Result<std::os::unix::net::UnixStream> {
    let (reader, writer) = std::os::unix::net::UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(reader)
}

fn serve(listener: &TcpListener, desk: &Arc<Desk>, ended: &impl AsFd) -> io::Result<()> {
    // A caller may be gone again before it is accepted.
    listener.set_nonblocking(true)?;
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let (is_over, has_caller) = {
            let mut fds = [
                PollFd::new(ended, PollFlags::IN),
                PollFd::new(&desk.channel, PollFlags::empty()),
                PollFd::new(listener, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            // What is not asked for is told all the same: that the keeper is gone.
            let told = |at: usize| !fds[at].revents().is_empty();
            (told(0) || told(1), told(2))
        };
        if is_over {
            return Ok(());
        }
        if !has_caller {
            continue;
        }
        let Ok((caller, _)) = listener.accept() else {
            // Gone again, or out of descriptors: let some go first.
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        if open.fetch_add(1, Ordering::AcqRel) >= MOST_CONNECTIONS {
            open.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let (desk, counted) = (desk.clone(), open.clone());
        let started = std::thread::Builder::new().name("connection".into()).spawn(move || {
            desk.connect(&caller);
            counted.fetch_sub(1, Ordering::AcqRel);
        });
        if started.is_err() {
            open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Where the keeper is asked for connections.
struct Desk {
    channel: Channel,
    port: u16,
    /// One question at a time.
    turn: Mutex<()>,
    /// It was said that nobody listens inside.
    said: AtomicBool,
}

impl Desk {
    fn open(socket: &Path, port: u16, listens: SocketAddr) -> io::Result<Self> {
        let channel = Channel::new(open_forward(socket, port, listens)?);
        channel.set_deadline(Some(DIAL_LIMIT))?;
        Ok(Self { channel, port, turn: Mutex::new(()), said: AtomicBool::new(false) })
    }

    /// Connects a caller with what listens inside, for as long as both stay.
    fn connect(&self, caller: &TcpStream) {
        match self.dial() {
            Ok(inside) => {
                self.said.store(false, Ordering::Relaxed);
                relay(caller, &inside, HALF_CLOSED_LIMIT);
            }
            // Once, and again after it has been reached.
            Err(e) if !self.said.swap(true, Ordering::Relaxed) => {
                complain(format_args!("port {} of the launch is not reached: {e}", self.port));
            }
            Err(_) => {}
        }
    }

    fn dial(&self) -> io::Result<TcpStream> {
        let (told, mut sockets) = {
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            self.channel.send(&Dial {}, &[]).map_err(io::Error::other)?;
            self.channel.receive::<Dialled>().map_err(io::Error::other)?
        };
        match (told.error, sockets.pop()) {
            (None, Some(socket)) => Ok(TcpStream::from(socket)),
            (why, _) => Err(io::Error::other(why.unwrap_or_else(|| "no connection came".into()))),
        }
    }
}

/// Passes bytes on in both directions until both have ended. An open connection may be
/// silent for as long as it likes: a page that waits for changes is. One that is half
/// closed may be so for `limit`, or twice that at most.
fn relay(caller: &TcpStream, inside: &TcpStream, limit: Duration) {
    let passed = AtomicU64::new(0);
    let (ended, one_has) = (Mutex::new(0), Condvar::new());
    let pass = |from: &TcpStream, to: &TcpStream| {
        let mut reading = from;
        let _ = io::copy(&mut reading, &mut Counted { to, passed: &passed });
        let _ = to.shutdown(Shutdown::Write);
        let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
        *ended += 1;
        one_has.notify_all();
        // The other one may be blocked, which a limit of its socket's would not change now.
        let mut before = passed.load(Ordering::Relaxed);
        while *ended < 2 {
            let waited = one_has.wait_timeout(ended, limit);
            let (again, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            ended = again;
            let now = passed.load(Ordering::Relaxed);
            if *ended < 2 && waited.timed_out() && now == before {
                let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                return;
            }
            before = now;
        }
    };
    let _ = caller.set_nonblocking(false);
    let _ = (caller.set_nodelay(true), inside.set_nodelay(true));
    std::thread::scope(|scope| {
        let there = std::thread::Builder::new().spawn_scoped(scope, || pass(caller, inside));
        if there.is_ok() {
            pass(inside, caller);
        }
    });
}

/// Counts what goes to a stream.
struct Counted<'a> {
    to: &'a TcpStream,
    passed: &'a AtomicU64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.passed.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    #[test]
    fn both_directions_pass_and_each_ends_by_itself() {
        let ((mut browser, caller), (inside, mut server)) = (pair(), pair());
        let relayed = std::thread::spawn(move || relay(&caller, &inside, HALF_CLOSED_LIMIT));
        browser.write_all(b"ask").unwrap();
        browser.shutdown(Shutdown::Write).unwrap();
        let mut asked = String::new();
        server.read_to_string(&mut asked).unwrap();
        assert_eq!(asked, "ask");
        server.write_all(b"answer").unwrap();
        drop(server);
        let mut answer = String::new();
        browser.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "answer");
        relayed.join().unwrap();
    }
    #[test]
    fn one_that_is_half_closed_and_silent_ends_by_the_limit() {
        let limit = Duration::from_millis(100);
        for is_browser in [true, false] {
            let ((mut browser, caller), (inside, mut server)) = (pair(), pair());
            let relayed = std::thread::spawn(move || relay(&caller, &inside, limit));
            let (closes, stays) =
                if is_browser { (&mut browser, &mut server) } else { (&mut server, &mut browser) };
            closes.shutdown(Shutdown::Write).unwrap();
            // What comes within the limit keeps it open, for longer than the limit in all.
            for _ in 0..8 {
                std::thread::sleep(limit / 2);
                stays.write_all(b"x").unwrap();
            }
            let mut heard = String::new();
            closes.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            closes.read_to_string(&mut heard).unwrap();
            assert_eq!(heard, "xxxxxxxx");
            relayed.join().unwrap();
        }
    }
}
