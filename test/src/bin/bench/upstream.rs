//! The service on the host's loopback that is reached through a proxy. It speaks no TLS:
//! what a proxy does with a tunnel is the same.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

/// What asks it for a small answer: so many bytes. Every other line is a number of bytes
/// that are wanted.
pub(crate) const ASK_SMALL: &[u8] = b"1024\n";
pub(crate) const ANSWER: usize = 1024;

/// Starts it, for as long as this process lives; its port.
pub(crate) fn serve() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::Builder::new().name("upstream".into()).spawn(move || {
        for stream in listener.incoming().flatten() {
            // A connection that breaks is the client's business.
            let small = std::thread::Builder::new().stack_size(128 << 10);
            let _ = small.spawn(move || answer(&stream));
        }
    })?;
    Ok(port)
}

fn answer(mut stream: &TcpStream) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let chunk = vec![b'x'; 64 << 10];
    for line in BufReader::new(stream).lines() {
        let mut left: usize = line?.parse()?;
        while left > 0 {
            let now = left.min(chunk.len());
            stream.write_all(&chunk[..now])?;
            left -= now;
        }
    }
    Ok(())
}
