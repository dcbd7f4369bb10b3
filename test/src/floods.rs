//! Clients that do to the gate and the guard what no honest one does. The probe runs
//! them in a sandbox and outside.

use std::io::{self, BufRead, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use warden::GATE_VARIABLE;

/// Longer than the gate and the guard bear with anybody.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest frame that any message of the gate's needs.
const LONGEST: u32 = 1 << 20;

/// Floods the gate of the environment with so many connections of a kind: `garbage`,
/// `silent`, `half`, `huge`, `deep` wait until the gate has let go of each; `many` come
/// and go, one after the other, each with something else to say.
///
/// # Errors
/// When the gate cannot be reached, or has not let go of somebody.
pub fn flood_gate(kind: &str, count: usize) -> io::Result<()> {
    let gate = std::env::var_os(GATE_VARIABLE).ok_or(io::ErrorKind::NotFound)?;
    let mut noise = Noise(1 + count as u64);
    let mut held = Vec::new();
    for number in 0..count {
        let words = match (kind, number % 5) {
            ("many", 4) | ("silent", _) => Vec::new(),
            ("garbage", _) | ("many", 0) => noise.bytes(4096),
            ("half", _) | ("many", 1) => [&100u32.to_be_bytes()[..], b"{\"call\":"].concat(),
            ("huge", 0) | ("many", 2) => u32::MAX.to_be_bytes().to_vec(),
            ("huge", _) => [&LONGEST.to_be_bytes()[..], &noise.bytes(64 << 10)].concat(),
            ("deep", 0 | 2 | 4) | ("many", 3) => framed(&b"[".repeat(60_000)),
            ("deep", 1) => framed(&b"{\"call\":".repeat(7_000)),
            ("deep", _) => b"{\"method\":".repeat(6_000),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let mut stream = UnixStream::connect(&gate)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        // It may be gone before it has heard all of it.
        let _ = stream.write_all(&words);
        if kind != "many" {
            held.push(stream);
        }
    }
    for mut stream in held {
        stream.set_read_timeout(Some(PATIENCE))?;
        match io::copy(&mut stream, &mut io::sink()) {
            Err(e) if e.kind() != io::ErrorKind::ConnectionReset => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

fn framed(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], body].concat()
}

/// Bytes without a pattern, the same in every run (xorshift, G. Marsaglia, 2003).
struct Noise(u64);

impl Noise {
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let next = || {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0.to_le_bytes()
        };
        std::iter::repeat_with(next).take(count.div_ceil(8)).flatten().collect()
    }
}

/// So many clients of the proxy in the environment send the head of a request a byte
/// at a time; beside them, one that is quick fetches from `target` ten times. Gives what
/// it waited the longest.
///
/// # Errors
/// When the quick one is not served, or the proxy keeps the slow ones for longer than it
/// takes to show that it does not.
pub fn beside_slow_clients(count: usize, target: &str) -> io::Result<Duration> {
    let proxy = std::env::var("HTTPS_PROXY").map_err(io::Error::other)?;
    let address = proxy.trim_end_matches('/').rsplit(['@', '/']).next().unwrap_or_default();
    let mut slow = Vec::with_capacity(count);
    for _ in 0..count {
        let stream = TcpStream::connect(address)?;
        stream.set_nonblocking(true)?;
        slow.push(stream);
    }
    let began = Instant::now();
    let quick = std::thread::spawn({
        let target = target.to_owned();
        move || (0..10).map(|_| fetch(&target)).collect::<io::Result<Vec<_>>>()
    });
    let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nX-Slow: ");
    let mut bytes = head.bytes().chain(std::iter::repeat(b'x'));
    while !quick.is_finished() || !slow.is_empty() {
        let byte = bytes.next().unwrap_or(b'x');
        // Those that were not let go of yet.
        slow.retain_mut(|stream| {
            let _ = stream.write_all(&[byte]);
            let read = stream.read(&mut [0; 512]);
            matches!(read, Err(e) if e.kind() == io::ErrorKind::WouldBlock)
        });
        if began.elapsed() > 2 * PATIENCE {
            return Err(io::Error::other(format!("{} slow ones are still there", slow.len())));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let waited = quick.join().map_err(|_| io::Error::other("the quick one failed"))??;
    Ok(waited.into_iter().max().unwrap_or_default())
}

/// Fetches something through the proxy of the environment; gives how long it took.
fn fetch(target: &str) -> io::Result<Duration> {
    let began = Instant::now();
    let mut tunnel = warden::open_tunnel(target, PATIENCE)?;
    write!(tunnel.get_mut(), "GET / HTTP/1.0\r\n\r\n")?;
    let mut status = String::new();
    tunnel.read_line(&mut status)?;
    if status.contains(" 200") { Ok(began.elapsed()) } else { Err(io::Error::other(status)) }
}
